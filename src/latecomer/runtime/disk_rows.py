"""Rows of the broker's disk: one SQL table, what a transaction does to it, and the few statements that do it.

Theory of operation. `Batch` folds writes into what remains of them: the last value per key, and ranges to erase.
Erasing comes first, so a write that was overtaken within its batch never reaches the file. A whole batch is one
statement and thereby one transaction: rows into a view, with a trigger that does what each of them says. sqlite3 lets
go of the interpreter at every step of a statement, and next to a busy event loop getting it back may cost a switch
interval each time; a statement per row was ten times slower there. Unused places are filled with NULL, so that few
different statements exist and all of them stay prepared.
"""

from __future__ import annotations

import ctypes
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

from latecomer.core.effects import Drop, Put, Trim

Key = int | str
Tables = dict[str, dict[str, dict[Key, object]]]
Write = Put | Drop | Trim

APPLICATION = 0x4C617465
"""`PRAGMA application_id`: "Late"."""
SCHEMA_VERSION = 1
CREATE = (
    "CREATE TABLE row (tab TEXT NOT NULL, grp TEXT NOT NULL, key NOT NULL, value BLOB NOT NULL, crc INTEGER NOT NULL,"
    " UNIQUE (tab, grp, key))",
    "CREATE TABLE quarantine (tab, grp, key, value, crc, why TEXT)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
BATCHES = (
    "CREATE TEMP VIEW batch AS SELECT tab, grp, key AS low, key AS high, value, crc FROM row",
    """CREATE TEMP TRIGGER batched INSTEAD OF INSERT ON batch BEGIN
        DELETE FROM row
        WHERE new.value IS NULL AND tab = new.tab AND grp = new.grp AND key BETWEEN new.low AND new.high;
        INSERT OR REPLACE INTO row (tab, grp, key, value, crc)
        SELECT new.tab, new.grp, new.low, new.value, new.crc WHERE new.value IS NOT NULL;
    END""",
)
"""Of the connection, not of the file. A row without a value erases from `low` to `high`."""
APPLY = "INSERT INTO batch SELECT * FROM (VALUES {}) WHERE column1 IS NOT NULL"
COLUMNS = 6
CHUNK = 1024
"""Rows per statement; SQLite binds at most 32,766 values."""
LOWEST = -(2**63)


class Engine(Protocol):
    """A connection to SQLite. Errors are `sqlite3.Error` with `sqlite_errorcode`."""

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Iterable[tuple[Any, ...]]: ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """Never touch the files again, not even to tidy up."""


class SqliteEngine:
    """The SQLite of the standard library."""

    def __init__(self, path: Path) -> None:
        # Threads take turns: one opens, then one writes, then one closes.
        self._connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=0, check_same_thread=False
        )
        self.execute: Callable[..., Iterable[tuple[Any, ...]]] = self._connection.execute

    def close(self) -> None:
        self._connection.close()

    def abandon(self) -> None:
        # Closing, also by the garbage collector, would checkpoint: an fsync repeated after a failed one may report
        # success for pages that the kernel has dropped. One reference too many keeps the connection to the end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))


def place_checksum(table: str, group: str) -> int:
    """CRC-32 over what the rows of a group have in common."""
    return crc32(group.encode(), crc32(table.encode()))


def checksum(place: int, key: Key, value: bytes) -> int:
    """CRC-32 over all of a row, given the one of its place."""
    return crc32(value, crc32(b"i%d" % key if isinstance(key, int) else b"s" + key.encode(), place))


@dataclass(slots=True)
class Batch:
    """What writes come to, taken together and in order."""

    groups: dict[tuple[str, str], dict[Key, bytes | None]] = field(default_factory=dict)
    """Per table and group: the last value of a key, None if it was dropped."""
    trims: dict[tuple[str, str], int] = field(default_factory=dict)
    count: int = 0
    size: int = 0

    def add(self, writes: Sequence[Write], values: Sequence[bytes | None]) -> None:
        """`values` are the encoded values of the `Put`s, None for the others."""
        groups = self.groups
        for write, value in zip(writes, values, strict=True):
            place = (write.table, write.group)
            group = groups.get(place)
            if group is None:
                group = groups[place] = {}
            if isinstance(write, Trim):
                below = write.below
                for key in [key for key in group if type(key) is int and key < below]:
                    del group[key]
                self.trims[place] = max(below, self.trims.get(place, below))
            else:
                group[write.key] = value
                if value is not None:
                    self.size += len(value)
        self.count += len(writes)

    def statements(self) -> list[tuple[str, list[Any]]]:
        """The SQL that does it: erase, then put."""
        cells: list[Any] = []
        puts: list[Any] = []
        for (table, group), below in self.trims.items():
            cells += (table, group, LOWEST, below - 1, None, None)
        for (table, group), keys in self.groups.items():
            place = place_checksum(table, group)
            for key, value in keys.items():
                if value is None:
                    cells += (table, group, key, key, None, None)
                else:
                    puts += (table, group, key, None, value, checksum(place, key, value))
        return applying(cells + puts)


def commit(engine: Engine, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
    """All or none. After an error the transaction is still to be rolled back."""
    if len(statements) == 1:  # a statement alone is a transaction
        engine.execute(*statements[0])
    elif statements:
        engine.execute("BEGIN IMMEDIATE")
        for statement in statements:
            engine.execute(*statement)
        engine.execute("COMMIT")


def put_rows(rows: Sequence[tuple[Any, ...]]) -> list[tuple[str, list[Any]]]:
    """Statements that write whole rows."""
    return applying([cell for table, group, key, *rest in rows for cell in (table, group, key, None, *rest)])


def applying(cells: list[Any]) -> list[tuple[str, list[Any]]]:
    """One statement for these rows, several for very many; filled up with NULL to a power of two."""
    statements = []
    for start in range(0, len(cells), CHUNK * COLUMNS):
        part = cells[start : start + CHUNK * COLUMNS]
        rows = 1 << (len(part) // COLUMNS - 1).bit_length()
        part += [None] * (rows * COLUMNS - len(part))
        statements.append((_statement(rows), part))
    return statements


@cache
def _statement(rows: int) -> str:
    return APPLY.format(", ".join(["(?, ?, ?, ?, ?, ?)"] * rows))
