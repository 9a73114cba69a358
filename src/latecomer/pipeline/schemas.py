"""The columns of the event log, as Spark reads and writes them.

Each stage ends in the select that is the schema of its table; here is only what goes in, and what is told of rows that
cannot be used. `docs/reference/pipeline-tables.md` has every column of every table.
"""

from __future__ import annotations

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from latecomer.model.record import Kind, Record

_TYPES = {"at_us": LongType(), "hops": IntegerType(), "count": LongType()}

RECORDS = StructType([StructField(name, _TYPES.get(name, StringType())) for name in Record.__struct_fields__])
"""Fields of `model.record.Record`, in its order. The log's column `time` is `at_us` again, and is not read."""

COLUMNS: tuple[str, ...] = tuple(RECORDS.names)
KINDS: tuple[str, ...] = tuple(kind.value for kind in Kind)

QUARANTINE = StructType(
    [StructField("segment", StringType()), StructField("reason", StringType()), *RECORDS.fields],
)
"""What could not be used, whole, and why. A damaged segment is one line with no record in it."""
