"""Connections between simulated MQTT clients and their brokers.

A pipe keeps the order of what it carries, each way, and can break at any moment: then nothing more can be sent on it,
what is under way arrives or is lost, each way for itself, and each end learns of it sooner or later, the broker perhaps
only when the client connects anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from latecomer.core.inputs import MqttConnected, MqttFailed, MqttLost, MqttReceived
from latecomer.messages.mqtt import Connect, Disconnect, Packet, Reason
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.sim.transcript import Transcript
from latecomer.sim.world import World


@dataclass(slots=True)
class Pipe:
    """One connection; `number` is how the broker knows it."""

    number: int
    client: ClientId
    broker: BrokerId
    latency_us: int
    connect: Connect
    cut: bool = False
    """Nothing more can be sent on it."""
    up: bool = True
    """What the client sent arrives."""
    down: bool = True
    """What the broker sent arrives."""
    ended: bool = False
    """The broker has ended it, or was told that it is gone."""
    superseded: bool = False
    """The broker was told of a newer connection of the client."""
    goodbye: Disconnect | None = None
    """The DISCONNECT that reached the broker while the connection counted."""
    problem: str = ""
    """Why the broker ended it."""
    fuse: int = 0
    """It breaks when so many more packets or batches of them have set out; 0: it does not."""
    trips: bool = False
    """Then it is the broker that crashes."""
    early: deque[Packet] = field(default_factory=deque)
    """What came while its CONNECT waited for the session, or while the broker did not read."""
    unread: bool = False
    """The broker does not read from it for now."""
    ends_later: bool = False
    """The client is gone; the broker learns of it when it has read what came before."""
    up_at: Instant = 0
    down_at: Instant = 0


class Ends(Protocol):
    """The clients' ends."""

    def set_out(self, pipe: Pipe, packets: Sequence[Packet]) -> None: ...
    def arrived(self, pipe: Pipe, packets: Sequence[Packet]) -> None: ...
    def hung_up(self, pipe: Pipe) -> None: ...


class Pipes:
    """All connections of a world. They are the world's sockets."""

    pipe_type: type[Pipe] = Pipe
    listener = ""
    """The kind of listener by which clients connect; empty: unknown."""

    def __init__(self, world: World, ends: Ends, transcript: Transcript | None) -> None:
        self.world = world
        self.ends = ends
        self.transcript = transcript
        self.by_number: dict[int, Pipe] = {}
        self.told: dict[ClientId, list[Pipe]] = {}
        """Per client the connections that its broker serves and has not noted."""
        self._current: dict[ClientId, Pipe] = {}
        self._number = 0
        world.sockets = self

    # -- what clients do ---------------------------------------------------------------------------------------------

    @property
    def next_number(self) -> int:
        """Of the connection that is opened next."""
        return self._number + 1

    def open(self, broker: BrokerId, connect: Connect) -> Pipe | None:
        """Say CONNECT on a new connection; None: nobody listens."""
        if self.world.nodes[broker].core is None:
            return None
        self._number += 1
        latency_us = self.world.random.choice((100, 1_000, 20_000))
        pipe = self.pipe_type(self._number, connect.client_id, broker, latency_us, connect)
        self.by_number[self._number] = pipe
        self.send(pipe, connect)
        return pipe

    def send(self, pipe: Pipe, packet: Packet) -> None:
        """From the client to the broker."""
        if not pipe.cut:
            pipe.up_at = max(pipe.up_at, self._arrival(pipe))
            self.world.at(pipe.up_at, self._reached_broker, pipe, packet)
            if pipe.fuse:
                self._burn(pipe)

    def hang_up(self, pipe: Pipe) -> None:
        """The client closes the connection; what it sent is on its way."""
        pipe.cut, pipe.down = True, False
        pipe.up_at = max(pipe.up_at, self._arrival(pipe))
        self.world.at(pipe.up_at, self._end, pipe)

    def _arrival(self, pipe: Pipe) -> Instant:
        return self.world.now + self.world.random.randrange(pipe.latency_us // 2, pipe.latency_us + 1)

    def _reached_broker(self, pipe: Pipe, packet: Packet) -> None:
        if not pipe.up or pipe.ended:
            return
        if self.transcript is not None:
            self._say(self.transcript, pipe, "->", packet)
        if type(packet) is Connect:
            self._connect_reached(pipe, packet)
            return
        core = self.world.nodes[pipe.broker].core
        waits = core is not None and pipe.number in core.mobility.arrivals.by_connection
        if waits or pipe.unread or pipe.early:
            pipe.early.append(packet)
        else:
            self._was_read(pipe, packet)

    def _was_read(self, pipe: Pipe, packet: Packet) -> None:
        if type(packet) is Disconnect and not pipe.superseded:
            pipe.goodbye = packet
        self.world.tell(pipe.broker, MqttReceived(pipe.number, [packet]))

    def _connect_reached(self, pipe: Pipe, packet: Connect) -> None:
        before = self._current.get(pipe.client)
        if before is not None and before.number > pipe.number and packet.clean_start:
            return  # out of the past, it would end the session of today: no broker can know better
        if before is not None:
            before.superseded = True
        self._current[pipe.client] = pipe
        self.world.tell(pipe.broker, MqttConnected(pipe.number, packet, listener=self.listener))

    # -- what brokers do ---------------------------------------------------------------------------------------------

    def transmitted(self, connection: int, packets: Sequence[Packet]) -> None:
        pipe = self.by_number[connection]
        if self.transcript is not None:
            for packet in packets:
                self._say(self.transcript, pipe, "<-", packet)
        self.ends.set_out(pipe, packets)
        if not pipe.cut and not pipe.ended:
            pipe.down_at = max(pipe.down_at, self._arrival(pipe))
            self.world.at(pipe.down_at, self._reached_client, pipe, packets)
            if pipe.fuse:
                self._burn(pipe)

    def attached(self, connection: int) -> None:
        """The broker serves the client, and reads on."""
        pipe = self.by_number[connection]
        self.told.setdefault(pipe.client, []).append(pipe)
        self.world.at(self.world.now, self._read_on, pipe)

    def read(self, connection: int, go_on: bool) -> None:
        """The broker reads on, or does not for now."""
        pipe = self.by_number[connection]
        pipe.unread = not go_on
        if go_on:
            self.world.at(self.world.now, self._read_on, pipe)

    def _read_on(self, pipe: Pipe) -> None:
        while pipe.early and not pipe.unread and not pipe.ended:
            self._was_read(pipe, pipe.early.popleft())
        if pipe.ends_later and not pipe.early:
            self._end(pipe)

    def closed(self, connection: int, problem: str) -> None:
        pipe = self.by_number[connection]
        pipe.ended, pipe.problem = True, problem
        if not pipe.cut:
            pipe.cut, pipe.up = True, False
            pipe.down_at = max(pipe.down_at, self._arrival(pipe))
            self.world.at(pipe.down_at, self.ends.hung_up, pipe)

    def _reached_client(self, pipe: Pipe, packets: Sequence[Packet]) -> None:
        if pipe.down:
            self.ends.arrived(pipe, packets)

    def under_way(self) -> bool:
        """Whether something that a client sent has not arrived: what has QoS 0 is missed by nobody."""
        now = self.world.now
        return any(pipe.up_at > now and pipe.up and not pipe.ended for pipe in self.by_number.values())

    def coming(self) -> bool:
        """Whether something that a broker sent has not arrived."""
        now = self.world.now
        return any(pipe.down_at > now and pipe.down for pipe in self.by_number.values())

    # -- faults ------------------------------------------------------------------------------------------------------

    def _burn(self, pipe: Pipe) -> None:
        pipe.fuse -= 1
        if not pipe.fuse and pipe.trips:
            self.world.at(self.world.now, self._trip, pipe)  # once everything is done that was ordered
        elif not pipe.fuse:
            self.break_(pipe)

    def _trip(self, pipe: Pipe) -> None:
        self.world.crash(pipe.broker)
        self.world.at(self.world.now + self.world.random.choice((50_000, 2_500_000)), self.world.start, pipe.broker)

    def break_(self, pipe: Pipe) -> None:
        """The connection dies: what is under way is lost in one direction, in both, or in none."""
        if pipe.cut:
            return
        random, now = self.world.random, self.world.now
        pipe.cut = True
        pipe.up, pipe.down = random.choice(((False, False), (False, True), (True, False), (True, True)))
        self.world.at(now + random.choice((0, 1_000, 30_000, 500_000)), self.ends.hung_up, pipe)
        later = now + random.choice((0, 1_000, 30_000, 1_000_000, 3_000_000))
        self.world.at(max(later, pipe.up_at if pipe.up else 0), self._end, pipe)

    def broker_crashed(self, broker: BrokerId) -> None:
        """What it had sent is on its way; what was sent to it is not."""
        random = self.world.random
        for pipe in self.by_number.values():
            if pipe.broker != broker:
                continue
            self.told.pop(pipe.client, None)
            if not pipe.ended:
                pipe.ended, pipe.up = True, False
                if not pipe.cut:
                    pipe.cut = True
                    wait_us = random.choice((25_000, 200_000, 1_000_000))
                    self.world.at(self.world.now + wait_us, self.ends.hung_up, pipe)

    def _end(self, pipe: Pipe) -> None:
        """The broker learns that a connection is gone: from the network, or from the silence."""
        if pipe.ended:
            return
        if pipe.early and pipe.unread and pipe.up:
            pipe.ends_later = True
            return
        pipe.ended = True
        if self.world.random.random() < 0.5:
            self.world.tell(pipe.broker, MqttLost(pipe.number))
        else:
            self.world.tell(pipe.broker, MqttFailed(pipe.number, Reason.KEEP_ALIVE_TIMEOUT, "silence"))

    def _say(self, transcript: Transcript, pipe: Pipe, way: str, packet: Packet) -> None:
        transcript.say(self.world.now, f"{pipe.client} {way} {pipe.broker}  {packet_text(packet)} ({pipe.number})")


def packet_text(packet: Packet) -> str:
    """What a packet says about itself, payload and properties aside."""
    fields = ((name, getattr(packet, name)) for name in packet.__struct_fields__)
    shown = (
        f"{name}={value!r}" for name, value in fields if name not in ("payload", "properties", "will", "client_id")
    )
    return " ".join((type(packet).__name__.lower(), *shown))
