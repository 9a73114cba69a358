"""`latecomer checkins`: where people were, as the location model of dynatops."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from latecomer.cli.plan import check_picture
from latecomer.cli.plan_files import write_text
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
from latecomer.model.when import parse_when

if TYPE_CHECKING:
    from latecomer.pipeline.stages.checkins import Region

BOXES = {
    "world": (-90.0, -180.0, 90.0, 180.0),
    "us": (24.0, -125.0, 50.0, -66.0),
    "paper": (29.0, -126.0, 49.0, -66.0),
}
"""South, west, north, east. The paper has 20 × 60 cells of a degree and does not say which; the states take 26 × 58."""
CELL_LEAST, CELL_MOST = 0.001, 90.0


def checkins(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Check-ins: text (also .gz), CSV or Parquet.")],
    format: Annotated[
        str, typer.Option(help="auto, snap, foursquare, foursquare-global, foursquare-short, tweets, csv or parquet.")
    ] = "auto",
    places: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where places are (place, lat, lon), if FILE does not say.")
    ] = None,
    friends: Annotated[
        str | None, typer.Option(metavar="FILE", help="Who is whose friend; else everybody follows others by chance.")
    ] = None,
    cell: Annotated[float, typer.Option(metavar="DEGREES", help="Size of a cell.")] = 1.0,
    box: Annotated[
        str, typer.Option(metavar="BOX", help="world, us, paper, or SOUTH,WEST,NORTH,EAST in degrees.")
    ] = "world",
    since: Annotated[str, typer.Option(metavar="TIME", help="From then on: 2012-04-03, 2012-04-03T18:00:00Z.")] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Up to then.")] = "",
    regular: Annotated[bool, typer.Option("--regular", help="Only users who checked in in every month.")] = False,
    least: Annotated[int, typer.Option(metavar="N", help="Only users with so many check-ins.")] = 1,
    follow: Annotated[int, typer.Option(metavar="N", help="Friends that a user follows.")] = 4,
    seed: Annotated[int, typer.Option(help="Of the choice of friends.")] = 0,
    max_bad: Annotated[float, typer.Option(metavar="SHARE", help="Stop if more rows than these are bad.")] = 0.1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the tables there.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PICTURE", help="Draw Figure 5: .svg, .png or .pdf.")] = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what `latecomer synth --like FILE` needs.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON, and nothing else.")] = False,
    master: Master = MASTER,
    memory: Memory = MEMORY,
    spark_conf: Conf = None,
) -> None:
    """Turn check-ins into cells, visits, linger times, repeats, subscriptions and movement, and count them."""
    check_picture(plot)
    _check(follow, max_bad)
    with spark_libraries():
        from latecomer.pipeline.checkins_job import Order, analyse_checkins, pretty
    region = read_region(cell, box, since, until)
    size = check_first(master, [*files, *(file for file in (places, friends) if file is not None)])
    order = Order(
        files=tuple(files),
        format=format,
        places=places,
        friends=friends,
        region=region,
        regular=regular,
        least=least,
        followed=follow,
        seed=seed,
        max_bad=max_bad,
    )
    with progress("Spark") as told, opened(master, memory, spark_conf, size) as spark:
        found = analyse_checkins(spark, order, out, told, calibrate=calibration is not None)
    if plot is not None:
        with spark_libraries():
            from latecomer.pipeline.checkins_figure import draw
        draw(plot, found)
    if calibration is not None and found.calibration is not None:
        write_text(calibration, "--calibration", found.calibration.text())
    if json:
        sys.stdout.write(pretty(found.counts))
        return
    from latecomer.cli.checkins_tables import print_counts

    console = Console()
    print_counts(console, found)
    for what, file in (("tables are", found.path), ("picture is", plot), ("calibration is", calibration)):
        if file is not None:
            console.print(f"The {what} in {file}.", highlight=False, soft_wrap=True, markup=False)


def read_region(cell: float, box: str, since: str, until: str) -> Region:
    """What is looked at, from what was written."""
    from latecomer.pipeline.stages.checkins import Region

    if not CELL_LEAST <= cell <= CELL_MOST:
        raise SettingsError("--cell", f"{cell:g} is not from {CELL_LEAST:g} to {CELL_MOST:g} degrees")
    now = time.time_ns() // 1000
    times = {}
    for name, text in (("--since", since), ("--until", until)):
        try:
            times[name] = parse_when(text, now) if text else 0
        except SettingsError as error:
            raise SettingsError(name, error.problem) from None
    if times["--until"] and times["--since"] >= times["--until"]:
        raise SettingsError("--since", "it does not lie before --until; exchange them")
    south, west, north, east = read_box(box)
    return Region(south, west, north, east, cell, times["--since"], times["--until"])


def read_box(text: str) -> tuple[float, float, float, float]:
    """A box by its name or its edges."""
    if text in BOXES:
        return BOXES[text]
    told = f"{text[:60]!r} is no box; write {', '.join(BOXES)}, or its edges SOUTH,WEST,NORTH,EAST: 24,-125,50,-66"
    try:
        south, west, north, east = (float(part) for part in text.split(","))
    except ValueError:
        raise SettingsError("--box", told) from None
    if not (-90 <= south < north <= 90 and -180 <= west < east <= 180):
        raise SettingsError("--box", told)
    return south, west, north, east


def _check(follow: int, max_bad: float) -> None:
    if not 1 <= follow <= 1000:
        raise SettingsError("--follow", f"{follow} is not from 1 to 1000")
    if not 0 <= max_bad <= 1:
        raise SettingsError("--max-bad", f"{max_bad:g} is not a share from 0 to 1")
