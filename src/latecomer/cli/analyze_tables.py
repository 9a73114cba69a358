"""An analysis on the terminal: the numbers in front, the rest in the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from latecomer.pipeline.numbers import rate, span
from latecomer.sim.transcript import plain

if TYPE_CHECKING:
    from latecomer.pipeline.job import Analysis
    from latecomer.pipeline.stages.zipf import Fit
    from latecomer.pipeline.summary import Summary

NAMED_MOST = 5


def print_analysis(console: Console, done: Analysis, out: Path) -> None:
    """What was found, what could not be used, and where to read on."""
    found = done.summary
    table = Table(box=SIMPLE_HEAD, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, text in _rows(found):
        table.add_row(name, text)
    console.print(table)
    for sentence in _remarks(done):
        console.print(plain(sentence), soft_wrap=True, highlight=False, markup=False)
    latest = out / "latest"
    console.print(f"report {latest / 'report.html'}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"tables {latest} (run {found.run})", soft_wrap=True, highlight=False, markup=False)


def _rows(found: Summary) -> Iterator[tuple[str, str]]:
    yield "from", span(found.since_us, found.until_us)
    yield "records", f"{found.rows:,} in segments: {found.segments:,}, by brokers: {found.brokers:,}"
    yield (
        "requests",
        f"{found.requests:,} ({rate(found.requests / found.window_s)}/s) for {found.classes:,} topic classes",
    )
    yield "publications", f"{found.publications:,} ({rate(found.publications / found.window_s)}/s)"
    yield "popularity", _fit(found.popularity)
    yield "locality", _fit(found.locality)
    if found.hops_mean is None:
        yield "distance", f"no request was served, {found.unserved:,} were not"
    else:
        error = "" if found.hops_error is None else f" ± {found.hops_error:.4f}"
        yield "distance", f"{found.hops_mean:.4f}{error} hops ({found.served:,} served, {found.unserved:,} not)"
    changes = f"{found.subscribed:,} began, {found.unsubscribed:,} ended"
    yield "subscriptions", f"{changes} ({rate(found.churn_per_hour)} of these changes/h)"
    yield "movement", f"{found.moves:,} moves in {found.visits:,} visits"


def _remarks(done: Analysis) -> Iterator[str]:
    found = done.summary
    if found.quarantined:
        reasons = ", ".join(f"{count:,} with {reason}" for reason, count in found.quarantined_by_reason.items())
        yield f"{found.quarantined:,} rows could not be used and are in quarantine: {reasons}"
    for one in found.segments_damaged[:NAMED_MOST]:
        yield f"{one.name}: {one.reason}"
    if len(found.segments_damaged) > NAMED_MOST:
        yield f"and {len(found.segments_damaged) - NAMED_MOST:,} more segments that could not be read"
    if done.segments_gone:
        yield f"{len(done.segments_gone):,} segments were removed before they could be read"
    if found.unclassified:
        yield f"{found.unclassified:,} requests were for topics of no class"
    if found.overlapping:
        yield f"the classes {found.overlapping[0]} and {found.overlapping[1]} share topics, which count in both"


def _fit(found: Fit | None) -> str:
    return "too little was seen" if found is None else f"Zipf, exponent {found.exponent:.3f} ± {found.error:.3f}"
