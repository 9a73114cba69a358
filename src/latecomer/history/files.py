"""The file system below a store, and connections to SQLite: all that a test exchanges to let the power fail.

The files of a store, in a directory for its user alone:

    7.db            a segment, with 7.db-wal and 7.db-shm while it is in use
    new-8.db        one that is being made: thrown away when found
    gone-5.db       one that is being let go of: thrown away when found
    damaged-6.db    one that was repaired, as it was found: never touched again
    kept            since when everything is kept
    lock            the process that uses the store; empty after a proper end
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from latecomer.history.errors import code_of, is_full
from latecomer.history.owned import LOCK, lock, private_directory, see_private
from latecomer.model.errors import SettingsError

SETTING = "data"
KEPT = "kept"
COMPANIONS = ("-wal", "-shm")

Row = tuple[Any, ...]


class Connection(Protocol):
    """To SQLite. Errors are `sqlite3.Error` with `sqlite_errorcode`."""

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[Row]: ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """Never touch the files again, not even to tidy up."""


class SqliteConnection:
    """The SQLite of the standard library. One thread at a time."""

    def __init__(self, path: Path, readonly: bool) -> None:
        self._connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={'ro' if readonly else 'rw'}",
            uri=True,
            isolation_level=None,
            timeout=5,
            check_same_thread=False,
        )

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except UnicodeDecodeError as error:  # what SQLite says of a damaged schema has the damage in it
            raise sqlite3.DatabaseError(f"it has a text that is none: {error}") from error

    def close(self) -> None:
        self._connection.close()

    def abandon(self) -> None:
        # Closing, also by the garbage collector, would checkpoint: an fsync repeated after a failed one may report
        # success for pages that the kernel has dropped. One reference too many keeps the connection to the end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))


class Files:
    """The real file system."""

    alone = False
    """Has a file one connection only? Then reading waits for writing."""

    def __init__(self, *, synced: bool = True) -> None:
        self.synced = synced
        """Shall names survive a power cut?"""

    def connect(self, path: Path, readonly: bool) -> Connection:
        return SqliteConnection(path, readonly)

    def create(self, path: Path) -> None:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def rename(self, path: Path, to: Path) -> None:
        path.replace(to)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def write(self, path: Path, data: bytes) -> None:
        """A small file, in one go and safe."""
        fresh = path.with_name(f"new-{path.name}")
        fresh.unlink(missing_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, data)
            if self.synced:
                os.fsync(handle)
        finally:
            os.close(handle)
        self.rename(fresh, path)
        self.sync(path.parent)

    def sync(self, directory: Path) -> None:
        """Make the names in it safe."""
        if not self.synced:
            return
        handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def free(self, directory: Path) -> int:
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize


def let_go(connection: Connection, error: BaseException) -> None:
    """After an I/O error closing would try again what failed."""
    if not is_full(error) and code_of(error) & 0xFF == sqlite3.SQLITE_IOERR:
        connection.abandon()
    else:
        with suppress(sqlite3.Error):
            connection.close()


def size_of(path: Path) -> int:
    """On disk, with its journal."""
    size = 0
    for name in (path.name, f"{path.name}-wal"):
        with suppress(FileNotFoundError):
            size += path.with_name(name).stat().st_size
    return size


def remove(files: Files, path: Path) -> None:
    """Take a segment away so that a crash in between leaves nothing that would be taken for one."""
    gone = path.with_name(f"gone-{path.name}")
    files.rename(path, gone)
    files.sync(path.parent)
    _clear(files, path, gone)


def _clear(files: Files, path: Path, gone: Path) -> None:
    """First what would be taken for a journal without its file."""
    for end in COMPANIONS:
        files.unlink(path.with_name(path.name + end))
    files.sync(path.parent)
    files.unlink(gone)


def tidy(files: Files, directory: Path) -> None:
    """Finish what was interrupted."""
    for gone in sorted(directory.glob("gone-*.db")):
        _clear(files, gone.with_name(gone.name.removeprefix("gone-")), gone)
    for new in sorted(directory.glob("new-*")):
        files.unlink(new)


def is_store(directory: Path) -> bool:
    """Whether a store was ever opened in this directory. Changes nothing."""
    return (directory / LOCK).exists() or any(directory.glob("*.db"))


def segments_in(directory: Path) -> list[int]:
    """The numbers of the segments, after a look at who can read them."""
    numbers = []
    for path in directory.iterdir():
        number, dot, rest = path.name.partition(".")
        if not number.isascii() or not number.isdecimal() or not dot:
            continue
        see_private(path, SETTING)
        if rest == "db":
            numbers.append(int(number))
        elif rest == "db-wal" and path.stat().st_size and not path.with_name(f"{number}.db").exists():
            raise SettingsError(
                SETTING, f"{str(path)!r} is a journal without its file; put the file back, or move the journal away"
            )
    return sorted(numbers)


def damaged_in(directory: Path) -> list[int]:
    """The numbers that segments had which were set aside: no other segment may have them, or it could not be."""
    names = [path.name.removeprefix("damaged-").partition(".")[0] for path in directory.glob("damaged-*")]
    return [int(name) for name in names if name.isascii() and name.isdecimal()]


def claim(directory: Path) -> tuple[int, bool]:
    """Lock the directory, which is made if need be, until the handle is closed; and whether it was left properly."""
    return lock(private_directory(directory, SETTING), SETTING, "stop that first")
