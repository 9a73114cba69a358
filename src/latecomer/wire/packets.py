"""MQTT packets inside a frame between brokers: one byte for the version, then the packets as MQTT writes them.

They are read with the reader for what clients send, so whatever it refuses never reaches the core.
"""

from __future__ import annotations

from typing import Any

from latecomer.messages.hand_over import Packets
from latecomer.messages.link import FRAME_MAX
from latecomer.messages.mqtt import V5, V311
from latecomer.model.errors import ProtocolError
from latecomer.wire.mqtt import Reader, encode


def encode_packets(value: Any) -> bytes:
    """For msgspec, which does not know the type."""
    if type(value) is not Packets:
        raise TypeError(f"a {type(value).__name__} cannot be written")
    return bytes((value.version,)) + b"".join([encode(packet, value.version) for packet in value.packets])


def decode_packets(kind: type, data: Any) -> Packets:
    """For msgspec, which has read the bytes."""
    if kind is not Packets or type(data) is not bytes or not data or data[0] not in (V311, V5):
        raise ProtocolError("packets begin with the version of MQTT, 4 or 5")
    reader = Reader(FRAME_MAX)
    reader.version = data[0]
    packets = reader.feed(data[1:])
    if reader.problem is not None or reader.pending:
        raise ProtocolError(f"packets that are none: {reader.problem or 'the last one is not complete'}")
    return Packets(data[0], tuple(packets))
