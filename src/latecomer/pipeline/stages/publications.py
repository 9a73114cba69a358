"""Records → who published what where; and how often, by topic class and broker."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from latecomer.model.record import Kind
from latecomer.pipeline.log import Window


def publications(records: DataFrame) -> DataFrame:
    """One row for every record of publications; `times` is how many it stands for. Streaming-safe."""
    return records.where(f.col("kind") == Kind.PUBLISHED.value).select(
        "at_us", "broker", "client", "topic", f.greatest("count", f.lit(1).cast("long")).alias("times")
    )


def publication_rates(filtered: DataFrame, window: Window) -> DataFrame:
    """By topic class and broker: how many, per second, and as the filter follows it; from `rates.filtered`."""
    return filtered.select(
        "class",
        "broker",
        f.col("times").alias("publications"),
        (f.col("times") / window.seconds).alias("rate"),
        "smoothed_micro",
    )
