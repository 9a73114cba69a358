"""Questions and what the contexts say → places ranked, hits counted.

The arithmetic is that of `model.movement.Movement.predict`, operation by operation, so that a broker that loads the
model ranks as it was measured here. Sums are of whole numbers: they do not depend on the order of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from latecomer.model.movement import BUCKETS, LEVELS, PARTS, SCORE_ONE, SIZES, VARIETIES, WEIGHT_ONE

Weights = tuple[tuple[int, ...], ...]
"""Of each level: for each bucket what a context takes of what is left. A level that is not asked takes nothing."""
EVERYTHING = WEIGHT_ONE - 1
"""What a context takes where nothing is learned: the more general ones only break ties and fill up."""
MICRO = 1_000_000
FLOOR = 1e-4
"""Probability of a place that nobody has heard of."""
TOP = 3


def strict(chain: Sequence[int]) -> Weights:
    """The most particular context that has seen anything decides."""
    return tuple((EVERYTHING if level in chain else 0,) * BUCKETS for level in range(len(LEVELS)))


def bucket_of(total: Column, different: Column) -> Column:
    """`model.movement.bucket` in SQL."""
    size = f.lit(0)
    for number in range(1, SIZES):
        size = size + (total >= 2**number).cast("int")
    variety = f.when(different == 1, 0).when(3 * different < total, 1).when(3 * different < 2 * total, 2).otherwise(3)
    return size * VARIETIES + variety


def _bucket(word: Column) -> Column:
    return bucket_of(word["total"], f.size(word["followers"]))


def weight_of(level: int, row: Sequence[int]) -> Column:
    """What a level's context takes of what is left, by its bucket in the column b<level>; 0 where there is none."""
    if not any(row):
        return f.lit(0.0)
    number = f.col(f"b{level}")
    table = f.array(*(f.lit(weight / WEIGHT_ONE) for weight in row))
    return f.when(number.isNull(), 0.0).otherwise(f.element_at(table, f.coalesce(number, f.lit(0)) + 1))


def taken(weights: Sequence[Column]) -> list[Column]:
    """What each level's context takes of all, if it takes so much of what is left."""
    left: Column = f.lit(1.0)
    found = []
    for weight in weights:
        found.append(left * weight)
        left = left * (f.lit(1.0) - weight)
    return found


# -- what came out


def shares(answers: DataFrame, *keep: str) -> DataFrame:
    """How much of what each level has seen was what came out: `times`, x0, x1, …, and the buckets b0, b1, …"""
    columns = []
    for level in range(len(LEVELS)):
        word = f.col("said")[level]
        hit = f.filter(word["followers"], lambda one: one["next"] == f.col("next"))
        share = f.when(f.size(hit) > 0, hit[0]["times"] / word["total"]).otherwise(0.0)
        columns += [
            f.when(word.isNotNull(), share).alias(f"x{level}"),
            f.when(word.isNotNull(), _bucket(word)).alias(f"b{level}"),
        ]
    return answers.select(*keep, "times", *columns)


# -- asking


def ranked(answers: DataFrame, methods: Mapping[str, Weights]) -> DataFrame:
    """The questions, and as `named` the first places of each method: method → (rarity, place), likeliest first."""
    key = [*PARTS, "next", "times"]
    buckets = (
        f.when(f.col("said")[level].isNotNull(), _bucket(f.col("said")[level])).alias(f"b{level}")
        for level in range(len(LEVELS))
    )
    takes = [f"take{number}" for number in range(len(methods))]
    # Weights are columns of their own before they are multiplied, or the plan would repeat their tables in each product
    weighed = [
        weight_of(level, row).alias(f"{take}_{level}")
        for take, weights in zip(takes, methods.values(), strict=True)
        for level, row in enumerate(weights)
    ]
    shared = (f.array(*taken([f.col(f"{take}_{level}") for level in range(len(LEVELS))])).alias(take) for take in takes)
    placed = answers.select(*key, "said", *buckets).select(*key, "said", *weighed)
    candidates = placed.select(*key, *shared, _candidates(f.col("said")).alias("each"))
    scores = (
        f.sum(f.floor(f.col(take)[f.col("level")] * f.col("seen") / f.col("total") * float(SCORE_ONE))).alias(take)
        for take in takes
    )
    added = candidates.select(*key, *takes, f.inline("each")).groupBy(*key, "candidate").agg(*scores)
    return added.groupBy(*key).agg(f.struct(*map(_first, takes, methods)).alias("named"))


def _candidates(said: Column) -> Column:
    """All that any level has to say, in one array."""

    def told(word: Column, level: Column) -> Column:
        named = f.transform(
            word["followers"],
            lambda one: f.struct(
                level.alias("level"),
                one["next"].alias("candidate"),
                one["times"].alias("seen"),
                word["total"].alias("total"),
            ),
        )
        return f.coalesce(named, f.array().cast(CANDIDATES))

    return f.flatten(f.transform(said, told))


CANDIDATES = "array<struct<level:int,candidate:string,seen:bigint,total:bigint>>"


def _first(score: str, method: str) -> Column:
    """Of equals the first by name, as in the model."""
    all = f.collect_list(f.when(f.col(score) > 0, f.struct((-f.col(score)).alias("rarity"), f.col("candidate"))))
    return f.slice(f.sort_array(all), 1, TOP).alias(method)


# -- counting


def hits(rankings: DataFrame, methods: Sequence[str], *, back: str = "", stay: bool) -> DataFrame:
    """Of each client: how often it was asked for, and how often each method was right with its first, or first three.

    Columns `asked`, and h1_<number>, h3_<number>, told_<number> (the sum of the probabilities that its first had) for
    each method. With `back` one more method goes back to where the client came from, and where that is not known, or
    not enough, goes on with what the method of that name says; with `stay` a last one says "where it is".
    """
    sums = [f.sum("times").alias("asked")]
    for number, method in enumerate(methods):
        named = f.col("named")[method]
        told = f.coalesce(-f.get(named, f.lit(0))["rarity"], f.lit(0))
        places = f.transform(named, lambda one: one["candidate"])
        sums += [*_right(places, number), f.sum(told * f.col("times")).alias(f"told_{number}")]
    more = [*([_returning(back)] if back else []), *([f.array("place")] if stay else [])]
    for number, places in enumerate(more, len(methods)):
        sums += [*_right(places, number), f.lit(0).cast("long").alias(f"told_{number}")]
    return rankings.groupBy("client").agg(*sums)


def _right(places: Column, number: int) -> list[Column]:
    """How often the first of some places, and one of them, was what came next."""
    first = f.coalesce(f.get(places, f.lit(0)) == f.col("next"), f.lit(False))
    among = f.array_contains(places, f.col("next"))
    return [
        f.sum(f.when(first, f.col("times")).otherwise(0)).alias(f"h1_{number}"),
        f.sum(f.when(among, f.col("times")).otherwise(0)).alias(f"h3_{number}"),
    ]


def _returning(method: str) -> Column:
    """Where the client was before, then what this method names."""
    others = f.transform(f.col("named")[method], lambda one: one["candidate"])
    whence = f.filter(f.array("before"), lambda one: one.isNotNull())
    return f.slice(f.array_distinct(f.concat(whence, others)), 1, TOP)
