"""What of an event log is meant: the options that all verbs share which read one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.plan_files import read_text
from latecomer.model.errors import SettingsError
from latecomer.model.when import Options, make_wish

if TYPE_CHECKING:
    from latecomer.pipeline.classes import Classes
    from latecomer.pipeline.log import Window

DEPTH = 1
"""Levels of a topic that make its class, if nobody says otherwise."""

ClassesFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Topic classes: a topic filter in each line; else by --depth.")
]
Depth = Annotated[
    int | None, typer.Option(metavar="N", help=f"Topics with the same first N levels are one class; else {DEPTH}.")
]
Since = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="From this time on: -15m, -1h, -7d, 2026-11-16T06:00:00Z, or seconds since 1970."
    ),
]
Until = Annotated[str, typer.Option(metavar="TIME", help="Up to this time.")]


def classes_of(file: Path | None, depth: int | None) -> Classes:
    """The topic classes that are meant."""
    from latecomer.pipeline.classes import Classes, read_classes

    if file is not None:
        if depth is not None:
            raise SettingsError("--depth", "classes are named or made by depth; leave out --depth or --classes")
        return read_classes(read_text(file, "--classes"), str(file))
    classes = Classes(depth=DEPTH if depth is None else depth)
    classes.check()
    return classes


def window_of(since: str, until: str) -> Window:
    """The time that is meant: from the first until before the second."""
    from latecomer.pipeline.log import Window

    try:
        wish = make_wish(Options(since.strip(), until.strip()), time.time_ns() // 1000)
    except SettingsError as error:
        raise SettingsError(f"--{error.key}", error.problem.removeprefix(f"{error.key}: ")) from None
    return Window(wish.since, wish.until) if wish.until else Window(wish.since)
