"""Visits and friends → who subscribes to which cell from when to when: Figure 5c of dynatops.

A user is subscribed to the cell that they are in and to those that their friends are in, from the first check-in of a
visit until its end; the last visit never ends. One subscription is enough for all who are in a cell: it begins with the
first of them to come and ends with the last to go. When one goes and another comes in the same instant nothing happens.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from latecomer.pipeline.schemas_checkins import DAYS, SUBSCRIPTIONS

SUBSCRIBED, UNSUBSCRIBED = "subscribed", "unsubscribed"


def cell_subscriptions(visits: DataFrame, friends: DataFrame) -> DataFrame:
    """One row per event."""
    stay = visits.select(F.col("user").alias("friend"), "cell", "arrived", "left")
    own = visits.select("user", "cell", "arrived", "left")
    interest = own.union(friends.join(stay, "friend").select("user", "cell", "arrived", "left"))
    ends = F.array(
        F.struct(F.col("arrived").alias("time"), F.lit(1).alias("change")),
        F.struct(F.col("left").alias("time"), F.lit(-1).alias("change")),
    )
    changes = interest.select("user", "cell", F.inline(ends)).where(F.col("time").isNotNull())
    net = changes.groupBy("user", "cell", "time").agg(F.sum("change").alias("change")).where(F.col("change") != 0)
    order = Window.partitionBy("user", "cell").orderBy("time")
    here = F.sum("change").over(order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    counted = net.withColumn("here", here).withColumn("before", F.col("here") - F.col("change"))
    kind = F.when(F.col("before") == 0, SUBSCRIBED).when(F.col("here") == 0, UNSUBSCRIBED)
    return counted.withColumn("kind", kind).where(F.col("kind").isNotNull()).select(*SUBSCRIPTIONS.fieldNames())


def by_day(events: DataFrame) -> DataFrame:
    """How many began and ended on each day (UTC)."""
    counted = events.groupBy(F.date_format("time", "yyyy-MM-dd").alias("day")).agg(
        F.count_if(F.col("kind") == SUBSCRIBED).alias("subscribed"),
        F.count_if(F.col("kind") == UNSUBSCRIBED).alias("unsubscribed"),
    )
    return counted.select(*DAYS.fieldNames())
