"""`latecomer stores` asks brokers; `latecomer store` looks into files."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest

from latecomer.cli.main import VERBS, run
from latecomer.cli.stores import age, remarks, rows_of
from latecomer.history import Engine, EngineSettings
from latecomer.model.event import Event
from latecomer.model.ids import EventId
from latecomer.runtime.store_views import ClassView, OtherStoreView, StoresView, StoreView
from tests.unit.admin_hand import answering, token_file

Capture = pytest.CaptureFixture[str]
NOON_US = 1_794_830_400_000_000
STORE = StoreView(
    (ClassView("sensors/#", NOON_US, (), True),),
    events=1200,
    bytes=5_400_000,
    oldest_us=NOON_US,
    newest_us=NOON_US + 60_000_000,
    complete_since_us=NOON_US,
    requests_served=4,
    hops_mean=1.5,
)
OTHER = OtherStoreView("b4", ("sensors/#",), NOON_US, False)
KNOWING = StoresView("b2", STORE, (OTHER,), ())


def telling(said: StoresView, status: int = 200) -> AbstractContextManager[str]:
    """An admin interface that says this to whoever asks for stores."""
    return answering(lambda path, _: (status, said) if path == "/api/v1/stores" else (404, None))


@pytest.fixture
def token(tmp_path: Path) -> Path:
    return token_file(tmp_path)


def test_each_store_is_a_row() -> None:
    mine, other = rows_of([KNOWING], NOON_US + 180_000_000)
    assert mine == ("b2", "sensors/#", "1200", "5.4 MB", "3 m", "2 m", "3 m", "4", "1.50")
    assert other == ("b4", "sensors/#", "?", "?", "?", "?", "3 m", "?", "?")
    assert [sentence.partition(":")[0] for sentence in remarks([KNOWING])] == ["b4"]


def test_a_store_that_answers_itself_is_not_told_by_others() -> None:
    fourth = StoresView("b4", msgspec.structs.replace(STORE, problem="the store is full: no room"), (), ())
    assert [(row[0], row[2]) for row in rows_of([KNOWING, fourth], NOON_US)] == [("b2", "1200"), ("b4", "1200")]
    assert list(remarks([KNOWING, fourth])) == ["b4: the store is full: no room"]


def test_a_gap_that_goes_on_is_not_a_time() -> None:
    classes = (*STORE.classes, ClassView("logs/#", NOON_US))
    gap = StoresView("b2", msgspec.structs.replace(STORE, classes=classes, complete_since_us=0, filling=True), (), ())
    assert [row[6] for row in rows_of([gap], NOON_US)] == ["incomplete"]
    assert next(remarks([gap])).startswith("b2: logs/# is filled from other stores")


def test_a_store_that_was_there_from_the_beginning() -> None:
    first = StoresView("b2", msgspec.structs.replace(STORE, complete_since_us=1), (), ())
    assert [row[6] for row in rows_of([first], NOON_US)] == ["always"]


def test_a_store_whose_topics_were_withdrawn() -> None:
    empty = StoresView("b2", msgspec.structs.replace(STORE, classes=(), complete_since_us=0), (), ())
    assert [(row[1], row[2], row[6]) for row in rows_of([empty], NOON_US)] == [("", "1200", "")]
    assert list(remarks([empty])) == ["b2: no topics are assigned; old events are deleted after store.keep"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0 s"), (0.4, "0 s"), (119, "119 s"), (120, "2 m"), (7300, "2 h"), (172_000, "48 h"), (900_000, "10 d")],
)
def test_an_age_is_short(seconds: float, shown: str) -> None:
    assert age(NOON_US, NOON_US + round(seconds * 1e6)) == shown
    assert age(0, NOON_US) == ""


def test_the_table_and_the_json(token: Path, capsys: Capture) -> None:
    with telling(KNOWING) as url:
        assert run(VERBS, ["stores", "--admin", url, "--token-file", str(token)]) == 0
        assert "mean hops" in capsys.readouterr().out
        assert run(VERBS, ["stores", "--admin", url, "--token-file", str(token), "--json"]) == 0
        (told,) = json.loads(capsys.readouterr().out)
    assert told["store"]["hops_mean"] == 1.5


def test_who_is_silent_is_named_and_the_others_are_shown(token: Path, capsys: Capture) -> None:
    with telling(KNOWING) as url:
        words = ["stores", "--admin", "http://127.0.0.1:1", "--admin", url, "--token-file", str(token)]
        assert run(VERBS, words) == 0
    said = capsys.readouterr()
    assert "b2" in said.out
    assert said.err == "latecomer: no broker answers at http://127.0.0.1:1: connection refused\n"


@pytest.mark.parametrize(("status", "words"), [(401, "the token is not the right one"), (302, "302")])
def test_a_refusal_and_a_false_trail(status: int, words: str, token: Path, capsys: Capture) -> None:
    with telling(KNOWING, status) as url:
        assert run(VERBS, ["stores", "--admin", url, "--token-file", str(token)]) == 2
    assert f"refuses: {words}" in capsys.readouterr().err


def test_where_nobody_keeps_anything(token: Path, capsys: Capture) -> None:
    with telling(StoresView("b1", None, (), ())) as url:
        assert run(VERBS, ["stores", "--admin", url, "--token-file", str(token)]) == 0
    assert "no broker keeps any history" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--network", "nowhere"], "--network: nowhere is not the data folder"),
        (["--token-file", "x"], "--token-file: needs --admin"),
        (["--admin", "ftp://x", "--token-file", "{token}"], "--admin: 'ftp://x' is not an address"),
        (["--admin", "http://x:y", "--token-file", "{token}"], "--admin: 'http://x:y' is not an address"),
    ],
)
def test_what_cannot_be_asked(words: list[str], sentence: str, token: Path, capsys: Capture) -> None:
    assert run(VERBS, ["stores", *(word.format(token=token) for word in words)]) == 2
    assert sentence in capsys.readouterr().err


def test_the_settings_of_a_broker_say_where_it_is(token: Path, tmp_path: Path, capsys: Capture) -> None:
    config = tmp_path / "s.toml"
    with telling(KNOWING) as url:
        config.write_text(f"[admin]\nport = {url.rpartition(':')[2]}\ntoken_file = '{token}'\n", encoding="utf-8")
        assert run(VERBS, ["stores", "--config", str(config)]) == 0
    assert "b2" in capsys.readouterr().out
    config.write_text("[admin]\nport = 0\n", encoding="utf-8")
    assert run(VERBS, ["stores", "--config", str(config)]) == 2
    assert "admin.port: is 0 and the broker has not run yet" in capsys.readouterr().err


# -- files


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The data directory of a broker with three events in its store."""
    folder = tmp_path / "data" / "store"
    folder.mkdir(parents=True, mode=0o700)
    events = [Event(EventId("b1", 1, n), f"t/{n}", "p", NOON_US + n, payload=b"x" * 100) for n in (1, 2, 3)]
    with Engine.open(folder, EngineSettings(keep_us=0)) as engine:
        assert engine.append(events) == 3
    return tmp_path / "data"


def test_what_is_in_a_store(kept: Path, capsys: Capture) -> None:
    assert run(VERBS, ["store", "status", str(kept)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["events", "3"]
    assert said[2].split() == ["oldest", "2026-11-16T12:00:00.000001Z"]
    assert run(VERBS, ["store", "status", str(kept / "store")]) == 0
    assert capsys.readouterr().out.splitlines() == said


def test_a_sound_store_and_a_damaged_one(kept: Path, capsys: Capture) -> None:
    config = kept.parent / "s.toml"
    config.write_text("[broker]\ndata = 'data'\n", encoding="utf-8")
    assert run(VERBS, ["store", "verify", "--config", str(config)]) == 0
    assert capsys.readouterr().out.startswith("3 events in ")
    damage(kept / "store")
    assert run(VERBS, ["store", "verify", str(kept)]) == 1
    said = capsys.readouterr()
    assert "2026-11-16T12:00:00.000002Z b1.1.2" in said.out
    assert "1 damaged place among" in said.err


def damage(folder: Path) -> None:
    """One bit of the payload of the second event."""
    for file in folder.rglob("*"):
        data = file.read_bytes() if file.is_file() else b""
        at = data.find(b"t/2")
        if at >= 0:
            at = data.index(b"x" * 100, at)
            file.write_bytes(data[:at] + b"y" + data[at + 1 :])
            return
    raise AssertionError("the event is nowhere")


def test_a_store_in_use_is_left_alone(kept: Path, capsys: Capture) -> None:
    with Engine.open(kept / "store", EngineSettings(keep_us=0)):
        assert run(VERBS, ["store", "verify", str(kept)]) == 2
    assert "in use" in capsys.readouterr().err


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, capsys: Capture) -> None:
    assert run(VERBS, ["store", "status", str(tmp_path / "none")]) == 2
    assert "is not there" in capsys.readouterr().err
    assert run(VERBS, ["store", "status"]) == 2
    assert "say where the store is" in capsys.readouterr().err
    for verb in ("status", "verify"):
        assert run(VERBS, ["store", verb, str(tmp_path)]) == 2
        assert "there is no store in " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
