"""From the network to the client: packet ids, flow control, acknowledgements, queues and their limits."""

from __future__ import annotations

import pytest

from latecomer.core.effects import Drop, Put
from latecomer.core.inputs import MqttReceived
from latecomer.core.session.limits import SessionLimits
from latecomer.messages.mqtt import Disconnect, Packet, Puback, Pubcomp, Publish, Pubrec, Pubrel, Reason
from latecomer.model.record import Kind
from tests.unit.hand import records
from tests.unit.mqtt_hand import HOUR_S, SECOND_US, V5, V311, MqttHand, Wire, measure, pair


def network(qos: int = 2, version: int = V5, **options: object) -> tuple[MqttHand, Wire, Wire]:
    """A broker, a durable subscriber to `t`, and a publisher."""
    hand = MqttHand(**options)  # type: ignore[arg-type]
    s = hand.durable("s", version)
    s.subscribe("t", qos=qos)
    return hand, s, hand.client("p")


def numbers(wire: Wire, count: int, qos: int = 1, first: int = 0) -> None:
    """Publish so many numbered messages."""
    for number in range(first, first + count):
        wire.publish("t", b"%d" % number, qos)
        wire.take()


# -- QoS -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("published", [0, 1, 2])
def test_the_lower_qos_counts(granted: int, published: int) -> None:
    """[MQTT-3.8.4-8]"""
    _, s, p = network(granted)
    p.publish("t", b"1", published)
    (packet,) = s.got()
    assert packet.qos == min(granted, published)
    assert bool(packet.packet_id) == bool(packet.qos)  # [MQTT-2.2.1-2]
    assert not packet.dup


def test_a_delivery_of_qos_1_ends_with_its_puback() -> None:
    """[MQTT-4.3.2-1 to -3]"""
    hand, s, p = network()
    p.publish("t", b"1", 1)
    (packet,) = s.got()
    assert len(hand.session("s").queue) == hand.rows("queue") == 1
    s.send(Puback(packet.packet_id))
    assert s.take() == []
    assert len(hand.session("s").queue) == hand.rows("queue") == 0
    assert hand.session("s").queue_bytes == 0


def test_a_delivery_of_qos_2_takes_two_rounds() -> None:
    """[MQTT-4.3.3-1 to -7]; after the PUBREC the message is not sent again, and not kept."""
    hand, s, p = network()
    p.publish("t", b"1", 2)
    (packet,) = s.got()
    s.send(Pubrec(packet.packet_id))
    assert s.take() == [Pubrel(packet.packet_id)]
    assert [(type(write), write.value) for write in hand.wrote("queue") if isinstance(write, Put)] == [(Put, None)]
    assert hand.session("s").queue_bytes == 0
    s.send(Pubrec(packet.packet_id))  # it has not seen our PUBREL
    assert s.take() == [Pubrel(packet.packet_id)]
    s.send(Pubcomp(packet.packet_id))
    assert [type(write) for write in hand.wrote("queue")] == [Drop]
    assert hand.session("s").inflight == {}
    assert hand.rows("queue") == 0


def test_a_pubrec_with_an_error_ends_the_delivery() -> None:
    """§4.3.3: the packet id is free, and no PUBREL is sent."""
    hand, s, p = network()
    p.publish("t", b"1", 2)
    s.send(Pubrec(s.got()[0].packet_id, Reason.QUOTA_EXCEEDED))
    assert s.take() == []
    assert len(hand.session("s").queue) == hand.rows("queue") == 0


def test_acknowledgements_of_unknown_packet_ids() -> None:
    """Only a PUBREC needs an answer, or it would come for ever (§3.6.2.1: 0x92)."""
    _, s, _ = network()
    s.send(Puback(5), Pubcomp(5), Pubrec(5, Reason.UNSPECIFIED_ERROR))
    assert s.take() == []
    s.send(Pubrec(5))
    assert s.take() == [Pubrel(5, Reason.PACKET_IDENTIFIER_NOT_FOUND)]
    assert s.closed is None


@pytest.mark.parametrize(("qos", "wrong"), [(1, Pubrec), (1, Pubcomp), (2, Puback), (2, Pubcomp)])
@pytest.mark.parametrize("version", [V5, V311])
def test_an_acknowledgement_of_the_wrong_kind_is_the_end(qos: int, wrong: type[Packet], version: int) -> None:
    """§4.13.1: 0x82; the delivery is still owed."""
    hand, s, p = network(version=version)
    p.publish("t", b"1", qos)
    (packet,) = s.got()
    s.send(wrong(packet.packet_id))  # type: ignore[arg-type, call-arg]
    if version == V5:
        assert s.one(Disconnect).reason == Reason.PROTOCOL_ERROR
    assert s.closed
    (again,) = hand.durable("s", version).got()
    assert (again.payload, again.packet_id, again.dup) == (b"1", packet.packet_id, True)


def test_a_puback_after_the_pubrec_is_the_end() -> None:
    _, s, p = network()
    p.publish("t", b"1", 2)
    s.send(Pubrec(1), Puback(1))
    assert [type(packet) for packet in s.take()][-1] is Disconnect


# -- flow control ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("qos", [1, 2])
def test_no_more_than_the_receive_maximum_is_under_way(qos: int) -> None:
    """[MQTT-3.3.4-9]; QoS 0 is not held up [MQTT-3.3.4-10]; order is kept [MQTT-4.6.0-5]."""
    hand = MqttHand()
    s = hand.durable("s", receive_maximum=3)
    s.subscribe("t")
    p = hand.client("p")
    numbers(p, 10, qos)
    p.publish("t", b"now", 0)
    packets = s.got()
    assert [packet.payload for packet in packets] == [b"0", b"1", b"2", b"now"]
    s.ack(packets[1])
    (more,) = s.got()
    assert more.payload == b"3"
    s.ack(packets[0], packets[2], more)
    assert [packet.payload for packet in s.settle()] == [b"%d" % number for number in range(4, 10)]


def test_a_packet_id_counts_until_the_pubcomp() -> None:
    """§4.9: the send quota grows with PUBACK, PUBCOMP, or PUBREC with an error."""
    hand = MqttHand()
    s = hand.durable("s", receive_maximum=1)
    s.subscribe("t")
    numbers(hand.client("p"), 2, 2)
    assert s.payloads() == [b"0"]
    s.send(Pubrec(1))
    assert s.take() == [Pubrel(1)]
    s.send(Pubcomp(1))
    assert s.payloads() == [b"1"]
    s.send(Pubrec(2, Reason.UNSPECIFIED_ERROR))
    assert s.take() == []
    assert hand.session("s").inflight == {}


def test_a_client_that_says_nothing_gets_what_the_operator_set() -> None:
    hand, s, p = network(limits=SessionLimits(inflight=2), version=V311)
    numbers(p, 5)
    assert s.payloads() == [b"0", b"1"]
    assert len(hand.session("s").queue) == 5


def test_a_smaller_receive_maximum_holds_also_for_what_is_sent_again() -> None:
    """[MQTT-3.3.4-9] on the new connection; ids, order and DUP as ever."""
    hand, s, p = network()
    numbers(p, 5)
    assert len(s.got()) == 5
    s.lose()
    numbers(p, 1, first=5)
    s = hand.durable("s", receive_maximum=2)
    packets = s.got()
    assert [(packet.payload, packet.packet_id, packet.dup) for packet in packets] == [(b"0", 1, True), (b"1", 2, True)]
    s.ack(*packets)
    rest = s.settle()
    assert [(packet.payload, packet.packet_id) for packet in rest] == [(b"2", 3), (b"3", 4), (b"4", 5), (b"5", 6)]
    assert [packet.dup for packet in rest] == [True, True, True, False]


def test_a_choked_connection_gets_no_more_and_catches_up() -> None:
    """The driver says when bytes pile up: QoS 0 is dropped and counted, the rest waits."""
    hand, s, p = network()
    hand.session("s").choked = True
    p.publish("t", b"0", 0)
    p.publish("t", b"1", 1)
    assert s.take() == []
    assert hand.session("s").dropped == 1
    hand.session("s").choked = False
    hand.tell(MqttReceived(s.id, ()))
    assert s.payloads() == [b"1"]
    hand.session("s").choked = True
    s.lose()
    p.publish("t", b"2", 0)
    assert hand.session("s").dropped == 1  # who is not there is not slow


# -- packet ids ------------------------------------------------------------------------------------------------------


def test_packet_ids_start_again_after_65535_and_skip_nobody() -> None:
    """[MQTT-2.2.1-4]: an id that is in use is waited for."""
    hand, s, p = network()
    hand.session("s").number = 65_533
    numbers(p, 4)
    assert [packet.packet_id for packet in s.got()] == [65_534, 65_535, 1, 2]
    hand.session("s").number = 65_535 + 65_533  # nearly once around, and nothing was acknowledged
    numbers(p, 2, first=4)
    assert s.take() == []
    s.send(Puback(65_534))
    (packet,) = s.got()
    assert (packet.payload, packet.packet_id) == (b"4", 65_534)


def test_ids_that_the_driver_lent_are_in_use_as_well() -> None:
    hand = MqttHand()
    s = hand.client("s")
    s.subscribe("t")
    session = hand.session("s")
    session.leased, session.leased_from, session.number = 1, 5, 65_535 + 3
    p = hand.client("p")
    numbers(p, 2)
    assert [packet.packet_id for packet in s.got()] == [4]
    session.leased = session.leased_from = 0
    hand.tell(MqttReceived(s.id, ()))
    assert [packet.packet_id for packet in s.got()] == [5]


# -- coming back -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V5, V311])
@pytest.mark.parametrize("crash", [False, True])
def test_what_is_not_settled_is_sent_again(version: int, crash: bool) -> None:
    """[MQTT-4.4.0-1, 3.3.1-1]: under the same ids, in order, as duplicates; after a PUBREC only the PUBREL."""
    hand, s, p = network(version=version)
    for number, qos in enumerate((1, 2, 2, 1)):
        p.publish("t", b"%d" % number, qos)
    before = s.got()
    s.send(Puback(before[3].packet_id), Pubrec(before[1].packet_id))
    if crash:
        hand.restart()
    else:
        s.lose()
    s = hand.durable("s", version)
    assert s.connack.session_present
    pubrel, *packets = s.take()
    assert pubrel == Pubrel(before[1].packet_id)
    assert [(x.payload, x.packet_id, x.qos, x.dup) for x in packets if hasattr(x, "dup")] == [  # type: ignore[union-attr]
        (b"0", before[0].packet_id, 1, True),
        (b"2", before[2].packet_id, 2, True),
    ]
    s.send(Pubcomp(before[1].packet_id), Puback(before[0].packet_id), Pubrec(before[2].packet_id))
    assert s.take() == [Pubrel(before[2].packet_id)]
    s.send(Pubcomp(before[2].packet_id))
    assert hand.rows("queue") == 0
    assert hand.session("s").inflight == {}


def test_what_came_while_away_follows_what_was_under_way() -> None:
    """[MQTT-4.6.0-1, -6]"""
    hand, s, p = network()
    numbers(p, 2)
    assert len(s.got()) == 2
    s.lose()
    numbers(p, 2, first=2)
    p.publish("t", b"fleeting", 0)  # QoS 0 is for those who are there
    packets = hand.durable("s").got()
    assert [(x.payload, x.packet_id, x.dup) for x in packets] == [
        (b"0", 1, True),
        (b"1", 2, True),
        (b"2", 3, False),
        (b"3", 4, False),
    ]


def test_numbers_go_on_after_a_restart() -> None:
    hand, s, p = network()
    numbers(p, 3)
    s.ack(s.got()[0])
    hand.restart()
    s, p = hand.durable("s"), hand.client("p")
    numbers(p, 1, first=3)
    assert [(x.payload, x.packet_id, x.dup) for x in s.got()] == [(b"1", 2, True), (b"2", 3, True), (b"3", 4, False)]


def dups(packets: list[Publish]) -> str:
    """Payloads, with a mark for what came as a duplicate."""
    return " ".join(x.payload.decode() + "'" * x.dup for x in packets)


@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_never_sent_is_no_duplicate_after_a_restart(qos: int) -> None:
    """[MQTT-3.3.1-1] DUP is for what is sent again: what was sent before the client left, and not what came since."""
    hand, s, p = network()
    numbers(p, 2, qos)
    s.lose()
    numbers(p, 2, qos, first=2)
    hand.restart()
    hand.restart()
    numbers(hand.client("p"), 1, qos, first=4)
    s = hand.durable("s", receive_maximum=3)
    assert dups(s.got()) == "0' 1' 2"
    hand.restart()
    assert dups(hand.durable("s").got()) == "0' 1' 2' 3 4"


def test_no_more_can_have_been_sent_before_a_crash_than_may_be_under_way() -> None:
    """The client was connected, so nobody wrote down what was sent; but it takes three at a time."""
    hand, s, p = network()
    s.lose()
    s = hand.durable("s", receive_maximum=3)
    numbers(p, 8)
    for packet in s.got()[:2]:
        s.ack(packet)
    assert dups(s.got()) == "3 4"
    hand.restart()
    s = hand.durable("s")
    assert dups(s.got()) == "2' 3' 4' 5 6 7"


def test_a_smaller_window_does_not_make_anything_new() -> None:
    """What was sent on the connection before stays sent."""
    hand, s, p = network()
    numbers(p, 5)
    s.lose()
    assert dups(hand.durable("s", receive_maximum=1).got()) == "0'"
    hand.restart()
    assert dups(hand.durable("s").got()) == "0' 1' 2' 3' 4'"


def test_numbers_of_a_queue_that_was_empty_are_not_given_again() -> None:
    """They would be taken for deliveries that were sent before."""
    hand, s, p = network()
    numbers(p, 3)
    for packet in s.got():
        s.ack(packet)
    s.lose()
    hand.restart()
    s, p = hand.durable("s"), hand.client("p")
    numbers(p, 1, first=3)
    assert [(x.packet_id, x.dup) for x in s.got()] == [(4, False)]


# -- limits ----------------------------------------------------------------------------------------------------------


def test_a_full_queue_loses_its_oldest_and_says_so() -> None:
    """Bad input 13"""
    hand, s, p = network(limits=SessionLimits(queue_messages=3))
    s.lose()
    numbers(p, 3)
    effects = p.publish("t", b"3", 1)
    (record,) = records(effects, Kind.DROPPED)
    assert (record.client, record.detail) == ("s", "queue full")
    assert hand.session("s").dropped == 1
    assert hand.rows("queue") == 3
    assert [x.payload for x in hand.durable("s").settle()] == [b"1", b"2", b"3"]


def test_a_queue_is_bounded_in_bytes_as_well() -> None:
    hand, s, p = network(limits=SessionLimits(queue_bytes=1000))
    s.lose()
    for number in range(5):
        p.publish("t", b"%d" % number * 300, 1)
    assert hand.session("s").queue_bytes <= 1000
    assert [x.payload[:1] for x in hand.durable("s").settle()] == [b"3", b"4"]


def test_what_is_under_way_is_not_dropped_for_what_comes() -> None:
    hand, s, p = network(limits=SessionLimits(queue_messages=2))
    numbers(p, 2)
    assert len(s.got()) == 2
    s.lose()
    numbers(p, 2, first=2)
    assert [x.payload for x in hand.durable("s").settle()] == [b"0", b"1", b"3"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_packet_larger_than_the_client_takes_is_dropped_for_it_alone(qos: int) -> None:
    """[MQTT-3.1.2-24, -25]; the next one is not held up."""
    hand, other, p = network()
    s = hand.durable("small", maximum_packet_size=30)
    s.subscribe("t")
    effects = p.publish("t", b"x" * 100, qos)
    assert [record.client for record in records(effects, Kind.DROPPED)] == ["small"]
    assert qos or [record.client for record in records(effects, Kind.DELIVERED)] == ["s"]
    p.publish("t", b"y", qos)
    (packet,) = s.got()
    assert packet.payload == b"y"
    assert measure(packet, V5) <= 30
    assert other.payloads() == [b"x" * 100, b"y"]
    s.ack(packet)
    assert hand.session("small").queue == {}
    assert hand.table("queue", "small") == {}


# -- expiry ----------------------------------------------------------------------------------------------------------


def test_what_expires_while_it_waits_is_not_delivered() -> None:
    """[MQTT-3.3.2-5]"""
    hand, s, p = network()
    s.lose()
    p.publish("t", b"short", 1, message_expiry_s=10)
    p.publish("t", b"long", 1, message_expiry_s=100)
    hand.wait(10 * SECOND_US)
    s = hand.durable("s")
    (packet,) = s.got()
    assert (packet.payload, packet.properties.message_expiry_s) == (b"long", 90)  # [MQTT-3.3.2-6]
    s.ack(packet)
    assert hand.rows("queue") == 0


def test_what_is_left_is_never_rounded_to_nothing() -> None:
    hand, s, p = network()
    s.lose()
    p.publish("t", b"1", 1, message_expiry_s=10)
    hand.wait(10 * SECOND_US - 1)
    (packet,) = hand.durable("s").got()
    assert packet.properties.message_expiry_s == 1


def test_what_was_begun_is_finished_even_if_it_expires() -> None:
    """[MQTT-4.4.0-1] goes on where [MQTT-3.3.2-5] ends: delivery has started."""
    hand, s, p = network()
    p.publish("t", b"1", 1, message_expiry_s=10)
    assert s.payloads() == [b"1"]
    s.lose()
    hand.wait(20 * SECOND_US)
    (packet,) = hand.durable("s").got()
    assert (packet.payload, packet.dup, packet.properties.message_expiry_s) == (b"1", True, 0)


@pytest.mark.parametrize("away", [False, True])
def test_what_expires_while_the_broker_is_down_is_not_delivered(away: bool) -> None:
    """If it may have been sent before, a QoS 2 packet id is let go of, for the client may hold it."""
    hand, s, p = network()
    if away:
        s.lose()
    p.publish("t", b"1", 1, message_expiry_s=10)
    p.publish("t", b"2", 2, message_expiry_s=10)
    p.publish("t", b"3", 2)
    hand.now += 20 * SECOND_US
    hand.restart()
    s = hand.durable("s")
    *pubrel, packet = s.take()
    assert pubrel == ([] if away else [Pubrel(2)])
    assert (packet.payload, packet.dup) == (b"3", not away)  # type: ignore[union-attr]
    if not away:
        s.send(Pubcomp(2, Reason.PACKET_IDENTIFIER_NOT_FOUND))
    assert s.take() == []
    assert hand.table("queue", "s").keys() == {3}


def test_an_expiry_survives_links_between_clocks_that_disagree() -> None:
    """Brokers tell each other what is left."""
    net, a, b = pair(ahead_us=1000 * HOUR_S * SECOND_US)
    s = b.durable("s")
    s.subscribe("t")
    net.quiet()
    s.lose()
    a.client("p").publish("t", b"1", 1, message_expiry_s=10)
    a.client("p").publish("t", b"2", 1, message_expiry_s=100)
    net.quiet()
    b.wait(20 * SECOND_US)
    (packet,) = b.durable("s").got()
    assert packet.payload == b"2"
    assert packet.properties.message_expiry_s in (79, 80)
