"""Letting go: by age, size and count, whole segments, the oldest first; and into the cold tier."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import msgspec
import pytest

from latecomer.history import Engine, EngineSettings
from latecomer.history import hot as hot_module
from latecomer.history.cold import ColdTier
from latecomer.history.cold_errors import ColdError
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from tests.properties.test_history_laws import all_pages, sums
from tests.unit.test_history_engine import ALL, HOUR, SECOND, START, event, read

SETTINGS = EngineSettings(keep_us=0, reserve_bytes=0)
MINUTE = 60 * SECOND


def opened(folder: Path, **changes: object) -> Engine:
    return Engine.open(folder, msgspec.structs.replace(SETTINGS, **changes), durability="none")


def hourly(hours: int) -> list[Event]:
    return [event(hour, at=START + hour * HOUR + MINUTE) for hour in range(hours)]


# --- age ---


def test_age_is_a_lower_bound(tmp_path: Path) -> None:
    events = hourly(5)
    with opened(tmp_path / "s", keep_us=2 * HOUR) as engine:
        engine.append(events)
        assert engine.expire(START + 3 * HOUR - 1) is None
        assert engine.expire(START + 3 * HOUR) == START + HOUR
        assert read(engine) == events[1:]
        assert engine.expire(START + 3 * HOUR + 59 * MINUTE) is None, "the segment goes as a whole"
        assert engine.expire(START + 4 * HOUR) == START + 2 * HOUR
        assert engine.status().kept_from_us == START + 2 * HOUR
        assert engine.append(events[:2]) == 0, "what was let go of does not come back"
        assert engine.append([event(77, at=START + 2 * HOUR)]) == 1
        assert engine.expire(START + 100 * HOUR) == START + 5 * HOUR, "by age everything may go"
        assert read(engine) == []
        assert [path.name for path in (tmp_path / "s").glob("*.db*")] == []


def test_since_when_is_remembered(tmp_path: Path) -> None:
    with opened(tmp_path / "s", keep_us=2 * HOUR) as engine:
        engine.append(hourly(5))
        engine.expire(START + 5 * HOUR)
    with opened(tmp_path / "s") as engine:
        assert engine.status().kept_from_us == START + 3 * HOUR
        assert engine.append(hourly(3)) == 0
        assert engine.status().events == 2
    (tmp_path / "s" / "kept").write_text("damaged")
    with opened(tmp_path / "s") as engine:
        assert engine.status().kept_from_us == START + 3 * HOUR, "the oldest segment begins there"
        assert [problem.segment for problem in engine.problems] == ["kept"]


def test_letting_go_that_was_interrupted_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "s"
    with opened(folder, keep_us=2 * HOUR) as engine:
        engine.append(hourly(5))
        monkeypatch.setattr(hot_module, "remove", lambda files, path: None)
        engine.expire(START + 5 * HOUR)
    monkeypatch.undo()
    (folder / "2.db").rename(folder / "gone-2.db")
    (folder / "2.db-wal").write_bytes(b"left over")
    (folder / "2.db-wal").chmod(0o600)
    (folder / "new-9.db").write_bytes(b"half")
    with opened(folder) as engine:
        assert read(engine) == hourly(5)[3:]
        assert engine.problems == ()
    assert sorted(path.name for path in folder.iterdir()) == ["4.db", "5.db", "kept", "lock"]


# --- size and count ---


def test_size(tmp_path: Path) -> None:
    capacity = 2_000_000
    with opened(tmp_path / "s", capacity_bytes=capacity) as engine:
        kept_from_us = 0
        for seq in range(0, 3000, 20):
            engine.append([event(n, at=START + n * SECOND, payload=bytes(2000)) for n in range(seq, seq + 20)])
            gone = engine.expire(START)
            assert gone is None or gone > kept_from_us
            kept_from_us = gone or kept_from_us
            assert sum(path.stat().st_size for path in (tmp_path / "s").glob("*.db")) <= capacity
        found = read(engine)
        assert kept_from_us > 0
        assert found[-1].id.seq == 2999
        assert [one.id.seq for one in found] == list(range(found[0].id.seq, 3000))
        assert kept_from_us <= found[0].published_us
        assert len(found) * 2000 > capacity // 3, "not much more went than had to"


def test_count(tmp_path: Path) -> None:
    with opened(tmp_path / "s", events_max=800) as engine:
        for seq in range(0, 4000, 10):
            engine.append([event(n) for n in range(seq, seq + 10)])
            engine.expire(START)
            assert engine.status().events <= 800
        assert engine.status().events > 600
        assert read(engine)[-1] == event(3999)


def test_the_newest_segment_stays(tmp_path: Path) -> None:
    with opened(tmp_path / "s", events_max=1) as engine:
        engine.append([event(seq, at=START) for seq in range(5)])
        assert engine.expire(START) is None
        assert engine.status().events == 5
        engine.append([event(6, at=START + HOUR)])
        assert engine.expire(START) == START + 1, "only what was there has gone"
        assert engine.append([event(7, at=START + 1)]) == 1


def test_letting_go_while_others_append_and_read(tmp_path: Path) -> None:
    """Nobody fails, and what is found is the end of what was appended."""
    with opened(tmp_path / "s", events_max=2000, segment_us=MINUTE) as engine:
        events = [event(seq) for seq in range(6000)]
        errors: list[BaseException] = []

        def append() -> None:
            try:
                for at in range(0, 6000, 25):
                    engine.append(events[at : at + 25])
                    engine.expire(START)
            except BaseException as error:
                errors.append(error)

        thread = Thread(target=append)
        thread.start()
        while thread.is_alive():
            found = [one.id.seq for one in all_pages(engine, ALL, 0, 100, 1 << 30, 10_000)]
            assert found == sorted(found)
        thread.join()
        assert errors == []
        found = [one.id.seq for one in read(engine)]
        assert found == list(range(6000 - len(found), 6000))
        assert 1500 < len(found) <= 2000


# --- the cold tier ---


def tiered(folder: Path, **changes: object) -> Engine:
    return opened(folder / "s", hot_us=2 * HOUR, cold=str(folder / "cold"), **changes)


def test_old_segments_go_to_the_cold_tier_and_are_read_from_there(tmp_path: Path) -> None:
    events = [event(n, f"t/{n % 3}", at=START + n * 10 * MINUTE) for n in range(36)]
    with tiered(tmp_path) as engine:
        engine.append(events)
        before = engine.survey("#", 0, START + 10 * HOUR, HOUR)
        assert engine.roll(START + 6 * HOUR) == 24
        assert engine.roll(START + 6 * HOUR) == 0
        assert len(list((tmp_path / "s").glob("*.db"))) == 2
        status = engine.status()
        assert (status.events, status.cold_events) == (12, 24)
        assert (status.oldest_us, status.newest_us, status.kept_from_us) == (START, events[-1].published_us, 0)
        assert status.cold_bytes > 0
        assert engine.survey("#", 0, START + 10 * HOUR, HOUR) == before == sums(events, "#", 0, START + 10 * HOUR, HOUR)
        for query in (
            ALL,
            Query(Filter("t/1")),
            Query(Filter("#"), since_us=START + HOUR, until_us=START + 5 * HOUR),
            Query(Filter("#"), last=5),
            Query(Filter("t/1"), last=11),
            Query(Filter("#"), last=30, until_us=START + 5 * HOUR),
            Query(Filter("#"), last=100),
        ):
            wanted = [
                one
                for one in events
                if query.since_us <= one.published_us <= (query.until_us or START * 2)
                and (query.filter.topic in ("#", one.topic))
            ][-query.last :]
            for events_max in (1, 4, 100):
                assert all_pages(engine, query, 0, events_max) == wanted
    with tiered(tmp_path) as engine:
        assert all_pages(engine, ALL, 0, 7) == events


def test_what_comes_late_for_the_cold_tier_is_merged(tmp_path: Path) -> None:
    events = [event(n, at=START + n * 10 * MINUTE) for n in range(36)]
    with tiered(tmp_path) as engine:
        engine.append(events[::2])
        engine.roll(START + 6 * HOUR)
        assert engine.append(events) == 18, "what is in the cold tier is known"
        for events_max in (1, 5, 100):
            assert all_pages(engine, ALL, 0, events_max) == events
            assert all_pages(engine, Query(Filter("t"), last=20), 0, events_max) == events[-20:]
        surveyed = engine.survey("#", 0, START + 10 * HOUR, 10 * MINUTE)
        assert [slice.count for slice in surveyed] == [1] * 36
        assert engine.roll(START + 6 * HOUR) == 12
        assert engine.append(events) == 0
        assert engine.survey("#", 0, START + 10 * HOUR, 10 * MINUTE) == surveyed
        assert all_pages(engine, ALL, 0, 5) == events


def test_with_a_cold_tier_what_is_too_much_goes_there(tmp_path: Path) -> None:
    with tiered(tmp_path, events_max=3, keep_us=7 * HOUR) as engine:
        engine.append(hourly(6))
        assert engine.expire(START + HOUR) is None
        assert engine.roll(START + HOUR) == 3
        assert read(engine) == hourly(6)
        assert engine.expire(START + 9 * HOUR) == START + 2 * HOUR, "age counts in both"
        assert read(engine) == hourly(6)[2:]
        assert engine.status().cold_events == 1


def test_nothing_goes_before_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tiered(tmp_path) as engine:
        engine.append(hourly(5))

        def lost(self: ColdTier, *given: object) -> int:
            list(given[2])  # type: ignore[call-overload]
            return 0

        monkeypatch.setattr(ColdTier, "write", lost)
        with pytest.raises(ColdError, match="stay on the disk"):
            engine.roll(START + 10 * HOUR)
        assert read(engine) == hourly(5)
        monkeypatch.undo()
        assert engine.roll(START + 10 * HOUR) == 5
        assert read(engine) == hourly(5)


def test_readers_miss_nothing_while_segments_roll(tmp_path: Path) -> None:
    events = [event(n, at=START + n * 10 * MINUTE) for n in range(60)]
    with tiered(tmp_path) as engine:
        engine.append(events)
        errors: list[BaseException] = []

        def roll() -> None:
            try:
                for hour in range(3, 12):
                    engine.roll(START + hour * HOUR)
            except BaseException as error:
                errors.append(error)

        thread = Thread(target=roll)
        thread.start()
        while thread.is_alive():
            assert all_pages(engine, ALL, 0, 25) == events
        thread.join()
        assert errors == []


def test_a_place_without_a_name_is_no_cold_tier(tmp_path: Path) -> None:
    with opened(tmp_path / "s", hot_us=HOUR) as engine:
        engine.append(hourly(3))
        assert engine.roll(START + 10 * HOUR) == 0
        assert read(engine) == hourly(3)
