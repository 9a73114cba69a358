"""Open connections to segments: one that writes per file, and a few that read, the least used closed first."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from latecomer.history.errors import code_of, is_busy, is_full
from latecomer.history.files import Connection, Files, let_go
from latecomer.history.segment import Segment

WRITERS_MAX = 8
READERS_MAX = 16
"""Idle ones."""
PRAGMAS = (
    "PRAGMA wal_autocheckpoint = 0",  # it ignores errors and tries again, also after a failed fsync
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -8192",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cell_size_check = ON",
)
COPIED, SETTLED = "PRAGMA wal_checkpoint(PASSIVE)", "PRAGMA wal_checkpoint(TRUNCATE)"
"""What the journal has is in the file: without waiting for readers; and the journal is empty."""


@dataclass(slots=True)
class Pool:
    """Writers are the writing thread's alone; readers are anybody's, one at a time each."""

    files: Files
    pragma: str
    """How much is synced."""
    writers: OrderedDict[int, Connection] = field(default_factory=OrderedDict)
    """By the number of the segment, the least used first."""
    _idle: OrderedDict[Connection, int] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def writer(self, segment: Segment) -> Connection:
        """The connection that writes a segment."""
        found = self.writers.get(segment.number)
        if found is not None:
            self.writers.move_to_end(segment.number)
            return found
        while len(self.writers) >= WRITERS_MAX:
            self._close_writer(COPIED)
        connection = self.files.connect(segment.path, False)
        try:
            self._begin(connection)
        except BaseException as error:
            let_go(connection, error)
            raise
        self.writers[segment.number] = connection
        return connection

    def _begin(self, connection: Connection) -> None:
        if self.files.alone:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # alone, and so without shared memory
        connection.execute(self.pragma)
        for pragma in PRAGMAS:
            connection.execute(pragma)

    @contextmanager
    def reader(self, segment: Segment) -> Iterator[Connection]:
        """A connection for reading, for this long."""
        number, path = segment.number, segment.path  # a repair exchanges them
        connection = self._take(number)
        if connection is None:
            connection = self.files.connect(path, True)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._give(connection, number)

    def _take(self, number: int) -> Connection | None:
        with self._lock:
            for connection, of in reversed(self._idle.items()):
                if of == number:
                    del self._idle[connection]
                    return connection
        return None

    def _give(self, connection: Connection, number: int) -> None:
        with self._lock:
            self._idle[connection] = number
            too_many = self._idle.popitem(last=False)[0] if len(self._idle) > READERS_MAX else None
        if too_many is not None:
            too_many.close()

    def forget(self, segment: Segment) -> None:
        """A segment is gone, or about to be: close what is open of it."""
        with self._lock:
            idle = [connection for connection, number in self._idle.items() if number == segment.number]
            for connection in idle:
                del self._idle[connection]
        for connection in idle:
            connection.close()
        writer = self.writers.pop(segment.number, None)
        if writer is not None:
            writer.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = list(self._idle), OrderedDict()
        for connection in idle:
            connection.close()
        while self.writers:
            self._close_writer(SETTLED)

    def _close_writer(self, sql: str) -> None:
        """The one least used. Closing would copy the journal too, but not tell of errors."""
        number = next(iter(self.writers))
        settle(self.writers[number], sql)
        self.writers.pop(number).close()

    def abandon(self) -> None:
        for connection in self.writers.values():
            connection.abandon()


def settle(connection: Connection, sql: str = SETTLED) -> None:
    """Copy the journal into the file; a full disk keeps it, and the next opening reads it."""
    try:
        connection.execute(sql)
    except Exception as error:
        if not is_full(error):
            raise


@contextmanager
def whole(connection: Connection) -> Iterator[None]:
    """A transaction is begun and ended inside; where it can be tried again, nothing of it stays."""
    try:
        yield
    except sqlite3.Error as error:
        if is_full(error) or is_busy(error):
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error as second:
                # SQLite may have rolled back by itself, and says then that there is nothing to roll back.
                if code_of(second) != sqlite3.SQLITE_ERROR:
                    raise
        raise
