"""Letting go: by age, size and count, whole segments, the oldest first; and into the cold tier."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Thread

import msgspec
import pyarrow.parquet as pq
import pytest

from latecomer.history import Engine, EngineSettings
from latecomer.history import hot as hot_module
from latecomer.history.cold import ColdTier
from latecomer.history.cold_errors import ColdError
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Page, Query
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
    with opened(tmp_path / "s", keep_us=2 * HOUR) as engine:
        assert engine.status().kept_from_us == START + 3 * HOUR
        assert engine.append(hourly(3)) == 0
        assert engine.status().events == 2
    (tmp_path / "s" / "kept").write_text("damaged")
    with opened(tmp_path / "s") as engine:
        assert engine.status().kept_from_us == START + 3 * HOUR, "the oldest segment begins there"
        assert [problem.segment for problem in engine.problems] == ["kept"]


def test_wider_limits_take_again_what_was_let_go_of(tmp_path: Path) -> None:
    """Others may have it; but that it was let go of is said."""
    folder, events = tmp_path / "s", hourly(5)
    with opened(folder, keep_us=2 * HOUR) as engine:
        engine.append(events)
        engine.expire(START + 5 * HOUR)
        assert engine.takes_from_us == START + 3 * HOUR
    with opened(folder, keep_us=HOUR) as engine:
        assert engine.append(events) == 0
    with opened(folder, keep_us=4 * HOUR) as engine:
        assert engine.status().kept_from_us == START + 3 * HOUR
        assert engine.takes_from_us == START + HOUR
        assert engine.append(events) == 2
        assert read(engine) == events[1:]
    with opened(folder, keep_us=4 * HOUR) as engine:
        assert read(engine) == events[1:], "it is not taken for what was to go"
        assert engine.expire(START + 6 * HOUR) == START + 2 * HOUR
        assert engine.append(events) == 0, "now it is too old again"
        assert engine.status().kept_from_us == START + 3 * HOUR
        assert read(engine) == events[2:]
        assert engine.expire(START + 8 * HOUR) == START + 4 * HOUR
        assert engine.status().kept_from_us == START + 4 * HOUR
    with opened(folder) as engine:
        assert engine.takes_from_us == 0
        assert engine.append(events) == 4


def test_wider_limits_of_size_or_number(tmp_path: Path) -> None:
    with opened(tmp_path / "s", events_max=800, keep_us=9 * HOUR) as engine:
        for seq in range(0, 1600, 10):
            engine.append([event(n) for n in range(seq, seq + 10)])
        assert engine.expire(START + HOUR) is not None
        assert engine.append([event(0)]) == 0
    with opened(tmp_path / "s", events_max=800, keep_us=9 * HOUR) as engine:
        assert engine.append([event(0)]) == 0
    with opened(tmp_path / "s", events_max=900, keep_us=9 * HOUR) as engine:
        assert engine.takes_from_us == START - 8 * HOUR
        assert engine.append([event(n) for n in range(1600)]) > 800
        assert engine.expire(START + HOUR) is not None
        assert engine.append([event(0)]) == 0, "it does not go round and round"
        assert engine.status().events <= 900


def test_a_look_with_wider_limits_changes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "s", keep_us=2 * HOUR) as engine:
        engine.append(hourly(5))
        engine.expire(START + 5 * HOUR)
    before = (tmp_path / "s" / "kept").read_bytes()
    with opened(tmp_path / "s") as engine:
        assert engine.verify().ok
    assert (tmp_path / "s" / "kept").read_bytes() == before
    (tmp_path / "s" / "kept").write_bytes(before.replace(b"1", b"2", 1))
    with opened(tmp_path / "s") as engine:
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


def test_what_comes_while_the_rest_is_told_does_not_go_with_it(tmp_path: Path) -> None:
    """A clock that is ahead has made another segment the newest."""
    late = event(7, at=START + 1)
    with opened(tmp_path / "s", events_max=1) as engine:
        engine.append([event(1, at=START), event(6, at=START + HOUR)])

        def leaving(from_us: int) -> None:
            assert engine.append([late]) == 1

        assert engine.expire(START, leaving) == START + 1
        assert late in read(engine)
        assert engine.expire(START) == START + 2, "now everybody knows"
        assert late not in read(engine)


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


def test_a_crash_while_cold_files_go_leaves_no_false_word(tmp_path: Path) -> None:
    """That they are gone stands on disk before they are."""
    said: list[int] = []

    class Crash(Exception):
        pass

    def leaving(from_us: int) -> None:
        said.append(from_us)
        raise Crash

    events = [event(n, at=START + n * 10 * MINUTE) for n in range(36)]
    with tiered(tmp_path, keep_us=4 * HOUR) as engine:
        engine.append(events)
        assert engine.roll(START + 60 * HOUR) == 36
        with pytest.raises(Crash):
            engine.expire(START + 60 * HOUR, leaving)
        assert said == [START + 56 * HOUR]
    with tiered(tmp_path, keep_us=4 * HOUR) as engine:
        assert engine.status().kept_from_us == START + 56 * HOUR


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


def test_what_is_in_both_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a segment goes to the cold tier it is in both, or some of its topics are."""
    events = [event(n, f"{'abc'[n % 3]}/{n % 2}", at=START + n // 2 * 10 * MINUTE) for n in range(72)]
    with tiered(tmp_path) as engine:
        engine.append(events)
        checked = 0

        def check() -> None:
            nonlocal checked
            checked += 1
            for width in (1, 7 * SECOND, 10 * SECOND, HOUR, 7 * HOUR):
                for topics, since, until in (("#", 0, START + 10 * HOUR), ("a/+", START + MINUTE, START + 3 * HOUR)):
                    assert engine.survey(topics, since, until, width) == sums(events, topics, since, until, width)
            for events_max in (1, 7, 100):
                assert all_pages(engine, ALL, 0, events_max) == events
            assert all_pages(engine, Query(Filter("#"), last=50), 0, 7) == events[-50:]

        write = ColdTier.write

        def watched(self: ColdTier, start_us: int, end_us: int, given: Iterable[Event]) -> int:
            some = list(given)
            write(self, start_us, end_us, [one for one in some if one.topic == "a/0"])
            check()
            write(self, start_us, end_us, some[::2])
            check()
            kept = write(self, start_us, end_us, some)
            check()
            return kept

        monkeypatch.setattr(ColdTier, "write", watched)
        assert engine.roll(START + 4 * HOUR) == 24
        check()
        assert checked == 7


def test_verify_looks_at_the_cold_tier_too(tmp_path: Path) -> None:
    events = [event(n, f"t/{n}", at=START + n * 10 * MINUTE, payload=bytes([n]) * 500) for n in range(36)]
    with tiered(tmp_path) as engine:
        engine.append(events)
        engine.roll(START + 6 * HOUR)
        told: list[tuple[int, int]] = []
        report = engine.verify(lambda done, of: told.append((done, of)))
        assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
        assert (report.ok, report.segments, report.events, report.cold_events) == (True, 2, 12, 24)
        assert engine.problems == ()
    file = min((tmp_path / "cold").rglob("*.parquet"))
    data = bytearray(file.read_bytes())
    body = pq.read_metadata(file).row_group(0).column(14)  # bits of the footer that change no data do not count
    assert body.path_in_schema == "body"
    data[body.data_page_offset + body.total_compressed_size // 2] ^= 1
    file.write_bytes(data)
    with tiered(tmp_path) as engine:
        report = engine.verify()
        assert [problem.segment for problem in report.problems] == ["cold"]
        assert file.name in report.problems[0].why
        assert report.events == 12
        assert report.cold_events < 24
        assert engine.problems == report.problems


def test_a_cold_tier_out_of_reach_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tiered(tmp_path) as engine:
        engine.append(hourly(5))

        def read(self: ColdTier, *given: object) -> Page:
            raise ColdError("the cold tier is away; bring it back")

        monkeypatch.setattr(ColdTier, "read", read)
        report = engine.verify()
        assert [problem.why for problem in report.problems] == ["the cold tier is away; bring it back"]
        assert report.events == 5


def test_a_place_without_a_name_is_no_cold_tier(tmp_path: Path) -> None:
    with opened(tmp_path / "s", hot_us=HOUR) as engine:
        engine.append(hourly(3))
        assert engine.roll(START + 10 * HOUR) == 0
        assert read(engine) == hourly(3)
