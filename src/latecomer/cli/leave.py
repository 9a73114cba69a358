"""`latecomer leave`: a broker goes out of a network that runs, without a restart of the others."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from latecomer.cli.as_json import print_json
from latecomer.cli.demo_progress import progress
from latecomer.cli.door_options import DATA, AdminUrl, AsJson, Config, Network, TokenFile
from latecomer.cli.doors import found_doors
from latecomer.cli.drain import RATE, WAIT_SECONDS
from latecomer.cli.join_work import folder_of
from latecomer.cli.leave_work import Left, leave_of
from latecomer.cli.main import INTERRUPTED
from latecomer.sim.transcript import plain


def leave(
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="The broker that leaves.")],
    rate: Annotated[float, typer.Option(metavar="N", min=0.1, help="Sessions per second.")] = RATE,
    wait: Annotated[
        float, typer.Option(metavar="S", min=0, help="Give up after this many seconds without progress.")
    ] = WAIT_SECONDS,
    force: Annotated[
        bool, typer.Option("--force", help="Also if it does not answer, or something is lost or cut off with it.")
    ] = False,
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Take a broker out of a network that runs, for good, without a restart of the others.

    Its sessions move to the others (latecomer drain), what it keeps is handed out, its neighbours remove it, everybody
    forgets it, and it stops. Run it again to go on after Ctrl-C.
    """
    doors = found_doors(network, config or [], admin or [], token_file)
    folder = None if config or admin else folder_of(network)
    with progress(Console(stderr=True)) as tell:
        work = leave_of(broker, doors, force=force, rate=rate, wait_seconds=wait, tell=tell)
        work.begin()
        interrupted = False
        try:
            work.carry_out(lambda: folder.write(folder.without(broker)) if folder is not None else None)
        except KeyboardInterrupt:
            interrupted = True
    result = work.result()
    if as_json:
        print_json(result)
    else:
        _print(result, interrupted=interrupted)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _print(result: Left, *, interrupted: bool) -> None:
    broker, done = result.broker, []
    if result.drained is not None:
        done.append(f"{result.drained.moved:,} session{'' if result.drained.moved == 1 else 's'} moved")
    if result.parted:
        done.append(f"{' '.join(result.parted)} no longer linked with it")
    done += ["forgotten by all"] * result.forgotten + ["stopped"] * result.stopped
    words = "has left the network" if not interrupted else "has not left yet"
    typer.echo(plain(f"{broker} {words}: {'; '.join(done) or 'nothing done'}, in {result.seconds:.1f} s"))
    if interrupted:
        typer.echo(f"run this again to go on, or let it stay: latecomer drain {plain(broker)} --abort")
