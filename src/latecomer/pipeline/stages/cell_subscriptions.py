"""Visits and friends → who subscribes to which cell from when to when: Figure 5c of dynatops.

A user is subscribed to the cell that they are in and to those that their friends are in, from the first check-in of a
visit until its end; the last visit never ends. One subscription is enough for all who are in a cell: it begins with the
first of them to come and ends with the last to go. When one goes and another comes in the same instant nothing happens.

So subscriptions are the unions of overlapping or adjoining visits, found in the order in which they begin: one begins
where no visit before it reaches, and ends where the furthest so far does, if the next begins later than that.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from latecomer.pipeline.schemas_checkins import DAYS, SUBSCRIPTIONS

SUBSCRIBED, UNSUBSCRIBED = "subscribed", "unsubscribed"
DAY_US = 86_400_000_000
FOREVER = "9999-12-31 00:00:00"
"""When a visit ends that has not ended."""


def cell_subscriptions(visits: DataFrame, friends: DataFrame) -> DataFrame:
    """One row per event."""
    forever = F.lit(FOREVER).cast("timestamp")
    own = visits.select("user", "cell", "arrived", "left")
    stay = own.withColumnRenamed("user", "friend")
    # Each part of the visits meets the friends that belong to it in memory; to sort them for it would cost more.
    followed = stay.join(friends.hint("shuffle_hash"), "friend").select("user", "cell", "arrived", "left")
    interest = own.union(followed).withColumn("left", F.coalesce("left", forever)).where("left > arrived")
    order = Window.partitionBy("user", "cell").orderBy("arrived")
    before = F.max("left").over(order.rowsBetween(Window.unboundedPreceding, -1))
    spans = interest.repartition("user").select(
        "user", "cell", "arrived", "left", before.alias("before"), F.lead("arrived").over(order).alias("next")
    )
    reach = F.greatest("before", "left")  # until then somebody is here who came by now
    begins = F.col("before").isNull() | (F.col("arrived") > F.col("before"))
    ends = (F.col("next").isNull() | (F.col("next") > reach)) & (reach < forever)
    both = F.array(
        F.struct(F.when(begins, F.col("arrived")).alias("time"), F.lit(SUBSCRIBED).alias("kind")),
        F.struct(F.when(ends, reach).alias("time"), F.lit(UNSUBSCRIBED).alias("kind")),
    )
    events = spans.where(begins | ends).select("user", "cell", F.inline(both)).where("time is not null")
    return events.select(*SUBSCRIPTIONS.fieldNames())


def by_day(events: DataFrame) -> DataFrame:
    """How many began and ended on each day (UTC)."""
    number = F.call_function("div", F.unix_micros("time"), F.lit(DAY_US))  # a name for every event would be slow
    counted = events.groupBy(number.alias("number")).agg(
        F.count_if(F.col("kind") == SUBSCRIBED).alias("subscribed"),
        F.count_if(F.col("kind") == UNSUBSCRIBED).alias("unsubscribed"),
    )
    day = F.date_from_unix_date(F.col("number").cast("int")).cast("string")
    return counted.withColumn("day", day).select(*DAYS.fieldNames())
