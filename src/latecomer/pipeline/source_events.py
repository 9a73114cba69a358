"""What stores keep as a table of the source: the segments on their disks, and the files of their cold tier.

Theory of operation. A broker may write all the while. Segments are SQLite files with a journal, which any number of
processes may read: connections are read-only, and every page of rows is a transaction of its own, so that nobody waits.
Which rows are meant is settled when the query is planned, by the highest row number of each segment; rows are only
ever added behind it. What is let go of meanwhile is left out. What moves to the cold tier meanwhile is looked for
there, and may then come twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from latecomer.history.cold_files import Place
from latecomer.history.cold_names import Part
from latecomer.history.cold_rows import SCHEMA, column_problems, table_of
from latecomer.history.files import SqliteConnection
from latecomer.history.segment import EXTENT, event_of
from latecomer.model.errors import LatecomerError
from latecomer.model.topics import topic_matches
from latecomer.pipeline.source_filters import Wanted
from latecomer.pipeline.source_parts import BATCH_ROWS, Asked, Damage, Gone, Piece, packed, parquet_batches, read_whole

PLACES = ("", "store", "data/store", "*/store", "*/data/store")
"""Below the folder that is named: a store's own, a broker's data, or that of `latecomer up`."""
PIECE_ROWS = 100_000
"""Of a segment on disk: what one task reads."""
PAGE_ROWS = 2_000
"""Read in one transaction."""
_USER = ArrayType(StructType([StructField("name", StringType()), StructField("value", StringType())]))
_SPARK: dict[Any, DataType] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.int8(): ByteType(),
    pa.bool_(): BooleanType(),
    pa.binary(): BinaryType(),
    SCHEMA.field("published").type: TimestampType(),
    SCHEMA.field("user").type: _USER,
}
INSIDE = ("body", "crc32")
"""Columns of the cold tier that are of use to a store alone."""
COLUMNS = [field for field in SCHEMA if field.name not in INSIDE]
EVENTS = StructType(
    [StructField("store", StringType()), *(StructField(field.name, _SPARK[field.type]) for field in COLUMNS)]
)
"""`store`: the folder of the store below the one that was named, or `cold/WRITER`."""
_NAMES = {field.name: (field.name, field.type) for field in COLUMNS if field.name != "user"}
ROWS = "SELECT at, origin, epoch, seq, topic, crc, body, rowid FROM event NOT INDEXED WHERE rowid > ? AND rowid <= ?"


class Segment(msgspec.Struct, frozen=True):
    """Some rows of a store's segment on disk."""

    folder: str
    store: str
    name: str
    start_us: int
    end_us: int
    """Not included."""
    after: int
    upto: int
    """Row numbers: those above the first, up to the second."""
    cold: str = ""
    """Where its rows are when the segment has moved there."""
    known: tuple[str, ...] = ()
    """The files that were there already."""

    @property
    def path(self) -> Path:
        return Path(self.folder) / self.store / self.name

    @property
    def key(self) -> str:
        return f"{self.store}/{self.name}"


# -- what there is


def stores_in(folder: Path) -> list[str]:
    """The folders with stores below this one."""
    found: dict[str, None] = {}
    try:
        for place in PLACES:
            for directory in sorted(folder.glob(place)) if "*" in place else (folder / place,):
                if directory.is_dir() and any(_number(path.name) is not None for path in directory.iterdir()):
                    found[directory.relative_to(folder).as_posix()] = None
    except PermissionError as error:
        told = "run Spark as the user that the broker runs as"
        raise LatecomerError(f"{error.filename or folder}: cannot be read ({error.strerror}); {told}") from None
    return list(found)


def segments_of(folder: Path, cold: str = "") -> list[Segment]:
    """Every segment of every store, with its rows of now. One that cannot be opened is there all the same."""
    found: list[Segment] = []
    for store in stores_in(folder):
        names = sorted((path.name for path in (folder / store).iterdir() if _number(path.name) is not None), key=_order)
        for name in names:
            segment = Segment(str(folder), store, name, 0, 0, 0, 0, cold)
            try:
                start_us, end_us, upto = _looked_at(segment.path)
            except Gone:
                continue
            except Damage:
                start_us, end_us, upto = 0, 2**63 - 1, 1  # the reader will tell
            found.append(msgspec.structs.replace(segment, start_us=start_us, end_us=end_us, upto=upto))
    return found


def beyond(segment: Segment, after: int, upto: int) -> Segment:
    """The rows in between."""
    return msgspec.structs.replace(segment, after=after, upto=upto)


def cold_parts(cold: str) -> list[Part]:
    return Place(cold).list()[0]


def hot_pieces(
    segments: Sequence[Segment], wanted: Wanted, known: Sequence[Part] = (), rows: int = PIECE_ROWS
) -> list[Piece]:
    """Rows that may be wanted, cut into partitions."""
    low, high = wanted.between("published")
    files = tuple(part.path for part in known)
    cut = [
        msgspec.structs.replace(one, after=after, upto=min(after + rows, one.upto), known=files)
        for one in segments
        if one.start_us <= high and one.end_us > low
        for after in range(one.after, one.upto, rows)
    ]
    return [Piece((one,)) for one in cut]


def cold_pieces(cold: str, parts: Sequence[Part], wanted: Wanted) -> list[Piece]:
    """Files that may have something that is wanted, by the time and the class in their names."""
    low, high = wanted.between("published")
    topics = wanted.among("topic")
    found = [part for part in parts if part.start_us <= high and part.end_us >= low and _may_have(part, topics)]
    return [Piece((cold, *some)) for some in packed(found, lambda part: part.size)]


def _may_have(part: Part, topics: tuple[Any, ...] | None) -> bool:
    if topics is None or not part.levels:
        return True
    return any(isinstance(topic, str) and topic_matches(f"{part.levels}/#", topic) for topic in topics)


# -- reading


def read_events(piece: Piece, asked: Asked) -> Iterator[Any]:
    """The events of a partition."""
    yield from _read(piece, asked, lambda *_: iter(()))


def read_damaged_events(piece: Piece, asked: Asked) -> Iterator[Any]:
    """A line for every file of a partition that has something damaged in it."""

    def told(name: str, reason: str) -> Iterator[Any]:
        yield asked.batch({"segment": pa.array([name]), "reason": pa.array([reason])})

    for batch in _read(piece, Asked(EVENTS, mode="quarantine", telling=True), told):
        if batch.schema.names == asked.columns:
            yield batch


def _read(piece: Piece, asked: Asked, damaged: Any) -> Iterator[Any]:
    first, *files = piece.value
    if isinstance(first, Segment):
        yield from read_whole(asked, f"{first.store}/{first.name}", _rows(first, asked), damaged)
        return
    place = Place(first)
    for part in files:
        yield from read_whole(asked, part.path, _cold(place, part, asked, asked.wanted), damaged)


def _cold(place: Place, part: Part, asked: Asked, wanted: Wanted) -> Iterator[Any]:
    names = [name for name in asked.columns if name != "store"]
    columns = names or ["published"]  # so that there are rows to count
    expression = wanted.expression(_NAMES)
    for batch in parquet_batches(place.full(part.path), place.fs, columns, expression, column_problems):
        yield asked.batch({**dict(zip(columns, batch.columns, strict=True)), **_store(f"cold/{part.writer}", batch)})


def _rows(segment: Segment, asked: Asked) -> Iterator[Any]:
    try:
        yield from _pages(segment, asked)
    except Gone:
        if segment.cold:
            yield from _moved(segment, asked)


def _moved(segment: Segment, asked: Asked) -> Iterator[Any]:
    """A segment that went to the cold tier after the files there were listed."""
    place = Place(segment.cold)
    for part in place.list()[0]:
        if part.path not in segment.known and part.start_us < segment.end_us and part.end_us >= segment.start_us:
            yield from _cold(place, part, asked, asked.wanted)


def _pages(segment: Segment, asked: Asked) -> Iterator[Any]:
    conditions, values = _conditions(asked.wanted)
    sql = f"{ROWS}{conditions} ORDER BY rowid LIMIT {PAGE_ROWS}"
    after, bad = segment.after, 0
    pending: list[Any] = []
    with closing(_opened(segment.path)) as connection:
        while True:
            rows = _asked_for(connection, segment.path, sql, (after, segment.upto, *values))
            events = [event_of(row[:7]) for row in rows]
            bad += sum(event is None for event in events)
            pending += [event for event in events if event is not None]
            if len(pending) >= BATCH_ROWS or (pending and len(rows) < PAGE_ROWS):
                yield _batch(segment, asked, pending)
                pending = []
            if len(rows) < PAGE_ROWS:
                break
            after = rows[-1][-1]
    if bad and (asked.telling or asked.mode == "fail"):
        raise Damage(
            f"damaged: {bad} event{'' if bad == 1 else 's'} not as written; 'latecomer store verify' says which"
        )


def _batch(segment: Segment, asked: Asked, events: list[Any]) -> Any:
    table = table_of(events).combine_chunks()
    expression = asked.wanted.expression(_NAMES)
    if expression is not None:
        table = table.filter(expression).combine_chunks()
    (batch,) = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=SCHEMA)]
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    return asked.batch({**found, **_store(segment.store, batch)})


def _store(name: str, batch: Any) -> dict[str, Any]:
    return {"store": pa.repeat(pa.scalar(name), batch.num_rows)}


def _conditions(wanted: Wanted) -> tuple[str, tuple[Any, ...]]:
    """What SQLite can tell without a look into the bodies."""
    low, high = wanted.between("published")
    told, values = "", []
    topics = wanted.among("topic")
    if topics is not None:
        names = [topic for topic in topics if isinstance(topic, str)]
        told += f" AND topic IN (SELECT number FROM topic WHERE name IN ({', '.join('?' * len(names))}))"
        values += names
    return f"{told} AND at >= ? AND at <= ?", (*values, low, high)


def _looked_at(path: Path) -> tuple[int, int, int]:
    with closing(_opened(path)) as connection:
        extents = _asked_for(connection, path, EXTENT, ())
        ((upto,),) = _asked_for(connection, path, "SELECT coalesce(max(rowid), 0) FROM event", ())
    if len(extents) != 1 or any(type(us) is not int for us in extents[0]):
        raise Damage("damaged: it does not say of which time it is")
    return *extents[0], upto


def _opened(path: Path) -> SqliteConnection:
    try:
        return SqliteConnection(path, readonly=True)
    except sqlite3.OperationalError as error:
        if not path.exists():
            raise Gone from None
        raise LatecomerError(
            f"{path}: cannot be read ({error}); run Spark as the user that the broker runs as"
        ) from None


def _asked_for(connection: SqliteConnection, path: Path, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    try:
        return connection.execute(sql, values)
    except sqlite3.Error as error:
        if not path.exists():
            raise Gone from None
        raise Damage(f"damaged: {error}") from error


def _number(name: str) -> int | None:
    number, dot, rest = name.partition(".")
    return int(number) if number.isascii() and number.isdecimal() and dot and rest == "db" else None


def _order(name: str) -> int:
    return _number(name) or 0
