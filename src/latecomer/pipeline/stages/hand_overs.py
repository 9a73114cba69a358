"""Records → hand-overs: sessions that moved from one broker to another, and how long that took."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from latecomer.model.record import Kind

DETAIL = r"^([a-z-]{1,40}), (\d{1,12}) frames, (\d{1,18}) bytes, (\d{1,12}) ms$"
"""The detail of a record."""
CLASSES = 16
"""Of the time that a hand-over took: below 1 ms, below 2, below 4 and so on, and all that took longer."""


def hand_overs(records: DataFrame) -> DataFrame:
    """By pair of brokers and algorithm: sessions, clients, waiting deliveries, frames and bytes that travelled
    for them, and the time from the client's CONNECT, or the operator's wish, until the session was there. Records of
    another form count for the sessions only. `ms_counts` has the number of sessions in each class of time."""
    moved = records.where((f.col("kind") == Kind.MOVED.value) & (f.col("peer") != ""))

    def told(group: int) -> Column:
        text = f.regexp_extract("detail", DETAIL, group)
        return f.when(text != "", text)

    summed = (
        moved.select(
            f.col("peer").alias("from_broker"),
            f.col("broker").alias("to_broker"),
            f.coalesce(told(1), f.lit("")).alias("algorithm"),
            "client",
            "count",
            told(2).cast("long").alias("frames"),
            told(3).cast("long").alias("bytes"),
            told(4).cast("long").alias("ms"),
        )
        .groupBy("from_broker", "to_broker", "algorithm")
        .agg(
            f.count("*").alias("sessions"),
            f.countDistinct("client").alias("clients"),
            f.sum("count").alias("deliveries"),
            f.sum("frames").alias("frames"),
            f.sum("bytes").alias("bytes"),
            f.avg("ms").alias("ms_mean"),
            f.max("ms").alias("ms_max"),
            f.array(*(f.count(f.when(_class_of("ms") == at, 1)) for at in range(CLASSES))).alias("ms_counts"),
        )
    )
    return summed.select(
        "from_broker",
        "to_broker",
        "algorithm",
        "sessions",
        "clients",
        "deliveries",
        "frames",
        "bytes",
        "ms_mean",
        "ms_max",
        "ms_counts",
    )


def _class_of(name: str) -> Column:
    """The bits of a number: 0 for 0, 1 for 1, 2 for 2 and 3, 3 for 4 to 7; null if it is not known."""
    bits = f.when(f.col(name) == 0, 0).otherwise(f.length(f.bin(name)))
    return f.when(f.col(name).isNotNull(), f.least(bits, f.lit(CLASSES - 1)))
