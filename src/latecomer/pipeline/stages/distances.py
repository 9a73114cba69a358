"""Records → how far away the stores were that answered."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from latecomer.model.record import Kind
from latecomer.pipeline.classes import Classes, with_classes
from latecomer.pipeline.stages.requests import topic_filter

COMPLETE = "complete"


def answers(records: DataFrame) -> DataFrame:
    """One row for every request that came to its end; `hops` is null if no store answered. Streaming-safe."""
    return records.where(f.col("kind") == Kind.RECALLED.value).select(
        "at_us",
        "broker",
        "client",
        topic_filter("filter").alias("filter"),
        f.col("peer").alias("stores"),
        f.when((f.col("peer") != "") & (f.col("hops") >= 0), f.col("hops")).alias("hops"),
        f.col("count").alias("events"),
        (f.col("detail") == COMPLETE).alias("complete"),
    )


def hops(answers: DataFrame) -> DataFrame:
    """How many requests of each broker were answered from how far; null: not at all."""
    lacking = f.sum((~f.col("complete")).cast("long")).alias("incomplete")
    counted = answers.groupBy("broker", "hops").agg(f.count("*").alias("requests"), lacking)
    return counted.select("broker", "hops", "requests", "incomplete")


def distances(answers: DataFrame, classes: Classes) -> DataFrame:
    """Sums by topic class and broker, from which means and their errors follow."""
    counted = answers.groupBy("broker", "filter", "hops", "complete").agg(f.count("*").alias("requests"))
    requests, far = f.col("requests"), f.coalesce("hops", f.lit(0)).cast("long")
    served = f.col("hops").isNotNull()
    return (
        with_classes(counted, "filter", classes)
        .groupBy("class", "broker")
        .agg(
            f.sum(f.when(served, requests).otherwise(0)).alias("served"),
            f.sum(f.when(~served, requests).otherwise(0)).alias("unserved"),
            f.sum(f.when(~f.col("complete"), requests).otherwise(0)).alias("incomplete"),
            f.sum(requests * far).alias("hops_sum"),
            f.sum(requests * far * far).alias("hops_squares"),
        )
        .select("class", "broker", "served", "unserved", "incomplete", "hops_sum", "hops_squares")
    )
