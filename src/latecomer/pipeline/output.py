"""What jobs write: tables that are there whole or not at all, and runs whose tables appear together.

    OUT/lock                 held while a job writes here
    OUT/runs/<run>/<table>/  a folder of Parquet files for each table, and whatever else a run has to tell
    OUT/batches/             what a job keeps from one run to the next (`ingest`)
    OUT/latest               → the newest run; replaced in one step, so that a reader always finds a whole one

Names that begin with `_` are unfinished; who gets the lock next removes them. Data is sorted and files are numbered,
so that the same input gives the same bytes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.pipeline.footer import settle
from latecomer.pipeline.inputs import GLOB

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LOCK = "lock"
RUNS = "runs"
BATCHES = "batches"
OURS = (RUNS, BATCHES)
"""Folders in which nobody else has anything."""
LATEST = "latest"
HIDDEN = "_"
RUNS_KEPT = 5
"""Older ones go: everything in them can be computed again."""
OPTION = "--out"


class OutputError(LatecomerError):
    """The tables cannot be written or read; the sentence names the folder, and says what to do."""


# -- tables


def write_table(table: DataFrame, path: Path, *, sort: Sequence[str], files: int = 1) -> None:
    """Write a table as a folder; what stood there before is replaced when the new one is whole.

    `sort` must name enough columns to leave no two different rows in either order. With more files than one, rows are
    dealt out by the first of them.
    """
    spread = table.repartition(1) if files == 1 else table.repartition(files, sort[0])
    write_unsorted(spread.sortWithinPartitions(*sort), path)


def write_unsorted(table: DataFrame, path: Path) -> None:
    """The same in the order and the number of files that the rows come in."""
    hidden = path.with_name(f"{HIDDEN}{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    remove(hidden)
    table.write.option("compression", "zstd").parquet(uri(hidden))
    _tidy(hidden)
    replace(hidden, path)


def read_table(spark: SparkSession, *paths: Path, schema: StructType | None = None) -> DataFrame:
    """A table that was written here, or several of the same columns as one."""
    for path in paths:
        if not path.is_dir():
            raise OutputError(f"{path}: there is no such table; run the job that writes it first")
    reader = spark.read if schema is None else spark.read.schema(schema)
    return reader.parquet(*(escaped(path) for path in paths))


def escaped(path: Path) -> str:
    """A path that Spark does not take for a pattern."""
    return uri(Path("".join(f"\\{letter}" if letter in GLOB else letter for letter in str(path.absolute()))))


def uri(path: Path) -> str:
    """A path of this machine, whatever file system Spark takes for its own. Not quoted: Hadoop takes it as it is."""
    return f"file://{path.absolute()}"


def _tidy(folder: Path) -> None:
    """Numbers instead of chance in the names and the footers, and only the data."""
    parts = sorted(path for path in folder.iterdir() if path.name.startswith("part-") and path.suffix == ".parquet")
    for path in sorted(folder.iterdir()):
        if path not in parts:
            path.unlink()
    for number, path in enumerate(parts):
        renamed = path.with_name(f"part-{number:05d}.parquet")
        os.rename(path, renamed)
        settle(renamed)
        _sync(renamed)
    _sync(folder)


# -- files


def write_text(path: Path, text: str) -> None:
    """A file that is there whole or not at all."""
    hidden = path.with_name(f"{HIDDEN}{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden.write_text(text, encoding="utf-8")
    _sync(hidden)
    os.replace(hidden, path)


def replace(hidden: Path, path: Path) -> None:
    """Put a folder into its place, and remove the one that was there."""
    old = path.with_name(f"{HIDDEN}{path.name}.old")
    remove(old)
    if path.exists():
        os.rename(path, old)
    os.rename(hidden, path)
    _sync(path.parent)
    remove(old)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Whatever it is, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# -- runs


def identity(*of: Any) -> str:
    """The id of a run: the same for the same input and the same wishes."""
    return blake2b(msgspec.json.encode(of, order="deterministic"), digest_size=6).hexdigest()


class Run:
    """One run of a job; what it writes is seen when it is finished."""

    def __init__(self, out: Path, id: str) -> None:
        self.id = id
        self.path = out / RUNS / id
        self._out = out
        self._hidden = out / RUNS / f"{HIDDEN}{id}"
        remove(self._hidden)
        self._hidden.mkdir(parents=True)

    def write(self, table: DataFrame, name: str, *, sort: Sequence[str], files: int = 1) -> Path:
        """Write one of its tables; where it stands until the run is finished."""
        write_table(table, self._hidden / name, sort=sort, files=files)
        return self._hidden / name

    def text(self, name: str, text: str) -> None:
        """Write one of its other files."""
        write_text(self._hidden / name, text)

    def place(self, name: str) -> Path:
        """Where a file or table of the run stands until it is finished."""
        return self._hidden / name

    def finish(self) -> None:
        """Show it, as the latest."""
        replace(self._hidden, self.path)
        pointer = self._out / f"{HIDDEN}{LATEST}"
        remove(pointer)
        pointer.symlink_to(Path(RUNS) / self.id, target_is_directory=True)
        os.replace(pointer, self._out / LATEST)
        _sync(self._out)
        self._thin_out()

    def _thin_out(self) -> None:
        runs = [path for path in self.path.parent.iterdir() if path != self.path and not path.name.startswith(HIDDEN)]
        runs.sort(key=lambda path: (path.stat().st_mtime_ns, path.name))
        for path in runs[: max(0, len(runs) + 1 - RUNS_KEPT)]:
            with suppress(OSError):
                remove(path)


class Output:
    """A folder that one job writes to at a time; use `opened`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def run(self, *of: Any) -> Iterator[Run]:
        """A run about `of`; finished when the block ends without an error."""
        run = Run(self.path, identity(*of))
        yield run
        run.finish()

    def latest(self) -> Path | None:
        """The newest run, if there is one."""
        path = self.path / LATEST
        return path.resolve() if path.is_dir() else None


@contextmanager
def opened(path: Path, option: str = OPTION) -> Iterator[Output]:
    """Hold a folder for writing; a SettingsError if it cannot be, or another job does."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        told = f"{path}: cannot be written: {error.strerror or error}; name another folder"
        raise SettingsError(option, told) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told = f"{path} is being written by another job; wait for it, or name another folder"
            raise SettingsError(option, told) from None
        for folder in OURS:
            for left in (path / folder).glob(f"{HIDDEN}*"):
                remove(left)
        yield Output(path)
    finally:
        os.close(handle)
