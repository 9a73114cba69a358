"""Small event logs, and ways to spoil them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from latecomer.eventlog import SegmentWriter
from latecomer.eventlog.schema import table_of
from latecomer.model.record import Kind, Record

BEGIN_US = 1_700_000_000_000_000
"""Some time ago."""
SECOND_US = 1_000_000


def record(at_s: float, broker: str, kind: Kind, **fields: object) -> Record:
    return Record(BEGIN_US + round(at_s * SECOND_US), broker, kind, **fields)  # type: ignore[arg-type]


def write_log(folder: Path, records: Iterable[Record], *, broker: str = "b1", boot: int = 0) -> list[Path]:
    """One more segment; all that there are now."""
    with SegmentWriter(folder, broker, boot=boot) as writer:
        writer.extend(records)
    return sorted(folder.glob("*.parquet"))


def truncate(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])


def flip(path: Path, at: int) -> None:
    """Turn a byte over, in place."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x5A
    path.write_bytes(data)


def page_byte(path: Path) -> int:
    """Somewhere in the middle of the data of the first column."""
    column = pq.read_metadata(path).row_group(0).column(0)
    begin = column.dictionary_page_offset or column.data_page_offset
    return int(begin + column.total_compressed_size - 3)


def foreign(path: Path) -> None:
    """A Parquet file that has nothing to do with a log."""
    pq.write_table(pa.table({"colour": ["blue"], "price": [3]}), path)


def wrong_schema(path: Path, records: list[Record]) -> None:
    """A log of which somebody made texts of all numbers."""
    table = table_of(records)
    pq.write_table(table.set_column(0, "at_us", table.column("at_us").cast(pa.string())), path)


def later_schema(path: Path, records: list[Record]) -> None:
    """A log of a later version, which knows more."""
    table = table_of(records)
    pq.write_table(table.append_column("region", pa.array(["north"] * len(records))), path)
