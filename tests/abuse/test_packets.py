"""Bad inputs 1 to 4, 7, 9 and 12: packets that are wrong in themselves, or wrong at this moment."""

from __future__ import annotations

import pytest

from tests.abuse.house import House, MiB, nothing_came
from tests.conformance.codec import (
    AUTH,
    CONNACK,
    PINGREQ,
    PUBACK,
    PUBLISH,
    PUBREC,
    SUBSCRIBE,
    V5,
    V311,
    Hello,
    P,
    Will,
    packet,
    properties,
    string,
    u16,
    varint,
)

MALFORMED, PROTOCOL_ERROR, TOPIC_INVALID, TOO_MUCH, TOO_LARGE = 0x81, 0x82, 0x90, 0x93, 0x95
NAMES = {
    MALFORMED: "malformed_packet",
    PROTOCOL_ERROR: "protocol_error",
    TOPIC_INVALID: "topic_name_invalid",
    TOO_MUCH: "receive_maximum_exceeded",
    0x94: "topic_alias_invalid",
    TOO_LARGE: "packet_too_large",
}
LIMIT = 1024 * 1024


def publish(topic: bytes = b"\0\1a", rest: bytes = b"\0x", flags: int = 0) -> bytes:
    return packet(PUBLISH, topic + rest, flags)


WRONG = {
    "flags of a SUBSCRIBE": (packet(SUBSCRIBE, b"\0\1\0\0\1a\0", 0), MALFORMED),
    "flags of a PINGREQ": (packet(PINGREQ, b"", 1), MALFORMED),
    "type 0": (packet(0), MALFORMED),
    "QoS 3": (publish(rest=b"\0\1\0x", flags=6), MALFORMED),
    "DUP with QoS 0": (publish(flags=8), MALFORMED),
    "packet id 0": (publish(rest=b"\0\0\0x", flags=2), PROTOCOL_ERROR),
    "no packet id": (publish(rest=b"\0", flags=2), MALFORMED),
    "a topic that is not UTF-8": (publish(string(b"\xff\xfe")), MALFORMED),
    "a topic with an overlong form": (publish(string(b"\xc0\xaf")), MALFORMED),
    "a topic with a surrogate": (publish(string(b"\xed\xa0\x80")), MALFORMED),
    "a topic with U+0000": (publish(string(b"a\0b")), MALFORMED),
    "a topic longer than the packet": (publish(b"\0\xffa"), MALFORMED),
    "a topic with a wildcard": (publish(string("a/+")), TOPIC_INVALID),
    "no topic and no alias": (publish(string("")), PROTOCOL_ERROR),
    "a length of five bytes": (b"\x30\xff\xff\xff\xff\x01", MALFORMED),
    "a length longer than needed": (b"\x30\x86\x80\x00\0\1a\0xyz", MALFORMED),
    "bytes behind a SUBSCRIBE": (packet(SUBSCRIBE, b"\0\1\0\0\1a\0z", 2), MALFORMED),
    "bytes behind a PINGREQ": (packet(PINGREQ, b"x"), MALFORMED),
    "no filter": (packet(SUBSCRIBE, b"\0\1\0", 2), PROTOCOL_ERROR),
    "reserved subscription options": (packet(SUBSCRIBE, b"\0\1\0\0\1a\xc0", 2), MALFORMED),
    "a property twice": (publish(rest=properties([(P.PAYLOAD_FORMAT, 1)] * 2)), PROTOCOL_ERROR),
    "a property of another packet": (publish(rest=properties([(P.RECEIVE_MAXIMUM, 9)])), MALFORMED),
    "a property that does not exist": (publish(rest=b"\x02\x7f\x01"), MALFORMED),
    "properties longer than the packet": (publish(rest=b"\x7f\x01"), MALFORMED),
    "topic alias 0": (publish(rest=properties([(P.TOPIC_ALIAS, 0)])), 0x94),
    "a subscription identifier from a client": (publish(rest=properties([(P.SUBSCRIPTION_ID, 1)])), PROTOCOL_ERROR),
    "a second CONNECT": (Hello(client_id="again").encode(), PROTOCOL_ERROR),
    "an AUTH": (packet(AUTH, b"\x18" + properties([(P.AUTH_METHOD, "x")])), PROTOCOL_ERROR),
    "a CONNACK": (packet(CONNACK, b"\0\0\0"), PROTOCOL_ERROR),
    "a SUBACK": (packet(9, b"\0\1\0\0"), PROTOCOL_ERROR),
    "an UNSUBACK": (packet(11, b"\0\1\0\0"), PROTOCOL_ERROR),
    "a PINGRESP": (packet(13), PROTOCOL_ERROR),
}


@pytest.mark.parametrize(("data", "reason"), WRONG.values(), ids=WRONG)
def test_01_malformed(house: House, data: bytes, reason: int) -> None:
    """The reason reaches the client although it goes on sending, and nothing of it reaches others."""
    witness, client = house.join(), house.join()
    witness.subscribe(("#", 0))
    with house.noticed(NAMES[reason], NAMES[reason]):
        client.send(data + client.publication("late", b"behind it") * 200)
        client.expect_end(reason)
    nothing_came(witness)


@pytest.mark.parametrize(
    "name", ["QoS 3", "a topic that is not UTF-8", "flags of a PINGREQ", "a PINGRESP", "a second CONNECT"]
)
def test_01_malformed_in_311(house: House, name: str) -> None:
    """3.1.1 has no word for it: the connection ends."""
    data, reason = WRONG[name]
    witness, client = house.join(), house.join(V311)
    witness.subscribe(("#", 0))
    with house.noticed(NAMES[reason], NAMES[reason]):
        client.send(data + client.publication("late", b"behind it"))
        client.expect_closed()
    nothing_came(witness)


def test_01_a_malformed_connect(house: House) -> None:
    client = house.raw()
    with house.noticed("malformed_packet"):
        client.send(packet(1, string("MQTT") + b"\5\3\0\0\0" + string("reserved flag")))
        client.expect(CONNACK, reason=MALFORMED)
        client.expect_closed()
    client = house.raw(V311)
    with house.noticed("malformed_packet"):
        client.send(packet(1, string("MQTT") + b"\4\3\0\0" + string("reserved flag")))
        client.expect_closed()  # [MQTT-3.1.2-3]


@pytest.mark.parametrize("first", [0, *range(2, 16)])
def test_02_anything_before_a_connect(house: House, first: int) -> None:
    """Before the CONNACK a server may say nothing [MQTT-3.14.0-1]."""
    client = house.raw()
    with house.noticed("no connect", "the first packet is no CONNECT"):
        client.send(packet(first, b"\0\1a\0", 2 if first in (6, 8, 10) else 0))
        client.expect_closed()


def test_02_what_follows_a_connect_that_is_refused(house: House) -> None:
    """It is read, so that the reason can be, and then forgotten."""
    witness, client = house.join(), house.raw()
    witness.subscribe(("#", 0))
    client.send(Hello(client_id="bad-will", will=Will("$SYS/x")).encode() + client.publication("late", b"x") * 500)
    client.expect(CONNACK, reason=0x87)
    client.expect_closed()
    nothing_came(witness)


@pytest.mark.parametrize(("version", "reason"), [(V5, TOO_LARGE), (V311, 5)])
def test_03_a_huge_first_packet(house: House, version: int, reason: int) -> None:
    """The length alone is enough: the rest never comes."""
    client = house.raw(version)
    with house.noticed("packet_too_large", "a CONNECT has at most 65536 bytes"):
        client.send(b"\x10" + varint(268_435_455) + string("MQTT") + bytes([version]))
        client.expect(CONNACK, reason=reason)
        client.expect_closed()


def test_03_a_huge_first_packet_that_is_no_connect(house: House) -> None:
    client = house.raw()
    with house.noticed("no connect"):
        client.send(b"\x30" + varint(268_435_455))
        client.expect_closed()


def test_03_a_connect_in_pieces_is_kept_in_bounds(house: House) -> None:
    """Many connections that keep a CONNECT of nearly the limit each."""
    before = house.rss()
    hello = Hello(client_id="c", properties=((P.USER, ("x", "y" * 60_000)),)).encode()
    for _ in range(100):
        house.raw().send(hello[:-1])
    assert house.rss() - before < 100 * 2 * 65_536 + 16 * 1024 * 1024


@pytest.mark.parametrize("version", [V5, V311])
def test_04_an_oversize_publish(house: House, version: int) -> None:
    """Refused by its length, before anything else of it has come."""
    client = house.join(version)
    if version == V5:
        assert client.connack.get(P.MAXIMUM_PACKET_SIZE) == LIMIT
    with house.noticed("packet_too_large"):
        client.send(b"\x30" + varint(LIMIT))
        client.expect_end(TOO_LARGE)


def test_04_an_oversize_publish_that_goes_on(house: House) -> None:
    """The client sends all of it before it reads anything."""
    witness, client = house.join(), house.join()
    witness.subscribe(("#", 0))
    before = house.rss()
    with house.noticed("packet_too_large"):
        client.send(client.publication("a", b"x" * 8 * LIMIT, qos=1))
        client.expect_end(TOO_LARGE)
    nothing_came(witness)
    assert house.rss() - before < 4 * LIMIT


def test_04_what_one_client_does_not_take(house: House) -> None:
    """A message beyond a client's Maximum Packet Size is dropped for that client, and counted."""
    small, large = house.join(properties=((P.MAXIMUM_PACKET_SIZE, 200),)), house.join()
    small.subscribe(("big", 1))
    large.subscribe(("big", 1))
    before = house.dropped("larger than the client takes")
    large.publish("big", b"x" * 1000)
    large.take(payload=b"x" * 1000)
    nothing_came(small)
    assert house.dropped("larger than the client takes") == before + 1


@pytest.mark.parametrize(("name", "most"), [("small", 1), ("small", 5), ("", 32)])
def test_04_a_client_that_takes_no_connack(house: House, name: str, most: int) -> None:
    """[MQTT-3.1.2-24] It is told in as many bytes as it takes, or not at all; it has no session, and whoever has its
    client id stays."""
    before = house.join(client_id="small")
    limits = ((P.MAXIMUM_PACKET_SIZE, most), (P.SESSION_EXPIRY, 60))
    with house.noticed("packet_too_large", times=10):
        for _ in range(10):
            client = house.raw()
            client.send(Hello(client_id=name, properties=limits).encode())
            if most >= 5:
                assert client.receive().reason == TOO_LARGE
            client.expect_closed()
    before.ping()


@pytest.mark.parametrize("qos", [1, 2])
def test_07_a_topic_of_65535_slashes(house: House, qos: int) -> None:
    witness, client = house.join(), house.join()
    witness.subscribe(("#", 0))
    for topic in ("/" * 65_535, "a/" * 128, "é" * 513):
        with house.noticed("topic_name_invalid"):
            client.send(client.publication(topic, b"x", qos=qos, packet_id=1))
            client.expect(PUBACK if qos == 1 else PUBREC, reason=TOPIC_INVALID)
    with house.noticed("topic_name_invalid", times=2):
        client.send(client.publication("/" * 65_535) * 2)
        client.ping()
    nothing_came(witness)
    assert client.publish("a/" * 127 + "a") is not None  # 128 levels are fine


def test_07_a_response_topic_of_65000_bytes(house: House) -> None:
    witness, client = house.join(), house.join()
    witness.subscribe(("#", 0))
    for topic in ("x" * 65_000, "a/" * 128):
        with house.noticed("topic_name_invalid", "response topic: a topic has at most"):
            client.send(client.publication("t", qos=1, packet_id=1, properties=((P.RESPONSE_TOPIC, topic),)))
            client.expect(PUBACK, reason=TOPIC_INVALID)
    nothing_came(witness)


def test_07_aliases_of_long_topics(house: House) -> None:
    """What is refused is not remembered under an alias either."""
    before = house.rss()
    for _ in range(10):
        client = house.join()
        for alias in range(1, 65):
            properties = ((P.TOPIC_ALIAS, alias),)
            client.send(client.publication("x" * 65_535, qos=1, packet_id=alias, properties=properties))
            client.expect(PUBACK, reason=TOPIC_INVALID)
    assert house.rss() - before < 20 * MiB
    with house.noticed("protocol_error", "topic alias 1 stands for nothing"):
        client.send(client.publication("", properties=((P.TOPIC_ALIAS, 1),)))
        client.expect_end(PROTOCOL_ERROR)


def test_07_a_filter_of_65535_slashes(house: House) -> None:
    client, older = house.join(), house.join(V311)
    with house.noticed("topic_filter_invalid"):
        assert client.subscribe(("/" * 65_535, 0), ("a/" * 128, 0), ("é" * 513, 0)) == [0x8F] * 3
    with house.noticed("topic_filter_invalid"):
        assert older.subscribe(("/" * 65_535, 0)) == [0x80]
    assert client.subscribe(("+/" + "a/" * 126 + "#", 0)) == [0]


def test_07_a_will_to_65535_slashes(house: House) -> None:
    with house.noticed("topic_name_invalid"):
        client, answer = house.knock(will=Will("/" * 60_000))
        assert answer.reason == TOPIC_INVALID
        client.expect_closed()


@pytest.mark.parametrize(
    "flood", [((P.USER, ("", "")),) * 101, ((P.USER, ("a", "x" * 33_000)),) * 2], ids=["many", "large"]
)
def test_09_user_properties(house: House, flood: tuple[tuple[int, tuple[str, str]], ...]) -> None:
    witness = house.join()
    witness.subscribe(("#", 0))
    client = house.join()
    with house.noticed("packet_too_large"):
        client.send(client.publication("a", properties=flood) + client.publication("late") * 10)
        client.expect_end(TOO_LARGE)
    client = house.join()
    with house.noticed("packet_too_large"):
        client.send(client.subscription([("a", 0)], 1, flood))
        client.expect_end(TOO_LARGE)
    with house.noticed("packet_too_large"):
        assert house.knock(properties=flood)[1].reason == TOO_LARGE
    nothing_came(witness)


def test_09_a_hundred_user_properties_pass(house: House) -> None:
    client = house.join()
    client.subscribe(("a", 0))
    pairs = tuple((P.USER, (f"k{number}", "v")) for number in range(100))
    client.send(client.publication("a", b"x", properties=pairs))
    assert client.expect(PUBLISH).all(P.USER) == [value for _, value in pairs]


def test_12_never_finished_qos_2(house: House) -> None:
    """The announced Receive Maximum holds; a packet id costs the same however often it comes."""
    client = house.join()
    maximum = client.connack.number(P.RECEIVE_MAXIMUM, 65_535)
    assert maximum == 1024
    for packet_id in range(1, maximum + 1):
        client.send(client.publication("a", b"x", qos=2, packet_id=packet_id))
        client.expect(PUBREC)
    again = client.publication("a", b"x", qos=2, packet_id=7)
    client.send(again * 5000)
    for _ in range(5000):
        client.expect(PUBREC, packet_id=7)
    with house.noticed("receive_maximum_exceeded"):
        client.send(client.publication("a", b"x", qos=2, packet_id=maximum + 1))
        client.expect_end(TOO_MUCH)


def test_12_an_answer_that_does_not_fit(house: House) -> None:
    """Acknowledgements of nothing change nothing."""
    client = house.join()
    client.send(packet(4, u16(9)) + packet(5, u16(9)) + packet(6, u16(9), 2) + packet(7, u16(9)))
    assert [(found.kind, found.reason) for found in client.ping()] == [(6, 0x92), (7, 0x92)]
