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
from latecomer.cli.spark_options import (
    MASTER,
    MEMORY,
    Conf,
    Master,
    Memory,
    check_first,
    opened,
    progress,
    spark_libraries,
)
from latecomer.model.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from latecomer.experiments.claim import Claim
    from latecomer.experiments.grid import Job, Measures, Spread
    from latecomer.experiments.papers import Outcome, Told
    from latecomer.experiments.verdict import Part, Verdict
    from latecomer.pipeline.stages.checkins import Region

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
    checkins: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="dynatops: also judge the location claims on these; may be repeated."),
    ] = None,
    cell: Annotated[float, typer.Option(metavar="DEGREES", help="Size of a cell of --checkins.")] = 2.5,
    box: Annotated[
        str, typer.Option(metavar="BOX", help="Of --checkins: us, paper, or SOUTH,WEST,NORTH,EAST in degrees.")
    ] = "27.5,-125,47.5,-65",
    since: Annotated[str, typer.Option(metavar="TIME", help="Check-ins from then on.")] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Check-ins up to then.")] = "",
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
        from latecomer.experiments.pages import write_page
        from latecomer.experiments.papers import PAPERS, QUICK_SEEDS, SEEDS, chosen
        from latecomer.experiments.papers import reproduce as reproduce_claim
    wanted = chosen(claims or [])
    incomplete = [claim.paper for claim in wanted if any(other not in wanted for other in PAPERS[claim.paper])]
    if docs is not None and incomplete:
        raise SettingsError("--docs", f"a page has all claims of a paper: say {incomplete[0]} instead of naming some")
    runs = seeds or (QUICK_SEEDS if quick else SEEDS)
    where = f"local[{jobs}]" if jobs else master
    if data is not None:
        _check_data(data, jobs, [claim.paper for claim in wanted])
    region = _check_checkins(checkins, jobs, where, wanted, (cell, box, since, until)) if checkins else None
    with ExitStack() as stack:
        spread = alone if jobs == 1 else _spread(stack, where, memory, conf)
        told = stack.enter_context(progress_bar(len(wanted)))
        outcomes = [reproduce_claim(claim, out, runs, quick=quick, spread=spread, told=told) for claim in wanted]
    for paper in PAPERS:
        found = [outcome for outcome in outcomes if outcome.claim.paper == paper]
        if docs is not None and found:
            write_page(paper, found, docs, runs)
    if data is not None:
        with opened(where, memory, conf) as spark:
            _real_movements(spark, data, out, docs, quiet=json)
    if checkins and region is not None:
        with opened(where, memory, conf) as spark:
            _real_checkins(spark, checkins, region, outcomes, out, docs, runs=runs, quick=quick, quiet=json)
    verdicts = [outcome.verdict for outcome in outcomes]
    out.mkdir(parents=True, exist_ok=True)
    (out / "verdicts.json").write_text(as_json(verdicts), encoding="utf-8")
    if json:
        print_json(verdicts)
    else:
        show(verdicts, out)


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


def _real_movements(spark: SparkSession, data: Path, out: Path, docs: Path | None, *, quiet: bool) -> None:
    """Beyond the paper: what prefetching costs and saves on real movements."""
    from latecomer.experiments.mobility.payoff_job import payoffs
    from latecomer.experiments.mobility.payoff_page import write_payoff

    with progress("movement") as told:
        found = payoffs(spark, data, out, told)
    file = write_payoff(found, docs or out)
    if not quiet:
        Console(highlight=False).print(f"real movements are in {file}", soft_wrap=True, markup=False)


def _check_checkins(
    files: Sequence[str], jobs: int, master: str, wanted: Sequence[Claim], looked_at: tuple[float, str, str, str]
) -> Region:
    """What can be said about --checkins before anything is measured."""
    with spark_libraries():
        from latecomer.cli.checkins import read_region
        from latecomer.experiments.dynatops.location.recorded import ground_of
    from latecomer.experiments.dynatops.location.claims import CLAIMS

    if not any(claim in CLAIMS for claim in wanted):
        named = ", ".join(claim.id for claim in CLAIMS)
        raise SettingsError("--checkins", f"they belong to {named}: name dynatops or one of these")
    if jobs == 1:
        raise SettingsError("--checkins", "check-ins are read on Spark: leave out --jobs 1")
    region = read_region(*looked_at)
    ground_of(region)
    check_first(master, files)
    return region


def _real_checkins(
    spark: SparkSession,
    files: Sequence[str],
    region: Region,
    outcomes: Sequence[Outcome],
    out: Path,
    docs: Path | None,
    *,
    runs: int,
    quick: bool,
    quiet: bool,
) -> None:
    """The location claims once more, on people who were recorded."""
    from latecomer.experiments.dynatops.location import recorded
    from latecomer.experiments.dynatops.location.claims import CLAIMS
    from latecomer.experiments.dynatops.location.recorded_page import write_recorded
    from latecomer.experiments.grid import on_spark

    claims = [outcome.claim for outcome in outcomes if outcome.claim in CLAIMS]
    with progress("check-ins") as told:
        people = recorded.recorded_people(spark, files, region, out / "recorded", min(runs, recorded.SEEDS))
        told("location model")
        real = recorded.judge(claims, people, out, quick=quick, spread=on_spark(spark))
    made_up = {outcome.claim.id: outcome.verdict for outcome in outcomes}
    file = write_recorded([Path(file).name for file in files], people, real, made_up, docs or out)
    if not quiet:
        Console(highlight=False).print(f"real check-ins are in {file}", soft_wrap=True, markup=False)


def _spread(stack: ExitStack, master: str, memory: str, conf: Sequence[str] | None) -> Spread:
    """On Spark, which is started when there is something to measure, and ends with the stack."""
    found: list[Spread] = []

    def spread(jobs: Sequence[Job]) -> Iterator[tuple[Job, Measures]]:
        if not jobs:
            return
        if not found:
            from latecomer.experiments.grid import on_spark

            found.append(on_spark(stack.enter_context(opened(master, memory, conf))))
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
