"""Rows of the log → counts per period that batches can be added to; and which periods are closed.

A period is closed when all brokers that are known have written past it, or when somebody has written past it by the
grace: who is silent that long has nothing to say. Records that come later are counted in their period all the same,
and whatever follows from the counts is computed from them anew; so the outcome depends on what was written, and not on
when it was read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from latecomer.model.errors import FilterError
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.topics import check_filter
from latecomer.pipeline.classes import NONE, Classes, with_classes
from latecomer.pipeline.stages.rates import SECOND_US, said
from latecomer.pipeline.stages.tally import own_class

KEYS = ("period", "class", "filter", "broker")
SUMS = ("requests", "once", "publications")
PERIODS = StructType(
    [
        StructField("period", LongType()),
        StructField("class", StringType()),
        StructField("filter", StringType()),
        StructField("broker", StringType()),
        *(StructField(name, LongType()) for name in SUMS),
    ]
)
"""`period` is numbered from 1970 on. A request whose classes follow only from those of the whole log is counted by its
`filter`, with no class. `once` is `requests`, where a request for several classes counts in one of them."""
PLAIN = r"^[^+#\x00]+(/#)?$"
"""Legal filters without a wildcard but at the end. What else clients write waits for the rule of MQTT."""
NOTHING = 2.0**-53
"""A weight below it does not show in a number."""


def counted_periods(judged: DataFrame, classes: Classes, period_s: int) -> DataFrame:
    """Requests and publications of the rows that can be used, by period, class and broker."""
    grouped = said(judged.where(f.col("reason").isNull()), period_s)
    if classes.filters:
        with_class = with_classes(grouped, "text", classes).withColumn("filter", f.lit(""))
    else:
        name = f.when(f.col("text").rlike(PLAIN), own_class("text", classes.depth)).otherwise(NONE)
        with_class = grouped.withColumn("class", name).withColumn("first", f.lit(True))
        with_class = with_class.withColumn("filter", f.when(f.col("class") == NONE, f.col("text")).otherwise(""))
    once = f.when(f.col("first"), f.col("requests")).otherwise(0)
    return merged(with_class.withColumn("once", once))


def merged(counts: DataFrame) -> DataFrame:
    """Counts of several batches as one table: what came late stands on lines of its own until then."""
    sums = (f.sum(name).alias(name) for name in SUMS)
    return counts.groupBy(*KEYS).agg(*sums).select(*PERIODS.names)


def classes_counted(counts: DataFrame, classes: Classes) -> tuple[Classes, bool]:
    """The classes that were named, or those of their depth that occur; and whether some lines have none yet."""
    if classes.filters:
        return classes, False
    names = [row["class"] for row in counts.select("class").distinct().collect()]
    return Classes(tuple(sorted(name for name in names if _legal(name))), classes.depth), NONE in names


def resolved(counts: DataFrame, classes: Classes) -> DataFrame:
    """Counts with a class on every line, now that all classes are known; NONE: there is none."""
    found = with_classes(counts.where(f.col("class") == NONE).drop("class"), "filter", classes)
    once = f.when(f.col("first"), f.col("once")).otherwise(0)
    both = counts.where(f.col("class") != NONE).unionByName(found.withColumn("once", once).select(*PERIODS.names))
    return both.withColumn("filter", f.lit(""))


def _legal(name: str) -> bool:
    try:
        check_filter(name)
    except FilterError:
        return False
    return True


# -- which periods are closed


class Seen(msgspec.Struct, frozen=True):
    """What one broker wrote: how much, and from when to when."""

    records: int
    first_us: Instant
    last_us: Instant

    def plus(self, other: Seen) -> Seen:
        first, last = min(self.first_us, other.first_us), max(self.last_us, other.last_us)
        return Seen(self.records + other.records, first, last)


class Span(msgspec.Struct, frozen=True):
    """The whole, closed periods of a log, from the first to the last."""

    first: int
    last: int
    period_s: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    @property
    def until_us(self) -> Instant:
        return (self.last + 1) * self.period_s * SECOND_US


def closed_span(brokers: Mapping[BrokerId, Seen], period_s: int, *, grace_us: int, now_us: Instant) -> Span | None:
    """The closed periods; None: there is none yet.

    None is closed before it is over by the reader's clock: a broker whose own clock is ahead closes nothing.
    """
    if not brokers:
        return None
    length = period_s * SECOND_US
    # A log begins somewhere in a period, which would look poorer than it was.
    first = -(-min(seen.first_us for seen in brokers.values()) // length)
    ends = [min(seen.last_us, now_us) for seen in brokers.values()]
    last = max(min(ends), max(ends) - grace_us) // length - 1
    return Span(first, last, period_s) if last >= first else None


# -- the exponential filter


class Filter(msgspec.Struct, frozen=True):
    """How much each period weighs in what `rates.filtered` makes of them."""

    permille: int

    @property
    def alpha(self) -> float:
        return self.permille / 1000

    def memory(self) -> int:
        """Periods after which one does not show any more."""
        return 1 if self.permille >= 1000 else math.ceil(math.log(NOTHING) / math.log1p(-self.alpha))

    def shown(self, span: Span) -> Span:
        """The periods that show."""
        return Span(max(span.first, span.last - self.memory() + 1), span.last, span.period_s)

    def weights(self, span: Span) -> dict[int, float]:
        """Period → its weight; they add up to 1."""
        shown = self.shown(span)
        found = {p: self.alpha * (1 - self.alpha) ** (span.last - p) for p in range(shown.first, shown.last + 1)}
        found[shown.first] = (1 - self.alpha) ** (span.last - shown.first)
        return found
