"""Packets → bytes for a client: MQTT 3.1.1 and 5.

What 3.1.1 lacks is left out: properties, and reason codes that it cannot say. A packet that is illegal by itself is our
mistake and is written as it stands; only what no bytes can say is a `PacketError`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from latecomer.messages.mqtt import (
    NONE,
    V5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Reason,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from latecomer.wire.mqtt_fields import binary, length, text, two
from latecomer.wire.mqtt_properties import PUBLISH_WRITERS, encode_properties

_short = Struct(">BBH")


def encode(packet: Packet, version: int) -> bytes:
    """One whole packet. A CONNECT is written in its own version."""
    kind = type(packet)
    if kind is Publish:
        return _publish(packet, version)  # type: ignore[arg-type]  # mypy does not narrow by `type(...) is`
    first = _ACKNOWLEDGEMENTS.get(kind)
    if first is not None:
        return _acknowledgement(first, packet, version)
    first, encoder = _ENCODERS[kind]
    body = encoder(packet, version)
    return bytes((first,)) + length(len(body)) + body


# --- messages -------------------------------------------------------------------------------------


def _publish(packet: Publish, version: int) -> bytes:
    """The hot path: short packets are put together from as few pieces as there can be."""
    topic = packet.topic.encode() if packet.topic.isascii() else text(packet.topic)[2:]
    payload = packet.payload
    qos = packet.qos
    first = 0x30 | qos << 1 | packet.retain | packet.dup << 3
    middle = (
        b""
        if version != V5
        else b"\0"
        if packet.properties is NONE
        else encode_properties(packet.properties, PUBLISH_WRITERS)
    )
    if qos:
        middle = two.pack(packet.packet_id) + middle
    size = 2 + len(topic) + len(middle) + len(payload)
    if size < 0x80:
        return _short.pack(first, size, len(topic)) + topic + middle + payload
    return b"".join((bytes((first,)), length(size), binary(topic), middle, payload))


def _acknowledgement(first: int, packet: Any, version: int) -> bytes:
    """Of MQTT 5 in full only where there is something to say (§3.4.2.1)."""
    if version != V5 or (not packet.reason and packet.properties == NONE):
        return _short.pack(first, 2, packet.packet_id)
    tail = _reason_and_properties(packet, version)
    return bytes((first,)) + length(2 + len(tail)) + two.pack(packet.packet_id) + tail


def _reason_and_properties(packet: Any, version: int) -> bytes:
    """The end of an acknowledgement, or a DISCONNECT; both may stop after the reason (§3.4.2.2.1, §3.14.2.2.1)."""
    if version != V5 or (not packet.reason and packet.properties == NONE):
        return b""
    if packet.properties == NONE:
        return bytes((packet.reason,))
    return bytes((packet.reason,)) + encode_properties(packet.properties)


# --- connecting -----------------------------------------------------------------------------------


def _connect(packet: Connect, version: int) -> bytes:
    full = packet.version == V5
    will = packet.will
    flags = packet.clean_start << 1 | (packet.user is not None) << 7 | (packet.password is not None) << 6
    if will is not None:
        flags |= 0x04 | will.qos << 3 | will.retain << 5
    parts = [b"\0\x04MQTT", bytes((packet.version, flags)), two.pack(packet.keep_alive_s)]
    if full:
        parts.append(encode_properties(packet.properties))
    parts.append(text(packet.client_id))  # the order is [MQTT-3.1.3-1]
    if will is not None:
        if full:
            parts.append(encode_properties(will.properties))
        parts += (text(will.topic), binary(will.payload))
    if packet.user is not None:
        parts.append(text(packet.user))
    if packet.password is not None:
        parts.append(binary(packet.password))
    return b"".join(parts)


def _connack(packet: Connack, version: int) -> bytes:
    if version != V5:
        return bytes((packet.session_present, return_code(packet.reason)))
    return bytes((packet.session_present, packet.reason)) + encode_properties(packet.properties)


def return_code(reason: int) -> int:
    """What a CONNACK of 3.1.1 says for a reason (table 3.1): 3 where trying again may help, 5 where it does not."""
    return 0 if not reason else _RETURN_CODES.get(reason, 5)


_RETURN_CODES: dict[int, int] = {
    Reason.UNSUPPORTED_PROTOCOL_VERSION: 1,
    Reason.CLIENT_IDENTIFIER_NOT_VALID: 2,
    Reason.UNSPECIFIED_ERROR: 3,
    Reason.IMPLEMENTATION_SPECIFIC_ERROR: 3,
    Reason.SERVER_UNAVAILABLE: 3,
    Reason.SERVER_BUSY: 3,
    Reason.SERVER_SHUTTING_DOWN: 3,
    Reason.QUOTA_EXCEEDED: 3,
    Reason.USE_ANOTHER_SERVER: 3,
    Reason.SERVER_MOVED: 3,
    Reason.CONNECTION_RATE_EXCEEDED: 3,
    Reason.BAD_USER_NAME_OR_PASSWORD: 4,
}


def _auth(packet: Auth, version: int) -> bytes:
    if not packet.reason and packet.properties == NONE:  # §3.15.2.1
        return b""
    return bytes((packet.reason,)) + encode_properties(packet.properties)


def _nothing(packet: Pingreq | Pingresp, version: int) -> bytes:
    return b""


# --- subscribing ----------------------------------------------------------------------------------


def _before_list(packet: Subscribe | Suback | Unsubscribe | Unsuback, version: int) -> bytes:
    packet_id = two.pack(packet.packet_id)
    return packet_id + encode_properties(packet.properties) if version == V5 else packet_id


def _subscribe(packet: Subscribe, version: int) -> bytes:
    parts = [_before_list(packet, version)]
    for request in packet.requests:
        options = request.qos
        if version == V5:
            options |= request.no_local << 2 | request.retain_as_published << 3 | request.retain_handling << 4
        parts += (text(request.filter), bytes((options,)))
    return b"".join(parts)


def _suback(packet: Suback, version: int) -> bytes:
    reasons = packet.reasons if version == V5 else (min(reason, 0x80) for reason in packet.reasons)
    return _before_list(packet, version) + bytes(reasons)


def _unsubscribe(packet: Unsubscribe, version: int) -> bytes:
    return _before_list(packet, version) + b"".join(map(text, packet.filters))


def _unsuback(packet: Unsuback, version: int) -> bytes:
    return _before_list(packet, version) + (bytes(packet.reasons) if version == V5 else b"")


_ACKNOWLEDGEMENTS: dict[type, int] = {Puback: 0x40, Pubrec: 0x50, Pubrel: 0x62, Pubcomp: 0x70}

_ENCODERS: dict[type, tuple[int, Callable[[Any, int], bytes]]] = {
    Connect: (0x10, _connect),
    Connack: (0x20, _connack),
    Subscribe: (0x82, _subscribe),
    Suback: (0x90, _suback),
    Unsubscribe: (0xA2, _unsubscribe),
    Unsuback: (0xB0, _unsuback),
    Pingreq: (0xC0, _nothing),
    Pingresp: (0xD0, _nothing),
    Disconnect: (0xE0, _reason_and_properties),
    Auth: (0xF0, _auth),
}
"""The first byte (tables 2-1 and 2-2), and who writes the body."""
