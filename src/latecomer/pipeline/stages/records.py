"""Rows of the log → records that can be used, and those that cannot, with the reason."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Kind
from latecomer.pipeline.log import Window
from latecomer.pipeline.schemas import COLUMNS, KINDS, QUARANTINE, RECORDS

DAY_US = 86_400_000_000
AHEAD_US = DAY_US
"""So far a broker's clock may be in front of the one that reads."""
ABSENT = {"hops": -1, "count": 0}
"""What a column that says nothing means; texts: nothing."""


def judged(raw: DataFrame, now_us: Instant, brokers: Collection[BrokerId] | None = None) -> DataFrame:
    """The rows with a `reason` why they cannot be used, which is null for those that can.

    `brokers` are all there are, if that is known. Streaming-safe.
    """
    problem = (
        f.when(f.col("at_us").isNull(), "no instant")
        .when(f.col("at_us") < 0, "an instant before 1970")
        .when(f.col("at_us") > now_us + AHEAD_US, "an instant more than a day ahead")
        .when(f.coalesce("broker", f.lit("")) == "", "no broker")
        .when(f.coalesce("kind", f.lit("")) == "", "no kind")
        .when(~f.col("kind").isin(*KINDS), "an unknown kind")
        .when(f.col("hops") < -1, "hops below -1")
        .when(f.col("count") < 0, "a negative count")
    )
    if brokers is not None:
        problem = problem.when(~f.col("broker").isin(*sorted(brokers)), "an unknown broker")
    return raw.withColumn("reason", problem)


def sound(judged: DataFrame) -> DataFrame:
    """What can be used; columns that say nothing have their default."""
    return judged.where("reason IS NULL").select(*(_said(name) for name in COLUMNS))


def refused(judged: DataFrame) -> DataFrame:
    """What cannot, with all columns as they were."""
    return judged.where("reason IS NOT NULL").select(*QUARANTINE.names)


def within(records: DataFrame, window: Window) -> DataFrame:
    """The records of a window."""
    return records.where((f.col("at_us") >= window.since_us) & (f.col("at_us") < window.until_us))


def _said(name: str) -> Column:
    return f.coalesce(f.col(name), f.lit(ABSENT.get(name, "")).cast(RECORDS[name].dataType)).alias(name)


def brokers_seen(records: DataFrame) -> DataFrame:
    """Every broker that wrote something: how much, from when to when, and how often it was started."""
    started = f.sum((f.col("kind") == Kind.STARTED.value).cast("long")).alias("starts")
    return (
        records.groupBy("broker")
        .agg(f.count("*").alias("records"), started, f.min("at_us").alias("first_us"), f.max("at_us").alias("last_us"))
        .select("broker", "records", "starts", "first_us", "last_us")
    )
