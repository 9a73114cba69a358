"""Check-ins and visits → how people behave, as small tables: what a generator of check-ins is calibrated with.

Time runs in two ways here: by the clock, and by activity. On the clock of activity an hour of the week lasts as long as
its share of the check-ins; there people are as busy by night as by day, and gaps between check-ins can be told apart
from sleep.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

HOURS = 168
WEEK_S = HOURS * 3600
DAY_S = 86_400
MONDAY_H = 72
"""Hours from the Monday before 1970-01-01, a Thursday."""
DEGREES_PER_HOUR = 15
KNOTS = (*(at / 100 for at in range(100)), 0.992, 0.994, 0.996, 0.998, 0.999, 0.9995, 1.0)
"""Where distributions are measured: evenly, and closer at the long end."""
GAPS_H = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
"""Edges of the classes of gaps between check-ins; the last class is open."""
DISTANCES_KM = (150.0, 300.0, 600.0, 1200.0, 2400.0)
BUSY = 10
"""Check-ins of a user from which their gaps say something."""
KNOWN_MOST = 8
"""Cells that a user knows, from which all who know more are taken together."""
EARTH_KM = 6371.0


def located(checkins: DataFrame) -> DataFrame:
    """With the corner of the cell in cells, and the local hour of the week (by the sun)."""
    for at, edge in enumerate(("row", "column"), start=1):
        checkins = checkins.withColumn(edge, F.split_part("cell", F.lit(","), F.lit(at)).cast("int"))
    zone_h = F.floor(F.col("lon") / DEGREES_PER_HOUR + 0.5)
    local_s = F.unix_seconds("time") + (zone_h + MONDAY_H) * 3600
    return checkins.withColumn("local_s", local_s).withColumn(
        "hour", F.pmod(F.floor(local_s / 3600), HOURS).cast("int")
    )


def week(checkins: DataFrame) -> DataFrame:
    """Check-ins by local hour of the week, Monday's first being 0."""
    return located(checkins).groupBy("hour").agg(F.count("*").alias("checkins"))


def activity(checkins: DataFrame) -> DataFrame:
    """One row: check-ins per user at the knots."""
    per_user = checkins.groupBy("user").agg(F.count("*").alias("checkins"))
    return per_user.agg(F.percentile("checkins", KNOTS).alias("knots"))


def spans(checkins: DataFrame, days: float) -> DataFrame:
    """One row: how much of the time lies between first and last check-in of a user, at the knots."""
    at = F.unix_seconds("time")
    per_user = checkins.groupBy("user").agg(F.count("*").alias("checkins"), (F.max(at) - F.min(at)).alias("span_s"))
    busy = per_user.where(F.col("checkins") >= BUSY)
    return busy.agg(F.percentile(F.col("span_s") / (max(days, 1e-6) * DAY_S), KNOTS).alias("knots"))


def steps(checkins: DataFrame, shares: Sequence[float]) -> DataFrame:
    """Every check-in with the gap since the user's last one, by the clock and by activity, and whether it is a move."""
    start = [0.0, *accumulate(shares)]
    hour = F.col("hour") + 1
    of_hour = F.pmod(F.col("local_s"), 3600) / 3600
    within = F.element_at(_array(start), hour) + of_hour * F.element_at(_array(shares), hour)
    busy_s = (F.floor(F.col("local_s") / WEEK_S) + within) * WEEK_S
    order = Window.partitionBy("user").orderBy("time", "place", "lat", "lon")
    timed = (
        located(checkins)
        .withColumn("busy_s", busy_s)
        .withColumn("checkins", F.count("*").over(Window.partitionBy("user")))
    )
    return timed.select(
        "user",
        "checkins",
        "cell",
        F.lag("cell").over(order).alias("origin"),
        ((F.unix_seconds("time") - F.lag(F.unix_seconds("time")).over(order)) / 3600).alias("gap_h"),
        (F.col("busy_s") - F.lag("busy_s").over(order)).alias("busy_gap_s"),
    ).where(F.col("origin").isNotNull())


def gaps(stepped: DataFrame) -> DataFrame:
    """One row: gaps on the clock of activity at the knots, each as a multiple of its user's mean."""
    mean = F.avg("busy_gap_s").over(Window.partitionBy("user"))
    busy = stepped.where(F.col("checkins") >= BUSY).withColumn(
        "ratio", F.greatest(F.col("busy_gap_s") / mean, F.lit(0.0))
    )
    return busy.agg(F.percentile("ratio", KNOTS).alias("knots"))


def homes(visits: DataFrame) -> DataFrame:
    """Where each user checked in most."""
    most = visits.groupBy("user", "cell").agg(F.sum("checkins").alias("checkins"))
    ranked = Window.partitionBy("user").orderBy(F.desc("checkins"), "cell")
    first = most.withColumn("rank", F.row_number().over(ranked)).where("rank = 1")
    return first.select("user", F.col("cell").alias("home"))


def moves_by_gap(stepped: DataFrame, homes: DataFrame) -> DataFrame:
    """How many of the steps after such a gap, from home or from elsewhere, lead to another cell."""
    return (
        _classed(stepped, homes)
        .groupBy("home", "gap")
        .agg(F.count("*").alias("steps"), F.count_if(F.col("cell") != F.col("origin")).alias("moves"))
    )


def mobility(stepped: DataFrame, homes: DataFrame, chances: DataFrame) -> DataFrame:
    """One row: by how much users differ in their moves, beyond chance and beyond what their gaps explain."""
    chance = F.col("moves") / F.col("steps")
    classed = _classed(stepped, homes)
    expected = classed.join(F.broadcast(chances.select("home", "gap", chance.alias("chance"))), ["home", "gap"])
    users = expected.groupBy("user").agg(
        F.sum("chance").alias("mean"),
        F.sum(F.col("chance") * (1 - F.col("chance"))).alias("variance"),
        F.count_if(F.col("cell") != F.col("origin")).alias("moves"),
    )
    excess = (F.col("moves") - F.col("mean")) ** 2 - F.col("variance")
    return users.agg(F.sum(F.col("mean") ** 2).alias("squares"), F.sum(excess).alias("excess"))


def discoveries(visits: DataFrame) -> DataFrame:
    """Of the moves of users who know so many cells, how many lead to one that they do not."""
    first = F.row_number().over(Window.partitionBy("user", "cell").orderBy("visit")) == 1
    before = Window.partitionBy("user").orderBy("visit").rowsBetween(Window.unboundedPreceding, -1)
    told = visits.withColumn("new", first.cast("int")).withColumn("known", F.sum("new").over(before))
    known = F.least(F.col("known"), F.lit(KNOWN_MOST)).cast("int").alias("known")
    return told.where("known is not null").groupBy(known).agg(F.count("*").alias("moves"), F.sum("new").alias("new"))


def discovery_distances(visits: DataFrame, size: float) -> DataFrame:
    """First visits to cells, by the cell that was left and the class of the distance."""
    order = Window.partitionBy("user").orderBy("visit")
    first = F.row_number().over(Window.partitionBy("user", "cell").orderBy("visit")) == 1
    told = visits.withColumn("first", first).withColumn("origin", F.lag("cell").over(order))
    new = told.where("first and origin is not null")
    far_km = _kilometres(
        _middle("origin", 1, size), _middle("origin", 2, size), _middle("cell", 1, size), _middle("cell", 2, size)
    )
    return new.groupBy("origin", _class(far_km, DISTANCES_KM).alias("distance")).agg(F.count("*").alias("moves"))


def returns(visits: DataFrame, homes: DataFrame) -> DataFrame:
    """One row: moves from elsewhere to a cell that the user knows, and how many of them lead home."""
    order = Window.partitionBy("user").orderBy("visit")
    known = F.row_number().over(Window.partitionBy("user", "cell").orderBy("visit")) > 1
    told = visits.withColumn("known", known).withColumn("origin", F.lag("cell").over(order)).join(homes, "user")
    back = told.where("known and origin != home")
    return back.agg(F.count("*").alias("returns"), F.count_if(F.col("cell") == F.col("home")).alias("home"))


def places_of_cells(checkins: DataFrame, homes: DataFrame) -> DataFrame:
    """Every cell: where it is, who was there, who lives there and how busy they are, how many places it has."""
    found = (
        located(checkins)
        .groupBy("cell", "row", "column")
        .agg(F.count_distinct("user").alias("users"), F.count_distinct("place").alias("places"))
    )
    per_user = checkins.groupBy("user").agg(F.count("*").alias("checkins")).join(homes, "user")
    living = per_user.groupBy(F.col("home").alias("cell")).agg(
        F.count("*").alias("homes"), F.sum("checkins").alias("busy")
    )
    return found.join(living, "cell", "left").fillna(0, ["homes", "busy"])


def degrees(friendships: DataFrame) -> DataFrame:
    """One row: friends per user of a list at the knots."""
    good = friendships.where("problem is null and user != friend").select("user", "friend")
    both = good.union(good.select("friend", "user")).distinct()
    per_user = both.groupBy("user").agg(F.count("*").alias("friends"))
    return per_user.agg(F.percentile("friends", KNOTS).alias("knots"), F.avg("friends").alias("mean"))


def _classed(stepped: DataFrame, homes: DataFrame) -> DataFrame:
    """Steps with the class of their gap, and whether they begin at home."""
    from_home = F.col("origin") == F.col("home")
    return stepped.join(homes, "user").select(
        "user", "origin", "cell", from_home.alias("home"), _class(F.col("gap_h"), GAPS_H).alias("gap")
    )


def _class(value: Column, edges: Sequence[float]) -> Column:
    """How many edges a value has reached."""
    reached: Column = F.lit(0)
    for edge in edges:
        reached = reached + (value >= edge).cast("int")
    return reached


def _middle(cell: str, part: int, size: float) -> Column:
    return F.radians((F.split_part(cell, F.lit(","), F.lit(part)).cast("double") + 0.5) * size)


def _kilometres(lat_a: Column, lon_a: Column, lat_b: Column, lon_b: Column) -> Column:
    """Great-circle distance of two points in radians."""
    half = F.sin((lat_b - lat_a) / 2) ** 2 + F.cos(lat_a) * F.cos(lat_b) * F.sin((lon_b - lon_a) / 2) ** 2
    return F.asin(F.sqrt(half)) * 2 * EARTH_KM


def _array(values: Sequence[float]) -> Column:
    return F.array(*(F.lit(value) for value in values))
