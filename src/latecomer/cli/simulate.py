"""`latecomer simulate`: a scenario in virtual time."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from latecomer.cli.as_json import print_json
from latecomer.cli.summary import print_summary, print_violations
from latecomer.messages.link import LinkMessage
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Record
from latecomer.sim.disk import Disk
from latecomer.sim.report import Result
from latecomer.sim.runner import Passing, Run
from latecomer.sim.runner import Progress as Told
from latecomer.sim.scenario_check import load
from latecomer.sim.sides import Observer
from latecomer.sim.storing import Retrieved
from latecomer.sim.transcript import Transcript, plain


def simulate(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.toml", help="What to run.")],
    seed: Annotated[int | None, typer.Option(help="Instead of the scenario's own seed.")] = None,
    transcript: Annotated[bool, typer.Option("--transcript", help="Print every step.")] = False,
    story: Annotated[bool, typer.Option("--story", help="A transcript without the network's housekeeping.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
    digest: Annotated[bool, typer.Option("--digest", help="Sum up every step in one number.")] = False,
    records: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the event log of all brokers there, as Parquet.")
    ] = None,
    passing: Annotated[
        Passing, typer.Option(help="How messages pass: as objects, as frames, or byte by byte.")
    ] = "objects",
) -> None:
    """Run a network of brokers in virtual time."""
    if json and (transcript or story):
        raise SettingsError("--json", "cannot share standard output with a transcript; choose one")
    prepared = load(scenario, seed)
    teller = Transcript(print, chatter=transcript) if transcript or story else None
    with record_log(records) as observers, progress_bar(shown=teller is None) as told:
        run = Run(
            prepared, passing=passing, transcript=teller, digest=digest, progress=told, observers=observers
        )  # fmt: skip
        try:
            result = run.play()
        except KeyboardInterrupt:
            run.interrupted = True
            result = run.result()
    replay = ["latecomer", "simulate", str(scenario), "--seed", str(prepared.scenario.seed)]
    if passing != "objects":
        replay += ["--passing", passing]
    show(result, json, shlex.join(replay))


def print_retrieved(console: Console, retrieved: Retrieved) -> None:
    """What came of questions about the past, if there were any."""
    if not retrieved.requests:
        return
    shares = ", ".join(f"{plain(store)} {count}" for store, count in retrieved.by_store.items()) or "nobody"
    problems = f", {retrieved.unanswered} unanswered, {retrieved.incomplete} incomplete"
    means = f"{retrieved.events_mean:.2f} events from {retrieved.hops_mean:.3f} hops on average"
    line = f"  {retrieved.requests} requests{problems}: {means}; served by {shares}"
    console.print(line, highlight=False, soft_wrap=True, markup=False)


def show(result: Result, json: bool, replay: str) -> None:
    """Print the result; leave with 1 if a promise was broken."""
    if json:
        print_json(result)
    else:
        console = Console(soft_wrap=False)
        print_summary(console, result)
        print_retrieved(console, result.retrieved)
        print_violations(console, result)
        if result.good and not result.interrupted:
            console.print("All promises kept.", style="bold", highlight=False)
    if result.interrupted:
        raise KeyboardInterrupt
    if not result.good:
        count = len(result.violations)
        sentence = f"{count} broken promise{'' if count == 1 else 's'} with seed {result.seed}; replay with: {replay}"
        print(sentence, file=sys.stderr if json else sys.stdout)
        raise typer.Exit(1)


class RecordLog:
    """Hands the records of the run to the event log."""

    def __init__(self, add: Callable[[Record], None]) -> None:
        self.noted = add

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        pass

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None:
        pass


@contextmanager
def record_log(directory: Path | None) -> Iterator[Sequence[Observer]]:
    """An observer that writes the event log, if one is wanted."""
    if directory is None:
        yield ()
        return
    from latecomer.eventlog import SegmentWriter  # pyarrow takes a while to load

    if directory.is_dir() and any(directory.glob("*.parquet")):
        raise SettingsError("--records", f"{str(directory)!r} already holds an event log; name another directory")
    with SegmentWriter(directory, "simulation") as writer:
        yield (RecordLog(writer.add),)


@contextmanager
def progress_bar(*, shown: bool) -> Iterator[Told | None]:
    """Progress on a terminal, and nothing anywhere else."""
    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description:<18}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def told(what: str, now: Instant, end: Instant) -> None:
            bar.update(task, description=what, completed=now, total=end)

        yield told
