"""The broker's disk: the core's tables in one SQLite file, written by one thread.

Theory of operation. `submit` encodes values where it is called, for the core may change what it handed over as soon as
it goes on, and puts them in a queue. The writer thread takes all that waits, folds it into one transaction, commits,
and reports every submission of the batch in order and at once. Nothing delays a commit to make it larger: while one is
under way the next one gathers.

The writer alone checkpoints, and not by SQLite's own `wal_autocheckpoint`, which ignores errors and tries again: after
a failed fsync the second attempt may succeed without having written anything.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any, Self

import msgspec

from latecomer.core.effects import Put
from latecomer.model.errors import LatecomerError
from latecomer.runtime.disk_open import Opened, open_files
from latecomer.runtime.disk_repair import FILE, Problem
from latecomer.runtime.disk_rows import Batch, Engine, SqliteEngine, Tables, Write, commit

BATCH_WRITES = 1000
BATCH_BYTES = 256 * 1024
CHECKPOINT_PAGES = 2000
"""The journal is copied into the file about every 8 MiB."""
RESERVE_BYTES = 64 * 1024 * 1024
RESERVE_SHARE = 50
"""One part in so many of the file system: 2 %."""
LOOK_EVERY_S = 0.25
SETTLED = "PRAGMA wal_checkpoint(TRUNCATE)"

Done = Callable[[Exception | None], None]
_Submission = tuple[Sequence[Write], list[bytes | None], Done, int]


class Durability(StrEnum):
    """What acknowledged writes survive."""

    POWER = "power"
    """The end of the process and of the power: every commit is synced."""
    PROCESS = "process"
    """The end of the process; with the power the last commits may go, never the consistency."""
    NONE = "none"
    """Nothing: there is no file."""


class DiskFull(LatecomerError):
    """There was no room: nothing of the submission was written. Make room, then submit it again."""


class DiskFailed(LatecomerError):
    """The disk cannot be trusted any more: stop the process, and do not try again."""


class Disk:
    """What a broker keeps. Give `take()` to the core, and every `Persist` of the core to `submit` or `write`.

    With `deliver` set, to `loop.call_soon_threadsafe` for example, all reports of a batch come by one call of it;
    otherwise they come in the writer thread. They come in the order of submission, and must not raise.

    A submission that fails also fails all that were submitted before the failure was reported, so nothing is written
    past a gap. After a `DiskFull` they can be submitted again, in order; after a `DiskFailed` the process must stop.
    """

    def __init__(
        self,
        durability: Durability,
        boot: int,
        opened: Opened | None,
        types: Mapping[str, Any],
        reserve_bytes: int | None,
    ) -> None:
        self.durability = durability
        self.boot = boot
        """Larger than at any earlier opening."""
        self.tables: Tables = {} if opened is None else opened.tables
        self.problems: list[Problem] = [] if opened is None else opened.problems
        self.deliver: Callable[[Callable[[], None]], object] | None = None
        self.sqlite_version = sqlite3.sqlite_version
        self._opened = opened
        self._types = types
        self._queue: SimpleQueue[_Submission | None] = SimpleQueue()
        self._encode = msgspec.msgpack.Encoder().encode
        self._submitted = self._finished = 0
        self._gap = self._reported_gap = 0
        """Failures so far; a submission from before the last one was reported is refused."""
        self.failed: DiskFailed | None = None
        """Set once the disk has failed, also when nothing was under way."""
        self._closed = False
        self._until_checkpoint = self._between_checkpoints = CHECKPOINT_PAGES
        self._reserve_bytes = reserve_bytes
        self._free_pages = 0
        self._space = 0
        self._looked_at = -LOOK_EVERY_S
        self._writer: Thread | None = None
        if opened is not None:
            self._writer = Thread(target=self._run, args=(opened.engine,), name="disk", daemon=True)
            self._writer.start()

    @classmethod
    def open(
        cls,
        directory: Path,
        types: Mapping[str, Any],
        durability: Durability = Durability.POWER,
        *,
        reserve_bytes: int | None = None,
        connect: Callable[[Path], Engine] = SqliteEngine,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> Disk:
        """Open what is in `directory`, or begin it. `types` has the type of the values of every table.

        `reserve_bytes` is the room that `space` leaves to work under way: by default 64 MiB or 2 % of the file system,
        whichever is less. Raises a `SettingsError` about the key `data`.
        """
        if durability is Durability.NONE:
            return cls(durability, clock_us(), None, types, reserve_bytes)
        opened = open_files(directory, types, connect, clock_us())
        try:
            opened.engine.execute(f"PRAGMA synchronous = {'FULL' if durability is Durability.POWER else 'NORMAL'}")
        except BaseException:
            opened.release()
            raise
        return cls(durability, opened.boot, opened, types, reserve_bytes)

    def take(self) -> Tables:
        """What was found, to be kept by the caller from now on."""
        tables, self.tables = self.tables, {}
        return tables

    # --- the caller's thread ---

    def submit(self, writes: Sequence[Write], done: Done) -> None:
        """Make these writes safe, all or none; then `done(None)`, or `done` with `DiskFull` or `DiskFailed`."""
        assert not self._closed, "the disk is closed"
        if self._writer is None:
            done(None)
            return
        for write in writes:
            assert write.table in self._types, f"no type was given for the table {write.table!r}"
        encode = self._encode
        values = [encode(write.value) if type(write) is Put else None for write in writes]
        self._submitted += 1
        self._queue.put((writes, values, done, self._reported_gap))

    def write(self, writes: Sequence[Write]) -> Future[None]:
        """`submit` with a future."""
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()

        def done(error: Exception | None) -> None:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.submit(writes, done)
        return future

    @property
    def waiting(self) -> int:
        """Submissions that were not reported yet: what to limit."""
        return self._submitted - self._finished

    def space(self) -> int:
        """Bytes that may still be written before the reserve is touched: refuse what is new at 0 and below.

        Writing goes on into the reserve, for finishing work under way is what makes room. Looks a few times a second.
        """
        if self._opened is None:
            return 2**62
        now = time.monotonic()
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            found = os.statvfs(self._opened.directory)
            reserve = self._reserve_bytes
            if reserve is None:
                reserve = min(RESERVE_BYTES, found.f_blocks * found.f_frsize // RESERVE_SHARE)
            free = found.f_bavail * found.f_frsize + self._free_pages * self._opened.page_size
            self._space = free - reserve
        return self._space

    def close(self) -> None:
        """Commit everything submitted, copy the journal into the file, and let go of it.

        Reports by `deliver` may come later. After a `DiskFailed` nothing is touched any more, and the directory stays
        locked until the process ends.
        """
        if self._closed:
            return
        self._closed = True
        if self._writer is None or self._opened is None:
            return
        self._queue.put(None)
        self._writer.join()
        if self.failed is None:
            try:
                self._opened.engine.execute(SETTLED)
            except sqlite3.Error as error:
                if not _is_full(error):  # a full disk keeps its journal, which the next opening reads
                    self._fail(self._opened.engine, error)
        if self.failed is None:
            self._opened.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the writer thread ---

    def _run(self, engine: Engine) -> None:
        queue = self._queue
        while (first := queue.get()) is not None:
            submissions = [first]
            batch = Batch()
            batch.add(first[0], first[1])
            last = False
            while batch.count < BATCH_WRITES and batch.size < BATCH_BYTES:
                try:
                    submission = queue.get_nowait()
                except Empty:
                    break
                if submission is None:
                    last = True
                    break
                if submission[3] != submissions[0][3]:
                    self._write(engine, batch, submissions)
                    submissions, batch = [], Batch()
                submissions.append(submission)
                batch.add(submission[0], submission[1])
            self._write(engine, batch, submissions)
            if last:
                break

    def _write(self, engine: Engine, batch: Batch, submissions: list[_Submission]) -> None:
        """One transaction, and its report."""
        error: Exception | None = self.failed
        if error is None and submissions[0][3] != self._gap:
            error = DiskFull("an earlier write found no room, and this one may not overtake it")
        elif error is None:
            error = self._commit(engine, batch)
        if error is not None:
            self._gap += 1
        gap = self._gap

        def report() -> None:
            self._reported_gap = gap
            for _, _, done, _ in submissions:
                self._finished += 1
                done(error)

        if self.deliver is None:
            report()
        else:
            with suppress(RuntimeError):  # the event loop is closed: nobody is left to hear it
                self.deliver(report)
        if error is None:
            self._until_checkpoint -= batch.count + batch.size // 4096
            if self._until_checkpoint <= 0:
                self._checkpoint(engine)

    def _commit(self, engine: Engine, batch: Batch) -> DiskFull | DiskFailed | None:
        try:
            commit(engine, batch.statements())
        except Exception as error:
            if not _is_full(error):
                return self._fail(engine, error)
            try:
                engine.execute("ROLLBACK")
            except sqlite3.Error as second:
                # SQLite may have rolled back by itself, and says then that there is nothing to roll back.
                if _code(second) != sqlite3.SQLITE_ERROR:
                    return self._fail(engine, second)
            return DiskFull(f"the disk is full ({error}): make room for {FILE}")
        return None

    def _checkpoint(self, engine: Engine) -> None:
        """Copy the journal into the file, so that it starts anew; and learn how many writes fill it."""
        try:
            ((_, pages, _),) = engine.execute("PRAGMA wal_checkpoint(PASSIVE)")
            ((self._free_pages,),) = engine.execute("PRAGMA freelist_count")
        except sqlite3.Error as error:
            if not _is_full(error):
                self._fail(engine, error)
            self._until_checkpoint = self._between_checkpoints  # a full disk keeps its journal a little longer
            return
        between = self._between_checkpoints * CHECKPOINT_PAGES // max(1, pages)
        self._between_checkpoints = self._until_checkpoint = min(max(between, 100), 100_000)

    def _fail(self, engine: Engine, cause: Exception) -> DiskFailed:
        engine.abandon()
        failed = DiskFailed(f"the disk failed ({cause}): the broker must stop; check the disk, then start it again")
        failed.__cause__ = cause
        self.failed = failed
        return failed


def _code(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", -1))


def _is_full(error: Exception) -> bool:
    return _code(error) == sqlite3.SQLITE_FULL
