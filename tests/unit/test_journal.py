"""The event log of a running broker: a thread that loses nothing it took, blocks nobody, and knows its limits."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from latecomer.eventlog import EventLogError, SegmentWriter, read_records
from latecomer.eventlog.schema import table_of
from latecomer.model.record import Kind, Record
from latecomer.runtime import journal as module
from latecomer.runtime.journal import SLICE_ROWS, Journal, Keep

PATIENCE_S = 20.0
"""Only a hanging test waits this long."""


def records(count: int, start_us: int = 0, broker: str = "b1") -> list[Record]:
    return [
        Record(at_us, broker, Kind.DELIVERED, f"b1.1.{at_us}", "c", "a/b", hops=1)
        for at_us in range(start_us, start_us + count)
    ]


def segments(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.002)


def quick(directory: Path, **options: Any) -> Journal:
    return Journal(directory, "b1", 1, **({"pause_s": 0.001, "retry_s": 0.001} | options))


# --- there and back ---


def test_what_is_noted_is_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "b1", 3)
    given = records(3 * SLICE_ROWS + 7)
    note = journal.note
    for record in given[:1000]:
        note(record)
    journal.note_many(given[1000:])
    journal.note_run(Kind.PUBLISHED, "c", "a/b", 17, 99)
    journal.close()
    assert list(read_records(tmp_path)) == [*given, Record(99, "b1", Kind.PUBLISHED, client="c", topic="a/b", count=17)]
    assert (journal.written, journal.waiting, journal.dropped, journal.problem) == (len(given) + 1, 0, 0, "")
    journal.close()


def test_nothing_noted_nothing_written(tmp_path: Path) -> None:
    quick(tmp_path / "new").close()
    assert segments(tmp_path / "new") == []


def test_segments_by_rows(tmp_path: Path) -> None:
    journal = quick(tmp_path, rows_max=700)
    given = records(2000)
    journal.note_many(given)
    until(lambda: journal.written == 1400)
    assert len(segments(tmp_path)) == 2
    until(lambda: journal.waiting == 600)
    journal.close()
    assert len(segments(tmp_path)) == 3
    assert list(read_records(tmp_path)) == given


def test_segments_by_time(tmp_path: Path) -> None:
    journal = quick(tmp_path, seconds_max=0.01)
    journal.note_many(records(3))
    until(lambda: journal.written == 3)
    journal.note_many(records(2, 3))
    until(lambda: journal.written == 5)
    assert len(segments(tmp_path)) == 2
    journal.close()
    assert list(read_records(tmp_path)) == records(5)


def test_a_life_continues_and_the_next_replaces_nothing(tmp_path: Path) -> None:
    for boot in (1, 1, 2):
        journal = Journal(tmp_path, "b1", boot)
        journal.note_many(records(2))
        journal.close()
    assert len(list(read_records(tmp_path))) == 6
    assert [name.rpartition("-")[2] for name in segments(tmp_path)] == [
        "00000001.parquet",
        "00000002.parquet",
        "00000001.parquet",
    ]


def test_names_are_those_of_the_segment_writer(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", "b/é", 12)
    journal.note_many(records(2, 77))
    journal.close()
    with SegmentWriter(tmp_path / "writer", "b/é", boot=12) as writer:
        writer.extend(records(2, 77))
    assert segments(tmp_path / "journal") == segments(tmp_path / "writer")


def test_noting_while_the_thread_takes_loses_nothing(tmp_path: Path) -> None:
    """Appending and cutting off the beginning meet in the same list, thousands of times."""
    journal = quick(tmp_path, rows_max=5000, pause_s=0.0)
    given = records(20_000)
    for record in given:
        journal.note(record)
        journal.turn()
    journal.close()
    assert list(read_records(tmp_path)) == given


# --- limits ---


def test_what_does_not_fit_is_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = Event()

    def slow_table_of(taken: list[Record]) -> Any:
        stuck.wait()
        return table_of(taken)

    monkeypatch.setattr(module, "table_of", slow_table_of)
    journal = quick(tmp_path, pending_max=1000)
    journal.note_many(records(SLICE_ROWS))
    until(lambda: journal.waiting == 0)  # the thread has them, and hangs
    journal.note_many(records(1500, SLICE_ROWS))
    journal.turn()
    assert (journal.waiting, journal.dropped) == (1000, 500)
    journal.turn()
    assert journal.dropped == 500
    stuck.set()
    journal.close()
    assert list(read_records(tmp_path)) == records(SLICE_ROWS + 1000)


def test_the_thread_holds_the_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "rename", broken(errno.ENOSPC))
    journal = quick(tmp_path, rows_max=100, pending_max=1000)
    journal.note_many(records(5000))
    until(lambda: journal.dropped == 3900 and journal.waiting == 1100)
    monkeypatch.undo()
    journal.close()
    assert list(read_records(tmp_path)) == records(1100)


def broken(number: int) -> Callable[..., None]:
    def fail(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_full_disk_is_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "fsync", broken(errno.ENOSPC))
    journal = quick(tmp_path, rows_max=10)
    journal.note_many(records(25))
    until(lambda: journal.failures >= 3)
    assert "No space left on device; make room" in journal.problem
    assert list(read_records(tmp_path)) == []
    monkeypatch.undo()
    until(lambda: journal.written == 20)
    assert journal.problem == ""
    journal.close()
    assert list(read_records(tmp_path)) == records(25)
    assert len(caplog.records) == 2, "one line when it begins, one when it ends"


def test_a_disk_that_stays_full_is_told_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", broken(errno.ENOSPC))
    journal = Journal(tmp_path, "b1", 1)
    journal.note_many(records(25))
    with pytest.raises(EventLogError, match=r"No space left on device.*25 records are lost"):
        journal.close()
    assert segments(tmp_path) == []


def test_a_disk_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = Event()
    monkeypatch.setattr(os, "fsync", lambda handle: stuck.wait())
    journal = quick(tmp_path, rows_max=1)
    journal.note_many(records(1))
    with pytest.raises(EventLogError, match="does not answer"):
        journal.close(0.01)
    stuck.set()
    journal.close()
    assert list(read_records(tmp_path)) == records(1)


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EventLogError, match="cannot be used as an event log"):
        Journal(tmp_path / "file", "b1", 1)


def test_a_record_that_no_column_takes_does_not_end_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(tmp_path, "b1", 1)
    journal.note_many([*records(SLICE_ROWS - 1), Record(0, "b1", Kind.STARTED, hops=1 << 40), *records(3)])
    journal.close()
    assert list(read_records(tmp_path)) == records(3)
    assert journal.dropped == SLICE_ROWS
    assert "cannot be written" in caplog.text


# --- killed ---

CHILD = """
import os, signal, sys
from pathlib import Path
from latecomer.model.record import Kind, Record
from latecomer.runtime.journal import Journal

rename = os.rename
def third_time_lucky(*paths):
    if Path(paths[1]).name.endswith("3.parquet"):
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*paths)
os.rename = third_time_lucky
journal = Journal(Path(sys.argv[1]), "b1", 1, rows_max=100, pause_s=0.001)
journal.note_many([Record(n, "b1", Kind.DELIVERED, f"b1.1.{n}", "c", "a/b", hops=1) for n in range(500)])
journal.close()
"""


def test_a_kill_leaves_whole_segments_only(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert len([name for name in segments(tmp_path) if name.startswith("_")]) == 1, "the third was under way"
    assert list(read_records(tmp_path)) == records(200)
    Journal(tmp_path, "b2", 1).close()
    assert len(segments(tmp_path)) == 3, "what others left behind is not ours to remove"
    Journal(tmp_path, "b1", 2).close()
    assert len(segments(tmp_path)) == 2
    assert list(read_records(tmp_path)) == records(200)


# --- keeping ---


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (Keep(), 6),
        (Keep(segments=2), 2),
        (Keep(segments=9), 6),
        (Keep(bytes=1), 1),
        (Keep(bytes=1 << 30), 6),
        (Keep(seconds=3), 4),
        (Keep(seconds=100, segments=3), 3),
    ],
)
def test_old_segments_go(tmp_path: Path, keep: Keep, left: int) -> None:
    """Six segments, one each second; what belongs to others stays."""
    other = Journal(tmp_path, "b2", 1)
    other.note_many(records(1, broker="b2"))
    other.close()
    (tmp_path / "notes-of-somebody.parquet").touch()
    for second in range(6):
        journal = Journal(tmp_path, "b1", second, keep=keep)
        journal.note_many(records(10, second * 1_000_000))
        journal.close()
    (tmp_path / "notes-of-somebody.parquet").unlink()
    found = [record for record in read_records(tmp_path) if record.broker == "b1"]
    assert found == [record for second in range(6 - left, 6) for record in records(10, second * 1_000_000)]
    assert len(segments(tmp_path)) == left + 1
