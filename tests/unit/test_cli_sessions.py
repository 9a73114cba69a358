"""`latecomer sessions` and `latecomer drain`: what is printed, and what is said when something goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest

from latecomer.cli import session_work
from latecomer.cli.doors import Door
from latecomer.cli.main import VERBS, run
from latecomer.cli.session_work import Found, move, state_of
from latecomer.cli.sessions import COLUMNS, row_of
from latecomer.runtime.admin_views import Overview, Page, TreeView
from latecomer.runtime.session_views import SessionView, Where
from tests.unit.admin_hand import TOKEN, answering, token_file

Capture = pytest.CaptureFixture[str]
NOON_US = 1_794_830_400_000_000
HERE = SessionView("b1", "c", "here", user="u", since_us=NOON_US, queue_messages=3, queue_bytes=2000, subscriptions=2)


def test_a_session_is_a_row() -> None:
    row = dict(zip(COLUMNS, row_of(HERE, NOON_US + 180_000_000), strict=True))
    assert (row["client"], row["user"], row["broker"], row["state"]) == ("c", "u", "b1", "here")
    assert (row["client is"], row["queued"], row["size"], row["durable"]) == ("away for 3 m", "3", "2 kB", "yes")


@pytest.mark.parametrize(
    ("where", "partner", "waits_for", "state"),
    [
        ("here", "", "", "here"),
        ("leaving", "b2", "", "leaving to b2"),
        ("promised", "b2", "", "promised to b2"),
        ("arriving", "b2", "", "arriving from b2"),
        ("arriving", "", "", "looked for"),
        ("arriving", "b2", "b3", "arriving, waits for b3"),
    ],
)
def test_the_state_of_a_session(where: Where, partner: str, waits_for: str, state: str) -> None:
    view = msgspec.structs.replace(HERE, where=where, partner=partner, waits_for=waits_for)
    assert row_of(view, NOON_US)[COLUMNS.index("state")] == state


def test_what_a_session_waits_for_is_said() -> None:
    door = Door("http://127.0.0.1:1", "")
    promised = msgspec.structs.replace(HERE, where="promised", partner="b2")
    arriving = msgspec.structs.replace(HERE, broker="b2", where="arriving", partner="b1", waits_for="b3")
    assert state_of(Found(), "c") == "no broker that answers has the session of 'c'"
    assert state_of(Found([(promised, door)]), "c") == "b1 has sent it to b2, which has not confirmed it"
    found = Found([(promised, door), (arriving, door)])
    assert state_of(found, "c") == "b2 waits for b3, which is away, before it can take the session over"
    assert found.owner == (promised, door)


def broker(name: str, view: Callable[[], SessionView | None], asked: list[str]) -> AbstractContextManager[str]:
    """An admin interface with at most one session."""
    overview = Overview(name, "net", "", 1, 1.0, "", TreeView("v", True, ()), (), {})

    def answer(path: str, body: bytes) -> tuple[int, object]:
        path = path.partition("?")[0].removeprefix("/api/v1/")
        if path == "overview":
            return 200, overview
        if path == "sessions":
            found = view()
            return 200, Page(() if found is None else (found,))
        asked.append(f"{name} {path}")
        return 202, {"done": ""}

    return answering(answer)


def test_a_move_ends_when_the_other_broker_has_the_session() -> None:
    asked: list[str] = []
    there = msgspec.structs.replace(HERE, broker="b2")
    with (
        broker("b1", lambda: None if asked else HERE, asked) as one,
        broker("b2", lambda: there if asked else None, asked) as two,
    ):
        result = move([Door(one, TOKEN), Door(two, TOKEN)], "c", "b2", 20)
    assert result is not None
    assert (result.moved, result.source, result.problem, asked) == (True, "b1", "", ["b1 move-session"])


def test_a_client_that_comes_back_keeps_its_session() -> None:
    asked: list[str] = []
    with broker("b1", lambda: msgspec.structs.replace(HERE, connected=bool(asked)), asked) as url:
        result = move([Door(url, TOKEN)], "c", "b2", 20)
    assert result is not None
    assert (result.moved, result.problem) == (False, "its client has connected to b1 again")


def test_a_move_is_asked_for_again_and_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(session_work, "AGAIN_SECONDS", 0.0)
    with broker("b1", lambda: HERE, asked) as url:
        result = move([Door(url, TOKEN)], "c", "b2", 0.5)
    assert result is not None
    assert (result.moved, result.problem, len(asked) > 1) == (False, "b1 has it; it may still move", True)


def test_options_stand_behind_the_command(capsys: Capture) -> None:
    assert run(VERBS, ["sessions", "--json", "end", "c"]) == 2
    assert "put options behind the command: latecomer sessions end" in capsys.readouterr().err


def test_a_table_of_what_answers_and_a_line_for_what_does_not(tmp_path: Path, capsys: Capture) -> None:
    token = ["--token-file", str(token_file(tmp_path))]
    with broker("b1", lambda: HERE, []) as url:
        assert run(VERBS, ["sessions", "--admin", url, "--admin", "http://127.0.0.1:1", *token]) == 0
    said = capsys.readouterr()
    assert "subscriptions" in said.out
    assert "b1" in said.out
    assert "no broker answers at http://127.0.0.1:1" in said.err
    assert run(VERBS, ["sessions", "--admin", "http://127.0.0.1:1", *token]) == 2


def test_ctrl_c_says_what_is_left(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("latecomer.cli.drain_work.Drain.begin", lambda self: None)
    monkeypatch.setattr("latecomer.cli.drain_work.Drain.carry_out", interrupted)
    with broker("b1", lambda: HERE, []) as url:
        words = ["drain", "b1", "--admin", url, "--token-file", str(token_file(tmp_path))]
        assert run(VERBS, words) == 130
    said = capsys.readouterr().out
    assert "b1: stopped, 1 session left; 0 sessions moved" in said
    assert "run this again to go on" in said
