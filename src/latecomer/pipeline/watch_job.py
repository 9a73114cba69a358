"""A log that grows → demand that is current: Structured Streaming over the names of its segments.

Theory of operation. Spark's file source finds the segments, and its checkpoint says which of them belong to which
batch. What is in them is read as the jobs read it that look at a whole log: a segment that is damaged, foreign or gone
is told as such, and stops nothing. A batch leaves its counts under its number (`watch_state`); whoever watches looks at
what is there and computes the rest from it. So where Spark counts does not matter, and being killed neither.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

import msgspec
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from latecomer.eventlog.errors import EventLogError
from latecomer.model.demand import Demand, write_demand
from latecomer.model.errors import LatecomerError
from latecomer.model.ids import BrokerId, Instant
from latecomer.pipeline.classes import NONE, Classes
from latecomer.pipeline.failure import first_line
from latecomer.pipeline.log import PLACES, Damaged, Log, Segment, read_segments, segment_names, survey
from latecomer.pipeline.measure import retrying
from latecomer.pipeline.output import escaped
from latecomer.pipeline.schemas import QUARANTINE, RECORDS
from latecomer.pipeline.session import java_pid
from latecomer.pipeline.stages.periods import (
    SUMS,
    Filter,
    Seen,
    Span,
    classes_counted,
    closed_span,
    counted_periods,
    merged,
    resolved,
)
from latecomer.pipeline.stages.rates import MICRO, filtered
from latecomer.pipeline.stages.records import judged, refused
from latecomer.pipeline.stages.tally import REQUESTED
from latecomer.pipeline.watch_state import DEMAND, JAVA, Batch, Options, State

SOURCE = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"
FOREVER = "36500d"
"""Spark forgets, and from then on ignores, files that are so much older than the newest one; a segment that was
written under a wrong clock must not make it forget the others."""
LISTED_HERE = "spark.sql.sources.parallelPartitionDiscovery.threshold"
"""Folders from which on Spark lists them by a job of its own, with one task for each."""
PAUSE_S = 0.1
STOP_S = 15.0
FOLD_AT = 64
"""Batches that stand beside one another before they are folded."""
_PATTERNS = tuple(PurePosixPath(place).parts for place in PLACES)
_PROBLEM = re.compile(r"BatchError: (.*)")


class BatchError(LatecomerError):
    """A batch could not be counted; it will be handed over again."""


class Wish(msgspec.Struct, frozen=True):
    """What is watched."""

    folder: Path
    classes: Classes
    period_s: int = 600
    permille: int = 300
    """α of the filter, in thousandths."""
    grace_us: int = 600_000_000
    """Who is silent for so long after a period has nothing to say about it."""
    segments: int = 64
    """At most so many make a batch."""
    every_s: float = 2.0
    """The folder is looked at so often."""

    def options(self) -> Options:
        return Options(str(self.folder), self.classes, self.period_s)


class Glance(msgspec.Struct, frozen=True):
    """What is known after a batch."""

    total: Batch
    span: Span | None = None
    """Closed periods; None: there is none yet."""
    demand: Demand | None = None
    unclassified: int = 0
    """Requests for topics of no class."""


# -- counting a batch


class Counter(msgspec.Struct, frozen=True):
    """Counts a batch of segments; Spark calls it."""

    state: State
    wish: Wish

    def __call__(self, paths: DataFrame, id: int) -> None:
        try:
            if not self.state.there(id):
                self._count(paths, id)
        except Exception as error:
            # What Java says is long, and Spark looks through it with an expression that long texts overflow.
            raise BatchError(first_line(error)[:500]) from None

    def _count(self, paths: DataFrame, id: int) -> None:
        spark, now_us = paths.sparkSession, time.time_ns() // 1000
        names = sorted(name for row in paths.collect() if (name := name_of(self.wish.folder, row["path"])) is not None)
        surveyed = {name: survey(self.wish.folder, name) for name in names}
        segments = tuple(one for one in surveyed.values() if isinstance(one, Segment))
        damaged = tuple(one for one in surveyed.values() if isinstance(one, Damaged))
        empty = tuple(self._empty())
        if names or empty:
            log, listed = Log(self.wish.folder, segments, (*damaged, *empty)), len(names) + len(empty)
            retrying(log, lambda left: self._take(spark, left, id, listed, now_us))

    def _take(self, spark: SparkSession, log: Log, id: int, listed: int, now_us: Instant) -> None:
        rows = judged(read_segments(spark, log), now_us)
        brokers, reasons, requests = _seen(rows) if log.segments else ({}, {}, 0)
        batch = Batch(
            id=id,
            segments=len(log.segments),
            rows=log.rows,
            requests=requests,
            brokers=brokers,
            refused=reasons,
            damaged={one.name: one.reason for one in log.damaged},
            gone=listed - len(log.segments) - len(log.damaged),
        )
        lines = [(one.name, one.reason, *[None] * len(RECORDS)) for one in log.damaged]
        bad = refused(rows).union(spark.createDataFrame(lines, QUARANTINE)) if lines or reasons else None
        counts = counted_periods(rows, self.wish.classes, self.wish.period_s) if log.segments else None
        self.state.put(batch, counts, bad)

    def _empty(self) -> Iterator[Damaged]:
        """Files without a byte, which Spark does not hand over."""
        known = self.state.total_now().damaged
        with suppress(OSError, EventLogError):  # the log may be gone for a moment, and what was in it
            for name in segment_names(self.wish.folder):
                if name not in known and not os.stat(self.wish.folder / name).st_size:
                    yield Damaged(name, 0, "damaged: the file is empty")


def name_of(folder: Path, path: str) -> str | None:
    """The name below the log's folder of what Spark found; None where no segment can be."""
    local = Path(path.removeprefix("file:"))
    name = PurePosixPath(os.path.relpath(local, folder))
    parts = name.parent.parts
    for pattern in _PATTERNS:
        if len(pattern) == len(parts) and all(p in ("*", part) for p, part in zip(pattern, parts, strict=True)):
            return str(name)
    return None


def _seen(rows: DataFrame) -> tuple[dict[BrokerId, Seen], dict[str, int], int]:
    """Which brokers wrote, why rows are refused, and how many are requests."""
    sound = f.col("reason").isNull()
    table = rows.groupBy(f.when(sound, f.col("broker")).alias("broker"), "reason").agg(
        f.count("*").alias("rows"),
        f.min("at_us").alias("first_us"),
        f.max("at_us").alias("last_us"),
        f.sum(f.when(f.col("kind") == REQUESTED, 1).otherwise(0)).alias("requests"),
    )
    found = table.collect()
    brokers = {r["broker"]: Seen(r["rows"], r["first_us"], r["last_us"]) for r in found if r["reason"] is None}
    reasons = {r["reason"]: int(r["rows"]) for r in found if r["reason"] is not None}
    requests = sum(int(r["requests"]) for r in found if r["reason"] is None)
    return dict(sorted(brokers.items())), dict(sorted(reasons.items())), requests


# -- what follows from the counts


def glance(spark: SparkSession, state: State, wish: Wish, now_us: Instant | None = None) -> Glance:
    """Look at all that was counted, and write the demand that follows from it."""
    folders = state.folders()
    total = state.total(folders)
    now = time.time_ns() // 1000 if now_us is None else now_us
    span = closed_span(total.brokers, wish.period_s, grace_us=wish.grace_us, now_us=now)
    if span is None:
        return Glance(total)
    counts = state.counts(spark, folders)
    classes, open_lines = classes_counted(counts, wish.classes)
    table = merged(resolved(counts, classes) if open_lines else counts).persist()
    try:
        none = (f.col("class") == NONE).alias("none")
        each = table.groupBy("period", none).agg(*(f.sum(name).alias(name) for name in SUMS)).collect()
        known = [row for row in each if not row["none"]]
        demand = _demand(table.where(~none), known, classes, wish, span) if classes.filters else None
    finally:
        table.unpersist()
    if demand is not None:
        state.say(DEMAND, write_demand(demand))
    return Glance(total, span, demand, sum(row["requests"] for row in each if row["none"]))


def _demand(table: DataFrame, each: list[Row], classes: Classes, wish: Wish, span: Span) -> Demand:
    """The filtered rates, and the evidence: as many periods of equal weight, and requests, as would be as certain."""
    by = Filter(wish.permille)
    weights, once = by.weights(span), {row["period"]: row["once"] for row in each}
    first = sum(weight * once.get(period, 0) for period, weight in weights.items())
    second = sum(weight**2 * once.get(period, 0) for period, weight in weights.items())
    return Demand(
        topics=classes.filters,
        rates=_rates(table, "requests", by, span, classes),
        publications=_rates(table, "publications", by, span, classes) if any(r["publications"] for r in each) else {},
        window_s=wish.period_s / sum(weight**2 for weight in weights.values()),
        requests=int(first**2 / second) if second else 0,
    )


def _rates(table: DataFrame, what: str, by: Filter, span: Span, classes: Classes) -> dict[str, dict[BrokerId, float]]:
    """One number for each class and broker, as a demand has."""
    shown = by.shown(span)
    inside = table.where(f.col("period").between(shown.first, shown.last) & (f.col(what) > 0))
    times = inside.select("class", "broker", "period", f.col(what).alias("times"))
    micro = filtered(times, shown.first, shown.last, permille=by.permille).select("class", "broker", "smoothed_micro")
    found: dict[str, dict[BrokerId, float]] = {}
    columns = (column.to_pylist() for column in micro.orderBy("class", "broker").toArrow().columns)
    for name, broker, rate in zip(*columns, strict=True):
        found.setdefault(name, {})[broker] = rate / MICRO / span.period_s
    return {name: found[name] for name in classes.filters if name in found}


# -- the stream


def watch(
    spark: SparkSession,
    state: State,
    wish: Wish,
    *,
    once: bool = False,
    ended: Callable[[], bool] = lambda: False,
) -> Iterator[Glance]:
    """Count what is there and what comes, and say what is known after every batch; `once`: only what is there."""
    if (pid := java_pid(spark)) is not None:
        state.say(JAVA, str(pid))
    query = _started(spark, state, wish, once=once)
    known: list[Path] | None = None  # the first look is at what a watch that was killed has counted, and not told
    try:
        while True:
            going = query.isActive
            last = not going or ended()
            if last:
                _stop(query)
            if state.folders() != known:
                state.fold(spark, FOLD_AT)
                known = state.folders()
                yield glance(spark, state, wish)
            if last:
                break
            time.sleep(PAUSE_S)
        _check(query, stopped=going)
    finally:
        with suppress(Exception):
            query.stop()
            state.unsay(JAVA)  # it may live on, but not for this watch


def await_folder(folder: Path, ended: Callable[[], bool], tell: Callable[[str], None]) -> bool:
    """Wait until the log's folder is there; False: it was not until the end."""
    if folder.is_dir():
        return True
    if folder.exists():
        raise EventLogError(f"{folder}: is not a folder; name the folder of an event log")
    tell(f"{folder} does not exist yet; waiting for it")
    while not ended():
        if folder.is_dir():
            return True
        time.sleep(PAUSE_S)
    return False


def _started(spark: SparkSession, state: State, wish: Wish, *, once: bool) -> StreamingQuery:
    spark.conf.set(LISTED_HERE, "1000000")
    reader = spark.readStream.format("binaryFile").schema(SOURCE).option("pathGlobFilter", "*.parquet")
    reader = reader.option("recursiveFileLookup", "true").option("maxFileAge", FOREVER)
    paths = reader.option("maxFilesPerTrigger", wish.segments).load(escaped(wish.folder)).select("path")
    writer = paths.writeStream.foreachBatch(Counter(state, wish))
    writer = writer.option("checkpointLocation", state.checkpoint.as_uri())
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(wish.every_s * 1000)} milliseconds").start()


def _stop(query: StreamingQuery) -> None:
    """After the batch that is being counted, if that does not take long."""
    until = time.monotonic() + STOP_S
    with suppress(Exception):
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until:
            time.sleep(PAUSE_S)
        query.stop()


def _check(query: StreamingQuery, *, stopped: bool) -> None:
    """A stream that ended by itself says why."""
    error = None if stopped else query.exception()
    if error is None:
        return
    if problem := _PROBLEM.search(str(error)):
        raise LatecomerError(f"the stream stopped: {problem[1]}; start it again, and it goes on where it was")
    told = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    raise LatecomerError(
        f"Spark does not go on: {told[:300]}; start it again, and if it stops again, name a new --state: after a few "
        f"periods the demand is the same"
    )
