"""Many lives of the story of `test_order_stories`: a store begins in mid-stream, wires break, the origin dies.

All else is drawn: the tree, who is the origin and who are the stores, how long everything takes, which store dies and
whether its disk burns, whether the class moves, and where and when somebody asks for the past.
"""

from __future__ import annotations

from random import Random

import pytest

from latecomer.core.session.limits import NEVER_S
from latecomer.core.settings import SECOND_US, BrokerSettings
from latecomer.messages.mqtt import V5
from latecomer.model import topology_generators as generators
from latecomer.model.filters import parse_filter
from latecomer.model.topology import Topology
from latecomer.sim.checkers import Violation
from latecomer.sim.history_ledger import HistoryLedger, PastWish, Stretch
from latecomer.sim.mqtt_clients import MqttClient, MqttClients, Publication
from latecomer.sim.world import World

TOPICS = "t/#"
FOUND = (175, 246, 312)
"""An event came behind a later one, or never, and the marker had said that history was complete."""


class Life:
    """One of them."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        topology = _draw_topology(random)
        replica_us = random.choice((1, 3, 10)) * SECOND_US
        self.world = world = World(topology, BrokerSettings(replica_us=replica_us), random)
        world.now = 1_000 * SECOND_US
        self.ledger = HistoryLedger(world)
        self.clients = MqttClients(world, self.ledger)
        self.ledger.resent, self.ledger.overtaken = self.clients.resent, self.clients.overtaken
        world.observe(self.ledger, self.clients)
        self.brokers = list(topology.ids())
        self.old = random.choice(self.brokers)
        self.new = random.choice([broker for broker in self.brokers if broker != self.old])
        self.origin = random.choice([broker for broker in self.brokers if broker != self.old])
        self.publisher = MqttClient("p", self.origin, V5, NEVER_S)
        self.asked = 0

    def run(self) -> list[Violation]:
        world, random = self.world, self.random
        world.assign(self.old, (TOPICS,))
        world.start_all()
        self._wait(2)
        self.clients.join(self.publisher)
        if random.random() < 0.5:
            self._present()
        self._wait(1)
        self._publish()
        self._wait(0.3)
        self._begin_in_mid_stream()
        self._lose_the_origin()
        for _ in range(random.randint(1, 4)):
            self._something()
            self._wait(random.choice((0.5, 3, 12)))
        world.heal()
        for client in self.clients.clients.values():
            self.clients.come_back(client)
        self._wait(40)
        self._publish()
        self._wait(20)
        self.ledger.judge()
        self._ask(random.choice(self.brokers))
        self._wait(5)
        self.ledger.judge()
        return self.ledger.violations

    def _wait(self, seconds: float) -> None:
        self.world.run(self.world.now + int(seconds * SECOND_US))

    def _present(self) -> None:
        """Somebody is there from the beginning."""
        client = MqttClient("x", self.random.choice(self.brokers), V5, NEVER_S)
        self.clients.join(client)
        self._wait(0.1)
        topics = self.random.choice((TOPICS, "u/#", "#"))
        self.clients.subscribe(client, PastWish(topics, parse_filter(topics), 1))

    def _publish(self) -> None:
        self.publisher.published += 1
        seq, random = self.publisher.published, self.random
        topic = random.choice(("t/1", "t/1", "u/1"))
        self.clients.publish(self.publisher, Publication(f"p:{seq}", "p", seq, topic, random.choice((1, 2)), value=1))

    def _begin_in_mid_stream(self) -> None:
        random = self.random
        steps = [self._break, self._assign]
        for _ in range(random.randint(1, 3)):
            steps.insert(random.randrange(len(steps) + 1), self._publish)
        for step in steps + [self._publish] * random.randint(0, 2):
            step()
            self._wait(random.choice((0.001, 0.05, 0.3)))

    def _break(self) -> None:
        link = self.random.choice(self.world.topology.links)
        duration_us = self.random.choice((1, 3, 8)) * SECOND_US
        self.world.break_wire(link.a, link.b, duration_us, silently=self.random.random() < 0.8)

    def _assign(self) -> None:
        self.world.assign(self.new, (TOPICS,))

    def _lose_the_origin(self) -> None:
        world = self.world
        world.crash(self.origin)
        if self.random.random() < 0.3:  # it is alive, and cut off
            world.start(self.origin)
            self._wait(0.05)
            world.partition([self.origin], 20 * SECOND_US)
        self._wait(self.random.choice((1, 4, 8, 15)))

    def _something(self) -> None:
        dice = self.random.random()
        if dice < 0.5:
            self._ask(self.random.choice([id for id in self.brokers if self.world.nodes[id].core is not None]))
        elif dice < 0.65:
            store = self.random.choice((self.old, self.new))
            self.world.crash(store, keeps_disk=self.random.random() < 0.5)
            self._wait(self.random.choice((0.1, 3)))
            self.world.start(store)
        elif dice < 0.75:
            self._move()

    def _ask(self, broker: str) -> None:
        self.asked += 1
        client = MqttClient(f"late{self.asked}", broker, V5, NEVER_S)
        self.clients.join(client)
        self._wait(0.1)
        stretch = Stretch(last=self.random.choice((0, 0, 0, 2)))
        wish = PastWish(TOPICS, parse_filter(TOPICS), 1, past=stretch.options(), stretch=stretch)
        self.clients.subscribe(client, wish)

    def _move(self) -> None:
        """Withdraw the class from the old store, if the new one is as good."""
        claims = [self._claim(broker) for broker in (self.new, self.old)]
        if None not in claims and claims == sorted(claims, key=lambda claim: claim or 0):
            self.world.assign(self.old, ())

    def _claim(self, broker: str) -> int | None:
        core = self.world.nodes[broker].core
        if core is None or TOPICS not in core.advertisements.own:
            return None
        return core.history.directory.complete_since(broker, TOPICS)


def _draw_topology(random: Random) -> Topology:
    size = random.choice((3, 4, 5))
    if random.random() < 0.5:
        return generators.line(size, latency_us=1_000)
    return generators.random_tree(size, random, latency_us=1_000)


@pytest.mark.parametrize("seed", FOUND)
def test_a_life_that_failed_once_keeps_every_promise(seed: int) -> None:
    assert not Life(seed).run()


@pytest.mark.long
@pytest.mark.parametrize("block", range(4))
def test_nothing_is_lost_or_out_of_order(block: int) -> None:
    failed = {seed: violations[0] for seed in range(block * 150, block * 150 + 150) if (violations := Life(seed).run())}
    assert not failed
