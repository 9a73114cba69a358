"""Files of check-ins, friends and places as DataFrames: every row as it was read, and what is wrong with it.

Text is read line by line, so that a bad line can be shown as it was; compressed text (.gz, .bz2) as if it were not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TypeVar

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.model.errors import SettingsError
from latecomer.pipeline.checkins_layouts import (
    AUTO,
    FORMATS,
    FRIEND_HEADINGS,
    LAT,
    LON,
    PARQUET,
    PLACE,
    TIME,
    UNTIL,
    USER,
    Layout,
    chosen_columns,
    find_layout,
    name_columns,
)
from latecomer.pipeline.checkins_times import Unit, instant, time_of
from latecomer.pipeline.inputs import nanosecond_columns
from latecomer.pipeline.output import escaped
from latecomer.pipeline.schemas_checkins import FRIENDS, ROWS

HEAD = 50
"""Lines that a guess is made from."""
PARQUET_HEAD = ["PAR1"]
"""What every Parquet file begins with."""
DAY_S = 86_400
BAD_COUNT = "wrong number of columns"
BAD_USER = "no user"
BAD_TIME = "time cannot be read"
FAR_TIME = "time before 1970 or in the future"
BAD_COORDINATES = "coordinates cannot be read"
NO_COORDINATES = "place without coordinates"
FAR_COORDINATES = "coordinates out of range"
ZERO_COORDINATES = "coordinates 0, 0"
EARLY_END = "an end before its beginning"
NO_PLACE = "no place"
BAD_FRIENDS = "not two users"
__all__ = ["Wanted", "instant", "open_friends", "open_places", "open_rows", "read_rows"]

Found = TypeVar("Found")
_corrupt = "corrupt"
_blank = " \t\r\ufeff"


class Wanted(msgspec.Struct, frozen=True):
    """How files are to be read, as far as somebody said so."""

    format: str = AUTO
    names: Mapping[str, str] = {}
    """Columns by name: USER, TIME, UNTIL, LAT, LON or PLACE → its name in the file."""
    unit: Unit = "auto"
    """Of times that are numbers."""
    located: bool = True
    """A row needs coordinates; else the name of a place."""
    places: str | None = None
    """Where places are, for files that do not say."""


def open_rows(
    spark: SparkSession, files: Sequence[str], *, format: str = AUTO, places: str | None = None, now_us: int
) -> DataFrame:
    """All rows of all files, as ROWS. A time more than a day after `now_us` is a wrong clock."""
    return read_rows(spark, files, Wanted(format=format, places=places), now_us).select(*ROWS.fieldNames())


def read_rows(spark: SparkSession, files: Sequence[str], wanted: Wanted, now_us: int) -> DataFrame:
    """The same with `until`: when somebody was last seen there, null where the file does not say."""
    if wanted.format not in FORMATS:
        raise SettingsError("--format", f"there is no {wanted.format!r}; choose from {', '.join(FORMATS)}")
    known = None if wanted.places is None else open_places(spark, wanted.places)
    found = [_judged(_opened(spark, file, wanted, known), wanted, now_us) for file in files]
    return reduce(DataFrame.unionByName, found).select(*ROWS.fieldNames(), UNTIL)


def open_friends(spark: SparkSession, file: str) -> DataFrame:
    """Who is whose friend, as it was written: FRIENDS with `file`, `row` and `problem`."""
    head = _head(spark, file)
    if _is_parquet(head):
        frame = spark.read.parquet(_path(file))
        names = [_first(frame.columns, known) for known in FRIEND_HEADINGS]
        if None in names:
            if len(frame.columns) < 2:
                raise SettingsError("--friends", "it has no two columns of users", source=file)
            names = list(frame.columns[:2])
        user, friend = (F.col(f"`{name}`").cast("string") for name in names)
        frame = frame.select(_file(), F.to_json(F.struct("*")).alias("row"), user.alias("user"), friend.alias("friend"))
    else:
        lines = _lines(spark, file).where(~F.col("row").startswith("#"))
        words = F.split(F.btrim("row", F.lit(_blank)), r"[\t ,;|]+")
        first = next((line for line in head if not line.startswith("#")), "")
        if first.lower().replace(",", "\t").split("\t")[0].strip(_blank) in FRIEND_HEADINGS[0]:
            lines = lines.where(F.col("row") != first)
        two = F.size(words) >= 2
        frame = lines.select("file", "row", F.when(two, words[0]).alias("user"), F.when(two, words[1]).alias("friend"))
    good = F.col("user").isNotNull() & F.col("friend").isNotNull() & (F.col("user") != "") & (F.col("friend") != "")
    return frame.select(*FRIENDS.fieldNames(), "file", "row", F.when(~good, BAD_FRIENDS).alias("problem"))


def open_places(spark: SparkSession, file: str) -> DataFrame:
    """Where places are: place, lat, lon; a place that is listed twice is where the list has it first by number."""
    head = _head(spark, file)
    if _is_parquet(head):
        frame = spark.read.parquet(_path(file))
        names = name_columns([*frame.columns, USER, TIME])
        at = {what: frame.columns[names.index(what)] for what in (PLACE, LAT, LON)} if names and LAT in names else {}
        if not at:
            raise SettingsError("--places", "it has no columns place, lat and lon", source=file)
        columns = [F.col(f"`{at[what]}`").cast("string").alias(what) for what in (PLACE, LAT, LON)]
        found = frame.select(*columns)
    else:
        separator = "\t" if head and "\t" in head[0] else ","
        words = F.split("row", separator, -1)
        enough = F.size(words) >= 3
        columns = [F.when(enough, F.btrim(words[at], F.lit(_blank))).alias(what)
                   for at, what in enumerate((PLACE, LAT, LON))]  # fmt: skip
        found = _lines(spark, file).select(*columns)
    located = found.select(PLACE, F.col(LAT).try_cast("double").alias(LAT), F.col(LON).try_cast("double").alias(LON))
    least = located.dropna().groupBy(PLACE).agg(F.min(F.struct(LAT, LON)).alias("where"))
    return least.select(PLACE, F.col("where.lat").alias(LAT), F.col("where.lon").alias(LON))


def _opened(spark: SparkSession, file: str, wanted: Wanted, places: DataFrame | None) -> DataFrame:
    """The rows of a file with what was found in them; `shape` is none where the columns can be trusted."""
    head = PARQUET_HEAD if wanted.format == PARQUET else _head(spark, file)
    if wanted.format in (AUTO, PARQUET) and _is_parquet(head):
        frame = _parquet(spark, file, wanted)
    else:
        frame = _text(spark, file, find_layout(head, wanted.format, file, wanted.names), wanted)
    for what, kind in (
        (PLACE, "string"),
        (UNTIL, "timestamp"),
        *(() if wanted.located else ((LAT, "double"), (LON, "double"))),
    ):
        if what not in frame.columns:
            frame = frame.withColumn(what, F.lit(None).cast(kind))
    if LAT in frame.columns and LON in frame.columns:
        return frame.withColumn("missing", F.lit(BAD_COORDINATES))
    if places is None:
        told = f"{file} names places without their coordinates; give the file that has place, lat, lon"
        raise SettingsError("--places", told)
    return frame.drop(LAT, LON).join(places, PLACE, "left").withColumn("missing", F.lit(NO_COORDINATES))


def _text(spark: SparkSession, file: str, layout: Layout, wanted: Wanted) -> DataFrame:
    lines = _lines(spark, file)
    if layout.heading:
        rule = r"^[-+]+$|^\(\d+ rows\)$"  # what database clients draw around a table
        lines = lines.where((F.btrim("row", F.lit(_blank)) != layout.heading.strip(_blank)) & ~F.col("row").rlike(rule))
        fields = ", ".join(f"c{at} string" for at in range(len(layout.columns)))
        options = {"sep": layout.separator, "escape": '"', "columnNameOfCorruptRecord": _corrupt}
        parsed = F.from_csv("row", f"{fields}, {_corrupt} string", options)
        lines = lines.withColumn("parsed", parsed)
        whole: Column = F.col(f"parsed.{_corrupt}").isNull()
        words = [F.col(f"parsed.c{at}") for at in range(len(layout.columns))]
    else:
        lines = lines.withColumn("words", F.split("row", _literally(layout.separator), -1))
        whole = F.size("words") == len(layout.columns)
        words = [F.get("words", F.lit(at)) for at in range(len(layout.columns))]
    found = {what: F.btrim(word, F.lit(_blank)) for what, word in zip(layout.columns, words, strict=True) if what}
    shape = F.when(~whole, F.lit(BAD_COUNT)).alias("shape")
    columns = [_as(what, word, wanted).alias(what) for what, word in found.items()]
    return lines.select("file", "row", shape, *columns)


def _parquet(spark: SparkSession, file: str, wanted: Wanted) -> DataFrame:
    frame = _analysed(lambda: spark.read.parquet(_path(file)), file)
    if wanted.names:
        columns: tuple[str, ...] | None = chosen_columns(frame.columns, wanted.names, file)
    else:
        columns = name_columns(frame.columns)
    if columns is None:
        told = f"its columns are {', '.join(frame.columns)[:200]}; needed are user, time, lat, lon and, if known, place"
        raise SettingsError("", told, source=file)
    fine = nanosecond_columns(file)
    found = []
    for what, name in zip(columns, frame.columns, strict=True):
        if what:
            kind, value = frame.schema[name].dataType, F.col(_quoted(name))
            found.append(_as(what, value, wanted, kind, nanoseconds=name in fine).alias(what))
    shape = F.lit(None).cast("string").alias("shape")
    return frame.select(_file(), F.to_json(F.struct("*")).alias("row"), shape, *found)


def _as(what: str, value: Column, wanted: Wanted, kind: object = None, *, nanoseconds: bool = False) -> Column:
    """A column of a file as the type that ROWS has for it."""
    if what in (LAT, LON):
        return value.try_cast("double")
    if what in (TIME, UNTIL):
        return time_of(value, kind, unit=wanted.unit, nanoseconds=nanoseconds)
    return value.cast("string")


def _judged(frame: DataFrame, wanted: Wanted, now_us: int) -> DataFrame:
    """With `problem`: the first thing that is wrong with a row."""
    seconds = F.col(TIME).cast("double")
    lat, lon = F.col(LAT), F.col(LON)
    problem = (
        F.when(F.col("shape").isNotNull(), F.col("shape"))
        .when(F.coalesce(F.col(USER), F.lit("")) == "", BAD_USER)
        .when(F.col(TIME).isNull(), BAD_TIME)
        .when((seconds < 0) | (seconds > now_us / 1_000_000 + DAY_S), FAR_TIME)
        .when(F.col(UNTIL) < F.col(TIME), EARLY_END)
    )
    if wanted.located:
        unknown = lat.isNull() | lon.isNull() | F.isnan(lat) | F.isnan(lon)
        problem = (
            problem.when(unknown, F.col("missing"))
            .when((F.abs(lat) > 90) | (F.abs(lon) > 180), FAR_COORDINATES)
            .when((lat == 0) & (lon == 0), ZERO_COORDINATES)
        )
    else:
        problem = problem.when(F.coalesce(F.col(PLACE), F.lit("")) == "", NO_PLACE)
    return frame.withColumn("problem", problem).drop("shape", "missing")


def _lines(spark: SparkSession, file: str) -> DataFrame:
    """Lines that are not blank, with the file they are in."""
    lines = spark.read.text(_path(file)).select(_file(), F.col("value").alias("row"))
    return lines.where(F.btrim("row", F.lit(_blank)) != "")


def _head(spark: SparkSession, file: str) -> list[str]:
    if file.endswith(".parquet"):
        return PARQUET_HEAD
    first = _analysed(lambda: spark.read.text(_path(file)).limit(HEAD).collect(), file)
    return [row.value for row in first if row.value.strip(_blank)]


def _analysed(read: Callable[[], Found], file: str) -> Found:
    try:
        return read()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise SettingsError("", "there is no such file", source=file) from None
        raise


def _path(file: str) -> str:
    """A file that is here is meant as it is written; anything else may be a pattern, or lie where Spark finds it."""
    return escaped(Path(file)) if Path(file).exists() else file


def _is_parquet(head: Sequence[str]) -> bool:
    return bool(head) and head[0].startswith(PARQUET_HEAD[0])


def _first(names: Sequence[str], known: Sequence[str]) -> str | None:
    lower = {name.lower(): name for name in names}
    return next((lower[name] for name in known if name in lower), None)


def _file() -> Column:
    return F.col("_metadata.file_name").alias("file")


def _literally(separator: str) -> str:
    """As a regular expression."""
    return f"[{separator}]"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
