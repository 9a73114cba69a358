"""Rows of files → the check-ins that count, each in its cell."""

from __future__ import annotations

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from latecomer.pipeline.schemas_checkins import CHECKINS, QUARANTINE
from latecomer.pipeline.stages.stays import repeated

SAME = ("user", "time", "lat", "lon", "place")
"""Two check-ins that agree in all of these are one."""
POLE, DATE_LINE = 90.0, 180.0
CELLS_ACROSS = 1 << 40
"""More than any row of cells has."""


class Region(msgspec.Struct, frozen=True):
    """What is looked at: a box on the map, from its edge in the south and west up to that in the north and east."""

    south: float = -POLE
    west: float = -DATE_LINE
    north: float = POLE
    east: float = DATE_LINE
    cell: float = 1.0
    """Degrees, both ways."""
    since_us: int = 0
    until_us: int = 0
    """Instants, the first included and the second not; 0: without end."""

    def holds(self) -> Column:
        """Whether a row is inside. The poles and the date line belong to the boxes that end there."""
        lat, lon, at = F.col("lat"), F.col("lon"), F.unix_micros("time")
        inside = lat.between(self.south, self.north) & lon.between(self.west, self.east)
        if self.north < POLE:
            inside &= lat < self.north
        if self.east < DATE_LINE:
            inside &= lon < self.east
        if self.since_us:
            inside &= at >= self.since_us
        return inside & (at < self.until_us) if self.until_us else inside

    def cell_of(self) -> Column:
        south, west = self._corner()
        return F.concat(south.cast("string"), F.lit(","), west.cast("string"))

    def cell_number(self) -> Column:
        """Another for each cell, which Spark compares faster than a name."""
        south, west = self._corner()
        return south * CELLS_ACROSS + west

    def _corner(self) -> tuple[Column, Column]:
        south, west = (F.floor(F.col(name) / self.cell) for name in ("lat", "lon"))
        return south, west


def tally(rows: DataFrame, region: Region) -> DataFrame:
    """One row: how many are good, bad, and outside."""
    bad = F.col("problem").isNotNull()
    return rows.agg(
        F.count_if(~bad & region.holds()).alias("good"),
        F.count_if(bad).alias("bad"),
        F.count_if(~bad & ~region.holds()).alias("outside"),
    )


def reasons(rows: DataFrame) -> DataFrame:
    """How many of the rows are bad for which reason."""
    return rows.where(F.col("problem").isNotNull()).groupBy("problem").agg(F.count("*").alias("rows"))


def quarantine(rows: DataFrame) -> DataFrame:
    """The rows that cannot be used, as they were read."""
    bad = rows.where(F.col("problem").isNotNull())
    return bad.select("file", F.col("problem").alias("reason"), "row").select(*QUARANTINE.fieldNames())


def checkins(rows: DataFrame, region: Region) -> DataFrame:
    """What is left: good, inside, and each only once."""
    once = _by_user(rows, region).withColumn("again", repeated()).where(~F.col("again"))  # sorted as visits want it
    return once.withColumn("cell", region.cell_of()).select(*CHECKINS.fieldNames())


def numbered(rows: DataFrame, region: Region) -> DataFrame:
    """The same with repetitions, and cells by number: all that visits need, at half the cost."""
    return _by_user(rows, region).withColumn("cell", region.cell_number())


def _by_user(rows: DataFrame, region: Region) -> DataFrame:
    """Good and inside; by user, as everything that follows."""
    return rows.where(F.col("problem").isNull() & region.holds()).select(*SAME).repartition("user")


def regular(found: DataFrame, *, monthly: bool, least: int) -> DataFrame:
    """Of users with at least so many check-ins and, if `monthly`, some in every month (UTC) in which anybody has.

    dynatops: "We only considered consistent users who contributed checkins regularly in all of the evaluated months."
    """
    month = F.date_format("time", "yyyy-MM")
    users = found.groupBy("user").agg(F.count("*").alias("checkins"), F.count_distinct(month).alias("months"))
    steady = users.where(F.col("checkins") >= least)
    if monthly:
        months = found.select(month.alias("month")).distinct().agg(F.count("*").alias("all_months"))
        steady = steady.crossJoin(F.broadcast(months)).where(F.col("months") == F.col("all_months"))
    return found.join(steady.select("user"), "user", "left_semi").select(*CHECKINS.fieldNames())
