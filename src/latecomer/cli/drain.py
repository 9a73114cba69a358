"""`latecomer drain`: clients and sessions leave a broker at a pace, before it is stopped for maintenance."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from latecomer.cli.as_json import print_json
from latecomer.cli.demo_progress import progress
from latecomer.cli.door_options import DATA, AdminUrl, AsJson, Config, Network, TokenFile
from latecomer.cli.doors import found_doors
from latecomer.cli.drain_work import Drain, Drained, drained_themselves, stop
from latecomer.cli.main import INTERRUPTED
from latecomer.cli.session_work import named
from latecomer.model.errors import LatecomerError
from latecomer.model.topology import quoted
from latecomer.sim.transcript import plain

RATE = 50.0
WAIT_SECONDS = 30.0
SHOWN = 10
"""Sessions that are left and listed."""


def drain(
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="The broker to be emptied.")],
    rate: Annotated[float, typer.Option(metavar="N", min=0.1, help="Sessions per second.")] = RATE,
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="BROKER", help="Where they go; may be repeated.", show_default="all others, in turn"),
    ] = None,
    wait: Annotated[
        float, typer.Option(metavar="S", min=0, help="Give up after this many seconds without progress.")
    ] = WAIT_SECONDS,
    abort: Annotated[bool, typer.Option("--abort", help="Let the broker accept clients again.")] = False,
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Move all sessions of a broker to others, at a pace, so that it can be stopped.

    New clients are refused and connected ones are told to use another server (0x9C), after a restart as well, until
    --abort ends it. Run it again to go on after Ctrl-C. The exit code is 1 if sessions are left.
    """
    names, silent = named(found_doors(network, config or [], admin or [], token_file))
    if broker not in names:
        known = f"those that answer are {', '.join(names)}" if names else "; ".join(silent[:3])
        raise LatecomerError(f"no broker {quoted(broker)} answers: {known}")
    door = names.pop(broker)
    if abort:
        left = stop(door)
        if as_json:
            print_json({"broker": broker, "draining": False, "sessions": left})
        else:
            typer.echo(f"{broker} accepts clients again; it has {_sessions(left)}")
        return
    avoid = drained_themselves(list(names.values()))
    with progress(Console(stderr=True)) as tell:
        work = Drain(broker, door, tuple(dict.fromkeys(to or ())), rate, wait, avoid, tell)
        work.begin()
        interrupted = False
        try:
            work.carry_out()
        except KeyboardInterrupt:
            interrupted = True
            work.look()
    result = work.result()
    if as_json:
        print_json(result)
    else:
        _print(result, interrupted)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if result.left:
        raise typer.Exit(1)


def _print(result: Drained, interrupted: bool) -> None:
    broker, left = result.broker, len(result.left)
    done = f"{_sessions(result.moved)} moved to {', '.join(result.to)}"
    if result.disconnected:
        done += f", clients without a lasting session here disconnected: {result.disconnected:,}"
    state = f"{_sessions(left)} left" if left else "drained"
    typer.echo(f"{broker}: {'stopped, ' if interrupted else ''}{state}; {done}, in {result.seconds:.1f} s")
    if not interrupted:
        for each in result.left[:SHOWN]:
            typer.echo(f"  {plain(quoted(each.client))}: {plain(each.why)}")
        if left > SHOWN:
            typer.echo(f"  and {left - SHOWN:,} more; 'latecomer sessions' lists them")
    more = "; run this again to go on" if left or interrupted else ""
    typer.echo(f"new clients are refused, after a restart as well, until 'latecomer drain {broker} --abort'{more}")


def _sessions(number: int) -> str:
    return f"{number:,} session{'' if number == 1 else 's'}"
