"""Properties of MQTT 5 as bytes (§2.2.2): one table says what there is and which packets may carry it.

Decision: beyond what the specification demands, one list holds at most 100 user properties and 64 KiB, because one
packet must not cost more than its bytes are worth; a CONNECT has two lists, its own and that of its will.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

from latecomer.messages.mqtt import NONE, PacketError, Properties, Reason
from latecomer.wire.mqtt_fields import (
    binary,
    byte,
    forbidden,
    four,
    length,
    malformed,
    pair,
    read_binary,
    read_byte,
    read_four,
    read_length,
    read_pair,
    read_text,
    read_two,
    text,
    two,
    words,
)

USER_MAX = 100
PROPERTIES_MAX = 65_536

# The packet types of §2.1.2. A will is not a packet, but it has a list of its own: it takes the reserved number 0.
WILL, CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)

NAMES = (
    *("will", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP"),
    *("SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"),
)


Writers = tuple[tuple[Callable[[Properties], Any], bytes, Callable[[Any], bytes], bool], ...]


class Type(NamedTuple):
    """How the value of a property is read and written."""

    read: Callable[[bytes, int], tuple[Any, int]]
    write: Callable[[Any], bytes]


BYTE = Type(read_byte, byte)
TWO = Type(read_two, two.pack)
FOUR = Type(read_four, four.pack)
LENGTH = Type(read_length, length)
BINARY = Type(read_binary, binary)
TEXT = Type(read_text, text)
WORDS = Type(read_text, words)
PAIR = Type(read_pair, pair)


class Property(NamedTuple):
    """One line of table 2-4."""

    id: int
    name: str
    type: Type
    packets: tuple[int, ...]
    repeatable: tuple[int, ...] = ()
    """The packets that may carry it more than once; its field is then a tuple."""


_MESSAGE = (PUBLISH, WILL)
_ANSWERS = (CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, DISCONNECT, AUTH)
_ALL = (WILL, CONNECT, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, *_ANSWERS)

PROPERTIES = (
    Property(0x01, "payload_format", BYTE, _MESSAGE),
    Property(0x02, "message_expiry_s", FOUR, _MESSAGE),
    Property(0x03, "content_type", TEXT, _MESSAGE),
    Property(0x08, "response_topic", TEXT, _MESSAGE),
    Property(0x09, "correlation_data", BINARY, _MESSAGE),
    Property(0x0B, "subscription_ids", LENGTH, (PUBLISH, SUBSCRIBE), (PUBLISH,)),
    Property(0x11, "session_expiry_s", FOUR, (CONNECT, CONNACK, DISCONNECT)),
    Property(0x12, "assigned_client_id", TEXT, (CONNACK,)),
    Property(0x13, "server_keep_alive_s", TWO, (CONNACK,)),
    Property(0x15, "authentication_method", TEXT, (CONNECT, CONNACK, AUTH)),
    Property(0x16, "authentication_data", BINARY, (CONNECT, CONNACK, AUTH)),
    Property(0x17, "request_problem_information", BYTE, (CONNECT,)),
    Property(0x18, "will_delay_s", FOUR, (WILL,)),
    Property(0x19, "request_response_information", BYTE, (CONNECT,)),
    Property(0x1A, "response_information", TEXT, (CONNACK,)),
    Property(0x1C, "server_reference", TEXT, (CONNACK, DISCONNECT)),
    Property(0x1F, "reason_string", WORDS, _ANSWERS),
    Property(0x21, "receive_maximum", TWO, (CONNECT, CONNACK)),
    Property(0x22, "topic_alias_maximum", TWO, (CONNECT, CONNACK)),
    Property(0x23, "topic_alias", TWO, (PUBLISH,)),
    Property(0x24, "maximum_qos", BYTE, (CONNACK,)),
    Property(0x25, "retain_available", BYTE, (CONNACK,)),
    Property(0x26, "user", PAIR, _ALL, _ALL),
    Property(0x27, "maximum_packet_size", FOUR, (CONNECT, CONNACK)),
    Property(0x28, "wildcard_available", BYTE, (CONNACK,)),
    Property(0x29, "subscription_ids_available", BYTE, (CONNACK,)),
    Property(0x2A, "shared_available", BYTE, (CONNACK,)),
)
"""Table 2-4, in the order of the fields of `Properties`."""

_PLURAL = {"subscription_ids", "user"}
_NOT_ZERO = {
    "receive_maximum": Reason.PROTOCOL_ERROR,  # §3.1.2.11.3
    "maximum_packet_size": Reason.PROTOCOL_ERROR,  # §3.1.2.11.4
    "subscription_ids": Reason.PROTOCOL_ERROR,  # §3.8.2.1.2
    "topic_alias": Reason.TOPIC_ALIAS_INVALID,  # [MQTT-3.3.2-8]
}

_BY_ID: list[dict[int, Property]] = [
    {property.id: property for property in PROPERTIES if packet in property.packets} for packet in range(16)
]
_WRITERS = tuple((attrgetter(p.name), byte(p.id), p.type.write, p.name in _PLURAL) for p in PROPERTIES)
PUBLISH_WRITERS = tuple(writer for writer, p in zip(_WRITERS, PROPERTIES, strict=True) if PUBLISH in p.packets)
"""A PUBLISH can have few of them, and is sent often."""


def encode_properties(properties: Properties, writers: Writers = _WRITERS) -> bytes:
    """The list with its length. Whether the packet may carry it is the caller's business."""
    if properties is NONE:
        return b"\0"
    parts: list[bytes] = []
    for get, key, write, plural in writers:
        value = get(properties)
        if plural:
            for member in value:
                parts += (key, write(member))
        elif value is not None:
            parts += (key, write(value))
    body = b"".join(parts)
    return length(len(body)) + body


def decode_properties(data: bytes, at: int, packet: int) -> tuple[Properties, int]:
    """The list that begins here, for this packet type, and the place behind it."""
    if not data[at]:
        return NONE, at + 1
    size, at = read_length(data, at)
    end = at + size
    if end > len(data):
        raise malformed("the properties end behind their packet")
    if size > PROPERTIES_MAX:
        raise PacketError(Reason.PACKET_TOO_LARGE, f"{size} bytes of properties exceed the limit of {PROPERTIES_MAX}")
    known = _BY_ID[packet]
    values: dict[str, Any] = {}
    while at < end:
        # Identifiers are variable byte integers, but there is none above 0x7F: a longer one is as unknown as they come.
        property = known.get(data[at])
        if property is None:
            raise malformed(f"property 0x{data[at]:02X} does not belong into a {NAMES[packet]}")  # §2.2.2.2
        value, at = property.type.read(data, at + 1)
        name = property.name
        if name in _PLURAL:
            values.setdefault(name, []).append(value)
            if len(values[name]) > 1:
                _check_repetition(property, packet, len(values[name]))
        elif name in values:
            raise forbidden(f"the property {name} comes twice")  # §3.1.2.11 and its like
        else:
            values[name] = value
    if at > end:
        raise malformed("the last property ends behind the properties")
    _check_values(values)
    for name in ("subscription_ids", "user"):
        if name in values:
            values[name] = tuple(values[name])
    return Properties(**values), end


def _check_repetition(property: Property, packet: int, count: int) -> None:
    if packet not in property.repeatable:
        raise forbidden(f"the property {property.name} comes twice")  # §3.8.2.1.2
    if count > USER_MAX and property.type is PAIR:
        raise PacketError(Reason.PACKET_TOO_LARGE, f"more than {USER_MAX} user properties")


def _check_values(values: dict[str, Any]) -> None:
    """What the types do not say."""
    for name, value in values.items():
        if name in _NOT_ZERO:
            if value == 0 or (name == "subscription_ids" and 0 in value):
                raise PacketError(_NOT_ZERO[name], f"the property {name} must not be 0")
        elif name in _FLAGS:
            if value > 1:
                raise forbidden(f"the property {name} is 0 or 1, not {value}")
        elif name == "response_topic" and (not value or "+" in value or "#" in value):
            raise forbidden("a response topic is a topic name, without wildcards")  # [MQTT-3.3.2-14]
    if "authentication_data" in values and "authentication_method" not in values:
        raise forbidden("authentication data without an authentication method")  # §3.1.2.11.10


_FLAGS = {property.name for property in PROPERTIES if property.type is BYTE}
"""Every property of one byte is 0 or 1, and anything else a protocol error: §3.1.2.11.6, §3.2.2.3.4 and their like."""
