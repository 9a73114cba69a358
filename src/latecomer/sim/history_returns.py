"""A store returns, and is asked at once: the end of some lives of late subscribers.

The store is cut off until it is in nobody's tree, while much is published that others now keep for it. When it is back,
a client of every other broker subscribes the moment its broker has a tree again: the request may reach the store before
what it is owed does, and what it is owed comes to the clients in no other way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.history_ledger import PastWish, Stretch
from latecomer.sim.mqtt_clients import MqttClient, MqttClients, Publication
from latecomer.sim.sides import Observer
from latecomer.sim.store import known_topic_matches
from latecomer.sim.world import World

EVENTS = 12
"""Published at each broker."""
NEAR_US = 100
"""How far the clients are from their brokers: the way of a request should not be longer than it must."""
ALL = Stretch()
AFTER_US = 1_000_000


@dataclass(slots=True)
class Returns(Observer):
    """An observer of its world, for the moment when trees are ready."""

    world: World
    random: Random
    clients: MqttClients
    say: Callable[[str], None]
    readers: dict[BrokerId, MqttClient] = field(default_factory=dict)
    """Who waits for its broker to have a tree again."""
    store: BrokerId = ""
    topics: str = ""
    back_at: Instant = 0
    asked: int = 0
    """How many clients have asked at such a moment."""

    def play(self, topics: tuple[str, ...]) -> None:
        """Let it happen to one of the stores; of these topics some are published."""
        random, world = self.random, self.world
        keepers = [id for id, node in world.nodes.items() if node.topics and node.core is not None]
        if not keepers:
            return
        self.store = random.choice(keepers)
        self.topics = random.choice(world.nodes[self.store].topics)
        away_us = world.settings.hold_us + random.choice((300_000, AFTER_US))
        self.back_at = world.now + away_us
        self.say(f"fault: the store {self.store} is cut off for {away_us} us, and asked for {self.topics} when back")
        world.partition([self.store], away_us)
        kept = [topic for topic in topics if known_topic_matches(self.topics, topic)]
        for broker in [broker for broker in world.nodes if broker != self.store]:
            author, reader = MqttClient(f"author-{broker}", broker), MqttClient(f"reader-{broker}", broker, expiry_s=0)
            for client in (author, reader):
                self.clients.join(client)
            self.readers[broker] = reader
            for number in range(EVENTS):
                at = world.now + away_us // 2 + number * away_us // (4 * EVENTS)
                world.at(at, self._publish, author, random.choice(kept), random.choice((1, 2)))
        world.run(self.back_at + AFTER_US)
        self.readers.clear()

    def _publish(self, author: MqttClient, topic: str, qos: int) -> None:
        author.published += 1
        publication = Publication(f"{author.id}:{author.published}", author.id, author.published, topic, qos)
        self.clients.publish(author, publication)

    def noted(self, record: Record) -> None:
        if record.kind is Kind.TREE_READY and record.broker in self.readers and self.world.now >= self.back_at:
            core = self.world.nodes[record.broker].core
            if core is not None and core.interest.tree is not None and self.store in core.interest.tree.parent:
                self._ask(self.readers.pop(record.broker))

    def _ask(self, reader: MqttClient) -> None:
        self.asked += 1
        if reader.pipe is not None:
            reader.pipe.latency_us = NEAR_US
        wish = PastWish(self.topics, Filter(self.topics), 1, past=ALL.options(), stretch=ALL)
        self.clients.subscribe(reader, wish)
