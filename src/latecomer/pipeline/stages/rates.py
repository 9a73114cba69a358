"""Counts per period, and the exponential filter that follows a rate (DYNATOPS §4: α = 0.3).

The filter is arithmetic of whole numbers, in millionths of an event per period, so that batch and stream agree to the
last digit in whatever order the counts come together. The first period of the log is taken as it is; whoever comes
later begins at zero.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from latecomer.model.ids import Instant
from latecomer.pipeline.classes import Classes, with_classes
from latecomer.pipeline.stages.requests import topic_filter
from latecomer.pipeline.stages.tally import PUBLISHED, REQUESTED

ALPHA_PERMILLE = 300
MICRO = 1_000_000
SECOND_US = 1_000_000
COUNTS = ("requests", "once", "publications")
PERIODS_S = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400)
PERIODS_MOST = 200
"""A period is chosen so that there are not more, if it can be."""


def chosen_period_s(span_us: int) -> int:
    """The shortest usual period of which a log does not have too many."""
    return next((s for s in PERIODS_S if span_us <= s * SECOND_US * PERIODS_MOST), PERIODS_S[-1])


def smoothed(before: int, count: int, permille: int = ALPHA_PERMILLE) -> int:
    """The filter's next value after a period with so many events; both values in millionths per period."""
    return (permille * count * MICRO + (1000 - permille) * before + 500) // 1000


def period_of(at_us: str, period_s: int) -> Column:
    """Periods are numbered from 1970 on, so that every log has the same ones."""
    return f.call_function("div", f.col(at_us), f.lit(period_s * SECOND_US))


def counted(events: DataFrame, column: str, classes: Classes, period_s: int) -> DataFrame:
    """How often each class occurred at each broker in each period; `events` have an instant, a broker and `times`.

    `once` counts what belongs to several classes only in one of them.
    """
    grouped = events.groupBy("broker", column, period_of("at_us", period_s).alias("period")).agg(
        f.sum("times").alias("n")
    )
    once = f.sum(f.when(f.col("first"), f.col("n")).otherwise(0))
    summed = with_classes(grouped, column, classes).groupBy("class", "broker", "period")
    return summed.agg(f.sum("n").alias("times"), once.alias("once")).select(
        "class", "broker", "period", "times", "once"
    )


def said(records: DataFrame, period_s: int) -> DataFrame:
    """How often each filter was asked for and each topic published to (`text`), by period and broker: in one pass."""
    published = f.col("kind") == PUBLISHED
    text = f.coalesce(f.when(published, f.col("topic")).otherwise(topic_filter("filter")), f.lit(""))
    times = f.greatest(f.coalesce("count", f.lit(0).cast("long")), f.lit(1).cast("long"))
    rows = records.where(f.col("kind").isin(REQUESTED, PUBLISHED))
    return rows.groupBy(period_of("at_us", period_s).alias("period"), text.alias("text"), "broker").agg(
        f.sum(f.when(published, 0).otherwise(1)).alias("requests"),
        f.sum(f.when(published, times).otherwise(0)).alias("publications"),
    )


def rates(records: DataFrame, classes: Classes, period_s: int) -> DataFrame:
    """Requests and publications by class, broker and period; `begin_us` is when the period began.

    `once` counts requests for several classes only in one of them.
    """
    once = f.when(f.col("first"), f.col("requests")).otherwise(0)
    classed = with_classes(said(records, period_s), "text", classes).withColumn("once", once)
    totals = classed.groupBy("class", "broker", "period").agg(*(f.sum(name).alias(name) for name in COUNTS))
    begin = (f.col("period") * (period_s * SECOND_US)).alias("begin_us")
    return totals.select("class", "broker", begin, *COUNTS)


def counts_of(rates: DataFrame, column: str, period_s: int) -> DataFrame:
    """One of the counts of a table of rates, as `filtered` wants it."""
    period = period_of("begin_us", period_s).alias("period")
    return rates.where(f.col(column) > 0).select("class", "broker", period, f.col(column).alias("times"), "once")


def filtered(counts: DataFrame, first: int, last: int, *, permille: int = ALPHA_PERMILLE) -> DataFrame:
    """The filter after the last period; `counts` as from `counted`, periods without any being zero."""
    entries = f.map_from_entries(f.collect_list(f.struct("period", "times")))
    sums = [f.sum(name).alias(name) for name in ("times", "once") if name in counts.columns]
    grouped = counts.groupBy("class", "broker").agg(entries.alias("by_period"), *sums)
    start = f.lit(-1).cast("long")

    def step(before: Column, period: Column) -> Column:
        count = f.coalesce(f.try_element_at("by_period", period), f.lit(0).cast("long"))
        raised = f.lit(permille * MICRO) * count + f.lit(1000 - permille) * before + f.lit(500)
        return f.when(before < 0, count * MICRO).otherwise(f.call_function("div", raised, f.lit(1000)))

    periods = f.sequence(f.lit(first).cast("long"), f.lit(last).cast("long"))
    followed = f.aggregate(periods, start, step).alias("smoothed_micro")
    return grouped.select("class", "broker", *(name for name in grouped.columns if name in ("times", "once")), followed)


def periods_of(first_us: Instant, last_us: Instant, period_s: int) -> tuple[int, int]:
    """The numbers of the first and the last period."""
    return first_us // (period_s * SECOND_US), last_us // (period_s * SECOND_US)
