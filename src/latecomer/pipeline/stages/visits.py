"""Sessions → visits: successive sessions of a client at one broker are one visit."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f


def visits(sessions: DataFrame) -> DataFrame:
    """One row for every stay of a client at a broker; `end_us` is null while the last session is open."""
    order = Window.partitionBy("client").orderBy("begin_us", "broker")
    before = f.lag("broker").over(order)
    marked = sessions.withColumn("new", (before.isNull() | (before != f.col("broker"))).cast("long"))
    numbered = marked.withColumn("visit", f.sum("new").over(order.rowsBetween(Window.unboundedPreceding, 0)))
    grouped = numbered.groupBy("client", "visit", "broker").agg(
        f.min("begin_us").alias("begin_us"),
        f.max_by("end_us", "begin_us").alias("end_us"),
        f.count("*").alias("sessions"),
    )
    return grouped.select("client", "visit", "broker", "begin_us", "end_us", "sessions")
