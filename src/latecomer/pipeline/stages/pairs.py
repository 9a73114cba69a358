"""Visits → who was in which cell how often, and the cells: Figure 5a of dynatops."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.pipeline.schemas_checkins import CELLS, PAIRS


def pairs(visits: DataFrame) -> DataFrame:
    """One row for every user and cell that met. A pair is seen once if it has one visit."""
    met = visits.groupBy("user", "cell").agg(
        F.count("*").alias("visits"),
        F.sum("checkins").alias("checkins"),
        F.min("arrived").alias("first"),
        F.max("seen").alias("last"),
    )
    return met.select(*PAIRS.fieldNames())


def cells(met: DataFrame, size: float) -> DataFrame:
    """One row for every cell that anybody was in, from the pairs."""
    found = met.groupBy("cell").agg(
        F.sum("checkins").alias("checkins"),
        F.sum("visits").alias("visits"),
        F.count("*").alias("users"),
        F.count_if(F.col("visits") == 1).alias("users_once"),
    )
    for at, edge in enumerate(("south", "west"), start=1):
        found = found.withColumn(edge, F.split_part("cell", F.lit(","), F.lit(at)).cast("double") * size)
    return found.select(*CELLS.fieldNames())
