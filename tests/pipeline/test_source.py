"""The source: the log as a table and as a stream, what is pushed down to it, and what it makes of damage."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNotNull, LessThanOrEqual, StringStartsWith

from latecomer.eventlog.reader import read_records
from latecomer.eventlog.writer import SegmentWriter
from latecomer.model.errors import SettingsError
from latecomer.model.record import Kind, Record
from latecomer.pipeline.source import LatecomerSource, Options, Reader, register
from latecomer.pipeline.source_filters import Condition, Wanted, understood
from latecomer.pipeline.source_offsets import joined, missing, offset_of
from latecomer.pipeline.source_parts import ANY, Asked, packed
from latecomer.pipeline.source_records import RECORDS, pieces
from latecomer.pipeline.source_records import read_records as read_piece

START = 1_700_000_000_000_000
SECOND = 1_000_000


def record(number: int, broker: str = "b1") -> Record:
    kind = (Kind.PUBLISHED, Kind.REQUESTED)[number % 2]
    return Record(START + number * SECOND, broker, kind, topic=f"t/{number % 3}", hops=number, count=1)


def write(folder: Path, broker: str, numbers: range, *, boot: int = 1, rows: int = 10) -> None:
    with SegmentWriter(folder, broker, boot=boot, rows_max=rows) as writer:
        writer.extend(record(number, broker) for number in numbers)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """As `latecomer up` leaves it: three segments of one broker, two of another."""
    write(tmp_path / "b1" / "events", "b1", range(30))
    write(tmp_path / "b2" / "events", "b2", range(100, 120))
    return tmp_path


@pytest.fixture
def source(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row.hops for row in frame.select("hops").collect())


# -- without Spark


def test_filters_become_conditions() -> None:
    at = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    told = [
        EqualTo(("broker",), "b1"),
        In(("kind",), ("published", "requested")),
        GreaterThan(("time",), at),
        LessThanOrEqual(("at_us",), 5),
        StringStartsWith(("topic",), "t/"),
        IsNotNull(("topic",)),
        EqualTo(("user", "name"), "x"),
    ]
    wanted = understood(told)
    assert [one.test for one in wanted.conditions] == ["in", "in", ">", "<=", "begins"]
    assert wanted.among("broker") == ("b1",)
    assert wanted.among("topic") is None
    assert wanted.between("time") == (START + 1, 2**63 - 1)
    assert Wanted((*wanted.conditions, Condition("broker", "in", ("b2",)))).among("broker") == ()


def test_a_condition_on_another_kind_of_value_is_left_to_spark() -> None:
    import pyarrow as pa

    wanted = Wanted((Condition("hops", "in", ("many",)),))
    assert wanted.expression({"hops": ("hops", pa.int32())}) is None


def read(folder: Path, wanted: Wanted = ANY) -> list[int]:
    """The hops of what leaves the files, and so is looked at by Spark."""
    asked = Asked(RECORDS, wanted)
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.glob("*/events/*.parquet"))]
    return [
        hops
        for piece in pieces(folder, names)
        for batch in read_piece(piece, asked)
        for hops in batch["hops"].to_pylist()
    ]


def test_rows_that_are_not_wanted_do_not_leave_the_files(log: Path) -> None:
    assert len(read(log)) == 50
    told = [
        Condition("broker", "in", ("b1",)),
        Condition("time", ">=", (START + 5 * SECOND,)),
        Condition("hops", "<", (9,)),
    ]
    assert read(log, Wanted(tuple(told))) == [5, 6, 7, 8]
    assert read(log, Wanted((Condition("kind", "in", ("published",)), Condition("topic", "begins", ("t/0",))))) == [
        *range(0, 30, 6),
        *range(102, 120, 6),
    ]


def test_partitions_have_neighbours_and_about_the_same_size() -> None:
    mib = 1 << 20
    assert packed([], int) == []
    assert packed([10, 20, 30], int) == [(10, 20, 30)]
    assert packed([mib, 40 * mib, 1, 2], int) == [(mib,), (40 * mib,), (1, 2)]
    cut = packed([mib] * 100, int)
    assert sum(map(len, cut)) == 100
    assert {len(part) for part in cut} <= {1, 2, 3, 4}


def test_an_offset_names_segments_in_few_words() -> None:
    def name(number: int, life: str = "0123456789abcdef-0000000001", folder: str = "b/events/") -> str:
        return f"{folder}{number:020d}-{life}-{number:08d}.parquet"

    names = [name(number) for number in (1, 2, 3, 5)]
    had = offset_of([*names, "odd.parquet"])
    assert had == {"b/events/0123456789abcdef-0000000001": "1-3,5", "": "odd.parquet"}
    assert missing([*names, "odd.parquet"], had) == []
    late = [name(4), name(6), name(1, "0123456789abcdef-0000000002"), name(1, folder=""), "other.parquet"]
    assert missing([*names, *late], had) == late, "what comes out of order is not taken for had"
    assert missing([*names, *late], joined(had, late)) == []
    assert joined(had, [name(4)])["b/events/0123456789abcdef-0000000001"] == "1-5"
    assert joined({}, []) == {}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "path.*say where"),
        ({"path": "/nowhere/at/all"}, "path.*not a folder"),
        ({"path": "/", "table": "record"}, "table.*records"),
        ({"path": "/", "mode": "ignore"}, "mode.*quarantine"),
        ({"path": "/", "cold": "x"}, "cold.*events"),
        ({"path": "/", "tabel": "records"}, "tabel.*table"),
        ({"path": "/", "maxfilespertrigger": "few"}, "maxFilesPerTrigger"),
        ({"path": "/", "since": "yesterday"}, "since.*-90s"),
        ({"path": "/", "topic": "[a"}, "topic.*list"),
        ({"path": "/", "pushdown": "yes"}, "pushdown.*true"),
    ],
)
def test_options_that_cannot_be_are_named(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        Options.read(options)


def test_a_folder_without_a_log_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="path: there is no segment of an event log in"):
        Reader(Options.read({"path": str(tmp_path)}), Asked(RECORDS)).partitions()


def test_columns_that_are_not_there_are_named(log: Path) -> None:
    from pyspark.sql.types import StructType

    source = LatecomerSource({"path": str(log)})
    with pytest.raises(SettingsError, match=r"no column 'where'.*at_us"):
        source.reader(StructType().add("where", "string"))
    with pytest.raises(SettingsError, match="'hops' is int, not string"):
        source.reader(StructType().add("hops", "string"))


# -- with it


def test_the_table_is_the_log(source: SparkSession, log: Path) -> None:
    frame = source.read.format("latecomer").load(str(log))
    assert frame.columns == RECORDS.names
    rows = {(row.broker, row.at_us): row for row in frame.collect()}
    expected = [one for broker in ("b1", "b2") for one in read_records(log / broker / "events")]
    assert len(rows) == len(expected) == 50
    for one in expected:
        row = rows[one.broker, one.at_us]
        assert (row.kind, row.topic, row.hops, row["count"], row.cause) == (one.kind, one.topic, one.hops, 1, one.cause)
    assert frame.where("unix_micros(time) != at_us").count() == 0


def test_options_and_columns_reach_the_files(source: SparkSession, log: Path) -> None:
    some = source.read.format("latecomer").schema("hops int, time timestamp").options(broker="b1", kind="requested")
    spoil(log, "b2")
    chosen = some.option("since", "1700000020").option("until", "1700000027").load(str(log))
    assert numbers(chosen) == [21, 23, 25], "what another broker wrote is not read"
    both = source.read.format("latecomer").option("broker", '["b1", "b2"]').load(str(log))
    with pytest.raises(PySparkException, match="mode=quarantine"):
        numbers(both)


def test_conditions_of_spark_reach_the_files_if_asked_to(source: SparkSession, log: Path) -> None:
    frame = source.read.format("latecomer").option("pushdown", "true").load(str(log))
    chosen = frame.where("broker = 'b1' and kind = 'requested' and time >= timestamp_micros(1700000020000000)")
    spoil(log, "b2")
    assert numbers(chosen) == [21, 23, 25, 27, 29]


def test_one_frame_with_two_conditions_has_all_rows(source: SparkSession, log: Path) -> None:
    frame = source.read.format("latecomer").load(str(log))
    assert frame.where("broker = 'b1'").union(frame.where("broker = 'b2'")).count() == 50


def spoil(log: Path, broker: str) -> Path:
    """Turn a bit in the first page of a broker's first segment; its end, and so its statistics, stay as they are."""
    path = min((log / broker / "events").iterdir())
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    return path


def test_damage_ends_a_query_or_is_set_aside(source: SparkSession, log: Path) -> None:
    first = spoil(log, "b1")
    last = max((log / "b2" / "events").iterdir())
    last.write_bytes(last.read_bytes()[:-100])
    with pytest.raises(PySparkException, match="mode=quarantine"):
        source.read.format("latecomer").load(str(log)).count()
    assert numbers(source.read.format("latecomer").option("mode", "quarantine").load(str(log))) == [
        *range(10, 30),
        *range(100, 110),
    ]
    told = source.read.format("latecomer").option("table", "quarantine").load(str(log)).collect()
    assert sorted(row.segment for row in told) == [f"b1/events/{first.name}", f"b2/events/{last.name}"]
    assert all(row.reason.startswith("damaged: ") for row in told)


def test_a_stream_has_every_segment_once_whenever_it_is_stopped(
    source: SparkSession, log: Path, tmp_path: Path
) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"

    def run() -> list[int]:
        stream = source.readStream.format("latecomer").option("maxFilesPerTrigger", "2").load(str(log))
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(checkpoint))
            .option("path", str(out))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return numbers(source.read.schema("hops int").parquet(str(out)))

    assert run() == [*range(30), *range(100, 120)]
    offsets = [path for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal()]
    assert len(offsets) == 3, "five segments, two at a time"
    write(log / "b1" / "events", "b1", range(200, 205), boot=2)
    write(log / "b2" / "events", "b2", range(300, 305))
    assert run() == [*range(30), *range(100, 120), *range(200, 205), *range(300, 305)]
