"""What the tables of the source have in common: a partition is some files, and a file is read whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from latecomer.model.errors import LatecomerError
from latecomer.pipeline.source_filters import Wanted

Mode: TypeAlias = Literal["fail", "quarantine"]
PARTITION_BYTES_MIN, PARTITION_BYTES_MAX = 1 << 20, 32 << 20
PARTITIONS = 32
"""About so many, as long as they are neither tiny nor huge."""
BATCH_ROWS = 32_768
ANY = Wanted()
DISK = fs.LocalFileSystem()

T = TypeVar("T")


class Damage(Exception):
    """A file is not what was written; the reason in words."""


class Gone(Exception):
    """A file has gone since it was listed, as the oldest ones do."""


@dataclass(frozen=True)
class Piece(InputPartition):
    """What one task reads: files of one table, or parts of them."""

    value: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """How the files are to be read."""

    schema: StructType
    wanted: Wanted = ANY
    mode: Mode = "fail"
    telling: bool = False
    """Damage is all that is wanted: a file with sound rows and others counts as damaged."""

    @property
    def columns(self) -> list[str]:
        return self.schema.fieldNames()

    def batch(self, columns: dict[str, Any]) -> Any:
        """A record batch just as Spark wants it."""
        schema = to_arrow_schema(self.schema, timezone="UTC")
        return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)


def packed(files: Sequence[T], size: Callable[[T], int]) -> list[tuple[T, ...]]:
    """Neighbours together, in partitions of about the same size."""
    total = sum(map(size, files))
    most = min(PARTITION_BYTES_MAX, max(PARTITION_BYTES_MIN, total // PARTITIONS))
    found: list[list[T]] = []
    filled = most
    for file in files:
        if filled + size(file) > most:
            found.append([])
            filled = 0
        found[-1].append(file)
        filled += size(file)
    return [tuple(some) for some in found]


def read_whole(
    asked: Asked, name: str, batches: Iterator[Any], damaged: Callable[[str, str], Iterator[Any]]
) -> Iterator[Any]:
    """The batches of a file. Of a damaged one what `damaged` makes of it, or an error; of one that is gone, nothing."""
    try:
        if asked.mode == "fail":
            yield from batches
        else:
            yield from list(batches)  # damage may show at the end, and half a file is not to be mixed with whole ones
    except Gone:
        return
    except Damage as error:
        if asked.mode == "fail":
            raise LatecomerError(
                f"{name}: {error}; restore it from a copy, move it elsewhere, or read with option mode=quarantine"
            ) from error
        yield from damaged(name, str(error))


def parquet_batches(
    path: str, place: Any, columns: Sequence[str], filter: Any, problems: Callable[[Any], list[str]]
) -> Iterator[Any]:
    """The rows of a Parquet file that meet the filter; row groups that have none are left out by their statistics."""
    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    try:
        fragment = ds.ParquetFileFormat(default_fragment_scan_options=checked).make_fragment(path, place)
        schema = fragment.physical_schema
        if found := problems(schema):
            raise Damage(f"not of this table: {', '.join(found)}")
        for batch in fragment.to_batches(
            schema, columns=list(columns), filter=filter, batch_size=BATCH_ROWS, use_threads=False
        ):
            batch.validate(full=True)
            if batch.num_rows:
                yield batch
    except FileNotFoundError:
        raise Gone from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise Damage(f"damaged: {(str(error).splitlines() or ['?'])[0]}") from error
