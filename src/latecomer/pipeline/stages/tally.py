"""Rows of the log → how often the same thing was said: all that demand and distances need, in one pass."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from latecomer.model.record import Kind
from latecomer.pipeline.classes import DEPTH_MAX
from latecomer.pipeline.stages.distances import COMPLETE
from latecomer.pipeline.stages.requests import topic_filter

REQUESTED, RECALLED, PUBLISHED = Kind.REQUESTED.value, Kind.RECALLED.value, Kind.PUBLISHED.value
KINDS = (REQUESTED, RECALLED, PUBLISHED)


def tally(judged: DataFrame) -> DataFrame:
    """Requests by filter, answers by filter and distance, publications by topic; the rest, and what is refused, summed.

    `text` is the topic or topic filter, `hops` null where no store answered, `rows` counts records and `times` what
    they stand for.
    """
    sound, kind = f.col("reason").isNull(), f.col("kind")
    told = sound & kind.isin(*KINDS)
    recalled = told & (kind == RECALLED)
    publications = f.when(told & (kind == PUBLISHED), f.greatest("count", f.lit(1))).otherwise(1)
    text = f.when(kind == PUBLISHED, f.col("topic")).otherwise(topic_filter("filter"))
    grouped = judged.groupBy(
        f.coalesce("reason", f.lit("")).alias("reason"),
        f.when(told, kind).otherwise("").alias("kind"),
        f.when(told, f.col("broker")).otherwise("").alias("broker"),
        f.when(told, f.coalesce(text, f.lit(""))).otherwise("").alias("text"),
        f.when(recalled & (f.col("peer") != "") & (f.col("hops") >= 0), f.col("hops")).alias("hops"),
        (~recalled | (f.col("detail") == COMPLETE)).alias("complete"),
    )
    return grouped.agg(
        f.count("*").alias("rows"),
        f.sum(publications).alias("times"),
        f.min("at_us").alias("first_us"),
        f.max("at_us").alias("last_us"),
    ).select("reason", "kind", "broker", "text", "hops", "complete", "rows", "times", "first_us", "last_us")


def class_names(tally: DataFrame, depth: int) -> DataFrame:
    """The classes of so many levels that were published to, or asked for by a filter that fits into one."""
    assert 1 <= depth <= DEPTH_MAX
    published = tally.where(f.col("kind") == PUBLISHED).select(class_of(f.col("text"), depth).alias("class"))
    asked = tally.where(f.col("kind").isin(REQUESTED, RECALLED)).select(own_class("text", depth).alias("class"))
    return published.union(asked).where("class != ''").distinct().select("class")


def class_of(topic: Column, depth: int) -> Column:
    """`classes.class_of` in SQL; nothing for the empty topic, which is none."""
    levels = f.split(topic, "/")
    wide = f.concat(f.array_join(f.slice(levels, 1, depth), "/"), f.lit("/#"))
    return f.when(topic == "", "").when(f.size(levels) < depth, topic).otherwise(wide)


def own_class(column: str, depth: int) -> Column:
    """`classes.own_class` in SQL."""
    levels = f.split(column, "/")
    open = f.element_at(levels, -1) == "#"
    fixed = f.when(open, f.slice(levels, 1, f.size(levels) - 1)).otherwise(levels)
    free = f.array_contains(f.slice(fixed, 1, depth), "+") | (f.size(fixed) == 0) | (open & (f.size(fixed) < depth))
    return f.when(free, "").otherwise(class_of(f.array_join(fixed, "/"), depth))
