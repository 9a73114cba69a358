"""Visits → transitions → contexts: what is known when a client leaves a place, and which place came next.

`latecomer.model.movement` says what a context is, and asks them the same way as `movement_score` does here.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from latecomer.model.movement import DAY_H, LEVELS, PARTS

HOUR_US = 3_600_000_000
FOLLOWERS_MAX = 32
"""Of a context, the most frequent: more are hardly ever among the first three."""

LEARN, LATE, TUNE, BETWEEN, TEST = "learn", "late", "tune", "between", "test"
LEARNED = (LEARN,)
"""What weights are tuned on top of."""
KNOWN = (LEARN, LATE, TUNE)
"""All that happened before the weeks of the test."""

VISITS = StructType(
    [
        StructField("client", StringType()),
        StructField("place", StringType()),
        StructField("from_us", LongType()),
        StructField("to_us", LongType()),
    ]
)
FOLLOWERS = ArrayType(StructType([StructField("next", StringType()), StructField("times", LongType())]))
CONTEXTS = StructType(
    [
        StructField("level", IntegerType()),
        StructField("client", StringType()),
        StructField("before", StringType()),
        StructField("place", StringType()),
        StructField("band", IntegerType()),
        StructField("total", LongType()),
        StructField("followers", FOLLOWERS),
    ]
)


def transitions(visits: DataFrame, *, moves_only: bool, band_h: int) -> DataFrame:
    """One row for each time that a client turned up after it had been somewhere.

    With `moves_only` only if that is another place; visits in a row to one place are one. `left_us` is when it was
    last seen at `place`, and `band` the hours of the day (UTC) in which that was; `before` is where it was before.
    """
    order = Window.partitionBy("client").orderBy("from_us", "to_us", "place")
    followed = visits.select(
        "client",
        "place",
        "to_us",
        f.lead("place").over(order).alias("next"),
        f.lead("from_us").over(order).alias("came_us"),
        "from_us",
    ).where("next IS NOT NULL")
    if moves_only:
        followed = followed.where("next <> place")
    return followed.select(
        "client",
        f.lag("place").over(order).alias("before"),
        "place",
        # A visit that has not ended, or that overlaps the next one, ends with it.
        f.least(f.coalesce("to_us", "came_us"), "came_us").alias("left_us"),
        "came_us",
        "next",
    ).select(
        "client",
        "before",
        "place",
        f.expr(f"CAST(left_us DIV {HOUR_US} % {DAY_H} DIV {band_h} AS INT)").alias("band"),
        "left_us",
        "came_us",
        "next",
    )


def parted(moves: DataFrame, *, test_us: int, tune_us: int, each: bool) -> DataFrame:
    """The transitions with the `part` of time that they belong to; nothing that is tested or tuned on is learned from.

    The last `test_us` are for the test, the `tune_us` before it for the weights. What began before a part and ended in
    it belongs to neither: it would be predicted with what was not known yet. With `each`, every client has an end of
    its own, for data whose clocks do not agree.
    """
    if each:
        ended = moves.withColumn("end_us", f.max("came_us").over(Window.partitionBy("client")))
    else:
        ended = moves.crossJoin(f.broadcast(moves.agg(f.max("came_us").alias("end_us"))))
    test, tune = f.col("end_us") - test_us, f.col("end_us") - test_us - tune_us
    part = (
        f.when(f.col("left_us") > test, TEST)
        .when(f.col("came_us") > test, BETWEEN)
        .when(f.col("left_us") > tune, TUNE)
        .when(f.col("came_us") > tune, LATE)
        .otherwise(LEARN)
    )
    return ended.select(*moves.columns, part.alias("part"))


def spread(rows: DataFrame, *keep: str) -> DataFrame:
    """Every row once for each level, with what that level knows; where `before` is not known, not for those with it."""
    levels = rows.withColumn("level", f.explode(f.array(*(f.lit(level) for level in range(len(LEVELS))))))
    possible = levels.where(f.col("before").isNotNull() | ~f.col("level").isin(*levels_with("before")))
    return possible.select("level", *known(), *keep)


def known() -> list[Column]:
    """What the level in `level` knows of each part; null for what it does not."""
    return [f.when(f.col("level").isin(*levels_with(part)), f.col(part)).alias(part) for part in PARTS]


def levels_with(part: str) -> list[int]:
    """The levels that know it."""
    return [level for level, parts in enumerate(LEVELS) if part in parts]


def contexts(moves: DataFrame) -> DataFrame:
    """For everything that can be known when a client leaves, how often which place came next."""
    counted = spread(moves, "next").groupBy("level", *PARTS, "next").agg(f.count("*").alias("times"))
    listed = counted.groupBy("level", *PARTS).agg(
        f.sum("times").alias("total"),
        f.collect_list(f.struct((-f.col("times")).alias("rarity"), "next")).alias("all"),
    )
    frequent = f.slice(f.sort_array("all"), 1, FOLLOWERS_MAX)
    followers = f.transform(frequent, lambda one: f.struct(one["next"].alias("next"), (-one["rarity"]).alias("times")))
    return listed.select("level", *PARTS, "total", followers.alias("followers")).select(*CONTEXTS.names)


def asked(moves: DataFrame) -> DataFrame:
    """What was asked, how it came out, and how often both: `times`."""
    return moves.groupBy(*PARTS, "next").agg(f.count("*").alias("times"))


def answered(questions: DataFrame, found: DataFrame, *, moves_only: bool) -> DataFrame:
    """The questions with what each level has to say, as `said`: an array of (total, followers), null for nothing.

    With `moves_only`, levels that do not know where the client is may not say that it goes there.
    """
    keys = [*PARTS, "next", "times"]
    wide = spread(questions.select(*keys, f.struct(*keys).alias("question")), "question")
    same = [wide[name].eqNullSafe(found[name]) for name in ("level", *PARTS)]
    here = f.col("question.place")
    joined = wide.join(found, same, "left").select("question", wide["level"].alias("level"), "total", "followers")
    if moves_only:
        ours = f.col("level").isin(*levels_with("place"))
        there = f.filter("followers", lambda one: one["next"] == here)
        joined = joined.select(
            "question",
            "level",
            f.when(ours | (f.size(there) == 0), f.col("total"))
            .otherwise(f.col("total") - there[0]["times"])
            .alias("total"),
            f.when(ours, f.col("followers"))
            .otherwise(f.filter("followers", lambda one: one["next"] != here))
            .alias("followers"),
        )
    word = f.when(f.size("followers") > 0, f.struct("total", "followers"))
    said = [f.first(f.when(f.col("level") == level, word), ignorenulls=True) for level in range(len(LEVELS))]
    return joined.groupBy("question").agg(f.array(*said).alias("said")).select("question.*", "said")
