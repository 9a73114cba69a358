"""What can go wrong with a store, and how SQLite says so."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3

import msgspec

from latecomer.model.errors import LatecomerError
from latecomer.model.history import Key

FILES_LEFT_MIN = 64
"""With fewer file descriptors left to the process, a file that could not be opened is not to blame."""
# What SQLite cannot open or write may have a head that says so.
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


class StoreFull(LatecomerError):
    """There was no room. Nothing that was refused is lost if the same events are appended again: those already kept are
    known by their ids."""


class StoreBusy(StoreFull):
    """No file could be opened, since too many are: nothing is wrong with the store, and the same will do later."""


class StoreFailed(LatecomerError):
    """The disk cannot be trusted any more: stop the process, and do not try again."""


class Problem(msgspec.Struct, frozen=True):
    """Something that was found damaged and is not served. Without a key it is about the whole segment."""

    segment: str
    key: Key | None
    why: str


class VerifyReport(msgspec.Struct, frozen=True):
    """What `verify` looked at, and what was wrong."""

    segments: int
    events: int
    problems: tuple[Problem, ...]
    cold_events: int = 0
    """In the cold tier."""

    @property
    def ok(self) -> bool:
        return not self.problems


class Repaired(Exception):
    """A segment was repaired while it was read: look again."""


def code_of(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", -1))


def is_full(error: BaseException) -> bool:
    """Also where SQLite calls it an I/O error: the shared memory beside a journal is a file too."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return code_of(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)


def is_damage(error: BaseException) -> bool:
    """The file is not what was written. An error without a code is of Python: there is a text that is none."""
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code & 0xFF in DAMAGE and not is_busy(error)


def is_unreadable(error: BaseException) -> bool:
    """The same of a file of which it is not known yet that it has our tables: what we ask of one is never wrong."""
    return is_damage(error) or (isinstance(error, sqlite3.Error) and code_of(error) & 0xFF == sqlite3.SQLITE_ERROR)


def is_busy(error: BaseException) -> bool:
    """Too many files are open. SQLite does not tell why it cannot open one, so it is looked at how many can be."""
    if isinstance(error, OSError):
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return code_of(error) & 0xFF == sqlite3.SQLITE_CANTOPEN and _files_left() < FILES_LEFT_MIN


def _files_left() -> int:
    try:
        used = len(os.listdir("/dev/fd"))
    except OSError as error:
        return 0 if error.errno in (errno.EMFILE, errno.ENFILE) else FILES_LEFT_MIN
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return FILES_LEFT_MIN if limit == resource.RLIM_INFINITY else limit - used
