"""`latecomer store`: a store's files, while no broker uses them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from latecomer.cli.doors import NETWORK_FILE
from latecomer.history import Engine, EngineSettings
from latecomer.history.files import is_store
from latecomer.model.errors import SettingsError
from latecomer.model.history import StoreStatus
from latecomer.model.ids import EventId
from latecomer.model.when import format_when
from latecomer.runtime.amounts import show_size
from latecomer.runtime.disk_repair import FILE as DATABASE
from latecomer.runtime.settings import load
from latecomer.sim.transcript import plain

store = typer.Typer(help="Check the files of a store, or say what is in them.", add_completion=False)

Directory = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help="The store's directory, or the data directory of its broker.")
]
Config = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="The settings of its broker instead.")
]


@store.command("verify")
def verify(directory: Directory = None, config: Config = None) -> None:
    """Look at every event; what is damaged is listed and no longer served, and the exit code is 1."""
    path, settings = place(directory, config)
    with opened(path, settings) as engine:
        if sys.stderr.isatty():
            with Progress(console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task("segments")
                report = engine.verify(lambda done, all: bar.update(task, completed=done, total=all))
        else:
            report = engine.verify()
    for problem in report.problems:
        key = problem.key
        which = "" if key is None else f"{format_when(key.published_us)} {EventId(key.origin, key.epoch, key.seq)} "
        typer.echo(plain(f"{problem.segment}: {which}{problem.why}"))
    if report.problems:
        damaged = len(report.problems)
        typer.echo(f"{damaged} damaged place{'' if damaged == 1 else 's'} among {report.events} events", err=True)
        raise typer.Exit(1)
    typer.echo(f"{report.events} events in {report.segments} segments, all as they were written")


@store.command("status")
def status(directory: Directory = None, config: Config = None) -> None:
    """Say what a store holds; of a running broker, 'latecomer stores' does."""
    path, settings = place(directory, config)
    with opened(path, settings) as engine:
        for name, value in told(engine.status()):
            typer.echo(f"{name:<11} {value}")


def opened(path: Path, settings: EngineSettings) -> Engine:
    """The store's engine; while its broker runs, the way to ask that."""
    try:
        return Engine.open(path, settings)
    except SettingsError as error:
        if "in use by process" not in error.problem:
            raise
        data = path.parent if path.name == "store" else path
        problem = f"{str(path)!r} is in use by a running broker; ask it: latecomer stores --network {data}"
        raise SettingsError("DIR", f"{problem}, or stop it first") from None


def told(found: StoreStatus) -> list[tuple[str, str]]:
    lines = [("events", str(found.events)), ("size", show_size(found.bytes))]
    if found.cold_events:
        lines += [("cold", f"{found.cold_events} events, {show_size(found.cold_bytes)}")]
    times = (("oldest", found.oldest_us), ("newest", found.newest_us), ("kept from", found.kept_from_us))
    return lines + [(name, format_when(us)) for name, us in times if us]


def place(directory: Path | None, config: Path | None) -> tuple[Path, EngineSettings]:
    """Which directory is meant, and how it is to be opened: nothing is let go of."""
    if (directory is None) == (config is None):
        raise SettingsError("DIR", "say where the store is: DIR, or --config with the settings of its broker")
    cold, hot_us = "", 0
    if config is not None:
        settings = load(config, checked=False)
        directory = settings.store_directory
        if settings.store.cold:
            cold, hot_us = settings.store.cold, settings.store.hot_us
    assert directory is not None
    if config is None and (directory / NETWORK_FILE).exists():
        problem = f"{directory} is the folder of a network; name the data folder of one broker, as {directory}/b1/data"
        raise SettingsError("DIR", problem)
    if config is None and (directory / DATABASE).exists() and not (directory / "store").exists():
        raise SettingsError("DIR", f"the broker with the data folder {directory} has no store")
    if config is None and (directory / "store").is_dir():
        directory /= "store"
    if not directory.is_dir():
        raise SettingsError("DIR", f"{directory} is not there")
    if not cold and not is_store(directory):  # with a cold tier all events may be there
        raise SettingsError("DIR", f"there is no store in {directory}; name the data folder of a broker that has one")
    return directory, EngineSettings(keep_us=0, cold=cold, hot_us=hot_us)
