"""What a log is, where it is looked for, and which of its segments can be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from latecomer.eventlog import EventLogError
from latecomer.eventlog.schema import FIELDS
from latecomer.model.ids import NUMBER_MAX
from latecomer.model.record import Kind
from latecomer.pipeline.log import ALWAYS, Log, Segment, Window, clipped, examine, find_log, segment_names
from latecomer.pipeline.output import escaped
from tests.pipeline.logs import (
    BEGIN_US,
    flip,
    foreign,
    later_schema,
    page_byte,
    record,
    truncate,
    write_log,
    wrong_schema,
)

RECORDS = [record(n, "b1", Kind.PUBLISHED, topic=f"a/{n}") for n in range(50)]


@pytest.mark.parametrize("place", ["", "events", "data/events", "b1/events", "b1/data/events"])
def test_where_a_log_is_found(tmp_path: Path, place: str) -> None:
    (file,) = write_log(tmp_path / place, RECORDS)
    log = find_log(tmp_path)
    (segment,) = log.segments
    assert (tmp_path / segment.name, segment.rows, segment.bytes) == (file, 50, file.stat().st_size)
    assert (segment.first_us, segment.last_us) == (BEGIN_US, BEGIN_US + 49_000_000)
    assert log.rows == 50


def test_unfinished_segments_and_other_files_are_no_part_of_it(tmp_path: Path) -> None:
    (file,) = write_log(tmp_path, RECORDS)
    (tmp_path / f"_{file.name}.unfinished").write_bytes(b"half")
    (tmp_path / ".hidden.parquet").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("mine")
    assert list(segment_names(tmp_path)) == [file.name]


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    with pytest.raises(EventLogError, match="there is no segment of an event log in it; name the folder"):
        find_log(tmp_path)
    with pytest.raises(EventLogError, match="does not exist; name the folder"):
        find_log(tmp_path / "missing")
    (tmp_path / "file").write_text("")
    with pytest.raises(EventLogError, match="is not a folder; name the folder"):
        find_log(tmp_path / "file")


def test_what_cannot_be_read_is_told_segment_by_segment(tmp_path: Path) -> None:
    files = [write_log(tmp_path, RECORDS, boot=boot)[-1] for boot in range(4)]
    truncate(files[0])
    foreign(files[1])
    wrong_schema(files[2], RECORDS)
    later_schema(tmp_path / "later.parquet", RECORDS)
    files[3].rename(tmp_path / "empty.parquet")
    (tmp_path / "empty.parquet").write_bytes(b"")
    log = find_log(tmp_path)
    assert [segment.name for segment in log.segments] == ["later.parquet"]
    reasons = {one.name: one.reason for one in log.damaged}
    assert reasons[files[0].name].startswith("damaged: ")
    assert reasons[files[1].name].startswith("not a segment of an event log: no column at_us")
    assert reasons[files[2].name] == "not a segment of an event log: column at_us is string, not int64"
    assert reasons["empty.parquet"].startswith("damaged: ")


def test_a_page_is_damaged(tmp_path: Path) -> None:
    """Its end says that all is well; the checksum of the page says it is not."""
    first, second = (write_log(tmp_path, RECORDS, boot=boot)[-1] for boot in range(2))
    flip(first, page_byte(first))
    log = find_log(tmp_path)
    assert len(log.segments) == 2
    assert not log.damaged
    sound, gone = examine(log)
    assert [segment.name for segment in sound.segments] == [second.name]
    assert [one.name for one in sound.damaged] == [first.name]
    assert not gone


def test_a_segment_goes_meanwhile(tmp_path: Path) -> None:
    first, second = (write_log(tmp_path, RECORDS, boot=boot)[-1] for boot in range(2))
    log = find_log(tmp_path)
    first.unlink()
    sound, gone = examine(log)
    assert [segment.name for segment in sound.segments] == [second.name]
    assert gone == [first.name]
    assert not sound.damaged


def test_no_byte_of_a_segment_can_be_turned_over_unnoticed(tmp_path: Path) -> None:
    """Or it does not matter: what is read is as it was."""
    (file,) = write_log(tmp_path, RECORDS)
    whole, table = file.read_bytes(), pq.read_table(file, columns=list(FIELDS))
    noticed = 0
    for at in range(0, len(whole), 17):
        flip(file, at)
        sound, _ = examine(find_log(tmp_path))
        if sound.segments:
            with pq.ParquetFile(file) as read:
                assert read.read(columns=list(FIELDS)).equals(table), at
        noticed += not sound.segments
        file.write_bytes(whole)
    assert noticed > 100


def test_windows() -> None:
    log = Log(Path("x"), (Segment("a", 1, 1, 10, 19), Segment("b", 1, 1, 20, 29), Segment("c", 1, 1)))
    assert [segment.name for segment in log.within(Window(20, 21)).segments] == ["b", "c"]
    assert [segment.name for segment in log.within(Window(0, 10)).segments] == ["c"]
    assert log.within(ALWAYS) == log
    seen = Window(12, 28)
    segments = log.segments[:2]
    assert clipped(ALWAYS, seen, segments) == seen
    assert clipped(Window(11, 25), Window(12, 24), segments) == Window(11, 25), "it goes on outside"
    assert clipped(Window(5, 40), seen, segments) == seen, "it does not"
    assert clipped(Window(11), seen, log.segments) == Window(11, 28), "a segment that does not say its instants"
    assert ALWAYS.until_us == NUMBER_MAX


def test_paths_are_no_patterns() -> None:
    assert escaped(Path("/a [b]{c}*?/d e")) == "file:///a \\[b\\]\\{c\\}\\*\\?/d e"
