"""A file system that forgets: SQLite, by way of APSW, on files that keep only what was synced when the power goes.

What was written and not synced may be there after a cut, or not, or torn at a sector, each write by itself and not in
order. Writes and syncs are counted, and any of them can fail; a seed is a run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import apsw

SECTOR = 512


def full() -> apsw.Error:
    return _error(apsw.FullError("no space left on device"), apsw.SQLITE_FULL)


def broken() -> apsw.Error:
    return _error(apsw.IOError("input/output error"), apsw.SQLITE_IOERR_WRITE)


def broken_sync() -> apsw.Error:
    return _error(apsw.IOError("input/output error"), apsw.SQLITE_IOERR_FSYNC)


def _error(error: apsw.Error, code: int) -> apsw.Error:
    error.extendedresult = code  # type: ignore[attr-defined]
    return error


@dataclass(slots=True)
class LossyFiles:
    """What stands on the medium, what is on its way to it, and what shall go wrong."""

    durable: dict[str, bytearray] = field(default_factory=dict)
    pending: dict[str, list[tuple[int, bytes | None]]] = field(default_factory=dict)
    """Per file: writes (offset, data) and truncations (size, None) since the last sync."""
    operations: int = 0
    """Writes, truncations and syncs so far."""
    kinds: list[str] = field(default_factory=list)
    fault: Callable[[int, str], apsw.Error | None] = lambda number, kind: None
    """Asked before each of them, with its number and kind."""

    def happen(self, kind: str) -> None:
        self.operations += 1
        self.kinds.append(kind)
        if (error := self.fault(self.operations, kind)) is not None:
            raise error

    def change(self, path: str, offset: int, data: bytes | None) -> None:
        self.pending.setdefault(path, []).append((offset, data))

    def sync(self, path: str) -> None:
        image = self.durable.setdefault(path, bytearray())
        for offset, data in self.pending.pop(path, []):
            _apply(image, offset, data)

    def cut(self, into: Path, random: Random) -> None:
        """What is found, in another directory, when the power is back."""
        into.mkdir(mode=0o700)
        for path in sorted({*self.durable, *self.pending}):
            image = bytearray(self.durable.get(path, b""))
            for offset, data in self.pending.get(path, []):
                luck = random.random()
                if luck < 0.4:
                    continue
                if luck < 0.7 and data is not None:  # torn: some sectors of it
                    first = random.randrange(0, len(data), SECTOR)
                    last = random.randrange(first, len(data)) // SECTOR * SECTOR + SECTOR
                    offset, data = offset + first, data[first:last]
                _apply(image, offset, data)
            file = into / Path(path).name
            file.write_bytes(image)
            file.chmod(0o600)


def _apply(image: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del image[offset:]
        return
    image.extend(bytes(max(0, offset - len(image))))
    image[offset : offset + len(data)] = data


class LossyVFS(apsw.VFS):
    """Files under these names are real, and followed by `files`."""

    def __init__(self, files: LossyFiles) -> None:
        self.name = f"lossy-{uuid4()}"
        self.files = files
        super().__init__(self.name, base="")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _LossyFile(self.files, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.files.durable.pop(filename, None)
        self.files.pending.pop(filename, None)


class _LossyFile(apsw.VFSFile):
    def __init__(self, files: LossyFiles, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self.files = files
        self.path = name if isinstance(name, str) else name.filename() if name is not None else ""

    def xWrite(self, data: bytes, offset: int) -> None:
        self.files.happen("write")
        super().xWrite(data, offset)
        self.files.change(self.path, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        self.files.happen("truncate")
        super().xTruncate(newsize)
        self.files.change(self.path, newsize, None)

    def xSync(self, flags: int) -> None:
        try:
            self.files.happen("sync")
        except apsw.IOError:
            # As Linux does: what could not be written counts as written, and the next sync knows nothing of it.
            self.files.pending.pop(self.path, None)
            raise
        self.files.sync(self.path)


class ApswEngine:
    """The `Engine` of the disk on such files."""

    def __init__(self, path: Path, vfs: LossyVFS) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs.name)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Iterable[tuple[Any, ...]]:
        try:
            return list(self._connection.execute(sql, values))
        except apsw.Error as error:
            as_ours = sqlite3.OperationalError(str(error))
            as_ours.sqlite_errorcode = error.extendedresult  # type: ignore[attr-defined]
            raise as_ours from error

    def close(self) -> None:
        self._connection.close()

    def abandon(self) -> None:
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
