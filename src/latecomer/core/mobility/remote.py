"""Clients of sessions that stay here, connected through another broker (*mobility* §3: home-broker).

For the session such a client is connected like any other: its connection has a number below 0, and what is sent on it
goes through a tunnel to the broker where the client is (`visits`). The driver knows nothing of it: what the step orders
for these connections is taken out at its end, and travels as frames. So an acknowledgement leaves when the disk has
what it is about, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.core.inputs import MqttConnected, MqttLost, MqttReceived
from latecomer.core.mobility.departure import Departures
from latecomer.core.mobility.tunnel import Relaying, Tunnel, connect_in
from latecomer.core.orders import Orders
from latecomer.core.session.sessions import Sessions
from latecomer.core.session.state import Refusal, Session
from latecomer.messages.hand_over import Ask, Attached, Attempt, Detach, Relay
from latecomer.messages.mqtt import Packet
from latecomer.model.ids import BrokerId
from latecomer.model.record import Kind

WITH_ITS_TREE = "the tunnel ended with its tree"


@dataclass(slots=True)
class RemoteClients:
    """The clients that this broker serves through others."""

    broker: BrokerId
    orders: Orders
    sessions: Sessions
    departures: Departures
    relaying: Relaying
    refuse: Callable[[Ask, str], None] = field(init=False)
    """Tell the broker that asked why not."""
    by_number: dict[int, Tunnel] = field(default_factory=dict)
    by_attempt: dict[Attempt, Tunnel] = field(default_factory=dict)
    last: int = 0
    """The number that was given last; 0: there was no tunnel in this life."""

    def via(self, connection: int) -> tuple[BrokerId, str]:
        """The broker where the client of a connection is, and the tunnel in words; empty: this one."""
        tunnel = self.by_number.get(connection)
        return ("", "") if tunnel is None else (tunnel.peer, f" through {tunnel.attempt}")

    def attach(self, session: Session, ask: Ask) -> None:
        """Serve the client of a session through the broker that asks."""
        packet = None if ask.connect is None else connect_in(ask.connect)
        if (
            packet is None
            or packet.client_id != ask.client
            or packet.clean_start
            or ask.attempt.broker != ask.from_broker
            or ask.attempt in self.by_attempt
        ):
            self.refuse(ask, "unknown")
            return
        fact = MqttConnected(self.last - 1, packet, ask.user)
        problem: Refusal | None = None
        try:
            self.sessions.admission.check(fact)
        except Refusal as refusal:
            problem = refusal
        if problem is None and session.connection:
            self.sessions.take_over(session)
            if self.sessions.by_client.get(ask.client) is not session:
                self.refuse(ask, "ended")  # it was to end with its connection
                return
        since = max(1, self.orders.now - ask.age_us)
        self._open(Tunnel(ask.attempt, ask.from_broker, ask.client, fact.connection, packet.version, since))
        if problem is not None:
            self.sessions.refuse(fact, problem)
            return
        self.departures.came_back(ask.client, clean=False)
        self.sessions.answer(fact, ask.client, since)

    def _open(self, tunnel: Tunnel) -> None:
        self.last = tunnel.connection
        self.by_number[tunnel.connection] = self.by_attempt[tunnel.attempt] = tunnel
        self._changed()
        to = tunnel.peer
        self.relaying.passage.send(to, Attached(self.broker, to, tunnel.attempt, tunnel.client))

    # -- from the client's broker --------------------------------------------------------------------------------------

    def on_relay(self, frame: Relay) -> None:
        tunnel = self._of(frame.from_broker, frame.attempt)
        if tunnel is None:
            self.relaying.unknown(frame.from_broker, frame.attempt, "there is no such tunnel")
            return
        problem = self.relaying.take(tunnel, frame)
        if problem:
            self.orders.note(Kind.REFUSED, client=tunnel.client, peer=tunnel.peer, detail=f"tunnel: {problem}")
            self.relaying.detach(tunnel, problem)
            self._lost(tunnel)
            return
        self.relaying.give_credit(tunnel)
        session = self.sessions.by_connection.get(tunnel.connection)
        if session is not None and session.choked and not self.relaying.full(tunnel):
            session.choked = False
            self.sessions.on_received(MqttReceived(tunnel.connection, ()))
        if frame.packets.packets:
            self.sessions.on_received(MqttReceived(tunnel.connection, frame.packets.packets))

    def on_detach(self, frame: Detach) -> None:
        tunnel = self._of(frame.from_broker, frame.attempt)
        if tunnel is not None:
            self._lost(tunnel)

    def given_up(self, sender: BrokerId, attempt: Attempt) -> None:
        """The client's broker no longer wants what it asked for."""
        tunnel = self._of(sender, attempt)
        if tunnel is not None:
            self._lost(tunnel)

    def tree_lost(self) -> None:
        """The clients are told to connect again. They have not gone: their wills, and the ends of their sessions, wait
        as long as a CONNECT may."""
        for tunnel in list(self.by_number.values()):
            self._forget(tunnel)
            session = self.sessions.by_connection.get(tunnel.connection)
            if session is not None:
                session.suspended = session.durable
                self.sessions.away(session, WITH_ITS_TREE, keep_will=True)
                if session.suspended:
                    self.departures.lapse(session)

    def _of(self, sender: BrokerId, attempt: Attempt) -> Tunnel | None:
        tunnel = self.by_attempt.get(attempt)
        return tunnel if tunnel is not None and tunnel.peer == sender else None

    def _lost(self, tunnel: Tunnel) -> None:
        """For the session its connection broke."""
        self._forget(tunnel)
        self.sessions.on_lost(MqttLost(tunnel.connection))

    def _forget(self, tunnel: Tunnel) -> None:
        del self.by_number[tunnel.connection], self.by_attempt[tunnel.attempt]
        self._changed()

    def _changed(self) -> None:
        """What drivers made from routes, for clients that were away or are no longer, is void."""
        self.sessions.publishing.events.routes.cleared()

    # -- to the client -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """At the end of a step: what it ordered for these connections goes through their tunnels."""
        orders = self.orders
        for number in [number for number in orders.packets if number < 0]:
            self._send(number, orders.packets.pop(number))
        if not orders.closes:
            return
        closes, orders.closes = orders.closes, []
        for close in closes:
            if close.connection >= 0:
                orders.closes.append(close)
            elif (tunnel := self.by_number.get(close.connection)) is not None:
                self._forget(tunnel)
                self.relaying.detach(tunnel, close.problem, told=True)

    def _send(self, number: int, packets: list[Packet]) -> None:
        tunnel = self.by_number.get(number)
        if tunnel is None:
            return
        self.relaying.send(tunnel, packets)
        session = self.sessions.by_connection.get(number)
        if session is not None and self.relaying.full(tunnel):
            session.choked = True
