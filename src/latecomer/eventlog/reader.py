"""Segments → records, for tests and tools that have no Spark at hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from latecomer.eventlog.errors import EventLogError
from latecomer.eventlog.files import HIDDEN, SUFFIX
from latecomer.eventlog.schema import FIELDS, column_problems
from latecomer.model.record import Kind, Record

BATCH_ROWS = 8192

_KINDS = {kind.value: kind for kind in Kind}


def segments(directory: Path) -> list[Path]:
    """The complete segments, sorted by name: of each broker in the order of time."""
    try:
        found = [path for path in directory.iterdir() if path.suffix == SUFFIX and not path.name.startswith(HIDDEN)]
    except OSError as error:
        raise EventLogError(
            f"{directory}: cannot be read as an event log: {error.strerror or error}; name a directory that a broker "
            f"or the simulator has written"
        ) from error
    return sorted(found, key=lambda path: path.name)


def read_records(directory: Path) -> Iterator[Record]:
    """Every record of every complete segment, segment by segment; of segments that appear meanwhile, none."""
    found = segments(directory)
    return (record for path in found for record in _segment(path))


def _segment(path: Path) -> Iterator[Record]:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            problems = column_problems(file.schema_arrow)
            if problems:
                raise EventLogError(
                    f"{path}: not a segment of this event log: {', '.join(problems)}; move the file elsewhere, or "
                    f"read it with the version of Latecomer that wrote it"
                )
            for batch in file.iter_batches(BATCH_ROWS, columns=list(FIELDS)):
                yield from _records(path, batch)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow's reasons can have several lines, the first of which tells.
        reason = (str(error).splitlines() or ["?"])[0]
        raise EventLogError(
            f"{path}: the segment is damaged: {reason}; restore the file from a copy, or move it elsewhere to read "
            f"the others"
        ) from error


def _records(path: Path, batch: Any) -> Iterator[Record]:
    columns = {name: batch.column(name).to_pylist() for name in FIELDS}
    try:
        columns["kind"] = [_KINDS[kind] for kind in columns["kind"]]
    except KeyError as error:
        raise EventLogError(
            f"{path}: records of the unknown kind {error}; read the log with the version of Latecomer that wrote it"
        ) from None
    for row in zip(*columns.values(), strict=True):
        yield Record(*row)
