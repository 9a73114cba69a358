"""Visits → transitions: how often clients moved from one broker to another."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f


def transitions(visits: DataFrame) -> DataFrame:
    """By pair of brokers: how often, by how many clients, and how long they were nowhere in between, all together."""
    order = Window.partitionBy("client").orderBy("visit")
    moves = visits.select(
        "client",
        f.col("broker").alias("from_broker"),
        f.lead("broker").over(order).alias("to_broker"),
        f.greatest(f.lead("begin_us").over(order) - f.col("end_us"), f.lit(0).cast("long")).alias("away_us"),
    ).where("to_broker IS NOT NULL")
    summed = moves.groupBy("from_broker", "to_broker").agg(
        f.count("*").alias("moves"), f.countDistinct("client").alias("clients"), f.sum("away_us").alias("away_us")
    )
    return summed.select("from_broker", "to_broker", "moves", "clients", "away_us")
