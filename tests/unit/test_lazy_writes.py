"""Writes that nothing waits for: they begin no commit, keep their order, and are on disk before the broker is gone."""

from __future__ import annotations

import asyncio

import pytest

from latecomer.core.effects import Drop, Persist, Put
from latecomer.messages.link import Publication
from latecomer.runtime import lazy as lazy_module
from latecomer.runtime.disk import Durability
from tests.unit.hand import Hand, event, of
from tests.unit.test_store_driver import Scene, note, told


def lazily(key: int) -> Persist:
    return Persist([Drop("t", "", key)], urgent=False)


def put(key: int) -> Put:
    return Put("t", "", key, "x")


@pytest.fixture(autouse=True)
def never_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment is longer than the test."""
    monkeypatch.setattr(lazy_module, "WAIT_S", 1000.0)


def written(scene: Scene) -> list[int | str]:
    return [write.key for writes in scene.disk.submitted for write in writes]


def test_what_follows_does_not_wait_and_the_next_commit_takes_them_first() -> None:
    async def story(scene: Scene) -> None:
        scene.tell(lazily(1), note("at once"))
        assert scene.noted == ["at once"]
        assert written(scene) == []
        scene.tell(Persist([put(2)]), note("safe"))
        assert written(scene) == [1, 2]
        scene.disk.commit()
        assert scene.noted == ["at once", "safe"]

    told(story)


def test_those_that_gather_behind_a_commit_keep_their_place() -> None:
    async def story(scene: Scene) -> None:
        scene.tell(Persist([put(1)]), note("one"))
        scene.tell(lazily(2), note("two"))
        scene.tell(Persist([put(3)]), note("three"))
        scene.tell(lazily(4), note("four"))
        while scene.disk.commit():
            pass
        assert scene.noted == ["one", "two", "three", "four"]
        assert written(scene) == [1, 2, 3, 4]

    told(story)


def test_they_are_written_when_their_moment_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_module, "WAIT_S", 0.0)

    async def story(scene: Scene) -> None:
        scene.tell(lazily(1))
        await scene.until(lambda: written(scene) == [1])

    told(story)


def test_the_end_of_the_broker_writes_them() -> None:
    async def story(scene: Scene) -> None:
        scene.tell(lazily(1))
        await asyncio.sleep(0)

    assert written(told(story)) == [1]


def test_without_a_disk_they_are_forgotten() -> None:
    async def story(scene: Scene) -> None:
        scene.tell(lazily(1), note("at once"))
        assert scene.noted == ["at once"]

    assert written(told(story, Durability.NONE)) == []


def test_a_mailbox_and_its_number_are_awaited() -> None:
    hand = Hand("b", "c")
    hand.join("b", "c")
    hand.subscribe("x", "t")
    (persist,) = of(hand.hear("b", Publication(event("b", 1))), Persist)
    assert persist.urgent
    assert [write.table for write in persist.writes if isinstance(write, Put)] == ["seen", "mailbox"]
