"""Every connected network of the Topology Zoo: subscriptions flood, everybody publishes, everything arrives exactly
once; then the root of the agreed tree dies for good, and those who can still reach one another do.

Every broker has a subscriber, always. On networks below `SMALL` brokers every broker publishes, before the death and
after it; on the larger ones `SAMPLE` of them do, spread over the network. The routing strategies take turns.

The data is not part of the repository, see tests/unit/test_topology_data.py: without it these tests are skipped, and
with LATECOMER_TEST_ALL=1 they fail.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

import pytest

from latecomer.core.broker import Broker
from latecomer.core.routing import Forwarding, Hierarchy, Routing
from latecomer.core.settings import BrokerSettings
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId, ClientId
from latecomer.model.topology import Topology
from latecomer.model.topology_formats import parse_jsonl
from latecomer.sim.checkers import Agreement, Promises, check_bounds
from latecomer.sim.clients import SimClients
from latecomer.sim.world import World

NETWORKS = 243
BLOCKS = 16
QUICK = BLOCKS - 1
"""The block that is not long: the sizes of its networks are spread like the others', without the largest."""
SMALL = 60
SAMPLE = 12
LIVENESS_US = 15_000_000
ROUTINGS: tuple[Routing, ...] = (
    Forwarding(),
    Hierarchy(),
    Forwarding(covering=False),
    Hierarchy(covering=False, advertisements=True),
    Forwarding(advertisements=True),
)
FILTERS = tuple(map(Filter, ("#", "zoo/#", "zoo/+", "+/+")))
"""Everybody wants everything, and says so in different words."""


@cache
def zoo() -> list[Topology]:
    """Largest first, so that the blocks are even."""
    repository = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("LATECOMER_SHARED_DATA") or repository.parent / "shared" / "data")
    path = folder / "topologies" / "topology_zoo.jsonl"
    if not path.is_file():
        told = f"{path} is not there; set LATECOMER_SHARED_DATA to the folder of the shared data"
        if os.environ.get("LATECOMER_TEST_ALL") == "1":
            pytest.fail(told)
        pytest.skip(told)
    networks = parse_jsonl(path.read_text(encoding="utf-8"), path.name)
    connected = [network for network in networks if network.is_connected()]
    return sorted(connected, key=lambda network: (-len(network.nodes), network.name))


@dataclass(slots=True)
class PartAgreement(Agreement):
    """The agreement of those who can reach one another."""

    brokers: Sequence[BrokerId] = ()

    def _cores(self) -> dict[BrokerId, Broker]:
        found = {broker: self.world.nodes[broker].core for broker in self.brokers}
        return {broker: core for broker, core in found.items() if core is not None}


@dataclass(slots=True)
class PartPromises(Promises):
    """What is promised among the clients of one part: to the others nothing is, while they are cut off."""

    members: dict[ClientId, None] = field(default_factory=dict)

    def accepted(self, client: ClientId, event: Event) -> None:
        if client in self.members:
            Promises.accepted(self, client, event)

    def received(self, client: ClientId, event: Event) -> None:
        if client in self.members:
            Promises.received(self, client, event)


class Network:
    """One network of the zoo, with a client called as its broker at every broker."""

    def __init__(self, topology: Topology, routing: Routing) -> None:
        self.topology = topology
        self.world = World(topology, BrokerSettings(routing=routing), Random(0))
        self.whole = Promises(self.world)
        self.world.observe(self.whole)
        self.clients = SimClients(self.world, [self.whole])
        self.world.start_all()
        for position, broker in enumerate(topology.ids()):
            self.clients.join(broker, broker)
            self.clients.subscribe(broker, FILTERS[position % len(FILTERS)])
            if routing.advertisements:
                self.clients.advertise(broker, Filter("zoo/#"))

    def become_quiet(self, part: PartAgreement, promises: Promises) -> None:
        world = self.world
        end = world.now + LIVENESS_US
        while not (part.quiet() and promises.outstanding() == 0):
            assert world.now < end, f"{self.topology.name}: not quiet, {promises.outstanding()} deliveries are missing"
            world.run(world.now + 100_000)

    def check_part(self, brokers: Sequence[BrokerId]) -> None:
        """Tables agree, and whatever one of these publishes reaches each of them once."""
        agreement = PartAgreement(self.world, self.clients, brokers)
        promises = PartPromises(self.world, members=dict.fromkeys(brokers))
        self.become_quiet(agreement, promises)
        agreement.check(promises)
        for broker in brokers:
            for filter in self.clients.clients[broker].subscriptions:
                promises.subscribed(broker, filter)
                promises._of(broker).settled[filter] = None
        self.clients.witnesses.append(promises)
        publishers = brokers if len(brokers) < SMALL else brokers[:: len(brokers) // SAMPLE]
        for broker in publishers:
            self.clients.publish(broker, "zoo/news")
        self.become_quiet(agreement, promises)
        self.clients.witnesses.remove(promises)
        promises.check_all_delivered()
        check_bounds(self.world, promises)
        assert [*map(str, promises.violations), *map(str, self.whole.violations)] == [], self.topology.name
        assert promises.accepted_count == len(publishers)
        assert promises.deliveries == len(publishers) * len(brokers)

    def root(self) -> BrokerId:
        core = self.world.nodes[self.topology.nodes[0].id].core
        assert core is not None
        assert core.interest.tree is not None
        return core.interest.tree.root


def check_network(topology: Topology, routing: Routing) -> None:
    network = Network(topology, routing)
    network.check_part(topology.ids())
    dead = network.root()
    network.world.crash(dead, keeps_disk=False)
    parts = topology.without(dead).components()
    assert sum(map(len, parts)) == len(topology.nodes) - 1
    for part in parts:
        network.check_part(part)


@pytest.mark.parametrize("block", [*(pytest.param(block, marks=pytest.mark.long) for block in range(QUICK)), QUICK])
def test_everything_arrives_and_a_death_does_not_stop_the_rest(block: int) -> None:
    networks = zoo()
    assert len(networks) == NETWORKS
    for position in range(block, NETWORKS, BLOCKS):
        check_network(networks[position], ROUTINGS[position % len(ROUTINGS)])
