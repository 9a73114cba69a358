"""A network's event log → what the overlay planner reads: publication rates, who wants what, and how that changes.

Rates are followed by the exponential filter of DYNATOPS (§III-D, α = 0.3); subscriptions are those at the end.
"""

from __future__ import annotations

import time
from functools import partial

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from latecomer.model.demand import Demand
from latecomer.model.errors import LatecomerError
from latecomer.model.ids import BrokerId, Instant
from latecomer.pipeline.classes import NONE, Classes
from latecomer.pipeline.log import ALWAYS, Log, Window, clipped, read_segments
from latecomer.pipeline.measure import found_classes, retrying
from latecomer.pipeline.stages.publications import publications
from latecomer.pipeline.stages.rates import MICRO, chosen_period_s, counted, filtered, periods_of
from latecomer.pipeline.stages.records import judged, sound, within
from latecomer.pipeline.stages.subscriptions import changes, subscriptions
from latecomer.pipeline.stages.tally import tally


class MeasuredOverlay(msgspec.Struct, frozen=True):
    """What a log says about a ring."""

    demand: Demand
    """Only publications, per second as the filter follows them; topics are classes."""
    subscriptions: dict[BrokerId, tuple[str, ...]]
    """Broker → classes that a client there subscribes to at the end."""
    began: int
    ended: int
    """Subscriptions of clients in the window."""
    window_s: float


def measure_overlay(
    spark: SparkSession, log: Log, classes: Classes, window: Window | None = None, *, now_us: Instant | None = None
) -> MeasuredOverlay:
    """Classes of a depth without filters are found in the log."""
    classes.check()
    now = time.time_ns() // 1000 if now_us is None else now_us
    work = partial(_measured, spark, classes, window or ALWAYS, now)
    found, _, _ = retrying(log, work)
    return found


def _measured(spark: SparkSession, classes: Classes, wanted: Window, now: Instant, log: Log) -> MeasuredOverlay:
    rows = within(judged(read_segments(spark, log.within(wanted)), now), wanted).persist()
    try:
        records = sound(rows)
        seen = records.agg(f.min("at_us").alias("first"), f.max("at_us").alias("last")).collect()[0]
        if seen["first"] is None:
            raise LatecomerError(f"{log.folder}: the log has no records in this window; name another, or wait for some")
        span = clipped(wanted, Window(seen["first"], seen["last"] + 1), log.segments)
        if not classes.filters:
            classes = found_classes(tally(rows), classes.depth)
        changed = subscriptions(changes(records), classes).where(f.col("class") != NONE).collect()
        held: dict[BrokerId, list[str]] = {}
        for row in sorted(changed, key=lambda row: (row["broker"], row["class"])):
            if row["subscribers"]:
                held.setdefault(row["broker"], []).append(row["class"])
        return MeasuredOverlay(
            demand=Demand(classes.filters, {}, _rates(records, classes, span), window_s=span.seconds),
            subscriptions={broker: tuple(names) for broker, names in held.items()},
            began=sum(row["subscribed"] for row in changed),
            ended=sum(row["unsubscribed"] for row in changed),
            window_s=span.seconds,
        )
    finally:
        rows.unpersist()


def _rates(records: DataFrame, classes: Classes, span: Window) -> dict[str, dict[BrokerId, float]]:
    """Class → broker → publications per second after the last period."""
    period_s = chosen_period_s(span.until_us - span.since_us)
    first, last = periods_of(span.since_us, span.until_us - 1, period_s)
    counts = counted(publications(records), "topic", classes, period_s)
    found: dict[str, dict[BrokerId, float]] = {name: {} for name in classes.filters}
    followed = filtered(counts, first, last).where(f.col("class") != NONE)
    for row in followed.orderBy("class", "broker").collect():
        found[row["class"]][row["broker"]] = row["smoothed_micro"] / MICRO / period_s
    return {name: row for name, row in found.items() if row}
