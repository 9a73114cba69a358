"""The door: which connections are let in, and the rounds that look after those that are.

A connection counts against the limits from the moment it is accepted. Until it speaks MQTT, in the handshakes of TLS
and WebSocket, it is an `Arrival`; then it is a `Connection`, and takes the arrival's place.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from latecomer.messages.mqtt import Connect, Reason
from latecomer.runtime.connection import Connection, State
from latecomer.runtime.link_connection import explain
from latecomer.runtime.security import Gate
from latecomer.runtime.settings import Limits, Listener

if TYPE_CHECKING:
    from latecomer.runtime.driver import Driver

ROUNDS_S = 0.5
REFUSED_MAX = 50
"""Connections beyond the limit that are kept until they can be told why they are refused."""


@dataclass(slots=True, eq=False)
class Arrival:
    """A connection that does not speak MQTT yet."""

    address: str
    at: float
    """When it was accepted: everything up to its CONNECT must be done within `limits.connect_s`."""
    refusal: tuple[Reason, str] | None = None


class Door:
    """Makes connections for listeners, counts them, asks who they are, and sends away who stays too long."""

    def __init__(self, driver: Driver, gate: Gate, limits: Limits, connections_max: int) -> None:
        self.driver = driver
        self.gate = gate
        self.limits = limits
        self.connections_max = connections_max
        self.draining = False
        """The operator empties this broker: new clients are told to use another one."""
        self.listening: list[tuple[Listener, int]] = []
        """For whom connections are accepted, with the port that each has."""
        self.loop = asyncio.get_running_loop()
        self.per_address: dict[str, int] = {}
        self.arrivals: dict[Arrival, None] = {}
        self._next_id = 0
        self._tokens = float(limits.connection_rate)
        self._tokens_at = self.loop.time()
        self._asking: dict[asyncio.Task[None], None] = {}
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._round_at = self.loop.time() + ROUNDS_S
        self._rounds = self.loop.call_at(self._round_at, self._go_round)

    def connection(self, transport_name: str, arrival: Arrival | None = None) -> Connection:
        """For a listener that has accepted somebody, with or without having to wait for handshakes."""
        self._next_id += 1
        return Connection(self, self._next_id, transport_name, arrival)

    def stop(self) -> None:
        self._rounds.cancel()
        for task in (*self._asking, *self._handshakes):
            task.cancel()

    # -- coming and going --------------------------------------------------------------------------------------------

    def arrived(self, address: str) -> Arrival | None:
        """Count a connection that does not speak MQTT yet; None: there is not even room to refuse it."""
        arrival = Arrival(address, self.loop.time())
        self.arrivals[arrival] = None
        arrival.refusal = self._refusal(address)
        if arrival.refusal is None:
            self._count(address)
        elif self.crowded:
            self.driver.counters.refuse(arrival.refusal[0].name.lower())
            self.left(arrival)
            return None
        return arrival

    def left(self, arrival: Arrival) -> None:
        """It ended without a word of MQTT; or it did not, and is somebody else's to count."""
        if arrival in self.arrivals:
            del self.arrivals[arrival]
            if arrival.refusal is None:
                self._discount(arrival.address)

    def opened(self, connection: Connection) -> tuple[Reason, str] | None:
        """Count a connection; why it must be refused, if so."""
        self.driver.counters.connections_opened += 1
        self.driver.connections[connection.id] = connection
        if connection.arrival is not None:
            self.arrivals.pop(connection.arrival, None)
            return connection.arrival.refusal
        refusal = self._refusal(connection.address)
        if refusal is None:  # who is refused is in nobody's way
            self._count(connection.address)
        return refusal

    def _refusal(self, address: str) -> tuple[Reason, str] | None:
        here, limits = self.per_address.get(address, 0), self.limits
        if self.draining:
            return Reason.USE_ANOTHER_SERVER, "this broker is drained for maintenance: connect to another one"
        if self._total > self.connections_max:
            return Reason.QUOTA_EXCEEDED, f"more than {self.connections_max} connections"
        if limits.connections_per_address and here >= limits.connections_per_address:
            return Reason.CONNECTION_RATE_EXCEEDED, f"more than {limits.connections_per_address} from this address"
        if limits.connection_rate and not self._token():
            return Reason.CONNECTION_RATE_EXCEEDED, f"more than {limits.connection_rate} connections per second"
        return None

    @property
    def _total(self) -> int:
        return len(self.driver.connections) + len(self.arrivals)

    @property
    def crowded(self) -> bool:
        """Whether there is not even room to refuse somebody politely."""
        return self._total > self.connections_max + REFUSED_MAX

    def _count(self, address: str) -> None:
        self.per_address[address] = self.per_address.get(address, 0) + 1

    def _discount(self, address: str) -> None:
        left = self.per_address[address] - 1
        if left:
            self.per_address[address] = left
        else:
            del self.per_address[address]

    def _token(self) -> bool:
        now, rate = self.loop.time(), float(self.limits.connection_rate)
        self._tokens = min(rate, self._tokens + (now - self._tokens_at) * rate)
        self._tokens_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def closed(self, connection: Connection) -> None:
        if self.driver.connections.pop(connection.id, None) is None:
            return  # known already
        self.driver.counters.connections_closed += 1
        self.driver.changed()
        if connection.refusal is None:
            self._discount(connection.address)

    # -- TLS ---------------------------------------------------------------------------------------------------------

    def shake_hands(
        self, arrival: Arrival, sock: socket.socket, context: ssl.SSLContext, factory: Callable[[], asyncio.Protocol]
    ) -> None:
        """Begin TLS on a socket that was accepted; then it is the protocol's."""
        task = self.loop.create_task(self._shake_hands(arrival, sock, context, factory))
        self._handshakes[task] = None
        task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def _shake_hands(
        self, arrival: Arrival, sock: socket.socket, context: ssl.SSLContext, factory: Callable[[], asyncio.Protocol]
    ) -> None:
        seconds = self.limits.connect_s
        try:
            await self.loop.connect_accepted_socket(factory, sock, ssl=context, ssl_handshake_timeout=seconds)
        except Exception as error:  # whatever it is, the handshake has failed
            self.left(arrival)
            self.driver.counters.refuse("tls")
            why = explain(error) if isinstance(error, ssl.SSLError) else "it ended, or was not done in time"
            text = "no TLS handshake with %s within %g s: %s"
            self.driver.refusals.line(logging.INFO, "tls", text, arrival.address, seconds, why)
        except asyncio.CancelledError:
            self.left(arrival)
            raise

    # -- who is it ---------------------------------------------------------------------------------------------------

    def ask(self, connection: Connection, packet: Connect) -> None:
        """Find out whether a client is who it says it is."""
        task = self.loop.create_task(self._ask(connection, packet))
        self._asking[task] = None
        task.add_done_callback(lambda done: self._asked(connection, done))

    def _asked(self, connection: Connection, task: asyncio.Task[None]) -> None:
        del self._asking[task]
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.driver.containment.failed(connection, error)

    async def _ask(self, connection: Connection, packet: Connect) -> None:
        admission = await self.gate.admit(
            packet.user,
            packet.password,
            client=packet.client_id,
            address=connection.address,
            certified=connection.certified(),
        )
        if admission.reason:
            connection.not_admitted(Reason(admission.reason), admission.sentence)
        else:
            connection.admitted(packet, admission.user or "")

    # -- rounds ------------------------------------------------------------------------------------------------------

    def _go_round(self) -> None:
        """Bad inputs 5, 6: who says nothing, says it too slowly, or reads nothing."""
        now = self.loop.time()
        self.driver.counters.loop_lag.observe(max(0.0, now - self._round_at))
        self._round_at = now + ROUNDS_S
        self._rounds = self.loop.call_at(self._round_at, self._go_round)
        self.driver.look_at_space()
        for lines in (self.driver.refusals, self.driver.goodbyes, self.driver.alarms):
            lines.look()
        for connection in list(self.driver.connections.values()):
            try:
                self._look_after(connection, now)
            except Exception as error:
                self.driver.containment.failed(connection, error)

    def _look_after(self, connection: Connection, now: float) -> None:
        limits = self.limits
        if connection.state is State.CONNECTED:
            session = connection.session or connection.visit
            if session is None:
                return
            if connection.choked and self._reads_nothing(connection, now):
                connection.abandon(f"it read nothing for {limits.stall_ms / 1000:g} s")
            elif session.keep_alive_s and now - connection.heard_at > 1.5 * session.keep_alive_s:
                if connection.waits_for is None and not connection.held:
                    connection.fail(Reason.KEEP_ALIVE_TIMEOUT, "nothing was heard for too long")  # [MQTT-3.1.2-22]
            elif connection.unfinished_since(now) > limits.packet_s:
                connection.fail(Reason.KEEP_ALIVE_TIMEOUT, "a packet took too long to arrive")
        elif connection.state is State.WAITING and now - connection.opened_at > limits.connect_s:
            connection.turn_away(f"no CONNECT within {limits.connect_s:g} s")

    def _reads_nothing(self, connection: Connection, now: float) -> bool:
        """Bad input 13: a client that takes nothing at all does not keep its place for ever; its queue stays."""
        size = connection.transport.get_write_buffer_size()
        if size < connection.choked_bytes:
            connection.choked_bytes, connection.choked_at = size, now
        return now - connection.choked_at > self.limits.stall_ms / 1000
