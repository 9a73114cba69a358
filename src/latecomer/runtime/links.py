"""Links on sockets: calling neighbours and being called, proving who one is, and carrying the core's frames.

Either end may call. If both do at once, both ends keep the call of the broker with the smaller id: they need not talk
about it. A connection has a number of its own; what the core says about another one comes too late and is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, cast

from latecomer.core.inputs import LinkConnected, LinkDisconnected, LinkReceived
from latecomer.messages.link import LinkMessage
from latecomer.model.errors import ProtocolError
from latecomer.model.ids import BrokerId
from latecomer.runtime.link_challenge import LinkChallenge, Role
from latecomer.runtime.settings import LinkSection, Neighbour
from latecomer.runtime.tls import LinkTls, peer_names
from latecomer.wire.link import Reader, encode

if TYPE_CHECKING:
    from latecomer.runtime.driver import Driver

PENDING_MAX = 100
"""Connections that have not proved yet who they are."""

log = logging.getLogger("latecomer")


class LinkConnection(asyncio.Protocol):
    """One connection to a neighbour, called or calling."""

    def __init__(self, links: Links, role: Role, expected: tuple[BrokerId, ...], number: int) -> None:
        self.links = links
        self.role = role
        self.number = number
        self.peer: BrokerId | None = None
        self.reader = Reader()
        self.expected = expected
        self.challenge: LinkChallenge | None = None
        self.problem = ""
        self.address = ""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        links = self.links
        peer = self.transport.get_extra_info("peername")
        self.address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else ""
        certified = None
        if links.tls is not None:
            certified = peer_names(self.transport.get_extra_info("peercert"))
        self.challenge = LinkChallenge(self.role, links.broker, links.network, self.expected, links.secret, certified)
        if self.role is Role.CALLEE and len(links.pending) >= PENDING_MAX:
            self._give_up("too many connections that have not proved who they are")
            self.challenge = None
            return
        links.pending[self] = None
        self._timer = links.loop.call_later(links.settings.challenge_s, self._too_slow)
        greeting = self.challenge.begin()
        if greeting:
            self.transport.write(greeting)

    def _too_slow(self) -> None:
        self._give_up("it did not prove who it is in time")

    def _give_up(self, problem: str) -> None:
        self.problem = problem
        log.warning("link connection with %s closed: %s", self.peer or self.address, problem)
        self.links.driver.counters.refuse("link")
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self.challenge is not None:
            progress = self.challenge.feed(data)
            if progress.send:
                self.transport.write(progress.send)
            if progress.refused is not None:
                self._give_up(progress.refused)
                self.challenge = None
                return
            if progress.peer is None:
                return
            self.challenge = None
            if self._timer is not None:
                self._timer.cancel()
            self.peer = progress.peer
            self.links.pending.pop(self, None)
            if not self.links.proved(self):
                return
            data = progress.rest
        if self.peer is None or not data:
            return
        counters = self.links.driver.counters.link(self.peer)
        counters.bytes_in += len(data)
        try:
            frames = self.reader.feed(data)
        except ProtocolError as error:
            self._give_up(str(error))
            return
        if frames and self.links.current.get(self.peer) is self:
            counters.frames_in += len(frames)
            self.links.driver.tell(LinkReceived(self.peer, frames))

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.links.lost(self)

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass


class Links:
    """All connections to neighbours."""

    def __init__(
        self,
        driver: Driver,
        settings: LinkSection,
        secret: bytes | None,
        tls: LinkTls | None,
    ) -> None:
        self.driver = driver
        self.broker = driver.core.id
        self.network = driver.core.settings.network
        self.settings = settings
        self.secret = secret
        self.tls = tls
        self.loop = asyncio.get_running_loop()
        self.neighbours = {neighbour.id: neighbour for neighbour in settings.neighbours}
        self.current: dict[BrokerId, LinkConnection] = {}
        self.pending: dict[LinkConnection, None] = {}
        self.problems: dict[BrokerId, str] = {}
        """Why a neighbour could not be reached last time."""
        self._number = 0
        self._server: asyncio.Server | None = None
        self._callers: list[asyncio.Task[None]] = []
        self._wake: dict[BrokerId, asyncio.Event] = {}
        self._last: tuple[LinkMessage | None, bytes] = (None, b"")
        self._stopping = False

    async def start(self) -> None:
        number = self.settings.number
        if number is not None:
            self._server = await self.loop.create_server(
                self._called,
                self.settings.host,
                number,
                ssl=self.tls.accepting if self.tls is not None else None,
            )
        for neighbour in self.settings.neighbours:
            if neighbour.host is not None:
                self._wake[neighbour.id] = asyncio.Event()
                self._callers.append(self.loop.create_task(self._keep_calling(neighbour)))

    async def stop(self) -> None:
        self._stopping = True
        for task in self._callers:
            task.cancel()
        await asyncio.gather(*self._callers, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        for connection in [*self.current.values(), *self.pending]:
            connection.transport.close()

    @property
    def port(self) -> int | None:
        if self._server is None:
            return None
        return int(self._server.sockets[0].getsockname()[1])

    # -- calls -------------------------------------------------------------------------------------------------------

    def _next(self, role: Role, expected: tuple[BrokerId, ...]) -> LinkConnection:
        self._number += 1
        return LinkConnection(self, role, expected, self._number)

    def _called(self) -> LinkConnection:
        return self._next(Role.CALLEE, tuple(self.neighbours))

    async def _keep_calling(self, neighbour: Neighbour) -> None:
        """Call whenever there is no connection, with growing pauses that no two brokers share."""
        wait_s = self.settings.reconnect_min_s
        while True:
            if neighbour.id not in self.current:
                try:
                    await self._call(neighbour)
                    wait_s = self.settings.reconnect_min_s
                except OSError as error:
                    self.problems[neighbour.id] = f"cannot be reached: {error.strerror or error}"
                    wait_s = min(wait_s * 2, self.settings.reconnect_max_s)
            event = self._wake[neighbour.id]
            if neighbour.id in self.current:
                event.clear()
                await event.wait()
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))

    async def _call(self, neighbour: Neighbour) -> None:
        assert neighbour.host is not None
        _, connection = await self.loop.create_connection(
            lambda: self._next(Role.CALLER, (neighbour.id,)),
            neighbour.host,
            neighbour.port,
            ssl=self.tls.calling if self.tls is not None else None,
        )
        while connection in self.pending:  # until it is proved or refused
            await asyncio.sleep(0.01)
        if connection.problem:
            self.problems[neighbour.id] = connection.problem
            await asyncio.sleep(self.settings.reconnect_max_s)

    def proved(self, connection: LinkConnection) -> bool:
        """The other end is who it says; whether the connection is the one to keep."""
        peer = connection.peer
        assert peer is not None
        before = self.current.get(peer)
        if before is not None:
            caller = self.broker if connection.role is Role.CALLER else peer
            before_caller = self.broker if before.role is Role.CALLER else peer
            if caller != before_caller and before_caller < caller:
                connection.peer = None
                connection.transport.close()
                return False
            before.peer = None
            before.transport.close()
        self.current[peer] = connection
        self.problems.pop(peer, None)
        self.driver.tell(LinkConnected(peer, connection.number))
        return True

    def lost(self, connection: LinkConnection) -> None:
        self.pending.pop(connection, None)
        peer = connection.peer
        if peer is None or self.current.get(peer) is not connection:
            return
        del self.current[peer]
        if not self._stopping:
            self.driver.tell(LinkDisconnected(peer, connection.number))
        if peer in self._wake:
            self._wake[peer].set()

    # -- what the core orders ----------------------------------------------------------------------------------------

    def send(self, peer: BrokerId, number: int, frames: list[LinkMessage]) -> None:
        connection = self.current.get(peer)
        if connection is None or connection.number != number:
            return
        pieces = []
        last, encoded = self._last
        for frame in frames:
            if frame is not last:  # one publication to several neighbours is written once
                last, encoded = frame, encode(frame)
            pieces.append(encoded)
        self._last = (last, encoded)
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        counters = self.driver.counters.link(peer)
        counters.frames_out += len(frames)
        counters.bytes_out += len(data)
        connection.transport.write(data)
        if connection.transport.get_write_buffer_size() > self.settings.send_buffer_bytes:
            self.disconnect(peer, number, "it takes too little of what waits for it")

    def disconnect(self, peer: BrokerId, number: int, reason: str) -> None:
        connection = self.current.get(peer)
        if connection is None or connection.number != number:
            return
        log.warning("closing the link to %s: %s", peer, reason)
        self.problems[peer] = reason
        connection.transport.close()
