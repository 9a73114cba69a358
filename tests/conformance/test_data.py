"""Chapters 1.5 and 2: how data look on the wire, and what becomes of those who write them differently."""

from __future__ import annotations

import pytest

from tests.conformance.codec import (
    AUTH,
    CONNACK,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    V5,
    V311,
    P,
    packet,
    properties,
    string,
    u16,
    varint,
)
from tests.conformance.conftest import Join, Place
from tests.conformance.raw import Client
from tests.conformance.statement import both, v5, v311

ILL_FORMED = {
    "surrogate": b"a\xed\xa0\x80",
    "surrogate pair": b"\xed\xa0\x80\xed\xb0\x80",
    "last surrogate": b"\xed\xbf\xbf",
    "overlong slash": b"a\xc0\xafb",
    "overlong, three bytes": b"\xe0\x80\xaf",
    "cut off": b"a\xe2\x82",
    "stray continuation": b"\x80a",
    "no such byte": b"a\xff",
    "beyond U+10FFFF": b"\xf4\x90\x80\x80",
}
NUL = b"a\0b"


def hostile(client: Client, place: str, text: bytes) -> bytes:
    """A packet with this text in this place."""
    if place == "topic name":
        return client.publication(text, b"x", qos=1)
    if place == "topic filter":
        return client.subscription([(text, 0)], 7)
    if place == "unsubscribe":
        return packet(UNSUBSCRIBE, u16(7) + client.props(()) + string(text), 2)
    key, value = (text, b"v") if place == "property name" else (b"n", text)
    pair = bytes([P.USER]) + string(key) + string(value)
    return packet(PUBLISH, string("t") + varint(len(pair)) + pair)


@v5("MQTT-1.5.4-1", "MQTT-3.3.2-1", "MQTT-3.8.3-1", "MQTT-3.10.3-1", "MQTT-4.13.1-1")
@v311("MQTT-1.5.3-1", "MQTT-3.3.2-1", "MQTT-3.8.3-1", "MQTT-3.10.3-1")
@both
@pytest.mark.parametrize("place", ["topic name", "topic filter", "unsubscribe"])
@pytest.mark.parametrize("text", ILL_FORMED.values(), ids=ILL_FORMED.keys())
def test_ill_formed_text_is_malformed(join: Join, version: int, place: str, text: bytes) -> None:
    client = join(version)
    client.send(hostile(client, place, text))
    client.expect_end(0x81)


@v5("MQTT-1.5.4-2", "MQTT-4.7.3-2")
@v311("MQTT-1.5.3-2", "MQTT-4.7.3-2")
@both
@pytest.mark.parametrize("place", ["topic name", "topic filter", "unsubscribe"])
def test_the_null_character_is_malformed(join: Join, version: int, place: str) -> None:
    client = join(version)
    client.send(hostile(client, place, NUL))
    client.expect_end(0x81)


@v5("MQTT-1.5.7-1")
@pytest.mark.parametrize("place", ["property name", "property value"])
@pytest.mark.parametrize("text", [*ILL_FORMED.values(), NUL], ids=[*ILL_FORMED.keys(), "null"])
def test_both_halves_of_a_user_property_are_checked(join: Join, place: str, text: bytes) -> None:
    client = join()
    client.send(hostile(client, place, text))
    client.expect_end(0x81)


@v5("MQTT-1.5.4-3", "MQTT-4.7.3-4")
@v311("MQTT-1.5.3-3", "MQTT-4.7.3-4")
@both
def test_a_byte_order_mark_is_a_character(join: Join, topic: str, version: int) -> None:
    client = join(version)
    marked = f"\ufeff{topic}"
    client.subscribe((marked, 0))
    client.publish(topic, b"without")
    client.publish(marked, b"with")
    client.expect(PUBLISH, topic=marked, payload=b"with")
    client.expect_nothing()


@v5("MQTT-1.5.5-1")
@pytest.mark.parametrize(
    "data",
    [
        bytes([PINGREQ << 4, 0x80, 0x00]),
        bytes([PUBLISH << 4, 0x87, 0x00]) + string("t") + b"\0abc"[:4],
        packet(PUBLISH, string("t") + b"\x80\x00"),
        packet(SUBSCRIBE, u16(7) + b"\x03" + bytes([P.SUBSCRIPTION_ID, 0x81, 0x00]) + string("t") + b"\0", 2),
    ],
    ids=["length of PINGREQ", "length of PUBLISH", "property length", "subscription identifier"],
)
def test_an_integer_longer_than_needed_is_malformed(join: Join, data: bytes) -> None:
    client = join()
    client.send(data)
    client.expect_end(0x81)


@v5("MQTT-1.5.5-1", "MQTT-4.13.1-1")
@v311("MQTT-4.8.0-1")
@both
def test_a_remaining_length_of_five_bytes_is_malformed(join: Join, version: int) -> None:
    client = join(version)
    client.send(bytes([PUBLISH << 4, 0x80, 0x80, 0x80, 0x80, 0x01]))
    client.expect_end(0x81)


WRONG_FLAGS = {
    "PUBACK": (PUBACK, 1, u16(1)),
    "PUBREC": (PUBREC, 2, u16(1)),
    "PUBREL": (PUBREL, 0, u16(1)),
    "PUBREL 3": (PUBREL, 3, u16(1)),
    "PUBCOMP": (PUBCOMP, 8, u16(1)),
    "PINGREQ": (PINGREQ, 4, b""),
    "DISCONNECT": (DISCONNECT, 1, b""),
}


@v5("MQTT-2.1.3-1", "MQTT-3.6.1-1", "MQTT-3.14.1-1")
@v311("MQTT-2.2.2-1", "MQTT-2.2.2-2", "MQTT-3.6.1-1", "MQTT-3.14.1-1")
@both
@pytest.mark.parametrize("name", WRONG_FLAGS)
def test_reserved_flags_are_checked(join: Join, version: int, name: str) -> None:
    kind, flags, body = WRONG_FLAGS[name]
    client = join(version)
    client.send(packet(kind, body, flags))
    client.expect_end(0x81)


@v5("MQTT-2.1.3-1", "MQTT-3.8.1-1", "MQTT-3.10.1-1")
@v311("MQTT-2.2.2-1", "MQTT-2.2.2-2", "MQTT-3.8.1-1", "MQTT-3.10.1-1")
@both
@pytest.mark.parametrize("flags", [0, 1, 3, 6, 10])
@pytest.mark.parametrize("kind", [SUBSCRIBE, UNSUBSCRIBE], ids=["SUBSCRIBE", "UNSUBSCRIBE"])
def test_requests_have_the_flags_0010(join: Join, version: int, kind: int, flags: int) -> None:
    client = join(version)
    body = u16(7) + client.props(()) + string("t") + (b"\0" if kind == SUBSCRIBE else b"")
    client.send(packet(kind, body, flags))
    client.expect_end(0x81)


@v5("MQTT-2.2.1-2", "MQTT-2.2.2-1")
@v311("MQTT-2.3.1-5")
@both
def test_qos_0_has_no_packet_identifier(join: Join, topic: str, version: int) -> None:
    """Read strictly, an identifier or a missing property length would move the payload."""
    client = join(version)
    client.subscribe((topic, 0))
    client.publish(topic, b"\0\1payload", qos=0)
    client.expect(PUBLISH, topic=topic, payload=b"\0\1payload", packet_id=0, flags=0)


@v5("MQTT-2.2.1-3")
@v311("MQTT-2.3.1-1")
@both
@pytest.mark.parametrize("kind", [PUBLISH, SUBSCRIBE, UNSUBSCRIBE], ids=["PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE"])
def test_an_identifier_of_zero_is_refused(join: Join, topic: str, version: int, kind: int) -> None:
    client = join(version)
    data = {
        PUBLISH: client.publication(topic, b"x", qos=1, packet_id=0),
        SUBSCRIBE: client.subscription([(topic, 0)], 0),
        UNSUBSCRIBE: packet(UNSUBSCRIBE, u16(0) + client.props(()) + string(topic), 2),
    }
    client.send(data[kind])
    client.expect_end(0x81, 0x82)


@v5("MQTT-2.2.1-4", "MQTT-4.3.2-1", "MQTT-4.3.3-1")
@v311("MQTT-2.3.1-1", "MQTT-2.3.1-4")
@both
@pytest.mark.parametrize("qos", [1, 2])
def test_the_server_uses_identifiers_that_are_free(join: Join, topic: str, version: int, qos: int) -> None:
    subscriber, publisher = join(version), join(version)
    subscriber.subscribe((topic, qos))
    for number in range(10):
        publisher.publish(topic, b"%d" % number, qos=qos)
    unacknowledged = [subscriber.expect(PUBLISH, payload=b"%d" % number).packet_id for number in range(10)]
    assert 0 not in unacknowledged
    assert len(set(unacknowledged)) == 10


@v5("MQTT-2.2.1-5", "MQTT-2.2.1-6", "MQTT-3.8.4-2", "MQTT-4.3.2-4", "MQTT-4.3.3-8", "MQTT-4.3.3-11")
@v311("MQTT-2.3.1-6", "MQTT-2.3.1-7", "MQTT-3.8.4-2", "MQTT-3.10.4-4")
@both
@pytest.mark.parametrize("packet_id", [1, 255, 256, 0xFFFF])
def test_answers_repeat_the_identifier(join: Join, topic: str, version: int, packet_id: int) -> None:
    client = join(version)
    client.send(client.publication(topic, qos=1, packet_id=packet_id))
    client.expect(PUBACK, packet_id=packet_id)
    client.send(client.publication(topic, qos=2, packet_id=packet_id))
    client.expect(PUBREC, packet_id=packet_id)
    client.acknowledge(PUBREL, packet_id)
    client.expect(PUBCOMP, packet_id=packet_id)
    client.send(client.subscription([(topic, 0)], packet_id))
    client.expect(SUBACK, packet_id=packet_id)
    client.send(packet(UNSUBSCRIBE, u16(packet_id) + client.props(()) + string(topic), 2))
    client.expect(UNSUBACK, packet_id=packet_id)


@v5("MQTT-4.2.0-1")
@v311("MQTT-7.1.1-1", "MQTT-7.0.0-2")
@both
def test_a_stream_is_not_a_sequence_of_packets(join: Join, topic: str, version: int) -> None:
    """Single bytes and many packets at once are the same to a stream."""
    client = join(version)
    client.subscribe((topic, 0))
    for byte in client.publication(topic, b"in single bytes", qos=0):
        client.send(bytes([byte]))
    client.expect(PUBLISH, payload=b"in single bytes")
    burst = b"".join(client.publication(topic, b"%d" % number, qos=0) for number in range(50))
    client.send(burst + packet(PINGREQ))
    assert [client.receive().payload for _ in range(50)] == [b"%d" % number for number in range(50)]
    client.expect(PINGRESP)


SERVER_ONLY = {
    "CONNACK": packet(CONNACK, b"\0\0\0"),
    "SUBACK": packet(SUBACK, u16(1) + b"\0\0"),
    "UNSUBACK": packet(UNSUBACK, u16(1) + b"\0\0"),
    "PINGRESP": packet(PINGRESP),
    "type 0": b"\0\0",
}


@v5("MQTT-4.13.1-1", "MQTT-3.2.0-2")
@v311("MQTT-4.8.0-1")
@both
@pytest.mark.parametrize("name", SERVER_ONLY)
def test_what_only_a_server_sends_is_an_error(join: Join, version: int, name: str) -> None:
    client = join(version)
    client.send(SERVER_ONLY[name])
    client.expect_end(0x81, 0x82)


@v311("MQTT-4.8.0-1")
def test_auth_does_not_exist_in_3_1_1(join: Join) -> None:
    client = join(V311)
    client.send(packet(AUTH))
    client.expect_closed()


MALFORMED: dict[str, tuple[bytes, set[int]]] = {
    "QoS 3": (packet(PUBLISH, string("t") + u16(1) + b"\0", 6), {0x81}),
    "DUP at QoS 0": (packet(PUBLISH, string("t") + b"\0", 8), {0x81, 0x82}),
    "topic longer than the packet": (packet(PUBLISH, u16(9) + b"t"), {0x81}),
    "no packet identifier": (packet(PUBLISH, string("t"), 2), {0x81}),
    "properties longer than the packet": (packet(PUBLISH, string("t") + b"\x20\x01"), {0x81}),
    "property cut off": (packet(PUBLISH, string("t") + b"\x03" + bytes([P.MESSAGE_EXPIRY, 0, 0])), {0x81}),
    "unknown property": (packet(PUBLISH, string("t") + b"\x02\x7f\x00"), {0x81, 0x82}),
    "property of another packet": (packet(PUBLISH, string("t") + properties([(P.WILL_DELAY, 1)])), {0x81, 0x82}),
    "property twice": (packet(PUBLISH, string("t") + properties([(P.PAYLOAD_FORMAT, 0)] * 2)), {0x82}),
    "payload format 2": (packet(PUBLISH, string("t") + properties([(P.PAYLOAD_FORMAT, 2)])), {0x81, 0x82}),
    "subscription identifier 0": (
        packet(SUBSCRIBE, u16(1) + properties([(P.SUBSCRIPTION_ID, 0)]) + string("t") + b"\0", 2),
        {0x82},
    ),
    "subscription identifier twice": (
        packet(SUBSCRIBE, u16(1) + properties([(P.SUBSCRIPTION_ID, 1)] * 2) + string("t") + b"\0", 2),
        {0x82},
    ),
    "message expiry twice": (packet(PUBLISH, string("t") + properties([(P.MESSAGE_EXPIRY, 5)] * 2)), {0x82}),
    "reason string twice": (packet(PUBACK, u16(1) + b"\0" + properties([(P.REASON_STRING, "a")] * 2)), {0x82}),
    "no filter": (packet(SUBSCRIBE, u16(1) + b"\0", 2), {0x81, 0x82}),
    "nothing to unsubscribe": (packet(UNSUBSCRIBE, u16(1) + b"\0", 2), {0x81, 0x82}),
    "filter without options": (packet(SUBSCRIBE, u16(1) + b"\0" + string("t"), 2), {0x81}),
    "subscription QoS 3": (packet(SUBSCRIBE, u16(1) + b"\0" + string("t") + b"\x03", 2), {0x81, 0x82}),
    "Retain Handling 3": (packet(SUBSCRIBE, u16(1) + b"\0" + string("t") + b"\x30", 2), {0x81, 0x82}),
    "reserved option 6": (packet(SUBSCRIBE, u16(1) + b"\0" + string("t") + b"\x40", 2), {0x81}),
    "reserved option 7": (packet(SUBSCRIBE, u16(1) + b"\0" + string("t") + b"\x80", 2), {0x81}),
    "PUBACK without identifier": (packet(PUBACK), {0x81}),
    "PUBACK with half an identifier": (packet(PUBACK, b"\1"), {0x81}),
    "PUBREC of no such reason": (packet(PUBREC, u16(1) + b"\x05"), {0x81, 0x82}),
    "PUBREL of no such reason": (packet(PUBREL, u16(1) + b"\x80", 2), {0x81, 0x82}),
    "bytes in PINGREQ": (packet(PINGREQ, b"\0"), {0x81}),
    "DISCONNECT of no such reason": (packet(DISCONNECT, b"\x01"), {0x81, 0x82}),
}


@v5("MQTT-3.3.1-4", "MQTT-3.8.3-2", "MQTT-3.8.3-5", "MQTT-3.10.3-2", "MQTT-4.13.1-1", "MQTT-3.14.4-2")
@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_packet_is_answered_with_its_reason(join: Join, name: str) -> None:
    data, reasons = MALFORMED[name]
    client = join(V5)
    client.send(data)
    client.expect_end(*reasons)


MALFORMED_311 = {
    "QoS 3": packet(PUBLISH, string("t") + u16(1), 6),
    "topic longer than the packet": packet(PUBLISH, u16(9) + b"t"),
    "no packet identifier": packet(PUBLISH, string("t"), 2),
    "no filter": packet(SUBSCRIBE, u16(1), 2),
    "nothing to unsubscribe": packet(UNSUBSCRIBE, u16(1), 2),
    "filter without QoS": packet(SUBSCRIBE, u16(1) + string("t"), 2),
    "subscription QoS 3": packet(SUBSCRIBE, u16(1) + string("t") + b"\x03", 2),
    "No Local": packet(SUBSCRIBE, u16(1) + string("t") + b"\x04", 2),
    "reserved bit": packet(SUBSCRIBE, u16(1) + string("t") + b"\x80", 2),
    "PUBACK with half an identifier": packet(PUBACK, b"\1"),
    "PUBACK with a reason": packet(PUBACK, u16(1) + b"\0"),
    "bytes in DISCONNECT": packet(DISCONNECT, b"\0"),
}


@v311("MQTT-3.3.1-4", "MQTT-3.8.3-3", "MQTT-3.8.3-4", "MQTT-3.10.3-2", "MQTT-4.8.0-1")
@pytest.mark.parametrize("name", MALFORMED_311)
def test_a_malformed_packet_ends_a_3_1_1_connection(join: Join, name: str) -> None:
    client = join(V311)
    client.send(MALFORMED_311[name])
    client.expect_closed()


@v5("MQTT-3.2.2-15")
def test_a_packet_above_the_maximum_is_refused_by_its_length_alone(join: Join, broker: Place) -> None:
    client = join()
    limit = client.connack.number(P.MAXIMUM_PACKET_SIZE, 0)
    if not limit:
        pytest.skip("this broker has no Maximum Packet Size")
    client.send(bytes([PUBLISH << 4]) + varint(limit) + string("t") + b"\0")
    client.expect_end(0x95)
