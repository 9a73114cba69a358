"""`latecomer reproduce dynatops --checkins`: the location claims on people who were recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console

from latecomer.cli.spark_options import check_first, opened, progress, spark_libraries
from latecomer.model.errors import SettingsError

if TYPE_CHECKING:
    from latecomer.experiments.claim import Claim
    from latecomer.experiments.dynatops.location.recorded import People
    from latecomer.experiments.papers import Outcome
    from latecomer.pipeline.stages.checkins import Region

PANEL = "Check-ins"
OPTION = "--checkins"
CELL = 2.5
BOX = "27.5,-125,47.5,-65"
"""8 × 24 cells: the ground on which people are made up."""

Checkins = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="dynatops: also judge the location claims on these check-ins; may be repeated.",
        rich_help_panel=PANEL,
    ),
]
Cell = Annotated[
    float, typer.Option(metavar="DEGREES", help="Size of a cell; each has a broker.", rich_help_panel=PANEL)
]
Box = Annotated[
    str,
    typer.Option(metavar="BOX", help="us, paper, or SOUTH,WEST,NORTH,EAST in degrees.", rich_help_panel=PANEL),
]
Since = Annotated[str, typer.Option(metavar="TIME", help="Check-ins from then on: 2012-04-03.", rich_help_panel=PANEL)]
Until = Annotated[
    str, typer.Option(metavar="TIME", help="Check-ins up to then; 22 days are the least.", rich_help_panel=PANEL)
]


class Spark(NamedTuple):
    """Where it runs: the arguments of `opened`."""

    master: str
    memory: str
    conf: Sequence[str] | None


class Recording(NamedTuple):
    """Which check-ins are wanted."""

    files: tuple[str, ...]
    region: Region


def asked(
    files: Sequence[str] | None, looked_at: tuple[float, str, str, str], jobs: int, wanted: Sequence[Claim], on: Spark
) -> Recording | None:
    """What was asked for, as far as it can be checked before Spark starts."""
    if not files:
        given = zip(("--cell", "--box", "--since", "--until"), looked_at, (CELL, BOX, "", ""), strict=True)
        for name, value, default in given:
            if value != default:
                raise SettingsError(name, "it says which check-ins are looked at: name their files with --checkins")
        return None
    with spark_libraries():
        from latecomer.cli.checkins import read_region
        from latecomer.experiments.dynatops.location.claims import CLAIMS
        from latecomer.experiments.dynatops.location.recorded import ground_of

    if not any(claim in CLAIMS for claim in wanted):
        named = ", ".join(claim.id for claim in CLAIMS)
        raise SettingsError(OPTION, f"only {named} are about check-ins: name dynatops or one of these")
    if jobs == 1:
        raise SettingsError(OPTION, "check-ins are read on Spark: leave out --jobs 1")
    region = read_region(*looked_at)
    ground_of(region)
    check_first(on.master, files)
    return Recording(tuple(files), region)


def prepared(recording: Recording, on: Spark, out: Path, runs: int) -> People:
    """Read the check-ins; before anything is measured, so that a bad file is told at once."""
    from latecomer.experiments.dynatops.location.recorded import SEEDS, recorded_people

    with progress("Spark") as told, opened(*on) as spark:
        return recorded_people(spark, recording.files, recording.region, out / "recorded", min(runs, SEEDS), told)


def judged(
    recording: Recording,
    people: People,
    on: Spark,
    outcomes: Sequence[Outcome],
    out: Path,
    docs: Path | None,
    *,
    quick: bool,
) -> Path:
    """The page on which the claims are judged once more; where it is."""
    from latecomer.experiments.dynatops.location.claims import CLAIMS
    from latecomer.experiments.dynatops.location.recorded import judge
    from latecomer.experiments.dynatops.location.recorded_page import write_recorded
    from latecomer.experiments.grid import on_spark

    claims = [outcome.claim for outcome in outcomes if outcome.claim in CLAIMS]
    with progress("Spark") as told, opened(*on) as spark:
        real = judge(claims, people, out, quick=quick, spread=on_spark(spark), told=told)
    made_up = {outcome.claim.id: outcome.verdict for outcome in outcomes}
    return write_recorded([Path(file).name for file in recording.files], people, real, made_up, docs or out)


def tell(file: Path) -> None:
    Console(highlight=False).print(f"real check-ins are in {file}", soft_wrap=True, markup=False)
