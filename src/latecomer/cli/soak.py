"""`latecomer soak`: fault seeds in bulk."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from latecomer.model.errors import SettingsError
from latecomer.sim.linking import changes_links
from latecomer.sim.soak import LIVES, Clients, Verdict, soak
from latecomer.sim.transcript import Digest, Transcript, plain
from latecomer.sim.wander_coverage import Step

SHOWN_MAX = 20
"""Failures told in full; the rest are only counted."""
FRESH = 4_000_000_000
"""Starts that the clock draws are below this."""


def soak_verb(
    seeds: Annotated[int, typer.Option(help="How many seeds to live.")] = 1000,
    start: Annotated[
        int | None,
        typer.Option(help="The first seed; drawn by the clock and printed if not given.", show_default=False),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes; 0 means one per core.")] = 0,
    clients: Annotated[
        Clients,
        typer.Option(
            help="Lives of plain clients, of MQTT clients, of stores, of clients that wander, or all but the last."
        ),
    ] = Clients.ALL,
    coverage: Annotated[
        bool, typer.Option(help="With --clients wander: print how often each input came in each state of a hand-over.")
    ] = False,
    transcript: Annotated[
        bool, typer.Option(help="Print every step of one seed, with plain clients unless --clients says others.")
    ] = False,
) -> None:
    """Live many random networks under faults; every failure names the command that replays it."""
    _check(seeds, start, jobs)
    if coverage and (clients is not Clients.WANDER or transcript):
        raise SettingsError("--coverage", "is about clients that wander: add --clients wander, without --transcript")
    if transcript:
        _replay(start, seeds, clients)
        return
    out, screen = Console(highlight=False, soft_wrap=True), Console(stderr=True)
    if start is None:  # seeds that were looked at before prove little
        start = time.time_ns() // 1000 % FRESH
        out.print(
            f"seeds from {start} on; the same again: latecomer soak --start {start} --seeds {seeds}{_kind(clients)}"
        )
    jobs = jobs or os.cpu_count() or 1
    verdicts = soak(start, seeds, jobs, clients, coverage=coverage)
    steps: Counter[Step] = Counter()
    failures = done = accepted = deliveries = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=screen, disable=not screen.is_terminal) as progress:
            task = progress.add_task("soaking", total=seeds)
            for verdict in verdicts:
                done += 1
                accepted += verdict.accepted
                deliveries += verdict.deliveries
                steps.update(verdict.steps)
                progress.advance(task)
                if verdict.violations:
                    failures += 1
                    progress.update(task, description=f"soaking, {failures} failed")
                    if failures <= SHOWN_MAX:
                        _tell_failure(out, verdict)
    finally:
        if coverage:
            _tell_coverage(out, steps)
        out.print(f"{accepted:,} publications accepted, {deliveries:,} deliveries", markup=False)
        out.print(f"{done} seeds, {failures} failures", markup=False)
    if failures:
        raise typer.Exit(1)


def _tell_coverage(out: Console, steps: Counter[Step]) -> None:
    """One line for each state and input, with what followed; the rarest first."""
    rows: dict[tuple[str, str, str], Counter[str]] = {}
    for step, count in steps.items():
        rows.setdefault((step.side, step.state, step.input), Counter())[step.next] += count
    table = Table("broker", "state", "input", "times", "next", box=None)
    for (side, state, input), following in sorted(rows.items(), key=lambda row: (row[1].total(), row[0])):
        after = ", ".join(f"{name} {count:,}" for name, count in following.most_common())
        table.add_row(side, state, input, f"{following.total():,}", after)
    out.print(table)


def _kind(clients: Clients) -> str:
    return "" if clients is Clients.ALL else f" --clients {clients}"


def _check(seeds: int, start: int | None, jobs: int) -> None:
    if seeds < 1:
        raise SettingsError("--seeds", f"must be at least 1, not {seeds}")
    if start is not None and start < 0:
        raise SettingsError("--start", f"must not be negative, not {start}")
    if jobs < 0:
        raise SettingsError("--jobs", f"must not be negative, not {jobs}; 0 means one per core")


def _tell_failure(out: Console, verdict: Verdict) -> None:
    out.print(f"seed {verdict.seed} failed ({verdict.description})", markup=False)
    for violation in verdict.violations[:3]:
        out.print(f"  {violation}", markup=False)
    if len(verdict.violations) > 3:
        out.print(f"  and {len(verdict.violations) - 3} more", markup=False)
    out.print(f"  replay: {verdict.replay}", markup=False)


def _replay(start: int | None, seeds: int, clients: Clients) -> None:
    if seeds != 1:
        raise SettingsError("--transcript", "shows one seed: add --seeds 1")
    if start is None:
        raise SettingsError("--transcript", "shows the seed that --start names: add --start SEED")
    digest = Digest()

    def write(line: str) -> None:
        print(line)
        digest.write(line)

    live = LIVES[Clients.PLAIN if clients is Clients.ALL else clients]
    life = live(start, Transcript(write, chatter=True), links=changes_links(start))
    print(f"seed {start}: {life.description}; digest {digest.value()}")
    for violation in life.violations:
        print(plain(str(violation)))
    print(f"1 seeds, {int(life.failed)} failures")
    if life.failed:
        raise typer.Exit(1)
