"""A broker as a process: settings in, sockets and disk open, until somebody wants it to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from latecomer.core.broker import Broker
from latecomer.core.inputs import AddressesKnown, MqttFailed, RulesChanged
from latecomer.core.session.limits import SessionLimits
from latecomer.core.tables import TABLES
from latecomer.eventlog import EventLogError, Keep
from latecomer.messages.mqtt import V5, Disconnect, Packet, Properties, Reason
from latecomer.model.access import OPEN
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import ClientId, Instant
from latecomer.runtime.addresses import public_addresses
from latecomer.runtime.admin import Admin
from latecomer.runtime.assignment import Assigner
from latecomer.runtime.disk import Disk, Durability
from latecomer.runtime.door import Arrival, Door
from latecomer.runtime.doorway import TlsDoorway, Visit
from latecomer.runtime.draining import was_draining
from latecomer.runtime.driver import Driver
from latecomer.runtime.errands import Errands
from latecomer.runtime.journal import Journal
from latecomer.runtime.links import Links
from latecomer.runtime.metrics import Counters
from latecomer.runtime.neighbourhood import Neighbourhood
from latecomer.runtime.predicting import Predicting
from latecomer.runtime.private_files import private_directory, write_text
from latecomer.runtime.security import ADDRESS_FILE, Gate, admin_token, link_secret
from latecomer.runtime.settings import Limits, LinkSection, Listener, Settings, http_address, is_loopback
from latecomer.runtime.sys_figures import SysFigures
from latecomer.runtime.tls import LinkTls, link_tls, listener_context
from latecomer.runtime.views import Views
from latecomer.runtime.websocket import WebSocketProtocol
from latecomer.wire.mqtt import encode

if TYPE_CHECKING:
    from latecomer.runtime.store import Keeper

FILES_APART = 100
"""Open files that are no client's connection."""
RELOAD_S = 1.0
"""How often users and rules are looked at: a revoked right is gone within this (bad input 19)."""

log = logging.getLogger("latecomer")


class Stopped(LatecomerError):
    """The broker stopped by itself; the sentence says why."""


def measure(packet: Packet, version: int) -> int:
    return len(encode(packet, version))


class GateAccess:
    """What the core asks about rights, answered by the rules that are in force now."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    @property
    def open_to_all(self) -> bool:
        return self.gate.rules is OPEN

    def client_problem(self, user: str, client: ClientId) -> str | None:
        return self.gate.rules.pattern_problem(user or None, client)

    def may_publish(self, user: str, client: ClientId, topic: str) -> bool:
        return self.gate.rules.may_publish(user or None, client, topic)

    def may_subscribe(self, user: str, client: ClientId, topic_filter: str) -> bool:
        return self.gate.rules.may_subscribe(user or None, client, topic_filter)

    def may_receive(self, user: str, client: ClientId, topic: str) -> bool:
        return self.gate.rules.may_receive(user or None, client, topic)

    def may_request(self, user: str, client: ClientId, topic_filter: str) -> bool:
        return self.gate.rules.may_request(user or None, client, topic_filter)

    def may_receive_past(self, user: str, client: ClientId, topic: str) -> bool:
        return self.gate.rules.may_receive_past(user or None, client, topic)


def session_limits(limits: Limits) -> SessionLimits:
    """The limits that the core keeps."""
    return SessionLimits(
        packet_bytes=limits.packet_bytes,
        topic_levels=limits.topic_levels,
        topic_bytes=limits.topic_bytes,
        subscriptions_per_client=limits.subscriptions_per_client,
        groups_per_client=limits.groups_per_client,
        group_name_bytes=limits.group_name_bytes,
        recalls_per_client=limits.recalls_per_client,
        wildcards_per_filter=limits.wildcards_per_filter,
        receive_maximum=limits.receive_maximum,
        topic_alias_maximum=limits.topic_alias_max,
        inflight=limits.inflight,
        queue_messages=limits.queue_messages,
        queue_bytes=limits.queue_bytes,
        retained_messages=limits.retained_messages,
        retained_bytes=limits.retained_bytes,
        retained_per_user=limits.retained_per_user,
        retained_bytes_per_user=limits.retained_bytes_per_user,
        sessions=limits.sessions,
        sessions_per_user=limits.sessions_per_user,
        session_expiry_max_s=limits.session_expiry_max_s,
        keep_alive_max_s=limits.keep_alive_max_s,
        keep_alive_longer_for_311=limits.keep_alive_allow_longer,
    )


class Node:
    """One running broker."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stopping = asyncio.Event()
        self.failure: Exception | None = None
        self.served = False
        """Whether every door has been opened."""
        private_directory(settings.broker.data, "broker.data")
        self.gate = Gate(settings.access)
        self.counters = Counters()
        self.disk = Disk.open(settings.broker.data, TABLES, Durability(settings.broker.durability))
        self.clock = steady_clock()
        self.journal: Journal | None = None
        if settings.event_log.enabled:
            log_settings = settings.event_log
            self.journal = Journal(
                settings.events,
                settings.broker.id,
                self.disk.boot,
                self.clock,
                rows_max=log_settings.segment_rows,
                seconds_max=log_settings.segment_s,
                bytes_max=log_settings.segment_bytes,
                keep=Keep(segments=log_settings.keep_segments, bytes=log_settings.keep_bytes),
            )
        self.assigner = Assigner(settings, self.clock)
        self.neighbourhood = Neighbourhood(settings)
        core_settings = settings.core_settings()
        core_settings.check()
        self.core = Broker(
            settings.broker.id,
            core_settings,
            self.neighbourhood.costs(),
            self.disk.boot,
            self.disk.take(),
            limits=session_limits(settings.limits),
            access=GateAccess(self.gate),
            durability=settings.broker.durability,
            measure=measure,
        )
        self.predicting = Predicting(settings.hand_over.model, settings.broker.data, self.core.mobility.guessing)
        self.predicting.start()
        self.driver = Driver(
            self.core,
            self.disk,
            self.counters,
            self.journal,
            self.clock,
            settings.limits.packet_bytes,
            self._failed,
            settings.broker.spin_us / 1_000_000,
            self.keeper,
        )
        self.assigner.driver = self.driver
        self.core.routes.cleared = self.driver.changed
        self.door = Door(self.driver, self.gate, settings.limits, connections_max(settings.limits.connections))
        self.door.draining = was_draining(settings.broker.data)
        self.links = Links(self.driver, settings.link, *link_proofs(settings.link), self.neighbourhood.all())
        self.driver.links = self.links
        self.views = Views(self)
        self.errands = Errands(self.driver, self.views.carry_out, open=settings.store.remote)
        self.driver.errands = self.errands
        admin = settings.admin
        self.admin = Admin(self.views, admin_token(settings), admin.hosts, admin.origins, refusals=self.driver.refusals)
        self.figures = SysFigures(self.driver, settings.broker.sys_interval_s)
        self.reread: Callable[[], Settings] | None = None
        """What the settings file says now, if there is one."""
        self.servers: list[asyncio.Server] = []
        self.addresses: list[str] = []
        self._reloading: asyncio.TimerHandle | None = None

    @property
    def keeper(self) -> Keeper | None:
        """The store, if there is one."""
        return self.assigner.keeper

    # -- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open every door; afterwards clients are served."""
        for table, group, key, why in ((p.table, p.group, p.key, p.why) for p in self.disk.problems):
            log.error("a damaged row of %s (%s, %s) was set aside: %s", table, group, key, why)
        asyncio.get_running_loop().set_exception_handler(self._unforeseen)
        await asyncio.sleep((self.core.start_at(now := self.clock()) - now) / 1_000_000)
        self.driver.start()
        await self.links.start()
        for position, listener in enumerate(self.settings.listening()):
            await self._listen(listener, f"listeners[{position}]")
        self.tell_addresses()
        if self.settings.admin.enabled:
            admin = self.settings.admin
            port = await self.admin.start(admin.host, self.settings.admin_port)
            address = http_address(admin.host, port)
            write_text(self.settings.broker.data / ADDRESS_FILE, f"{address}\n")
            self.addresses.append(f"admin {address}")
        else:
            (self.settings.broker.data / ADDRESS_FILE).unlink(missing_ok=True)
        self.figures.start()
        self.served = True
        self._reloading = asyncio.get_running_loop().call_later(RELOAD_S, self._reload)

    async def run(self, ready: Callable[[Node], None]) -> None:
        """Serve until a signal comes, or the disk fails."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload_now)
        try:
            await self.start()
            ready(self)
            await self.stopping.wait()
        finally:
            await self.stop()
        if self.failure is not None:
            raise Stopped(f"the disk failed: {self.failure}; what was acknowledged is safe, restart the broker")

    async def stop(self) -> None:
        """Say goodbye to everybody, and make everything safe."""
        if self._reloading is not None:
            self._reloading.cancel()
        self.figures.stop()
        for server in self.servers:
            server.close()
        await self.admin.stop()
        self.door.stop()
        for connection in list(self.driver.connections.values()):
            if connection.session is not None and connection.version == V5:
                goodbye = Disconnect(Reason.SERVER_SHUTTING_DOWN, Properties(reason_string="the broker is stopping"))
                connection.send([goodbye])
            connection.session = None  # its will is published when the broker is back [MQTT-3.1.2.5]
            connection.transport.close()
        await asyncio.sleep(0.05)
        await self.links.stop()
        self.assigner.driver = None
        self.errands.stop()
        self.driver.stop()
        if self.failure is None:
            loop = asyncio.get_running_loop()
            if self.keeper is not None:
                await loop.run_in_executor(None, self.keeper.close)
            await loop.run_in_executor(None, self.disk.close)
        if self.journal is not None:
            try:
                await self.journal.close()
            except EventLogError as error:
                if self.served:  # otherwise there is a better reason to tell, and nothing worth a record
                    log.error("%s", error)
        self.gate.close()

    def _failed(self, error: Exception) -> None:
        """A disk that failed cannot be trusted: stop, acknowledge nothing more."""
        log.critical("the disk failed: %s", error)
        self.failure = error
        self.stopping.set()

    def _unforeseen(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something that the event loop called has failed, and nobody looked out for it."""
        error = context.get("exception")
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self.driver.alarms.ring("callback", error, str(context.get("message", "")))
        else:
            loop.default_exception_handler(context)

    # -- listeners ---------------------------------------------------------------------------------------------------

    async def _listen(self, listener: Listener, key: str) -> None:
        loop = asyncio.get_running_loop()
        context = listener_context(listener, key) if listener.encrypted else None
        door, limits = self.door, self.settings.limits

        def plain(arrival: Arrival | None = None) -> asyncio.Protocol:
            return door.connection(listener.kind, arrival)

        def web(arrival: Arrival | None = None) -> asyncio.Protocol:
            visit = Visit(door, listener.kind, arrival)
            return WebSocketProtocol(
                visit.connection,
                listener.path,
                listener.origins,
                limits.packet_bytes + 1024,
                limits.connect_s,
                refused=self.counters.refuse,
                hosts=listener.hosts,
                loopback=is_loopback(listener.host),
                came=visit.came,
                left=visit.left,
            )

        factory = web if listener.kind in ("ws", "wss") else plain

        def encrypted() -> asyncio.Protocol:
            assert context is not None
            return TlsDoorway(door, context, factory)

        try:
            server = await loop.create_server(
                factory if context is None else encrypted, listener.host, listener.number, backlog=1024
            )
        except OSError as error:
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            problem = f"cannot listen on {listener.host}, port {listener.number}: {why}"
            raise SettingsError(f"{key}.port", f"{problem}; choose another one") from None
        self.servers.append(server)
        port = server.sockets[0].getsockname()[1]
        scheme = {"tcp": "mqtt", "tls": "mqtts", "ws": "ws", "wss": "wss"}[listener.kind]
        path = listener.path if listener.kind in ("ws", "wss") else ""
        self.addresses.append(f"{scheme}://{listener.host}:{port}{path}")
        self.door.listening.append((listener, port))

    def tell_addresses(self) -> None:
        """Let all brokers know where clients find this one, and whether it takes new ones."""
        self.driver.tell(AddressesKnown(public_addresses(self.door.listening), not self.door.draining))

    # -- rights ------------------------------------------------------------------------------------------------------

    def _reload(self) -> None:
        self._reloading = asyncio.get_running_loop().call_later(RELOAD_S, self._reload)
        self._reload_now()

    def _reload_now(self) -> None:
        self.predicting.look()
        try:
            changed = self.gate.reload_if_changed()
        except LatecomerError as error:
            log.error("%s; what was in force stays in force", error)
            return
        if changed:
            self.apply_rights()

    def apply_rights(self) -> None:
        """Bad input 19: users who are gone are gone, and what is no longer allowed is taken back."""
        log.info("users and rules were read again")
        self.driver.tell(RulesChanged())
        self.driver.changed()
        users = self.gate.users
        for connection in list(self.driver.connections.values()):
            session = connection.session
            if session is not None and users is not None and session.user and session.user not in users:
                reason, problem = Reason.NOT_AUTHORIZED, "this user is no longer known"
                self.driver.tell(MqttFailed(connection.id, reason, problem))


def link_proofs(link: LinkSection) -> tuple[bytes | None, LinkTls | None]:
    """What neighbours are known by."""
    return link_secret(link), link_tls(link)


def steady_clock() -> Callable[[], Instant]:
    """Microseconds since 1970 at the start, and from then on as the monotonic clock goes."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    monotonic_ns = time.monotonic_ns

    def now() -> Instant:
        return (monotonic_ns() + offset_ns) // 1000

    return now


def connections_max(wanted: int) -> int:
    """As many as asked for, or as the system's limit on open files allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted + FILES_APART:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, wanted + FILES_APART), hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    allowed = min(wanted, max(1, soft - FILES_APART))
    if allowed < wanted:
        log.warning("limits.connections: the limit on open files allows %d connections only", allowed)
    return allowed
