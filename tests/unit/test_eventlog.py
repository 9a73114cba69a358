"""The event log: nothing is lost, nothing half-written is seen, and Spark finds the columns it was promised."""

from __future__ import annotations

import errno
import os
import resource
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.eventlog import SCHEMA, EventLogError, EventLogFullError, Files, SegmentWriter, read_records
from latecomer.model.errors import LatecomerError
from latecomer.model.record import Kind, Record


def records(count: int, broker: str = "b1", start_us: int = 0) -> list[Record]:
    return [
        Record(start_us + n, broker, Kind.DELIVERED, f"{broker}.1.{n}", "c1", "a/b", "", f"b2.1.{n}", "b2", 3, 1, "é\0")
        for n in range(count)
    ]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# --- there and back -------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path: Path) -> None:
    given = [Record(5, "b1", kind) for kind in Kind] + records(10, start_us=6)
    with SegmentWriter(tmp_path, "b1") as writer:
        writer.add(given[0])
        writer.extend(given[1:])
        assert writer.waiting == len(given)
    assert list(read_records(tmp_path)) == given
    assert all(isinstance(record.kind, Kind) for record in read_records(tmp_path))


texts = st.text(max_size=6)
any_record = st.builds(
    Record,
    st.integers(-(2**63), 2**63 - 1),
    texts,
    st.sampled_from(Kind),
    *[texts] * 6,
    st.integers(-1, 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    texts,
)


@given(st.lists(any_record, max_size=8), st.integers(1, 5))
@settings(max_examples=25)
def test_any_record(tmp_path_factory: pytest.TempPathFactory, given: list[Record], rows_max: int) -> None:
    directory = tmp_path_factory.mktemp("log")
    with SegmentWriter(directory, "b1", rows_max=rows_max) as writer:
        for record in given:
            writer.add(record)
    key = Record.__repr__
    assert sorted(read_records(directory), key=key) == sorted(given, key=key)


def test_segments_have_at_most_so_many_rows_and_sort_by_time(tmp_path: Path) -> None:
    given = records(25, start_us=95)
    with SegmentWriter(tmp_path, "b1", boot=3, rows_max=10) as writer:
        writer.extend(given[:23])
        assert len(names(tmp_path)) == 2
        assert writer.waiting == 3
        writer.extend(given[23:])
    found = names(tmp_path)
    assert [pq.read_metadata(tmp_path / name).num_rows for name in found] == [10, 10, 5]
    assert [int(name.split("-")[0]) for name in found] == [95, 105, 115]
    assert list(read_records(tmp_path)) == given


def test_roll_completes_a_segment_and_without_records_does_nothing(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "b1")
    writer.roll()
    assert names(tmp_path) == []
    writer.extend(records(3))
    writer.roll()
    writer.roll()
    assert len(names(tmp_path)) == 1
    assert writer.waiting == 0
    writer.close()
    writer.close()
    with pytest.raises(AssertionError, match="closed"):
        writer.add(records(1)[0])


def test_an_empty_log(tmp_path: Path) -> None:
    SegmentWriter(tmp_path / "new" / "log", "b1").close()
    assert list(read_records(tmp_path / "new" / "log")) == []
    with pytest.raises(EventLogError, match="missing: cannot be read as an event log"):
        read_records(tmp_path / "missing")


# --- names ----------------------------------------------------------------------------------------

HOSTILE = ["", "/", "../..", "..", "a/b", "\0", "a\nb", "*", "[a]", "é" * 500, "\ud800", "_x", ".x", "CON", "b1"]


def test_names_of_brokers_never_become_names_of_files(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for broker in HOSTILE:
        with SegmentWriter(log, broker) as writer:
            writer.extend(records(2, broker))
    assert names(tmp_path) == ["log"]
    found = names(log)
    assert len(found) == len(HOSTILE)
    legal = set(string.digits + "abcdef" + "-")
    assert all(set(name.removesuffix(".parquet")) <= legal and len(name) < 100 for name in found)
    brokers = {record.broker for record in read_records(log)}
    assert brokers == {broker.replace("\ud800", "\\ud800") for broker in HOSTILE}


def test_two_writers_share_a_directory(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path, "b1", rows_max=4) as one, SegmentWriter(tmp_path, "b2", rows_max=4) as two:
        for left, right in zip(records(10, "b1"), records(10, "b2"), strict=True):
            one.add(left)
            two.add(right)
    found = list(read_records(tmp_path))
    for broker in ("b1", "b2"):
        assert [record for record in found if record.broker == broker] == records(10, broker)


@pytest.mark.parametrize("boot", [0, 1])
def test_a_log_that_is_opened_once_more_continues(tmp_path: Path, boot: int) -> None:
    for life in (0, boot):
        with SegmentWriter(tmp_path, "b1", boot=life, rows_max=2) as writer:
            writer.extend(records(3))
    assert len(names(tmp_path)) == 4
    assert len(list(read_records(tmp_path))) == 6


# --- the columns ----------------------------------------------------------------------------------


def test_the_columns_are_those_that_were_promised(tmp_path: Path) -> None:
    """Spark jobs name these. Append; never rename, retype or remove."""
    promised = [
        ("at_us", "int64"),
        ("time", "timestamp[us, tz=UTC]"),
        ("broker", "string"),
        ("kind", "string"),
        ("cause", "string"),
        ("client", "string"),
        ("topic", "string"),
        ("filter", "string"),
        ("event", "string"),
        ("peer", "string"),
        ("hops", "int32"),
        ("count", "int64"),
        ("detail", "string"),
    ]
    assert [(field.name, str(field.type)) for field in SCHEMA] == promised
    assert not any(field.nullable for field in SCHEMA)
    with SegmentWriter(tmp_path, "b1") as writer:
        writer.extend(records(1))
    assert pq.read_schema(tmp_path / names(tmp_path)[0]).remove_metadata().equals(SCHEMA)


def test_the_timestamp_is_the_instant(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path, "b1") as writer:
        writer.extend(records(2, start_us=1_700_000_000_123_456))
    (name,) = names(tmp_path)
    times = pq.ParquetFile(tmp_path / name).read(["time"]).column("time")
    assert times.cast(pa.int64()).to_pylist() == [1_700_000_000_123_456, 1_700_000_000_123_457]
    parquet = pq.read_metadata(tmp_path / name).schema.column(1)
    assert parquet.physical_type == "INT64"  # not the INT96 of old
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(parquet.logical_type)


# --- complete or not there ------------------------------------------------------------------------


def test_a_segment_is_not_seen_before_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, list[str], int]] = []
    fsync, link = os.fsync, os.link

    def look(what: str) -> None:
        seen.append((what, [name[:1] for name in names(tmp_path)], len(list(read_records(tmp_path)))))

    def watched_fsync(handle: int) -> None:
        look("fsync")
        fsync(handle)

    def watched_link(old: Path, new: Path) -> None:
        look("link")
        assert old.parent == new.parent
        assert len(pq.read_table(old)) == 3  # complete already
        link(old, new)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "link", watched_link)
    with SegmentWriter(tmp_path, "b1") as writer:
        writer.extend(records(3))
        assert list(read_records(tmp_path)) == []
    assert seen == [("fsync", ["_"], 0), ("link", ["_"], 0), ("fsync", ["0"], 3)]


def test_what_a_killed_broker_left_is_ignored_and_then_removed(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path, "b1") as writer:
        writer.extend(records(3))
    (name,) = names(tmp_path)
    left = tmp_path / f"_{name}.unfinished"
    left.write_bytes(b"PAR1 and then the power went")
    for other in ("_SUCCESS", ".hidden.parquet", "_other.parquet", "notes.txt"):
        (tmp_path / other).write_text("not a segment")
    assert list(read_records(tmp_path)) == records(3)
    SegmentWriter(tmp_path, "b2").close()
    assert left.exists()
    SegmentWriter(tmp_path, "b1", boot=1).close()
    assert not left.exists()
    assert len(names(tmp_path)) == 5


# --- damage ---------------------------------------------------------------------------------------


def damage_nothing_left(good: bytes) -> bytes:
    return b""


def damage_cut(good: bytes) -> bytes:
    return good[: len(good) // 2]


def damage_other_file(good: bytes) -> bytes:
    return b"at_us,broker\n1,b1\n"


def damage_a_bit_of_data(good: bytes) -> bytes:
    column = pq.read_metadata(pa.BufferReader(good)).row_group(0).column(0)
    at = column.dictionary_page_offset + column.total_compressed_size - 1
    return good[:at] + bytes((good[at] ^ 1,)) + good[at + 1 :]


@pytest.mark.parametrize("damage", [damage_nothing_left, damage_cut, damage_other_file, damage_a_bit_of_data])
def test_a_damaged_segment_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    for broker in ("b1", "b2"):
        with SegmentWriter(tmp_path, broker) as writer:
            writer.extend(records(50, broker))
    victim = tmp_path / names(tmp_path)[1]
    victim.write_bytes(damage(victim.read_bytes()))
    found = read_records(tmp_path)
    assert len([next(found) for _ in range(50)]) == 50  # those of the other segment
    with pytest.raises(EventLogError, match=rf"{victim.name}: the segment is damaged: .*restore"):
        next(found)


def test_any_flipped_bit_is_harmless(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path, "b1") as writer:
        writer.extend(records(20))
    (path,) = tmp_path.iterdir()
    good = path.read_bytes()
    refused = 0
    for at in range(0, len(good), 13):
        path.write_bytes(good[:at] + bytes((good[at] ^ (1 << at % 8),)) + good[at + 1 :])
        try:
            list(read_records(tmp_path))
        except EventLogError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda table: table.drop_columns(["peer", "hops"]), "no column peer, no column hops"),
        (
            lambda table: table.set_column(10, "hops", table.column("hops").cast(pa.int64())),
            "column hops is int64, not int32 not null",
        ),
        (lambda table: pa.table({"a": [1]}), "no column at_us"),
    ],
)
def test_a_wrong_schema_is_named(tmp_path: Path, change: Callable[[Any], Any], problem: str) -> None:
    with SegmentWriter(tmp_path, "b1") as writer:
        writer.extend(records(3))
    (path,) = tmp_path.iterdir()
    pq.write_table(change(pq.ParquetFile(path).read()), path)
    with pytest.raises(LatecomerError, match=f"{path.name}: not a segment of this event log: {problem}"):
        list(read_records(tmp_path))


def test_a_column_or_kind_of_a_later_version(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path, "b1") as writer:
        writer.extend(records(3))
    (path,) = tmp_path.iterdir()
    table = pq.ParquetFile(path).read()
    pq.write_table(table.append_column("later", pa.array([1, 2, 3])), path)
    assert list(read_records(tmp_path)) == records(3)
    kinds = pa.array(["delivered", "levitated", "delivered"])
    pq.write_table(table.set_column(3, SCHEMA.field("kind"), kinds), path)
    with pytest.raises(EventLogError, match=f"{path.name}: records of the unknown kind 'levitated'"):
        list(read_records(tmp_path))


# --- a full disk ----------------------------------------------------------------------------------


def test_two_writers_that_think_they_are_the_same_broker(tmp_path: Path) -> None:
    """Same id, same boot, same instants: both would use the same names, and neither replaces what the other wrote."""
    one, two = SegmentWriter(tmp_path, "b1", boot=7), SegmentWriter(tmp_path, "b1", boot=7)
    for part in (records(3), records(2)):
        one.extend(part)
        two.extend(part)
        one.roll()
        two.roll()
    assert len(names(tmp_path)) == 4
    assert sorted(read_records(tmp_path), key=str) == sorted((records(3) + records(2)) * 2, key=str)


def test_two_writers_at_the_same_time(tmp_path: Path) -> None:
    """While one is still writing, the other takes the next number."""
    one, two = Files(tmp_path, "b1", 7), Files(tmp_path, "b1", 7)

    def fill(file: BinaryIO) -> None:
        file.write(b"one")
        two.write(5, lambda other: other.write(b"two"))

    one.write(5, fill)
    assert [(tmp_path / name).read_bytes() for name in names(tmp_path)] == [b"one", b"two"]


@pytest.mark.parametrize("links", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: int) -> None:
    def no_links(*_: object) -> NoReturn:
        raise OSError(links, os.strerror(links))

    monkeypatch.setattr(os, "link", no_links)
    for _ in range(2):
        with SegmentWriter(tmp_path, "b1", boot=7) as writer:
            writer.extend(records(3))
    two = Files(tmp_path, "b1", 7)
    two._number = 0  # as if both had begun at the same moment
    two.write(0, lambda file: file.write(b"two"))
    assert len(names(tmp_path)) == 3


def full(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["fsync", "link", "open"])
def test_nothing_is_lost_and_nothing_repeated_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """`os.open` is only used to make the directory safe: then the segment is there already."""
    writer = SegmentWriter(tmp_path, "b1", rows_max=10)
    writer.extend(records(5))
    with monkeypatch.context() as broken:
        broken.setattr(os, call, full)
        for _ in range(2):
            with pytest.raises(EventLogError, match=r"No space left on device; make room on the disk"):
                writer.roll()
        assert writer.waiting == (0 if call == "open" else 5)
        assert all(not name.startswith("_") for name in names(tmp_path))
    writer.roll()
    writer.close()
    assert list(read_records(tmp_path)) == records(5)
    assert len(names(tmp_path)) == 1


def test_a_file_that_cannot_grow(tmp_path: Path) -> None:
    """The real thing, as far as a test may go: the system refuses to write the file."""
    writer = SegmentWriter(tmp_path, "b1")
    writer.extend(records(2000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(EventLogError, match="2000 records wait in memory"):
            writer.roll()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(tmp_path) == []
    writer.close()
    assert list(read_records(tmp_path)) == records(2000)


def test_what_add_takes_while_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tries again once in a while, and says when it can take no more."""
    writer = SegmentWriter(tmp_path, "b1", rows_max=10)
    given = iter(records(200))
    taken: list[Record] = []
    failures = 0
    with monkeypatch.context() as broken:
        broken.setattr(os, "link", full)
        for record in given:
            try:
                writer.add(record)
            except EventLogFullError:
                break
            except EventLogError:
                failures += 1
            taken.append(record)
        assert len(taken) == writer.waiting == 100
        assert failures == 10
        with pytest.raises(EventLogFullError, match="100 records wait"):
            writer.extend(given)
    writer.roll()
    writer.extend(given)
    writer.close()
    assert list(read_records(tmp_path)) == taken + records(200)[101:]


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EventLogError, match="cannot be used as an event log"):
        SegmentWriter(tmp_path / "file" / "log", "b1")
    with pytest.raises(EventLogError, match="cannot be used as an event log"):
        SegmentWriter(tmp_path / "file", "b1")
