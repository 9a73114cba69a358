"""Networks of real processes for tests: ports that nobody else uses, started once, stopped for certain."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from latecomer.cli.doors import call, found_doors
from latecomer.model.topology import Topology
from latecomer.runtime.network_file import Network, Seat
from latecomer.runtime.network_views import NetworkView
from latecomer.runtime.supervisor import Supervisor

HOST = "127.0.0.1"
BACK_SECONDS = 120.0
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
# Below the ports that the system hands out to outgoing connections, which would be in the way of a restart.
_NUMBERS = count(10_000 + 1000 * (WORKER % 22) + os.getpid() % 500)

QUICK: dict[str, Any] = {"broker": {"durability": "process"}, "event_log": {"enabled": False}}
"""What many small networks on a small machine need not do."""


def free_port() -> int:
    for port in _NUMBERS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")


def network_of(topology: Topology, settings: dict[str, Any] | None = None) -> Network:
    seats = tuple(
        Seat(id=node.id, port=free_port(), link_port=free_port(), admin_port=free_port(), websocket_port=free_port())
        for node in topology.nodes
    )
    return Network(
        name=topology.name, brokers=seats, links=topology.links, settings=QUICK if settings is None else settings
    )


@contextmanager
def running(network: Network, folder: Path, **more: Any) -> Iterator[Supervisor]:
    supervisor = Supervisor(network, folder, **more)
    supervisor.start()
    try:
        yield supervisor
    finally:
        supervisor.stop()


def joined(supervisor: Supervisor) -> None:
    """Wait until all links are up and every broker uses the same tree. Before that a link that comes up late changes
    the tree, and what is under way with QoS 0 may be lost."""
    doors, links = found_doors(supervisor.folder, [], [], None), len(supervisor.network.links)
    until = time.monotonic() + BACK_SECONDS
    views: list[NetworkView] = []
    while time.monotonic() < until:
        views = [call(door, "network", NetworkView) for door in doors]
        if len({view.tree for view in views}) == 1 and all(view.ready and len(view.links) == links for view in views):
            return
        time.sleep(0.05)
    raise AssertionError(f"the network has not come together: {views}")


async def answers(supervisor: Supervisor, broker: str) -> None:
    """Wait until a broker that was started again takes connections."""
    child = supervisor.children[broker]
    until = time.monotonic() + BACK_SECONDS
    while time.monotonic() < until:
        process = child.process
        assert process is not None
        assert process.poll() is None, f"{broker} does not come back: {supervisor.last_words(child)}"
        with suppress(OSError):
            _, writer = await asyncio.open_connection(HOST, child.seat.port)
            writer.close()
            await writer.wait_closed()
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{broker} does not come back")
