"""The store beside the event loop: what is safe before what, and what the core is told."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from latecomer.core.effects import Append, Close, Effect, Lookup, Note, Persist, Put, Survey
from latecomer.core.inputs import (
    Found,
    Input,
    RulesChanged,
    Started,
    StoreAssigned,
    StoreBlocked,
    StoreTrimmed,
    Surveyed,
    Woken,
)
from latecomer.history import Problem, StoreFailed, StoreFull
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Page, Query, Slice, StoreStatus, key_of
from latecomer.model.ids import EventId
from latecomer.model.record import Kind, Record
from latecomer.runtime import store as store_module
from latecomer.runtime.disk import Durability
from latecomer.runtime.driver import Driver
from latecomer.runtime.metrics import Counters
from latecomer.runtime.store import Keeper, usual_reserve
from tests.unit.fastpath_hand import FakeDisk

PATIENCE_S = 60.0


def event(number: int) -> Event:
    return Event(EventId("a", 1, number), "t/x", published_us=1000 + number)


class MemoryEngine:
    """Keeps events in a list; every call is refused that does not come from a thread of its own."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.trouble: Exception | None = None
        self.unreadable: Exception | None = None
        self.kept_from_us: int | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.closed = False
        self.takes_from_us = 17
        self.problems: tuple[Problem, ...] = ()
        self.loop_thread = threading.get_ident()

    def _away(self) -> None:
        assert threading.get_ident() != self.loop_thread, "this would hold up the event loop"

    def append(self, events: Sequence[Event]) -> int:
        self._away()
        assert self.gate.wait(PATIENCE_S)
        if self.trouble is not None:
            raise self.trouble
        self.events += events
        return len(events)

    def take_back(self, origin: str, epoch: int, after: int, since_us: int) -> int:
        self._away()
        before = len(self.events)
        self.events = [e for e in self.events if (e.id.origin, e.id.epoch) != (origin, epoch) or e.id.seq <= after]
        return before - len(self.events)

    def read(self, query: Query, now_us: int, events_max: int, bytes_max: int) -> Page:
        self._away()
        if self.unreadable is not None:
            raise self.unreadable
        return Page(tuple(self.events[:events_max]), None)

    def survey(self, topics: str, since_us: int, until_us: int, width_us: int) -> tuple[Slice, ...]:
        self._away()
        if self.unreadable is not None:
            raise self.unreadable
        return (Slice(since_us, len(self.events), 7),)

    def expire(self, now_us: int, leaving: Callable[[int], None]) -> int | None:
        self._away()
        found, self.kept_from_us = self.kept_from_us, None
        if found is not None:
            leaving(found)
            self.events = [event for event in self.events if event.published_us >= found]
        return found

    def roll(self, now_us: int) -> None:
        self._away()

    def scrub(self) -> int:
        self._away()
        return 0

    def status(self, topics: str | None = None) -> StoreStatus:
        return StoreStatus(events=len(self.events), kept_from_us=17)

    def close(self) -> None:
        self.closed = True


class ScriptedCore:
    """Answers a fact with the effects that it was given for it, and writes down what it was told."""

    def __init__(self) -> None:
        self.told: list[Input] = []
        self.answers: dict[type, list[Effect]] = {}

    def step(self, now: int, fact: Input) -> list[Effect]:
        self.told.append(fact)
        return self.answers.pop(type(fact), [])

    def deadline(self) -> None:
        return None


class WritingDisk(FakeDisk):
    """Also keeps what was submitted."""

    def __init__(self, durability: Durability) -> None:
        super().__init__(durability)
        self.submitted: list[list[Any]] = []

    def submit(self, writes: list[Any], done: Callable[[Exception | None], None]) -> None:
        self.submitted.append(list(writes))
        super().submit(writes, done)


class Scene:
    """A driver with a store; what it performs of notes and goodbyes is written down."""

    def __init__(self, durability: Durability) -> None:
        self.core = ScriptedCore()
        self.engine = MemoryEngine()
        self.disk = WritingDisk(durability)
        self.failures: list[Exception] = []
        self.keeper = Keeper(self.engine, ("t/#",), lambda: 5_000_000)
        self.driver = Driver(
            cast(Any, self.core),
            cast(Any, self.disk),
            Counters(),
            None,
            lambda: 5_000_000,
            1 << 20,
            self.failures.append,
            keeper=self.keeper,
        )
        self.noted: list[str] = []
        self.driver._perform_table[Note] = lambda effect: self.noted.append(effect.record.detail)

    def tell(self, *effects: Effect) -> None:
        """A fact that has these effects."""
        self.core.answers[RulesChanged] = list(effects)
        self.driver.tell(RulesChanged())

    async def until(self, done: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not done():
                await asyncio.sleep(0.001)

    def heard(self, kind: type) -> list[Any]:
        return [fact for fact in self.core.told if type(fact) is kind]


def told(story: Callable[[Scene], Awaitable[None]], durability: Durability = Durability.POWER) -> Scene:
    async def run() -> Scene:
        scene = Scene(durability)
        try:
            await story(scene)
        finally:
            scene.engine.gate.set()
            scene.driver.stop()
            scene.keeper.close()
        return scene

    return asyncio.run(run())


def note(word: str) -> Note:
    return Note(Record(0, "a", Kind.STARTED, detail=word))


def put(number: int) -> Put:
    return Put("meta", "", "x", number)


def test_the_core_learns_at_the_start_what_the_store_keeps() -> None:
    async def story(scene: Scene) -> None:
        scene.driver.start()

    scene = told(story)
    assert scene.core.told == [Started(), StoreAssigned(("t/#",), 17, 17, starting=True)]
    assert scene.engine.closed


def test_a_store_that_may_keep_again_what_it_let_go_of_says_so() -> None:
    async def story(scene: Scene) -> None:
        scene.engine.takes_from_us = 5
        scene.driver.start()

    assert told(story).heard(StoreAssigned) == [StoreAssigned(("t/#",), 5, 17, starting=True)]


def test_first_the_store_then_the_disk_then_what_waited() -> None:
    async def story(scene: Scene) -> None:
        scene.engine.gate.clear()
        scene.tell(Persist([put(1), Append(event(1))]), note("after"))
        await asyncio.sleep(0.01)
        assert (scene.disk.submitted, scene.noted) == ([], [])
        scene.engine.gate.set()
        await scene.until(lambda: scene.disk.submitted)
        assert scene.engine.events == [event(1)]
        assert (scene.disk.submitted, scene.noted) == ([[put(1)]], [])
        scene.disk.commit()
        assert scene.noted == ["after"]

    told(story)


def test_what_gathers_meanwhile_is_one_group() -> None:
    async def story(scene: Scene) -> None:
        scene.engine.gate.clear()
        scene.tell(Persist([Append(event(1)), put(1)]), note("one"))
        scene.tell(Persist([Append(event(2)), put(2)]), note("two"))
        scene.tell(note("between"))
        scene.tell(Persist([put(3), Append(event(3))]), note("three"))
        scene.engine.gate.set()
        await scene.until(lambda: scene.disk.submitted)
        scene.disk.commit()
        await scene.until(lambda: len(scene.disk.submitted) == 2)
        assert scene.noted == ["one"]
        assert scene.engine.events == [event(1), event(2), event(3)]
        scene.disk.commit()
        assert scene.noted == ["one", "two", "between", "three"]

    assert told(story).disk.submitted == [[put(1)], [put(2), put(3)]]


def test_without_durability_events_are_kept_and_nothing_else_is_written() -> None:
    async def story(scene: Scene) -> None:
        scene.tell(Persist([put(1)]), note("at once"))
        assert scene.noted == ["at once"]
        scene.tell(Persist([put(2), Append(event(1))]), Lookup(4, Query(Filter("t/#")), 10, 1000))
        await scene.until(lambda: scene.heard(Found))
        assert scene.heard(Found) == [Found(4, Page((event(1),), None))]

    scene = told(story, Durability.NONE)
    assert (scene.disk.submitted, scene.engine.events) == ([], [event(1)])


def test_a_lookup_sees_what_was_persisted_before_it() -> None:
    async def story(scene: Scene) -> None:
        scene.tell(Persist([Append(event(1))]), note("kept"))
        scene.tell(Lookup(9, Query(Filter("t/#"), after=key_of(event(0))), 10, 1000))
        scene.tell(Survey(10, "t/#", 5, 50, 10))
        await scene.until(lambda: scene.heard(Surveyed))

    scene = told(story)
    assert scene.heard(Found) == [Found(9, Page((event(1),), None))]
    assert scene.heard(Surveyed) == [Surveyed(10, (Slice(5, 1, 7),))]
    assert scene.noted == ["kept"]


@pytest.mark.parametrize("trouble", [StoreFailed("a checksum is wrong"), OSError("no such file")])
def test_a_store_that_cannot_be_read_says_so_and_goes_on(trouble: Exception) -> None:
    async def story(scene: Scene) -> None:
        scene.engine.unreadable = trouble
        scene.tell(Lookup(1, Query(Filter("t/#")), 10, 1000), Survey(2, "t/#", 0, 9, 9))
        await scene.until(lambda: scene.heard(Surveyed))
        scene.engine.unreadable = None
        scene.tell(Lookup(3, Query(Filter("t/#")), 10, 1000))
        await scene.until(lambda: len(scene.heard(Found)) == 2)

    scene = told(story)
    problem = f"the store cannot be read: {trouble}"
    assert scene.heard(Found) == [Found(1, Page((), None), problem), Found(3, Page((), None))]
    assert scene.heard(Surveyed) == [Surveyed(2, (), problem)]
    assert scene.failures == []


def test_a_full_store_lets_the_rest_go_on_and_takes_more_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """That something is missing is as safe as what is done about those who are missing."""
    monkeypatch.setattr(store_module, "RETRY_S", 0.005)

    async def story(scene: Scene) -> None:
        scene.engine.trouble = StoreFull("no room")
        scene.engine.gate.clear()
        scene.core.answers[StoreBlocked] = [Persist([put(99)]), note("gap")]
        scene.tell(Persist([Append(event(5)), put(1)]), note("one"))
        scene.tell(Persist([Append(event(3)), put(2)]), note("two"))
        scene.engine.gate.set()
        await scene.until(lambda: scene.disk.submitted)
        assert scene.keeper.problem == "the store is full: no room"
        assert (scene.keeper.appended, scene.keeper.refused) == (0, 2)
        assert scene.noted == []
        scene.disk.commit()
        assert scene.noted == ["one", "two", "gap"]
        scene.tell(Lookup(1, Query(Filter("t/#")), 10, 1000))
        await scene.until(lambda: scene.heard(Found))
        scene.engine.trouble = None
        await scene.until(lambda: len(scene.heard(StoreBlocked)) == 2)
        scene.tell(Persist([Append(event(6))]), note("three"))
        await scene.until(lambda: "three" in scene.noted)

    scene = told(story)
    assert scene.disk.submitted == [[put(1), put(2), put(99)]]
    assert scene.heard(StoreBlocked) == [StoreBlocked(True, event(3).published_us), StoreBlocked(False)]
    assert scene.engine.events == [event(5), event(6)]
    assert scene.keeper.problem == ""


def test_a_store_that_failed_stops_the_broker_and_acknowledges_nothing() -> None:
    async def story(scene: Scene) -> None:
        scene.engine.trouble = StoreFailed("the disk is broken")
        scene.tell(Persist([Append(event(1)), put(1)]), Close(1, ""), note("after"))
        await scene.until(lambda: scene.failures)

    scene = told(story)
    assert [str(error) for error in scene.failures] == ["the disk is broken"]
    assert (scene.disk.submitted, scene.noted) == ([], [])


def test_what_the_store_let_go_of_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "TIDY_S", 0.005)

    async def story(scene: Scene) -> None:
        scene.driver.start()
        scene.engine.events = [event(1)]
        told_of: list[int] = []
        tell = scene.keeper.tell

        def hear(fact: Input) -> None:
            if isinstance(fact, StoreTrimmed):
                told_of.append(len(scene.engine.events))
            tell(fact)

        scene.keeper.tell = hear
        scene.engine.kept_from_us = 4000
        await scene.until(lambda: not scene.engine.events)
        assert told_of == [1], "before it goes"

    assert told(story).heard(StoreTrimmed) == [StoreTrimmed(4000)]


def test_a_store_that_cannot_be_tidied_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "TIDY_S", 0.005)

    async def story(scene: Scene) -> None:
        def unreachable(now_us: int) -> None:
            raise OSError("the bucket is gone")

        tidy, scene.engine.roll = scene.engine.roll, unreachable  # type: ignore[method-assign]
        scene.engine.kept_from_us = 400
        scene.driver.start()
        await scene.until(lambda: scene.keeper.tidy_problem)
        assert scene.heard(StoreTrimmed) == []
        scene.engine.roll = tidy  # type: ignore[method-assign]
        await scene.until(lambda: scene.heard(StoreTrimmed) and not scene.keeper.tidy_problem)

    assert told(story).failures == []


def test_after_the_end_nothing_is_told() -> None:
    async def story(scene: Scene) -> None:
        scene.engine.gate.clear()
        scene.tell(Persist([Append(event(1))]), note("after"))
        scene.driver.stop()
        scene.engine.gate.set()
        await asyncio.sleep(0.02)

    scene = told(story)
    assert (scene.noted, scene.heard(Woken)) == ([], [])


def test_a_small_file_system_has_a_small_reserve(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    size = found.f_blocks * found.f_frsize
    assert usual_reserve(tmp_path) == min(128 * 1024 * 1024, size // 25)


def test_damage_that_is_found_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        scene.engine.problems = (Problem("1.db", None, "a page is not what it was"),)

        async def tidied() -> None:
            before = scene.keeper.status
            scene.keeper._tidy()
            await scene.until(lambda: scene.keeper.status is not before)

        await tidied()
        await tidied()

    scene = told(story)
    assert len([line for line in caplog.messages if "a page is not what it was" in line]) == 1
    assert scene.keeper.troubles == ("1 damaged places in the store: see the log, or latecomer store verify",)
