"""`latecomer join`: a new broker in a network that runs, without a restart of the others."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from latecomer.cli.as_json import print_json
from latecomer.cli.demo_progress import progress
from latecomer.cli.door_options import DATA, AdminUrl, AsJson, Config, Network, TokenFile
from latecomer.cli.doors import call, found_doors
from latecomer.cli.join_work import (
    Folder,
    Host,
    Newcomer,
    check,
    chosen,
    folder_of,
    settings_text,
    tell,
    views_of,
    write_settings,
)
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.runtime.network_views import NetworkView
from latecomer.runtime.settings import LINK_PORT, PORTS
from latecomer.sim.transcript import plain

WAIT_SECONDS = 30.0
LOOK_SECONDS = 0.2
COST_US = 1000


class Joined(msgspec.Struct, frozen=True):
    """What came of it."""

    broker: BrokerId
    network: str
    beside: tuple[BrokerId, ...]
    settings: str
    there: bool
    """It is part of the network by now."""


def join(
    id: Annotated[str, typer.Argument(metavar="ID", help="The name of the new broker.")],
    beside: Annotated[
        list[str] | None,
        typer.Option(metavar="BROKER", help="A neighbour of it; may be repeated.", show_default="the first two"),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where the others call the new broker, and it listens for them.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, metavar="P", help="Its port for clients.", show_default="1883"),
    ] = None,
    link_port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, metavar="P", help="Its port for neighbours.", show_default="1884"),
    ] = None,
    cost_us: Annotated[int, typer.Option(min=1, metavar="N", help="What crossing a link to it costs.")] = COST_US,
    secret_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The secret of the network, named in its settings, not copied.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write its settings there.", show_default="ID.toml")
    ] = None,
    start: Annotated[bool, typer.Option("--start", help="Become the new broker when the others know of it.")] = False,
    wait: Annotated[
        float,
        typer.Option(metavar="S", min=0, help="In a folder of 'latecomer up': wait until it is there."),
    ] = WAIT_SECONDS,
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Add a broker to a network that runs, without a restart of the others.

    Writes the settings of the new broker and tells its neighbours of it, which remember it. In a folder of
    'latecomer up' the new broker is started there; elsewhere start it yourself, or with --start.
    """
    doors = found_doors(network, config or [], admin or [], token_file)
    folder = None if config or admin else folder_of(network)
    if folder is not None:
        others = {"--host": host != "127.0.0.1", "--port": port, "--link-port": link_port, "--out": out}
        others |= {"--start": start, "--secret-file": secret_file}
        for option, given in others.items():
            if given:
                raise SettingsError(option, f"is for networks that run elsewhere; {network} says where {id} goes")
    known, silent = views_of(doors)
    hosts = chosen([each for each in known if each.view.broker != id], silent, beside or ())
    if folder is not None:
        result = _in_folder(folder, id, hosts, cost_us, wait)
    else:
        numbers = (port or PORTS["tcp"], link_port or LINK_PORT)
        result = _elsewhere(Newcomer(id, host, *numbers, cost_us), hosts, secret_file, out or Path(f"{id}.toml"))
    if as_json:
        print_json(result)
    else:
        _print(result, start=start, waited=folder is not None and wait > 0)
    if start:
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "latecomer", "broker", "--config", result.settings])
    if folder is not None and wait and not result.there:
        raise typer.Exit(1)


def _in_folder(folder: Folder, id: BrokerId, hosts: list[Host], cost_us: int, wait: float) -> Joined:
    seat = folder.seat(id)
    beside = tuple(host.view.broker for host in hosts)
    wanted = folder.joined(seat, beside, cost_us)
    linked = {other.id for other, _ in wanted.neighbours(id)}
    if linked != set(beside):  # an earlier run that was stopped, or a broker of long standing
        beside = tuple(host.view.broker for host in hosts if host.view.broker in linked)
        hosts = [host for host in hosts if host.view.broker in linked]
        if not hosts:
            raise SettingsError("ID", f"{id} is in {folder.path} already, beside {' '.join(sorted(linked))}")
    newcomer = Newcomer(id, seat.host, seat.port, seat.link_port, cost_us)
    if not _there(hosts, id):
        check(newcomer, hosts)
    file = folder.prepare(wanted, seat)
    tell(newcomer, hosts)
    folder.write(wanted)
    until = time.monotonic() + wait
    with progress(Console(stderr=True)) as show:
        while not (there := _there(hosts, id)) and time.monotonic() < until:
            show(f"waiting for {id}", 0, 0)
            time.sleep(LOOK_SECONDS)
    return Joined(id, hosts[0].view.network, beside, str(file), there)


def _elsewhere(newcomer: Newcomer, hosts: list[Host], secret_file: Path | None, out: Path) -> Joined:
    check(newcomer, hosts)
    view = hosts[0].view
    by_secret = view.proof in ("secret", "both")
    if by_secret and secret_file is None:
        raise SettingsError("--secret-file", f"is missing: {view.broker} knows its neighbours by a secret")
    secret = None if secret_file is None else secret_file.absolute()
    data = out.absolute().parent / f"{newcomer.id}-data"
    text = settings_text(newcomer, hosts, data, secret)
    if view.proof in ("certificates", "both"):
        text = "# Links need certificates here: add link.certificate, link.key and link.ca.\n" + text
    write_settings(out, text, checked=view.proof in ("secret", "none"))
    tell(newcomer, hosts)
    beside = tuple(host.view.broker for host in hosts)
    return Joined(newcomer.id, view.network, beside, str(out), _there(hosts, newcomer.id))


def _there(hosts: list[Host], id: BrokerId) -> bool:
    """Whether some neighbour has it in its tree."""
    for host in hosts:
        try:
            view = call(host.door, "network", NetworkView)
        except LatecomerError:
            continue
        if view.ready and any(member.id == id and member.present for member in view.brokers):
            return True
    return False


def _print(result: Joined, *, start: bool, waited: bool) -> None:
    tell: Any = lambda text: typer.echo(plain(text))  # noqa: E731
    tell(f"{' and '.join(result.beside)} {'know' if len(result.beside) > 1 else 'knows'} of {result.broker} now")
    if result.there:
        tell(f"{result.broker} is part of the network {result.network}")
    elif waited:
        tell(
            f"{result.broker} is not there yet: 'latecomer up' starts it, at once if it runs; "
            f"or start it with: latecomer broker --config {result.settings}"
        )
    elif not start:
        tell(f"settings in {result.settings}; start it with: latecomer broker --config {result.settings}")
