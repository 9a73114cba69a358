"""Columns of files as instants: timestamps of any resolution, text, and numbers in a known or the usual unit."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, NumericType, StringType, TimestampNTZType, TimestampType

from latecomer.pipeline.checkins_layouts import ISO, LONG_HAND, MILLISECONDS, SECONDS

Unit = Literal["auto", "us", "ms", "s", "min"]
UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000}
NANOSECONDS_LEAST = 10**17
"""A number of seconds is never so large; nanoseconds are since 1973."""
_months = "JanFebMarAprMayJunJulAugSepOctNovDec"


def time_of(value: Column, kind: object, *, unit: Unit = "auto", nanoseconds: bool = False) -> Column:
    """A column as a timestamp, null where it cannot be read; `kind` is its type, None for text.

    `nanoseconds`: it was a timestamp of that resolution, which Spark hands out as a number.
    """
    if isinstance(kind, TimestampType | TimestampNTZType):
        return value.cast("timestamp")
    if nanoseconds:
        return F.timestamp_micros(F.call_function("div", value, F.lit(1000)))
    if unit != "auto":
        return _counted(value, UNITS_US[unit])
    if isinstance(kind, LongType):
        micros = F.timestamp_micros(F.call_function("div", value, F.lit(1000)))
        return F.when(value >= NANOSECONDS_LEAST, micros).otherwise(_counted(value, UNITS_US["s"]))
    if isinstance(kind, NumericType):
        return _counted(value, UNITS_US["s"])
    return instant(value if isinstance(kind, StringType) or kind is None else value.cast("string"))


def instant(text: Column) -> Column:
    """A time that is written in one of the ways that are known; none for any other. Without a zone it is UTC."""
    month = F.lpad(((F.instr(F.lit(_months), F.regexp_extract(text, LONG_HAND, 1)) + 2) / 3).cast("int").cast("string"),
                   2, "0")  # fmt: skip
    part = [F.regexp_extract(text, LONG_HAND, at) for at in range(6)]
    assembled = F.concat(part[5], F.lit("-"), month, F.lit("-"), part[2], F.lit("T"), part[3], part[4])
    micros = (text.try_cast("decimal(20,6)") * 1_000_000).cast("long")
    return (
        F.when(text.rlike(ISO), text.try_cast("timestamp"))
        .when(text.rlike(LONG_HAND), assembled.try_cast("timestamp"))
        .when(text.rlike(SECONDS), F.timestamp_micros(micros))
        .when(text.rlike(MILLISECONDS), F.timestamp_millis(text.try_cast("long")))
    )


def _counted(value: Column, unit_us: int) -> Column:
    """A number of units since 1970; null where that is more than can be counted."""
    micros = F.try_multiply(value.try_cast("decimal(26,6)"), F.lit(unit_us).cast("decimal(12,0)"))
    return F.timestamp_micros(micros.try_cast("long"))
