"""Opening the broker's disk: whose it is, what is in it, and what is wrong with it.

Nothing is deleted on doubt. A row that cannot be decoded is moved to the table `quarantine`; other damage is for
`disk_repair`. Whatever cannot be opened is refused with a sentence about the key `data`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from latecomer.history.journal import damage
from latecomer.history.owned import lock, private_directory, see_private
from latecomer.model.errors import SettingsError
from latecomer.runtime.disk_repair import FILE, JOURNAL, OWN, QUARANTINE, ROWS, Problem, keep, repair, sync
from latecomer.runtime.disk_rows import (
    APPLICATION,
    BATCHES,
    CREATE,
    LOWEST,
    SCHEMA_VERSION,
    Engine,
    Key,
    Tables,
    checksum,
    commit,
    place_checksum,
    put_rows,
)

SETTING = "data"
PRAGMAS = (
    "PRAGMA synchronous = FULL",  # until all is open, whatever comes after
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -16384",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cell_size_check = ON",
)

Connect = Callable[[Path], Engine]


class Damaged(Exception):
    """The file needs repair."""


@dataclass(slots=True)
class Opened:
    """An open disk, locked and loaded."""

    directory: Path
    lock: int
    engine: Engine
    boot: int = 0
    page_size: int = 0
    tables: Tables = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def release(self) -> None:
        self.engine.close()
        os.close(self.lock)


def open_files(directory: Path, types: Mapping[str, Any], connect: Connect, now_us: int) -> Opened:
    """Lock and load the disk in this directory, which is made if need be."""
    assert OWN not in types
    private_directory(directory, SETTING)
    handle, _ = lock(directory, SETTING, "every broker needs a directory of its own")
    try:
        _prepare(directory)
        return _open(Opened(directory, handle, _connect(directory / FILE, connect)), types, connect, now_us)
    except BaseException as error:
        os.close(handle)
        if isinstance(error, sqlite3.Error):
            raise _refusal(directory, error) from error
        if isinstance(error, OSError):
            raise SettingsError(SETTING, f"{str(directory)!r} cannot be used: {error.strerror}") from error
        raise


def _open(opened: Opened, types: Mapping[str, Any], connect: Connect, now_us: int) -> Opened:
    try:
        _check_journal(opened)
        try:
            _load(opened, types)
        except Damaged as found:
            opened.engine, problems = repair(
                opened.engine, opened.directory, partial(_connect, connect=connect), str(found)
            )
            opened.problems += problems
            _load(opened, types)
        _begin_life(opened, now_us)
    except BaseException as error:
        _let_go(opened.engine, error)
        raise
    return opened


# --- files ---


def _prepare(directory: Path) -> None:
    """See that the files are ours alone, and begin the one that is missing."""
    file, journal = directory / FILE, directory / JOURNAL
    for path in (file, journal):
        with suppress(FileNotFoundError):
            see_private(path, SETTING)
    if not _size(file) and _size(journal):
        # SQLite would take the journal for a remnant and delete it.
        raise SettingsError(SETTING, f"{str(file)!r} is missing beside its journal; put it back, or move both away")
    if not file.exists():
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        for folder in (directory, directory.absolute().parent):
            sync(folder)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _refusal(directory: Path, error: sqlite3.Error) -> SettingsError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    file = str(directory / FILE)
    if code == sqlite3.SQLITE_NOTADB:
        return SettingsError(SETTING, f"{file!r} is not a database; move it away, or name another directory")
    if code == sqlite3.SQLITE_BUSY:
        return SettingsError(SETTING, f"{file!r} is in use by another program; close that first")
    if code == sqlite3.SQLITE_FULL:
        return SettingsError(SETTING, f"{str(directory)!r} has no room left; make room, or name another directory")
    return SettingsError(SETTING, f"{file!r} cannot be used ({error}); restore it, or name another directory")


# --- database ---


def _connect(path: Path, connect: Connect) -> Engine:
    """A connection that is the only one, to a file that is ours."""
    engine = connect(path)
    try:
        engine.execute("PRAGMA locking_mode = EXCLUSIVE")  # alone, and so without shared memory
        (application,) = _one(engine, "PRAGMA application_id")
        (version,) = _one(engine, "PRAGMA user_version")
        (objects,) = _one(engine, "SELECT count(*) FROM sqlite_master")
        new = application == version == objects == 0
        if not new and application != APPLICATION:
            raise SettingsError(SETTING, f"{str(path)!r} was not written by Latecomer; name another directory")
        if not new and version != SCHEMA_VERSION:
            raise SettingsError(
                SETTING,
                f"{str(path)!r} has format {version} and this Latecomer knows {SCHEMA_VERSION}; "
                f"use the version that wrote it",
            )
        if _one(engine, "PRAGMA encoding") != ("UTF-8",):
            raise SettingsError(SETTING, f"{str(path)!r} has a damaged head; restore it, or name another directory")
        (mode,) = _one(engine, "PRAGMA journal_mode = WAL")
        if mode != "wal":
            raise SettingsError(SETTING, f"{str(path)!r} cannot have a journal; name a directory on a local disk")
        for pragma in PRAGMAS:
            engine.execute(pragma)
        if new:
            commit(engine, [(statement, ()) for statement in CREATE])
        for statement in BATCHES:
            engine.execute(statement)
    except BaseException as error:
        _let_go(engine, error)
        raise
    return engine


def _let_go(engine: Engine, error: BaseException) -> None:
    """After an I/O error closing would try again what failed."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR:
        engine.abandon()
    else:
        with suppress(sqlite3.Error):
            engine.close()


def _one(engine: Engine, sql: str) -> tuple[Any, ...]:
    (row,) = engine.execute(sql)
    return row


def _check_journal(opened: Opened) -> None:
    journal = opened.directory / JOURNAL
    _, frames, _ = _one(opened.engine, "PRAGMA wal_checkpoint(PASSIVE)")
    if (what := damage(journal, max(0, frames))) is not None:
        kept = keep(opened.directory, [JOURNAL])
        why = f"{what}: unless the power failed while that was written, acknowledged writes are missing; kept as {kept}"
        opened.problems.append(Problem(OWN, "", "", why))


def _load(opened: Opened, types: Mapping[str, Any]) -> None:
    """Read every row, and move what cannot be decoded out of the way. Raises `Damaged`."""
    try:
        (answer,) = _one(opened.engine, "PRAGMA integrity_check(1)")
        if answer != "ok":
            raise Damaged(" ".join(str(answer).split()))
        opened.tables, bad = _read(opened, types)
        (opened.page_size,) = _one(opened.engine, "PRAGMA page_size")
    except sqlite3.DatabaseError as error:
        # An error without a code is of Python: there is a text that is none.
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        raise Damaged(str(error)) from error
    if bad:
        moves = [("DELETE FROM row WHERE rowid = ?", (number,)) for number, *_ in bad]
        commit(opened.engine, [*((QUARANTINE, (*row, why)) for _, row, why in bad), *moves])
        opened.problems += [Problem(row[0], row[1], row[2], why) for _, row, why in bad]


def _read(opened: Opened, types: Mapping[str, Any]) -> tuple[Tables, list[tuple[int, tuple[Any, ...], str]]]:
    """The tables; and what cannot be decoded: number, row and reason."""
    decoders = {table: msgspec.msgpack.Decoder(type).decode for table, type in types.items()}
    decoders[OWN] = msgspec.msgpack.Decoder(int).decode
    tables: Tables = {}
    places: dict[tuple[str, str], tuple[int, Callable[[bytes], object], dict[Key, object]]] = {}
    bad = []
    for number, table, group, key, value, crc in opened.engine.execute(ROWS, (LOWEST,)):
        place = places.get((table, group))
        try:
            start = place[0] if place is not None else place_checksum(table, group)
            if checksum(start, key, value) != crc:
                raise Damaged("a row fails its checksum")
        except (TypeError, AttributeError):
            raise Damaged("a row has lost its type") from None
        if place is None:
            if table not in decoders:
                raise _unknown_table(opened.directory / FILE, table)
            place = places[table, group] = (start, decoders[table], tables.setdefault(table, {}).setdefault(group, {}))
        try:
            place[2][key] = place[1](value)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            bad.append((number, (table, group, key, value, crc), f"cannot be decoded: {error}"))
    # What is empty because nothing in it could be decoded is not there.
    kept = {table: {group: keys for group, keys in groups.items() if keys} for table, groups in tables.items()}
    return {table: groups for table, groups in kept.items() if groups}, bad


def _unknown_table(file: Path, table: str) -> SettingsError:
    return SettingsError(
        SETTING,
        f"{str(file)!r} has a table {table!r} that this Latecomer does not know; use the version that wrote it",
    )


def _begin_life(opened: Opened, now_us: int) -> None:
    """A larger number than ever before; by the clock also larger than in a directory that was thrown away."""
    found = opened.tables.pop(OWN, {}).get("", {}).get("boot", 0)
    assert isinstance(found, int)
    opened.boot = max(found + 1, now_us)
    value = msgspec.msgpack.encode(opened.boot)
    commit(opened.engine, put_rows([(OWN, "", "boot", value, checksum(place_checksum(OWN, ""), "boot", value))]))
