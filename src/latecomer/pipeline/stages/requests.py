"""Records → who asked for the past, where and when; and demand by topic class and broker."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from latecomer.model.record import Kind

FRONT = r"^\$(history|share)/[^/]*/"
"""`$history/since=-1h/a/b` and `$share/group/a/b`, as clients write them in front of a topic filter."""
CONTENT = r"(?s) ?\?.*$"
"""A content filter behind a topic filter (`model.filters.parse_filter`)."""


def topic_filter(column: str) -> Column:
    """The topic filter in what a client subscribed to or asked for."""
    text = f.col(column)
    stripped = f.regexp_replace(f.regexp_replace(text, FRONT, ""), CONTENT, "")
    return f.when(text.startswith("$") | text.contains("?"), stripped).otherwise(text)  # most have neither


def requests(records: DataFrame) -> DataFrame:
    """One row for every request. Streaming-safe."""
    return records.where(f.col("kind") == Kind.REQUESTED.value).select(
        "at_us", "broker", "client", topic_filter("filter").alias("filter"), f.col("detail").alias("options")
    )


def with_times(requests: DataFrame) -> DataFrame:
    """As `rates.counted` wants them: each of them once."""
    return requests.withColumn("times", f.lit(1).cast("long"))
