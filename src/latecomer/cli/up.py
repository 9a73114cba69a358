"""`latecomer up`: a network of brokers on this machine."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from latecomer.cli.store_options import Capacity, Keep, store_amounts
from latecomer.model.errors import SettingsError
from latecomer.runtime.network_file import (
    BASE_PORT,
    Network,
    RoutingKind,
    Shape,
    placed,
    read_network,
    read_topology,
    shaped,
    with_routing,
    with_stores,
)
from latecomer.runtime.supervisor import Supervisor
from latecomer.sim.transcript import plain

BROKERS = 6
KEEPS_WIDTH = 24


def up(
    network: Annotated[
        Path | None, typer.Argument(metavar="NETWORK.toml", help="Brokers and links; instead of all that follows.")
    ] = None,
    brokers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many.", show_default=str(BROKERS))
    ] = None,
    shape: Annotated[Shape | None, typer.Option(help="How they are linked.", show_default="ring")] = None,
    topology: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A network from a JSON Lines or GraphML file instead.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Which network of the JSON Lines file.")] = None,
    base_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            metavar="P",
            help="The first broker listens on P, the second on P+1 and so on; links from P+1000, the admin interfaces "
            "from P+2000, WebSocket from P+3000.",
            show_default=str(BASE_PORT),
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Listen there.")] = "127.0.0.1",
    store: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BROKER=TOPICS", help="A broker that keeps the history of topics, 'b2=sensors/#'; may be repeated."
        ),
    ] = None,
    routing: Annotated[
        RoutingKind | None,
        typer.Option(
            help="How events find those who want them; rendezvous: brokers form a ring, and are linked with all others "
            "unless --shape says otherwise.",
            show_default="forwarding",
        ),
    ] = None,
    keep: Keep = None,
    capacity: Capacity = None,
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Where everything is kept; a rerun goes on with what is there.")
    ] = Path("latecomer-data"),
    no_restart: Annotated[
        bool, typer.Option("--no-restart", help="A broker that dies stays down, unless you start it.")
    ] = False,
) -> None:
    """Start a network of brokers here, and keep it running until Ctrl-C.

    With none of the options that describe a network, a folder that has been used before gives the one it had.
    """
    made = brokers is not None or shape is not None or topology is not None
    if network is not None and made:
        raise SettingsError("NETWORK.toml", "says everything; leave out --brokers, --shape and --topology")
    if topology is not None and (brokers is not None or shape is not None):
        raise SettingsError("--topology", "says how many and how linked; leave out --brokers and --shape")
    if name is not None and topology is None:
        raise SettingsError("--name", "needs --topology")
    before = data / "network.toml"
    if network is None and not made and base_port is None and before.exists():
        network = before
    if network is not None:
        chosen = read_network(network, base_port)
    else:
        usual: Shape = "full" if routing == "rendezvous" else "ring"
        drawn = read_topology(topology, name) if topology else shaped(shape or usual, brokers or BROKERS)
        chosen = placed(drawn, base_port or BASE_PORT, host)
    chosen = with_stores(chosen, store or (), store_amounts(keep, capacity))
    supervise(with_routing(chosen, routing), data, restart=not no_restart)


def changes(before: Path, network: Network) -> str:
    """What is different from the network that last ran in this folder, in a sentence; empty: nothing."""
    try:
        old = read_network(before)
    except (OSError, SettingsError):
        return ""
    ids, known = [seat.id for seat in network.brokers], [seat.id for seat in old.brokers]
    links = [{frozenset((link.a, link.b)) for link in each.links} for each in (network, old)]
    if ids == known and links[0] == links[1]:
        return ""
    told = f"the network in {before.parent} is changed from {_described(old)} to {_described(network)}"
    gone = [broker for broker in known if broker not in ids]
    return f"{told}; what {' '.join(gone)} kept stays in the folder" if gone else told


def _described(network: Network) -> str:
    brokers, links = len(network.brokers), len(network.links)
    return f"{brokers} broker{'' if brokers == 1 else 's'} and {links} link{'' if links == 1 else 's'}"


def supervise(network: Network, data: Path, *, restart: bool) -> None:
    """Until a signal says it is enough."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    supervisor = Supervisor(network, data, restart=restart, tell=lambda line: console.print(plain(line)))

    def enough(number: int, frame: FrameType | None) -> None:
        if supervisor.stopping:
            supervisor.patience_seconds = 0  # asked twice
        supervisor.stopping = True

    previous = {number: signal.signal(number, enough) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        supervisor.take_folder()
        if told := changes(supervisor.folder / "network.toml", network):
            console.print(plain(told))
        count = len(network.brokers)
        console.print(f"starting {count} broker{'' if count == 1 else 's'} …")
        supervisor.start()
        console.print(overview(network))
        console.print(f"data and logs in {supervisor.folder}; Ctrl-C stops")
        supervisor.run()
        console.print("stopping …")
    finally:
        try:
            supervisor.stop()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def overview(network: Network) -> Table:
    """Where to connect."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("broker", overflow="fold")
    for column in ("clients", "WebSocket", "admin"):
        table.add_column(column, no_wrap=True)  # an address in two lines is none to be copied
    table.add_column("linked with", overflow="fold")
    keeping = any(seat.store for seat in network.brokers)
    if keeping:
        longest = max(len(plain(topics)) for seat in network.brokers for topics in seat.store)
        table.add_column("keeps", overflow="fold", min_width=min(longest, KEEPS_WIDTH))  # a filter stays in one piece
    for seat in network.brokers:
        linked = " ".join(other.id for other, _ in network.neighbours(seat.id))
        table.add_row(
            seat.id,
            f"{seat.host}:{seat.port}",
            f"{seat.host}:{seat.websocket_port}",
            f"{seat.host}:{seat.admin_port}",
            linked or "nobody",
            *([" ".join(map(plain, seat.store))] if keeping else []),
        )
    return table
