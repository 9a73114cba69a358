"""A network's event log → the demand and the distances that were measured, for those who plan and compare.

Theory of operation. One pass over the log makes a tally; everything else is computed from it. If Spark cannot read a
segment, all are looked at, and the pass is made again without those that are damaged or gone, until it succeeds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from latecomer.model.demand import Demand
from latecomer.model.errors import FilterError, LatecomerError, SettingsError
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.topics import check_filter
from latecomer.pipeline.classes import CLASSES_MAX, NONE, Classes, with_classes
from latecomer.pipeline.log import ALWAYS, Damaged, Log, Window, clipped, examine, read_segments
from latecomer.pipeline.stages.records import judged, within
from latecomer.pipeline.stages.tally import RECALLED, REQUESTED, class_names, tally

MAX_BAD = 0.05
FEW = 20
"""Rows or segments below which a share says nothing: then only all of them are too many."""

BATCH_ROWS = 65_536
T = TypeVar("T")


class DoubtError(LatecomerError):
    """What was read cannot be all that is there."""


class Sums(msgspec.Struct, frozen=True):
    """Requests that came to their end, and how far their stores were."""

    served: int = 0
    unserved: int = 0
    """No store answered."""
    incomplete: int = 0
    """What came was not all."""
    hops_sum: int = 0
    hops_squares: int = 0

    @property
    def hops_mean(self) -> float:
        return self.hops_sum / self.served if self.served else math.nan

    @property
    def hops_error(self) -> float:
        """Standard error of the mean."""
        if self.served < 2:
            return math.nan
        # Whole numbers until the last step: a difference of large sums loses nothing.
        spread = self.served * self.hops_squares - self.hops_sum**2
        return math.sqrt(spread / self.served**2 / (self.served - 1))

    def plus(self, other: Sums) -> Sums:
        return Sums(*(mine + its for mine, its in zip(_numbers(self), _numbers(other), strict=True)))


class DistanceTable(msgspec.Struct, frozen=True):
    """How far the stores were that answered, by class and broker; and all together, each request once."""

    by_class: dict[str, dict[BrokerId, Sums]]
    total: Sums

    def of_class(self, name: str) -> Sums:
        found = Sums()
        for sums in self.by_class.get(name, {}).values():
            found = found.plus(sums)
        return found


class Measured(msgspec.Struct, frozen=True):
    """What a log says, and what of it could not be used."""

    demand: Demand
    distances: DistanceTable
    window: Window
    """What was measured: the window that was asked for, as far as the log goes."""
    rows: int
    refused: dict[str, int]
    """Rows that could not be used, by reason."""
    unclassified: int
    """Requests for topics of no class."""
    damaged: tuple[Damaged, ...] = ()
    gone: tuple[str, ...] = ()
    """Segments that were removed while the log was read."""


def measured_demand(
    spark: SparkSession, log: Log, classes: Classes, window: Window | None = None, **more: Any
) -> Demand:
    """Requests and publications per second by topic class and broker."""
    return measure(spark, log, classes, window, **more).demand


def measured_distance(
    spark: SparkSession, log: Log, classes: Classes, window: Window | None = None, **more: Any
) -> DistanceTable:
    """How far requests had to go for an answer."""
    return measure(spark, log, classes, window, **more).distances


def measure(
    spark: SparkSession,
    log: Log,
    classes: Classes,
    window: Window | None = None,
    *,
    brokers: Collection[BrokerId] | None = None,
    max_bad: float = MAX_BAD,
    now_us: Instant | None = None,
) -> Measured:
    """What a plan is made from and compared with. Classes of a depth without filters are found in the log."""
    classes.check()
    wanted = window or ALWAYS
    now = time.time_ns() // 1000 if now_us is None else now_us

    def count(log: Log) -> Measured:
        rows = within(judged(read_segments(spark, log.within(wanted)), now, brokers), wanted)
        counted = tally(rows).persist()
        try:
            found = _measured(counted, classes, wanted, log)
        finally:
            counted.unpersist()
        if wanted == ALWAYS and found.rows != log.rows:
            raise DoubtError(f"{log.folder}: {log.rows:,} rows became {found.rows:,}; read the log again")
        return found

    told, sound, gone = retrying(log, count)
    found = msgspec.structs.replace(told, damaged=sound.damaged, gone=tuple(gone))
    if not found.rows:
        raise LatecomerError(f"{log.folder}: the log has no records in this window; name another, or wait for some")
    check_bad(sum(found.refused.values()), found.rows, max_bad, "rows", common(found.refused))
    check_bad(len(sound.damaged), len(sound.damaged) + len(sound.segments), max_bad, "segments", which(sound.damaged))
    return found


def retrying(log: Log, work: Callable[[Log], T]) -> tuple[T, Log, list[str]]:
    """What `work` makes of the log, and the log without the segments that had to be left out; and which were gone."""
    gone: list[str] = []
    while True:
        try:
            return work(log), log, gone
        except (PySparkException, Py4JError, DoubtError):
            sound, vanished = examine(log)
            if len(sound.segments) == len(log.segments):
                raise
            log = sound
            gone += vanished


def check_bad(bad: int, all: int, max_bad: float, what: str, why: str, where: str = "") -> None:
    """Raise a LatecomerError that says so when too many are bad."""
    if bad and (bad == all or (all >= FEW and bad > max_bad * all)):
        told = f"{bad:,} of {all:,} {what} cannot be used ({why}), more than the {max_bad:.0%} of --max-bad"
        raise LatecomerError(f"{told}; {where or 'analyze the log to see them'}, and repair the log or raise --max-bad")


def found_classes(counted: DataFrame, depth: int) -> Classes:
    """The classes of so many levels that occur."""
    names = [row["class"] for row in class_names(counted, depth).limit(CLASSES_MAX + 1).collect()]
    if len(names) > CLASSES_MAX:
        told = f"{depth} levels make more than {CLASSES_MAX:,} classes; use fewer levels"
        raise SettingsError("--depth", told)
    return Classes(tuple(sorted(name for name in names if _legal(name))), depth)


# -- from the tally


def _measured(counted: DataFrame, classes: Classes, wanted: Window, log: Log) -> Measured:
    told = counted.groupBy("reason").agg(
        f.sum("rows").alias("rows"), f.min("first_us").alias("first_us"), f.max("last_us").alias("last_us")
    )
    reasons = {row["reason"]: row for row in told.collect()}
    refused = {reason: int(row["rows"]) for reason, row in sorted(reasons.items()) if reason}
    sound = reasons.get("")
    if not classes.filters:
        classes = found_classes(counted, classes.depth)
    seen = Window(0, 0) if sound is None else Window(sound["first_us"], sound["last_us"] + 1)
    window = clipped(wanted, seen, log.segments)
    found = _sums(counted, classes)
    demand = Demand(
        topics=classes.filters,
        rates=_rates(found.requests, classes, window),
        publications=_rates(found.publications, classes, window),
        window_s=window.seconds,
        requests=found.once,
    )
    rows = sum(refused.values()) + (0 if sound is None else int(sound["rows"]))
    return Measured(demand, _distances(found, classes), window, rows, refused, found.unclassified)


@dataclass(slots=True)
class _Sums:
    """By class and broker."""

    requests: dict[str, dict[BrokerId, int]] = field(default_factory=dict)
    publications: dict[str, dict[BrokerId, int]] = field(default_factory=dict)
    answers: dict[str, dict[BrokerId, Sums]] = field(default_factory=dict)
    total: Sums = field(default_factory=Sums)
    once: int = 0
    unclassified: int = 0

    def take(self, kind: str, name: str, broker: BrokerId, first: bool, rows: int, times: int, sums: Sums) -> None:
        if name == NONE:
            self.unclassified += rows if kind == REQUESTED else 0
        elif kind == RECALLED:
            row = self.answers.setdefault(name, {})
            row[broker] = sums.plus(row.get(broker, Sums()))
            self.total = self.total.plus(sums) if first else self.total
        else:
            counts = self.requests if kind == REQUESTED else self.publications
            row_ = counts.setdefault(name, {})
            row_[broker] = row_.get(broker, 0) + times
            self.once += rows if first and kind == REQUESTED else 0


def _sums(counted: DataFrame, classes: Classes) -> _Sums:
    """All in one query; the answer has a few rows for each class and broker, as a demand has."""
    rows, far = f.col("rows"), f.coalesce("hops", f.lit(0)).cast("long")
    served = f.col("hops").isNotNull()
    grouped = with_classes(counted.where("kind != ''"), "text", classes).groupBy("kind", "class", "broker", "first")
    table = grouped.agg(
        f.sum(rows),
        f.sum("times"),
        f.sum(f.when(served, rows).otherwise(0)),
        f.sum(f.when(~served, rows).otherwise(0)),
        f.sum(f.when(~f.col("complete"), rows).otherwise(0)),
        f.sum(rows * far),
        f.sum(rows * far * far),
    ).toArrow()
    found = _Sums()
    for batch in table.to_batches(BATCH_ROWS):
        for kind, name, broker, first, count, times, *sums in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            found.take(kind, name, broker, first, count, times, Sums(*sums))
    return found


def _rates(
    counts: dict[str, dict[BrokerId, int]], classes: Classes, window: Window
) -> dict[str, dict[BrokerId, float]]:
    seconds = window.seconds
    return {
        name: {broker: times / seconds for broker, times in sorted(counts[name].items())}
        for name in classes.filters
        if name in counts
    }


def _distances(found: _Sums, classes: Classes) -> DistanceTable:
    answers = found.answers
    ordered = {name: dict(sorted(answers[name].items())) for name in classes.filters if name in answers}
    return DistanceTable(ordered, found.total)


def _numbers(sums: Sums) -> tuple[int, ...]:
    return tuple(getattr(sums, name) for name in Sums.__struct_fields__)


def common(refused: dict[str, int]) -> str:
    """The reasons that occur most, in words."""
    return ", ".join(f"{count:,} with {reason}" for reason, count in sorted(refused.items(), key=lambda p: -p[1])[:3])


def which(damaged: tuple[Damaged, ...]) -> str:
    """The first of them, in words."""
    return f"the first is {damaged[0].name}: {damaged[0].reason}" if damaged else ""


def _legal(name: str) -> bool:
    try:
        check_filter(name)
    except FilterError:
        return False
    return True
