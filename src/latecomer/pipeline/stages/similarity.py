"""Which brokers suit which users: what share of a user's topics a broker has subscribed to already (dynatops)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

SCHEMA = StructType(
    [
        StructField("client", StringType()),
        StructField("broker", StringType()),
        StructField("common", LongType()),  # |S_b ∩ s_v|
        StructField("topics", LongType()),  # |s_v|
        StructField("similarity", DoubleType()),
    ]
)


def similarities(subscriptions: DataFrame, clusters: DataFrame | None = None) -> DataFrame:
    """From (client, broker, topic), who subscribes to what and where: |S_b ∩ s_v| / |s_v| of every user and broker.

    A pair without a common topic has no row; its similarity is 0. With `clusters` (broker, cluster) a user is compared
    only with the brokers of the clusters that it is at; a broker that has no cluster is compared with nobody.
    """
    wanted = subscriptions.select("client", "topic").distinct()
    held = subscriptions.select("broker", "topic").distinct()
    pairs = wanted.join(held, "topic").select("client", "broker", "topic")
    if clusters is not None:
        members = clusters.select("broker", "cluster").distinct()
        at = subscriptions.select("client", "broker").distinct().join(members, "broker").select("client", "cluster")
        pairs = pairs.join(at.join(members, "cluster").select("client", "broker").distinct(), ["client", "broker"])
    common = pairs.groupBy("client", "broker").agg(F.count("*").alias("common"))
    sizes = wanted.groupBy("client").agg(F.count("*").alias("topics"))
    share = (F.col("common") / F.col("topics")).alias("similarity")
    return common.join(sizes, "client").select("client", "broker", "common", "topics", share)
