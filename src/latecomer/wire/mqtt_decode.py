"""Bytes of a client → packets: MQTT 3.1.1 and 5, both directions.

What arrives here comes from outside. Whatever the bytes are, the answer is a packet or a `PacketError` whose reason
code is the one the specification names: 0x81 for what cannot be parsed, 0x82 for what must not be said, others where
it says so. Clauses of MQTT 5 are cited as they are, those of 3.1.1 with their version. What needs memory of earlier
packets, or depends on who sends, is left to the core; so is the legality of topic filters, which SUBACK answers.

Decision: a wrong flag in the fixed header, which 3.1.1 and 5 answer alike, is malformed, also DUP with QoS 0; a packet
identifier of 0 and a reason code that the packet does not know are protocol errors.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from latecomer.messages.mqtt import (
    NONE,
    V5,
    V311,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    PacketError,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Reason,
    Request,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Will,
)
from latecomer.wire.mqtt_fields import forbidden, malformed, read_binary, read_text, two
from latecomer.wire.mqtt_properties import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    NAMES,
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    WILL,
    decode_properties,
)

_SHARED = "$share/"
_PREAMBLE = b"\0\x04MQTT"


def decode(first: int, body: bytes, version: int) -> Packet:
    """The packet with this first byte and this body (what follows the remaining length), or a `PacketError`."""
    try:
        kind = first >> 4
        if kind == PUBLISH:
            return _publish(first, body, version)
        expected, decoder = _DECODERS[kind]
        if first & 0x0F != expected or (kind == AUTH and version != V5):
            # [MQTT-2.1.3-1], [MQTT-3.15.1-1]; 3.1.1: [MQTT-2.2.2-2] and the types 0 and 15 (§2.2.1)
            raise malformed(f"0x{first:02X} begins no packet")
        return decoder(kind, body, version)
    except (IndexError, struct.error):
        raise malformed(f"a {NAMES[first >> 4]} ends too early") from None


def protocol_level(body: bytes) -> int:
    """The protocol level of a CONNECT, whatever the name of its protocol."""
    at = 2 + int.from_bytes(body[:2])
    return body[at] if at < len(body) else 0


def protocol_version(body: bytes) -> int:
    """The version that a CONNECT asks for [MQTT-3.1.2-1, MQTT-3.1.2-2; the same in 3.1.1]."""
    try:
        if not body.startswith(_PREAMBLE):
            raise _other_protocol(body)
        level = body[6]
    except (IndexError, struct.error):
        raise malformed("a CONNECT ends too early") from None
    if level not in (V311, V5):
        raise PacketError(Reason.UNSUPPORTED_PROTOCOL_VERSION, f"MQTT 3.1.1 and 5 are spoken here, not level {level}")
    return level


def _other_protocol(body: bytes) -> PacketError:
    name, _ = read_text(body, 0)
    old = " (MQTT 3.1)" if name == "MQIsdp" else ""
    sentence = f"MQTT 3.1.1 and 5 are spoken here, not {name[:32]!r}{old}"
    return PacketError(Reason.UNSUPPORTED_PROTOCOL_VERSION, sentence)


# --- messages -------------------------------------------------------------------------------------


def _publish(first: int, body: bytes, version: int) -> Publish:
    """The hot path: no loops and no tables when there are no properties."""
    qos = first >> 1 & 3
    if qos == 3 or first & 0b1110 == 0b1000:
        raise malformed("a PUBLISH has QoS 3" if qos == 3 else "DUP is set with QoS 0")  # [MQTT-3.3.1-4, -2]
    at = 2 + (body[0] << 8 | body[1])
    if at > len(body):
        raise malformed("the topic of a PUBLISH ends behind its packet")
    try:
        topic = body[2:at].decode()  # [MQTT-3.3.2-1]; what `read_text` does, without the call
    except UnicodeDecodeError:
        raise malformed("the topic of a PUBLISH is not UTF-8") from None
    if "+" in topic or "#" in topic or "\0" in topic:
        raise _wrong_topic(topic)
    packet_id = 0
    if qos:  # [MQTT-2.2.1-2]; 3.1.1: [MQTT-2.3.1-5]
        packet_id = body[at] << 8 | body[at + 1]
        at += 2
        if not packet_id:
            raise _no_packet_id(PUBLISH)
    properties = NONE
    if version == V5:
        if body[at]:
            properties, at = decode_properties(body, at, PUBLISH)
        else:
            at += 1
    if not topic:
        _check_empty_topic(version, properties)
    return Publish(topic, body[at:], qos, first & 1 == 1, first & 8 == 8, packet_id, properties)


def _wrong_topic(topic: str) -> PacketError:
    if "\0" in topic:
        return malformed("the topic of a PUBLISH contains U+0000")  # [MQTT-1.5.4-2], [MQTT-4.7.3-2]
    return PacketError(Reason.TOPIC_NAME_INVALID, "the topic of a PUBLISH contains a wildcard")  # [MQTT-3.3.2-2]


def _check_empty_topic(version: int, properties: Properties) -> None:
    if version != V5:
        raise malformed("a PUBLISH has an empty topic")  # 3.1.1: [MQTT-4.7.3-1]
    if properties.topic_alias is None:
        raise forbidden("a PUBLISH has neither a topic nor a topic alias")  # §3.3.2.1


def _no_packet_id(kind: int) -> PacketError:
    """[MQTT-2.2.1-3]; 3.1.1: [MQTT-2.3.1-1]."""
    return forbidden(f"a {NAMES[kind]} has packet identifier 0")


def _acknowledgement(kind: int, body: bytes, version: int) -> Packet:
    """PUBACK, PUBREC, PUBREL and PUBCOMP: in short, with a reason, or with a reason and properties (§3.4.2)."""
    packet_id = body[0] << 8 | body[1]
    if not packet_id:
        raise _no_packet_id(kind)
    make = _ACKNOWLEDGEMENTS[kind]
    size = len(body)
    if size == 2:
        return make(packet_id)
    if version != V5:
        raise malformed(f"a {NAMES[kind]} has bytes at its end")
    reason = _reason(body[2], kind)
    if size == 3:
        return make(packet_id, reason)
    return make(packet_id, reason, _last_properties(body, 3, kind))


def _reason(code: int, kind: int) -> int:
    """[MQTT-3.2.2-8, MQTT-3.4.2-1, MQTT-3.9.3-2, MQTT-3.14.2-1, MQTT-3.15.2-1] and their like."""
    if code not in _REASONS[kind]:
        raise forbidden(f"0x{code:02X} is no reason code of a {NAMES[kind]}")
    return code


def _last_properties(body: bytes, at: int, kind: int) -> Properties:
    properties, at = decode_properties(body, at, kind)
    if at != len(body):
        raise malformed(f"a {NAMES[kind]} has bytes at its end")
    return properties


# --- connecting -----------------------------------------------------------------------------------


def _connect(kind: int, body: bytes, version: int) -> Connect:
    version = protocol_version(body)
    flags = body[7]
    _check_connect_flags(flags, version)
    keep_alive = two.unpack_from(body, 8)[0]
    at = 10
    properties = NONE
    if version == V5:
        properties, at = decode_properties(body, at, CONNECT)
    client_id, at = read_text(body, at)  # [MQTT-3.1.3-1, MQTT-3.1.3-3, MQTT-3.1.3-4]
    will = user = password = None
    if flags & 0x04:
        will, at = _will(flags, body, at, version)
    if flags & 0x80:
        user, at = read_text(body, at)  # [MQTT-3.1.3-12]
    if flags & 0x40:
        password, at = read_binary(body, at)
    if at != len(body):
        raise malformed("a CONNECT has bytes at its end")
    clean = flags & 0x02 == 0x02
    if version == V311 and not client_id and not clean:  # 3.1.1: [MQTT-3.1.3-7, MQTT-3.1.3-8]
        raise PacketError(
            Reason.CLIENT_IDENTIFIER_NOT_VALID, "without a client identifier there is no session to come back to"
        )
    return Connect(client_id, version, clean, keep_alive, will, user, password, properties)


def _check_connect_flags(flags: int, version: int) -> None:
    if flags & 0x01:
        raise malformed("the reserved flag of a CONNECT is set")  # [MQTT-3.1.2-3]
    if flags & 0x18 == 0x18:
        raise malformed("a will has QoS 3")  # [MQTT-3.1.2-12]; 3.1.1: [MQTT-3.1.2-14]
    if not flags & 0x04 and flags & 0x38:
        # [MQTT-3.1.2-11, MQTT-3.1.2-13]; 3.1.1: [MQTT-3.1.2-13, MQTT-3.1.2-15]
        raise malformed("a CONNECT has the QoS or the retain flag of a will, but no will")
    if version == V311 and flags & 0xC0 == 0x40:
        raise malformed("a CONNECT has a password, but no user name")  # 3.1.1: [MQTT-3.1.2-22]


def _will(flags: int, body: bytes, at: int, version: int) -> tuple[Will, int]:
    """[MQTT-3.1.2-9]."""
    properties = NONE
    if version == V5:
        properties, at = decode_properties(body, at, WILL)
    topic, at = read_text(body, at)  # [MQTT-3.1.3-11]
    payload, at = read_binary(body, at)
    if not topic:
        raise malformed("a will has an empty topic")  # [MQTT-4.7.3-1]
    if "+" in topic or "#" in topic:
        raise PacketError(Reason.TOPIC_NAME_INVALID, "the topic of a will contains a wildcard")  # [MQTT-4.7.1-1]
    return Will(topic, payload, flags >> 3 & 3, flags & 0x20 == 0x20, properties), at


def _connack(kind: int, body: bytes, version: int) -> Connack:
    flags, code = body[0], body[1]
    if flags > 1:
        raise malformed("a reserved flag of a CONNACK is set")  # [MQTT-3.2.2-1]
    if version == V5:
        reason = _reason(code, CONNACK)
        properties = _last_properties(body, 2, CONNACK)
    elif len(body) > 2 or code >= len(RETURN_CODES):
        raise malformed("a CONNACK has bytes at its end" if len(body) > 2 else f"{code} is no return code")
    else:
        reason, properties = RETURN_CODES[code], NONE
    if flags and reason:
        raise forbidden("a refusing CONNACK has a session present")  # [MQTT-3.2.2-6]; 3.1.1: [MQTT-3.2.2-4]
    return Connack(flags == 1, reason, properties)


def _disconnect(kind: int, body: bytes, version: int) -> Disconnect:
    if not body:
        return Disconnect()
    if version != V5:
        raise malformed("a DISCONNECT has bytes at its end")
    reason = _reason(body[0], DISCONNECT)
    if len(body) == 1:  # §3.14.2.2.1
        return Disconnect(reason)
    return Disconnect(reason, _last_properties(body, 1, DISCONNECT))


def _auth(kind: int, body: bytes, version: int) -> Auth:
    if not body:  # §3.15.2.1
        return Auth()
    reason = _reason(body[0], AUTH)
    properties = _last_properties(body, 1, AUTH)
    if properties.authentication_method is None and (reason or properties is not NONE):
        raise forbidden("an AUTH names no authentication method")  # §3.15.2.2.2
    return Auth(reason, properties)


def _ping(kind: int, body: bytes, version: int) -> Packet:
    if body:
        raise malformed(f"a {NAMES[kind]} has bytes at its end")
    return Pingreq() if kind == PINGREQ else Pingresp()


# --- subscribing ----------------------------------------------------------------------------------


def _before_list(kind: int, body: bytes, version: int) -> tuple[int, Properties, int]:
    """Packet identifier and properties; what follows is a list to the end of the packet."""
    packet_id = body[0] << 8 | body[1]
    if not packet_id:
        raise _no_packet_id(kind)
    if version != V5:
        return packet_id, NONE, 2
    properties, at = decode_properties(body, 2, kind)
    return packet_id, properties, at


def _subscribe(kind: int, body: bytes, version: int) -> Subscribe:
    packet_id, properties, at = _before_list(kind, body, version)
    requests = []
    while at < len(body):
        filter, at = _filter(body, at)
        options = body[at]
        at += 1
        _check_options(filter, options, version)
        requests.append(Request(filter, options & 3, options & 4 == 4, options & 8 == 8, options >> 4))
    if not requests:
        raise forbidden("a SUBSCRIBE has no topic filter")  # [MQTT-3.8.3-2]; 3.1.1: [MQTT-3.8.3-3]
    return Subscribe(packet_id, tuple(requests), properties)


def _filter(body: bytes, at: int) -> tuple[str, int]:
    filter, at = read_text(body, at)  # [MQTT-3.8.3-1], [MQTT-3.10.3-1]
    if not filter:
        raise malformed("a topic filter is empty")  # [MQTT-4.7.3-1]
    return filter, at


def _check_options(filter: str, options: int, version: int) -> None:
    if version != V5:
        if options > 2:
            raise malformed(f"{options} is no requested QoS")  # 3.1.1: [MQTT-3-8.3-4]
    elif options & 0xC0:
        raise malformed("a reserved subscription option is set")  # [MQTT-3.8.3-5]
    elif options & 3 == 3 or options >> 4 == 3:
        raise forbidden("a subscription has QoS 3" if options & 3 == 3 else "a subscription has retain handling 3")
    elif options & 4 and filter.startswith(_SHARED):
        raise forbidden("a shared subscription has No Local set")  # [MQTT-3.8.3-4]


def _unsubscribe(kind: int, body: bytes, version: int) -> Unsubscribe:
    packet_id, properties, at = _before_list(kind, body, version)
    filters = []
    while at < len(body):
        filter, at = _filter(body, at)
        filters.append(filter)
    if not filters:
        raise forbidden("an UNSUBSCRIBE has no topic filter")  # [MQTT-3.10.3-2]
    return Unsubscribe(packet_id, tuple(filters), properties)


def _suback(kind: int, body: bytes, version: int) -> Suback:
    packet_id, properties, at = _before_list(kind, body, version)
    reasons = tuple(body[at:])
    if not reasons:
        raise forbidden("a SUBACK has no reason codes")  # [MQTT-3.8.4-6]
    for reason in reasons:
        if version == V5:
            _reason(reason, SUBACK)
        elif reason > 2 and reason != 0x80:
            raise malformed(f"0x{reason:02X} is no return code of a SUBACK")  # 3.1.1: [MQTT-3.9.3-2]
    return Suback(packet_id, reasons, properties)


def _unsuback(kind: int, body: bytes, version: int) -> Unsuback:
    packet_id, properties, at = _before_list(kind, body, version)
    reasons = tuple(body[at:])
    if version != V5 and reasons:
        raise malformed("an UNSUBACK has bytes at its end")
    if version == V5 and not reasons:
        raise forbidden("an UNSUBACK has no reason codes")  # §3.11.3
    for reason in reasons:
        _reason(reason, UNSUBACK)
    return Unsuback(packet_id, reasons, properties)


def _nothing(kind: int, body: bytes, version: int) -> Packet:
    raise malformed("there is no packet of type 0")  # §2.1.2


# --- tables ---------------------------------------------------------------------------------------

RETURN_CODES = (
    Reason.SUCCESS,
    Reason.UNSUPPORTED_PROTOCOL_VERSION,
    Reason.CLIENT_IDENTIFIER_NOT_VALID,
    Reason.SERVER_UNAVAILABLE,
    Reason.BAD_USER_NAME_OR_PASSWORD,
    Reason.NOT_AUTHORIZED,
)
"""The return codes of 3.1.1 (table 3.1), in the words of MQTT 5."""

_PUBACK = frozenset((0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99))
_PUBREL = frozenset((0x00, 0x92))
_REASONS: dict[int, frozenset[int]] = {
    CONNACK: frozenset((0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F)),
    PUBACK: _PUBACK,
    PUBREC: _PUBACK,
    PUBREL: _PUBREL,
    PUBCOMP: _PUBREL,
    SUBACK: frozenset((0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2)),
    UNSUBACK: frozenset((0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)),
    # 0x8C stands in §2.4 and not in §3.14.2.1; whoever sends it has read the former.
    DISCONNECT: frozenset(
        (0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, 0x8B, 0x8C, *range(0x8D, 0x91), *range(0x93, 0xA3))
    ),
    AUTH: frozenset((0x00, 0x18, 0x19)),
}
"""Which packet may say what (§2.4)."""

_ACKNOWLEDGEMENTS: dict[int, type[Puback] | type[Pubrec] | type[Pubrel] | type[Pubcomp]] = {
    PUBACK: Puback,
    PUBREC: Pubrec,
    PUBREL: Pubrel,
    PUBCOMP: Pubcomp,
}

_DECODERS: tuple[tuple[int, Callable[[int, bytes, int], Packet]], ...] = (
    (0, _nothing),
    (0, _connect),
    (0, _connack),
    (0, _nothing),  # PUBLISH has its own way
    (0, _acknowledgement),
    (0, _acknowledgement),
    (2, _acknowledgement),  # [MQTT-3.6.1-1]
    (0, _acknowledgement),
    (2, _subscribe),  # [MQTT-3.8.1-1]
    (0, _suback),
    (2, _unsubscribe),  # [MQTT-3.10.1-1]
    (0, _unsuback),
    (0, _ping),
    (0, _ping),
    (0, _disconnect),  # [MQTT-3.14.1-1]
    (0, _auth),
)
"""By packet type: the flags of the fixed header (table 2-2), and who reads the rest."""
