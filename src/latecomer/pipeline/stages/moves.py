"""Visits → movement between cells."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from latecomer.pipeline.schemas_checkins import TRANSITIONS


def cell_transitions(visits: DataFrame) -> DataFrame:
    """How often somebody went from one cell straight to another, and how many did."""
    target = F.lead("cell").over(Window.partitionBy("user").orderBy("visit"))
    moves = visits.select("user", F.col("cell").alias("origin"), target.alias("target")).where("target is not null")
    of_users = moves.groupBy("user", "origin", "target").agg(F.count("*").alias("moves"))  # where the visits are
    counted = of_users.groupBy("origin", "target").agg(F.sum("moves").alias("moves"), F.count("*").alias("users"))
    return counted.select(*TRANSITIONS.fieldNames())
