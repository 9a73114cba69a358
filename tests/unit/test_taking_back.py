"""Torn writes: what became safe in the store, and not what belongs to it, is taken back."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from latecomer.core.effects import Append, Persist, Put, TakeBack
from latecomer.core.inputs import StoreAssigned, StoreBlocked, StoreTrimmed
from latecomer.core.outbox import RESERVE
from latecomer.core.store import SET_BACK_US
from latecomer.history import Engine, StoreFull, repair
from latecomer.model.history import key_of
from latecomer.runtime.disk import Durability
from latecomer.sim.disk import Disk
from tests.unit.hand import of
from tests.unit.store_hand import SECOND, StoreHand, past
from tests.unit.test_core_store import reborn, store
from tests.unit.test_history_damage import damaged
from tests.unit.test_history_damage import store as damage_store
from tests.unit.test_history_engine import HOUR, SETTINGS, START, event, read
from tests.unit.test_store_driver import Scene, note, put, told
from tests.unit.test_store_driver import event as small_event

stored = damage_store
"""A fixture: a store with some events."""


# -- the core ----------------------------------------------------------------------------------------------------------


def own(hand: StoreHand) -> list[int]:
    return [key.seq for key in hand.disk.store.keys if key.origin == "a"]


def taken_back(effects: list[Any]) -> list[TakeBack]:
    return [write for persist in of(effects, Persist) for write in persist.writes if isinstance(write, TakeBack)]


def test_what_our_disk_does_not_know_of_is_taken_back() -> None:
    hand = store()
    hand.publish("t/x")
    hand.publish("t/x")
    assert own(hand) == [1, 2]
    torn = Disk(hand.disk.tables, hand.disk.store)
    ghost = past("a", 3, hand.now, epoch=hand.broker.events.epoch)
    torn.append([Append(ghost), Put("meta", "", "kept", 3)])
    torn.append([Append(past("d", 9, hand.now)), Append(past("a", 9, hand.now, epoch=99))])
    reborn(hand, SECOND)
    assert own(hand) == [1, 2, 9], "other origins, and other lives of this one, are left alone"


def test_the_first_write_of_a_store_is_taken_back_when_it_was_torn() -> None:
    """What the store was told to keep, and an event of its first moment, were one write: only the event became safe."""
    hand = StoreHand("b", "c")
    hand.line()
    hand.publish("t/x")
    torn = Disk(hand.disk.tables, hand.disk.store)
    torn.append([Append(past("a", 2, hand.now, epoch=hand.broker.events.epoch)), Append(past("d", 9, hand.now))])
    reborn(hand, SECOND)
    assert [key.origin for key in hand.disk.store.keys] == ["d"]


def test_a_store_of_an_earlier_version_takes_nothing_back_for_want_of_a_mark() -> None:
    hand = store()
    hand.publish("t/x")
    del hand.disk.tables["meta"][""]["kept"]
    reborn(hand, SECOND)
    assert own(hand) == [1]


def test_a_store_that_never_kept_anything_takes_nothing_back() -> None:
    hand = StoreHand("b", "c")
    again = StoreHand("b", "c", boot=2, disk=hand.disk)
    assert "kept" not in again.table("meta")


def test_what_others_kept_of_us_is_ours_to_keep() -> None:
    """Events that were published before this broker had a store come back to it as what they are: the past."""
    hand = StoreHand("b", "c")
    hand.line()
    for _ in range(3):
        hand.publish("t/x")
    hand.keep()
    assert hand.table("meta")["kept"] == 3
    hand.broker.history.store.append(past("a", 2, hand.now, epoch=hand.broker.events.epoch))
    hand.tell(StoreTrimmed(0))
    assert own(hand) == [2]
    assert hand.table("meta")["kept"] == 3
    reborn(hand, SECOND)
    assert own(hand) == [2]


def test_after_a_start_new_events_are_beyond_the_mark() -> None:
    hand = store()
    hand.publish("t/x")
    again = reborn(hand, SECOND)
    kept = again.table("meta")["kept"]
    assert isinstance(kept, int)
    assert kept >= RESERVE
    assert own(again) == [1]


def test_a_start_looks_only_at_what_came_last() -> None:
    """However long ago this broker's own clients published anything: a store can be large."""
    hand = store()
    hand.publish("t/x")
    hand.wait(600 * SECOND)
    alive = hand.table("meta")["store_alive"]
    assert isinstance(alive, int)
    (order,) = taken_back(StoreHand("b", "c", boot=2, disk=hand.disk).first)
    assert order.since_us == alive - SET_BACK_US > hand.now - 2 * SET_BACK_US


def test_numbers_of_an_earlier_life_are_no_mark() -> None:
    hand = store()
    hand.publish("t/x")
    hand.broker.history.store.append(past("a", 10**9, hand.now, epoch=99))
    hand.publish("t/x")
    assert hand.table("meta")["kept"] == 2


# -- the engine --------------------------------------------------------------------------------------------------------


def test_the_engine_removes_them_with_their_sums(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with Engine.open(folder, SETTINGS, durability="none") as engine:
        engine.append([event(1), event(2, at=START + HOUR), event(3, at=START + 2 * HOUR), event(3, origin="b2")])
        assert engine.take_back("b1", 1, 1, START + HOUR) == 2
        assert engine.take_back("b1", 1, 1, START + HOUR) == 0
        assert [key_of(e).seq for e in read(engine)] == [1, 3]
        assert engine.status().events == 2
        assert engine.survey("#", START, START + 3 * HOUR, HOUR)[0].count == 2
        report = engine.verify()
        assert not report.problems
        assert engine.append([event(2, at=START + HOUR)]) == 1, "its place is free"
    with Engine.open(folder, SETTINGS, durability="none") as engine:
        assert engine.status().events == 3


def test_wrong_sums_do_not_stop_it(stored: Path, tmp_path: Path) -> None:
    folder = damaged(stored, tmp_path / "store", "DELETE FROM sums")
    with Engine.open(folder, SETTINGS, durability="none") as engine:
        before = read(engine)
        origin, epoch = before[0].id.origin, before[0].id.epoch
        gone = engine.take_back(origin, epoch, -1, 0)
        assert gone == sum((e.id.origin, e.id.epoch) == (origin, epoch) for e in before)
        assert [e.id for e in read(engine)] == [e.id for e in before if (e.id.origin, e.id.epoch) != (origin, epoch)]


def test_damage_does_not_stop_it(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with the structure of a segment is found by whoever is the first to look."""
    taken = repair._take_back
    troubles = [sqlite3.DatabaseError("database disk image is malformed")]

    def malformed(*wanted: Any) -> int | None:
        if troubles:
            raise troubles.pop()
        return taken(*wanted)

    folder = tmp_path / "store"
    shutil.copytree(stored, folder)
    with Engine.open(folder, SETTINGS, durability="none") as engine:
        before = read(engine)
        monkeypatch.setattr(repair, "_take_back", malformed)
        newest = before[-1].id
        assert engine.take_back(newest.origin, newest.epoch, newest.seq - 1, 0) == 1
        assert [e.id for e in read(engine)] == [e.id for e in before if e.id != newest]
        assert "malformed" in engine.problems[-1].why


# -- the driver --------------------------------------------------------------------------------------------------------


def test_the_store_takes_back_before_anything_else_is_written() -> None:
    async def story(scene: Scene) -> None:
        scene.engine.events = [small_event(1), small_event(2)]
        scene.tell(Persist([TakeBack("a", 1, 1, 0), put(1)]), note("after"))
        await scene.until(lambda: scene.disk.submitted)
        assert scene.engine.events == [small_event(1)]
        assert scene.disk.submitted == [[put(1)]]
        scene.disk.commit()
        assert scene.noted == ["after"]

    told(story, Durability.POWER)


def test_a_store_that_comes_later_takes_back_first() -> None:
    """A broker that was started without its store gets it back while it runs."""

    async def story(scene: Scene) -> None:
        scene.engine.events = [small_event(1), small_event(2)]
        scene.driver.keeper = None
        scene.tell(Persist([TakeBack("a", 1, 1, 0), put(1)]))
        scene.disk.commit()
        scene.core.answers[StoreAssigned] = [Persist([Append(small_event(3))]), note("kept")]
        scene.driver.employ(scene.keeper)
        await scene.until(lambda: scene.noted)
        assert scene.engine.events == [small_event(1), small_event(3)]
        [assigned] = scene.heard(StoreAssigned)
        assert (assigned.topics, assigned.kept_from_us) == (("t/#",), 17)

    told(story, Durability.POWER)


@pytest.mark.parametrize("nothing_fits", [False, True])
def test_a_start_with_a_full_disk(monkeypatch: pytest.MonkeyPatch, nothing_fits: bool) -> None:
    """Nothing is to be kept, so nothing is missing; what cannot be taken back stays, and the broker begins."""

    def no_room(*wanted: object) -> int:
        raise StoreFull("no room")

    async def story(scene: Scene) -> None:
        scene.engine.trouble = StoreFull("less is free than the reserve")
        if nothing_fits:
            monkeypatch.setattr(scene.engine, "take_back", no_room)
        scene.tell(Persist([TakeBack("a", 1, 1, 0), put(1)]), note("after"))
        await scene.until(lambda: scene.disk.submitted)
        scene.disk.commit()
        assert scene.noted == ["after"]
        assert scene.heard(StoreBlocked) == []

    assert told(story).keeper.problem == ""
