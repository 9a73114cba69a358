"""Rates → demand: how often each topic class is asked for at each broker."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from latecomer.pipeline.log import Window


def demand(filtered: DataFrame, window: Window) -> DataFrame:
    """By topic class and broker: how many requests, per second, and as the filter follows them (`rates.filtered`).

    `once` counts a request for several classes only in one of them.
    """
    return filtered.select(
        "class",
        "broker",
        f.col("times").alias("requests"),
        "once",
        (f.col("times") / window.seconds).alias("rate"),
        "smoothed_micro",
    )
