"""The data types of MQTT 5 (§1.5) as bytes: what packets and properties are made of.

Every reader takes the bytes and a place, and returns the value and the place behind it. Bytes that end too early show
as an `IndexError`, a `struct.error` or a `PacketError`; `mqtt_decode.decode` makes one answer of them.
"""

from __future__ import annotations

from struct import Struct

from latecomer.messages.mqtt import PacketError, Reason

TEXT_MAX = 65_535
LENGTH_MAX = 268_435_455

two = Struct(">H")
four = Struct(">I")


def malformed(problem: str) -> PacketError:
    """What cannot be parsed (§4.13.1)."""
    return PacketError(Reason.MALFORMED_PACKET, problem)


def forbidden(problem: str) -> PacketError:
    """What can be parsed and must not be said (§4.13.1)."""
    return PacketError(Reason.PROTOCOL_ERROR, problem)


# --- from bytes -----------------------------------------------------------------------------------


def read_byte(data: bytes, at: int) -> tuple[int, int]:
    return data[at], at + 1


def read_two(data: bytes, at: int) -> tuple[int, int]:
    return two.unpack_from(data, at)[0], at + 2


def read_four(data: bytes, at: int) -> tuple[int, int]:
    return four.unpack_from(data, at)[0], at + 4


def read_length(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """A variable byte integer; in as few bytes as it needs, and in four at most [MQTT-1.5.5-1]."""
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for shift in (7, 14, 21):
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if not byte:
                raise malformed("a length is written in more bytes than it needs")
            return value, at + 1
    raise malformed("a length is written in more than 4 bytes")


def read_binary(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2 + two.unpack_from(data, at)[0]
    if end > len(data):
        raise malformed("a field ends behind its packet")
    return data[at + 2 : end], end


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """UTF-8 without surrogates and without U+0000 [MQTT-1.5.4-1, MQTT-1.5.4-2; 3.1.1: MQTT-1.5.3-1, MQTT-1.5.3-2].

    Python's decoder refuses what Unicode calls ill-formed, and keeps U+FEFF wherever it stands [MQTT-1.5.4-3].
    """
    end = at + 2 + two.unpack_from(data, at)[0]
    if end > len(data):
        raise malformed("a text ends behind its packet")
    try:
        text = data[at + 2 : end].decode()
    except UnicodeDecodeError:
        raise malformed("a text is not UTF-8") from None
    if "\0" in text:
        raise malformed("a text contains U+0000")
    return text, end


def read_pair(data: bytes, at: int) -> tuple[tuple[str, str], int]:
    """Two texts [MQTT-1.5.7-1]."""
    name, at = read_text(data, at)
    value, at = read_text(data, at)
    return (name, value), at


# --- to bytes -------------------------------------------------------------------------------------


def length(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value > LENGTH_MAX:
        raise PacketError(Reason.PACKET_TOO_LARGE, f"a packet has at most {LENGTH_MAX} bytes behind its length")
    if value < 0x20_0000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80, value >> 21))


def binary(value: bytes) -> bytes:
    size = len(value)
    if size > TEXT_MAX:
        raise PacketError(
            Reason.PACKET_TOO_LARGE, f"a field of {size} bytes exceeds the {TEXT_MAX} that MQTT can write"
        )
    return two.pack(size) + value


def text(value: str) -> bytes:
    try:
        return binary(value.encode())
    except UnicodeEncodeError:
        raise malformed("half a surrogate pair cannot be written as UTF-8") from None


def words(value: str) -> bytes:
    """A text for people: what MQTT cannot carry [MQTT-1.5.4-1, MQTT-1.5.4-2] is replaced, so that the rest arrives."""
    return binary(value.replace("\0", "\ufffd").encode("utf-8", "replace"))


def pair(value: tuple[str, str]) -> bytes:
    """Written out, because every event of the past has two."""
    try:
        name, content = value[0].encode(), value[1].encode()
    except UnicodeEncodeError:
        raise malformed("half a surrogate pair cannot be written as UTF-8") from None
    if len(name) > TEXT_MAX or len(content) > TEXT_MAX:
        return binary(name) + binary(content)  # one of which says why not
    return two.pack(len(name)) + name + two.pack(len(content)) + content


def byte(value: int) -> bytes:
    return bytes((value,))
