"""Networks of real brokers for these measurements, and what their links have carried."""

from __future__ import annotations

import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from latecomer.model.topology import Topology
from latecomer.model.topology_generators import line, ring
from latecomer.runtime.network_file import Network, Seat
from latecomer.runtime.supervisor import Supervisor

PORT = 27_200
SETTLE_S = 3.0
SETTINGS: dict[str, Any] = {
    "broker": {"durability": "process"},
    "event_log": {"enabled": False},
    "limits": {
        "connections": 20_000,
        "connection_rate": 0,
        "queue_messages": 200_000,
        "queue_bytes": 256 * 1024 * 1024,
    },
}
"""Sessions survive the death of a process; limits that the load would meet are lifted."""

_LINK = re.compile(r'^latecomer_link_(frames|bytes)_total\{direction="out",peer="([^"]+)"\} ([0-9.e+]+)$', re.MULTILINE)


class Traffic(msgspec.Struct, frozen=True):
    """What all links together have carried."""

    frames: float
    octets: float
    at: float

    def since(self, before: Traffic, idle: Traffic | None = None) -> Traffic:
        """What was carried between two readings; without what an idle network (per second) carries in that time."""
        seconds = self.at - before.at
        rest = (idle.frames * seconds, idle.octets * seconds) if idle else (0.0, 0.0)
        return Traffic(self.frames - before.frames - rest[0], self.octets - before.octets - rest[1], seconds)


def topology_of(brokers: int) -> Topology:
    return ring(brokers) if brokers > 2 else line(brokers)


@contextmanager
def running(brokers: int, source: str = "", keep: str = "", algorithm: str = "") -> Iterator[Supervisor]:
    """Brokers in a ring; `source` is the folder with another revision of the package. With `keep` their data and their
    logs, of every client, stay in that folder. `algorithm` is how sessions move."""
    topology = topology_of(brokers)
    seats = tuple(
        Seat(
            id=node.id,
            port=PORT + 10 * at,
            link_port=PORT + 10 * at + 1,
            admin_port=PORT + 10 * at + 2,
            websocket_port=PORT + 10 * at + 3,
        )
        for at, node in enumerate(topology.nodes)
    )
    settings = SETTINGS | ({"broker": SETTINGS["broker"] | {"log_level": "debug"}} if keep else {})
    if algorithm:
        settings = settings | {"hand_over": {"algorithm": algorithm}}
    network = Network(name=topology.name, brokers=seats, links=topology.links, settings=settings)
    python: tuple[str, ...] = (sys.executable, "-m", "latecomer", "broker")
    if source:
        python = ("/usr/bin/env", f"PYTHONPATH={source}", *python)
    with tempfile.TemporaryDirectory(prefix="latecomer-handover-") as folder:
        supervisor = Supervisor(network, Path(keep or folder), restart=False, command=python)
        supervisor.start()
        try:
            time.sleep(SETTLE_S)
            yield supervisor
        finally:
            supervisor.stop()


def carried(supervisor: Supervisor) -> Traffic:
    frames = octets = 0.0
    for seat in supervisor.network.brokers:
        with urllib.request.urlopen(f"http://127.0.0.1:{seat.admin_port}/metrics") as answer:
            for kind, _, value in _LINK.findall(answer.read().decode()):
                if kind == "frames":
                    frames += float(value)
                else:
                    octets += float(value)
    return Traffic(frames, octets, time.perf_counter())


def idle(supervisor: Supervisor, seconds: float) -> Traffic:
    """What the links carry in a second when nothing happens."""
    before = carried(supervisor)
    time.sleep(seconds)
    found = carried(supervisor).since(before)
    return Traffic(found.frames / found.at, found.octets / found.at, 1.0)
