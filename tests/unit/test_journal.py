"""The event log of a running broker, at the broker's end: blocks nobody, knows its limits, survives its writer."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from latecomer.eventlog import EventLogError, read_records
from latecomer.model.record import Kind, Record
from latecomer.runtime import journal as module
from latecomer.runtime.journal import BATCH_BYTES, BATCH_ITEMS, Journal

PATIENCE_S = 60.0
"""Only a hanging test waits this long."""


def records(count: int, start_us: int = 0) -> list[Record]:
    return [
        Record(at_us, "b1", Kind.DELIVERED, f"b1.1.{at_us}", "c", "a/b", hops=1)
        for at_us in range(start_us, start_us + count)
    ]


class Clock:
    """The broker's clock, by hand."""

    def __init__(self) -> None:
        self.now = 99

    def __call__(self) -> int:
        return self.now


def made(directory: Path, clock: Clock | None = None, **options: Any) -> Journal:
    return Journal(directory, "b1", 1, clock or Clock(), **options)


def lived(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, PATIENCE_S))


async def until(happened: Callable[[], bool]) -> None:
    while not happened():
        await asyncio.sleep(0.005)


def note_all(journal: Journal, given: list[Record]) -> None:
    for record in given:
        journal.note(record)


def process_of(journal: Journal) -> subprocess.Popen[bytes]:
    assert journal._child is not None
    return journal._child.process


def child(*lines: str) -> tuple[str, ...]:
    """The writing process, after some lines of ours."""
    script = "\n".join(("import errno, os, sys, time", "from latecomer.runtime import journal_process", *lines))
    return sys.executable, "-c", f"{script}\nsys.exit(journal_process.main())"


FULL = child("def full(*_): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))", "os.fsync = full")
STUCK = child("def stuck(*_): time.sleep(600)", "journal_process.Segments.take = stuck")


# --- there and back ---


def test_what_is_noted_is_read(tmp_path: Path) -> None:
    given = records(3 * BATCH_ITEMS + 7)

    async def story() -> None:
        journal = made(tmp_path)
        note_all(journal, given)
        journal.run("c", b"a/b", 17, 2)
        journal.mixed_run("", b"\x30\x04\x00\x01ax" * 3, 1)
        assert journal.waiting == len(given) + 2
        await journal.close()
        assert (journal.written, journal.waiting, journal.dropped) == (len(given) + 3, 0, 0)
        assert (journal.failures, journal.problem) == (0, "")
        await journal.close()

    lived(story())
    assert list(read_records(tmp_path)) == [
        *given,
        Record(99, "b1", Kind.PUBLISHED, client="c", topic="a/b", count=17),
        Record(99, "b1", Kind.DELIVERED, topic="a", count=3),
        Record(99, "b1", Kind.DELIVERED, topic="a/b", count=34),
    ]


def test_runs_come_together_until_a_record_comes(tmp_path: Path) -> None:
    clock = Clock()
    between = Record(105, "b1", Kind.SUBSCRIBED, client="d", filter="#")

    async def story() -> None:
        journal = made(tmp_path, clock)
        for clock.now in (101, 102, 103):
            journal.run("c", b"a", 2, 1)
        clock.now = 104
        journal.mixed_run("c", b"\x30\x04\x00\x01ax", 1)
        journal.note(between)
        for clock.now in (106, 107):
            journal.mixed_run("", b"\x30\x04\x00\x01ax", 3)
        await journal.close()

    lived(story())
    assert list(read_records(tmp_path)) == [
        Record(101, "b1", Kind.PUBLISHED, client="c", topic="a", count=7),
        Record(101, "b1", Kind.DELIVERED, topic="a", count=7),
        between,
        Record(106, "b1", Kind.DELIVERED, topic="a", count=6),
    ]


def test_nothing_noted_no_process(tmp_path: Path) -> None:
    async def story() -> None:
        journal = made(tmp_path / "new", command=["/nowhere"])
        await journal.close()

    lived(story())
    assert list((tmp_path / "new").iterdir()) == []


def test_what_is_noted_is_sent_without_being_asked(tmp_path: Path) -> None:
    async def story() -> None:
        journal = made(tmp_path, rows_max=2)
        note_all(journal, records(2))
        await until(lambda: journal.written == 2)
        note_all(journal, records(3, 2))
        await until(lambda: journal.written == 4)
        assert journal.waiting == 3, "a batch is settled when all of it is written"
        await journal.close()

    lived(story())
    assert list(read_records(tmp_path)) == records(5)


def test_a_batch_is_small_in_items_and_bytes(tmp_path: Path) -> None:
    """So that no message waits long for the encoding."""

    async def story() -> None:
        journal = made(tmp_path)
        note_all(journal, records(3 * BATCH_ITEMS))
        for _ in range(4):
            journal.mixed_run("c", bytes(BATCH_BYTES // 2 + 1), 1)
        sizes = []
        while journal._pending:
            journal._encode_part()
            sizes.append(journal._queue[-1][1])
        assert sizes == [BATCH_ITEMS] * 3 + [2, 2]
        journal._queue.clear()
        await journal.close()

    lived(story())


# --- limits ---


def test_what_does_not_fit_into_the_list_is_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PENDING_MAX", 1000)

    async def story() -> None:
        journal = made(tmp_path)
        note_all(journal, records(1500))
        journal.run("c", b"a", 1, 1)
        journal.mixed_run("c", b"\x30\x04\x00\x01ax", 1)
        assert (journal.waiting, journal.dropped) == (1000, 502)
        await journal.close()
        assert journal.dropped == 502
        journal.note(records(1)[0])
        assert (journal.waiting, journal.dropped) == (0, 503), "it is closed"

    lived(story())
    assert list(read_records(tmp_path)) == records(1000)


def test_what_does_not_fit_into_the_buffer_is_dropped_and_counted(tmp_path: Path) -> None:
    async def story() -> None:
        journal = made(tmp_path, pending_bytes_max=3 * BATCH_BYTES + 1000)
        for _ in range(10):
            journal.mixed_run("c", bytes(BATCH_BYTES + 1), 1)
        while journal._pending:
            journal._encode_part()
        assert (journal.waiting, journal.dropped) == (3, 7)
        journal._queue.clear()
        await journal.close()

    lived(story())


def test_a_writer_that_does_not_read_blocks_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        journal = made(tmp_path, pending_bytes_max=4 << 20, command=STUCK)
        await until(lambda: journal._child is not None)
        while not journal.dropped:
            journal.mixed_run("c", bytes(1 << 16), 1)
            await asyncio.sleep(0)
        with pytest.raises(EventLogError, match=r"the disk does not answer; \d+ records may be lost"):
            await journal.close(0.01)
        process_of(journal).kill()
        with pytest.raises(EventLogError, match="records are lost"):
            await journal.close()

    lived(story())


def test_a_record_that_cannot_travel_is_lost_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        journal = made(tmp_path)
        unfit = [Record(0, "b1", Kind.STARTED, count=1 << 70), Record(0, "b1", Kind.STARTED, detail="\ud800")]
        note_all(journal, [*records(3), *unfit, *records(3, 3)])
        with pytest.raises(EventLogError, match="2 records are lost"):
            await journal.close()

    lived(story())
    assert list(read_records(tmp_path)) == records(6)
    assert caplog.text.count("a record cannot be written to the event log") == 2


def test_a_record_that_no_column_takes_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        journal = made(tmp_path)
        note_all(journal, [*records(3), Record(0, "b1", Kind.STARTED, hops=1 << 40)])
        with pytest.raises(EventLogError, match="1 records are lost"):
            await journal.close()
        assert (journal.written, journal.dropped) == (3, 1)

    lived(story())
    assert "1 records cannot be written" in caplog.text


# --- a disk that fails ---


def test_a_full_disk_is_told_and_survived(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    switch = tmp_path / "full"
    switch.touch()
    half_full = child(
        "real = os.fsync",
        "def sometimes(handle):",
        f"    if os.path.exists({str(switch)!r}): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))",
        "    real(handle)",
        "os.fsync = sometimes",
    )

    async def story() -> None:
        journal = made(tmp_path / "log", rows_max=10, retry_s=0.01, command=half_full)
        note_all(journal, records(25))
        await until(lambda: journal.failures >= 3)
        assert "No space left on device; make room" in journal.problem
        switch.unlink()
        await until(lambda: journal.written == 20)
        assert journal.problem == ""
        await journal.close()

    lived(story())
    assert list(read_records(tmp_path / "log")) == records(25)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"], "when it begins and when it ends"


def test_a_disk_that_stays_full_is_told_at_the_end(tmp_path: Path) -> None:
    async def story() -> None:
        journal = made(tmp_path, retry_s=0.01, command=FULL)
        note_all(journal, records(25))
        with pytest.raises(EventLogError, match=r"No space left on device.*25 records are lost"):
            await journal.close()
        assert (journal.waiting, journal.dropped) == (0, 25)

    lived(story())


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    async def story() -> None:
        with pytest.raises(EventLogError, match="cannot be used as an event log"):
            made(tmp_path / "file")

    lived(story())


# --- a writer that dies ---


def test_a_writer_that_dies_is_replaced_and_what_it_had_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        journal = made(tmp_path, rows_max=10, again_s=0.01)
        note_all(journal, records(13))
        await until(lambda: journal.written == 10)
        process_of(journal).kill()
        await until(lambda: journal.dropped > 0)
        note_all(journal, records(5, 13))
        await until(lambda: journal._child is not None)
        await journal.close()
        assert (journal.written, journal.dropped, journal.waiting) == (15, 13, 0)

    lived(story())
    # The thirteen were one batch, of which nobody had said that it was written.
    assert list(read_records(tmp_path)) == [*records(10), *records(5, 13)]
    assert "ended (-9); 13 records are lost; next attempt in 0.01 s" in caplog.text


def test_a_writer_that_cannot_be_started(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        journal = made(tmp_path, again_s=0.001, command=["/nowhere/at/all"])
        note_all(journal, records(3))
        await until(lambda: len(caplog.records) >= 3)
        with pytest.raises(EventLogError, match="3 records are lost"):
            await journal.close()

    lived(story())
    assert "cannot be started: No such file or directory; next attempt in 0.002 s" in caplog.text


# --- a broker that dies ---

BROKER = """
import asyncio, os, signal, sys
from pathlib import Path
from latecomer.model.record import Kind, Record
from latecomer.runtime.journal import Journal

async def story():
    journal = Journal(Path(sys.argv[1]), "b1", 1, lambda: 0)
    for n in range(500):
        journal.note(Record(n, "b1", Kind.DELIVERED, f"b1.1.{n}", "c", "a/b", hops=1))
    while journal._child is None or journal._child.sent < 500:
        await asyncio.sleep(0.001)
    assert "pyarrow" not in sys.modules
    print(journal._child.process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(story())
"""


def test_what_a_killed_broker_sent_is_written(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BROKER, str(tmp_path)], check=False, timeout=PATIENCE_S, stdout=subprocess.PIPE
    )
    assert done.returncode == -signal.SIGKILL
    writer = int(done.stdout)

    async def story() -> None:
        await until(lambda: not Path(f"/proc/{writer}").exists() or _is_zombie(writer))

    lived(story())
    assert list(read_records(tmp_path)) == records(500)


def _is_zombie(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
