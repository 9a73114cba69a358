"""Where a cold tier lies: a directory, or anything else that Arrow has a file system for.

Theory of operation. A file grows under a hidden name, is made safe, is read back, and only then comes into place at
once: by a rename, or, where there is none, by the copy that an object store makes in one step. So nobody ever sees half
a file, and a file that is replaced is there until the new one is.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyarrow import fs

from latecomer.history.cold_errors import ColdError
from latecomer.history.cold_names import Part, parse_part, unfinished, unfinished_by

OBJECT_STORES = ("s3", "gcs", "abfs")
"""Have no rename; a copy of theirs is complete or not there."""

_secret = re.compile(r"//[^/@]*@")
"""A URI may have a key in it, which belongs into no message."""
_scheme = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Moved(Exception):
    """A file is no longer what it was when the directory was read: look again."""


class Place:
    """The files of a tier, by their paths below it."""

    def __init__(self, path: str) -> None:
        self.name = _secret.sub("//…@", path)
        try:
            if _scheme.match(path):
                self.fs, self.root = fs.FileSystem.from_uri(path)
            else:
                self.fs, self.root = fs.LocalFileSystem(), os.path.abspath(path)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ColdError(
                f"{self.name}: cannot be a cold tier: {reason_of(error)}; name a directory, or a URI such as "
                f"s3://bucket/folder that Arrow knows"
            ) from error
        self.root = self.root.rstrip("/")
        self.local = self.fs.type_name == "local"

    def full(self, path: str) -> str:
        return f"{self.root}/{path}"

    def list(self) -> tuple[list[Part], list[str]]:
        """The files in place, and the hidden ones that somebody has not finished."""
        with self._told("read"):
            found = self.fs.get_file_info(fs.FileSelector(self.root, allow_not_found=True, recursive=True))
        parts, left = [], []
        for info in found:
            path = info.path[len(self.root) :].lstrip("/")
            if info.type != fs.FileType.File:
                continue
            if (part := parse_part(path, info.size, info.mtime_ns or 0)) is not None:
                parts.append(part)
            elif unfinished_by(path) is not None:
                left.append(path)
        return sorted(parts, key=lambda part: part.path), left

    def same(self, part: Part) -> bool:
        """Is this the file that was listed?"""
        with self._told("read"):
            info = self.fs.get_file_info(self.full(part.path))
        return info.type == fs.FileType.File and info.size == part.size and (info.mtime_ns or 0) == part.changed_ns

    def part(self, path: str) -> Part | None:
        """The file at this path, if there is one."""
        with self._told("read"):
            info = self.fs.get_file_info(self.full(path))
        return parse_part(path, info.size, info.mtime_ns or 0) if info.type == fs.FileType.File else None

    def open(self, path: str) -> Any:
        return self.fs.open_input_file(self.full(path))

    def reachable(self, path: str) -> bool:
        """Can the first bytes be read? Arrow's errors do not tell a broken file from a broken network."""
        try:
            with self.open(path) as file:
                file.read(4)
        except OSError as error:
            return error.errno == errno.EIO and self.local
        return True

    def write(self, path: str, fill: Callable[[Any], None], check: Callable[[str], None]) -> None:
        """Put a file into place: filled under a hidden name, made safe, checked there, and moved."""
        hidden = unfinished(path)
        try:
            with self._told("written"):
                self.fs.create_dir(self.full(path).rpartition("/")[0], recursive=True)
                with self.fs.open_output_stream(self.full(hidden)) as file:
                    fill(file)
                self._sync(hidden)
            check(hidden)
            with self._told("written"):
                if self.fs.type_name in OBJECT_STORES:
                    self.fs.copy_file(self.full(hidden), self.full(path))
                    self.fs.delete_file(self.full(hidden))
                else:
                    self.fs.move(self.full(hidden), self.full(path))
                self._sync_folders(path)
        except BaseException:
            with suppress(OSError):
                self.fs.delete_file(self.full(hidden))
            raise

    def set_aside(self, path: str) -> None:
        """Keep a copy of a damaged file under a hidden name, before it is replaced by what can be read of it."""
        folder, _, name = path.rpartition("/")
        aside = f"{folder}/_{name}.damaged"
        with self._told("written"):
            self.fs.copy_file(self.full(path), self.full(aside))
            self._sync(aside)

    def delete(self, path: str) -> None:
        """Let go of a file, and of the directories that are empty without it."""
        with self._told("written"), suppress(FileNotFoundError):
            self.fs.delete_file(self.full(path))
        if self.local:
            with suppress(OSError):  # not empty
                os.rmdir(self.full(path.rpartition("/")[0]))
                os.rmdir(self.full(path.partition("/")[0]))

    # --- inside ---

    def _sync(self, path: str) -> None:
        if self.local:
            _sync(self.full(path), os.O_RDONLY)

    def _sync_folders(self, path: str) -> None:
        """A rename is safe when the directory is, and a new directory when the one above is."""
        if self.local:
            folder, _, _ = path.rpartition("/")
            for name in (folder, path.partition("/")[0], ""):
                _sync(self.full(name), os.O_RDONLY | os.O_DIRECTORY)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise ColdError(
                f"{self.name}: the cold tier cannot be {what}: {reason_of(error)}; make room there or repair it, then "
                f"try again"
            ) from error


def reason_of(error: BaseException) -> str:
    """Arrow's reasons can have several lines, the first of which tells."""
    text = str(getattr(error, "strerror", None) or error)
    return _secret.sub("//…@", (text.splitlines() or ["?"])[0])


def _sync(path: str, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
