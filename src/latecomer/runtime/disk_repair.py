"""Repairing the broker's disk: what can be read goes into a new file, what cannot be trusted is kept and not served.

Bits flip on disks. A row carries a checksum, SQLite's own structure does not; so when either is found wrong the file is
copied aside, and every row that can still be read goes into a new one: sound rows where they were, the others into the
table `quarantine`. A damaged file is not written to again, as one wrong pointer in it may lead anywhere.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from latecomer.runtime.disk_rows import LOWEST, Engine, Key, checksum, commit, place_checksum, put_rows

FILE = "broker.db"
JOURNAL = "broker.db-wal"
REPAIR = "repair.db"
OWN = ""
"""The table of the disk itself, whose name no table of the core has."""
ROWS = "SELECT rowid, tab, grp, key, value, crc FROM row NOT INDEXED WHERE rowid > ? ORDER BY rowid"
RAW = """
    SELECT rowid, CAST(tab AS BLOB), CAST(grp AS BLOB), typeof(key), CASE typeof(key) WHEN 'text' THEN CAST(key AS BLOB)
    ELSE key END, value, crc FROM row NOT INDEXED WHERE rowid > ? ORDER BY rowid"""
"""The same with texts as bytes: damage can make texts that are none."""
QUARANTINE = "INSERT INTO quarantine (tab, grp, key, value, crc, why) VALUES (?, ?, ?, ?, ?, ?)"
COPY_ROWS = 500

Row = tuple[Any, ...]


class Problem(msgspec.Struct, frozen=True):
    """Something that was found damaged and is not served. Without a table it is about the whole file."""

    table: str
    group: str
    key: Key
    why: str


def repair(old: Engine, directory: Path, begin: Callable[[Path], Engine], why: str) -> tuple[Engine, list[Problem]]:
    """Make a new file of what can be read, put it in the place of the damaged one, and open it with `begin`."""
    kept = keep(directory, [FILE, JOURNAL])
    for name in (REPAIR, f"{REPAIR}-wal"):
        (directory / name).unlink(missing_ok=True)
    os.close(os.open(directory / REPAIR, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    new = begin(directory / REPAIR)
    try:
        good, problems = _copy(old, new)
        new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        new.close()
    problems.append(Problem(OWN, "", "", f"the file was damaged ({why}): {good} rows were read; kept as {kept}"))
    with suppress(sqlite3.DatabaseError):
        old.close()
    # A journal left behind would be applied to the new file.
    (directory / JOURNAL).unlink(missing_ok=True)
    sync(directory)
    (directory / REPAIR).replace(directory / FILE)
    sync(directory)
    return begin(directory / FILE), problems


def _copy(old: Engine, new: Engine) -> tuple[int, list[Problem]]:
    good = 0
    problems = []
    for rows in _readable(old):
        fine: list[Row] = []
        bad: list[Row] = []
        for row in rows:
            (fine if _sound(*row) else bad).append(row)
        quarantined = [(QUARANTINE, (*map(_storable, row), "fails its checksum")) for row in bad]
        commit(new, [*put_rows(fine), *quarantined])
        good += len(fine)
        problems += [_problem(row) for row in bad]
    with suppress(sqlite3.DatabaseError):
        for row in old.execute("SELECT tab, grp, key, value, crc, why FROM quarantine"):
            new.execute(QUARANTINE, row)
    return good, problems


def _readable(engine: Engine) -> Iterator[Sequence[Row]]:
    """Rows in the order they were written: up to the damage, then from the end back to it."""
    last = LOWEST
    rows: list[Row] = []
    try:
        for raw in engine.execute(RAW, (LOWEST,)):
            last = raw[0]
            rows.append(_row(*raw))
            if len(rows) == COPY_ROWS:
                yield rows
                rows = []
    except sqlite3.DatabaseError:
        backwards: list[Row] = []
        with suppress(sqlite3.DatabaseError):
            for raw in engine.execute(f"{RAW} DESC", (last,)):
                backwards.append(_row(*raw))
        rows += reversed(backwards)
    for start in range(0, len(rows), COPY_ROWS):
        yield rows[start : start + COPY_ROWS]


def _row(_: int, table: Any, group: Any, kind: str, key: Any, value: object, crc: object) -> Row:
    return _text(table), _text(group), _text(key) if kind == "text" else key, value, crc


def _text(raw: Any) -> object:
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw


def _sound(table: object, group: object, key: object, value: object, crc: object) -> bool:
    """Is this row what was once written? Damage may have changed even the types."""
    if not (isinstance(table, str) and isinstance(group, str) and isinstance(key, int | str)):
        return False
    try:
        return isinstance(value, bytes) and checksum(place_checksum(table, group), key, value) == crc
    except UnicodeEncodeError:
        return False


def keep(directory: Path, names: Sequence[str]) -> str:
    """Copy files to where nobody touches them; the name of the first copy."""
    number = 1
    while list(directory.glob(f"damaged-{number}.*")):
        number += 1
    copies = []
    for name in names:
        if (directory / name).exists():
            copy = directory / name.replace("broker", f"damaged-{number}", 1)
            shutil.copy2(directory / name, copy)
            sync(copy)
            copies.append(copy.name)
    sync(directory)
    return copies[0]


def sync(path: Path) -> None:
    """Make a file safe, or the names in a directory."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _problem(row: Row) -> Problem:
    table, group, key = (_shown(cell) for cell in row[:3])
    return Problem(table, group, row[2] if type(row[2]) is int else key, "fails its checksum")


def _shown(cell: object) -> str:
    return str(cell).encode("utf-8", "replace").decode()


def _storable(cell: object) -> object:
    """A cell as SQLite takes it, even if it is damaged text."""
    if isinstance(cell, str):
        raw = cell.encode("utf-8", "surrogateescape")
        return raw if raw != cell.encode("utf-8", "replace") else cell
    return cell
