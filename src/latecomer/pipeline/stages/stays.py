"""Check-ins → visits: successive check-ins of a user in one cell are one visit (dynatops V.A.1).

A user's check-ins are taken in the order of time, and at the same instant in that of place, latitude and longitude. A
visit ends with the first check-in elsewhere; the lapse from its own first check-in until then is its linger time. The
last visit of a user has not ended, and has none.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from latecomer.pipeline.schemas_checkins import STAYS


def stays(checkins: DataFrame) -> DataFrame:
    """One row per visit."""
    in_order = Window.partitionBy("user").orderBy("time", "place", "lat", "lon")
    moved = F.coalesce(F.col("cell") != F.lag("cell").over(in_order), F.lit(True))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = checkins.withColumn("moved", moved).withColumn(
        "visit", (F.sum(F.col("moved").cast("int")).over(so_far) - 1).cast("int")
    )
    visits = numbered.groupBy("user", "visit").agg(
        F.min("cell").alias("cell"),
        F.min("time").alias("arrived"),
        F.max("time").alias("seen"),
        F.count("*").alias("checkins"),
    )
    left = F.lead("arrived").over(Window.partitionBy("user").orderBy("visit"))
    ended = visits.withColumn("left", left)
    linger_us = F.unix_micros("left") - F.unix_micros("arrived")
    return ended.withColumn("linger_us", linger_us).select(*STAYS.fieldNames())
