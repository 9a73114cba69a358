"""Looking at everything a little at a time: what `verify` would find, without anybody asking."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from random import Random

import pytest

from latecomer.history import Engine, EngineSettings
from latecomer.history import scrub as scrub_module
from latecomer.history.segment import Segment
from latecomer.model.filters import Filter
from latecomer.model.history import Query, key_of
from tests.unit.test_history_damage import EVENTS, damaged, flip, opened, store
from tests.unit.test_history_engine import HOUR, START, event, read

__all__ = ["store"]  # the fixture

LIMITED = EngineSettings(events_max=400, reserve_bytes=0)
FLIPS = 40 * int(os.environ.get("LATECOMER_DISK_TIMES", "1"))


def rounds(engine: Engine, budget_rows: int = 97) -> None:
    """Twice through everything, and a little more."""
    events = engine.status().events
    done = 0
    while done <= 2 * events:
        done += (looked := engine.scrub(budget_rows))
        assert 0 < looked <= budget_rows


def test_a_sound_store_is_found_sound_while_it_is_written(store: Path, tmp_path: Path) -> None:
    with opened(shutil.copytree(store, tmp_path / "s")) as engine:
        for seq in range(2000, 2600, 3):
            engine.append([event(seq + n, f"t/{n}/{seq % 7}", at=START + n * HOUR) for n in range(3)])
            assert 0 < engine.scrub(40) <= 40
        rounds(engine)
        assert engine.problems == ()
        assert engine.status().events == 301 + 600


def test_nothing_to_look_at(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as engine:
        assert engine.scrub() == 0
        engine.append(EVENTS)
        assert engine.scrub(1000) == 300, "never more than one round"
        assert engine.scrub(100) == 100
        assert engine.scrub(1) == 1


@pytest.mark.parametrize("budget_rows", [1, 50, 1000])
def test_rows_that_nobody_read_are_checked(budget_rows: int, store: Path, tmp_path: Path) -> None:
    folder = damaged(store, tmp_path / "s", "UPDATE event SET crc = crc + 1 WHERE seq IN (3, 250)")
    with opened(folder) as engine:
        rounds(engine, budget_rows)
        assert [problem.key for problem in engine.problems] == [key_of(EVENTS[3]), key_of(EVENTS[250])]
        assert engine.status().events == 299
        assert engine.append(EVENTS) == 2
        assert engine.verify().ok


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE event SET topic = 1 + topic % 5 WHERE seq = 7",
        "UPDATE event SET at = at + 1 WHERE seq = 7",
        "UPDATE sums SET count = count + 1 WHERE topic = 1",
        "UPDATE sums SET low = low + 1 WHERE topic = 1",
        "UPDATE sums SET high = high - 1 WHERE topic = 1",
        "UPDATE sums SET start = start + 1",
        "UPDATE topic SET low = low + 1 WHERE number = 2",
        "UPDATE topic SET bytes = bytes + 1 WHERE number = 2",
        "UPDATE topic SET name = 't/x' WHERE number = 2",
        "DELETE FROM event WHERE seq = 299",
        "DELETE FROM sums WHERE topic = 3",
    ],
)
def test_columns_and_sums(sql: str, store: Path, tmp_path: Path) -> None:
    folder = damaged(store, tmp_path / "s", sql)
    with opened(folder) as engine:
        rounds(engine)
        assert engine.problems
        assert engine.verify().ok, "what was wrong has been repaired"
        engine.append(EVENTS)
        assert read(engine)[:300] == EVENTS


def shortened(folder: Path, index: str, keep: str) -> None:
    """An index without some of its rows, as damage in one of its inner pages leaves it."""
    connection = sqlite3.connect(folder / "1.db")
    ((sql,),) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (index,))
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(f"DROP INDEX {index}")
    connection.execute(f"{sql} WHERE {keep}")
    connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, index))
    connection.commit()
    connection.close()


def test_a_shortened_index_is_noticed(store: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(store, tmp_path / "s")
    shortened(folder, "event_topic", "seq % 2")
    wanted = [one for one in EVENTS if one.topic == "t/1"]
    with opened(folder) as engine:
        assert read(engine, Query(Filter("t/1"))) == wanted[1::2] or read(engine, Query(Filter("t/1"))) == wanted[::2]
        assert not engine.problems, "who reads misses nothing"
        rounds(engine)
        assert [problem.segment for problem in engine.problems] == ["1.db"]
        assert read(engine, Query(Filter("t/1"))) == wanted
        assert engine.verify().ok


@pytest.mark.parametrize("seed", range(FLIPS))
def test_what_a_flipped_bit_hides_is_found(seed: int, store: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(store, tmp_path / "s")
    flip(folder / "1.db", Random(10_000 + seed))
    with opened(folder) as engine:
        rounds(engine)
        found = read(engine)
        assert found[:-1] == EVENTS or engine.problems, "events are missing, and nobody says so"
        for topic in range(5):
            assert read(engine, Query(Filter(f"t/{topic}"))) == [one for one in found if one.topic == f"t/{topic}"]


# --- order ---


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The segments that are walked through, in order."""
    names: list[str] = []
    through = scrub_module.Walk.through

    def watched(segment: Segment) -> scrub_module.Walk:
        names.append(segment.name)
        return through(segment)

    monkeypatch.setattr(scrub_module.Walk, "through", watched)
    return names


def filled(folder: Path) -> Engine:
    engine = opened(folder)
    engine.append([event(hour, at=START + hour * HOUR) for hour in (1, 2, 0)])
    return engine


def test_the_oldest_first_round_and_round(tmp_path: Path, walked: list[str]) -> None:
    filled(tmp_path / "s").close()
    with opened(tmp_path / "s") as engine:
        for _ in range(6):
            assert engine.scrub(1) == 1
        assert walked[:6] == ["3.db", "1.db", "2.db", "3.db", "1.db", "2.db"]


def test_after_a_crash_the_newest_first(tmp_path: Path, walked: list[str]) -> None:
    engine = filled(tmp_path / "s")
    shutil.copytree(tmp_path / "s", tmp_path / "after")
    engine.close()
    with opened(tmp_path / "after") as engine:
        for _ in range(5):
            engine.scrub(1)
        assert walked[:5] == ["2.db", "3.db", "1.db", "3.db", "1.db"], "and only once"


def test_segments_that_go_away_are_passed_over(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "s", LIMITED, durability="none") as engine:
        for seq in range(0, 2000, 10):
            engine.append([event(n) for n in range(seq, seq + 10)])
            engine.scrub(7)
            engine.expire(START)
        rounds(engine)
        assert engine.problems == ()
