"""Chapters 3.12 to 3.15 and 4.12: PING, DISCONNECT and AUTH."""

from __future__ import annotations

import pytest

from tests.conformance.codec import (
    AUTH,
    CONNACK,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBLISH,
    V5,
    Hello,
    P,
    Will,
    packet,
    properties,
    string,
)
from tests.conformance.conftest import Join, unique
from tests.conformance.raw import Closed, farewell
from tests.conformance.statement import both, v5, v311


@v5("MQTT-3.12.4-1")
@v311("MQTT-3.12.4-1")
@both
def test_a_ping_is_answered(join: Join, version: int) -> None:
    client = join(version)
    client.send(packet(PINGREQ) * 3)
    for _ in range(3):
        client.expect(PINGRESP)
    client.expect_nothing()


@v5("MQTT-3.14.4-1", "MQTT-3.14.4-2")
@v311("MQTT-3.14.4-1", "MQTT-3.14.4-2")
@both
def test_after_a_goodbye_nothing_is_processed(join: Join, topic: str, version: int) -> None:
    watcher, client = join(version), join(version)
    watcher.subscribe((topic, 0))
    client.send(packet(DISCONNECT) + client.publication(topic, b"after the end") + packet(PINGREQ))
    client.expect_closed()
    watcher.expect_nothing()


@v5("MQTT-3.14.4-2")
@v311("MQTT-3.14.4-1")
@both
def test_the_server_closes_after_a_goodbye(join: Join, version: int) -> None:
    """Should the client forget to."""
    client = join(version)
    client.send(farewell())
    client.expect_closed()


@v5("MQTT-3.14.2-1")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"\x04",
        b"\x00\x00",
        b"\x80\x00",
        b"\x00" + properties([(P.REASON_STRING, "enough"), (P.USER, ("a", "b"))]),
    ],
    ids=["empty", "reason", "with will", "properties", "error", "reason string"],
)
def test_forms_of_a_goodbye(join: Join, body: bytes) -> None:
    client = join()
    client.send(packet(DISCONNECT, body))
    client.expect_closed()


@v5("MQTT-3.14.1-1", "MQTT-3.14.2-1", "MQTT-4.13.1-1")
@pytest.mark.parametrize(
    ("body", "reasons"),
    [
        (b"\x00" + properties([(P.SESSION_EXPIRY, 0)] * 2), {0x81, 0x82}),
        (b"\x00" + properties([(P.MESSAGE_EXPIRY, 1)]), {0x81, 0x82}),
        (b"\x00\x05\x11\x00", {0x81}),
        (b"\x02", {0x81, 0x82}),
    ],
    ids=["property twice", "property of a PUBLISH", "cut off", "no such reason"],
)
def test_a_goodbye_can_be_malformed(join: Join, topic: str, body: bytes, reasons: set[int]) -> None:
    """Then it is none, and the will is published."""
    watcher = join()
    watcher.subscribe((topic, 0))
    client = join(will=Will(topic, b"will"))
    client.send(packet(DISCONNECT, body))
    client.expect_end(*reasons)
    watcher.expect(PUBLISH, payload=b"will")


@v5("MQTT-3.14.2-2", "MQTT-3.14.2-3", "MQTT-3.14.2-4", "MQTT-3.14.2-1", "MQTT-3.14.4-1")
@pytest.mark.parametrize("limit", [4, 20, 1000])
def test_the_servers_goodbye_respects_the_maximum_packet_size(join: Join, limit: int) -> None:
    """4 bytes are a DISCONNECT with its reason, and nothing more."""
    client = join.raw()
    client.send(Hello(client_id=unique("c"), properties=((P.MAXIMUM_PACKET_SIZE, limit),)).encode())
    try:
        welcome = client.receive()
    except Closed:
        assert limit < 20  # a client that cannot take its CONNACK cannot be served, and is not told lies
        return
    assert welcome.kind == CONNACK
    assert welcome.size <= limit
    client.send(packet(PINGREQ, flags=1))
    farewell_packet = client.expect_end(0x81)
    assert farewell_packet
    assert farewell_packet.size <= limit


@v5("MQTT-4.13.1-1", "MQTT-3.14.4-2", "MQTT-4.13.2-1")
def test_the_reason_arrives_although_the_client_goes_on_sending(join: Join, topic: str) -> None:
    """A connection that is reset would take the reason with it; so the broker reads on for a moment."""
    client = join()
    client.send(packet(PINGREQ, flags=1) + client.publication(topic, b"x" * 1000) * 20)
    client.expect_end(0x81)


# --- AUTH ---


@v5("MQTT-4.12.0-6")
def test_no_auth_without_a_method(join: Join) -> None:
    client = join()
    assert client.connack.get(P.AUTH_METHOD) is None
    assert client.connack.get(P.AUTH_DATA) is None
    client.expect_nothing()


@v5("MQTT-4.12.0-7", "MQTT-4.12.1-1", "MQTT-4.12.1-2", "MQTT-4.13.1-1")
@pytest.mark.parametrize(
    "body",
    [b"", b"\x19" + properties([(P.AUTH_METHOD, "SCRAM-SHA-1")]), b"\x18" + properties([(P.AUTH_METHOD, "x")])],
    ids=["empty", "re-authenticate", "continue"],
)
def test_auth_without_a_method_is_an_error(join: Join, body: bytes) -> None:
    client = join()
    client.send(packet(AUTH, body))
    client.expect_end(0x82)


@v5("MQTT-3.15.1-1")
@pytest.mark.parametrize("flags", [1, 2, 8])
def test_the_flags_of_auth_are_zero(join: Join, flags: int) -> None:
    client = join()
    client.send(packet(AUTH, b"", flags))
    client.expect_end(0x81)


@v5("MQTT-4.12.0-1", "MQTT-4.12.0-4", "MQTT-3.1.4-6", "MQTT-3.1.2-30")
def test_after_an_unknown_method_nothing_is_processed(join: Join, topic: str) -> None:
    watcher, client = join(), join.raw()
    watcher.subscribe((topic, 0))
    hello = Hello(client_id=unique("c"), properties=((P.AUTH_METHOD, "no such"), (P.AUTH_DATA, b"data")))
    client.send(hello.encode() + packet(PUBLISH, string(topic) + b"\0x"))
    client.expect(CONNACK, reason=0x8C)
    client.expect_closed()
    watcher.expect_nothing()


@v5("MQTT-4.12.0-1")
def test_an_auth_that_comes_first_is_no_connect(join: Join) -> None:
    client = join.raw(V5)
    client.send(packet(AUTH, b"\x18" + properties([(P.AUTH_METHOD, "x")])))
    client.expect_closed()
