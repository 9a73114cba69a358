"""The source over stores: what is on their disks while they write, what is in the cold tier, and what is damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.history import Engine, EngineSettings
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.event import Event, Extras
from latecomer.model.ids import EventId
from latecomer.pipeline.source import EventStream, Options, Reader, register
from latecomer.pipeline.source_events import EVENTS
from latecomer.pipeline.source_filters import Condition, Wanted
from latecomer.pipeline.source_parts import Asked, Piece
from latecomer.pipeline.source_records import QUARANTINE

HOUR = 3600 * 1_000_000
DAY = 24 * HOUR


def event(seq: int, topic: str = "a/b", at: int | None = None) -> Event:
    user = Extras(content_type="text/plain", user=(("unit", "K"), ("unit", "C")))
    made = HOUR * 10 + seq if at is None else at
    return Event(EventId("b1", 1, seq), topic, "client", made, payload=b"%d" % seq, qos=2, extras=user)


def store(folder: Path, events: Sequence[Event], **settings: Any) -> None:
    with Engine.open(folder, EngineSettings(keep_us=0, **settings), durability="none") as engine:
        engine.append(events)
        if settings:
            engine.roll(100 * DAY)


def read(*conditions: Condition, **options: str) -> list[dict[str, Any]]:
    """All that leaves the files, without Spark."""
    asked = Options.read({"table": "events", **options})
    reader = Reader(asked, Asked(EVENTS, Wanted((*asked.wanted.conditions, *conditions)), asked.mode))
    return rows(reader, reader.partitions())


def rows(reader: Reader | EventStream, pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    found = [row for piece in pieces for batch in reader.read(piece) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["published"], row["seq"]))


def test_an_event_is_a_row_and_is_read_while_the_store_writes(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "b1" / "store", EngineSettings(keep_us=0), durability="none") as engine:
        engine.append([event(1), event(2, "c")])
        (row, _) = read(path=str(tmp_path))
        assert (row["store"], row["origin"], row["epoch"], row["seq"]) == ("b1/store", "b1", 1, 1)
        assert (row["topic"], row["publisher"], row["payload"], row["qos"]) == ("a/b", "client", b"1", 2)
        assert (row["content_type"], row["user"][1]) == ("text/plain", {"name": "unit", "value": "C"})
        assert row["published"].timestamp() * 1_000_000 == HOUR * 10 + 1
        assert row["expires"] is None
        engine.append([event(3)])
        assert len(read(path=str(tmp_path))) == 3
        assert engine.append([event(3), event(4)]) == 1, "who reads leaves nothing behind that a writer minds"
    with Engine.open(tmp_path / "b1" / "store", EngineSettings(keep_us=0), durability="none") as engine:
        assert engine.status().events == 4


@pytest.mark.parametrize("place", ["", "store", "b1/data/store"])
def test_stores_are_found_below_the_folder_that_is_named(tmp_path: Path, place: str) -> None:
    store(tmp_path / place if place else tmp_path, [event(1)])
    assert [row["store"] for row in read(path=str(tmp_path))] == [place or "."]


def test_times_topics_and_others_are_looked_for_in_the_files(tmp_path: Path) -> None:
    events = [event(number, f"t/{number % 3}", number * HOUR) for number in range(1, 30)]
    store(tmp_path, events)
    assert [row["seq"] for row in read(path=str(tmp_path), topic="t/1", since="36000", until="72000")] == [
        10,
        13,
        16,
        19,
    ]
    assert [row["seq"] for row in read(Condition("seq", "<", (3,)), path=str(tmp_path))] == [1, 2]
    reader = Reader(
        Options.read({"table": "events", "path": str(tmp_path), "since": "36000", "until": "72000"}), Asked(EVENTS)
    )
    reader.asked = replace(reader.asked, wanted=reader.options.wanted)
    assert len(reader.partitions()) == 10, "an hour is a segment, and the others are not opened again"


def test_the_cold_tier_is_read_with_the_disk(tmp_path: Path) -> None:
    cold = str(tmp_path / "cold")
    store(tmp_path / "store", [event(1), event(2, "c")], cold=cold, hot_us=DAY, writer="b1")
    store(tmp_path / "store", [event(3, at=200 * DAY)], cold=cold, hot_us=DAY, writer="b1")
    both = read(path=str(tmp_path / "store"), cold=cold)
    assert [(row["store"], row["seq"]) for row in both] == [("cold/b1", 1), ("cold/b1", 2), (".", 3)]
    assert [row["seq"] for row in read(cold=cold)] == [1, 2]
    assert [row["seq"] for row in read(cold=cold, topic="c")] == [2]
    assert read(cold=cold, since="90000") == []
    asked = Options.read({"table": "events", "cold": cold, "topic": "c"})
    assert len(Reader(asked, Asked(EVENTS, asked.wanted)).partitions()) == 1
    reader = Reader(asked, Asked(EVENTS, asked.wanted))
    assert [part.levels for piece in reader.partitions() for part in piece.value[1:]] == ["c"], (
        "by the class in the name"
    )


def test_what_moves_to_the_cold_tier_after_the_planning_is_found_there(tmp_path: Path) -> None:
    cold, folder = str(tmp_path / "cold"), tmp_path / "store"
    store(folder, [event(1)])
    asked = Options.read({"table": "events", "path": str(folder), "cold": cold})
    reader = Reader(asked, Asked(EVENTS))
    pieces = reader.partitions()
    store(folder, [event(2, at=200 * DAY)], cold=cold, hot_us=DAY, writer="b1")
    assert [(row["store"], row["seq"]) for row in rows(reader, pieces)] == [("cold/b1", 1)]


def test_a_folder_without_a_store_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="path: no store keeps anything in"):
        read(path=str(tmp_path))


def spoil(folder: Path) -> None:
    """Change a payload behind the store's back."""
    with sqlite3.connect(folder / "1.db") as connection:
        connection.execute("UPDATE event SET body = CAST(body || x'00' AS BLOB) WHERE seq = 2")
    connection.close()


def test_a_damaged_event_ends_a_query_or_is_left_out_and_told(tmp_path: Path) -> None:
    store(tmp_path, [event(1), event(2), event(3)])
    spoil(tmp_path)
    with pytest.raises(LatecomerError, match=r"1.db.*1 event not as written.*mode=quarantine"):
        read(path=str(tmp_path))
    assert [row["seq"] for row in read(path=str(tmp_path), mode="quarantine")] == [1, 3]
    asked = Options.read({"table": "quarantine", "of": "events", "path": str(tmp_path)})
    reader = Reader(asked, Asked(QUARANTINE))
    (told,) = [row for piece in reader.partitions() for batch in reader.read(piece) for row in batch.to_pylist()]
    assert told["segment"] == "./1.db"
    assert "1 event" in told["reason"]


def test_a_file_that_is_no_segment_is_damage(tmp_path: Path) -> None:
    store(tmp_path, [event(1)])
    (tmp_path / "2.db").write_bytes(b"something else altogether" * 100)
    with pytest.raises(LatecomerError, match=r"2.db: damaged"):
        read(path=str(tmp_path))
    assert [row["seq"] for row in read(path=str(tmp_path), mode="quarantine")] == [1]


def test_a_stream_goes_on_by_row_number(tmp_path: Path) -> None:
    with Engine.open(tmp_path, EngineSettings(keep_us=0), durability="none") as engine:
        asked = Options.read({"table": "events", "path": str(tmp_path)})
        stream = EventStream(asked, Asked(EVENTS))
        start = stream.initialOffset()
        engine.append([event(1), event(2)])
        first = stream.latestOffset(start, stream.getDefaultReadLimit())
        engine.append([event(3), event(4, at=HOUR)])
        assert [row["seq"] for row in rows(stream, stream.partitions(start, first))] == [1, 2]
        second = stream.latestOffset(first, stream.getDefaultReadLimit())
        assert [row["seq"] for row in rows(stream, stream.partitions(first, second))] == [4, 3]
        assert stream.latestOffset(second, stream.getDefaultReadLimit()) == second
        assert stream.partitions(second, second) == []


def test_a_stream_begins_with_the_cold_tier(tmp_path: Path) -> None:
    cold = str(tmp_path / "cold")
    store(tmp_path / "store", [event(1)], cold=cold, hot_us=DAY, writer="b1")
    stream = EventStream(
        Options.read({"table": "events", "path": str(tmp_path / "store"), "cold": cold}), Asked(EVENTS)
    )
    start = stream.initialOffset()
    first = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert [row["seq"] for row in rows(stream, stream.partitions(start, first))] == [1]
    assert stream.partitions(first, first) == []


def test_spark_reads_the_events(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    cold = str(tmp_path / "cold")
    store(tmp_path / "store", [event(1)], cold=cold, hot_us=DAY, writer="b1")
    store(tmp_path / "store", [event(2, at=200 * DAY)], cold=cold, hot_us=DAY, writer="b1")
    frame = spark.read.format("latecomer").options(table="events", cold=cold).load(str(tmp_path / "store"))
    found = frame.selectExpr("seq", "user[1].value AS unit", "CAST(payload AS string) AS payload", "store").collect()
    assert sorted(found) == [(1, "C", "1", "cold/b1"), (2, "C", "2", ".")]
