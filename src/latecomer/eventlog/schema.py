"""The columns of the event log: the fields of a record, and the instant as a timestamp.

Decision: no column is nullable; a field that does not apply has its default, as in the record. Columns are only ever
appended, so that a reader of this schema can read later segments, skipping what it does not know.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from latecomer.model.record import Record

SCHEMA = pa.schema(
    [
        pa.field("at_us", pa.int64(), nullable=False),
        pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),  # at_us again: windows and watermarks need it
        pa.field("broker", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("cause", pa.string(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("filter", pa.string(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("peer", pa.string(), nullable=False),
        pa.field("hops", pa.int32(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
    ]
)

FIELDS: tuple[str, ...] = Record.__struct_fields__
"""Columns that are fields, in the order of the record."""

assert {*FIELDS, "time"} == set(SCHEMA.names), "a field of Record has no column: append one to SCHEMA"


def table_of(records: list[Record]) -> Any:
    """The records as an Arrow table."""
    types = {field.name: field.type for field in SCHEMA}
    columns = {name: _column(list(map(attrgetter(name), records)), types[name]) for name in FIELDS}
    columns["time"] = columns["at_us"].cast(types["time"])
    return pa.Table.from_arrays([columns[name] for name in types], schema=SCHEMA)


def write_table(table: Any, file: BinaryIO) -> None:
    """A table as the contents of a segment."""
    pq.write_table(table, file, compression="zstd", compression_level=1, write_page_checksum=True)


def _column(values: list[Any], type: Any) -> Any:
    try:
        return pa.array(values, type)
    except UnicodeEncodeError:
        # Half a surrogate pair is no UTF-8. Rather a text with an escape in it than no record.
        return pa.array([value.encode("utf-8", "backslashreplace").decode() for value in values], type)


def column_problems(schema: Any) -> list[str]:
    """What keeps a file with this schema from being read as records."""
    problems = []
    for field in SCHEMA:
        at = schema.get_field_index(field.name)
        if at < 0:
            problems.append(f"no column {field.name}")
        elif not schema.field(at).equals(field):
            problems.append(f"column {field.name} is {_described(schema.field(at))}, not {_described(field)}")
    return problems


def _described(field: Any) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"
