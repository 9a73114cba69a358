"""An analysis in numbers: what `latecomer analyze --json` prints, and the report begins with."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq

from latecomer.pipeline.classes import NONE, Classes
from latecomer.pipeline.ingest import Kept
from latecomer.pipeline.log import Damaged, Window
from latecomer.pipeline.measure import Sums
from latecomer.pipeline.stages.zipf import Fit, fit

HOUR_S = 3600.0


class Summary(msgspec.Struct, frozen=True):
    """The same log and the same wishes give the same summary."""

    run: str
    since_us: int
    until_us: int
    window_s: float
    period_s: int
    segments: int
    segments_damaged: tuple[Damaged, ...]
    rows: int
    """Of all segments that could be read, also outside the window."""
    quarantined: int
    quarantined_by_reason: dict[str, int]
    brokers: int
    classes: int
    overlapping: tuple[str, ...]
    """Two classes that share topics: what is asked for there counts in both."""
    requests: int
    unclassified: int
    """Of the requests, those for topics of no class."""
    publications: int
    popularity: Fit | None
    locality: Fit | None
    served: int
    unserved: int
    incomplete: int
    hops_mean: float | None
    hops_error: float | None
    subscribed: int
    unsubscribed: int
    churn_per_hour: float
    """Subscriptions that began or ended."""
    sessions: int
    visits: int
    moves: int


Place = Callable[[str], Path]


def summarize(
    place: Place, run: str, kept: Kept, classes: Classes, window: Window, period_s: int, strangers: int
) -> Summary:
    """From the tables where they stand; all but the largest of their columns fit into memory."""
    popularity = read(place("popularity"), "requests", "brokers")
    changes = read(place("timeline"), "subscribed", "unsubscribed", "requests", "publications")
    began, ended = total(changes, "subscribed"), total(changes, "unsubscribed")
    sums = answered(place)
    reasons = kept.refused | ({"an unknown broker": strangers} if strangers else {})
    return Summary(
        run=run,
        since_us=window.since_us,
        until_us=window.until_us,
        window_s=window.seconds,
        period_s=period_s,
        segments=len(kept.segments),
        segments_damaged=kept.damaged,
        rows=kept.rows,
        quarantined=sum(reasons.values()),
        quarantined_by_reason=reasons,
        brokers=rows(place("brokers")),
        classes=len(classes.filters),
        overlapping=classes.overlapping() or (),
        requests=total(changes, "requests"),
        unclassified=unclassified(place),
        publications=total(changes, "publications"),
        popularity=fit(popularity.column("requests").to_pylist()),
        locality=fit(popularity.column("brokers").to_pylist()),
        served=sums.served,
        unserved=sums.unserved,
        incomplete=sums.incomplete,
        hops_mean=_number(sums.hops_mean),
        hops_error=_number(sums.hops_error),
        subscribed=began,
        unsubscribed=ended,
        churn_per_hour=round((began + ended) / window.seconds * HOUR_S, 6),
        sessions=rows(place("sessions")),
        visits=rows(place("visits")),
        moves=total(read(place("transitions"), "moves"), "moves"),
    )


def read(path: Path, *columns: str) -> Any:
    """Columns of a table that was just written."""
    return pq.read_table(path, columns=list(columns) or None)


def rows(path: Path) -> int:
    return sum(int(pq.read_metadata(file).num_rows) for file in path.glob("*.parquet"))


def total(table: Any, column: str) -> int:
    return int(pc.sum(table.column(column)).as_py() or 0)


def unclassified(place: Place) -> int:
    demand = read(place("demand"), "class", "requests")
    return total(demand.filter(pc.equal(demand.column("class"), NONE)), "requests")


def answered(place: Place) -> Sums:
    """All requests that came to their end, each once, whatever their class."""
    found = Sums()
    for row in read(place("hops")).to_pylist():
        far, count, lacking = row["hops"], row["requests"], row["incomplete"]
        one = Sums(0, count, lacking) if far is None else Sums(count, 0, lacking, count * far, count * far * far)
        found = found.plus(one)
    return found


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 9)
