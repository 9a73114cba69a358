"""Late subscribers that move while their history is being replayed: the end of some lives.

A store has something to tell, and readers ask for all of it. They take their time, so that the replay is under way when
they leave for another broker, perhaps several times; meanwhile more is published, connections break, and a broker dies.
The ledger does not care where a reader is: everything comes once, in order, and the end of history is told once. Only a
reader that was given a new session, because nobody in reach knew of its own, may get again, late, what waited there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from latecomer.core.session.limits import NEVER_S
from latecomer.messages.mqtt import V5, V311, Disconnect
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId
from latecomer.sim.history_ledger import HistoryLedger, PastWish, Stretch
from latecomer.sim.mqtt_clients import MqttClient, MqttClients, Publication
from latecomer.sim.store import known_topic_matches
from latecomer.sim.wander_clients import REFUSALS
from latecomer.sim.world import World

SPAN_US = 3_000_000
ALL = Stretch()


@dataclass(slots=True)
class Travels:
    """Readers on their way."""

    world: World
    random: Random
    clients: MqttClients
    ledger: HistoryLedger
    say: Callable[[str], None]
    moves: int = 0
    """How often a reader left for another broker."""
    under_way: int = 0
    """How often its history had not ended then."""
    authors: list[MqttClient] = field(default_factory=list)

    def play(self, topics: tuple[str, ...]) -> None:
        """Readers ask one of the stores, and travel."""
        random, world = self.random, self.world
        keepers = [id for id, node in world.nodes.items() if node.topics and node.core is not None]
        if not keepers:
            return
        self.clients.expected = REFUSALS
        wanted = random.choice(world.nodes[random.choice(keepers)].topics)
        kept = [topic for topic in topics if known_topic_matches(wanted, topic)]
        for broker in random.sample(list(world.nodes), min(2, len(world.nodes))):
            self.authors.append(author := MqttClient(f"writer-{broker}", broker))
            self.clients.join(author)
        for number in range(random.choice((20, 60))):
            world.at(world.now + number * 10_000, self._publish, random.choice(kept))
        world.run(world.now + SPAN_US)
        for number in range(random.choice((1, 2, 3))):
            version = random.choice((V5, V5, V311))
            reader = MqttClient(f"traveller{number}", random.choice(list(world.nodes)), version, NEVER_S)
            reader.think_us = random.choice((2_000, 20_000, 50_000))
            self.ledger.travellers[reader.id] = 0
            self.clients.join(reader)
            self.clients.subscribe(reader, self._wish(reader, wanted))
            for _ in range(random.choice((1, 2, 3))):
                world.at(world.now + random.randrange(SPAN_US // 2), self._move, reader)
        for _ in range(random.choice((0, 10, 30))):
            world.at(world.now + random.randrange(SPAN_US // 2), self._publish, random.choice(kept))
        for _ in range(random.choice((0, 0, 1, 2))):
            world.at(world.now + random.randrange(SPAN_US // 2), self._crash)
        world.run(world.now + SPAN_US)

    def _wish(self, reader: MqttClient, topics: str) -> PastWish:
        qos, options = self.random.choice((1, 2)), ALL.options()
        if reader.version == V5:
            return PastWish(topics, Filter(topics), qos, past=options, stretch=ALL)
        text = f"$history/{','.join(f'{name}={value}' for name, value in options)}/{topics}"
        return PastWish(text, Filter(topics), qos, stretch=ALL)

    def _publish(self, topic: str) -> None:
        author = self.random.choice(self.authors)
        author.published += 1
        token = f"{author.id}:{author.published}"
        self.clients.publish(author, Publication(token, author.id, author.published, topic, self.random.choice((1, 2))))

    def _move(self, reader: MqttClient) -> None:
        """The reader leaves, with a goodbye or without, and connects elsewhere a moment later."""
        random = self.random
        core = self.world.nodes[reader.broker].core
        session = None if core is None else core.sessions.by_client.get(reader.id)
        self.moves += 1
        self.under_way += session is not None and session.past is not None
        self.clients.leave(reader, Disconnect() if random.random() < 0.5 else None)
        reader.broker = random.choice([broker for broker in self.world.nodes if broker != reader.broker])
        self.say(f"{reader.id} leaves for {reader.broker}")
        wait_us = random.choice((0, 2_000, 50_000, 400_000))
        self.world.at(self.world.now + wait_us, self.clients.come_back, reader)

    def _crash(self) -> None:
        broker: BrokerId = self.random.choice(list(self.world.nodes))
        time_us = self.random.choice((50_000, 300_000, 1_000_000))
        self.say(f"fault: {broker} dies for {time_us} us")
        self.world.crash(broker)
        self.world.at(self.world.now + time_us, self.world.start, broker)
