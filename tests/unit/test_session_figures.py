"""`$SYS`: figures for the clients of this broker, and for nothing and nobody else."""

from __future__ import annotations

import pytest

from latecomer.core.effects import Transmit
from latecomer.core.inputs import Measured
from latecomer.messages.mqtt import Reason, Request, Suback
from tests.unit.mqtt_hand import V5, V311, MqttHand, Net, Rules

UPTIME, CLIENTS = "$SYS/broker/uptime", "$SYS/broker/clients/connected"


def measured(uptime: int, clients: int) -> Measured:
    return Measured(((UPTIME, b"%d seconds" % uptime), (CLIENTS, b"%d" % clients)))


@pytest.mark.parametrize("version", [V5, V311])
def test_all_figures_at_first_and_then_those_that_changed(version: int) -> None:
    hand = MqttHand()
    hand.tell(measured(1, 0))
    client = hand.client("c", version)
    client.subscribe("$SYS/#", qos=1)
    assert [(p.topic, p.payload, p.retain, p.qos) for p in client.got()] == [
        (UPTIME, b"1 seconds", True, 0),
        (CLIENTS, b"0", True, 0),
    ]
    hand.tell(measured(2, 0))
    assert [(p.topic, p.payload, p.retain) for p in client.got()] == [(UPTIME, b"2 seconds", False)]
    hand.tell(measured(2, 0))
    assert client.got() == []
    client.unsubscribe("$SYS/#")
    client.take()
    hand.tell(measured(3, 4))
    assert client.got() == []


def test_who_subscribes_to_something_else_gets_none() -> None:
    """[MQTT-4.7.2-1]"""
    hand = MqttHand()
    client = hand.client("c")
    client.subscribe("#", "+/broker/uptime", "$share/group/$SYS/#", "$SYSTEM/#")
    hand.tell(measured(1, 0))
    assert client.got() == []


def test_one_figure_and_its_subscription_id() -> None:
    hand = MqttHand()
    hand.tell(measured(1, 0))
    client = hand.client("c")
    client.subscribe(CLIENTS, subscription_ids=(7,))
    (packet,) = client.got()
    assert (packet.topic, packet.properties.subscription_ids) == (CLIENTS, (7,))
    client.subscribe(Request(UPTIME, 0, retain_handling=2))
    assert client.got() == []


def test_figures_reach_no_disk_no_log_no_link_and_no_other_broker() -> None:
    here, there = MqttHand("b", id="a"), MqttHand("a", id="b")
    net = Net(here, there)
    net.link("a", "b")
    near, far = here.client("near"), there.client("far")
    near.subscribe("$SYS/#")
    far.subscribe("$SYS/#")
    net.quiet()
    effects = here.tell(measured(1, 0))
    assert {type(effect) for effect in effects} == {Transmit}, "no note, no write, nothing for a neighbour"
    net.quiet()
    assert len(near.got()) == 2
    assert far.got() == []


def test_a_session_that_is_away_or_was_recovered() -> None:
    hand = MqttHand()
    hand.durable("c").subscribe("$SYS/#")
    hand.restart()
    hand.tell(measured(1, 0))
    assert hand.rows("queue") == 0, "figures do not wait for anybody"
    client = hand.durable("c")
    hand.tell(measured(2, 0))
    assert client.payloads() == [b"2 seconds"]


def test_rules_decide_and_nobody_may_publish() -> None:
    rules = Rules()
    rules.no_receive.append(UPTIME)
    hand = MqttHand(access=rules)
    client = hand.client("c")
    assert isinstance(client.subscribe("$SYS/#"), Suback)
    hand.tell(measured(1, 5))
    assert [packet.topic for packet in client.got()] == [CLIENTS]
    rules.no_publish.append(CLIENTS)
    client.publish(CLIENTS, b"99", 1)
    (answer,) = client.take()
    assert getattr(answer, "reason", None) == Reason.NOT_AUTHORIZED


def test_a_client_that_takes_only_small_packets() -> None:
    hand = MqttHand()
    client = hand.client("c", maximum_packet_size=40)
    client.subscribe("$SYS/#")
    hand.tell(Measured(((UPTIME, b"1 seconds"), (CLIENTS, b"x" * 100))))
    assert [packet.topic for packet in client.got()] == [UPTIME]
