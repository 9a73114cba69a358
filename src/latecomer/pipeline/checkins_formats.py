"""Files of check-ins, friends and places as DataFrames: every row as it was read, and what is wrong with it.

Text is read line by line, so that a bad line can be shown as it was; compressed text (.gz, .bz2) as if it were not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType, TimestampNTZType, TimestampType

from latecomer.model.errors import SettingsError
from latecomer.pipeline.checkins_layouts import (
    AUTO,
    FORMATS,
    FRIEND_HEADINGS,
    ISO,
    LAT,
    LON,
    LONG_HAND,
    MILLISECONDS,
    PARQUET,
    PLACE,
    SECONDS,
    TIME,
    USER,
    Layout,
    find_layout,
    name_columns,
)
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
BAD_FRIENDS = "not two users"

Found = TypeVar("Found")
_corrupt = "corrupt"
_months = "JanFebMarAprMayJunJulAugSepOctNovDec"
_blank = " \t\r\ufeff"


def open_rows(
    spark: SparkSession, files: Sequence[str], *, format: str = AUTO, places: str | None = None, now_us: int
) -> DataFrame:
    """All rows of all files, as ROWS. A time more than a day after `now_us` is a wrong clock."""
    if format not in FORMATS:
        raise SettingsError("--format", f"there is no {format!r}; choose from {', '.join(FORMATS)}")
    known = None if places is None else open_places(spark, places)
    found = [_judged(_opened(spark, file, format, known), now_us) for file in files]
    return reduce(DataFrame.unionByName, found).select(*ROWS.fieldNames())


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


def _opened(spark: SparkSession, file: str, format: str, places: DataFrame | None) -> DataFrame:
    """The rows of a file with what was found in them; `shape` is none where the columns can be trusted."""
    head = PARQUET_HEAD if format == PARQUET else _head(spark, file)
    if format in (AUTO, PARQUET) and _is_parquet(head):
        frame = _parquet(spark, file)
    else:
        frame = _text(spark, file, find_layout(head, format, file))
    if LAT in frame.columns and LON in frame.columns:
        return frame.withColumn("missing", F.lit(BAD_COORDINATES))
    if places is None:
        told = f"{file} names places without their coordinates; give the file that has place, lat, lon"
        raise SettingsError("--places", told)
    return frame.drop(LAT, LON).join(places, PLACE, "left").withColumn("missing", F.lit(NO_COORDINATES))


def _text(spark: SparkSession, file: str, layout: Layout) -> DataFrame:
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
    columns = [_as(what, word).alias(what) for what, word in found.items()]
    frame = lines.select("file", "row", shape, *columns)
    return frame if PLACE in found else frame.withColumn(PLACE, F.lit(None).cast("string"))


def _parquet(spark: SparkSession, file: str) -> DataFrame:
    frame = _analysed(lambda: spark.read.parquet(_path(file)), file)
    columns = name_columns(frame.columns)
    if columns is None:
        told = f"its columns are {', '.join(frame.columns)[:200]}; needed are user, time, lat, lon and, if known, place"
        raise SettingsError("", told, source=file)
    found = []
    for what, name in zip(columns, frame.columns, strict=True):
        if what:
            found.append(_as(what, F.col(f"`{name}`"), frame.schema[name].dataType).alias(what))
    if PLACE not in columns:
        found.append(F.lit(None).cast("string").alias(PLACE))
    shape = F.lit(None).cast("string").alias("shape")
    return frame.select(_file(), F.to_json(F.struct("*")).alias("row"), shape, *found)


def _as(what: str, value: Column, kind: object = None) -> Column:
    """A column of a file as the type that ROWS has for it."""
    if what in (LAT, LON):
        return value.try_cast("double")
    if what != TIME:
        return value.cast("string")
    if isinstance(kind, TimestampType | TimestampNTZType):
        return value.cast("timestamp")
    if isinstance(kind, NumericType):
        return F.timestamp_micros((value.cast("decimal(38,6)") * 1_000_000).cast("long"))
    return instant(value if isinstance(kind, StringType) or kind is None else value.cast("string"))


def instant(text: Column) -> Column:
    """A time that is written in one of the ways that are known; none for any other. Without a zone it is UTC."""
    month = F.lpad(((F.instr(F.lit(_months), F.regexp_extract(text, LONG_HAND, 1)) + 2) / 3).cast("int").cast("string"),
                   2, "0")  # fmt: skip
    part = [F.regexp_extract(text, LONG_HAND, at) for at in range(6)]
    assembled = F.concat(part[5], F.lit("-"), month, F.lit("-"), part[2], F.lit("T"), part[3], part[4])
    micros = (text.try_cast("decimal(20,6)") * 1_000_000).cast("long")
    return (
        F.when(text.rlike(ISO), text.try_cast("timestamp"))
        .when(text.rlike(LONG_HAND), assembled.try_cast("timestamp"))
        .when(text.rlike(SECONDS), F.timestamp_micros(micros))
        .when(text.rlike(MILLISECONDS), F.timestamp_millis(text.try_cast("long")))
    )


def _judged(frame: DataFrame, now_us: int) -> DataFrame:
    """With `problem`: the first thing that is wrong with a row."""
    seconds = F.col(TIME).cast("double")
    lat, lon = F.col(LAT), F.col(LON)
    unknown = lat.isNull() | lon.isNull() | F.isnan(lat) | F.isnan(lon)
    problem = (
        F.when(F.col("shape").isNotNull(), F.col("shape"))
        .when(F.col(USER).isNull() | (F.col(USER) == ""), BAD_USER)
        .when(F.col(TIME).isNull(), BAD_TIME)
        .when((seconds < 0) | (seconds > now_us / 1_000_000 + DAY_S), FAR_TIME)
        .when(unknown, F.col("missing"))
        .when((F.abs(lat) > 90) | (F.abs(lon) > 180), FAR_COORDINATES)
        .when((lat == 0) & (lon == 0), ZERO_COORDINATES)
    )
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
