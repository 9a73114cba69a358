"""Which brokers suit which clients, by what they subscribe to (DYNATOPS §III-B).

Similarity has two forms. *Cheap*: the share of a client's topics that the broker subscribes to, |S_b ∩ s_v| / |s_v|.
*Full*: the mean over the broker's clients u of |s_u ∩ s_v| / |s_v|. Both follow from how many clients of a broker hold
each topic. Taken literally, a client's own subscriptions count at its present broker, where the cheap form is then
always 1; *without own*, only what others there hold counts.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

LOAD_WEIGHT = 0.2
"""A broker with twice the mean load of its cluster loses so much of its utility."""
Form: TypeAlias = Literal["cheap", "full"]

SCHEMA = StructType(
    [
        StructField("client", StringType()),
        StructField("home", StringType()),
        StructField("broker", StringType()),
        StructField("topics", LongType()),  # |s_v|
        StructField("common", LongType()),  # topics of the client that the broker holds, or holders of them
        StructField("similarity", DoubleType()),
        StructField("load", DoubleType()),  # L_b
        StructField("weight", DoubleType()),  # the usual weight of the load: 0.2 times the brokers of the cluster
    ]
)


def similarities(
    subscriptions: DataFrame, clusters: DataFrame, form: Form = "cheap", *, own: bool = False
) -> DataFrame:
    """From (client, broker, topic) and (broker, cluster): each client with the brokers of its cluster that may suit it.

    These are the brokers that hold a topic of the client, its own broker, and the one with the least load: any other
    has similarity 0 and more load. `load` is the broker's share of all subscriptions in the cluster.
    """
    held = subscriptions.select("client", "broker", "topic").distinct()
    members = clusters.select("broker", "cluster").distinct()
    wanted = held.withColumnRenamed("broker", "home").join(members.withColumnRenamed("broker", "home"), "home")
    holders = held.groupBy("broker", "topic").agg(F.count("*").alias("holders")).join(members, "broker")
    pairs = wanted.join(holders, ["topic", "cluster"])
    others = F.col("holders") - _own(own)
    counted = F.when(others > 0, 1).otherwise(0) if form == "cheap" else others
    shared = pairs.groupBy("client", "home", "broker").agg(F.sum(counted.cast("long")).alias("common"))
    sizes = wanted.groupBy("client", "home", "cluster").agg(F.count("*").alias("topics"))
    loads = broker_loads(held, members)
    candidates = sizes.join(_least(loads), "cluster").select("client", "home", F.col("least").alias("broker"))
    candidates = candidates.union(sizes.select("client", "home", F.col("home").alias("broker")))
    all_pairs = candidates.union(shared.select("client", "home", "broker")).distinct()
    joined = (
        all_pairs.join(shared, ["client", "home", "broker"], "left")
        .join(sizes.drop("cluster"), ["client", "home"])
        .join(loads.select("broker", "clients", "load", "weight"), "broker")
        .withColumn("common", F.coalesce("common", F.lit(0).cast("long")))
    )
    return joined.select("client", "home", "broker", "topics", "common", _similarity(form, own), "load", "weight")


def _own(own: bool) -> Column:
    """One where the client itself is not to be counted."""
    return F.lit(0) if own else F.when(F.col("broker") == F.col("home"), 1).otherwise(0)


def _similarity(form: Form, own: bool) -> Column:
    share = F.col("common") / F.col("topics")
    if form == "full":
        among = F.col("clients") - _own(own)
        share = F.when(among > 0, share / among).otherwise(0.0)
    return share.alias("similarity")


def broker_loads(held: DataFrame, members: DataFrame) -> DataFrame:
    """Per broker of a cluster its clients, and its share of the cluster's subscriptions; also where there are none."""
    sums = held.groupBy("broker").agg(F.count("*").alias("held"), F.countDistinct("client").alias("clients"))
    zero = F.lit(0).cast("long")
    both = members.join(sums, "broker", "left").select(
        "broker", "cluster", F.coalesce("held", zero).alias("held"), F.coalesce("clients", zero).alias("clients")
    )
    weight = (F.count("*") * F.lit(LOAD_WEIGHT)).alias("weight")
    totals = both.groupBy("cluster").agg(F.sum("held").alias("total"), weight)
    load = F.when(F.col("total") > 0, F.col("held") / F.col("total")).otherwise(0.0).alias("load")
    return both.join(totals, "cluster").select("broker", "cluster", "held", "clients", load, "weight")


def _least(loads: DataFrame) -> DataFrame:
    """Per cluster the broker with the least load, the first by name of equals."""
    return loads.groupBy("cluster").agg(F.min_by("broker", F.struct("held", "broker")).alias("least"))
