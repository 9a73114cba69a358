"""A network's event log as a pipeline finds it: which segments there are, and which of them can be read.

A log is a folder of segments, or the data folder of a broker or of `latecomer up`, in which each broker has its own:

    LOGDIR/*.parquet    LOGDIR/events/    LOGDIR/data/events/    LOGDIR/<broker>/events/    LOGDIR/<broker>/data/events/

Whether a segment can be read is asked twice: at its end, which says that it is complete, what columns it has and how
many rows (`survey`); and of every page, by its checksum (`examine`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from latecomer.eventlog.errors import EventLogError
from latecomer.eventlog.files import HIDDEN, SUFFIX
from latecomer.eventlog.schema import FIELDS, SCHEMA
from latecomer.model.ids import NUMBER_MAX, Instant
from latecomer.pipeline.output import escaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACES = ("", "events", "data/events", "*/events", "*/data/events")
THREADS = 8


class Window(msgspec.Struct, frozen=True):
    """From an instant until before another; both in microseconds since 1970."""

    since_us: Instant = 0
    until_us: Instant = NUMBER_MAX

    @property
    def seconds(self) -> float:
        return (self.until_us - self.since_us) / 1_000_000


ALWAYS = Window()


class Segment(msgspec.Struct, frozen=True, order=True):
    """A segment that is complete, and has the columns of a log."""

    name: str
    """Below the log's folder, with slashes."""
    bytes: int
    rows: int
    first_us: Instant = 0
    last_us: Instant = NUMBER_MAX
    """Of its records, if it says so."""


def clipped(wanted: Window, seen: Window, segments: Iterable[Segment]) -> Window:
    """A window as far as the log goes: where it goes on outside, as wanted; else from the first or to the last record.

    So a network that was silent counts as silent, and one that did not run yet does not count.
    """
    all = list(segments)
    earlier = any(segment.first_us < wanted.since_us for segment in all)
    later = wanted.until_us < NUMBER_MAX and any(segment.last_us >= wanted.until_us for segment in all)
    return Window(wanted.since_us if earlier else seen.since_us, wanted.until_us if later else seen.until_us)


class Damaged(msgspec.Struct, frozen=True, order=True):
    """A file that stands where a segment should, and cannot be used."""

    name: str
    bytes: int
    reason: str
    changed_ns: int = 0
    """When the file was last written: one that was restored is tried again."""


class Log(msgspec.Struct, frozen=True):
    """Where a log is, and what was found there."""

    folder: Path
    segments: tuple[Segment, ...] = ()
    damaged: tuple[Damaged, ...] = ()

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.segments)

    def within(self, window: Window) -> Log:
        """Without the segments that end before the window or begin after it."""
        kept = (s for s in self.segments if s.first_us < window.until_us and s.last_us >= window.since_us)
        return msgspec.structs.replace(self, segments=tuple(kept))

    def without(self, names: Iterable[str]) -> Log:
        gone = set(names)
        return msgspec.structs.replace(self, segments=tuple(s for s in self.segments if s.name not in gone))

    def paths(self) -> list[str]:
        """As Spark wants them."""
        return [escaped(self.folder / segment.name) for segment in self.segments]


# -- finding


def find_log(folder: Path, *, known: Iterable[str] = ()) -> Log:
    """The segments of a log, surveyed; those in `known` are left out. An error that says what to do if it has none."""
    folder = folder.absolute()
    names = list(segment_names(folder))
    if not names:
        raise EventLogError(
            f"{folder}: there is no segment of an event log in it; name the folder that a broker writes to (events in "
            f"its data folder), the data folder of 'latecomer up', or what 'latecomer simulate --records' wrote"
        )
    skipped = set(known)
    found = [name for name in names if name not in skipped]
    with ThreadPoolExecutor(THREADS) as threads:
        surveyed = [one for one in threads.map(lambda name: survey(folder, name), found) if one is not None]
    return Log(
        folder,
        tuple(one for one in surveyed if isinstance(one, Segment)),
        tuple(one for one in surveyed if isinstance(one, Damaged)),
    )


def segment_names(folder: Path) -> Iterator[str]:
    """Every file that stands where a segment should, below the folder; sorted."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise EventLogError(f"{folder}: {what}; name the folder of an event log, or the data folder of 'latecomer up'")
    found: set[str] = set()
    try:
        for place in PLACES:
            for directory in folder.glob(place) if "*" in place else (folder / place,):
                if directory.is_dir():
                    found |= {path.relative_to(folder).as_posix() for path in directory.iterdir() if _is_segment(path)}
    except OSError as error:
        told = f"{error.strerror or error}; make it readable, or name another folder"
        raise EventLogError(f"{error.filename or folder}: cannot be read as an event log: {told}") from error
    yield from sorted(found)


def log_bytes(folder: Path) -> int:
    """How much is in a log; segments that go away meanwhile do not count."""
    found = 0
    for name in segment_names(folder):
        with suppress(FileNotFoundError):
            found += (folder / name).stat().st_size
    return found


def _is_segment(path: Path) -> bool:
    return path.suffix == SUFFIX and not path.name.startswith(HIDDEN)


def survey(folder: Path, name: str) -> Segment | Damaged | None:
    """What the end of a file says; None if the file has gone meanwhile, as the oldest ones do."""
    path = folder / name
    size, changed_ns = 0, 0
    try:
        status = path.stat()
        size, changed_ns = status.st_size, status.st_mtime_ns
        with pq.ParquetFile(path) as file:
            problems = column_problems(file.schema_arrow)
            if problems:
                return Damaged(name, size, f"not a segment of an event log: {', '.join(problems)}", changed_ns)
            return Segment(name, size, file.metadata.num_rows, *_instants(file.metadata))
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        return Damaged(name, size, f"damaged: {_first_line(error)}", changed_ns)


def column_problems(schema: Any) -> list[str]:
    """Other than the log's own reader this takes columns that may be empty: Spark writes no others."""
    problems = []
    for name in FIELDS:
        wanted, at = SCHEMA.field(name).type, schema.get_field_index(name)
        if at < 0:
            problems.append(f"no column {name}")
        elif schema.field(at).type not in (wanted, _large(wanted)):
            problems.append(f"column {name} is {schema.field(at).type}, not {wanted}")
    return problems


def _large(type: Any) -> Any:
    """Arrow's type for very long columns of text is the same in a file."""
    return pa.large_string() if type == pa.string() else type


def _instants(metadata: Any) -> tuple[Instant, Instant]:
    """First and last, as far as every row group tells."""
    first, last = NUMBER_MAX, -1
    column = metadata.schema.names.index("at_us")
    for group in range(metadata.num_row_groups):
        told = metadata.row_group(group).column(column).statistics
        if told is None or not told.has_min_max:
            return 0, NUMBER_MAX
        first, last = min(first, told.min), max(last, told.max)
    return first, last


# -- reading


def read_segments(spark: SparkSession, log: Log) -> DataFrame:
    """All rows of the segments as they are, with the name of each one's file in `segment`."""
    from latecomer.pipeline.schemas import COLUMNS, RECORDS

    if not log.segments:
        return spark.createDataFrame([], "segment string").join(spark.createDataFrame([], RECORDS))
    reader = spark.read.schema(RECORDS).option("parquet.page.verify-checksum.enabled", "true")
    return reader.parquet(*log.paths()).selectExpr("_metadata.file_name AS segment", *COLUMNS)


def examine(log: Log) -> tuple[Log, list[str]]:
    """Read every page of every segment; the log without those that are damaged, and the names of those that are gone.

    Spark stops at the first page whose checksum is wrong and does not say in which segment; and it does not notice
    when the end of a segment lies about its columns.
    """
    with ThreadPoolExecutor(THREADS) as threads:
        told = list(threads.map(lambda segment: _examined(log.folder, segment), log.segments))
    sound = tuple(one for one in told if isinstance(one, Segment))
    damaged = tuple(one for one in told if isinstance(one, Damaged))
    left = {one.name for one in told if one is not None}
    gone = [segment.name for segment in log.segments if segment.name not in left]
    return Log(log.folder, sound, (*log.damaged, *damaged)), gone


def _examined(folder: Path, segment: Segment) -> Segment | Damaged | None:
    again = survey(folder, segment.name)
    if not isinstance(again, Segment):
        return again
    path = folder / segment.name
    try:
        rows = 0
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=list(FIELDS), use_threads=False)
                table.validate(full=True)
                rows += len(table)
        if rows != again.rows:
            return Damaged(segment.name, again.bytes, f"damaged: {rows} rows of {again.rows}", _changed_ns(path))
        return again
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        return Damaged(segment.name, again.bytes, f"damaged: {_first_line(error)}", _changed_ns(path))


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _first_line(error: Exception) -> str:
    """Arrow's reasons can have several lines, the first of which tells."""
    return (str(error).splitlines() or ["?"])[0]
