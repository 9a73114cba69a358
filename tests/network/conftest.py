"""The networks that every behaviour is tried on, and who stands where in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from latecomer.model.topology import Link, Node, Topology
from latecomer.model.topology_generators import line, ring, walkthrough
from latecomer.runtime.supervisor import Supervisor
from tests.network.net import QUICK, joined, network_of, running
from tests.network.peer import Peer


def cycle() -> Topology:
    """A ring of six with a chord: two ways everywhere."""
    drawn = ring(6)
    return Topology(name="cycle", nodes=drawn.nodes, links=(*drawn.links, Link("b1", "b4", 3000)))


def meshed() -> Topology:
    """Five with all links: enough for any ring."""
    nodes = tuple(Node(f"b{number}") for number in range(1, 6))
    pairs = combinations((node.id for node in nodes), 2)
    return Topology(name="meshed", nodes=nodes, links=tuple(Link(a, b, 1000) for a, b in pairs))


NETWORKS: dict[str, Callable[[], Topology]] = {
    "one": lambda: line(1),
    "two": lambda: line(2),
    "tree": walkthrough,
    "cycle": cycle,
    "rendezvous": meshed,
}
SETTINGS: dict[str, dict[str, Any]] = {
    # Probes do not tell when a subscription is known on another way: SUBACK does.
    "rendezvous": {**QUICK, "core": {"routing": {"kind": "rendezvous"}, "subscribe_wait": True}},
}
PLACES = [
    "one-same",
    pytest.param("two-far", marks=pytest.mark.long),
    pytest.param("tree-same", marks=pytest.mark.long),
    "tree-far",
    pytest.param("cycle-same", marks=pytest.mark.long),
    "cycle-far",
    "rendezvous-far",
]


@dataclass(slots=True)
class Place:
    """A network, and where in it publisher and subscriber connect."""

    supervisor: Supervisor
    publisher: int
    subscriber: int
    ports: list[int]
    """Of all brokers; the publisher's first, the subscriber's last."""

    def pair(self, **subscriber: object) -> tuple[Peer, Peer]:
        """Publisher and subscriber, connected."""
        return Peer(self.publisher), Peer(self.subscriber, **subscriber)  # type: ignore[arg-type]


class Networks:
    """One network at a time: six brokers are enough for two cores."""

    def __init__(self, folder: Callable[[str], Path]) -> None:
        self.folder = folder
        self.name = ""
        self.stack = ExitStack()
        self.supervisor: Supervisor | None = None

    def get(self, name: str) -> Supervisor:
        if name != self.name or self.supervisor is None:
            self.stack.close()
            self.name = name
            self.supervisor = self.stack.enter_context(
                running(network_of(NETWORKS[name](), SETTINGS.get(name)), self.folder(name))
            )
            joined(self.supervisor)
        return self.supervisor


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Networks]:
    found = Networks(lambda name: tmp_path_factory.mktemp(name))
    with found.stack:
        yield found


@pytest.fixture(scope="session", params=PLACES)
def place(request: pytest.FixtureRequest, networks: Networks) -> Place:
    name, _, where = request.param.partition("-")
    supervisor = networks.get(name)
    topology = NETWORKS[name]()
    seats = {seat.id: seat.port for seat in supervisor.network.brokers}
    hops = {(a, b): far for a in seats for b, far in topology.hops_from(a).items()}
    first, last = max(hops, key=lambda pair: hops[pair])
    if where == "same":
        last = first
    others = [port for broker, port in seats.items() if broker not in (first, last)]
    ports = [seats[first], *others, *([seats[last]] if last != first else [])]
    return Place(supervisor, seats[first], seats[last], ports)
