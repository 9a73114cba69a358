"""Visits → movement between cells."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from latecomer.pipeline.schemas_checkins import TRANSITIONS


def cell_transitions(visits: DataFrame) -> DataFrame:
    """How often somebody went from one cell straight to another, and how many did."""
    target = F.lead("cell").over(Window.partitionBy("user").orderBy("visit"))
    moves = visits.select("user", F.col("cell").alias("origin"), target.alias("target")).where("target is not null")
    counted = moves.groupBy("origin", "target").agg(
        F.count("*").alias("moves"), F.count_distinct("user").alias("users")
    )
    return counted.select(*TRANSITIONS.fieldNames())
