"""`latecomer reproduce`: the papers' figures and claims, measured again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from latecomer.cli.as_json import as_json, print_json
from latecomer.cli.plan import libraries
from latecomer.cli.reproduce_checkins import (
    BOX,
    CELL,
    Box,
    Cell,
    Checkins,
    Since,
    Spark,
    Until,
    asked,
    judged,
    prepared,
    tell,
)
from latecomer.cli.spark_options import MASTER, MEMORY, Conf, Master, Memory, opened, progress, spark_libraries
from latecomer.model.errors import SettingsError

if TYPE_CHECKING:
    from latecomer.experiments.claim import Claim
    from latecomer.experiments.grid import Job, Measures, Spread
    from latecomer.experiments.papers import Told
    from latecomer.experiments.verdict import Part, Verdict

COLOURS = {
    "reproduced": "green",
    "partly": "yellow",
    "not reproduced": "red",
    "undecided": "cyan",
    "consistent, input fitted": "green",
}

SIGNS = {"reproduced": "✔", "partly": "◐", "not reproduced": "✘", "undecided": "?", "consistent, input fitted": "≈"}
MARKS = (
    "✔ reproduced  ◐ partly  ✘ not  ? undecided: needs more --seeds  ≈ consistent, input fitted  · shown, not judged"
)


def reproduce(
    claims: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAPER|CLAIM]...",
            help="storing, planning, dynatops, mobility, S1 … S10, D1 … D14, M1 … M15; all if none.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few points and seeds, no sweeps: a look that decides nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON, and nothing else.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where figures and measurements go.")] = Path("reproduced"),
    seeds: Annotated[
        int,
        typer.Option(
            help="Runs per point, at most 20 where one takes long; 0: 200, or 5 when quick. "
            "Fewer than 20 leave a claim undecided."
        ),
    ] = 0,
    jobs: Annotated[int, typer.Option(help="Cores of this machine; 0 means all, 1 works without Spark.")] = 0,
    docs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the papers' pages there, with their charts.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="mobility: also predict the real movements in this folder, and count them."),
    ] = None,
    checkins: Checkins = None,
    cell: Cell = CELL,
    box: Box = BOX,
    since: Since = "",
    until: Until = "",
    master: Master = MASTER,
    memory: Memory = MEMORY,
    conf: Conf = None,
) -> None:
    """Draw the papers' figures anew, and judge their claims."""
    _check(seeds, jobs, quick, docs)
    if jobs and master != MASTER:
        raise SettingsError("--jobs", f"{master} has the cores it has: leave out --jobs or --master")
    with libraries():
        from latecomer.experiments.grid import alone
        from latecomer.experiments.pages import write_pages
        from latecomer.experiments.papers import QUICK_SEEDS, SEEDS, chosen
        from latecomer.experiments.papers import reproduce as reproduce_claim
    wanted = chosen(claims or [])
    if docs is not None:
        _check_whole(wanted)
    runs = seeds or (QUICK_SEEDS if quick else SEEDS)
    where = f"local[{jobs}]" if jobs else master
    if data is not None:
        _check_data(data, jobs, [claim.paper for claim in wanted])
    on = Spark(where, memory, conf)
    recording = asked(checkins, (cell, box, since, until), jobs, wanted, on)
    people = None if recording is None else prepared(recording, on, out, runs)
    with ExitStack() as stack:
        spread = alone if jobs == 1 else _spread(stack, on)
        told = stack.enter_context(progress_bar(len(wanted)))
        outcomes = [reproduce_claim(claim, out, runs, quick=quick, spread=spread, told=told) for claim in wanted]
    if docs is not None:
        write_pages(outcomes, docs, runs)
    if data is not None:
        _real_movements(on, data, out, docs, quiet=json)
    if recording is not None and people is not None:
        file = judged(recording, people, on, outcomes, out, docs, quick=quick)
        if not json:
            tell(file)
    _finish([outcome.verdict for outcome in outcomes], out, json=json)


def _finish(verdicts: list[Verdict], out: Path, *, json: bool) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "verdicts.json").write_text(as_json(verdicts), encoding="utf-8")
    if json:
        print_json(verdicts)
    else:
        show(verdicts, out)


def _check_whole(wanted: Sequence[Claim]) -> None:
    """Pages are about whole papers."""
    from latecomer.experiments.papers import PAPERS

    for claim in wanted:
        if any(other not in wanted for other in PAPERS[claim.paper]):
            raise SettingsError("--docs", f"a page has all claims of a paper: say {claim.paper} instead of naming some")


def _check(seeds: int, jobs: int, quick: bool, docs: Path | None) -> None:
    if seeds < 0 or seeds == 1:
        raise SettingsError("--seeds", f"must be at least 2, as one run has no interval, not {seeds}")
    if jobs < 0:
        raise SettingsError("--jobs", f"must not be negative, not {jobs}; 0 means one per core")
    if quick and docs is not None:
        raise SettingsError("--docs", "pages are made of full figures: leave out --quick")


def _check_data(data: Path, jobs: int, papers: Sequence[str]) -> None:
    """What can be said about --data before anything is measured."""
    with spark_libraries():
        from latecomer.experiments.mobility.payoff_job import recorded_in
    if "mobility" not in papers:
        raise SettingsError("--data", "real movements belong to the paper mobility: name it, or leave out --data")
    if jobs == 1:
        raise SettingsError("--data", "movements are learned on Spark: leave out --jobs 1")
    recorded_in(data)


def _real_movements(on: Spark, data: Path, out: Path, docs: Path | None, *, quiet: bool) -> None:
    """Beyond the paper: what prefetching costs and saves on real movements."""
    from latecomer.experiments.mobility.payoff_job import payoffs
    from latecomer.experiments.mobility.payoff_page import write_payoff

    with progress("movement") as told, opened(*on) as spark:
        found = payoffs(spark, data, out, told)
    file = write_payoff(found, docs or out)
    if not quiet:
        Console(highlight=False).print(f"real movements are in {file}", soft_wrap=True, markup=False)


def _spread(stack: ExitStack, on: Spark) -> Spread:
    """On Spark, which is started when there is something to measure, and ends with the stack."""
    found: list[Spread] = []

    def spread(jobs: Sequence[Job]) -> Iterator[tuple[Job, Measures]]:
        if not jobs:
            return
        if not found:
            from latecomer.experiments.grid import on_spark

            found.append(on_spark(stack.enter_context(opened(*on))))
        yield from found[0](jobs)

    return spread


def show(verdicts: list[Verdict], out: Path) -> None:
    """The table of verdicts."""
    console = Console(highlight=False)
    table = Table(show_lines=True)
    for header in ("claim", "verdict", "the paper", "ours"):
        table.add_column(header)
    for verdict in verdicts:
        word = f"[{COLOURS[verdict.verdict]}]{verdict.verdict}[/]"
        word += f"\n(old rule: {verdict.old})" if verdict.old else ""
        parts = "\n".join(f"{_mark(part)} {part.paper}: {part.figure}" for part in verdict.parts) or verdict.figure
        table.add_row(verdict.id, word, verdict.paper, parts)
    console.print(table)
    console.print(MARKS, markup=False)
    console.print(f"figures are in {out}", soft_wrap=True, markup=False)


def _mark(part: Part) -> str:
    return SIGNS[part.word] if part.judged else "·"


@contextmanager
def progress_bar(claims: int) -> Iterator[Told | None]:
    """Progress on a terminal, and nothing anywhere else."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def told(claim: str, done: int, total: int) -> None:
            bar.update(task, description=f"claim {claim}", completed=done, total=total)

        yield told
