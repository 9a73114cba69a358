"""`latecomer movement`: where clients turn up next, learned from where they were, and tested on weeks not seen."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from latecomer.cli.checkins import CELL_LEAST, CELL_MOST
from latecomer.cli.plan import check_picture
from latecomer.cli.plan_files import whole_file
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
from latecomer.model.movement import DAY_H

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    from latecomer.pipeline.movement_job import Outcome

NAMED = "Columns of FILE"
WEEKS_MOST = 1000


def _column(help: str) -> typer.models.OptionInfo:
    return typer.Option(metavar="COLUMN", help=help, rich_help_panel=NAMED)  # type: ignore[no-any-return]


def movement(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="Who was where and when: what 'latecomer checkins' reads."),
    ] = None,
    from_log: Annotated[
        Path | None, typer.Option(metavar="LOGDIR", help="Instead: the clients and brokers of an event log.")
    ] = None,
    client: Annotated[str, _column("Who; else user, user_id, uid …")] = "",
    time: Annotated[str, _column("When, UTC; else time, timestamp, datetime …")] = "",
    until: Annotated[str, _column("When it was last seen there; if FILE says so.")] = "",
    unit: Annotated[
        Literal["auto", "us", "ms", "s", "min"], typer.Option(help="Of times that are numbers.", rich_help_panel=NAMED)
    ] = "auto",
    place: Annotated[str, _column("Where; else the cell of --lat and --lon.")] = "",
    lat: Annotated[str, _column("Degrees north; else lat, latitude.")] = "",
    lon: Annotated[str, _column("Degrees east; else lon, lng, longitude.")] = "",
    format: Annotated[
        str, typer.Option(help="As of 'latecomer checkins': auto, snap, foursquare, csv, parquet …")
    ] = "auto",
    places: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where places are (place, lat, lon), if FILE does not say.")
    ] = None,
    cell: Annotated[float, typer.Option(metavar="DEGREES", help="Size of a cell.")] = 1.0,
    test_weeks: Annotated[float, typer.Option(metavar="WEEKS", help="The last weeks are for the test.")] = 4.0,
    each: Annotated[
        bool, typer.Option("--each", help="Every client's own last weeks are, as its clock is its own.")
    ] = False,
    band_hours: Annotated[int, typer.Option(metavar="HOURS", help="Hours of the day that are taken as one.")] = 4,
    order: Annotated[int, typer.Option(metavar="1|2", help="Of the model; else the better one before the test.")] = 0,
    predict: Annotated[
        Literal["move", "next"], typer.Option(help="What the model predicts: the next other place, or the next place.")
    ] = "move",
    keep_above: Annotated[
        float, typer.Option(metavar="NATS", help="What a context must gain to be in the model.")
    ] = 2.0,
    max_bad: Annotated[float, typer.Option(metavar="SHARE", help="Stop if more rows than these are bad.")] = 0.1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the tables there.")] = None,
    model: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the model that brokers load.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PICTURE", help="Draw it: .svg, .png or .pdf.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the accuracies as JSON, and nothing else.")] = False,
    master: Master = MASTER,
    memory: Memory = MEMORY,
    spark_conf: Conf = None,
) -> None:
    """Learn where clients turn up next, test it on weeks that it has not seen, and export it for brokers."""
    check_picture(plot)
    _check(files, from_log, cell, test_weeks, band_hours, order)
    _check_shares(keep_above, max_bad)
    size = check_first(master, [*(files or ()), *([] if places is None else [places])])
    with spark_libraries():
        from latecomer.pipeline.log import find_log
        from latecomer.pipeline.movement_files import Columns
        from latecomer.pipeline.movement_job import Order, predict_movement
    where = Columns(client=client, time=time, until=until, unit=unit, place=place, lat=lat, lon=lon, cell=cell,
                    format=format, places=places)  # fmt: skip
    log = "" if from_log is None else str(from_log)
    wanted = Order(files=tuple(map(str, files or ())), log=log, columns=where, test_weeks=test_weeks, each=each,
                   band_h=band_hours, order=_order(order), predicted=predict, keep_above=keep_above,
                   max_bad=max_bad)  # fmt: skip
    if from_log is not None:
        size = find_log(from_log).bytes  # a folder without a log is told before Spark starts
    with progress("Spark") as told, opened(master, memory, spark_conf, size) as spark:
        found = predict_movement(spark, wanted, out, told)
    _deliver(found, model, plot, json)


def _deliver(found: Outcome, model: Path | None, plot: Path | None, json: bool) -> None:
    if model is not None:
        with whole_file(model, "--model") as partial:
            partial.write_bytes(found.model)
    if plot is not None:
        with spark_libraries():
            from latecomer.pipeline.movement_figure import draw
        draw(plot, found.report)
    if json:
        from latecomer.pipeline.movement_job import pretty

        sys.stdout.write(pretty(found.report))
        return
    from latecomer.cli.movement_tables import print_report

    console = Console()
    print_report(console, found.report)
    for what, file in (("tables are", found.folder), ("model is", model), ("picture is", plot)):
        if file is not None:
            console.print(f"The {what} in {file}.", highlight=False, soft_wrap=True, markup=False)


def _order(number: int) -> Literal[0, 1, 2]:
    return 2 if number == 2 else 1 if number == 1 else 0


def _check(
    files: list[Path] | None, log: Path | None, cell: float, test_weeks: float, band_hours: int, order: int
) -> None:
    if bool(files) == (log is not None):
        raise SettingsError("", "name files, or a log with --from-log")
    if not CELL_LEAST <= cell <= CELL_MOST:
        raise SettingsError("--cell", f"{cell:g} is not from {CELL_LEAST:g} to {CELL_MOST:g} degrees")
    if not 0 < test_weeks < WEEKS_MOST:
        raise SettingsError("--test-weeks", f"{test_weeks:g} is not a number of weeks above 0")
    if not 1 <= band_hours <= DAY_H or DAY_H % band_hours:
        raise SettingsError("--band-hours", f"{band_hours} is not 1, 2, 3, 4, 6, 8, 12 or 24")
    if order not in (0, 1, 2):
        raise SettingsError("--order", f"{order} is neither 1 nor 2")


def _check_shares(keep_above: float, max_bad: float) -> None:
    if not 0 <= keep_above < math.inf:
        raise SettingsError("--keep-above", f"{keep_above:g} is not a gain of 0 or more")
    if not 0 <= max_bad <= 1:
        raise SettingsError("--max-bad", f"{max_bad:g} is not a share from 0 to 1")
