"""Links on sockets: calling neighbours and being called, proving who one is, and carrying the core's frames.

Either end may call. If both do at once, both ends keep the call of the broker with the smaller id: they need not talk
about it. A connection has a number of its own; what the core says about another one comes too late and is dropped.
What one connection does is in `link_connection`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from latecomer.core.inputs import LinkConnected, LinkDisconnected
from latecomer.messages.link import LinkMessage
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.runtime.link_challenge import Role
from latecomer.runtime.link_connection import LinkConnection, address_of, explain
from latecomer.runtime.neighbourhood import Proof, listens_on
from latecomer.runtime.settings import LinkSection, Neighbour
from latecomer.runtime.tls import LinkTls
from latecomer.wire.link import encode

if TYPE_CHECKING:
    from latecomer.runtime.driver import Driver

PENDING_MAX = 100
"""Callers that have not proved yet who they are; beyond, the one that has taken longest has to go."""
STRANGERS_LOGGED = 100
"""Refusals of callers that are logged in `STRANGERS_S`; beyond they are counted only."""
STRANGERS_S = 10.0
STOP_S = 0.5
"""How long a connection may take to close when the broker stops."""
ROOM_BYTES = 1_048_576
"""What a frame may need beyond the bytes of its event."""
CLOSED = "link connection with %s closed: %s"

log = logging.getLogger("latecomer")


class Links:
    """All connections to neighbours."""

    def __init__(
        self,
        driver: Driver,
        settings: LinkSection,
        secret: bytes | None,
        tls: LinkTls | None,
        neighbours: Mapping[BrokerId, Neighbour],
    ) -> None:
        self.driver = driver
        self.broker = driver.core.id
        self.network = driver.core.settings.network
        self.settings = settings
        self.secret = secret
        self.tls = tls
        self.loop = asyncio.get_running_loop()
        self.neighbours = dict(neighbours)
        """Those that count now."""
        self.current: dict[BrokerId, LinkConnection] = {}
        self.pending: dict[LinkConnection, None] = {}
        """Not proved yet, the oldest first."""
        self.open: dict[LinkConnection, None] = {}
        """All that have a socket."""
        self.problems: dict[BrokerId, str] = {}
        """Why a neighbour could not be reached last time."""
        self._logged: dict[BrokerId, str] = {}
        self._strangers = 0
        self._strangers_since = 0.0
        self._barred: dict[BrokerId, float] = {}
        """Neighbours that must stay away until their sessions are over, because we do not know what we did to them."""
        self._given_up: dict[BrokerId, float] = {}
        """When a connection was ended last because something could not be sent on it."""
        self._number = 0
        self._server: asyncio.Server | None = None
        self._callers: dict[BrokerId, asyncio.Task[None]] = {}
        self._handshakes: dict[asyncio.Task[None], None] = {}
        """Of those who call with TLS, the oldest first."""
        self._wake: dict[BrokerId, asyncio.Event] = {}
        self._last: tuple[LinkMessage | None, bytes] = (None, b"")
        self._stopping = False

    async def start(self) -> None:
        settings = self.settings
        event_max = self.driver.core.settings.event_max
        if settings.receive_bytes < event_max + ROOM_BYTES:
            raise SettingsError(
                "link.receive_bytes",
                f"must be at least {event_max + ROOM_BYTES}: an event of core.event_max is one frame",
            )
        await self._listen()
        for neighbour in self.neighbours.values():
            self._call_from_now_on(neighbour)

    async def _listen(self) -> None:
        """A broker without neighbours listens for none, unless its settings name a port."""
        settings = self.settings
        number = listens_on(settings, len(self.neighbours))
        if number is not None and self._server is None:
            try:
                door = self._called if self.tls is None else self._called_with_tls
                self._server = await self.loop.create_server(door, settings.host, number)
            except OSError as error:
                problem = f"cannot listen on {settings.host}, port {number}: {error.strerror or error}"
                raise SettingsError("link.port", f"{problem}; choose another one") from None

    def _call_from_now_on(self, neighbour: Neighbour) -> None:
        if neighbour.host is not None:
            self._wake[neighbour.id] = asyncio.Event()
            task = self.loop.create_task(self._keep_calling(neighbour))
            task.add_done_callback(_report)
            self._callers[neighbour.id] = task

    async def meet(self, neighbour: Neighbour) -> None:
        """There is another neighbour, or one is to be called elsewhere. The core knows it already."""
        self._stop_calling(neighbour.id)
        self.neighbours[neighbour.id] = neighbour
        try:
            await self._listen()
        except SettingsError:
            del self.neighbours[neighbour.id]
            raise
        self._call_from_now_on(neighbour)

    def part(self, peer: BrokerId) -> None:
        """A broker is no neighbour any more: it is neither called nor let in. The core hangs up when it has said so."""
        self._stop_calling(peer)
        del self.neighbours[peer]
        for known in (self.problems, self._logged, self._barred, self._given_up):
            known.pop(peer, None)

    def _stop_calling(self, peer: BrokerId) -> None:
        task = self._callers.pop(peer, None)
        if task is not None:
            task.cancel()
        self._wake.pop(peer, None)

    @property
    def proof(self) -> Proof:
        """What neighbours know one another by."""
        if self.tls is not None:
            return "both" if self.secret is not None else "certificates"
        return "none" if self.secret is None else "secret"

    async def stop(self) -> None:
        """Call nobody any more, listen to nobody, and see every socket closed."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
        tasks = [*self._callers.values(), *self._handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        connections = list(self.open)
        for connection in connections:
            connection.close("the broker is stopping")
        if connections:
            _, slow = await asyncio.wait([connection.closed for connection in connections], timeout=STOP_S)
            if slow:
                for connection in list(self.open):
                    connection.transport.abort()
                await asyncio.wait(slow, timeout=STOP_S)

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

    def _called_with_tls(self) -> _Doorway:
        return _Doorway(self)

    def shake_hands(self, sock: socket.socket, address: str) -> None:
        """Somebody called, and has to begin with TLS."""
        handshakes = self._handshakes
        if len(handshakes) >= PENDING_MAX:
            next(iter(handshakes)).cancel()
        task = self.loop.create_task(self._shake_hands(sock, address))
        handshakes[task] = None
        task.add_done_callback(lambda done: handshakes.pop(done, None))

    async def _shake_hands(self, sock: socket.socket, address: str) -> None:
        assert self.tls is not None
        try:
            await self.loop.connect_accepted_socket(
                self._called, sock, ssl=self.tls.accepting, ssl_handshake_timeout=self.settings.challenge_s
            )
        except Exception as error:  # whatever it is, the handshake has failed
            self.driver.counters.refuse("link")
            self._stranger(address, explain(error))

    def admit(self, connection: LinkConnection) -> None:
        """A connection that has to prove who it is. Whoever proves it quickly gets through, however many do not."""
        self.pending[connection] = None
        if connection.role is Role.CALLEE:
            callers = [other for other in self.pending if other.role is Role.CALLEE]
            if len(callers) > PENDING_MAX:
                callers[0].refuse("too many connections that have not proved who they are")

    async def _keep_calling(self, neighbour: Neighbour) -> None:
        """Call whenever there is no connection, with growing pauses that no two brokers share."""
        peer = neighbour.id
        settings = self.settings
        pause_s = settings.reconnect_min_s
        while True:
            if peer not in self.current and not self._is_barred(peer):
                problem = await self._call(neighbour)
                if problem and peer not in self.current:
                    self._trouble(peer, problem)
            if peer in self.current:
                event = self._wake[peer]
                event.clear()
                await event.wait()
                if self._session_waits(peer):  # it was a good link, and only its connection broke
                    pause_s = settings.reconnect_min_s
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, settings.reconnect_max_s)

    async def _call(self, neighbour: Neighbour) -> str:
        """Call once; why it came to nothing, or nothing."""
        assert neighbour.host is not None
        connection = self._next(Role.CALLER, (neighbour.id,))
        tls = self.tls
        patience_s = self.settings.challenge_s
        try:
            async with asyncio.timeout(patience_s):
                await self.loop.create_connection(
                    lambda: connection,
                    neighbour.host,
                    neighbour.port,
                    ssl=tls.calling if tls is not None else None,
                    server_hostname="" if tls is not None else None,
                )
        except TimeoutError:
            return f"cannot be reached: no answer within {patience_s:g} seconds"
        except (OSError, UnicodeError) as error:  # the latter from names that are none, as "a..b"
            return f"cannot be reached: {explain(error)}"
        await connection.decided
        return connection.problem

    def _session_waits(self, peer: BrokerId) -> bool:
        return self.driver.core.neighbours.links[peer].up

    def proved(self, connection: LinkConnection) -> bool:
        """The other end is who it says; whether the connection is the one to keep."""
        peer = connection.peer
        assert peer is not None
        if peer not in self.neighbours:  # any more
            connection.close("it is no neighbour any more")
            return False
        if self._is_barred(peer):
            connection.close("its session has to end first")
            return False
        before = self.current.get(peer)
        if before is not None:
            if before.caller < connection.caller and before.stands_s < 2 * self.settings.challenge_s:
                connection.close("both ends called")
                return False
            # An older connection is in no collision: the other end would not call if it still had it.
            before.close("another connection took its place")
        self.current[peer] = connection
        self.problems.pop(peer, None)
        self.driver.tell(LinkConnected(peer, connection.number))
        return True

    def lost(self, connection: LinkConnection) -> None:
        """A connection is of no use any more; the core is told, unless another one has taken its place."""
        self.pending.pop(connection, None)
        peer = connection.peer
        if peer is None or self.current.get(peer) is not connection:
            return
        del self.current[peer]
        if not self._stopping:
            # Perhaps in the middle of the core's orders: what it learns from this is ordered after them.
            self.loop.call_soon(self._tell_lost, peer, connection.number)
        if self._session_waits(peer):
            self._logged.pop(peer, None)
        if peer in self._wake:
            self._wake[peer].set()

    def _tell_lost(self, peer: BrokerId, number: int) -> None:
        if not self._stopping:
            self.driver.tell(LinkDisconnected(peer, number))

    # -- trouble -----------------------------------------------------------------------------------------------------

    def _trouble(self, peer: BrokerId, problem: str, sentence: str = "no link with %s: %s") -> None:
        """Said once for each change of reason: a neighbour that is away for a week would fill the log."""
        self.problems[peer] = problem
        if self._logged.get(peer) != problem:
            self._logged[peer] = problem
            log.warning(sentence, peer, problem)

    def refused(self, connection: LinkConnection, problem: str) -> None:
        """A connection was closed by us or by the other end for a reason that somebody should know."""
        self.driver.counters.refuse("link")
        if connection.peer is not None:
            self._trouble(connection.peer, problem, CLOSED)
        elif connection.role is Role.CALLEE:
            self._stranger(connection.address, problem)

    def _stranger(self, address: str, problem: str) -> None:
        now = self.loop.time()
        if now - self._strangers_since > STRANGERS_S:
            self._strangers, self._strangers_since = 0, now
        self._strangers += 1
        if self._strangers <= STRANGERS_LOGGED:
            log.warning(CLOSED, address, problem)
        elif self._strangers == STRANGERS_LOGGED + 1:
            log.warning("many callers are refused on the link port: for a while they are counted only")

    def bar(self, peer: BrokerId) -> None:
        """Something of ours broke over this neighbour: its session must end, so that both begin afresh."""
        settings = self.settings
        self._barred[peer] = self.loop.time() + settings.hold_s + 2 * settings.heartbeat_s

    def _is_barred(self, peer: BrokerId) -> bool:
        until = self._barred.get(peer)
        if until is None:
            return False
        if self.loop.time() < until or self._session_waits(peer):
            return True
        del self._barred[peer]
        return False

    # -- what the core orders ----------------------------------------------------------------------------------------

    def send(self, peer: BrokerId, number: int, frames: list[LinkMessage]) -> None:
        connection = self.current.get(peer)
        if connection is not None and connection.number == number:
            connection.send(frames)

    def encoded(self, frame: LinkMessage) -> bytes:
        """One publication to several neighbours is written once."""
        last, data = self._last
        if frame is not last:
            data = encode(frame)
            self._last = (frame, data)
        return data

    def disconnect(self, peer: BrokerId, number: int, reason: str) -> None:
        connection = self.current.get(peer)
        if connection is not None and connection.number == number:
            self._trouble(peer, reason, CLOSED)
            connection.close(reason)

    def give_up(self, peer: BrokerId, number: int) -> None:
        """Something of ours broke over a connection: end it. The session goes on with the next one and sends again what
        is not acknowledged; if that breaks again soon, the session has to end as well."""
        connection = self.current.get(peer)
        if connection is None or connection.number != number:
            return
        now = self.loop.time()
        if now - self._given_up.get(peer, -self.settings.hold_s) < self.settings.hold_s:
            self.bar(peer)
        self._given_up[peer] = now
        try:
            connection.refuse("something for it could not be sent; the log has more")
        finally:
            self.lost(connection)


class _Doorway(asyncio.Protocol):
    """Takes the socket of a caller out of the loop's hands before anything is read: TLS is begun on it where its
    failure can be told, which the loop's own server would keep to itself."""

    def __init__(self, links: Links) -> None:
        self.links = links

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        opened = cast(asyncio.Transport, transport)
        sock: socket.socket = opened.get_extra_info("socket").dup()
        sock.setblocking(False)
        self.links.shake_hands(sock, address_of(opened))
        opened.abort()


def _report(task: asyncio.Task[None]) -> None:
    """A caller that ends by itself is a bug of ours, and must not be a silent one."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a neighbour is not called any more: this is a bug, please report it", exc_info=error)
