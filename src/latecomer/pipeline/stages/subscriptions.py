"""Records → who subscribes to what, and how often that changes."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from latecomer.model.record import Kind
from latecomer.pipeline.classes import Classes, with_classes
from latecomer.pipeline.stages.requests import topic_filter

SUBSCRIBED, UNSUBSCRIBED = Kind.SUBSCRIBED.value, Kind.UNSUBSCRIBED.value


def changes(records: DataFrame) -> DataFrame:
    """One row for every subscription that began or ended. Streaming-safe."""
    return records.where(f.col("kind").isin(SUBSCRIBED, UNSUBSCRIBED)).select(
        "at_us",
        "broker",
        "client",
        f.col("filter").alias("text"),
        topic_filter("filter").alias("filter"),
        (f.col("kind") == SUBSCRIBED).alias("began"),
    )


def matrix(changes: DataFrame) -> DataFrame:
    """The subscriptions that stand at the end: one row for every client, broker and topic filter.

    What began and ended at one instant stands: a subscription that took the place of another of the same name.
    """
    last = changes.groupBy("client", "broker", "text").agg(
        f.max_by("began", f.struct("at_us", "began")).alias("stands"), f.first("filter").alias("filter")
    )
    return last.where("stands").select("client", "broker", "filter").distinct()


def subscriptions(changes: DataFrame, classes: Classes) -> DataFrame:
    """By topic class and broker: clients that subscribe at the end, and how many subscriptions began and ended."""
    class_of = with_classes(changes.select("filter").distinct(), "filter", classes).select("filter", "class")
    began = f.sum(f.col("began").cast("long")).alias("subscribed")
    ended = f.sum((~f.col("began")).cast("long")).alias("unsubscribed")
    counts = changes.join(class_of, "filter").groupBy("class", "broker").agg(began, ended)
    standing = matrix(changes).join(class_of, "filter").groupBy("class", "broker")
    subscribers = standing.agg(f.countDistinct("client").alias("subscribers"))
    joined = counts.join(subscribers, ["class", "broker"], "left")
    number = f.coalesce("subscribers", f.lit(0).cast("long")).alias("subscribers")
    return joined.select("class", "broker", number, "subscribed", "unsubscribed")
