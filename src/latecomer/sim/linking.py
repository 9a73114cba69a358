"""Links and brokers that come and go while a network runs: what its operators do, drawn by chance.

Each end of a link is told by itself, perhaps while the other is dead, long before it, or never; what an end was told
survives its crashes, as the runtime keeps it beside the data. Brokers join with links to some others, and guests among
them leave again: their links are taken away one by one, they die, and those who are there are told to forget them.
When faults are taken back, every link has two ends or none, and everybody can be reached.

Chance comes from a generator of its own, so that a life without this is what it was before there was any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, TypeVar

import msgspec

from latecomer.core.inputs import ForgetWanted, NeighbourAdded, NeighbourRemoved
from latecomer.model.ids import BrokerId
from latecomer.model.topology import Link
from latecomer.sim.disk import Disk
from latecomer.sim.network import Wire
from latecomer.sim.node import Node
from latecomer.sim.sides import Observer

if TYPE_CHECKING:
    from collections.abc import Callable

    from latecomer.sim.chaos import Faults
    from latecomer.sim.clients import SimClients
    from latecomer.sim.world import World

F = TypeVar("F", bound="Faults")

BROKERS_MAX = 3
"""So many join in one life."""
SECOND_US = 1_000_000
AGAIN_US = 50_000
LATER_US = (0, 0, 1_000, 30_000, 300_000, SECOND_US, 3 * SECOND_US)
"""How much later the second end of a link may be told."""


def with_links(chaos: F, seed: int, links: bool, *, settlers: bool = True) -> F:
    """A life, which has changing links if it is to have them."""
    if links:
        plain = getattr(chaos, "plain", None)  # some lives have such clients
        chaos.linking = Linking(chaos.world, chaos.brokers, chaos._say, Random(f"{seed} links"), plain, settlers)
    return chaos


@dataclass(slots=True)
class Linking(Observer):
    """What operators do to the links of one life."""

    world: World
    brokers: list[BrokerId]
    """Those that clients and faults may choose; some of those that join become one of them."""
    say: Callable[[str], None]
    random: Random
    plain: SimClients | None
    """Clients of which every broker has one, in some lives."""
    settlers: bool = True
    """Whether some of those that join take part in everything from then on; otherwise all of them are guests."""
    guests: list[BrokerId] = field(default_factory=list)
    """Brokers that joined, and will leave again."""
    joined: int = 0
    settings: dict[BrokerId, dict[BrokerId, int]] = field(init=False)
    """What every broker would go back to if it lost what stands beside its data."""
    _period: int = 0
    """Grows when faults are taken back: what was planned before no longer happens."""

    def __post_init__(self) -> None:
        self.settings = {id: dict(node.neighbours) for id, node in self.world.nodes.items()}
        self.world.on_heal = self.settle
        self.world.observe(self)

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None:
        if not keeps_disk:
            self.world.nodes[broker].neighbours = dict(self.settings[broker])

    def stir(self) -> None:
        """A fault has happened: perhaps an operator changes something, then or soon."""
        if self.random.random() < 0.7:
            what = self.random.choice((self._link, self._unlink, self._unlink, self._join, self._leave))
            self._later(self.random.choice((0, 0, 1_000, 100_000, SECOND_US)), what)

    def _later(self, wait_us: int, what: Callable[..., None], *arguments: object) -> None:
        self.world.at(self.world.now + wait_us, self._now, self._period, what, arguments)

    def _now(self, period: int, what: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if period == self._period:
            what(*arguments)

    # -- links -------------------------------------------------------------------------------------------------------

    def _link(self) -> None:
        a, b = self._two()
        cost_us = self.random.choice((100, 1_000, 1_000, 10_000))
        self._both(self.add, a, b, cost_us)

    def _unlink(self) -> None:
        links = [link for link in self.world.topology.links if link.b in self.world.nodes[link.a].neighbours]
        if links:
            link = self.random.choice(links)
            self._both(self.remove, link.a, link.b)

    def _both(self, what: Callable[..., None], a: BrokerId, b: BrokerId, *more: object) -> None:
        """Tell one end, and the other a little later, or never."""
        first, second = (a, b) if self.random.random() < 0.5 else (b, a)
        what(first, second, *more)
        if self.random.random() < 0.9:
            self._later(self.random.choice(LATER_US), what, second, first, *more)

    def _two(self) -> tuple[BrokerId, BrokerId]:
        a, b = self.random.sample([*self.brokers, *self.guests], 2)
        return a, b

    def add(self, broker: BrokerId, peer: BrokerId, cost_us: int) -> None:
        """One broker is told of a neighbour; a dead one cannot be."""
        world = self.world
        if peer not in world.nodes or not self._lives(broker):
            return
        self.say(f"{broker} is told that {peer} is its neighbour")
        self._give(broker, peer, cost_us)
        world.tell(broker, NeighbourAdded(peer, cost_us))
        world.attempt_soon(world.wires[broker, peer], 0)

    def _give(self, broker: BrokerId, peer: BrokerId, cost_us: int) -> None:
        """What stands beside the broker's data."""
        world = self.world
        world.nodes[broker].neighbours[peer] = cost_us
        if (broker, peer) not in world.wires:
            like = next(iter(world.wires.values()))
            wire = Wire(broker, peer, like.latency_us, like.jitter_us, like.jitter_shape)
            world.wires[broker, peer] = world.wires[peer, broker] = wire
            links = (*world.topology.links, Link(broker, peer, like.latency_us))
            world.topology = msgspec.structs.replace(world.topology, links=links)

    def remove(self, broker: BrokerId, peer: BrokerId) -> None:
        """One broker is told that another is no neighbour of it any more."""
        if self._lives(broker) and self.world.nodes[broker].neighbours.pop(peer, None) is not None:
            self.say(f"{broker} is told that {peer} is its neighbour no more")
            self.world.tell(broker, NeighbourRemoved(peer))

    def _lives(self, broker: BrokerId) -> bool:
        node = self.world.nodes.get(broker)
        return node is not None and node.core is not None

    # -- brokers -----------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """A new broker, with links to some. It starts before they are told, after, or in between."""
        if self.joined >= BROKERS_MAX:
            return
        self.joined += 1
        world, random = self.world, self.random
        id = f"new{self.joined}"
        hosts = random.sample(self.brokers, min(len(self.brokers), random.choice((1, 1, 2, 3))))
        guest = random.random() < 0.6 or not self.settlers
        self.say(f"{id} joins{' for a while' if guest else ''}, beside {' '.join(hosts)}")
        world.nodes[id] = Node(id, {}, disk_us=world.disk_us, disk=Disk(store=world.new_store()))
        for host in hosts:
            self._give(id, host, 1_000)
        self.settings[id] = dict(world.nodes[id].neighbours)
        (self.guests if guest else self.brokers).append(id)
        if not guest and self.plain is not None:
            self.plain.join(f"p{id}", id)
        for host in hosts:
            self._later(random.choice(LATER_US), self.add, host, id, 1_000)
        self._later(random.choice(LATER_US), self._start, id)
        if random.random() < 0.2:  # told, and killed in the same moment
            self._later(random.choice(LATER_US), self._kill, random.choice((id, *hosts)))

    def _start(self, id: BrokerId) -> None:
        if id in self.world.nodes:
            self.world.start(id)

    def _kill(self, id: BrokerId) -> None:
        if self._lives(id):
            self.say(f"{id} is killed")
            self.world.crash(id, silently=self.random.random() < 0.3)
            self._later(self.random.choice(LATER_US), self._start, id)

    def _leave(self) -> None:
        leaving = [id for id in self.guests if not self.world.nodes[id].topics]  # nobody lets a store go like this
        if leaving:
            id = self.random.choice(leaving)
            self.guests.remove(id)
            self.say(f"{id} leaves")
            for host in [broker for broker, node in self.world.nodes.items() if id in node.neighbours]:
                self._later(self.random.choice(LATER_US[:5]), self.remove, host, id)
            self._later(400_000, self._retire, id)

    def _retire(self, id: BrokerId) -> None:
        """It is gone for good, and everybody is told to forget it."""
        world = self.world
        world.crash(id, silently=self.random.random() < 0.5)
        del world.nodes[id]
        for pair in [pair for pair in world.wires if id in pair]:
            world.wires[pair].attempt_at = None
        links = tuple(link for link in world.topology.links if id not in (link.a, link.b))
        world.topology = msgspec.structs.replace(world.topology, links=links)
        for broker, node in world.nodes.items():
            self.remove(broker, id)
            node.neighbours.pop(id, None)
        self._forget(id)

    def _forget(self, gone: BrokerId) -> None:
        """Tell somebody who waits for it, again if need be: word of it may be lost when all crash who have heard it."""
        world = self.world
        cores = [node.core for node in world.nodes.values() if node.core is not None]
        waiting = [core for core in cores if gone in core.membership.link_states.absent_since]
        if waiting:
            self.say(f"{waiting[0].id} is told to forget {gone}")
            world.tell(waiting[0].id, ForgetWanted(gone))
        known = [core for core in cores if gone in core.membership.link_states.states]
        if len(cores) < len(world.nodes) or any(gone in core.membership.members for core in known):
            world.at(world.now + AGAIN_US, self._forget, gone)

    # -- when faults are taken back ------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Every link gets its other end or loses the one it has; links without which somebody is cut off come back."""
        self._period += 1
        world = self.world
        for node in world.nodes.values():
            node.starting = False  # it is started anew, with the neighbours that it will have
        for link in world.topology.links:
            for broker, peer in ((link.a, link.b), (link.b, link.a)):
                self._match(broker, peer)
        for link in world.topology.links:
            a, b = world.nodes[link.a], world.nodes[link.b]
            if b.id not in self._reached(a.id):
                self._match(a.id, b.id, wanted=True)
                self._match(b.id, a.id, wanted=True)

    def _match(self, broker: BrokerId, peer: BrokerId, *, wanted: bool = False) -> None:
        """One end becomes what the other is; the end that is there is told."""
        world = self.world
        node, other = world.nodes[broker], world.nodes[peer]
        if peer in node.neighbours and broker not in other.neighbours and not wanted and self.random.random() < 0.5:
            self.remove(broker, peer)
            node.neighbours.pop(peer, None)
        elif peer not in node.neighbours and (wanted or broker in other.neighbours):
            cost_us = other.neighbours.get(broker, 1_000)
            self.add(broker, peer, cost_us)
            self._give(broker, peer, cost_us)
            world.attempt_soon(world.wires[broker, peer], 0)

    def _reached(self, start: BrokerId) -> dict[BrokerId, None]:
        """Whom a broker can reach over links with two ends."""
        reached, nodes = {start: None}, self.world.nodes
        waiting: list[BrokerId] = [start]
        while waiting:
            broker = waiting.pop()
            for peer in nodes[broker].neighbours:
                if peer not in reached and broker in nodes[peer].neighbours:
                    reached[peer] = None
                    waiting.append(peer)
        return reached
