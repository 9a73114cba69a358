"""One client's connection: from the first byte to a proper goodbye.

    waiting ── CONNECT ──▶ at the door ── admitted ──▶ connected ──▶ closing ──▶ gone

Saying goodbye. A server that sends its reason and closes while the client is still sending makes the client's next send
fail before it has read the reason. So we half-close, read on for a moment what is already on its way, and then close.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from latecomer.core.inputs import MqttConnected, MqttFailed, MqttLost, MqttReceived
from latecomer.core.mobility.visits import Visit
from latecomer.core.session.state import Session
from latecomer.messages.mqtt import (
    V5,
    V311,
    Connack,
    Connect,
    Packet,
    PacketError,
    Properties,
    Puback,
    Publish,
    Pubrec,
    Reason,
)
from latecomer.runtime import visiting
from latecomer.runtime.addresses import address_of
from latecomer.runtime.fitting import fitting
from latecomer.runtime.tls import common_name
from latecomer.wire.mqtt import decode, encode, header
from latecomer.wire.mqtt_decode import protocol_level, protocol_version

if TYPE_CHECKING:
    from latecomer.runtime.door import Arrival, Door
    from latecomer.runtime.plans import Plan

CONNECT, PUBACK = 0x10, 0x40
MQTT = b"\0\x04MQTT"
"""How a CONNECT begins; the version is the next byte."""
EARLY_MAX = 65_536
"""Bytes that a client may send before its session is here."""
DRAIN_S = 1.0
DRAIN_BYTES = 64 * 1024
PATIENCE_S = 0.25
"""How often a receiver that holds publishers up is looked at."""
PATIENCE_TURNS = 8
"""How many looks it may hold them up, if it makes some progress."""

REASONS = frozenset(reason.name.lower() for reason in Reason)
"""Goodbyes that begin with one of these and a colon are counted under it."""

log = logging.getLogger("latecomer")


class State(Enum):
    WAITING = "waiting"
    """For a CONNECT."""
    AT_THE_DOOR = "at the door"
    CONNECTED = "connected"
    CLOSING = "closing"


class Connection(asyncio.Protocol):
    """A client's connection on any transport."""

    def __init__(self, door: Door, id: int, transport_name: str, arrival: Arrival | None = None) -> None:
        self.door = door
        self.driver = door.driver
        self.heard = door.driver.spinner.heard
        self.id = id
        self.transport_name = transport_name
        self.state = State.WAITING
        self.address = ""
        self.version = V5
        self.session: Session | None = None
        self.visit: Visit | None = None
        """Set if the client's session is at another broker."""
        self.rest: bytearray | None = None
        self.wanted = 0
        self.rest_since = 0.0
        """When the packet that is not whole yet began."""
        self.arrival = arrival
        """What counted for it while it was in a handshake."""
        self.heard_at = door.loop.time()
        self.opened_at = self.heard_at if arrival is None else arrival.at
        self.packet_max = 0
        """Bytes of a packet that the client takes; 0: any."""
        self.closing = False
        self.seeking = False
        """The client's session is looked for, or on its way from another broker."""
        self.refusal: tuple[Reason, str] | None = None
        """Why it will be refused, whatever it says."""
        self._drained = 0
        self._timer: asyncio.TimerHandle | None = None
        # what the fast path knows of it
        self.plans: dict[bytes, Plan] = {}
        self.generation = -1
        self.held = 0
        self.choked = False
        """The transport holds as much as it may."""
        self.choked_at = 0.0
        self.choked_bytes = 0
        self.slow = False
        self.ranges: deque[tuple[int, int]] = deque()
        """Numbers of deliveries that the fast path sent and that are not acknowledged."""
        self.waiters: dict[Connection, None] = {}
        """Publishers that this receiver holds up."""
        self.waits_for: Connection | None = None
        self._pauses = 0
        self._patience: asyncio.TimerHandle | None = None

    # -- what the event loop says ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transports are no subclasses
        self.write = self.transport.write
        high = self.door.limits.write_buffer_bytes
        self.transport.set_write_buffer_limits(high, high // 4)
        self.address = address_of(self.transport)
        self.refusal = self.door.opened(self)
        if self.refusal is not None and self.door.crowded:
            self.driver.counters.refuse(self.refusal[0].name.lower())
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self.heard_at = self.door.loop.time()
        self.driver.counters.bytes_in += len(data)
        if self.rest is not None:
            self.rest += data
            if len(self.rest) < self.wanted or self.waits_for is not None:
                return
            data = bytes(self.rest)
            self.rest = None
        if self.session is not None:
            fastpath = self.driver.fastpath
            if not (self.ranges and data[0] == PUBACK and fastpath.settles(self, data)):
                fastpath.receive(self, data)
            self.heard()
        elif self.visit is not None:
            visiting.receive(self, data)
        elif self.state is State.WAITING:
            self._greet(data)
        elif self.state is State.AT_THE_DOOR:
            self.keep(data)
            if len(data) > EARLY_MAX and not self._pauses:
                self.pause()  # until its session is here
        else:
            self._drain(len(data))

    @property
    def attached(self) -> bool:
        """Whether the core still takes packets from this connection; its goodbye may be waiting for the disk."""
        return self.session is not None and self.session.connection == self.id

    def eof_received(self) -> None:
        """The client has nothing more to say: the transport closes by itself."""

    def connection_lost(self, error: Exception | None) -> None:
        self._unchoke()
        self.let_go()
        if self._timer is not None:
            self._timer.cancel()
        if self.waits_for is not None:
            self.waits_for.waiters.pop(self, None)
        self.door.closed(self)
        if self.session is not None or self.visit is not None or self.seeking:
            self.session, self.visit, self.seeking = None, None, False
            self.driver.tell(MqttLost(self.id))
        self.closing = True
        self.state = State.CLOSING

    def pause_writing(self) -> None:
        self.choked = True
        self.driver.choked += 1
        self.choked_at = self.door.loop.time()
        self.choked_bytes = self.transport.get_write_buffer_size()
        if (served := self.session or self.visit) is not None:
            served.choked = True

    def resume_writing(self) -> None:
        self._unchoke()
        self.let_go()
        if (served := self.session or self.visit) is not None:
            served.choked = False
            if served.backlog or self.visit is not None:
                self.driver.tell(MqttReceived(self.id, ()))

    def _unchoke(self) -> None:
        if self.choked:
            self.driver.choked -= 1
        self.choked = self.slow = False

    # -- reading -----------------------------------------------------------------------------------------------------

    def keep(self, data: bytes) -> None:
        """The beginning of a packet, or what must wait."""
        self.rest = bytearray(data)
        self.rest_since = self.door.loop.time()
        self.wanted = 0
        if self.state is State.CONNECTED and len(data) > 1:
            try:
                found = header(data, 0)
            except PacketError:
                return
            if found is not None:
                self.wanted = found[1]

    def unfinished_since(self, now: float) -> float:
        """Seconds that a packet has been on its way."""
        return now - self.rest_since if self.rest is not None and self.waits_for is None else 0.0

    def pause(self) -> None:
        self._pauses += 1
        if self._pauses == 1 and not self.transport.is_closing():
            self.transport.pause_reading()

    def unpause(self) -> None:
        self._pauses -= 1
        if self._pauses == 0 and not self.transport.is_closing():
            self.transport.resume_reading()

    def fail(self, reason: Reason, problem: str) -> None:
        """End a connection whose client broke the rules, and say why."""
        self.driver.tell_from(self, MqttFailed(self.id, reason, problem))

    def refuse_publication(self, packet: Publish) -> None:
        """P8: what cannot be kept is not acknowledged. The answer must not wait for the disk, so it is given here."""
        problem = "the disk is full"
        self.driver.counters.refuse(problem)
        if self.version != V5:
            self.driver.tell(MqttLost(self.id))  # 3.1.1 has no other way to say no
            self.say_goodbye(problem)
        elif packet.qos:
            answer = Puback if packet.qos == 1 else Pubrec
            properties = Properties(reason_string=problem)
            self.write(encode(answer(packet.packet_id, Reason.QUOTA_EXCEEDED, properties), V5))

    def abandon(self, problem: str) -> None:
        """End a connection to which nothing can be said."""
        self.driver.goodbyes.line(logging.INFO, "reads nothing", "closing %s (%s): %s", self.id, self.address, problem)
        self.driver.counters.refuse("reads nothing")
        self.transport.abort()

    # -- CONNECT -----------------------------------------------------------------------------------------------------

    def _greet(self, data: bytes) -> None:
        """Bad inputs 2, 3: nothing but a CONNECT, and not a long one."""
        if data[0] != CONNECT:
            self.turn_away("the first packet is no CONNECT")  # [MQTT-3.1.0-1]
            return
        try:
            found = header(data, 0)
            if found is None:
                self.keep(data)
                return
            body, end = found
            self.version = V311  # for whoever is neither
            if end > self.door.limits.connect_bytes:
                if len(data) < body + len(MQTT) + 1:
                    self.keep(data)  # until it shows which version it wants to be refused in
                    return
                self.version = protocol_version(data[body:])
                raise PacketError(
                    Reason.PACKET_TOO_LARGE, f"a CONNECT has at most {self.door.limits.connect_bytes} bytes"
                )
            if end > len(data):
                self.keep(data)
                self.wanted = end  # a CONNECT that comes byte by byte is looked at twice, not 65,536 times
                return
            self.version = protocol_version(data[body:end])
            packet = decode(CONNECT, data[body:end], V5)
        except PacketError as error:
            if error.reason is Reason.UNSUPPORTED_PROTOCOL_VERSION and protocol_level(data[body:end]) >= V5:
                self.version = V5  # [MQTT-3.1.2-2] it may know the words of this version
            self._refuse(error.reason, str(error))
            return
        assert isinstance(packet, Connect)
        self.driver.counters.connects += 1
        self.version = packet.version
        self.packet_max = packet.properties.maximum_packet_size or 0
        if self.refusal is not None:
            self._refuse(*self.refusal)
            return
        self.state = State.AT_THE_DOOR
        if end < len(data):
            self.keep(data[end:])
        self.pause()
        self.door.ask(self, packet)

    def certified(self) -> str | None:
        """Whom the client's certificate names."""
        certificate: Any = self.transport.get_extra_info("peercert")
        return common_name(certificate) if certificate else None

    def admitted(self, packet: Connect, user: str) -> None:
        """The client is who it says."""
        if self.closing:
            return
        self.state = State.CONNECTED
        fresh_id = f"auto-{secrets.token_hex(8)}"
        self.driver.tell_from(self, MqttConnected(self.id, packet, user, fresh_id, self.transport_name))
        self.unpause()
        if self.id in self.driver.core.mobility.arrivals.by_connection:
            self.state, self.seeking = State.AT_THE_DOOR, True
        else:
            self.attach()

    def attach(self) -> None:
        """The core takes packets from this client, unless it has refused it."""
        if self.session is not None or self.visit is not None or self.closing:
            return
        self.session = self.driver.core.sessions.by_connection.get(self.id)
        self.visit = self.driver.core.mobility.visits.by_connection.get(self.id)
        self.driver.changed()
        self.state, self.seeking = State.CONNECTED, False
        if self._pauses:
            self.unpause()
        self._go_on()

    def not_admitted(self, reason: Reason, problem: str) -> None:
        if not self.closing:
            self.unpause()
            self._refuse(reason, problem)

    def _refuse(self, reason: Reason, problem: str) -> None:
        """Answer a CONNECT with a no; a CONNECT of 3.1.1 that cannot be read gets no answer but the end."""
        answers = self.version == V5 or reason not in (Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)
        if answers:
            properties = Properties(reason_string=problem) if self.version == V5 else Properties()
            self.send([Connack(False, reason, properties)])
        self.say_goodbye(f"{reason.name.lower()}: {problem}")

    def turn_away(self, problem: str) -> None:
        """End a connection on which no CONNECT came, and to which nothing may be said [MQTT-3.14.0-1]."""
        self.driver.counters.refuse("no connect")
        self.say_goodbye(problem)

    def _go_on(self) -> None:
        """Take what had to wait."""
        if self.rest is None or self.waits_for is not None or self.closing:
            return
        data = bytes(self.rest)
        if self.visit is not None:
            self.rest = None
            visiting.receive(self, data)
        elif self.attached:
            self.rest = None
            self.driver.fastpath.receive(self, data)

    def _go_on_later(self) -> None:
        """The same, called by the event loop, which would only log what goes wrong."""
        try:
            self._go_on()
        except Exception as error:
            self.driver.containment.failed(self, error)

    # -- writing -----------------------------------------------------------------------------------------------------

    def send(self, packets: list[Packet]) -> None:
        """What the core sends."""
        if self.closing:
            return
        version = self.version
        if self.packet_max:
            fits = fitting(packets, version, self.packet_max)
            if fits is None:
                self.driver.tell(MqttLost(self.id))
                self.say_goodbye("packet_too_large: the client takes no packet as large as its CONNACK")
                return
            data = fits
        elif len(packets) == 1:
            data = encode(packets[0], version)
        else:
            data = b"".join([encode(packet, version) for packet in packets])
        delivered = self.driver.counters.publish_delivered
        for packet in packets:
            if type(packet) is Publish:
                delivered[packet.qos] += 1
            else:
                self.driver.counters.others_out += 1
        self.driver.counters.bytes_out += len(data)
        if data:
            self.write(data)

    def lease(self, first: int, last: int) -> None:
        """The fast path sent deliveries under these numbers."""
        ranges = self.ranges
        if ranges and ranges[-1][1] + 1 == first:
            ranges[-1] = (ranges[-1][0], last)
        else:
            ranges.append((first, last))

    # -- goodbye -----------------------------------------------------------------------------------------------------

    def say_goodbye(self, problem: str) -> None:
        """What was written goes out; the client has a moment to read it."""
        if self.closing:
            return
        self.closing = True
        self.state = State.CLOSING
        self.rest = None
        self.write = _nowhere
        known = self.session is not None or self.visit is not None
        if known:
            self.session = self.visit = None
            self.driver.changed()
        if problem:
            word = problem.partition(": ")[0]
            if word in REASONS:
                self.driver.counters.refuse(word)
            lines = self.driver.goodbyes if known else self.driver.refusals
            lines.line(logging.INFO, word[:80], "closing %s (%s): %s", self.id, self.address, problem)
        if not problem or not self.transport.can_write_eof():
            self.transport.close()
            return
        try:
            self.transport.write_eof()
        except (OSError, RuntimeError):
            self.transport.abort()
            return
        if self._pauses:
            self._pauses = 0
            self.transport.resume_reading()
        self._timer = self.door.loop.call_later(DRAIN_S, self.transport.abort)

    def give_up(self) -> None:
        """Something of ours broke over this connection: end it without a word. The session goes on with the client's
        next connection, on which everything unsettled is sent again."""
        self.closing = True
        self.state = State.CLOSING
        self.rest = None
        self.write = _nowhere
        self.driver.changed()
        try:
            self.transport.abort()
        except Exception:
            self.connection_lost(None)
            raise

    def _drain(self, size: int) -> None:
        self._drained += size
        if self._drained > DRAIN_BYTES:
            self.transport.abort()

    # -- back-pressure -----------------------------------------------------------------------------------------------

    def wait_for(self, receiver: Connection) -> None:
        """Read no more before the receiver has caught up."""
        self.waits_for = receiver
        receiver.waiters[self] = None
        self.pause()
        if receiver._patience is None:
            receiver._patience = self.door.loop.call_later(
                PATIENCE_S, receiver._lose_patience, receiver._progress(), PATIENCE_TURNS
            )

    def _progress(self) -> tuple[int, int]:
        return (self.transport.get_write_buffer_size(), self.ranges[0][0] if self.ranges else 0)

    def _lose_patience(self, before: tuple[int, int], turns: int) -> None:
        self._patience = None
        if not self.waiters:
            return
        now = self._progress()
        if turns and (now[0] < before[0] or now[1] != before[1]):
            self._patience = self.door.loop.call_later(PATIENCE_S, self._lose_patience, now, turns - 1)
            return
        self.slow = True
        self.let_go()

    def let_go(self) -> None:
        """Publishers may go on."""
        if not self.waiters:
            return
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            waiter.waits_for = None
            waiter.unpause()
            self.door.loop.call_soon(waiter._go_on_later)


def _nowhere(data: object) -> None:
    """Where a connection writes that has said goodbye: asyncio takes nothing behind the end of what is sent."""
