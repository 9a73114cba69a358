"""Files of who was where and when, and event logs, as visits; rows that cannot be used, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Literal

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import NumericType, TimestampNTZType, TimestampType

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import Instant
from latecomer.model.toml_text import choose
from latecomer.pipeline.log import Log, find_log, read_segments
from latecomer.pipeline.measure import retrying
from latecomer.pipeline.output import escaped
from latecomer.pipeline.stages.movement import VISITS
from latecomer.pipeline.stages.records import judged, sound
from latecomer.pipeline.stages.sessions import sessions

Unit = Literal["auto", "us", "ms", "s", "min"]
UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000}
DAY_US = 86_400_000_000
CSV = (".csv", ".csv.gz", ".csv.bz2")
JUDGED = "file string, row string, client string, place string, from_us bigint, to_us bigint, reason string"


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Which columns of a file say what."""

    client: str = "user"
    time: str = "time"
    until: str = ""
    """When the client was last seen there; empty: `time` is all that is known."""
    unit: Unit = "auto"
    """Of times that are numbers."""
    place: str = ""
    """Empty: the cell of lat and lon."""
    lat: str = "lat"
    lon: str = "lon"
    cell: float = 1.0
    """Degrees, both ways."""

    def needed(self) -> dict[str, str]:
        """Option → column."""
        where = {"--place": self.place} if self.place else {"--lat": self.lat, "--lon": self.lon}
        return {
            "--client": self.client,
            "--time": self.time,
            **({"--until": self.until} if self.until else {}),
            **where,
        }


def read_files(spark: SparkSession, files: Sequence[Path], columns: Columns, now_us: Instant) -> DataFrame:
    """JUDGED: every row of Parquet or CSV files as a visit, and a `reason` why it is none, null if it is one."""
    return reduce(DataFrame.unionByName, (_judged(_opened(spark, file), file, columns, now_us) for file in files))


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


def _opened(spark: SparkSession, file: Path) -> DataFrame:
    if not file.exists():
        raise SettingsError("", "there is no such file", source=str(file))
    if file.name.lower().endswith(CSV):
        return spark.read.csv(escaped(file), header=True, inferSchema=False, mode="PERMISSIVE")
    if file.is_file() and not _is_parquet(file):
        told = "is neither Parquet nor a .csv file; 'latecomer checkins' reads other texts and writes Parquet"
        raise SettingsError("", told, source=str(file))
    return spark.read.parquet(escaped(file))


def _is_parquet(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == b"PAR1"


def _judged(frame: DataFrame, file: Path, columns: Columns, now_us: Instant) -> DataFrame:
    for option, name in columns.needed().items():
        if name not in frame.columns:
            told = f"{file} has no column {name[:60]!r}; {choose(name, frame.columns)}"
            raise SettingsError(option, told)
    client = f.col(_quoted(columns.client)).cast("string")
    begin = _instant(frame, columns.time, columns.unit)
    end = _instant(frame, columns.until, columns.unit) if columns.until else begin
    reason = (
        f.when(f.coalesce(client, f.lit("")) == "", "no client")
        .when(begin.isNull(), "a time that cannot be read")
        .when((begin < 0) | (begin > now_us + DAY_US), "a time before 1970 or in the future")
        .when(end < begin, "an end before its beginning")
    )
    if columns.place:
        place = f.col(_quoted(columns.place)).cast("string")
        reason = reason.when(f.coalesce(place, f.lit("")) == "", "no place")
    else:
        lat, lon = (f.expr(f"try_cast({_quoted(name)} AS double)") for name in (columns.lat, columns.lon))
        inside = lat.between(-90.0, 90.0) & lon.between(-180.0, 180.0)
        reason = reason.when(~f.coalesce(inside, f.lit(False)), "coordinates that cannot be read or are out of range")
        south, west = (f.floor(part / columns.cell).cast("string") for part in (lat, lon))
        place = f.concat(south, f.lit(","), west)
    row = f.to_json(f.struct("*"))
    return frame.select(
        f.lit(file.name).alias("file"),
        row.alias("row"),
        client.alias("client"),
        place.alias("place"),
        begin.alias("from_us"),
        end.alias("to_us"),
        reason.alias("reason"),
    )


def _instant(frame: DataFrame, name: str, unit: Unit) -> Column:
    kind, column = frame.schema[name].dataType, f.col(_quoted(name))
    if isinstance(kind, TimestampType | TimestampNTZType):
        return f.unix_micros(column.cast("timestamp"))
    number = f.expr(f"try_cast({_quoted(name)} AS decimal(38, 6))")
    if unit != "auto":
        return (number * UNITS_US[unit]).cast("long")
    if isinstance(kind, NumericType):
        return (number * UNITS_US["s"]).cast("long")
    return f.unix_micros(f.expr(f"try_cast({_quoted(name)} AS timestamp)"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
