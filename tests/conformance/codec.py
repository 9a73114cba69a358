"""Bytes of MQTT, written a second time: an encoder that can also lie, and a decoder that forgives a broker nothing.

Independent of `latecomer.wire` on purpose; a mistake that both sides share would prove nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

V311 = 4
V5 = 5

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = 8, 9, 10, 11, 12, 13, 14, 15
NAMES = (
    *("type 0", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP"),
    *("SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"),
)


NO_LOCAL, AS_PUBLISHED, RETAINED_IF_NEW, RETAINED_NEVER = 0x04, 0x08, 0x10, 0x20
"""Bits of the subscription options, beside the QoS (§3.8.3.1)."""


class P(IntEnum):
    """Property identifiers (MQTT 5, table 2-4)."""

    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_ID = 0x0B
    SESSION_EXPIRY = 0x11
    ASSIGNED_CLIENT_ID = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTH_METHOD = 0x15
    AUTH_DATA = 0x16
    REQUEST_PROBLEM = 0x17
    WILL_DELAY = 0x18
    REQUEST_RESPONSE = 0x19
    RESPONSE_INFORMATION = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_AVAILABLE = 0x28
    SUBSCRIPTION_IDS_AVAILABLE = 0x29
    SHARED_AVAILABLE = 0x2A


BYTES = {
    P.PAYLOAD_FORMAT,
    P.REQUEST_PROBLEM,
    P.REQUEST_RESPONSE,
    P.MAXIMUM_QOS,
    P.RETAIN_AVAILABLE,
    P.WILDCARD_AVAILABLE,
    P.SUBSCRIPTION_IDS_AVAILABLE,
    P.SHARED_AVAILABLE,
}
TWO_BYTES = {P.SERVER_KEEP_ALIVE, P.RECEIVE_MAXIMUM, P.TOPIC_ALIAS_MAXIMUM, P.TOPIC_ALIAS}
FOUR_BYTES = {P.MESSAGE_EXPIRY, P.SESSION_EXPIRY, P.WILL_DELAY, P.MAXIMUM_PACKET_SIZE}
BINARY = {P.CORRELATION_DATA, P.AUTH_DATA}

Value = int | str | bytes | tuple[str, str]
Properties = Iterable[tuple[int, Value]]

# What a server may send in which packet (table 2-4), and which reason codes each may carry.
FROM_SERVER: dict[int, set[int]] = {
    CONNACK: {
        P.SESSION_EXPIRY,
        P.RECEIVE_MAXIMUM,
        P.MAXIMUM_QOS,
        P.RETAIN_AVAILABLE,
        P.MAXIMUM_PACKET_SIZE,
        P.ASSIGNED_CLIENT_ID,
        P.TOPIC_ALIAS_MAXIMUM,
        P.REASON_STRING,
        P.USER,
        P.WILDCARD_AVAILABLE,
        P.SUBSCRIPTION_IDS_AVAILABLE,
        P.SHARED_AVAILABLE,
        P.SERVER_KEEP_ALIVE,
        P.RESPONSE_INFORMATION,
        P.SERVER_REFERENCE,
        P.AUTH_METHOD,
        P.AUTH_DATA,
    },
    PUBLISH: {
        P.PAYLOAD_FORMAT,
        P.MESSAGE_EXPIRY,
        P.TOPIC_ALIAS,
        P.RESPONSE_TOPIC,
        P.CORRELATION_DATA,
        P.USER,
        P.SUBSCRIPTION_ID,
        P.CONTENT_TYPE,
    },
    **{kind: {P.REASON_STRING, P.USER} for kind in (PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK)},
    DISCONNECT: {P.REASON_STRING, P.USER, P.SERVER_REFERENCE},
    AUTH: {P.AUTH_METHOD, P.AUTH_DATA, P.REASON_STRING, P.USER},
}
REASONS: dict[int, set[int]] = {
    CONNACK: {0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F},
    PUBACK: {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    PUBREC: {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    PUBREL: {0, 0x92},
    PUBCOMP: {0, 0x92},
    SUBACK: {0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
    UNSUBACK: {0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91},
    DISCONNECT: {0, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)},
    AUTH: {0, 0x18, 0x19},
}


# --- writing ---------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (128 if value else 0))
        if not value:
            return bytes(out)


def binary(data: bytes) -> bytes:
    return struct.pack("!H", len(data)) + data


def string(text: str | bytes) -> bytes:
    """A length and the characters; bytes are written as they are, so that a test can send what no str can hold."""
    return binary(text if isinstance(text, bytes) else text.encode())


def u16(value: int) -> bytes:
    return struct.pack("!H", value)


def one_property(identifier: int, value: Value) -> bytes:
    head = bytes([identifier])
    if isinstance(value, tuple):
        return head + string(value[0]) + string(value[1])
    if isinstance(value, str | bytes):
        return head + string(value)
    if identifier == P.SUBSCRIPTION_ID:
        return head + varint(value)
    return head + value.to_bytes(1 if identifier in BYTES else 2 if identifier in TWO_BYTES else 4, "big")


def properties(items: Properties) -> bytes:
    body = b"".join(one_property(identifier, value) for identifier, value in items)
    return varint(len(body)) + body


def packet(kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    return bytes([kind << 4 | flags]) + varint(len(body)) + body


@dataclass(frozen=True)
class Will:
    topic: str | bytes
    payload: bytes = b"gone"
    qos: int = 0
    retain: bool = False
    properties: tuple[tuple[int, Value], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Hello:
    """A CONNECT, with every field open to mischief."""

    client_id: str | bytes = ""
    version: int = V5
    clean: bool = True
    keep_alive: int = 120
    will: Will | None = None
    user: str | bytes | None = None
    password: bytes | None = None
    properties: tuple[tuple[int, Value], ...] = ()
    name: str | bytes = "MQTT"
    flags: int | None = None
    """Connect flags instead of those that follow from the other fields."""

    def encode(self) -> bytes:
        will, five = self.will, self.version == V5
        flags = 2 if self.clean else 0
        payload = string(self.client_id)
        if will:
            flags |= 4 | will.qos << 3 | will.retain << 5
            payload += properties(will.properties) if five else b""
            payload += string(will.topic) + binary(will.payload)
        if self.user is not None:
            flags |= 128
            payload += string(self.user)
        if self.password is not None:
            flags |= 64
            payload += binary(self.password)
        head = string(self.name) + bytes([self.version, flags if self.flags is None else self.flags])
        head += u16(self.keep_alive) + (properties(self.properties) if five else b"")
        return packet(CONNECT, head + payload)


# --- reading ---------------------------------------------------------------------------------------------------------


@dataclass
class Packet:
    """One packet from the broker. Fields that its kind does not have keep their default."""

    kind: int
    flags: int
    size: int = 0
    packet_id: int = 0
    reason: int = 0
    reasons: list[int] = field(default_factory=list)
    session_present: bool = False
    topic: str = ""
    payload: bytes = b""
    properties: list[tuple[int, Value]] = field(default_factory=list)

    @property
    def qos(self) -> int:
        return self.flags >> 1 & 3

    @property
    def retain(self) -> bool:
        return bool(self.flags & 1)

    @property
    def dup(self) -> bool:
        return bool(self.flags & 8)

    def all(self, identifier: int) -> list[Value]:
        return [value for key, value in self.properties if key == identifier]

    def get(self, identifier: int) -> Value | None:
        return next(iter(self.all(identifier)), None)

    def number(self, identifier: int, default: int) -> int:
        value = self.get(identifier)
        return value if isinstance(value, int) else default

    def __str__(self) -> str:
        return f"{NAMES[self.kind]}({', '.join(f'{k}={v!r}' for k, v in vars(self).items() if k != 'kind' and v)})"


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        assert self.at + count <= len(self.data), f"the packet ends too early: {self.data.hex(' ')}"
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        text = self.take(self.number(2)).decode("utf-8", "strict")  # [MQTT-1.5.4-1]
        assert "\0" not in text  # [MQTT-1.5.4-2]
        return text

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                assert byte or shift == 7, "a variable byte integer longer than needed"  # [MQTT-1.5.5-1]
                return value
            assert shift < 28, "a variable byte integer of more than four bytes"

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    def left(self) -> bool:
        return self.at < len(self.data)

    def properties(self, kind: int) -> list[tuple[int, Value]]:
        end = self.varint() + self.at
        found: list[tuple[int, Value]] = []
        while self.at < end:
            identifier = self.varint()
            assert identifier in FROM_SERVER[kind], f"property {identifier:#x} in a {NAMES[kind]} from a server"
            repeated = any(identifier == known for known, _ in found)
            assert not repeated or identifier in (P.USER, P.SUBSCRIPTION_ID), f"property {identifier:#x} twice"
            found.append((identifier, self.property_value(identifier)))
        assert self.at == end, "the property length does not end where a property ends"
        return found

    def property_value(self, identifier: int) -> Value:
        if identifier == P.USER:
            return self.text(), self.text()
        if identifier == P.SUBSCRIPTION_ID:
            return self.varint()
        for size, members in ((1, BYTES), (2, TWO_BYTES), (4, FOUR_BYTES)):
            if identifier in members:
                return self.number(size)
        return self.take(self.number(2)) if identifier in BINARY else self.text()


def decode(first: int, body: bytes, version: int) -> Packet:
    """A packet from the broker; anything in it that the specification does not allow is an AssertionError."""
    read, five = Reader(body), version == V5
    found = Packet(first >> 4, first & 15, len(body))
    kind = found.kind
    if kind == PUBLISH:
        read_publish(found, read, five)
    else:
        assert found.flags == (2 if kind == PUBREL else 0), f"flags {found.flags:#x} in {NAMES[kind]}"  # [MQTT-2.1.3-1]
        assert kind in (CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, PINGRESP, DISCONNECT, AUTH)
        assert five or kind not in (DISCONNECT, AUTH), f"{NAMES[kind]} sent to a 3.1.1 client"
        if kind == CONNACK:
            flags = read.number(1)
            assert flags in (0, 1)  # [MQTT-3.2.2-1]
            found.session_present = bool(flags)
        elif kind not in (PINGRESP, DISCONNECT, AUTH):
            found.packet_id = read.number(2)
            assert found.packet_id
        if kind == CONNACK or (five and read.left() and kind not in (SUBACK, UNSUBACK)):
            found.reason = read.number(1)
        if five and (kind in (CONNACK, SUBACK, UNSUBACK) or read.left()):
            found.properties = read.properties(kind)  # [MQTT-2.2.2-1]
        if kind in (SUBACK, UNSUBACK):
            found.reasons = list(read.rest())
    allowed = REASONS.get(kind, {0}) if five else {CONNACK: {0, 1, 2, 3, 4, 5}, SUBACK: {0, 1, 2, 0x80}}.get(kind, {0})
    assert not {found.reason, *found.reasons} - allowed, f"a reason code that {found} may not have"
    assert not read.left(), f"bytes behind the end of {found}"
    return found


def read_publish(found: Packet, read: Reader, five: bool) -> None:
    assert found.qos != 3  # [MQTT-3.3.1-4]
    assert found.qos or not found.dup  # [MQTT-3.3.1-2]
    found.topic = read.text()
    assert not set("+#") & set(found.topic)  # [MQTT-3.3.2-2]
    if found.qos:
        found.packet_id = read.number(2)
        assert found.packet_id  # [MQTT-2.2.1-4]
    if five:
        found.properties = read.properties(PUBLISH)
    assert found.topic or found.get(P.TOPIC_ALIAS)
    found.payload = read.rest()
