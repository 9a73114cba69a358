"""Check-ins → what the location model of dynatops takes: numbered users in numbered cells, and their changes.

A user has slots: 0 for the cell in which they are, 1 and up for those of the friends whom they follow. Every visit
gives the visitor a row with slot `MOVE` and one with slot 0, and one to each of those who follow them. Visits with
which a user is seen for the first time have time −1: that is where they are at the start.
"""

from __future__ import annotations

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

MOVE, OWN = -1, 0
FIRST_S = -1
HOUR_S = 3600


class Cells(msgspec.Struct, frozen=True):
    """Rows and columns of cells, numbered by row from the south, and by column from the west."""

    rows: int
    columns: int
    south: float
    west: float
    height: float
    """Of a cell, in degrees."""
    width: float

    def number(self) -> Column:
        """Of the cell of a check-in; none outside."""
        row = F.floor((F.col("lat") - self.south) / self.height)
        column = F.floor((F.col("lon") - self.west) / self.width)
        inside = row.between(0, self.rows - 1) & column.between(0, self.columns - 1)
        return F.when(inside, row * self.columns + column)


def numbered_cells(checkins: DataFrame, cells: Cells) -> DataFrame:
    """The check-ins inside, with the number of their cell."""
    return checkins.withColumn("cell", cells.number()).where(F.col("cell").isNotNull())


def location_changes(visits: DataFrame, friends: DataFrame) -> DataFrame:
    """One row per change: time_s, user, slot, cell. Users are numbered in the order of their names."""
    users = visits.select("user").distinct()
    seats = users.select("user", (F.row_number().over(Window.orderBy("user")) - 1).cast("long").alias("seat"))
    arrived = F.when(F.col("visit") == 0, F.lit(FIRST_S)).otherwise(F.unix_seconds("arrived")).cast("long")
    seated = visits.join(seats, "user").select("user", "seat", arrived.alias("time_s"), F.col("cell").cast("long"))
    own = seated.select(
        "time_s", F.col("seat").alias("user"), F.explode(F.array(F.lit(MOVE), F.lit(OWN))).alias("slot"), "cell"
    )
    rank = F.row_number().over(Window.partitionBy("user").orderBy("friend")).alias("slot")
    followed = friends.select("user", "friend", rank).join(seats, "user")
    follower = followed.select(F.col("seat").alias("reader"), F.col("friend").alias("user"), "slot")
    told = seated.join(follower, "user").select("time_s", F.col("reader").alias("user"), "slot", "cell")
    return own.union(told)


def published_by_hour(checkins: DataFrame) -> DataFrame:
    """How many check-ins each cell has in each hour since 1970 (UTC): hour, cell, checkins."""
    hour = F.floor(F.unix_seconds("time") / HOUR_S).cast("long").alias("hour")
    return checkins.groupBy(hour, F.col("cell").cast("long").alias("cell")).agg(F.count("*").alias("checkins"))
