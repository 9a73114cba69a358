"""What one step orders: collected by every part of the broker, handed to the driver at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from latecomer.core.effects import Close, Disconnect, Effect, Note, Persist, Send, Transmit, Write
from latecomer.messages.link import LinkMessage
from latecomer.messages.mqtt import Packet
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Kind, Record


@dataclass(slots=True)
class Orders:
    """Collects writes, frames and other effects, and puts them in the order of the durability contract."""

    broker: BrokerId
    boot: int
    now: Instant = 0
    step: int = 0
    writes: list[Write] = field(default_factory=list)
    lazy: int = 0
    """How many of them nothing waits for."""
    awaited: bool = False
    """Something in this step waits for its writes, whatever was said when they were written."""
    effects: list[Effect] = field(default_factory=list)
    frames: dict[BrokerId, list[LinkMessage]] = field(default_factory=dict)
    packets: dict[int, list[Packet]] = field(default_factory=dict)
    """By connection of an MQTT client."""
    closes: list[Close] = field(default_factory=list)
    connections: dict[BrokerId, int] = field(default_factory=dict)
    """The present, or last, connection to each neighbour."""
    wake_at: Instant | None = None
    """The earliest instant anybody asked for; may be too early after a change of plan, never too late."""

    def wake(self, at: Instant) -> Instant:
        """Ask to be woken."""
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at
        return at

    def write_lazily(self, write: Write) -> None:
        """Write something that a crash may lose together with what followed from it."""
        self.writes.append(write)
        self.lazy += 1

    def send(self, peer: BrokerId, frame: LinkMessage) -> None:
        """Frames to one neighbour leave together, once per step."""
        waiting = self.frames.get(peer)
        if waiting is None:
            self.frames[peer] = [frame]
        else:
            waiting.append(frame)

    def transmit(self, connection: int, packet: Packet) -> None:
        """Packets to one client leave together, once per step."""
        waiting = self.packets.get(connection)
        if waiting is None:
            self.packets[connection] = [packet]
        else:
            waiting.append(packet)

    def close(self, connection: int, problem: str) -> None:
        """What was to be sent still goes out, so that the client learns why."""
        self.closes.append(Close(connection, problem))

    def disconnect(self, peer: BrokerId, reason: str) -> None:
        """What was to be sent before still goes out, so that the peer learns why."""
        waiting = self.frames.pop(peer, None)
        if waiting is not None:
            self.effects.append(Send(peer, self.connections[peer], waiting))
        self.effects.append(Disconnect(peer, self.connections[peer], reason))

    def note(
        self,
        kind: Kind,
        client: ClientId = "",
        topic: str = "",
        filter: str = "",
        event: str = "",
        peer: BrokerId = "",
        hops: int = -1,
        count: int = 0,
        detail: str = "",
    ) -> None:
        cause = f"{self.broker}.{self.boot}#{self.step}"
        self.effects.append(
            Note(Record(self.now, self.broker, kind, cause, client, topic, filter, event, peer, hops, count, detail))
        )

    def finish(self) -> list[Effect]:
        """Writes first, then everything else; starts the next step with nothing."""
        effects, frames = self.effects, self.frames
        self.effects = []
        if frames:
            for peer, waiting in frames.items():
                effects.append(Send(peer, self.connections[peer], waiting))
            frames.clear()
        if self.packets:
            for connection, packets in self.packets.items():
                effects.append(Transmit(connection, packets))
            self.packets = {}
        if self.closes:
            effects += self.closes
            self.closes = []
        if self.writes:
            effects.insert(0, Persist(self.writes, self.awaited or self.lazy < len(self.writes)))
            self.writes, self.lazy = [], 0
        self.awaited = False
        return effects
