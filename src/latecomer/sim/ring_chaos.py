"""Lives of networks that route by rendezvous: the same clients, faults and promises as in all others, while brokers
change their positions on the ring."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

import msgspec

from latecomer.core.inputs import RepositionWanted
from latecomer.core.routing import Rendezvous
from latecomer.core.settings import BrokerSettings
from latecomer.model.filters import parse_filter
from latecomer.model.ids import BrokerId
from latecomer.model.ring import BITS, point_of
from latecomer.model.slots import SLOTS
from latecomer.model.topology import Link, Node, Topology
from latecomer.sim.chaos import SECOND_US, Life
from latecomer.sim.history_chaos import HistoryChaos
from latecomer.sim.mqtt_chaos import MqttChaos
from latecomer.sim.mqtt_clients import MqttClient, Publication, Wish
from latecomer.sim.reposition_chaos import _RepositionChaos
from latecomer.sim.transcript import Transcript
from latecomer.sim.wander_chaos import WanderChaos
from latecomer.sim.world import World

MESHED = 0.75
"""How likely brokers have all the links that a ring may need."""
WHEELS = 0.25
"""How likely MQTT brokers stand around a hub."""
LISTENERS = 20
"""Subscriptions to topics of their own, in each round there."""
PATIENCE_US = 3 * SECOND_US
"""Of clients whose sessions move; at least."""
SWITCHING_US = 25 * SECOND_US
"""Proposals come until then."""


class RingDraw:
    """What makes a network one that routes by rendezvous; drawn apart, so that all else is as without."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"{seed} ring")
        self.wheeled = False
        self.more = Random(f"{seed} more ring")
        """What was added later is drawn from here, so that the rest of a life stays as it was."""

    def topology(self, drawn: Topology) -> Topology:
        """Mostly one in which every ring has its links; else rings exist only as long as chance has it."""
        if self.random.random() >= MESHED or len(drawn.nodes) > 12:
            return drawn
        latency_us = drawn.links[0].latency_us
        pairs = combinations(drawn.ids(), 2)
        links = tuple(Link(a, b, latency_us=latency_us) for a, b in pairs if self.random.random() < 0.97)
        whole = Topology(f"{drawn.name}, meshed", drawn.nodes, links)
        return whole if _connected(whole) else drawn

    def wheel(self, drawn: Topology) -> Topology:
        """Sometimes one in which the agreed tree is flat and the trees of the ring are deep: links from a hub to all,
        and around the ring. Whatever must wait for a root is not saved there by waiting for the agreed tree."""
        if self.more.random() >= WHEELS:
            return drawn
        self.wheeled = True
        latency_us = drawn.links[0].latency_us
        nodes = tuple(Node(f"b{number}") for number in range(1, self.more.randint(6, 8) + 1))
        around = sorted((node.id for node in nodes), key=point_of)
        hub = self.more.choice(around)
        pairs = {tuple(sorted(pair)): None for pair in [*pairwise([*around, around[0]]), *((hub, b) for b in around)]}
        links = tuple(Link(a, b, latency_us=latency_us) for a, b in pairs if a != b)
        return Topology(f"wheel of {len(nodes)}", nodes, links)

    def settings(self, drawn: BrokerSettings) -> BrokerSettings:
        random = self.random
        pins = {name: random.randrange(SLOTS) for name in ("a", "b", "x") if random.random() < 0.2}
        routing = Rendezvous(random.random() < 0.7, random.choice((1, 1, 2)), pins, drawn.routing.root)
        patience_us = random.choice((300_000, SECOND_US, 3 * SECOND_US))
        return msgspec.structs.replace(drawn, routing=routing, reposition_us=patience_us)

    def disturb(self, world: World, brokers: list[BrokerId]) -> None:
        """Brokers are to stand elsewhere, now and then."""
        for _ in range(self.random.choice((0, 1, 3, 6))):
            moved = self.random.sample(brokers, self.random.randint(1, len(brokers)))
            places = tuple(zip(moved, self.random.sample(range(1 << BITS), len(moved)), strict=True))
            broker, at = self.random.choice(brokers), self.random.randrange(SWITCHING_US)
            world.at(world.now + at, world.tell, broker, RepositionWanted(places))


def _connected(topology: Topology) -> bool:
    beside: dict[BrokerId, list[BrokerId]] = {broker: [] for broker in topology.ids()}
    for link in topology.links:
        beside[link.a].append(link.b)
        beside[link.b].append(link.a)
    found = {topology.ids()[0]: None}
    for broker in (todo := list(found)):
        for other in beside[broker]:
            if other not in found:
                found[other] = None
                todo.append(other)
    return len(found) == len(beside)


class RingChaos(_RepositionChaos):
    """Plain clients, and faults at every frame of a proposal."""

    unready = 0.0

    def __init__(self, seed: int, transcript: Transcript | None) -> None:
        self.ring = RingDraw(seed)
        super().__init__(seed, transcript)

    def _draw(self, random: Random) -> tuple[Topology, BrokerSettings]:
        topology, settings = super()._draw(random)
        return topology, self.ring.settings(settings)


class RingMqttChaos(MqttChaos):
    def __init__(self, seed: int, transcript: Transcript | None) -> None:
        self.ring = RingDraw(seed)
        self.listeners: list[MqttClient] = []
        self.fresh = 0
        super().__init__(seed, transcript)

    def _draw_topology(self) -> Topology:
        return self.ring.wheel(self.ring.topology(super()._draw_topology()))

    def _draw_settings(self, topology: Topology) -> BrokerSettings:
        return self.ring.settings(super()._draw_settings(topology))

    def run(self) -> Life:
        self.ring.disturb(self.world, self.brokers)
        return super().run()

    def _stir(self, span: int) -> None:
        """Around a hub, somebody wants a topic that nobody has wanted, again and again. Where subscriptions are waited
        for, somebody publishes in it as soon as they are there (`_granted`)."""
        super()._stir(span)
        if not self.ring.wheeled:
            return
        if not self.listeners:
            self.listeners = [MqttClient(f"l-{broker}", broker) for broker in self.brokers]
            for client in self.listeners:
                self.clients.join(client)
        for _ in range(LISTENERS):
            self.world.at(self.world.now + self.ring.more.randrange(span), self._listen)

    def _listen(self) -> None:
        client = self.ring.more.choice(self.listeners)
        if client.online:
            self.fresh += 1
            text = f"fresh{self.fresh}/x"
            self.clients.subscribe(client, Wish(text, parse_filter(text), 2))

    def _granted(self, client: MqttClient, wish: Wish) -> None:
        super()._granted(client, wish)
        if wish.text.startswith("fresh"):
            publisher = self.ring.more.choice(self.listeners)
            publisher.published += 1
            token, number = f"{publisher.id}:{publisher.published}", publisher.published
            self.clients.publish(publisher, Publication(token, publisher.id, number, wish.text, 2))


class RingWanderChaos(WanderChaos):
    def __init__(self, seed: int, transcript: Transcript | None) -> None:
        self.ring = RingDraw(seed)
        super().__init__(seed, transcript)

    def _draw_topology(self) -> Topology:
        return self.ring.topology(super()._draw_topology())

    def _draw_settings(self, topology: Topology) -> BrokerSettings:
        """Hand-overs wait for flushes as well, and for twice as many rounds until a tree has settled."""
        settings = self.ring.settings(super()._draw_settings(topology))
        patience_us = max(settings.hand_over.patience_us, PATIENCE_US)
        hand_over = msgspec.structs.replace(settings.hand_over, patience_us=patience_us)
        return msgspec.structs.replace(settings, hand_over=hand_over)

    def run(self) -> Life:
        self.ring.disturb(self.world, self.brokers)
        return super().run()


class RingHistoryChaos(HistoryChaos):
    def __init__(self, seed: int, transcript: Transcript | None, *, travelling: bool = False) -> None:
        self.ring = RingDraw(seed)
        super().__init__(seed, transcript, travelling=travelling)

    def _draw(self) -> tuple[Topology, BrokerSettings]:
        topology, settings = super()._draw()
        return self.ring.topology(topology), self.ring.settings(settings)

    def run(self) -> Life:
        self.ring.disturb(self.world, self.brokers)
        return super().run()


def live_ring(seed: int, transcript: Transcript | None = None) -> Life:
    return RingChaos(seed, transcript).run()


def live_ring_mqtt(seed: int, transcript: Transcript | None = None) -> Life:
    return RingMqttChaos(seed, transcript).run()


def live_ring_wander(seed: int, transcript: Transcript | None = None) -> Life:
    return RingWanderChaos(seed, transcript).run()


def live_ring_history(seed: int, transcript: Transcript | None = None) -> Life:
    return RingHistoryChaos(seed, transcript).run()


def live_ring_travel(seed: int, transcript: Transcript | None = None) -> Life:
    return RingHistoryChaos(seed, transcript, travelling=True).run()
