"""What can go wrong with a store, and how SQLite says so."""

from __future__ import annotations

import errno
import sqlite3

import msgspec

from latecomer.model.errors import LatecomerError
from latecomer.model.history import Key

# What SQLite cannot open or write may have a head that says so.
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


class StoreFull(LatecomerError):
    """There was no room. Nothing that was refused is lost if the same events are appended again: those already kept are
    known by their ids."""


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
    return code & 0xFF in DAMAGE
