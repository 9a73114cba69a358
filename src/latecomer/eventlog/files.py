"""The segments of one broker as files: their names, how one comes into place, and which ones go.

Broker ids are any text and never become file names: a name has a hash of the id, the id itself is in the rows. Nothing
here knows what is in a segment, so that a broker can use it without loading Arrow.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import msgspec

from latecomer.eventlog.errors import EventLogError
from latecomer.model.ids import BrokerId, Instant

SUFFIX = ".parquet"
UNFINISHED = ".unfinished"
ROWS_MAX = 100_000
"""Of a segment, unless somebody wants it otherwise."""
BYTES_MAX = 32 << 20
"""Bytes of the records of a segment, likewise."""
HIDDEN = ("_", ".")
"""Names that begin like this are not part of the log: the rule of Spark and Hadoop."""
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What file systems without hard links say."""


class Keep(msgspec.Struct, frozen=True):
    """How much of a broker's own log stays on disk; the oldest segments go first, the newest never. 0: no limit."""

    segments: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Between the first records of a segment and of the newest one: no matter how late the clock says it is."""


class Files:
    """The segments of one life of one broker, in a directory that others may use as well.

    Making it removes what an earlier life of this broker left behind when it was killed while writing. A log that is
    opened once more continues, and replaces nothing.
    """

    def __init__(self, directory: Path, broker: BrokerId, boot: int) -> None:
        assert boot >= 0
        self.directory = directory
        self._hash = blake2b(broker.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        self._mark = f"{self._hash}-{boot:010d}"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in directory.glob(f"_*-{self._hash}-*{UNFINISHED}"):
                path.unlink(missing_ok=True)
            self._number = max((number for _, mark, number in self._own() if mark == self._mark), default=0)
        except OSError as error:
            raise EventLogError(
                f"{directory}: cannot be used as an event log: {error.strerror or error}; name another directory, or "
                f"repair this one"
            ) from error

    def write(self, first_us: Instant, fill: Callable[[BinaryIO], object]) -> None:
        """Put a segment into place: filled under a hidden name, made safe, and renamed. `sync` is still to come.

        A name that is taken, as by another process that thinks it is this broker, is left alone: the next number has
        its turn, so that neither loses a record.
        """
        hidden, file = self._begin(first_us)
        try:
            with file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            while not _placed(hidden, self.directory / self._name(first_us)):
                self._number += 1
        except BaseException:
            with suppress(OSError):
                hidden.unlink()
            raise
        self._number += 1

    def _begin(self, first_us: Instant) -> tuple[Path, BinaryIO]:
        while True:
            hidden = self.directory / f"_{self._name(first_us)}{UNFINISHED}"
            try:
                file = hidden.open("xb")
            except FileExistsError:  # somebody else is writing it now
                self._number += 1
                continue
            os.fchmod(file.fileno(), 0o600)  # who talks to whom is nobody else's business
            return hidden, file

    def _name(self, first_us: Instant) -> str:
        return f"{max(first_us, 0):020d}-{self._mark}-{self._number + 1:08d}{SUFFIX}"

    def sync(self) -> None:
        """Make the directory safe: a rename is safe when the directory is."""
        handle = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def thin_out(self, keep: Keep) -> None:
        """Remove the oldest segments that are beyond a limit; what cannot be removed is tried again next time."""
        if keep == Keep():
            return
        with suppress(OSError):
            names = sorted(name for name, _, _ in self._own())
            sizes = [(self.directory / name).stat().st_size if keep.bytes else 0 for name in names]
            left, total = len(names), sum(sizes)
            for name, size in zip(names[:-1], sizes, strict=False):
                age_us = _first_us(names[-1]) - _first_us(name)
                if not (0 < keep.segments < left or 0 < keep.bytes < total or 0 < keep.seconds * 1_000_000 < age_us):
                    break
                (self.directory / name).unlink(missing_ok=True)
                left -= 1
                total -= size

    def _own(self) -> Iterator[tuple[str, str, int]]:
        """Name, mark and number of this broker's segments."""
        with os.scandir(self.directory) as entries:
            for entry in entries:
                at, _, rest = entry.name.partition("-")
                mark, _, number = rest.removesuffix(SUFFIX).rpartition("-")
                if entry.name.endswith(SUFFIX) and at.isdigit() and number.isdigit() and mark.startswith(self._hash):
                    yield entry.name, mark, int(number)


def _placed(hidden: Path, path: Path) -> bool:
    """Give the file its name, unless the name is taken: a rename would replace what is there."""
    try:
        os.link(hidden, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if path.exists():
            return False
        os.rename(hidden, path)
        return True
    with suppress(OSError):  # the segment is in place, and must not be written once more
        hidden.unlink()
    return True


def _first_us(name: str) -> Instant:
    return int(name.partition("-")[0])
