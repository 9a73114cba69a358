"""A store whose disk is full: nothing new is kept, what is there is served, and everybody can know it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from latecomer.cli.main import VERBS, run
from tests.abuse.house import House, ballast, running, settled, small_disk

Capture = pytest.CaptureFixture[str]
SIZE = 20_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 24) as folder:
        yield folder


def payload(number: int) -> bytes:
    return b"%d" % number + b" " * SIZE


def history(house: House, capfd: Capture) -> tuple[int, list[int], str]:
    """Exit code, what came, and what was said about it."""
    capfd.readouterr()
    words = ["--host", "127.0.0.1", "--port", str(house.ports["mqtt"]), "--format", "json"]
    code = run(VERBS, ["history", "kept/#", *words])
    said = capfd.readouterr()
    return code, [int(json.loads(line)["payload"]) for line in said.out.splitlines()], said.err


def told(house: House, capfd: Capture) -> dict[str, object]:
    capfd.readouterr()
    data = house.folder / "data"
    admin = f"http://127.0.0.1:{house.ports['http']}"
    assert run(VERBS, ["stores", "--admin", admin, "--network", str(data), "--json"]) == 0
    store: dict[str, object] = json.loads(capfd.readouterr().out)[0]["store"]
    return store


@pytest.mark.parametrize("reserve", [2_000_000, 0], ids=["nearly full", "full"])
def test_a_full_store_serves_and_recovers(reserve: int, tmp_path: Path, disk: Path, capfd: Capture) -> None:
    section = {"topics": ["kept/#"], "directory": disk / "store", "reserve": reserve}
    with running(tmp_path, store=section) as house:
        settled(lambda: "the store answers for kept/#" in house.log, "the store answers")
        publisher, listener = house.join(), house.join()
        listener.subscribe(("kept/#", 0))

        def publish(number: int) -> None:
            answer = publisher.publish("kept/x", payload(number))
            assert answer is not None
            assert answer.reason == 0  # whether it is kept is not the publisher's business
            assert listener.take().payload == payload(number)

        for number in range(3):
            publish(number)
        with ballast(disk, leaves=reserve // 2 or 4096):
            number = 3
            while "the store is full" not in house.log:
                publish(number)
                number += 1
                assert number < 2000, "the store never becomes full"
            publish(number)
            code, found, said = history(house, capfd)
            assert code == 3
            assert found == list(range(len(found)))
            assert 3 <= len(found) <= number
            assert "the history is incomplete" in said
            store = told(house, capfd)
            assert str(store["problem"]).startswith("the store is full")
            assert int(str(store["refused"])) >= 1
            assert house.metrics()["latecomer_store_refused_total"] >= 1
        settled(lambda: "there is room in the store again" in house.log, "the store takes more")
        assert told(house, capfd)["problem"] == ""
        before = set(found)
        publish(number + 1)
        code, found, _ = history(house, capfd)
        assert before < set(found)
        assert found[-1] == number + 1
        assert house.log.count("the store is full") == 1
