"""`latecomer sessions`: the sessions of clients, at the brokers that have them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from latecomer.cli.as_json import print_json
from latecomer.cli.door_options import DATA, AdminUrl, AsJson, Config, Network, TokenFile
from latecomer.cli.doors import Unknown, call, found_doors
from latecomer.cli.session_work import find, move
from latecomer.cli.stores import WIDE, age
from latecomer.model.errors import LatecomerError
from latecomer.model.topology import quoted
from latecomer.runtime.amounts import show_size
from latecomer.runtime.session_views import SessionView
from latecomer.sim.transcript import plain

sessions = typer.Typer(
    help="Show where each client's session is and what waits for it; move, release or end one.", add_completion=False
)

REASON = "an operator has ended the session"
WAIT_SECONDS = 30.0
COLUMNS = ("client", "user", "broker", "state", "client is", "queued", "size", "subscriptions", "durable")
NUMBERS = ("queued", "size", "subscriptions")

Gently = Annotated[
    bool, typer.Option("--gently", help="Not while it is connected with a will that does not wait, or with work to do.")
]
Client = Annotated[str, typer.Argument(metavar="CLIENT", help="The client id.")]


@sessions.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    client: Annotated[str, typer.Option(metavar="ID", help="Only the session of this client.")] = "",
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show where each client's session is and what waits for it; move, release or end one.

    Without a command: one line for each session at all brokers. Options of a command stand behind it.
    """
    if context.invoked_subcommand is not None:
        if client or as_json or config or admin or token_file or network != DATA:
            raise typer.BadParameter(
                f"put options behind the command: latecomer sessions {context.invoked_subcommand} …"
            )
        return
    found = find(found_doors(network, config or [], admin or [], token_file), client)
    views = sorted((view for view, _ in found.views), key=lambda view: (view.client, view.broker))
    if not views and found.silent:
        raise LatecomerError("; ".join(found.silent[:3]))
    if as_json:
        print_json(views)
    elif views:
        _print(views)
    else:
        typer.echo(f"no broker has a session of {quoted(client)}" if client else "no broker has a session")
    _complain(found.silent)
    if client and not views:
        raise typer.Exit(1)


@sessions.command("move")
def move_verb(
    client: Client,
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="The broker that is to have the session.")],
    wait: Annotated[
        float, typer.Option(metavar="S", min=0, help="How long to wait for it, in seconds; 0: not at all.")
    ] = WAIT_SECONDS,
    gently: Gently = False,
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Move a client's session to another broker, with its subscriptions and everything that waits for it.

    A connected client is disconnected and told to use another server (0x9C), which publishes a will that does not wait.
    The exit code is 1 if no broker has such a session, or if it has not moved in time.
    """
    doors = found_doors(network, config or [], admin or [], token_file)
    with _status(f"moving the session of {quoted(client)} to {broker}") as tell:
        result = move(doors, client, broker, wait, tell, gently=gently)
    if result is None:
        typer.echo(f"no broker has a session of {quoted(client)}", err=True)
        raise typer.Exit(1)
    if as_json:
        print_json(result)
    elif result.source == broker:
        typer.echo(f"{broker} has the session of {quoted(client)} already")
    elif result.moved:
        typer.echo(f"the session of {quoted(client)} moved from {result.source} to {broker} in {result.seconds:.2f} s")
    elif not wait:
        typer.echo(f"{result.source} was asked to move the session of {quoted(client)} to {broker}")
    else:
        words = f"the session of {quoted(client)} has not moved to {broker} after {result.seconds:.1f} s"
        typer.echo(f"latecomer: {words}: {plain(result.problem)}", err=True)
    if wait and not result.moved:
        raise typer.Exit(1)


@sessions.command("release")
def release(
    client: Client,
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Take a session back from a broker that it was promised to and that will never come back.

    Use this only if that broker's disk is lost: if it returns with the session, the client has two, and the older one
    ends. The exit code is 1 if no broker has such a session.
    """
    done, refused = _at_all(
        "release-session", {"client": client}, found_doors(network, config or [], admin or [], token_file)
    )
    if as_json and done:
        print_json({"client": client, "released": done})
    for url in [] if as_json else done:
        typer.echo(f"the session of {quoted(client)} belongs to the broker at {url} again")
    _end(client, done, refused)


@sessions.command("end")
def end(
    client: Client,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="What the client is told, if it is connected.")] = REASON,
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """End a client's session, connected or not: its subscriptions and waiting messages are gone, its will is published.

    Every broker that is named is asked. The exit code is 1 if none of them has such a session.
    """
    doors = found_doors(network, config or [], admin or [], token_file)
    done, refused = _at_all("end-session", {"client": client, "reason": reason}, doors)
    if as_json and done:
        print_json({"client": client, "ended": done})
    for url in [] if as_json else done:
        typer.echo(f"the session of {quoted(client)} at {url} is ended")
    _end(client, done, refused)


def _at_all(path: str, body: dict[str, Any], doors: Iterable[Any]) -> tuple[list[str], list[str]]:
    """Tell every broker; those that did it, and what the others say, but for those that know no such client."""
    done: list[str] = []
    refused: list[str] = []
    for door in doors:
        try:
            call(door, path, dict[str, str], body=body)
            done.append(door.url)
        except Unknown:
            continue
        except LatecomerError as error:
            refused.append(str(error))
    return done, refused


def _end(client: str, done: Sequence[str], refused: Sequence[str]) -> None:
    if not done and refused:
        raise LatecomerError("; ".join(refused[:3]))
    _complain(refused)
    if not done:
        typer.echo(f"no broker has a session of {quoted(client)}", err=True)
        raise typer.Exit(1)


def _complain(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        typer.echo(f"latecomer: {plain(sentence)}", err=True)


# -- what is printed


def _print(views: Sequence[SessionView]) -> None:
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDE)
    table = Table(box=SIMPLE_HEAD)
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in NUMBERS else "left", overflow="fold")
    now_us = time.time_ns() // 1000
    for view in views:
        table.add_row(*map(plain, row_of(view, now_us)))
    console.print(table)


def row_of(view: SessionView, now_us: int) -> tuple[str, ...]:
    since = age(view.since_us, now_us)
    if view.where == "arriving":
        client = f"waiting for {since}" if view.connected else "away"
    else:
        through = f" via {view.via}" if view.via else ""
        client = f"connected{through} for {since}" if view.connected else f"away for {since}"
    return (
        view.client,
        view.user,
        view.broker,
        _state(view),
        client,
        str(view.queue_messages),
        show_size(view.queue_bytes),
        str(view.subscriptions),
        "yes" if view.durable else "no",
    )


def _state(view: SessionView) -> str:
    if view.waits_for:
        return f"arriving, waits for {view.waits_for}"
    if view.where == "arriving":
        return f"arriving from {view.partner}" if view.partner else "looked for"
    words = {
        "leaving": f"leaving to {view.partner}",
        "promised": f"promised to {view.partner}",
        "visiting": f"visitor, the session is at {view.partner}",
    }
    return words.get(view.where, "here")


@contextmanager
def _status(words: str) -> Iterator[Any]:
    """A line that says what is going on, on a terminal; nothing anywhere else."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
        yield lambda sentence: None
        return
    with console.status(words) as status:
        yield lambda sentence: status.update(f"{words}: {plain(sentence)}")
