"""Records → what happened in each period, in all of the network."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from latecomer.model.record import Kind
from latecomer.pipeline.stages.rates import SECOND_US, period_of

COUNTED = {
    "requests": Kind.REQUESTED,
    "answers": Kind.RECALLED,
    "publications": Kind.PUBLISHED,
    "subscribed": Kind.SUBSCRIBED,
    "unsubscribed": Kind.UNSUBSCRIBED,
    "connected": Kind.CONNECTED,
}


def timeline(records: DataFrame, period_s: int, first: int, last: int) -> DataFrame:
    """One row for every period from the first to the last; with zeros where nothing was written down."""
    grouped = records.groupBy(period_of("at_us", period_s).alias("period")).agg(
        f.count("*").alias("records"), *(_sum(kind).alias(name) for name, kind in COUNTED.items())
    )
    begin = (f.col("period") * (period_s * SECOND_US)).alias("begin_us")
    every = records.sparkSession.range(first, last + 1).withColumnRenamed("id", "period")
    return every.join(grouped, "period", "left").fillna(0).select(begin, "records", *COUNTED)


def _sum(kind: Kind) -> Column:
    """One record may stand for many publications."""
    one = f.lit(1).cast("long")
    times = f.greatest("count", one) if kind is Kind.PUBLISHED else one
    return f.sum(f.when(f.col("kind") == kind.value, times).otherwise(0))
