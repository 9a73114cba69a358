"""Visits and pairs → the numbers of dynatops' location model, and how they vary from one group of users to the next."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.pipeline.schemas_checkins import GROUPS

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
DAY_US = 86_400_000_000
WEEK_US = 7 * DAY_US
GROUPS_OF_USERS = 20
INSTANT = "yyyy-MM-dd'T'HH:mm:ssX"


def visit_figures(visits: DataFrame) -> DataFrame:
    """One row: quantiles of linger times, each between the two nearest in proportion; the first and last check-in."""
    return visits.agg(
        F.percentile("linger_us", QUANTILES).alias("quantiles_us"),
        F.date_format(F.min("arrived"), INSTANT).alias("first"),
        F.date_format(F.max("seen"), INSTANT).alias("last"),
    )


def groups_of_users(visits: DataFrame, pairs: DataFrame) -> DataFrame:
    """What there is to count, in twenty groups of users by hash: how far they spread is how sure the whole is."""
    group = F.pmod(F.hash("user"), F.lit(GROUPS_OF_USERS)).alias("group")
    linger = F.col("linger_us")
    stayed = visits.groupBy(group).agg(
        F.count_distinct("user").alias("users"),
        F.count("*").alias("visits"),
        F.count(linger).alias("lingers"),
        F.count_if(linger < DAY_US).alias("under_day"),
        F.count_if(linger > WEEK_US).alias("over_week"),
    )
    met = pairs.groupBy(group).agg(
        F.count("*").alias("pairs"),
        F.count_if(F.col("visits") == 1).alias("pairs_seen_once"),
        F.count_if(F.col("checkins") == 1).alias("pairs_of_one_checkin"),
    )
    return stayed.join(met, "group").select(*GROUPS.fieldNames())
