"""Packets for a client that takes only so many bytes at once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from latecomer.messages.mqtt import (
    Connack,
    Disconnect,
    Packet,
    Puback,
    Pubcomp,
    Pubrec,
    Pubrel,
    Reason,
    Suback,
    Unsuback,
)
from latecomer.wire.mqtt import encode

WORDY = (Connack, Puback, Pubrec, Pubrel, Pubcomp, Suback, Unsuback, Disconnect)
"""Packets that say in words what they say in numbers."""


def fitting(packets: Sequence[Packet], version: int, packet_max: int) -> bytes | None:
    """[MQTT-3.1.2-24] Words are left out first [MQTT-3.4.2-2]; what is too large even so is not sent. None: the client
    cannot take its CONNACK. It is refused by the core; if one got here all the same it could not be served."""
    pieces = []
    for packet in packets:
        data = encode(packet, version)
        if len(data) > packet_max and isinstance(packet, WORDY):
            brief = msgspec.structs.replace(packet.properties, reason_string=None, user=())
            data = encode(msgspec.structs.replace(packet, properties=brief), version)
        if len(data) <= packet_max:
            pieces.append(data)
        elif isinstance(packet, Connack) and packet.reason == Reason.SUCCESS:
            return None
    return b"".join(pieces)
