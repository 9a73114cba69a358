"""Bits flip: every flip is noticed or harmless, no wrong byte is served, and all that is whole is served."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from random import Random

import pytest

from latecomer.history import Engine, EngineSettings
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Query, key_of
from tests.unit.test_history_engine import ALL, HOUR, START, event, read

SETTINGS = EngineSettings(reserve_bytes=0)
FLIPS = 60 * int(os.environ.get("LATECOMER_DISK_TIMES", "1"))
EVENTS = [event(seq, f"t/{seq % 5}", payload=Random(seq).randbytes(seq % 400)) for seq in range(300)]


def opened(folder: Path) -> Engine:
    return Engine.open(folder, SETTINGS, durability="none")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Closed, with two segments."""
    folder = tmp_path_factory.mktemp("damage") / "store"
    with opened(folder) as engine:
        engine.append([*EVENTS, event(1000, at=START + HOUR)])
    return folder


def damaged(store: Path, folder: Path, sql: str) -> Path:
    shutil.copytree(store, folder)
    connection = sqlite3.connect(folder / "1.db")
    with connection:
        connection.execute(sql)
    connection.close()
    return folder


def flip(path: Path, random: Random) -> None:
    data = bytearray(path.read_bytes())
    at = random.randrange(len(data) * 8)
    data[at // 8] ^= 1 << at % 8
    path.write_bytes(data)


# --- rows ---


def test_a_damaged_row_is_not_served_and_its_place_is_free(store: Path, tmp_path: Path) -> None:
    folder = damaged(store, tmp_path / "s", "UPDATE event SET body = zeroblob(length(body)) WHERE seq = 7")
    with opened(folder) as engine:
        before = engine.survey("#", 0, START + HOUR, HOUR)
        assert [one.id.seq for one in read(engine, Query(Filter("t/2")))] == list(range(2, 300, 5))[0:1] + list(
            range(12, 300, 5)
        )
        assert engine.append([event(2000)]) == 1, "now it is moved out of the way"
        (problem,) = engine.problems
        assert (problem.segment, problem.key) == ("1.db", key_of(EVENTS[7]))
        (after,) = engine.survey("#", 0, START + HOUR, HOUR)
        assert after.count == before[0].count, "one went, one came"
        assert engine.append([EVENTS[7]]) == 1, "another store has it still"
        assert engine.verify().problems == ()
        assert read(engine)[:300] == EVENTS
    connection = sqlite3.connect(folder / "1.db")
    assert connection.execute("SELECT seq, why FROM quarantine").fetchall() == [(7, "fails its checksum")]
    connection.close()


def test_verify_finds_what_nobody_has_read(store: Path, tmp_path: Path) -> None:
    folder = damaged(store, tmp_path / "s", "UPDATE event SET crc = crc + 1 WHERE seq IN (3, 5)")
    with opened(folder) as engine:
        told: list[tuple[int, int]] = []
        report = engine.verify(lambda done, of: told.append((done, of)))
        assert told == [(0, 2), (1, 2), (2, 2)]
        assert [problem.key for problem in report.problems] == [key_of(EVENTS[3]), key_of(EVENTS[5])]
        assert not report.ok
        assert report.segments == 2
        assert report.events == 299
        assert engine.verify().ok
        assert len(read(engine)) == 299


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE event SET topic = 1 + topic % 5 WHERE seq = 7",
        "UPDATE event SET at = at + 1 WHERE seq = 7",
        "UPDATE event SET epoch = 2 WHERE seq = 7",
        "UPDATE event SET origin = 'b3' WHERE seq = 7",
        "UPDATE event SET origin = CAST(x'ff' AS TEXT) WHERE seq = 7",
        "UPDATE sums SET count = count + 1 WHERE topic = 1",
        "UPDATE topic SET low = low + 1 WHERE number = 2",
        "UPDATE topic SET name = 't/x' WHERE number = 2",
        "DELETE FROM event WHERE seq = 299",
    ],
)
def test_what_columns_and_sums_say_is_made_true_again(sql: str, store: Path, tmp_path: Path) -> None:
    """The bodies have it all: nothing is lost except what was deleted."""
    folder = damaged(store, tmp_path / "s", sql)
    with opened(folder) as engine:
        report = engine.verify()
        assert report.problems
        found = read(engine)
        missing = [one for one in EVENTS if one not in found]
        assert missing in ([], [EVENTS[7]], [EVENTS[299]], [one for one in EVENTS if one.topic == "t/1"])
        assert all(one in EVENTS for one in found[:-1])
        assert engine.append(EVENTS) == len(missing)
        assert read(engine)[:300] == EVENTS
        assert engine.verify().ok


# --- structure ---


def test_a_file_that_is_none_is_set_aside(store: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(store, tmp_path / "s")
    (folder / "1.db").write_bytes(b"not a database" * 1000)
    with opened(folder) as engine:
        (problem,) = engine.problems
        assert problem.segment == "1.db"
        assert "kept as damaged-1.db" in problem.why
        assert read(engine) == [event(1000, at=START + HOUR)]
        assert engine.append(EVENTS) == 300
        assert read(engine)[:300] == EVENTS
    assert (folder / "damaged-1.db").read_bytes() == b"not a database" * 1000
    with opened(folder) as engine:
        assert engine.problems == ()


def test_a_damaged_page_costs_no_more_than_its_rows(store: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(store, tmp_path / "s")
    data = bytearray((folder / "1.db").read_bytes())
    pages = [at for at in range(0, len(data), 4096) if data[at] == 13 and b"t/" in data[at : at + 4096]]
    leaf = pages[len(pages) // 2]
    data[leaf : leaf + 100] = bytes(100)
    (folder / "1.db").write_bytes(data)
    with opened(folder) as engine:
        found = read(engine)
        lost = [one for one in EVENTS if one not in found]
        assert 0 < len(lost) < 60
        assert any("was damaged" in problem.why for problem in engine.problems)
        assert engine.append(EVENTS) == len(lost)
        assert read(engine)[:300] == EVENTS
        assert engine.verify().ok


def test_a_repair_that_was_interrupted_is_finished(store: Path, tmp_path: Path) -> None:
    """Two segments of the same time: the later one is the repaired one."""
    folder = shutil.copytree(store, tmp_path / "s")
    shutil.copy2(folder / "1.db", folder / "3.db")
    with opened(folder) as engine:
        assert read(engine)[:300] == EVENTS
        assert engine.status().events == 301
    assert sorted(path.name for path in folder.glob("*.db")) == ["2.db", "3.db", "damaged-1.db"]


def test_a_format_that_one_segment_alone_has_is_damage(store: Path, tmp_path: Path) -> None:
    folder = damaged(store, tmp_path / "s", "PRAGMA user_version = 9")
    with opened(folder) as engine:
        (problem,) = engine.problems
        assert problem.segment == "1.db"
        assert "format 9" in problem.why
        assert read(engine)[:300] == EVENTS, "its events are as they were"
        assert engine.verify().ok


@pytest.mark.parametrize(
    ("at", "byte"),
    [
        (0, 0x00),  # the name of the format
        (16, 0xFF),  # the size of a page
        (19, 0x07),  # SQLite's version for readers
        (47, 0x0C),  # the format of the schema
        (59, 0x02),  # the encoding of texts
        (60, 0x40),  # our format
        (71, 0x00),  # our mark
        (100, 0x01),  # the kind of the first page
    ],
)
def test_an_unreadable_head_costs_nothing(at: int, byte: int, store: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(store, tmp_path / "s")
    data = bytearray((folder / "1.db").read_bytes())
    data[at] = byte
    (folder / "1.db").write_bytes(data)
    with opened(folder) as engine:
        assert [problem.segment for problem in engine.problems] == ["1.db"]
        assert read(engine)[:300] == EVENTS
        assert len(read(engine)) == 301
    assert (folder / "damaged-1.db").read_bytes() == data


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE extent SET start_us = start_us + 3600000000, end_us = end_us + 3600000000",
        "UPDATE extent SET end_us = end_us + 60000000",
        "UPDATE extent SET end_us = 'x'",
        "DELETE FROM extent",
        "UPDATE topic SET oldest = 1 WHERE number = 2",
        "DROP TABLE quarantine",
    ],
)
def test_a_segment_that_is_wrong_about_itself_hides_nothing(sql: str, store: Path, tmp_path: Path) -> None:
    """Not even where it claims the time of another."""
    with opened(damaged(store, tmp_path / "s", sql)) as engine:
        assert engine.problems
        assert read(engine)[:300] == EVENTS
        assert len(read(engine)) == 301
        assert engine.verify().ok


@pytest.mark.parametrize("seed", range(FLIPS))
def test_any_flipped_bit_is_noticed_or_harmless(seed: int, store: Path, tmp_path: Path) -> None:
    """At the latest by `verify`: an inner page of an index has no checksum, and what it hides readers do not miss."""
    folder = shutil.copytree(store, tmp_path / "s")
    flip(folder / "1.db", Random(seed))
    with opened(folder) as engine:
        found = read(engine)
        assert all(one in EVENTS for one in found[:-1]), "a wrong byte was served"
        complete = found[:-1] == EVENTS
        report = engine.verify()
        assert complete or engine.problems or not report.ok, "events are missing, and nobody says so"
        assert len(read(engine)) > 250, "what is whole was lost"
        engine.append(EVENTS)
        assert read(engine)[:300] == EVENTS, "what others have makes it whole again"
        assert engine.verify().ok


@pytest.mark.parametrize("seed", range(FLIPS // 4))
def test_a_flipped_bit_in_a_journal_is_noticed(seed: int, tmp_path: Path) -> None:
    """After a crash SQLite takes a damaged journal for a shorter one."""
    engine = Engine.open(tmp_path / "s", SETTINGS, durability="none")
    for at in range(0, 300, 10):
        engine.append(EVENTS[at : at + 10])
    folder = tmp_path / "copy"
    folder.mkdir(mode=0o700)
    for name in ("1.db", "1.db-wal"):
        shutil.copy2(tmp_path / "s" / name, folder / name)
    engine.close()
    flip(folder / "1.db-wal", Random(seed))
    with opened(folder) as engine:
        found = read(engine)
        assert all(one in EVENTS for one in found)
        assert found == EVENTS or engine.problems
        engine.append(EVENTS)
        assert read(engine) == EVENTS


def test_reading_a_damaged_row_hides_no_other(store: Path, tmp_path: Path) -> None:
    """Also for the last so many, and where all that is left of a topic is damaged."""
    folder = damaged(store, tmp_path / "s", "UPDATE event SET body = x'00' WHERE topic = 3 OR seq = 299")
    with opened(folder) as engine:
        assert read(engine, Query(Filter("t/2"))) == []
        assert [one.id.seq for one in read(engine, Query(Filter("t/4"), last=2))] == [289, 294]
        assert len(read(engine, ALL)) == 301 - 60 - 1


def test_the_same_damage_is_told_once(store: Path, tmp_path: Path) -> None:
    folder = damaged(store, tmp_path / "s", "UPDATE event SET body = x'00' WHERE seq = 1")
    with opened(folder) as engine:
        for _ in range(3):
            assert len(read(engine)) == 300
        engine.append([event(5000)])
        engine.append([event(5001)])
        assert len(engine.problems) == 1


def test_events_stay_events() -> None:
    """Guards the guard: comparing events compares every byte."""
    assert EVENTS[7] != Event(EVENTS[7].id, EVENTS[7].topic, "c", EVENTS[7].published_us, payload=b"other")
