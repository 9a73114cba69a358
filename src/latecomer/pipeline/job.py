"""The job over a network's event log: segments in, tables and a report out. The only place that names tables.

records → sessions → visits → transitions            (who moves where)
records → hand_overs                                 (sessions that moved, and how long that took)
        → requests → rates → demand → popularity     (who asks for what)
        → answers  → distances, hops                 (how far the stores were)
        → publications, subscriptions, brokers
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from latecomer import __version__
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId, Instant
from latecomer.pipeline.classes import Classes
from latecomer.pipeline.ingest import Kept, ingest, quarantine_of, records_of
from latecomer.pipeline.log import ALWAYS, Window, clipped, segment_names
from latecomer.pipeline.measure import (
    MAX_BAD,
    DistanceTable,
    Measured,
    Sums,
    check_bad,
    found_classes,
    measure,
    measured_demand,
    measured_distance,
)
from latecomer.pipeline.output import Run, opened
from latecomer.pipeline.report import report_page
from latecomer.pipeline.schemas import COLUMNS, QUARANTINE
from latecomer.pipeline.stages.rates import chosen_period_s
from latecomer.pipeline.stages.records import judged, sound, within
from latecomer.pipeline.stages.tally import tally
from latecomer.pipeline.summary import Summary, summarize
from latecomer.pipeline.tables import Tables

__all__ = [
    "Analysis",
    "DistanceTable",
    "Measured",
    "Sums",
    "Wish",
    "analyze",
    "measure",
    "measured_demand",
    "measured_distance",
]

REPORT = "report.html"
SUMMARY = "summary.json"

Tell = Callable[[str], None]


class Wish(msgspec.Struct, frozen=True):
    """What an analysis is asked for."""

    classes: Classes
    window: Window = ALWAYS
    period_s: int = 0
    """0: chosen by the length of the log."""
    brokers: tuple[BrokerId, ...] | None = None
    """All that there are, if that is known."""
    max_bad: float = MAX_BAD

    def check(self) -> None:
        self.classes.check()
        if not 0 <= self.max_bad <= 1:
            raise SettingsError("--max-bad", f"{self.max_bad} is no share; it must be from 0 to 1")
        if self.period_s < 0:
            raise SettingsError("--period", f"{self.period_s} s; it must be at least 1")


class Analysis(msgspec.Struct, frozen=True):
    """What was found, and where it stands."""

    summary: Summary
    path: Path
    """The folder of the run."""
    segments_new: int
    """Segments that were not read by an earlier run."""
    segments_gone: tuple[str, ...]
    """Segments that were removed before they could be read."""


def analyze(
    spark: SparkSession,
    folder: Path,
    out: Path,
    wish: Wish,
    *,
    now_us: Instant | None = None,
    tell: Tell = lambda _: None,
) -> Analysis:
    """Take in what is new in a log, and compute all tables anew."""
    wish.check()
    list(segment_names(folder))  # a folder that is none is told before anything is made
    now = time.time_ns() // 1000 if now_us is None else now_us
    with opened(out) as output:
        tell("new segments")
        kept = ingest(spark, output, folder, max_bad=wish.max_bad, now_us=now)
        about = sorted((segment.name, segment.bytes) for segment in kept.segments)
        with output.run(__version__, about, kept.damaged, wish) as run:
            summary = _compute(spark, out, run, kept, wish, now, tell)
        return Analysis(summary, run.path, kept.new, kept.gone)


def _compute(spark: SparkSession, out: Path, run: Run, kept: Kept, wish: Wish, now: Instant, tell: Tell) -> Summary:
    rows = within(judged(records_of(spark, out, kept), now, wish.brokers), wish.window)
    tell("topic classes")
    with _persisted(tally(rows)) as counted_rows:
        strangers, span = _seen(counted_rows, wish.window, kept)
        classes = wish.classes if wish.classes.filters else found_classes(counted_rows, wish.classes.depth)
    if span is None:
        raise LatecomerError(f"{out}: the log has no records in this window; name another, or wait for some")
    check_bad(strangers, strangers + kept.rows, wish.max_bad, "rows", "an unknown broker", "see --network")
    period_s = wish.period_s or chosen_period_s(span.until_us - span.since_us)
    tables = Tables(spark, run, sound(rows), classes, span, period_s, tell)
    tables.write_all(wish.brokers)
    tell("quarantine")
    outside = rows.where("reason IS NOT NULL").select(f.lit(None).cast("string").alias("segment"), "reason", *COLUMNS)
    run.write(quarantine_of(spark, out, kept).union(outside), "quarantine", sort=QUARANTINE.names)
    tell("report")
    summary = summarize(run.place, run.id, kept, classes, span, period_s, strangers)
    run.text(SUMMARY, msgspec.json.format(msgspec.json.encode(summary)).decode() + "\n")
    run.text(REPORT, report_page(run.place, summary))
    return summary


@contextmanager
def _persisted(table: DataFrame) -> Iterator[DataFrame]:
    table = table.persist()
    try:
        yield table
    finally:
        table.unpersist()


def _seen(counted: DataFrame, window: Window, kept: Kept) -> tuple[int, Window | None]:
    """Rows of brokers that there are not, and the window as far as the log goes; None: there is nothing in it."""
    told = counted.groupBy((f.col("reason") == "").alias("sound")).agg(
        f.sum("rows").alias("rows"), f.min("first_us").alias("first_us"), f.max("last_us").alias("last_us")
    )
    found = {row["sound"]: row for row in told.collect()}
    strangers = int(found[False]["rows"]) if False in found else 0
    if True not in found:
        return strangers, None
    seen = Window(found[True]["first_us"], found[True]["last_us"] + 1)
    return strangers, clipped(window, seen, kept.segments)
