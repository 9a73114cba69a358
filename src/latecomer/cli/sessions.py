"""`latecomer sessions`: the sessions of clients, at the brokers that hold them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from latecomer.cli.doors import Unknown, call, found_doors
from latecomer.model.errors import LatecomerError
from latecomer.model.topology import quoted
from latecomer.sim.transcript import plain

sessions = typer.Typer(help="End the session of a client.", add_completion=False)

REASON = "an operator has ended the session"


@sessions.callback()
def group() -> None:
    """End the session of a client."""


@sessions.command("end")
def end(
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="The client id.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="What the client is told, if it is connected.")] = REASON,
    network: Annotated[
        Path, typer.Option(metavar="DIR", help="The data folder of 'latecomer up', or of one broker.")
    ] = Path("latecomer-data"),
    config: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="The settings of a broker instead; may be repeated.")
    ] = None,
    admin: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="An admin interface instead; may be repeated.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The admin token.", show_default="admin-token in DIR")
    ] = None,
) -> None:
    """End a client's session, connected or not: its subscriptions and waiting messages are gone, its will is published.

    Every broker that is named is asked. The exit code is 1 if none of them has such a session.
    """
    ended: list[str] = []
    silent: list[str] = []
    for door in found_doors(network, config or [], admin or [], token_file):
        try:
            call(door, "end-session", dict[str, str], body={"client": client, "reason": reason})
            ended.append(door.url)
        except Unknown:
            continue
        except LatecomerError as error:
            silent.append(str(error))
    for sentence in silent:
        typer.echo(f"latecomer: {plain(sentence)}", err=True)
    for url in ended:
        typer.echo(f"the session of {quoted(client)} at {url} is ended")
    if not ended:
        if silent:
            raise LatecomerError(f"the session of {quoted(client)} was not found, and not all brokers answered")
        typer.echo(f"no broker has a session of {quoted(client)}", err=True)
        raise typer.Exit(1)
