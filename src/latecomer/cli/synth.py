"""`latecomer synth`: check-ins that are made up, and like real ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

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
    from latecomer.pipeline.calibration import Calibration


def synth(
    users: Annotated[int, typer.Option(metavar="N", help="How many people.")],
    months: Annotated[int, typer.Option(metavar="M", help="For how long.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Write the tables checkins and friends there.")],
    checkins: Annotated[
        int | None,
        typer.Option(metavar="TOTAL", help="About so many in all; else as many per user as in the calibration."),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="CALIBRATION",
            help="Like these: the file or the tables of `latecomer checkins --calibration`; else as in the US in 2012.",
        ),
    ] = None,
    start: Annotated[str, typer.Option(metavar="DAY", help="The first day of the first month.")] = "2010-08-01",
    seed: Annotated[int, typer.Option(help="Another one makes other people.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON, and nothing else.")] = False,
    master: Master = MASTER,
    memory: Memory = MEMORY,
    spark_conf: Conf = None,
) -> None:
    """Make up check-ins that are like real ones, as many as are wanted."""
    check_first(master)
    with spark_libraries():
        from latecomer.pipeline.checkins_job import pretty
        from latecomer.pipeline.synth_job import orders_of, synthesize
    calibration = read_like(like)
    # Said before Spark starts.
    orders_of(calibration, users=users, months=months, start=start, checkins=checkins, seed=seed)
    with progress("Spark") as told, opened(master, memory, spark_conf) as spark:
        made = synthesize(
            spark,
            calibration,
            out,
            users=users,
            months=months,
            start=start,
            checkins=checkins,
            seed=seed,
            told=told,
        )
    if json:
        sys.stdout.write(pretty(made))
        return
    told_out = f"{made.checkins:,} check-ins of {made.users:,} users and {made.friendships:,} friendships"
    Console().print(
        f"{told_out}, {made.first} to {made.until}, are in {made.path}.\n"
        f"Read them with: latecomer checkins {made.path}/checkins --friends {made.path}/friends",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )


def read_like(file: Path | None) -> Calibration:
    """The numbers to go by: of a file, of the folder that `latecomer checkins` wrote, or those we have."""
    from latecomer.pipeline.calibration import built_in, read_calibration
    from latecomer.pipeline.checkins_job import CALIBRATION
    from latecomer.pipeline.output import LATEST

    if file is None:
        return built_in()
    if file.is_dir():
        found = [path for path in (file / CALIBRATION, file / LATEST / CALIBRATION) if path.is_file()]
        if not found:
            told = (
                f"{file} has no {CALIBRATION}; write one with: latecomer checkins FILE --calibration CALIBRATION.json"
            )
            raise SettingsError("--like", told)
        file = found[0]
    try:
        return read_calibration(file.read_bytes(), str(file))
    except OSError as error:
        raise SettingsError("--like", f"{file}: {error.strerror or error}") from None
