"""From the client to the network: QoS 1 and 2, packet ids, aliases, limits."""

from __future__ import annotations

import pytest

from latecomer.core.effects import Drop, Put
from latecomer.core.session.limits import SessionLimits
from latecomer.messages.mqtt import Disconnect, Properties, Puback, Pubcomp, Publish, Pubrec, Pubrel, Reason, Will
from latecomer.model.event import Event
from tests.unit.mqtt_hand import V5, V311, MqttHand, Rules, Wire, pair


def network(**options: object) -> tuple[MqttHand, Wire, Wire]:
    """A broker, a durable subscriber to everything, and a durable publisher."""
    hand = MqttHand(**options)  # type: ignore[arg-type]
    s = hand.durable("s")
    s.subscribe("#")
    return hand, s, hand.durable("p")


def reason(wire: Wire) -> int:
    """Of the one acknowledgement that came."""
    (packet,) = wire.take()
    assert isinstance(packet, (Puback, Pubrec, Pubcomp))
    return packet.reason


# -- QoS 1 and 2 -----------------------------------------------------------------------------------------------------


def test_qos_1_is_acknowledged_and_taken_as_often_as_it_comes() -> None:
    """[MQTT-4.3.2-4, -5]: a packet id is free again after the PUBACK."""
    _, s, p = network()
    for dup in (False, True):
        p.send(Publish("t", b"1", 1, False, dup, 7))
        assert p.take() == [Puback(7)]
    assert [(x.payload, x.dup) for x in s.got()] == [(b"1", False)] * 2  # [MQTT-3.3.1-3] DUP is not passed on


def test_qos_2_enters_the_network_once() -> None:
    """[MQTT-4.3.3-8, -9, -10, -11]"""
    _, s, p = network()
    p.send(Publish("t", b"1", 2, packet_id=7))
    assert p.take() == [Pubrec(7)]
    p.send(Publish("t", b"1", 2, False, True, 7))
    assert p.take() == [Pubrec(7)]
    assert s.payloads() == [b"1"]
    p.send(Pubrel(7))
    assert p.take() == [Pubcomp(7)]
    p.send(Pubrel(7))
    assert reason(p) == Reason.PACKET_IDENTIFIER_NOT_FOUND
    p.send(Publish("t", b"2", 2, packet_id=7))
    assert p.take() == [Pubrec(7)]
    assert s.payloads() == [b"2"]


def test_qos_2_enters_once_across_connections_and_restarts() -> None:
    """[MQTT-4.3.3-10]; the packet id is part of the session (§4.1)."""
    hand, s, p = network()
    p.send(Publish("t", b"1", 2, packet_id=7))
    p.lose()
    p = hand.durable("p")
    p.send(Publish("t", b"1", 2, False, True, 7))
    assert p.take() == [Pubrec(7)]
    hand.restart()
    s, p = hand.durable("s"), hand.durable("p")
    p.send(Publish("t", b"1", 2, False, True, 7))
    assert p.take() == [Pubrec(7)]
    p.send(Pubrel(7))
    assert p.take() == [Pubcomp(7)]
    hand.restart()
    s, p = hand.durable("s"), hand.durable("p")
    assert s.payloads() == [b"1"]
    p.send(Pubrel(7))
    assert reason(p) == Reason.PACKET_IDENTIFIER_NOT_FOUND


def test_a_publication_and_its_packet_id_are_one_write() -> None:
    """The packet id, what waits for durable sessions and what the network must still get: all or nothing."""
    net, a, b = pair()
    s = b.client("s")
    s.subscribe("t")
    local = a.durable("local")
    local.subscribe("t")
    net.quiet()
    p = a.durable("p")
    effects = p.send(Publish("t", b"1", 2, packet_id=7))
    assert effects[0].__class__.__name__ == "Persist"
    kinds = {write.table: type(write) for write in a.writes}
    assert kinds["incoming"] is kinds["outbox"] is kinds["queue"] is Put
    assert a.table("incoming", "p") == {7: 1}
    p.send(Pubrel(7))
    assert [type(write) for write in a.wrote("incoming")] == [Drop]
    net.quiet()
    assert s.payloads() == [b"1"]


def test_a_publication_for_elsewhere_stands_on_disk_before_its_acknowledgement() -> None:
    net, a, b = pair()
    b.client("s").subscribe("t")
    net.quiet()
    p = a.client("p")
    p.publish("t", b"1", 1)
    (write,) = a.wrote("outbox")
    assert isinstance(write, Put)
    assert isinstance(write.value, Event)
    assert write.value.payload == b"1"


def test_more_than_the_receive_maximum_is_the_end() -> None:
    """[MQTT-3.3.4-7, -8]: 0x93. Those that are under way already do not count again."""
    hand, _, p = network(limits=SessionLimits(receive_maximum=3))
    for id in (1, 2, 3):
        p.send(Publish("t", b"", 2, packet_id=id))
    p.send(Publish("t", b"", 2, False, True, 2))
    p.send(Publish("t", b"", 1, packet_id=9))
    assert [type(packet) for packet in p.take()] == [Pubrec] * 4 + [Puback]
    p.send(Pubrel(2), Publish("t", b"", 2, packet_id=4))
    assert p.take() == [Pubcomp(2), Pubrec(4)]
    p.send(Publish("t", b"", 2, packet_id=5))
    assert p.one(Disconnect).reason == Reason.RECEIVE_MAXIMUM_EXCEEDED
    assert p.closed
    p = hand.durable("p")
    p.send(Pubrel(1))
    assert p.take() == [Pubcomp(1)]


def test_nobody_who_wants_it_has_a_reason_code() -> None:
    hand = MqttHand()
    p = hand.client("p")
    p.send(Publish("t", b"", 1, packet_id=1), Publish("t", b"", 2, packet_id=2))
    assert p.take() == [Puback(1, Reason.NO_MATCHING_SUBSCRIBERS), Pubrec(2, Reason.NO_MATCHING_SUBSCRIBERS)]
    p.send(Pubrel(2))
    assert p.take() == [Pubcomp(2)]
    old = hand.client("old", V311)
    old.send(Publish("t", b"", 1, packet_id=1))
    assert old.take() == [Puback(1)]


# -- what is refused -------------------------------------------------------------------------------------------------


def test_who_may_not_publish() -> None:
    """MQTT 5 has words for it; 3.1.1 acknowledges, or closes [MQTT-3.3.5-2]."""
    rules = Rules()
    rules.no_publish.append("secret")
    hand, s, p = network(access=rules)
    old = hand.client("old", V311)
    for wire, answer in ((p, Reason.NOT_AUTHORIZED), (old, Reason.SUCCESS)):
        wire.send(Publish("secret", b"0"))
        assert wire.take() == []
        wire.send(Publish("secret", b"1", 1, packet_id=1))
        assert reason(wire) == answer
        wire.send(Publish("secret", b"2", 2, packet_id=2))
        assert reason(wire) == answer
        wire.send(Publish("t", b"3", 1, packet_id=3))
        assert reason(wire) == Reason.SUCCESS
    assert s.payloads() == [b"3", b"3"]
    assert hand.table("incoming", "p") == {}


def test_topics_beyond_the_limits_are_refused() -> None:
    """Bad inputs 7, 17"""
    _, s, p = network(limits=SessionLimits(topic_levels=3, topic_bytes=10))
    topics = {"a/b/c": 0, "a/b/c/d": 0x90, "é" * 5: 0, "é" * 6: 0x90, "$SYS/x": 0x87}
    for number, (topic, answer) in enumerate(topics.items(), 1):
        p.send(Publish(topic, b"", 1, packet_id=number))
        assert reason(p) == answer, topic
    assert [packet.topic for packet in s.got()] == ["a/b/c", "é" * 5]


def test_an_explanation_only_for_those_who_want_one() -> None:
    """[MQTT-3.1.2-29]"""
    hand = MqttHand(limits=SessionLimits(topic_bytes=1))
    for wanted in (None, 1, 0):
        p = hand.client("p", request_problem_information=wanted)
        p.send(Publish("tt", b"", 1, packet_id=1))
        assert (p.one(Puback).properties.reason_string is None) == (wanted == 0)


def test_a_subscription_identifier_is_not_for_clients() -> None:
    """[MQTT-3.3.4-6]"""
    _, s, p = network()
    p.publish("t", b"", subscription_ids=(1,))
    assert p.one(Disconnect).reason == Reason.PROTOCOL_ERROR
    assert s.take() == []


def test_a_full_outbox_refuses() -> None:
    net, a, b = pair()
    b.client("s").subscribe("t")
    net.quiet()
    a.broker.events.settings = type(a.broker.settings)(outbox_max=1)
    p, old = a.client("p"), a.client("old", V311)
    p.publish("t", b"1", 1)
    p.publish("t", b"2", 1)
    assert [packet.reason for packet in p.take() if isinstance(packet, Puback)] == [0, Reason.QUOTA_EXCEEDED]
    p.publish("t", b"3", 1, retain=True)
    assert reason(p) == Reason.QUOTA_EXCEEDED
    assert a.broker.sessions.publishing.owners == {}  # what was refused is not counted
    old.publish("t", b"4", 1)
    assert old.take() == []  # [MQTT-3.3.5-2] of 3.1.1
    assert old.closed


# -- topic aliases ---------------------------------------------------------------------------------------------------


def test_an_alias_stands_for_a_topic_on_its_connection() -> None:
    """[MQTT-3.3.2-8 to -12], [MQTT-3.3.2-7]"""
    hand, s, p = network()
    p.publish("t", b"1", topic_alias=3)
    p.publish("", b"2", topic_alias=3)
    p.publish("u", b"3", topic_alias=3)
    p.publish("", b"4", topic_alias=3)
    assert [(x.topic, x.payload) for x in s.got()] == [("t", b"1"), ("t", b"2"), ("u", b"3"), ("u", b"4")]
    p.lose()
    p = hand.durable("p")
    p.publish("", b"5", topic_alias=3)
    assert p.one(Disconnect).reason == Reason.PROTOCOL_ERROR


def test_an_alias_above_the_maximum_is_the_end() -> None:
    """[MQTT-3.3.2-9]: 0x94"""
    _, s, p = network(limits=SessionLimits(topic_alias_maximum=2))
    p.publish("t", b"1", topic_alias=2)
    p.publish("t", b"2", topic_alias=3)
    assert p.one(Disconnect).reason == Reason.TOPIC_ALIAS_INVALID
    assert s.payloads() == [b"1"]


@pytest.mark.parametrize("topic", ["x" * 21, "a/b/c/d", "é" * 11])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_response_topic_has_the_limits_of_a_topic(topic: str, qos: int) -> None:
    """Bad input 7: it is kept and handed on like one, and answers to it would be refused."""
    hand, s, p = network(limits=SessionLimits(topic_bytes=20, topic_levels=3))
    p.publish("t", b"1", qos, response_topic=topic)
    if qos:
        answer = p.take()[0]
        assert answer.reason == Reason.TOPIC_NAME_INVALID  # type: ignore[union-attr]
        assert answer.properties.reason_string.startswith("response topic: a topic has at most")  # type: ignore[union-attr]
    assert s.take() == []
    will = Will("t", b"bye", properties=Properties(response_topic=topic))
    assert hand.client("w", will=will).connack.reason == Reason.TOPIC_NAME_INVALID
    p.publish("t", b"2", qos, response_topic="x" * 20)
    assert s.payloads() == [b"2"]


# -- what is handed on -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V5, V311])
def test_properties_are_handed_on_unaltered_and_in_order(version: int) -> None:
    """[MQTT-3.3.2-4, -15, -16, -17, -18, -20]; to 3.1.1 without them."""
    hand = MqttHand()
    s = hand.client("s", version)
    s.subscribe("t")
    properties = Properties(
        payload_format=1,
        content_type="c",
        response_topic="r",
        correlation_data=b"\0",
        user=(("b", "1"), ("a", "2"), ("b", "3")),
    )
    hand.client("p").send(Publish("t", b"1", 0, properties=properties))
    (packet,) = s.got()
    assert packet.properties == (properties if version == V5 else Properties())
