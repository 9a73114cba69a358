"""A store when the power goes, when there is no room, and when writing or syncing fails: at every moment."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import apsw
import pytest

from latecomer.history import Engine, EngineSettings, StoreFailed, StoreFull
from latecomer.history import segment as segment_module
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from latecomer.model.ids import EventId
from tests.properties.test_history_laws import all_pages
from tests.simulation.lossy_disk import broken, broken_sync, full
from tests.simulation.lossy_store import LossyStoreFiles

SECOND = 1_000_000
KEEP = 40 * SECOND
SETTINGS = EngineSettings(keep_us=KEEP, segment_us=10 * SECOND, reserve_bytes=0)
CUTS = 40 * int(os.environ.get("LATECOMER_DISK_TIMES", "1"))
BATCHES = 60


@dataclass(slots=True)
class Story:
    """A store on lossy files, what it was given, and what it said."""

    folder: Path
    durability: str = "power"
    files: LossyStoreFiles = field(default_factory=LossyStoreFiles)
    engine: Engine = field(init=False)
    given: dict[EventId, Event] = field(default_factory=dict)
    kept: dict[EventId, Event] = field(default_factory=dict)
    """Appended without an error."""
    now_us: int = 0
    refused: int = 0
    failed: bool = False

    def __post_init__(self) -> None:
        self.engine = Engine.open(self.folder, SETTINGS, durability=self.durability, vfs=self.files)

    def tell(self, random: Random, batches: int) -> None:
        """Append and expire, until all is told or the store has failed."""
        for _ in range(batches):
            self.now_us += random.randint(1, 3 * SECOND)
            late = [random.choice((0, 0, 0, random.randint(0, 20 * SECOND))) for _ in range(random.randint(1, 4))]
            events = [
                Event(
                    EventId(f"b{i}", 1, len(self.given)),
                    f"t/{random.randrange(3)}",
                    published_us=max(0, self.now_us - back),
                    payload=random.randbytes(random.choice((10, 300, 5000))),
                )
                for i, back in enumerate(late)
            ]
            self.given |= {event.id: event for event in events}
            try:
                self.engine.append(events)
                self.kept |= {event.id: event for event in events}
                if random.random() < 0.2:
                    self.engine.expire(self.now_us)
            except StoreFull:
                self.refused += 1
            except StoreFailed:
                self.failed = True
                return

    def check(self, into: Path) -> set[EventId]:
        """What is found there is sound and was given; returns which acknowledged events are missing."""
        with Engine.open(into, SETTINGS, durability="none") as engine:
            assert [problem for problem in engine.problems if "unless the power failed" not in problem.why] == []
            return missing(self, engine)


def missing(story: Story, engine: Engine) -> set[EventId]:
    found = {event.id: event for event in all_pages(engine, Query(Filter("#")), 0, 1000, 1 << 30, 10_000)}
    assert all(story.given[id] == event for id, event in found.items())
    problems = engine.problems
    assert engine.scrub(100_000) == len(found)
    report = engine.verify()
    assert report.problems == ()
    assert engine.problems == problems
    assert report.events == engine.status().events == len(found)
    kept_from_us = engine.status().kept_from_us
    assert kept_from_us <= max(0, story.now_us - KEEP)
    return {id for id, event in story.kept.items() if event.published_us >= kept_from_us} - found.keys()


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "CHECKPOINT_PAGES", 20)


def cut(folder: Path, seed: int, durability: str) -> set[EventId]:
    """Run into a power cut; which acknowledged events are missing afterwards."""
    random = Random(seed)
    story = Story(folder / f"{seed}", durability)
    goes_at = random.randrange(20, 900)
    story.files.lossy.fault = lambda number, kind: broken() if number >= goes_at else None
    story.tell(random, BATCHES)
    story.files.lossy.fault = lambda number, kind: broken()
    story.engine.close()
    story.files.cut(folder / f"{seed}-after", random)
    return story.check(folder / f"{seed}-after")


@pytest.mark.parametrize("seed", range(CUTS))
def test_a_power_cut_loses_nothing_acknowledged(seed: int, tmp_path: Path) -> None:
    assert cut(tmp_path, seed, "power") == set()


def test_without_sync_a_power_cut_loses_and_is_seen_to(tmp_path: Path) -> None:
    """The harness would notice: with durability `process` acknowledged events go. What stays is still consistent."""
    assert sum(len(cut(tmp_path, seed, "process")) for seed in range(10)) > 0


def test_the_cuts_cover_all_that_a_store_does(tmp_path: Path) -> None:
    """Guards the guard: segments begin, end and are copied during a story."""
    story = Story(tmp_path / "store")
    story.tell(Random(1), BATCHES)
    assert story.engine.status().kept_from_us > 0
    assert len(list((tmp_path / "store").glob("*.db"))) > 2
    assert story.files.lossy.kinds.count("sync") > BATCHES
    story.engine.close()


# --- no room ---


def full_once(at: int, number: int, kind: str) -> apsw.Error | None:
    return full() if number == at and kind != "sync" else None


def test_no_room_at_any_write_is_said_and_survived(tmp_path: Path) -> None:
    dry = Story(tmp_path / "dry")
    begin = dry.files.lossy.operations
    dry.tell(Random(5), 10)
    end = dry.files.lossy.operations
    dry.engine.close()
    refused = 0
    for at in range(begin + 1, end + 1):
        story = Story(tmp_path / f"{at}")
        story.files.lossy.fault = partial(full_once, at)
        story.tell(Random(5), 10)
        assert not story.failed
        refused += story.refused
        assert missing(story, story.engine) == set(), "what was kept before is served"
        assert story.engine.append(list(story.given.values())) >= 0, "and it goes on"
        story.kept = story.given
        assert missing(story, story.engine) == set()
        story.engine.close()
        assert story.check(tmp_path / f"{at}") == set()
    assert refused > 10


def test_no_room_at_all_refuses_and_serves(tmp_path: Path) -> None:
    story = Story(tmp_path / "store")
    story.tell(Random(1), 5)
    story.files.lossy.fault = lambda number, kind: full() if kind != "sync" else None
    before = dict(story.kept)
    story.tell(Random(2), 5)
    assert story.refused == 5
    assert missing(story, story.engine) == set()
    assert story.kept == before
    story.files.lossy.fault = lambda number, kind: None
    assert story.engine.append(list(story.given.values())) > 0
    story.engine.close()


# --- failure ---


def fail_at(at: int, number: int, kind: str) -> apsw.Error | None:
    """That operation fails and no other: a second attempt would seem to succeed."""
    if number != at:
        return None
    return broken_sync() if kind == "sync" else broken()


def test_a_failed_write_or_sync_stops_the_store_for_good(tmp_path: Path) -> None:
    dry = Story(tmp_path / "dry")
    begin = dry.files.lossy.operations
    dry.tell(Random(6), 10)
    end = dry.files.lossy.operations
    dry.engine.close()
    spared = 0
    for at in range(begin + 1, end + 1):
        story = Story(tmp_path / f"{at}")
        story.files.lossy.fault = partial(fail_at, at)
        story.tell(Random(6), 10)
        if not story.failed:  # it was about a file on its way out
            assert missing(story, story.engine) == set()
            spared += 1
            story.engine.close()
            continue
        with pytest.raises(StoreFailed, match="must stop"):
            story.engine.append([Event(EventId("late", 1, 1), "t", published_us=story.now_us)])
        after_failure = story.files.lossy.operations
        story.engine.close()
        assert story.files.lossy.operations == after_failure, "a failed store was touched again"
        story.files.cut(tmp_path / f"{at}-after", Random(at))
        assert story.check(tmp_path / f"{at}-after") == set()
    assert spared < (end - begin) // 4
