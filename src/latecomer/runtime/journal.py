"""The event log of a running broker, written by a thread of its own.

Theory of operation. Noting a record appends it to a list, and nothing else: `note` is that list's own `append`. A
thread looks every 100 ms, takes the list's beginning in small slices and makes each into columns, which are small
and of no interest to the garbage collector; between slices it sleeps, so that the event loop waits for the
interpreter's lock no longer than one slice takes. When enough rows or seconds have come together, the columns become a
segment.

Appending, cutting off the beginning and cutting off the end of a list are each one operation under that lock, and the
two cuts are far apart; that is why the list needs no lock of its own.

A segment is made safe and renamed like those of `SegmentWriter`, which keeps records until a segment is complete and
converts them all at once: a tenth of a second for a simulator, but a stall for a broker.

The log is no promise: delivery never waits for it. What does not fit into memory while the disk is full or slow is
dropped and counted, and what is in memory when the process dies is not written.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from latecomer.eventlog import EventLogError
from latecomer.eventlog.reader import SUFFIX
from latecomer.eventlog.schema import table_of
from latecomer.eventlog.files import UNFINISHED
from latecomer.eventlog.writer import ROWS_MAX
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Kind, Record

SLICE_ROWS = 500
"""About a millisecond of the interpreter's lock."""
BETWEEN_SLICES_S = 0.0002
PENDING_MAX = 200_000
RETRY_S = 5.0
CLOSE_S = 30.0

_log = logging.getLogger(__name__)


class Bundle(Protocol):
    """Something that becomes records when the thread looks at it."""

    @property
    def at_us(self) -> Instant: ...

    def records(self) -> Iterable[Record]: ...


class Keep(msgspec.Struct, frozen=True):
    """How much of a broker's own log stays on disk; the oldest segments go first, the newest never. 0: no limit."""

    segments: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Between the first records of a segment and of the newest one: no matter how late the clock says it is."""


class Journal:
    """Takes records and writes segments, from its making until `close`.

    Memory is bounded by `rows_max` rows of columns and `pending_max` records. The thread sees to it every `pause_s`,
    but not while the disk keeps it waiting: a driver that wants the limit to hold even then calls `turn` now and then.
    """

    def __init__(
        self,
        directory: Path,
        broker: BrokerId,
        boot: int,
        *,
        rows_max: int = ROWS_MAX,
        seconds_max: float = 60.0,
        pending_max: int = PENDING_MAX,
        keep: Keep = Keep(),  # noqa: B008 - frozen
        pause_s: float = 0.1,
        retry_s: float = RETRY_S,
    ) -> None:
        assert rows_max > 0
        assert pending_max >= SLICE_ROWS, "the two ends of the list must not meet"
        self._broker = broker
        self._files = _Files(directory, broker, boot)
        self._rows_max = rows_max
        self._seconds_max = seconds_max
        self._pending_max = pending_max
        self._keep = keep
        self._pause_s = pause_s
        self._retry_s = retry_s

        self._pending: list[Record | Bundle] = []
        self.note: Callable[[Record | Bundle], None] = self._pending.append
        """Take one record; may be kept and called as it is."""
        self.note_many: Callable[[Iterable[Record]], None] = self._pending.extend
        """Take many."""
        self._dropping = Lock()
        self._closing = Event()

        self._tables: list[Any] = []
        self._rows = 0
        self._first_us = 0
        self._begun_at = 0.0
        self._retry_at = 0.0

        self.written = 0
        """Records in segments."""
        self.dropped = 0
        """Records that there was no room for."""
        self.failures = 0
        """Attempts to write that failed."""
        self.problem = ""
        """Why nothing can be written at the moment; a sentence, or empty."""

        self._thread = Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    # --- the driver's side ---

    def note_run(self, kind: Kind, client: ClientId, topic: str, count: int, at_us: Instant) -> None:
        """Take one record for `count` publications of one client and topic that came in a row."""
        self.note(Record(at_us, self._broker, kind, client=client, topic=topic, count=count))

    def turn(self) -> None:
        """Hold the limit: what is beyond it is dropped, the newest first, and counted."""
        if len(self._pending) > self._pending_max:
            with self._dropping:
                excess = len(self._pending) - self._pending_max
                if excess > 0:
                    del self._pending[self._pending_max :]
                    self.dropped += excess

    @property
    def waiting(self) -> int:
        """Records that are in memory only."""
        return len(self._pending) + self._rows

    def close(self, seconds: float = CLOSE_S) -> None:
        """Write what is there, and end the thread; an `EventLogError` if it cannot be written. Blocks meanwhile."""
        self._closing.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise EventLogError(f"{self._files.directory}: the disk does not answer; {self.waiting} records are lost")
        if self.waiting:
            raise EventLogError(f"{self.problem or self._files.directory}; {self.waiting} records are lost")

    # --- the thread's side ---

    def _run(self) -> None:
        while not self._closing.wait(self._pause_s):
            self._work(BETWEEN_SLICES_S)
        self._retry_at = 0.0
        self._work(0.0)
        self._seal()

    def _work(self, between_s: float) -> None:
        """Make columns of what has been noted, and a segment when it is time."""
        while self._pending and (self._rows < self._rows_max or self._seal()):
            self._convert()
            time.sleep(between_s)
        self.turn()
        due = self._rows >= self._rows_max or time.monotonic() >= self._begun_at + self._seconds_max
        if self._rows and due:
            self._seal()

    def _convert(self) -> None:
        taken = self._pending[: min(SLICE_ROWS, self._rows_max - self._rows)]
        del self._pending[: len(taken)]
        try:
            rows = list(_opened(taken))
            table = table_of(rows)
        except Exception:  # a record that no column takes is our mistake, and must not end the log
            _log.exception("%d records cannot be written to the event log", len(taken))
            with self._dropping:
                self.dropped += len(taken)
            return
        if not self._rows:
            self._first_us = taken[0].at_us
            self._begun_at = time.monotonic()
        self._tables.append(table)
        self._rows += len(rows)

    def _seal(self) -> bool:
        """Write a segment of what has come together; False if that must wait."""
        if not self._rows:
            return True
        if time.monotonic() < self._retry_at:
            return False
        try:
            self._files.write(pa.concat_tables(self._tables), self._first_us)
        except OSError as error:
            self.failures += 1
            self._retry_at = time.monotonic() + self._retry_s
            if not self.problem:
                self.problem = (
                    f"{self._files.directory}: the event log cannot be written: {error.strerror or error}; make room "
                    f"on the disk or repair the directory"
                )
                _log.error("%s", self.problem)
            return False
        if self.problem:
            _log.warning("%s: the event log is written again", self._files.directory)
            self.problem = ""
        self.written += self._rows
        self._tables.clear()
        self._rows = 0
        if self._keep != Keep():
            self._files.thin_out(self._keep)
        return True


def _opened(taken: Iterable[Record | Bundle]) -> Iterator[Record]:
    for item in taken:
        if isinstance(item, Record):
            yield item
        else:
            yield from item.records()


class _Files:
    """The segments of one broker in a directory that others may use as well: names as `SegmentWriter` gives them."""

    def __init__(self, directory: Path, broker: BrokerId, boot: int) -> None:
        self.directory = directory
        self._hash = blake2b(broker.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        self._mark = f"{self._hash}-{boot:010d}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for path in directory.glob(f"_*-{self._hash}-*{UNFINISHED}"):
                path.unlink(missing_ok=True)
            self._number = max((number for _, mark, number in self._own() if mark == self._mark), default=0)
        except OSError as error:
            raise EventLogError(
                f"{directory}: cannot be used as an event log: {error.strerror or error}; name another directory, or "
                f"repair this one"
            ) from error

    def write(self, table: Any, first_us: Instant) -> None:
        """Under a hidden name, made safe, renamed, and the directory made safe."""
        name = f"{max(first_us, 0):020d}-{self._mark}-{self._number + 1:08d}{SUFFIX}"
        hidden = self.directory / f"_{name}{UNFINISHED}"
        try:
            with hidden.open("wb") as file:
                pq.write_table(table, file, compression="zstd", compression_level=1, write_page_checksum=True)
                file.flush()
                os.fsync(file.fileno())
            os.rename(hidden, self.directory / name)
        except BaseException:
            with suppress(OSError):
                hidden.unlink()
            raise
        self._number += 1
        with suppress(OSError):  # the segment is in place, and must not be written once more
            handle = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def thin_out(self, keep: Keep) -> None:
        """Remove the oldest segments that are beyond a limit; what cannot be removed is tried again next time."""
        with suppress(OSError):
            names = sorted(name for name, _, _ in self._own())
            sizes = [(self.directory / name).stat().st_size if keep.bytes else 0 for name in names]
            left, total = len(names), sum(sizes)
            for name, size in zip(names[:-1], sizes, strict=False):
                age_us = _first_us(names[-1]) - _first_us(name)
                if not (0 < keep.segments < left or 0 < keep.bytes < total or 0 < keep.seconds * 1_000_000 < age_us):
                    break
                (self.directory / name).unlink(missing_ok=True)
                left -= 1
                total -= size

    def _own(self) -> Iterator[tuple[str, str, int]]:
        """Name, mark and number of this broker's segments."""
        with os.scandir(self.directory) as entries:
            for entry in entries:
                at, _, rest = entry.name.partition("-")
                mark, _, number = rest.removesuffix(SUFFIX).rpartition("-")
                if entry.name.endswith(SUFFIX) and at.isdigit() and number.isdigit() and mark.startswith(self._hash):
                    yield entry.name, mark, int(number)


def _first_us(name: str) -> Instant:
    return int(name.partition("-")[0])
