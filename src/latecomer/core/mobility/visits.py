"""Clients that are connected here while their sessions stay elsewhere (*mobility* §3: home-broker).

    seeking ── here ──▶ asking ── attached ──▶ visiting ── detach, tree lost, connection lost ──▶ –

The client's broker decodes what the client sends, answers its pings and passes everything else through a tunnel to the
owner of the session; what comes from there goes to the client as it is. Acknowledgements, packet ids and the queue stay
with the session. A visit ends with its tree: the client is told to connect again, and resumes its session.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from msgspec.structs import replace

from latecomer.core.effects import Attach, Read
from latecomer.core.inputs import MqttConnected, MqttReceived
from latecomer.core.mobility.arrival import Arrival, Arrivals, Stage
from latecomer.core.mobility.tunnel import Relaying, Tunnel, weight
from latecomer.core.orders import Orders
from latecomer.core.session.limits import SessionLimits
from latecomer.messages.hand_over import Attached, Attempt, Detach, Relay
from latecomer.messages.mqtt import (
    V5,
    Connack,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Reason,
    Suback,
    Unsuback,
)
from latecomer.model.ids import BrokerId
from latecomer.model.record import Kind

FROM_SERVERS = (Connack, Publish, Puback, Pubrec, Pubrel, Pubcomp, Suback, Unsuback, Disconnect)
"""What the owner of a session may send to its client. Pings are answered here."""
REARRANGED = "the network is being rearranged: connect again"


@dataclass(slots=True, eq=False)
class Visit(Tunnel):
    """A client that is connected here, and the end of its tunnel."""

    user: str = ""
    keep_alive_s: int = 0
    """The client promised to be heard from this often; 0: it did not."""
    backlog: deque[Packet] = field(default_factory=deque)
    """What the client sent and the tunnel does not take yet."""
    paused: bool = False
    """The driver was told not to read from the client."""


@dataclass(slots=True)
class Visits:
    """The visitors of this broker."""

    broker: BrokerId
    orders: Orders
    limits: SessionLimits
    arrivals: Arrivals
    relaying: Relaying
    by_connection: dict[int, Visit] = field(default_factory=dict)
    by_attempt: dict[Attempt, Visit] = field(default_factory=dict)

    # -- beginning ---------------------------------------------------------------------------------------------------

    def on_attached(self, frame: Attached) -> None:
        arrival = self.arrivals.of(frame.attempt, frame.client)
        if (
            arrival is None
            or arrival.fact is None
            or not arrival.attaches
            or arrival.stage is not Stage.ASKING
            or arrival.owner != frame.from_broker
        ):
            self.relaying.unknown(frame.from_broker, frame.attempt, "the client is gone")
            return
        self.arrivals.forget(arrival)
        self._begin(arrival, arrival.fact, frame.attempt)

    def _begin(self, arrival: Arrival, fact: MqttConnected, attempt: Attempt) -> None:
        visit = Visit(
            attempt,
            arrival.owner,
            arrival.client,
            fact.connection,
            fact.packet.version,
            arrival.since,
            user=fact.user,
            keep_alive_s=fact.packet.keep_alive_s,
        )
        self.by_connection[visit.connection] = self.by_attempt[attempt] = visit
        self.orders.effects.append(Attach(visit.connection))

    # -- from the client ---------------------------------------------------------------------------------------------

    def received(self, fact: MqttReceived) -> None:
        """Packets of a client; none: it can be sent more."""
        visit = self.by_connection.get(fact.connection)
        if visit is None:
            return
        if not fact.packets:
            self.relaying.give_credit(visit)
        for packet in fact.packets:
            if type(packet) is Pingreq:
                self.orders.transmit(visit.connection, Pingresp())
            else:
                visit.backlog.append(packet)
        self._pump(visit)

    def _pump(self, visit: Visit) -> None:
        """Send what the tunnel takes; while something is left, the client is not read from."""
        batch: list[Packet] = []
        room = self.relaying.window - visit.under_way
        while visit.backlog and room > 0:
            batch.append(visit.backlog.popleft())
            room -= weight(batch[-1])
        self.relaying.send(visit, batch)
        if visit.paused != bool(visit.backlog):
            visit.paused = not visit.paused
            self.orders.effects.append(Read(visit.connection, not visit.paused))

    def lost(self, connection: int) -> None:
        """The client is gone. What it said before, perhaps goodbye, goes ahead of that."""
        visit = self.by_connection.get(connection)
        if visit is not None:
            self._gone(visit, "the connection broke")
            self._forget(visit)

    def _gone(self, visit: Visit, why: str) -> None:
        self.relaying.send(visit, visit.backlog)
        self.relaying.detach(visit, why)

    def failed(self, connection: int, reason: Reason, problem: str) -> None:
        """The driver found a reason to end the connection."""
        visit = self.by_connection.get(connection)
        if visit is not None:
            self._gone(visit, f"{reason.name.lower()}: {problem}")
            self._end(visit, reason, problem)

    # -- from the owner ----------------------------------------------------------------------------------------------

    def on_relay(self, frame: Relay) -> None:
        visit = self._of(frame.from_broker, frame.attempt)
        if visit is None:
            self.relaying.unknown(frame.from_broker, frame.attempt, "the client is gone")
            return
        problem = self.relaying.take(visit, frame)
        strange = next((p for p in frame.packets.packets if not isinstance(p, FROM_SERVERS)), None)
        if strange is not None and not problem:
            problem = f"{frame.from_broker} sent a {type(strange).__name__.upper()} to a client"
        if problem:
            self.relaying.detach(visit, problem)
            self._broken(visit, problem)
            return
        for packet in frame.packets.packets:
            if isinstance(packet, Connack):
                packet = self._as_from_here(visit, packet)
            self.orders.transmit(visit.connection, packet)
        self.relaying.give_credit(visit)
        self._pump(visit)

    def _as_from_here(self, visit: Visit, packet: Connack) -> Connack:
        """What a CONNACK says of the connection is this broker's to say; the rest belongs to the session."""
        if packet.reason != Reason.SUCCESS or visit.version != V5:
            return packet
        told, longest = packet.properties, self.limits.keep_alive_max_s
        asked_s = visit.keep_alive_s if told.server_keep_alive_s is None else told.server_keep_alive_s
        granted_s = asked_s if 0 < asked_s <= longest else longest
        most = min(told.maximum_packet_size or self.limits.packet_bytes, self.limits.packet_bytes)
        keep_alive_s = None if granted_s == visit.keep_alive_s else granted_s
        visit.keep_alive_s = granted_s
        return replace(packet, properties=replace(told, server_keep_alive_s=keep_alive_s, maximum_packet_size=most))

    def on_detach(self, frame: Detach) -> None:
        visit = self._of(frame.from_broker, frame.attempt)
        if visit is None:
            return
        if frame.told or not frame.problem:
            self._forget(visit)
            self.orders.close(visit.connection, frame.problem)
        else:
            self._end(visit, Reason.SERVER_BUSY, REARRANGED)

    def tree_lost(self) -> None:
        for visit in list(self.by_connection.values()):
            self._end(visit, Reason.SERVER_BUSY, REARRANGED)

    def _of(self, owner: BrokerId, attempt: Attempt) -> Visit | None:
        visit = self.by_attempt.get(attempt)
        return visit if visit is not None and visit.peer == owner else None

    # -- the end -----------------------------------------------------------------------------------------------------

    def _broken(self, visit: Visit, problem: str) -> None:
        self.orders.note(Kind.REFUSED, client=visit.client, peer=visit.peer, detail=f"tunnel: {problem}")
        self._end(visit, Reason.SERVER_BUSY, REARRANGED)

    def _end(self, visit: Visit, reason: Reason, problem: str) -> None:
        """Tell the client why; one that has had no CONNACK yet gets one that says so."""
        self._forget(visit)
        explained = Properties(reason_string=problem[:512]) if visit.version == V5 else Properties()
        if not visit.received:
            self.orders.transmit(visit.connection, Connack(False, Reason.SERVER_UNAVAILABLE, explained))
        elif visit.version == V5:
            self.orders.transmit(visit.connection, Disconnect(reason, explained))
        self.orders.close(visit.connection, f"{reason.name.lower()}: {problem}")

    def _forget(self, visit: Visit) -> None:
        del self.by_connection[visit.connection], self.by_attempt[visit.attempt]
