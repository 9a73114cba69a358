"""Check-ins → visits: successive check-ins of a user in one cell are one visit (dynatops V.A.1).

A user's check-ins are taken in the order of time, and at the same instant in that of place, latitude and longitude. A
visit ends with the first check-in elsewhere; the lapse from its own first check-in until then is its linger time. The
last visit of a user has not ended, and has none. Check-ins that agree in all columns are one.

All windows have the same order, so Spark sorts the check-ins once. Only the first window goes over all of them; after
it a row is left for each visit and each repeated check-in.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from latecomer.pipeline.schemas_checkins import STAYS

ORDER = ("time", "place", "lat", "lon")
"""Of the check-ins of a user. Check-ins of a user that agree in all of these are one."""


def in_order() -> WindowSpec:
    """The check-ins of each user in their order."""
    return Window.partitionBy("user").orderBy(*ORDER)


def repeated() -> Column:
    """Whether a check-in is the same as the one before it."""
    order = in_order()
    same = F.col("time") == F.lag("time").over(order)  # a time is never null, so the first one has nothing before it
    for name in ORDER[1:]:
        same &= F.col(name).eqNullSafe(F.lag(name).over(order))
    return F.coalesce(same, F.lit(False))


def stays(checkins: DataFrame) -> DataFrame:
    """One row per visit; `cell` may be of any type."""
    order = in_order()
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    all_of_user = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    marked = checkins.select(
        "user",
        *ORDER,
        "cell",
        F.coalesce(F.col("cell") != F.lag("cell").over(order), F.lit(True)).alias("moved"),
        repeated().cast("long").alias("again"),
        F.lag("time").over(order).alias("before"),
        F.row_number().over(order).alias("number"),
        F.max("time").over(all_of_user).alias("last"),
        F.count("*").over(all_of_user).alias("rows"),
    )
    counted = marked.where("moved or again = 1").select(
        *(name for name in marked.columns if name != "again"),
        (F.col("number") - F.sum("again").over(so_far)).alias("nth"),  # of the check-ins that differ
        (F.col("rows") - F.sum("again").over(all_of_user)).alias("all"),
    )
    visits = counted.where("moved").select(
        "user",
        (F.row_number().over(order) - 1).cast("int").alias("visit"),
        "cell",
        F.col("time").alias("arrived"),
        F.coalesce(F.lead("before").over(order), "last").alias("seen"),
        F.lead("time").over(order).alias("left"),
        (F.coalesce(F.lead("nth").over(order), F.col("all") + 1) - F.col("nth")).alias("checkins"),
    )
    linger_us = F.unix_micros("left") - F.unix_micros("arrived")
    return visits.withColumn("linger_us", linger_us).select(*STAYS.fieldNames())
