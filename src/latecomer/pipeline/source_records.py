"""The event log as a table of the source: records as they were written.

Which segments have nothing that is wanted is told by the statistics at their ends, read where the segment would be: of
names only the number counts, as one file may have the records of a whole simulated network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from latecomer.eventlog.schema import FIELDS, SCHEMA
from latecomer.pipeline.log import column_problems
from latecomer.pipeline.source_parts import DISK, Asked, Piece, packed, parquet_batches, read_whole

_TYPES = {"at_us": LongType(), "time": TimestampType(), "hops": IntegerType(), "count": LongType()}
RECORDS = StructType([StructField(name, _TYPES.get(name, StringType())) for name in SCHEMA.names])
QUARANTINE = StructType([StructField("segment", StringType()), StructField("reason", StringType())])
"""One line per file that cannot be used."""

_segment = re.compile(
    r"(?:(?P<folder>.*)/)?\d{20}-(?P<broker>[0-9a-f]{16})-(?P<boot>\d{10})-(?P<number>\d{8,})\.parquet"
)
# The column `time` is `at_us` again, and not every segment has it: those that were written by Spark do not.
_COLUMNS = {name: (name, SCHEMA.field(name).type) for name in FIELDS} | {"time": ("at_us", pa.int64())}


def life_of(name: str) -> tuple[str, int] | None:
    """Which life of which broker a segment is of, and its number in it; None: its name does not say."""
    found = _segment.fullmatch(name)
    if found is None:
        return None
    return f"{found['folder'] or '.'}/{found['broker']}-{found['boot']}", int(found["number"])


def pieces(folder: Path, names: Sequence[str]) -> list[Piece]:
    """Segments to partitions."""

    def size(name: str) -> int:
        try:
            return (folder / name).stat().st_size
        except OSError:
            return 0

    return [Piece((str(folder), *some)) for some in packed(names, size)]


def read_records(piece: Piece, asked: Asked) -> Iterator[Any]:
    """The records of a partition."""
    folder, *names = piece.value
    for name in names:
        yield from read_whole(asked, name, _batches(Path(folder), name, asked), lambda *_: iter(()))


def read_damaged(piece: Piece, asked: Asked) -> Iterator[Any]:
    """A line for every file of a partition that cannot be read to its end."""
    folder, *names = piece.value
    every = Asked(RECORDS, mode="quarantine")

    def told(name: str, reason: str) -> Iterator[Any]:
        yield asked.batch({"segment": pa.array([name]), "reason": pa.array([reason])})

    for name in names:
        for batch in read_whole(every, name, _batches(Path(folder), name, every), told):
            if batch.schema.names == asked.columns:
                yield batch


def _batches(folder: Path, name: str, asked: Asked) -> Iterator[Any]:
    columns = list(dict.fromkeys(_COLUMNS[column][0] for column in asked.columns))
    expression = asked.wanted.expression(_COLUMNS)
    for batch in parquet_batches(str(folder / name), DISK, columns, expression, column_problems):
        found = {column: batch.column(_COLUMNS[column][0]) for column in asked.columns}
        if "time" in found:
            found["time"] = found["time"].cast(SCHEMA.field("time").type)
        yield asked.batch(found)
