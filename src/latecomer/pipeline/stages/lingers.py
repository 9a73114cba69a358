"""Visits → how long people stay: Figure 5b of dynatops."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from latecomer.pipeline.schemas_checkins import LINGERS

HOUR_US = 3_600_000_000


def lingers(visits: DataFrame) -> DataFrame:
    """Visits that ended, by full hours."""
    hours = F.floor(F.col("linger_us") / HOUR_US).cast("int")
    ended = visits.where(F.col("linger_us").isNotNull()).groupBy(hours.alias("hours")).agg(F.count("*").alias("visits"))
    until = Window.orderBy("hours").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return ended.withColumn("visits_until", F.sum("visits").over(until)).select(*LINGERS.fieldNames())
