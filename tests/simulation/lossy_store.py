"""The files of a store on a file system that forgets: contents as in `lossy_disk`, and names until their directory is
synced. What was not synced comes to pass up to some moment, in order."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import apsw

from latecomer.history.files import Connection, Files
from tests.simulation.lossy_disk import ApswEngine, LossyFiles, LossyVFS

Image = tuple[bytearray | None, list[tuple[int, bytes | None]] | None]


class LossyStoreFiles(Files):
    """One connection per file: APSW's files have no shared memory."""

    alone = True

    def __init__(self, fault: Callable[[int, str], apsw.Error | None] = lambda number, kind: None) -> None:
        super().__init__()
        self.lossy = LossyFiles(fault=fault)
        self.vfs = LossyVFS(self.lossy)
        self._undo: list[Callable[[], None]] = []
        """What takes back the names that were changed since the last sync, the latest last."""

    def connect(self, path: Path, readonly: bool) -> Connection:
        return Lasting(path, self.vfs)

    def create(self, path: Path) -> None:
        self._happen("write")
        super().create(path)
        self._put(path, (bytearray(), None))
        self._undo.append(lambda: self._put(path, (None, None)))

    def rename(self, path: Path, to: Path) -> None:
        self._happen("write")
        super().rename(path, to)
        moved, before = self._take(path), self._take(to)
        self._put(to, moved)

        def undo() -> None:
            self._put(path, self._take(to))
            self._put(to, before)

        self._undo.append(undo)

    def unlink(self, path: Path) -> None:
        if path.exists():
            self._happen("write")
        super().unlink(path)
        before = self._take(path)
        self._undo.append(lambda: self._put(path, before))

    def write(self, path: Path, data: bytes) -> None:
        fresh = path.with_name(f"new-{path.name}")
        self.unlink(fresh)
        self.create(fresh)
        self._happen("write")
        fresh.write_bytes(data)
        self.lossy.change(str(fresh), 0, data)
        self._happen("sync")
        self.lossy.sync(str(fresh))
        self.rename(fresh, path)
        self.sync(path.parent)

    def sync(self, directory: Path) -> None:
        self._happen("sync")
        self._undo.clear()

    def cut(self, into: Path, random: Random) -> None:
        """What is found, in another directory, when the power is back."""
        for undo in reversed(self._undo[random.randint(0, len(self._undo)) :]):
            undo()
        self.lossy.cut(into, random)

    def _happen(self, kind: str) -> None:
        try:
            self.lossy.happen(kind)
        except apsw.FullError as error:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        except apsw.IOError as error:
            raise OSError(errno.EIO, os.strerror(errno.EIO)) from error

    def _take(self, path: Path) -> Image:
        return self.lossy.durable.pop(str(path), None), self.lossy.pending.pop(str(path), None)

    def _put(self, path: Path, image: Image) -> None:
        self._take(path)
        if image[0] is not None:
            self.lossy.durable[str(path)] = image[0]
        if image[1] is not None:
            self.lossy.pending[str(path)] = image[1]


class Lasting(ApswEngine):
    """A connection as a store wants it."""

    def close(self) -> None:
        with suppress(apsw.Error):  # of the last copying of the journal, which SQLite keeps to itself
            super().close()

    def execute(self, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
        return list(super().execute(sql, values))
