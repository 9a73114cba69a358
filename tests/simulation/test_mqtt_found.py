"""What fault seeds of MQTT clients found in the core, each as the smallest story that shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from latecomer.core.broker import Broker
from latecomer.core.effects import Note, Persist, Transmit
from latecomer.core.inputs import Input, MqttConnected, MqttLost, MqttReceived, Started, Woken
from latecomer.core.session.limits import SessionLimits
from latecomer.core.settings import BrokerSettings
from latecomer.messages.link import Sharing
from latecomer.messages.mqtt import (
    Connack,
    Connect,
    Packet,
    Properties,
    Publish,
    Pubrec,
    Pubrel,
    Request,
    Subscribe,
    Will,
)
from latecomer.model import topology_generators as generators
from latecomer.model.event import Event
from latecomer.model.filters import Filter, parse_filter
from latecomer.model.record import Kind
from latecomer.sim.disk import Disk
from latecomer.sim.mqtt_checkers import Ledger
from latecomer.sim.mqtt_clients import MqttClient, MqttClients, Publication, Wish
from latecomer.sim.world import World

SECOND_US = 1_000_000


@dataclass
class Alone:
    """One broker with its disk, driven by hand."""

    limits: SessionLimits = field(default_factory=SessionLimits)
    neighbours: dict[str, int] = field(default_factory=dict)
    disk: Disk = field(default_factory=Disk)
    now: int = SECOND_US
    boot: int = 0
    connection: int = 0
    published: list[str] = field(default_factory=list)
    """Topics, as noted."""

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.boot += 1
        self.core = Broker("b", BrokerSettings(), self.neighbours, self.boot, self.disk.tables, limits=self.limits)
        self.step(Started())

    def step(self, fact: Input) -> list[Packet]:
        """What the client at hand is sent."""
        packets: list[Packet] = []
        for effect in self.core.step(self.now, fact):
            if isinstance(effect, Persist):
                self.disk.apply(effect.writes)
            elif isinstance(effect, Transmit) and effect.connection == self.connection:
                packets += effect.packets
            elif isinstance(effect, Note) and effect.record.kind is Kind.PUBLISHED:
                self.published.append(effect.record.topic)
        return packets

    def connect(self, client: str, *, expiry_s: int = 1000, will: Will | None = None) -> list[Packet]:
        self.connection += 1
        properties = Properties(session_expiry_s=expiry_s)
        return self.step(
            MqttConnected(self.connection, Connect(client, clean_start=False, will=will, properties=properties))
        )

    def say(self, *packets: Packet) -> list[Packet]:
        return self.step(MqttReceived(self.connection, packets))


def present(packets: list[Packet]) -> bool:
    assert isinstance(packets[0], Connack)
    return packets[0].session_present


def test_a_session_that_is_over_is_not_found_because_the_alarm_is_late() -> None:
    """Whoever was stopped hears of the client before it is woken."""
    broker = Alone()
    broker.connect("c", expiry_s=2, will=Will("last", b"words", 1, properties=Properties(will_delay_s=1)))
    broker.step(MqttLost(broker.connection))
    broker.now += 3 * SECOND_US
    assert not present(broker.connect("c"))
    assert broker.published == ["last"]


def test_a_will_whose_time_has_come_is_published_though_the_client_is_back() -> None:
    broker = Alone()
    broker.connect("c", will=Will("last", b"words", 1, properties=Properties(will_delay_s=1)))
    broker.step(MqttLost(broker.connection))
    broker.now += 2 * SECOND_US
    assert present(broker.connect("c"))
    assert broker.published == ["last"]


def test_a_second_crash_does_not_give_a_session_more_time() -> None:
    broker = Alone()
    broker.connect("c", expiry_s=3)
    broker.restart()
    broker.now += 2 * SECOND_US
    broker.restart()
    broker.now += 2 * SECOND_US
    assert not present(broker.connect("c")), "the client has been away for four seconds"


def test_a_full_queue_does_not_drop_what_the_client_may_hold_the_packet_id_of() -> None:
    """Otherwise the client would keep the id for ever, and take a later delivery under it for this one."""
    broker = Alone(SessionLimits(queue_messages=2, inflight=1))
    broker.connect("c")
    broker.say(Subscribe(1, (Request("a", 2),)))
    assert [p.packet_id for p in broker.say(Publish("a", b"1", 2, packet_id=1)) if type(p) is Publish] == [1]
    broker.restart()
    broker.connect("other")
    for number in range(2, 6):
        broker.say(Publish("a", b"%d" % number, 2, packet_id=number))
    again = [packet for packet in broker.connect("c") if type(packet) is Publish]
    assert [(packet.payload, packet.packet_id, packet.dup) for packet in again] == [(b"1", 1, True)]
    assert Pubrel(1) in broker.say(Pubrec(1))


def test_a_broker_that_was_just_started_knows_the_groups_of_the_others() -> None:
    """It chooses for a publication before any neighbour could tell it."""
    group = ("g", Filter("s"), 1)
    broker = Alone(neighbours={"x": 1})
    broker.core.shares.on_sharing("x", Sharing("x", 1, 1, (group,)))
    broker.connect("c")
    broker.restart()
    broker.connect("c")
    broker.now += 6 * SECOND_US  # its session might be at the neighbour, which has not come
    broker.step(Woken())
    broker.say(Publish("s", b"", 1, packet_id=1))
    (event,) = broker.disk.tables["outbox"][""].values()
    assert isinstance(event, Event)
    assert event.shares == (("g", "s", "x"),)


def test_a_neighbour_hears_of_what_is_retained_before_it_is_in_the_tree() -> None:
    """Both have compared what they retain when their link began; nothing else would tell it if the origin's outbox had
    no room to keep the publication for it."""
    world, clients, _ = _two_brokers(BrokerSettings(settle_us=400_000))
    client = MqttClient("c", "b1")
    clients.join(client)
    world.run(2 * SECOND_US)
    world.crash("b2")
    world.run(6 * SECOND_US)
    world.start("b2")
    world.run(world.now + 100_000)
    clients.publish(client, Publication("c:1", "c", 1, "r/1", 1, retain=True))
    world.run(world.now + 100_000)
    one, other = world.nodes["b1"].core, world.nodes["b2"].core
    assert one is not None
    assert other is not None
    assert "b2" not in one.events.members, "the new tree is not ready"
    assert "r/1" in other.retained.events


def test_a_broker_that_restarts_at_once_does_not_stamp_ahead_of_its_clock() -> None:
    """It did, by up to a second, and a retained message stamped so won for ever against one that another
    broker accepted later."""
    world, clients, ledger = _two_brokers(BrokerSettings())
    early, late = MqttClient("early", "b2"), MqttClient("late", "b1")
    for client in (early, late):
        clients.join(client)
    world.run(2 * SECOND_US)
    published = 0
    while world.now < 6 * SECOND_US:
        published += 1
        clients.publish(early, Publication(f"early:{published}", "early", published, "r/1", 1, retain=True))
        if published % 20 == 0:
            world.crash("b2")
            world.start("b2")
            clients.come_back(early)
        world.run(world.now + 20_000)
        node = world.nodes["b2"]
        if node.core is not None:
            assert all(event.published_us <= world.now for event in node.core.retained.events.values())
    assert len(ledger.retained["r/1"]) > 40


def test_a_broker_whose_clock_was_set_back_does_not_wait_for_it() -> None:
    broker = Alone()
    broker.connect("c")
    broker.say(Publish("a", b"", 1, packet_id=1))
    reserved = broker.disk.tables["meta"][""]["stamp"]
    assert isinstance(reserved, int)
    again = Broker("b", BrokerSettings(), {}, 9, broker.disk.tables)
    assert again.start_at(broker.now) == reserved, "a moment later: it waits"
    assert again.start_at(reserved + 1) == reserved + 1, "the clock has passed every stamp"
    hour_us = 3600 * SECOND_US
    assert again.start_at(reserved - hour_us) == reserved - hour_us, "nobody waits an hour"


@pytest.mark.parametrize("away_us", [3 * SECOND_US, 20 * SECOND_US])
def test_a_broker_that_restarted_confirms_no_subscription_before_the_others_missed_it(away_us: int) -> None:
    """It is alone at once. Its neighbour holds the link to its former life for seconds, and finishes what that life did
    not ask for: a SUBACK in between promised messages that nobody kept."""
    world, clients, ledger = _two_brokers(BrokerSettings(subscribe_wait=True, subscribe_wait_max_us=60 * SECOND_US))
    subscriber, publisher = MqttClient("s", "b2"), MqttClient("p", "b1")
    for client in (subscriber, publisher):
        clients.join(client)
    world.run(2 * SECOND_US)
    confirmed: list[int] = []

    def publish_now(client: MqttClient, wish: Wish) -> None:
        confirmed.append(world.now)
        ledger.granted(client, wish)
        clients.publish(publisher, Publication("p:1", "p", 1, "a", 1))

    clients.granted = publish_now
    world.break_wire("b1", "b2", away_us, silently=True)
    world.crash("b2", silently=True)
    world.start("b2")
    restarted = world.now
    clients.come_back(subscriber)
    clients.subscribe(subscriber, Wish("a", parse_filter("a"), 1))
    world.run(restarted + 30 * SECOND_US)
    assert ledger.outstanding() == 0, "it was published behind the SUBACK, and never came"
    assert ledger.accepted_count == 1
    assert confirmed[0] - restarted < 6 * SECOND_US, "a broker that stays away is not waited for"


@pytest.mark.parametrize("deletes", [False, True])
def test_a_retained_message_that_was_lost_with_its_tree_is_told_by_those_who_carried_it(deletes: bool) -> None:
    """The link from b2 to b1 breaks and comes back in time, so the two do not compare what they retain. Meanwhile b3
    restarts and has no room to keep the message for b1; only b2 knows that b1 lacks it."""
    world, clients, ledger = _brokers(3, BrokerSettings(outbox_max=4))
    publisher = MqttClient("p", "b3")
    clients.join(publisher)
    clients.publish(publisher, Publication("p:1", "p", 1, "r/1", 1, retain=True))
    world.run(2 * SECOND_US)
    world.break_wire("b1", "b2", 3 * SECOND_US, silently=True)
    clients.publish(publisher, Publication("p:2", "p", 2, "r/1", 1, retain=True, deletes=deletes))
    world.run(world.now + 100_000)
    world.crash("b3")
    world.start("b3")
    clients.come_back(publisher)
    for number in range(3, 13):
        clients.publish(publisher, Publication(f"p:{number}", "p", number, "a", 1))
    world.run(world.now + 10 * SECOND_US)
    assert ledger.dropped, "b3 had room to keep it"
    ledger.check_retained()
    assert not ledger.violations, ledger.violations[0]


def _two_brokers(settings: BrokerSettings) -> tuple[World, MqttClients, Ledger]:
    return _brokers(2, settings)


def _brokers(count: int, settings: BrokerSettings) -> tuple[World, MqttClients, Ledger]:
    """Brokers in a line."""
    world = World(generators.line(count, latency_us=1_000), settings, Random(1))
    ledger = Ledger(world)
    clients = MqttClients(world, ledger)
    ledger.stays.told = clients.pipes.told
    world.observe(ledger, clients)
    world.start_all()
    return world, clients, ledger
