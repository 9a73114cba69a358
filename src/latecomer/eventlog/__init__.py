"""The event log: records as a directory of Parquet segments, which batch and streaming Spark read as it is.

A segment appears under its name when it is complete, and never changes afterwards. Until then it is a file whose name
begins with '_', which Spark and `read_records` ignore.

    schema    the columns
    writer    records → segments
    reader    segments → records, without Spark
"""

from __future__ import annotations

from latecomer.eventlog.errors import EventLogError, EventLogFullError
from latecomer.eventlog.reader import read_records
from latecomer.eventlog.schema import SCHEMA
from latecomer.eventlog.writer import SegmentWriter

__all__ = ["SCHEMA", "EventLogError", "EventLogFullError", "SegmentWriter", "read_records"]
