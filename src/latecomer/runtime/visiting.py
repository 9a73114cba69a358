"""What a visitor sends: a client whose session is at another broker.

Nothing of it is for the fast path, which serves the sessions of this broker: all of it goes to the core, which passes
it on (`core/mobility/visits`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from latecomer.core.inputs import MqttReceived
from latecomer.messages.mqtt import Packet, PacketError, Publish, Reason
from latecomer.wire.mqtt import decode, header

if TYPE_CHECKING:
    from latecomer.runtime.connection import Connection


def receive(c: Connection, data: bytes) -> None:
    """Take a chunk; the beginning of a packet is left with the connection."""
    packets: list[Packet] = []
    at, size, most = 0, len(data), c.driver.packet_max
    try:
        while (found := header(data, at)) is not None:
            body, end = found
            if end - at > most:
                raise PacketError(Reason.PACKET_TOO_LARGE, f"a packet has at most {most} bytes here")
            if end > size:
                break
            packets.append(decode(data[at], data[body:end], c.version))
            at = end
    except PacketError as error:
        _tell(c, packets)
        c.fail(error.reason, str(error))
        return
    _tell(c, packets)
    if at < size and not c.closing:
        c.keep(data[at:])


def _tell(c: Connection, packets: list[Packet]) -> None:
    if not packets:
        return
    counters = c.driver.counters
    for packet in packets:
        if type(packet) is Publish:
            counters.publish_received[packet.qos] += 1
        else:
            counters.others_in += 1
    c.driver.tell_from(c, MqttReceived(c.id, packets))
