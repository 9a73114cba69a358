"""One connection to a neighbour: the challenge, then frames in both directions.

Receiving. A neighbour that sends a flood gets its turn and no more: `receive_frames` at a time, and it is not read from
while some wait. Bytes that are no frame yet are a sign of life all the same: a large event on a slow link takes longer
than three heartbeats.

Sending. Beyond `send_buffer_bytes` frames wait as they are; they are the core's own, which keeps them until they
are acknowledged, so they cost nothing. A neighbour that takes nothing at all while so much waits is given up.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections import deque
from typing import TYPE_CHECKING, cast

from latecomer.core.inputs import LinkReceived
from latecomer.core.neighbours import CONTROL_MAX
from latecomer.messages.link import LinkMessage
from latecomer.model.errors import ProtocolError
from latecomer.model.ids import BrokerId
from latecomer.runtime.link_challenge import LinkChallenge, Role
from latecomer.runtime.tls import peer_names
from latecomer.wire.link import Reader

if TYPE_CHECKING:
    from latecomer.runtime.links import Links

CLOSE_S = 1.0
"""How long a connection may take to close before it is cut; what nobody reads would keep it open for ever."""
WRITE_FRAMES = 256
"""Frames written in one piece."""
TURN_BYTES = 65_536
"""After so many others have their turn."""

log = logging.getLogger("latecomer")


def explain(error: Exception) -> str:
    """What went wrong with a connection, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS fails: {(error.reason or str(error)).lower().replace('_', ' ')}"
    if isinstance(error, socket.gaierror):  # its numbers are not those of `errno`
        return "there is no host of this name" if error.errno == socket.EAI_NONAME else (error.strerror or str(error))
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error) or "the other end went away"


def address_of(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "?"


class LinkConnection(asyncio.Protocol):
    """One connection to a neighbour, called or calling."""

    transport: asyncio.Transport

    def __init__(self, links: Links, role: Role, expected: tuple[BrokerId, ...], number: int) -> None:
        self.links = links
        self.role = role
        self.expected = expected
        self.number = number
        self.peer: BrokerId | None = None
        self.address = ""
        self.problem = ""
        """Why it came to nothing."""
        self.decided: asyncio.Future[None] = links.loop.create_future()
        """Done when the other end is proved, or refused."""
        self.closed: asyncio.Future[None] = links.loop.create_future()
        """Done when the socket is gone."""
        self._challenge: LinkChallenge | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._stands_since = 0.0
        self._reader = Reader(links.settings.receive_bytes)
        self._received: deque[LinkMessage] = deque()
        """Frames that wait for their turn."""
        self._resting = False
        """Nothing is read until it is this connection's turn again."""
        self._heard_at = 0.0
        self._backlog: deque[LinkMessage] = deque()
        """Frames that wait for the transport."""
        self._choked = False

    @property
    def caller(self) -> BrokerId:
        """Which of the two brokers called."""
        return self.links.broker if self.role is Role.CALLER else self.peer or ""

    @property
    def stands_s(self) -> float:
        return self.links.loop.time() - self._stands_since

    # -- until it is known who is there ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        links = self.links
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transports are no subclasses
        links.open[self] = None
        self.address = address_of(self.transport)
        self._timer = links.loop.call_later(links.settings.challenge_s, self._too_slow)
        links.admit(self)
        if self._closing:
            return
        self._begin()

    def _begin(self) -> None:
        links = self.links
        certified = None
        if links.tls is not None:
            certified = peer_names(self.transport.get_extra_info("peercert"))
        self._challenge = LinkChallenge(self.role, links.broker, links.network, self.expected, links.secret, certified)
        high = links.settings.send_buffer_bytes
        self.transport.set_write_buffer_limits(high, high // 2)
        greeting = self._challenge.begin()
        if greeting:
            self.transport.write(greeting)

    def _too_slow(self) -> None:
        self.refuse("it did not prove who it is in time")

    def _prove(self, data: bytes) -> bytes:
        """Take what belongs to the challenge; what comes behind it, when the other end is proved."""
        assert self._challenge is not None
        progress = self._challenge.feed(data)
        if progress.send:
            self.transport.write(progress.send)
        if progress.refused is not None:
            self.refuse(progress.refused)
            return b""
        if progress.peer is None:
            return b""
        self._challenge = None
        self._stop_timer()
        self.peer = progress.peer
        self._stands_since = self._heard_at = self.links.loop.time()
        self._counters = self.links.driver.counters.link(self.peer)
        self.links.pending.pop(self, None)
        stands = self.links.proved(self)
        self._decide()
        return progress.rest if stands else b""

    def _decide(self) -> None:
        if not self.decided.done():
            self.decided.set_result(None)

    # -- receiving ---------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        try:
            if self.peer is None:
                data = self._prove(data)
                if not data:
                    return
            self._counters.bytes_in += len(data)
            frames = self._reader.feed(data)
            self._counters.frames_in += len(frames)
            if self._resting or len(frames) > self.links.settings.receive_frames:
                self._received.extend(frames)
                self._rest()
            else:
                self._tell(frames)
                if len(data) >= TURN_BYTES:
                    self._rest()
        except ProtocolError as error:
            self.refuse(str(error))
        except Exception:
            self._broken()

    def _tell(self, frames: list[LinkMessage]) -> None:
        assert self.peer is not None
        if not frames:
            settings, now = self.links.settings, self.links.loop.time()
            if now - self._heard_at < settings.heartbeat_s:
                return
            self._heard_at = now
        self.links.driver.tell(LinkReceived(self.peer, frames))
        self.links.driver.spinner.heard()

    def _rest(self) -> None:
        """Let others have their turn before the next: uvloop would read 32 times in a row from a full socket."""
        if not self._resting and not self._closing:
            self._resting = True
            self.transport.pause_reading()
            self.links.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        if self._closing:
            return
        waiting = self._received
        turn = [waiting.popleft() for _ in range(min(len(waiting), self.links.settings.receive_frames))]
        try:
            if turn:
                self._tell(turn)
        except Exception:
            self._broken()
            return
        if waiting:
            self.links.loop.call_soon(self._next_turn)
        elif not self._closing:
            self._resting = False
            self.transport.resume_reading()

    def _broken(self) -> None:
        """The core must take whatever a neighbour says; if it cannot, that is our bug, and nobody else's concern."""
        log.error("a frame from %s could not be worked off: this is a bug, please report it", self.peer, exc_info=True)
        if self.peer is not None:
            self.links.bar(self.peer)
        self.refuse("one of its frames could not be worked off; the log has more")

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(self, frames: list[LinkMessage]) -> None:
        if self._choked or self._backlog or len(frames) > WRITE_FRAMES:
            self._backlog.extend(frames)
            if len(self._backlog) > 2 * self.links.driver.core.settings.link_max + CONTROL_MAX:
                self.refuse(f"{len(self._backlog)} frames wait for it")
            elif not self._choked:
                self._write_backlog()
            return
        self._write(frames)

    def _write(self, frames: list[LinkMessage]) -> None:
        encoded = self.links.encoded
        try:
            data = encoded(frames[0]) if len(frames) == 1 else b"".join([encoded(frame) for frame in frames])
        except ProtocolError as error:
            assert self.peer is not None
            self.links.driver.alarms.ring("send", error, f"with neighbour {self.peer}")
            self.links.bar(self.peer)
            self.refuse("a frame for it cannot be sent; the log has more")
            return
        counters = self._counters
        counters.frames_out += len(frames)
        counters.bytes_out += len(data)
        self.transport.write(data)

    def _write_backlog(self) -> None:
        backlog = self._backlog
        while backlog and not self._choked and not self._closing:
            self._write([backlog.popleft() for _ in range(min(len(backlog), WRITE_FRAMES))])

    def pause_writing(self) -> None:
        self._choked = True
        if not self._closing:
            self._look_later()

    def resume_writing(self) -> None:
        self._choked = False
        if self.peer is not None and not self._closing:
            self._stop_timer()
            try:
                self._write_backlog()
            except Exception as error:  # as when it fails while an order of the core is carried out
                self.links.driver.alarms.ring("send", error, f"with neighbour {self.peer}")
                self.links.give_up(self.peer, self.number)

    def _look_later(self) -> None:
        size = self.transport.get_write_buffer_size()
        self._stop_timer()
        self._timer = self.links.loop.call_later(self.links.settings.hold_s, self._look, size)

    def _look(self, before: int) -> None:
        if self.transport.get_write_buffer_size() >= before:
            self.refuse("it takes nothing of what waits for it")
        else:
            self._look_later()

    # -- the end -----------------------------------------------------------------------------------------------------

    def refuse(self, problem: str) -> None:
        """Close it, and let somebody know why."""
        if not self._closing:
            self.problem = problem
            self.links.refused(self, problem)
            self.close(problem)

    def close(self, problem: str) -> None:
        """From here on it is gone for us; its socket follows, by force if need be."""
        if self._closing:
            return
        self._closing = True
        self.problem = self.problem or problem
        self._stop_timer()
        self._received.clear()
        self._backlog.clear()
        self.transport.close()
        self._timer = self.links.loop.call_later(CLOSE_S, self._cut)
        self.links.lost(self)
        self._decide()

    def _cut(self) -> None:
        self._timer = None
        self.transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def connection_lost(self, error: Exception | None) -> None:
        if not self._closing and self.peer is None:
            why = explain(error) if error is not None else "closed by the other end"
            self.problem = f"the connection broke before both ends knew one another: {why}"
        self._gone()

    def _gone(self) -> None:
        """The socket is closed."""
        self._closing = True
        self._stop_timer()
        self.links.open.pop(self, None)
        self.links.lost(self)
        self._decide()
        if not self.closed.done():
            self.closed.set_result(None)
