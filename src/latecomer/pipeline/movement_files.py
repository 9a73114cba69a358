"""Files of who was where and when, and event logs, as visits; rows that cannot be used, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from latecomer.model.errors import LatecomerError
from latecomer.model.ids import Instant
from latecomer.pipeline.checkins_formats import Wanted, read_rows
from latecomer.pipeline.checkins_layouts import AUTO, LAT, LON, PLACE, TIME, UNTIL, USER
from latecomer.pipeline.checkins_times import Unit
from latecomer.pipeline.log import Log, find_log, read_segments
from latecomer.pipeline.measure import retrying
from latecomer.pipeline.stages.checkins import Region
from latecomer.pipeline.stages.movement import VISITS
from latecomer.pipeline.stages.records import judged, sound
from latecomer.pipeline.stages.sessions import sessions

JUDGED = "file string, row string, client string, place string, from_us bigint, to_us bigint, reason string"


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Which columns of a file say what; empty: the one with a usual name, such as user or user_id."""

    client: str = ""
    time: str = ""
    until: str = ""
    """When the client was last seen there; empty: `time` is all that is known."""
    unit: Unit = "auto"
    """Of times that are numbers."""
    place: str = ""
    """Empty: the cell of lat and lon."""
    lat: str = ""
    lon: str = ""
    cell: float = 1.0
    """Degrees, both ways."""
    format: str = AUTO
    places: str | None = None
    """Where places are, for files that do not say."""

    def wanted(self) -> Wanted:
        """The same for the reader of check-ins."""
        names = {USER: self.client, TIME: self.time, UNTIL: self.until, PLACE: self.place, LAT: self.lat, LON: self.lon}
        named = {what: name for what, name in names.items() if name}
        return Wanted(self.format, named, self.unit, not self.place, self.places)


def read_files(spark: SparkSession, files: Sequence[str | Path], columns: Columns, now_us: Instant) -> DataFrame:
    """JUDGED: every row of the files as a visit, and a `reason` why it is none, null if it is one."""
    rows = read_rows(spark, [str(file) for file in files], columns.wanted(), now_us)
    place = f.col("place") if columns.place else Region(cell=columns.cell).cell_of()
    begin, end = f.unix_micros("time"), f.unix_micros("until")
    return rows.select(
        "file",
        "row",
        f.col("user").alias("client"),
        place.alias("place"),
        begin.alias("from_us"),
        (end if columns.until else begin).alias("to_us"),
        f.col("problem").alias("reason"),
    )


def good(rows: DataFrame) -> DataFrame:
    return rows.where("reason IS NULL").select(*VISITS.names).dropDuplicates()


def refused(rows: DataFrame) -> DataFrame:
    return rows.where("reason IS NOT NULL").select("file", "reason", "row")


def read_log(spark: SparkSession, folder: Path, now_us: Instant) -> tuple[DataFrame, int, int]:
    """The connections of clients at brokers in an event log as visits; and how many rows of the log, and how many bad.

    `latecomer analyze` has the bad ones in its quarantine, with the reasons.
    """
    log = find_log(folder)

    def count(log: Log) -> tuple[int, int]:
        rows = judged(read_segments(spark, log), now_us)
        found = rows.agg(f.count("*").alias("all"), f.count("reason").alias("bad")).collect()[0]
        return int(found["all"]), int(found["bad"])

    (rows, bad), log, _ = retrying(log, count)
    if not log.segments:
        raise LatecomerError(f"{folder}: no segment of the log can be read; run 'latecomer analyze' to see why")
    found = sessions(sound(judged(read_segments(spark, log), now_us)))
    names = {"broker": "place", "begin_us": "from_us", "end_us": "to_us"}
    return found.withColumnsRenamed(names).select(*VISITS.names), rows, bad
