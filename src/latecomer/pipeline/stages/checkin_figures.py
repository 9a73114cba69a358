"""Visits and pairs → the small counts from which the figures of dynatops' location model follow, each in one pass.

Users are in twenty groups by hash: how much the groups differ says how sure the whole is. `checkins_sums` adds the
counts up, as groups of users and as the curves of Figure 5.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

HOUR_US = 3_600_000_000
WEEK_US = 7 * 24 * HOUR_US
GROUPS_OF_USERS = 20
INSTANT = "yyyy-MM-dd'T'HH:mm:ssX"


def visit_counts(visits: DataFrame) -> DataFrame:
    """By group and by full hours of linger time (null: the visit has not ended)."""
    return visits.groupBy(_group(), _hours().alias("hours")).agg(
        F.count_if(F.col("visit") == 0).alias("users"),
        F.count("*").alias("visits"),
        F.sum("checkins").alias("checkins"),
        F.count_if(F.col("linger_us") > WEEK_US).alias("over_week"),
        F.date_format(F.min("arrived"), INSTANT).alias("first"),
        F.date_format(F.max("seen"), INSTANT).alias("last"),
    )


def pair_counts(pairs: DataFrame) -> DataFrame:
    """By group and by how many visits a pair has."""
    return pairs.groupBy(_group(), "visits").agg(
        F.count("*").alias("pairs"), F.count_if(F.col("checkins") == 1).alias("of_one_checkin")
    )


def linger_counts(visits: DataFrame, hours: Collection[int]) -> DataFrame:
    """By linger time to the microsecond, of the visits that lasted one of these full hours."""
    chosen = visits.where(_hours().isin(*sorted(hours)))
    return chosen.groupBy("linger_us").agg(F.count("*").alias("visits"))


def cell_counts(visits: DataFrame) -> DataFrame:
    """One row: how many cells and how many transitions there are, for whoever does not need the tables."""
    target = F.lead("cell").over(Window.partitionBy("user").orderBy("visit")).alias("target")
    steps = visits.select("cell", target).distinct()
    targets = steps.groupBy("cell").agg(F.count("target").alias("targets"))
    return targets.agg(F.count("*").alias("cells"), F.coalesce(F.sum("targets"), F.lit(0)).alias("transitions"))


def _group() -> Column:
    return F.pmod(F.hash("user"), F.lit(GROUPS_OF_USERS)).alias("group")


def _hours() -> Column:
    return F.floor(F.col("linger_us") / HOUR_US).cast("int")
