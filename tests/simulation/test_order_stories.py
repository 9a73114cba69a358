"""A store that began in mid-stream, and an origin that dies while it owes the earlier events to another store.

b1 keeps the topics from the beginning and is cut off, which nobody knows yet. b3 accepts an event, b2 is told to keep
the topics, b3 accepts another event and dies. So b2 has the later event, and both stores lack the earlier one.
"""

from __future__ import annotations

from random import Random

import pytest

from latecomer.core.session.limits import NEVER_S
from latecomer.core.settings import SECOND_US, BrokerSettings
from latecomer.messages.mqtt import V5
from latecomer.model import topology_generators as generators
from latecomer.model.filters import parse_filter
from latecomer.sim.history_ledger import Episode, HistoryLedger, PastWish, Stretch
from latecomer.sim.mqtt_clients import MqttClient, MqttClients, Publication
from latecomer.sim.world import World

TOPICS = "t/#"
AWAY = "events of b3, which is away, come when it is back"


class Network:
    """Three brokers in a line, up to the death of the origin."""

    def __init__(self, *, forget_us: int = 3600 * SECOND_US) -> None:
        settings = BrokerSettings(replica_us=3 * SECOND_US, forget_us=forget_us)
        self.world = World(generators.line(3, latency_us=1_000), settings, Random(1))
        self.world.now = 1_000 * SECOND_US
        self.ledger = HistoryLedger(self.world)
        self.clients = MqttClients(self.world, self.ledger)
        self.ledger.resent, self.ledger.overtaken = self.clients.resent, self.clients.overtaken
        self.world.observe(self.ledger, self.clients)
        self.world.assign("b1", (TOPICS,))
        self.world.start_all()
        self.wait(2)
        self.publisher = self.join("publisher", "b3")
        self.publish()  # 1: both brokers have it
        self.wait(1)
        self.world.break_wire("b1", "b2", 3 * SECOND_US, silently=True)
        self.publish()  # 2: on its way to b1
        self.world.assign("b2", (TOPICS,))
        self.wait(0.1)
        self.publish()  # 3: b2 keeps it
        self.world.crash("b3")

    def wait(self, seconds: float) -> None:
        self.world.run(self.world.now + int(seconds * SECOND_US))

    def join(self, name: str, broker: str) -> MqttClient:
        client = MqttClient(name, broker, V5, NEVER_S)
        self.clients.join(client)
        self.wait(0.1)
        return client

    def publish(self) -> None:
        publisher = self.publisher
        publisher.published += 1
        token = f"{publisher.id}:{publisher.published}"
        self.clients.publish(publisher, Publication(token, publisher.id, publisher.published, "t/1", 1, value=1))
        self.wait(0.1)

    def ask(self, broker: str, name: str = "late") -> Episode:
        """Somebody subscribes there and asks for everything."""
        client, stretch = self.join(name, broker), Stretch()
        self.clients.subscribe(
            client, PastWish(TOPICS, parse_filter(TOPICS), 1, past=stretch.options(), stretch=stretch)
        )
        self.wait(2)
        return self.ledger.episodes[name, TOPICS][-1]

    def stored(self, broker: str) -> list[int]:
        return sorted(event.id.seq for event in self.world.nodes[broker].disk.store.events.values())

    def judge(self) -> None:
        self.ledger.judge()
        assert not self.ledger.violations, self.ledger.violations


def numbers(episode: Episode) -> list[int]:
    return [int(arrival.token.rpartition(":")[2]) for arrival in episode.arrivals]


@pytest.mark.parametrize("away_s", [8, 30, 400])
def test_whoever_asks_meanwhile_gets_the_events_of_the_origin_in_order_when_it_is_back(away_s: int) -> None:
    network = Network()
    network.wait(away_s)
    episode = network.ask("b1")
    assert episode.marker is not None
    assert (numbers(episode), episode.marker.complete, episode.marker.problem) == ([1], False, AWAY)
    network.world.start("b3")
    network.wait(20)
    network.publish()
    assert numbers(episode) == [1, 2, 3, 4]
    network.judge()


@pytest.mark.parametrize("away_s", [8, 30, 400])
def test_a_store_that_has_only_the_later_event_does_not_claim_to_have_everything(away_s: int) -> None:
    """Its broker had the earlier event, so a client there does not get it when the origin is back."""
    network = Network()
    network.wait(away_s)
    episode = network.ask("b2")
    assert episode.marker is not None
    assert 2 not in numbers(episode)
    earlier_us = network.ledger.accepted_at["publisher:2"]
    assert not episode.marker.complete or episode.marker.from_us > earlier_us
    network.world.start("b3")
    network.wait(20)
    network.judge()


def test_when_the_origin_is_back_both_stores_have_and_claim_everything() -> None:
    network = Network()
    network.wait(30)
    network.world.start("b3")
    network.wait(20)
    for broker in ("b1", "b2"):
        episode = network.ask(broker, f"late at {broker}")
        assert episode.marker is not None
        assert (numbers(episode), episode.marker.complete, episode.marker.from_us) == ([1, 2, 3], True, 1)
        assert episode.marker.stores == (broker,)
    network.judge()


def test_nothing_is_lost_when_the_disk_burns_that_has_the_later_event() -> None:
    network = Network()
    network.wait(30)
    network.world.crash("b2", keeps_disk=False)
    network.wait(5)
    for broker in ("b2", "b3"):
        network.world.start(broker)
    network.wait(30)
    assert network.stored("b1") == network.stored("b2") == [1, 2, 3]
    episode = network.ask("b2")
    assert episode.marker is not None
    assert (numbers(episode), episode.marker.complete) == ([1, 2, 3], True)
    network.judge()


def test_when_the_disk_of_the_origin_burns_the_later_event_is_not_lost() -> None:
    network = Network()
    network.wait(30)
    network.world.nodes["b3"].disk.tables.clear()
    network.world.start("b3")
    network.wait(30)
    assert network.stored("b1") == network.stored("b2") == [1, 3]


def test_when_the_origin_is_forgotten_the_other_store_takes_the_later_event() -> None:
    network = Network(forget_us=60 * SECOND_US)
    network.wait(30)
    assert network.stored("b1") == [1]
    network.wait(60)
    assert network.stored("b1") == network.stored("b2") == [1, 3]
