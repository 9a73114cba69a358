"""The event log: records as a directory of Parquet segments, which batch and streaming Spark read as it is.

A segment appears under its name when it is complete, and never changes afterwards. Until then it is a file whose name
begins with '_', which Spark and `read_records` ignore.

    files     the names, and how a segment comes into place
    schema    the columns
    writer    records → segments
    reader    segments → records, without Spark

Arrow, which takes long to load and much memory, is loaded when somebody asks for what needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from latecomer.eventlog.errors import EventLogError, EventLogFullError
from latecomer.eventlog.files import Files, Keep

if TYPE_CHECKING:
    from latecomer.eventlog.reader import read_records
    from latecomer.eventlog.schema import SCHEMA
    from latecomer.eventlog.writer import SegmentWriter

__all__ = ["SCHEMA", "EventLogError", "EventLogFullError", "Files", "Keep", "SegmentWriter", "read_records"]

_LATER = {"SCHEMA": "schema", "SegmentWriter": "writer", "read_records": "reader"}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
