"""Files that hold secrets: read only if nobody else could have, written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from latecomer.history.owned import OTHERS, private_directory
from latecomer.model.errors import SettingsError

__all__ = ["check_secret", "private_directory", "read_secret", "read_text", "stamp", "write_bytes", "write_text"]

SECRET_BYTES_MAX = 4096
SECRET_CHARACTERS_MIN = 16
OTHERS_WRITE = 0o022

Stamp = tuple[int, int, int]
"""Changes when a file does: number of the file, size, time of its last change."""


def stamp(path: Path) -> Stamp | None:
    """None if there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def read_text(path: Path, key: str, *, bytes_max: int, forbidden: int = OTHERS) -> str:
    """The text of a file with none of the `forbidden` permission bits; errors name the key that named the file."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise SettingsError(key, f"{str(path)!r} is not a file")
            if status.st_mode & forbidden:
                does, bits = ("read", "600") if forbidden == OTHERS else ("change", "go-w")
                raise SettingsError(key, f"other users can {does} {str(path)!r}; run: chmod {bits} {path}")
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise SettingsError(key, f"{str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError:
        raise SettingsError(key, f"{str(path)!r} is not the name of a file") from None
    if len(data) > bytes_max:
        raise SettingsError(key, f"{str(path)!r} is larger than {bytes_max} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(key, "not UTF-8 text", source=str(path), line=line) from None


def read_secret(path: Path, key: str) -> str:
    """The one line of a file with a secret."""
    return check_secret(read_text(path, key, bytes_max=SECRET_BYTES_MAX).strip(), key)


def check_secret(secret: str, key: str) -> str:
    """A secret that cannot be guessed by trying."""
    if len(secret) < SECRET_CHARACTERS_MIN:
        raise SettingsError(key, f"must have at least {SECRET_CHARACTERS_MIN} characters; try: openssl rand -hex 32")
    if not secret.isprintable():
        raise SettingsError(key, "must be one line of printable characters")
    return secret


def write_text(path: Path, text: str) -> None:
    """Replace a file in one go, safe on disk and for nobody else to read."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """The same, of what is no text."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
