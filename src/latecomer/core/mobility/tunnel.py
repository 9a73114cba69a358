"""A tunnel: the packets of a client on their way between its session and the broker it is connected to.

A tunnel is named by the attempt that opened it, and lives in one tree: its frames travel along it, in order. Both ends
number what they send. What has been sent and not been passed on at the other end is bounded (`window`): an end that has
sent that much waits for credit. Credit is counted in weights of packets, which both ends compute alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from latecomer.core.inputs import MqttConnected
from latecomer.core.passage import Passage
from latecomer.messages.hand_over import PROBLEM_MAX, Attempt, Detach, Packets, Relay
from latecomer.messages.mqtt import Connect, Packet, Publish
from latecomer.model.ids import BrokerId, ClientId, Instant

RELAY_BYTES = 65_536
"""About so many bytes of packets travel in one frame; a larger packet travels alone."""
PACKET_BYTES = 256
"""What a packet weighs beside its topic and payload."""


def weight(packet: Packet) -> int:
    """About how many bytes a packet takes on the way."""
    return PACKET_BYTES + len(packet.payload) + len(packet.topic) if isinstance(packet, Publish) else PACKET_BYTES


def connect_of(fact: MqttConnected) -> Packets:
    """What the owner of a session needs to know of a CONNECT; who the client is, its broker has found out."""
    return Packets(fact.packet.version, (replace(fact.packet, user=None, password=None),))


def connect_in(packets: Packets) -> Connect | None:
    """The CONNECT that an `Ask` carries, if it is one."""
    packet = packets.packets[0] if len(packets.packets) == 1 else None
    return packet if isinstance(packet, Connect) and packet.version == packets.version else None


@dataclass(slots=True, eq=False)
class Tunnel:
    """One end of a tunnel."""

    attempt: Attempt
    peer: BrokerId
    """The broker at the other end."""
    client: ClientId
    connection: int
    """At the client's broker its connection; at the owner a number below 0."""
    version: int
    """Of MQTT."""
    since: Instant
    """When the client connected."""
    sent: int = 0
    received: int = 0
    under_way: int = 0
    """The weight of what was sent and not passed on yet."""
    owed: int = 0
    """The weight of what came and was passed on, for which the other end has no credit yet."""
    choked: bool = False
    """At the client's broker: the driver cannot get rid of more bytes, the client does not read fast enough."""


@dataclass(slots=True)
class Relaying:
    """Sends and takes the frames of tunnels."""

    broker: BrokerId
    passage: Passage
    window: int

    def full(self, tunnel: Tunnel) -> bool:
        return tunnel.under_way >= self.window

    def send(self, tunnel: Tunnel, packets: Sequence[Packet]) -> None:
        """Through the tunnel, in frames that are not too large."""
        batch: list[Packet] = []
        size = 0
        for packet in packets:
            cost = weight(packet)
            if batch and size + cost > RELAY_BYTES:
                self._send(tunnel, batch)
                batch, size = [], 0
            batch.append(packet)
            size += cost
            tunnel.under_way += cost
        if batch:
            self._send(tunnel, batch)

    def _send(self, tunnel: Tunnel, packets: Sequence[Packet]) -> None:
        tunnel.sent += 1
        credit = 0 if tunnel.choked else tunnel.owed
        tunnel.owed -= credit
        said = Packets(tunnel.version, tuple(packets))
        self.passage.send(tunnel.peer, Relay(self.broker, tunnel.peer, tunnel.attempt, tunnel.sent, said, credit))

    def take(self, tunnel: Tunnel, frame: Relay) -> str:
        """Count a frame that came; why it cannot be taken, if so."""
        tunnel.received += 1
        if frame.number != tunnel.received:
            return f"{frame.from_broker} sent frame {frame.number} of a tunnel instead of {tunnel.received}"
        if frame.packets.version != tunnel.version:
            return f"{frame.from_broker} sent packets of another version of MQTT through a tunnel"
        if frame.credit > tunnel.under_way:
            return f"{frame.from_broker} gave credit for more than was sent through a tunnel"
        tunnel.under_way -= frame.credit
        tunnel.owed += sum(map(weight, frame.packets.packets))
        return ""

    def give_credit(self, tunnel: Tunnel) -> None:
        """Tell the other end that it can send more, when it is worth a frame."""
        if tunnel.owed and tunnel.owed * 2 >= self.window and not tunnel.choked:
            self._send(tunnel, ())

    def detach(self, tunnel: Tunnel, problem: str, *, told: bool = False) -> None:
        self.unknown(tunnel.peer, tunnel.attempt, problem, told=told)

    def unknown(self, to: BrokerId, attempt: Attempt, problem: str, *, told: bool = False) -> None:
        """Tell a broker that there is no such tunnel, or no longer."""
        self.passage.send(to, Detach(self.broker, to, attempt, problem[:PROBLEM_MAX], told))
