"""`latecomer movement-model`: which movement model running brokers use; load another one, or remove it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from latecomer.cli.as_json import print_json
from latecomer.cli.door_options import DATA, AdminUrl, AsJson, Config, Network, TokenFile
from latecomer.cli.doors import Door, Refused, call, found_doors
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.runtime.predicting import MODEL_MAX, ModelView
from latecomer.sim.transcript import plain

PATH = "movement-model"
LOAD_SECONDS = 90.0

movement_model = typer.Typer(
    help="Show which movement model running brokers use; load another one, or remove it.", add_completion=False
)


@movement_model.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show which movement model running brokers use; load another one, or remove it.

    Options of a command stand behind it.
    """
    if context.invoked_subcommand is not None:
        if as_json or config or admin or token_file or network != DATA:
            raise typer.BadParameter(
                f"put options behind the command: latecomer movement-model {context.invoked_subcommand} …"
            )
        return
    _tell(found_doors(network, config or [], admin or [], token_file), "GET", None, as_json)


@movement_model.command("load")
def load(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What 'latecomer movement --model' wrote.")],
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Have running brokers use a movement model from now on, after a restart as well.

    It takes the place of `hand_over.model`. The exit code is 1 if a broker has not taken it.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(MODEL_MAX + 1)
    except OSError as error:
        raise SettingsError("FILE", f"{str(file)!r} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if len(data) > MODEL_MAX:
        raise SettingsError("FILE", f"{str(file)!r} is larger than {MODEL_MAX} bytes: raise --keep-above for it")
    _tell(found_doors(network, config or [], admin or [], token_file), "PUT", data, as_json)


@movement_model.command("remove")
def remove(
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Remove the movement model that was loaded: the one in the settings counts again, if there is one.

    The exit code is 1 if a broker has not done it.
    """
    _tell(found_doors(network, config or [], admin or [], token_file), "DELETE", None, as_json)


def _tell(doors: Sequence[Door], method: str, data: bytes | None, as_json: bool) -> None:
    views: list[ModelView] = []
    refused: list[str] = []
    for door in doors:
        try:
            views.append(call(door, PATH, ModelView, seconds=LOAD_SECONDS, method=method, data=data))
        except LatecomerError as error:
            refused.append(str(error))
            if isinstance(error, Refused) and method == "PUT":
                break  # the others would say the same
    if not views and refused:
        raise LatecomerError("; ".join(refused[:3]))
    if as_json:
        print_json(views)
    else:
        for view in views:
            typer.echo(plain(sentence(view)))
    for problem in refused:
        typer.echo(f"latecomer: {plain(problem)}", err=True)
    if refused:
        raise typer.Exit(1)


def sentence(view: ModelView) -> str:
    """Which model a broker uses."""
    if not view.source:
        return f"{view.broker}: no movement model; clients are predicted by where they were before"
    origin = "loaded by an operator" if view.source == "loaded" else "of its settings"
    return f"{view.broker}: a movement model {origin}: {view.places:,} places, {view.clients:,} clients"
