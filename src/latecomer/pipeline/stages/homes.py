"""Similarities → which clients would be better at which broker; and how often brokers' own subscriptions change."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def better_homes(similarities: DataFrame, load_weight: float | None, hysteresis: float) -> DataFrame:
    """One row for every client with a broker whose utility is higher than that of its own by more than `hysteresis`.

    Utility = similarity − weight · load; the weight is 0.2 times the brokers of the cluster where none is given, so
    that a broker with twice the mean load loses 0.2. The first by name of equal brokers.
    """
    weight = F.col("weight") if load_weight is None else F.lit(float(load_weight))
    scored = similarities.withColumn("utility", F.col("similarity") - weight * F.col("load"))
    found = F.min_by(F.struct("broker", "utility", "similarity"), F.struct(-F.col("utility"), F.col("broker")))
    best = scored.where("broker != home").groupBy("client", "home").agg(found.alias("best"))
    here = scored.where("broker = home").select(
        "client", F.col("utility").alias("now"), F.col("similarity").alias("similarity_before")
    )
    joined = best.join(here, "client").withColumn("gain", F.col("best.utility") - F.col("now"))
    return joined.where(F.col("gain") > hysteresis).select(
        "client",
        "home",
        F.col("best.broker").alias("broker"),
        "similarity_before",
        F.col("best.similarity").alias("similarity_after"),
        "gain",
    )


def both(held: DataFrame, moves: DataFrame) -> DataFrame:
    """The subscriptions (client, broker, topic) twice: with `moved` false as they are, with true after these moves."""
    going = moves.select("client", F.col("broker").alias("going"))
    then = held.join(going, "client", "left").select("client", F.coalesce("going", "broker").alias("broker"), "topic")
    now = held.select("client", "broker", "topic", F.lit(False).alias("moved"))
    return now.union(then.withColumn("moved", F.lit(True)))


def broker_subscriptions(both: DataFrame) -> DataFrame:
    """One row: what brokers subscribe to `before` and `after` the moves, and what they `joined` and `left` for that."""
    pairs = both.groupBy("broker", "topic").agg(
        F.max((~F.col("moved")).cast("int")).alias("was"), F.max(F.col("moved").cast("int")).alias("will")
    )
    was, will = F.col("was") == 1, F.col("will") == 1
    return pairs.agg(
        F.count_if(was).alias("before"),
        F.count_if(will).alias("after"),
        F.count_if(~was & will).alias("joined"),
        F.count_if(was & ~will).alias("left"),
    )


def largest_loads(both: DataFrame, clusters: DataFrame) -> DataFrame:
    """Per `moved` the largest load of a broker, in times the mean of its cluster."""
    held = both.groupBy("moved", "broker").agg(F.count("*").alias("held")).join(clusters, "broker")
    sizes = clusters.groupBy("cluster").agg(F.count("*").alias("brokers"))
    sums = held.groupBy("moved", "cluster").agg(F.sum("held").alias("total"), F.max("held").alias("most"))
    times = F.col("most") * F.col("brokers") / F.col("total")
    return sums.join(sizes, "cluster").groupBy("moved").agg(F.max(times).alias("load"))


def effective(changes: DataFrame, held: DataFrame) -> DataFrame:
    """The changes (number, client, home, topic, began) that change anything, when (client, topic) are `held` at first.

    `number` is their order; at one instant an end comes before a beginning.
    """
    order = Window.partitionBy("client", "topic").orderBy("number", "began")
    known = held.select("client", "topic").distinct().withColumn("held", F.lit(True))
    before = F.coalesce(F.lag("began").over(order), F.col("held"), F.lit(False))
    told = changes.join(known, ["client", "topic"], "left").withColumn("before", before)
    return told.where("began != before").select("number", "client", "home", "topic", "began")


def flips(changes: DataFrame, both: DataFrame) -> DataFrame:
    """Per `moved`: how many `changes` of clients there are, and how many of them are changes of a broker (`flips`).

    A broker subscribes with the first of its clients and unsubscribes with the last. `changes` are effective; their
    `home` counts for clients that hold nothing at first.
    """
    homes = both.select("moved", "client", F.col("broker").alias("at")).distinct()
    told = changes.withColumn("moved", F.explode(F.array(F.lit(False), F.lit(True)))).join(
        homes, ["moved", "client"], "left"
    )
    holders = both.groupBy("moved", "broker", "topic").agg(F.count("*").alias("holders"))
    step = F.when(F.col("began"), 1).otherwise(-1)
    order = Window.partitionBy("moved", "broker", "topic").orderBy("number", "client", "began")
    upto = order.rowsBetween(Window.unboundedPreceding, 0)
    counted = (
        told.withColumn("broker", F.coalesce("at", "home"))
        .join(holders, ["moved", "broker", "topic"], "left")
        .withColumn("count", F.coalesce("holders", F.lit(0).cast("long")) + F.sum(step).over(upto))
    )
    flipped = (F.col("began") & (F.col("count") == 1)) | (~F.col("began") & (F.col("count") == 0))
    return counted.groupBy("moved").agg(F.count("*").alias("changes"), F.count_if(flipped).alias("flips"))
