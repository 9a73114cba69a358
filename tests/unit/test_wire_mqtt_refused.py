"""MQTT as bytes: what one packet shows to be wrong, and the reason code that the specification has for it.

Every line names its statement. `both` are the versions where the answer is the same; 3.1.1 has no reason codes, there
the reason only says why the connection is closed.
"""

from __future__ import annotations

import pytest

from latecomer.messages.mqtt import (
    V5,
    V311,
    Connack,
    Connect,
    PacketError,
    Publish,
    Reason,
    Request,
    Subscribe,
    Will,
)
from latecomer.wire.mqtt import decode, encode, header

MALFORMED, PROTOCOL = Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR
BOTH, ONLY_311, ONLY_5 = (V311, V5), (V311,), (V5,)
CONNECT_311 = b"\0\4MQTT\4"
CONNECT_5 = b"\0\4MQTT\5"

Line = tuple[str, tuple[int, ...], int, bytes, Reason]


def refusal(first: int, body: bytes, version: int) -> Reason:
    with pytest.raises(PacketError) as caught:
        decode(first, body, version)
    assert str(caught.value)
    return caught.value.reason


# --- the fixed header -----------------------------------------------------------------------------

FLAGS = {0x10: 0, 0x20: 0, 0x40: 0, 0x50: 0, 0x60: 2, 0x70: 0, 0x80: 2, 0x90: 0, 0xA0: 2, 0xB0: 0, 0xC0: 0, 0xD0: 0}
FLAGS |= {0xE0: 0, 0xF0: 0}


@pytest.mark.parametrize("first", [kind | flags for kind in FLAGS for flags in range(16) if flags != FLAGS[kind]])
def test_reserved_flags(first: int) -> None:
    """[MQTT-2.1.3-1], also as 3.6.1-1, 3.8.1-1, 3.10.1-1, 3.14.1-1 and 3.15.1-1; 3.1.1: [MQTT-2.2.2-2]."""
    for version in BOTH:
        assert refusal(first, b"\0\1", version) == MALFORMED


@pytest.mark.parametrize("flags", range(16))
def test_there_is_no_type_0(flags: int) -> None:
    """§2.1.2: reserved, forbidden."""
    for version in BOTH:
        assert refusal(flags, b"", version) == MALFORMED


def test_auth_is_of_version_5() -> None:
    """3.1.1, §2.2.1: type 15 is reserved, forbidden."""
    assert refusal(0xF0, b"", V311) == MALFORMED
    decode(0xF0, b"", V5)


# --- texts ----------------------------------------------------------------------------------------

ILL_FORMED = {
    "a continuation alone": b"\x80",
    "no continuation": b"\xc3",
    "longer than needed": b"\xc0\xaf",
    "a longer U+0000": b"\xc0\x80",
    "half a surrogate pair": b"\xed\xa0\x80",
    "a surrogate pair": b"\xed\xa0\xbd\xed\xb8\x80",
    "above U+10FFFF": b"\xf4\x90\x80\x80",
    "five bytes": b"\xf8\x88\x80\x80\x80",
    "U+0000": b"a\0b",
}


@pytest.mark.parametrize("text", ILL_FORMED.values(), ids=ILL_FORMED)
def test_ill_formed_texts(text: bytes) -> None:
    """[MQTT-1.5.4-1, MQTT-1.5.4-2, MQTT-1.5.7-1], and for each field [MQTT-3.1.3-4, 3.1.3-11, 3.1.3-12, 3.3.2-1,
    3.8.3-1, 3.10.3-1]; 3.1.1: [MQTT-1.5.3-1, MQTT-1.5.3-2]."""
    field = len(text).to_bytes(2, "big") + text
    for version in BOTH:
        none = b"\0" if version == V5 else b""
        head = b"\0\4MQTT" + bytes((version,))
        assert refusal(0x30, field + none, version) == MALFORMED
        assert refusal(0x82, b"\0\1" + none + field + b"\0", version) == MALFORMED
        assert refusal(0xA2, b"\0\1" + none + field, version) == MALFORMED
        assert refusal(0x10, head + b"\x02\0\0" + none + field, version) == MALFORMED
        assert refusal(0x10, head + b"\x06\0\0" + none + b"\0\1c" + none + field + b"\0\0", version) == MALFORMED
        assert refusal(0x10, head + b"\x82\0\0" + none + b"\0\1c" + field, version) == MALFORMED
    for pair in (b"\x26" + field + b"\0\0", b"\x26\0\0" + field, b"\x03" + field):
        assert refusal(0x30, b"\0\1a" + bytes((len(pair),)) + pair, V5) == MALFORMED


def test_what_is_odd_but_legal() -> None:
    """[MQTT-1.5.4-3]: U+FEFF stays where it is. Control characters and non-characters are only discouraged."""
    for text in ("\ufeffa", "a\ufeff", "\x01\x7f\x9f", "\uffff\U0010ffff", "a b", "/", "$x"):
        packet = Publish(text, b"")
        frame = encode(packet, V5)
        assert decode(frame[0], frame[2:], V5) == packet


# --- publishing -----------------------------------------------------------------------------------

PUBLISHES: list[Line] = [
    ("[MQTT-3.3.1-4]", BOTH, 0x36, b"\0\1a\0\1\0", MALFORMED),
    ("[MQTT-3.3.1-4] with DUP", BOTH, 0x3E, b"\0\1a\0\1\0", MALFORMED),
    ("[MQTT-3.3.1-2]", BOTH, 0x38, b"\0\1a\0", MALFORMED),
    ("[MQTT-2.2.1-3]", BOTH, 0x32, b"\0\1a\0\0\0", PROTOCOL),
    ("[MQTT-2.2.1-3] QoS 2", BOTH, 0x34, b"\0\1a\0\0\0", PROTOCOL),
    ("[MQTT-3.3.2-2] +", BOTH, 0x30, b"\0\3a/+\0", Reason.TOPIC_NAME_INVALID),
    ("[MQTT-3.3.2-2] #", BOTH, 0x30, b"\0\1#\0", Reason.TOPIC_NAME_INVALID),
    ("[MQTT-4.7.3-1] of 3.1.1", ONLY_311, 0x30, b"\0\0x", MALFORMED),
    ("§3.3.2.1 no topic, no alias", ONLY_5, 0x30, b"\0\0\0x", PROTOCOL),
    ("§3.3.2.1 no topic, other properties", ONLY_5, 0x30, b"\0\0\2\1\1x", PROTOCOL),
    ("nothing", BOTH, 0x30, b"", MALFORMED),
    ("half a length", BOTH, 0x30, b"\0", MALFORMED),
    ("a topic that is too short", BOTH, 0x30, b"\0\2a", MALFORMED),
    ("half a packet identifier", BOTH, 0x32, b"\0\1a\1", MALFORMED),
    ("[MQTT-2.2.2-1] no properties", ONLY_5, 0x30, b"\0\1a", MALFORMED),
    ("properties that are too short", ONLY_5, 0x30, b"\0\1a\3\1\1", MALFORMED),
    ("a property beyond the properties", ONLY_5, 0x30, b"\0\1a\3\2\0\0\0\1payload", MALFORMED),
    ("[MQTT-1.5.5-1] length of properties", ONLY_5, 0x30, b"\0\1a\x80\0", MALFORMED),
]

ACKNOWLEDGEMENTS: list[Line] = [
    line
    for first in (0x40, 0x50, 0x62, 0x70)
    for line in (
        ("[MQTT-2.2.1-3]", BOTH, first, b"\0\0", PROTOCOL),
        ("nothing", BOTH, first, b"", MALFORMED),
        ("half a packet identifier", BOTH, first, b"\1", MALFORMED),
        ("bytes at the end", ONLY_311, first, b"\0\1\0", MALFORMED),
        ("[MQTT-3.4.2-1, 3.5.2-1, 3.6.2-1, 3.7.2-1]", ONLY_5, first, b"\0\1\x01", PROTOCOL),
        ("not this packet's reason", ONLY_5, first, b"\0\1\x8e", PROTOCOL),
        ("bytes behind the properties", ONLY_5, first, b"\0\1\0\0\0", MALFORMED),
    )
]
ACKNOWLEDGEMENTS += [
    ("[MQTT-3.6.2-1] a reason of PUBACK", ONLY_5, 0x62, b"\0\1\x10", PROTOCOL),
    ("[MQTT-3.4.2-1] a reason of PUBREL", ONLY_5, 0x40, b"\0\1\x92", PROTOCOL),
]

# --- connecting -----------------------------------------------------------------------------------

CONNECTS: list[Line] = [
    ("[MQTT-3.1.2-1] MQIsdp", BOTH, 0x10, b"\0\6MQIsdp\3\2\0\0\0\1c", Reason.UNSUPPORTED_PROTOCOL_VERSION),
    ("[MQTT-3.1.2-1] mqtt", BOTH, 0x10, b"\0\4mqtt\5\2\0\0\0\0\1c", Reason.UNSUPPORTED_PROTOCOL_VERSION),
    ("[MQTT-3.1.2-1] empty", BOTH, 0x10, b"\0\0", Reason.UNSUPPORTED_PROTOCOL_VERSION),
    ("[MQTT-3.1.2-2] 3", BOTH, 0x10, b"\0\4MQTT\3\2\0\0\0\1c", Reason.UNSUPPORTED_PROTOCOL_VERSION),
    ("[MQTT-3.1.2-2] 6", BOTH, 0x10, b"\0\4MQTT\6\2\0\0\0\0\1c", Reason.UNSUPPORTED_PROTOCOL_VERSION),
    ("[MQTT-3.1.2-2] a bridge", BOTH, 0x10, b"\0\4MQTT\x84\2\0\0\0\1c", Reason.UNSUPPORTED_PROTOCOL_VERSION),
    ("a name that is too short", BOTH, 0x10, b"\0\4MQT", MALFORMED),
    ("no level", BOTH, 0x10, b"\0\4MQTT", MALFORMED),
    ("nothing", BOTH, 0x10, b"", MALFORMED),
    ("[MQTT-3.1.2-3]", BOTH, 0x10, CONNECT_5 + b"\3\0\0\0\0\1c", MALFORMED),
    ("[MQTT-3.1.2-3] of 3.1.1", BOTH, 0x10, CONNECT_311 + b"\3\0\0\0\1c", MALFORMED),
    ("[MQTT-3.1.2-11]", BOTH, 0x10, CONNECT_5 + b"\x0a\0\0\0\0\1c", MALFORMED),
    ("[MQTT-3.1.2-13]", BOTH, 0x10, CONNECT_5 + b"\x22\0\0\0\0\1c", MALFORMED),
    ("[MQTT-3.1.2-13] of 3.1.1", BOTH, 0x10, CONNECT_311 + b"\x12\0\0\0\1c", MALFORMED),
    ("[MQTT-3.1.2-15] of 3.1.1", BOTH, 0x10, CONNECT_311 + b"\x22\0\0\0\1c", MALFORMED),
    ("[MQTT-3.1.2-12]", BOTH, 0x10, CONNECT_5 + b"\x1e\0\0\0\0\1c\0\0\1w\0\0", MALFORMED),
    ("[MQTT-3.1.2-14] of 3.1.1", BOTH, 0x10, CONNECT_311 + b"\x1e\0\0\0\1c\0\1w\0\0", MALFORMED),
    ("[MQTT-3.1.2-22] of 3.1.1", BOTH, 0x10, CONNECT_311 + b"\x42\0\0\0\1c\0\1p", MALFORMED),
    ("[MQTT-3.1.2-9] no will", BOTH, 0x10, CONNECT_5 + b"\6\0\0\0\0\1c", MALFORMED),
    ("[MQTT-3.1.2-9] no will message", BOTH, 0x10, CONNECT_5 + b"\6\0\0\0\0\1c\0\0\1w", MALFORMED),
    ("[MQTT-4.7.3-1] will", BOTH, 0x10, CONNECT_5 + b"\6\0\0\0\0\1c\0\0\0\0\0", MALFORMED),
    ("[MQTT-4.7.1-1] will", BOTH, 0x10, CONNECT_311 + b"\6\0\0\0\1c\0\1#\0\0", Reason.TOPIC_NAME_INVALID),
    ("[MQTT-3.1.2-16] a user name", BOTH, 0x10, CONNECT_5 + b"\2\0\0\0\0\1c\0\1u", MALFORMED),
    ("[MQTT-3.1.2-17] no user name", BOTH, 0x10, CONNECT_5 + b"\x82\0\0\0\0\1c", MALFORMED),
    ("[MQTT-3.1.2-19] no password", BOTH, 0x10, CONNECT_5 + b"\xc2\0\0\0\0\1c\0\1u", MALFORMED),
    ("[MQTT-3.1.3-3] no client identifier", BOTH, 0x10, CONNECT_5 + b"\2\0\0\0", MALFORMED),
    ("no keep alive", BOTH, 0x10, CONNECT_5 + b"\2\0", MALFORMED),
    ("[MQTT-3.1.3-8] of 3.1.1", BOTH, 0x10, CONNECT_311 + b"\0\0\0\0\0", Reason.CLIENT_IDENTIFIER_NOT_VALID),
    ("[MQTT-3.2.2-1]", BOTH, 0x20, b"\2\0\0", MALFORMED),
    ("[MQTT-3.2.2-6]", ONLY_5, 0x20, b"\1\x80\0", PROTOCOL),
    ("[MQTT-3.2.2-4] of 3.1.1", ONLY_311, 0x20, b"\1\5", PROTOCOL),
    ("[MQTT-3.2.2-8]", ONLY_5, 0x20, b"\0\x92\0", PROTOCOL),
    ("table 3.1 of 3.1.1", ONLY_311, 0x20, b"\0\6", MALFORMED),
    ("a CONNACK of 3.1.1", ONLY_5, 0x20, b"\0\0", MALFORMED),
    ("a CONNACK of 5", ONLY_311, 0x20, b"\0\0\0", MALFORMED),
    ("half a CONNACK", BOTH, 0x20, b"\0", MALFORMED),
    ("bytes behind a CONNACK", ONLY_5, 0x20, b"\0\0\0\0", MALFORMED),
    ("[MQTT-3.14.2-1]", ONLY_5, 0xE0, b"\x01", PROTOCOL),
    ("[MQTT-3.14.2-1] a reason of CONNACK", ONLY_5, 0xE0, b"\x86", PROTOCOL),
    ("bytes behind a DISCONNECT", ONLY_5, 0xE0, b"\0\0\0", MALFORMED),
    ("a reason in 3.1.1", ONLY_311, 0xE0, b"\0", MALFORMED),
    ("[MQTT-3.15.2-1]", ONLY_5, 0xF0, b"\x80\0", PROTOCOL),
    ("§3.15.2.2.2 no method", ONLY_5, 0xF0, b"\x18\0", PROTOCOL),
    ("§3.15.2.2.2 no method, others", ONLY_5, 0xF0, b"\0\4\x1f\0\1x", PROTOCOL),
    ("AUTH without property length", ONLY_5, 0xF0, b"\x18", MALFORMED),
    ("a PINGREQ with a body", BOTH, 0xC0, b"\0", MALFORMED),
    ("a PINGRESP with a body", BOTH, 0xD0, b"\0", MALFORMED),
]

# --- subscribing ----------------------------------------------------------------------------------

SUBSCRIBES: list[Line] = [
    ("[MQTT-2.2.1-3]", ONLY_5, 0x82, b"\0\0\0\0\1a\0", PROTOCOL),
    ("[MQTT-2.3.1-1] of 3.1.1", ONLY_311, 0x82, b"\0\0\0\1a\0", PROTOCOL),
    ("[MQTT-3.8.3-2]", ONLY_5, 0x82, b"\0\1\0", PROTOCOL),
    ("[MQTT-3.8.3-3] of 3.1.1", ONLY_311, 0x82, b"\0\1", PROTOCOL),
    ("[MQTT-4.7.3-1]", ONLY_5, 0x82, b"\0\1\0\0\0\0", MALFORMED),
    ("[MQTT-4.7.3-1] of 3.1.1", ONLY_311, 0x82, b"\0\1\0\0\0", MALFORMED),
    ("[MQTT-3.8.3-5] bit 6", ONLY_5, 0x82, b"\0\1\0\0\1a\x40", MALFORMED),
    ("[MQTT-3.8.3-5] bit 7", ONLY_5, 0x82, b"\0\1\0\0\1a\x80", MALFORMED),
    ("§3.8.3.1 QoS 3", ONLY_5, 0x82, b"\0\1\0\0\1a\3", PROTOCOL),
    ("§3.8.3.1 retain handling 3", ONLY_5, 0x82, b"\0\1\0\0\1a\x30", PROTOCOL),
    ("[MQTT-3.8.3-4]", ONLY_5, 0x82, b"\0\1\0\0\x0a$share/g/a\4", PROTOCOL),
    ("[MQTT-3-8.3-4] of 3.1.1: QoS 3", ONLY_311, 0x82, b"\0\1\0\1a\3", MALFORMED),
    ("[MQTT-3-8.3-4] of 3.1.1: bit 2", ONLY_311, 0x82, b"\0\1\0\1a\4", MALFORMED),
    ("the second filter counts too", ONLY_5, 0x82, b"\0\1\0\0\1a\0\0\1b\3", PROTOCOL),
    ("no options", ONLY_5, 0x82, b"\0\1\0\0\1a", MALFORMED),
    ("no options in 3.1.1", ONLY_311, 0x82, b"\0\1\0\1a", MALFORMED),
    ("half a length", ONLY_5, 0x82, b"\0\1\0\0", MALFORMED),
    ("no property length", ONLY_5, 0x82, b"\0\1", MALFORMED),
    ("[MQTT-2.2.1-3] UNSUBSCRIBE", ONLY_5, 0xA2, b"\0\0\0\0\1a", PROTOCOL),
    ("[MQTT-3.10.3-2]", ONLY_5, 0xA2, b"\0\1\0", PROTOCOL),
    ("[MQTT-3.10.3-2] of 3.1.1", ONLY_311, 0xA2, b"\0\1", PROTOCOL),
    ("[MQTT-4.7.3-1] UNSUBSCRIBE", ONLY_5, 0xA2, b"\0\1\0\0\0", MALFORMED),
    ("[MQTT-3.8.4-6]", ONLY_5, 0x90, b"\0\1\0", PROTOCOL),
    ("[MQTT-3.8.4-5] of 3.1.1", ONLY_311, 0x90, b"\0\1", PROTOCOL),
    ("[MQTT-3.9.3-2]", ONLY_5, 0x90, b"\0\1\0\3", PROTOCOL),
    ("[MQTT-3.9.3-2] of 3.1.1", ONLY_311, 0x90, b"\0\1\x87", MALFORMED),
    ("§3.11.3 no reasons", ONLY_5, 0xB0, b"\0\1\0", PROTOCOL),
    ("[MQTT-3.11.3-2]", ONLY_5, 0xB0, b"\0\1\0\1", PROTOCOL),
    ("UNSUBACK of 5", ONLY_311, 0xB0, b"\0\1\0", MALFORMED),
    ("[MQTT-2.2.1-6] SUBACK for 0", ONLY_5, 0x90, b"\0\0\0\0", PROTOCOL),
]

LINES = PUBLISHES + ACKNOWLEDGEMENTS + CONNECTS + SUBSCRIBES


@pytest.mark.parametrize(
    ("versions", "first", "body", "reason"),
    [line[1:] for line in LINES],
    ids=[f"{line[2]:02X} {line[0]}" for line in LINES],
)
def test_refused(versions: tuple[int, ...], first: int, body: bytes, reason: Reason) -> None:
    for version in versions:
        assert refusal(first, body, version) == reason


def test_the_lines_above_differ_from_lawful_packets_by_one_thing() -> None:
    """The same bytes, put right."""
    assert decode(0x34, b"\0\1a\0\1\0", V5) == Publish("a", b"", 2, packet_id=1)
    assert decode(0x3C, b"\0\1a\0\1", V311) == Publish("a", b"", 2, dup=True, packet_id=1)
    assert decode(0x10, CONNECT_5 + b"\2\0\0\0\0\1c", V311) == Connect("c")
    assert decode(0x10, CONNECT_311 + b"\2\0\0\0\1c", V5) == Connect("c", V311)
    assert decode(0x10, CONNECT_311 + b"\2\0\0\0\0", 0) == Connect("", V311)
    assert decode(0x10, CONNECT_5 + b"\0\0\0\0\0\0", 0) == Connect("", V5, False)
    assert decode(0x10, CONNECT_5 + b"\x42\0\0\0\0\1c\0\1p", 0) == Connect("c", password=b"p")
    assert decode(0x10, CONNECT_5 + b"\x16\0\0\0\0\1c\0\0\1w\0\0", 0) == Connect("c", will=Will("w", qos=2))
    assert decode(0x20, b"\1\0\0", V5) == Connack(True)
    assert decode(0x82, b"\0\1\0\0\x0a$share/g/a\x08", V5) == Subscribe(1, (Request("$share/g/a", 0, False, True),))
    assert decode(0x82, b"\0\1\0\0\1a\x2e", V5) == Subscribe(1, (Request("a", 2, True, True, 2),))


def test_filters_are_judged_elsewhere() -> None:
    """Whether a filter is legal is for SUBACK to say."""
    for filter in ("a/#/b", "a+", "$share//a", "$share/g", "##"):
        packet = Subscribe(1, (Request(filter),))
        frame = encode(packet, V5)
        assert decode(frame[0], frame[2:], V5) == packet


@pytest.mark.parametrize("version", BOTH)
def test_bytes_at_the_end(version: int) -> None:
    """A body is used up to its last byte; only PUBLISH and the lists go on to the end."""
    for packet in (Connect("c", version, user="u"), Connect("c", version, will=Will("w", b"m")), Connack()):
        frame = encode(packet, version)
        found = header(frame, 0)
        assert found is not None
        assert refusal(frame[0], frame[found[0] :] + b"\0", version) == MALFORMED
