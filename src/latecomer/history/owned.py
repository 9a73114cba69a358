"""Directories for one user and one process: a broker's own disk and its store begin alike."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from latecomer.model.errors import SettingsError

LOCK = "lock"
"""Has the number of the process that uses the directory; nothing, if that took its leave."""
OTHERS = 0o077


def private_directory(path: Path, key: str) -> Path:
    """Make a directory for this user alone, or see that it is one."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.stat().st_mode
    except FileExistsError:
        raise SettingsError(key, f"{str(path)!r} is a file; name a directory") from None
    except OSError as error:
        raise SettingsError(key, f"{str(path)!r} cannot be made: {error.strerror}") from None
    if mode & OTHERS:
        raise SettingsError(key, f"other users can read {str(path)!r}; run: chmod 700 {path}")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise SettingsError(key, f"{str(path)!r} belongs to somebody else; name another directory")
    return path


def see_private(path: Path, key: str) -> None:
    """See that nobody else can read a file."""
    if path.stat().st_mode & OTHERS:
        raise SettingsError(key, f"other users can read {str(path)!r}; run: chmod 600 {path}")


def lock(directory: Path, key: str, advice: str) -> tuple[int, bool]:
    """Be the only process that uses a directory, as long as the handle is open and the process lives; and whether the
    one before took its leave."""
    path = directory / LOCK
    known = path.exists()
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(key, f"{str(path)!r} cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        left = known and not os.fstat(handle).st_size
        with suppress(OSError):  # there may be no room for it, and it is only told
            os.truncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
            os.fsync(handle)
    except BlockingIOError:
        owner = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(handle)
        raise SettingsError(key, f"{str(directory)!r} is in use by process {owner}; {advice}") from None
    except OSError as error:
        os.close(handle)
        raise SettingsError(key, f"{str(path)!r} cannot be written: {error.strerror}") from None
    return handle, left


def take_leave(handle: int) -> None:
    """Unlock the directory; everything in it is as it should be."""
    with suppress(OSError):
        os.truncate(handle, 0)
    os.close(handle)
