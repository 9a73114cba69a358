"""What a node tells operators: the answers of the admin API, read off the broker when somebody asks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from latecomer import __version__
from latecomer.core.homes.moving import problem_of_going
from latecomer.core.inputs import (
    MoveWanted,
    MqttFailed,
    ReleaseWanted,
    RepositionAborted,
    RepositionWanted,
    SessionEnded,
)
from latecomer.core.session.state import Session
from latecomer.messages.mqtt import V5, Reason
from latecomer.model.errors import LatecomerError
from latecomer.model.ids import BrokerId, ClientId
from latecomer.runtime.admin_views import (
    ClientView,
    Health,
    LinkView,
    Overview,
    Page,
    RetainedView,
    SubscriptionView,
    TreeView,
    page_of,
)
from latecomer.runtime.draining import remember_draining
from latecomer.runtime.errands import Wish
from latecomer.runtime.homes_views import HomesView, homes_view
from latecomer.runtime.metrics import render
from latecomer.runtime.neighbourhood import NeighboursView, forget
from latecomer.runtime.network_views import NetworkView, network_view
from latecomer.runtime.overlay_views import NO_RING, OverlayView, overlay_view
from latecomer.runtime.predicting import ModelView
from latecomer.runtime.session_views import SessionView, session_page
from latecomer.runtime.settings import Neighbour
from latecomer.runtime.settings_check import different
from latecomer.runtime.store_views import StoresView, counters_of, stores_view

if TYPE_CHECKING:
    from latecomer.runtime.connection import Connection
    from latecomer.runtime.node import Node


log = logging.getLogger("latecomer")


class Views:
    """A node as the admin API sees it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.core = node.core
        self.started_us = node.clock()

    def health(self) -> Health:
        node, problems = self.node, []
        if node.failure is not None:
            problems.append(f"the disk failed: {node.failure}")
        if node.driver.full:
            problems.append("the disk is full: make room")
        if problems:
            return Health("failing", tuple(problems))
        if node.journal is not None and node.journal.problem:
            problems.append(node.journal.problem)
        if node.keeper is not None:
            problems += node.keeper.troubles
        if not self.core.interest.ready and self.core.neighbours.wanted():
            return Health("starting", tuple(problems))
        alarm = node.driver.alarms.problem
        return Health("degraded", (alarm, *problems)) if alarm else Health("ok", tuple(problems))

    def metrics(self) -> bytes:
        node, core = self.node, self.core
        sessions = core.sessions.by_client.values()
        journal = node.journal
        if journal is not None:
            node.counters.journal_records = journal.written
            node.counters.journal_dropped = journal.dropped
            node.counters.journal_failures = journal.failures
        mobility = core.mobility
        node.counters.sessions_moved = mobility.moves
        node.counters.rows_came, node.counters.rows_built = mobility.arrivals.rows_came, mobility.arrivals.rows_built
        node.counters.homes_sent, node.counters.homes_returned = core.homes.sent, core.homes.returned
        tree = core.interest.tree
        gauges = {
            "uptime_seconds": (node.clock() - self.started_us) / 1_000_000,
            "connections": len(node.driver.connections),
            "handshakes": len(node.door.arrivals),
            "sessions": len(core.sessions.by_client),
            "sessions_arriving": len(mobility.arrivals.by_client),
            "sessions_leaving": len(mobility.departures.leaving),
            "sessions_promised": len(mobility.departures.promises),
            "visitors": len(mobility.visits.by_connection),
            "tunnels": len(mobility.remote.by_number),
            "shadows": len(mobility.shadows.by_client),
            "draining": int(node.door.draining),
            **self._homes_gauges(),
            "subscriptions": sum(len(session.subscriptions) for session in sessions),
            "retained_messages": len(core.retained.events),
            "retained_bytes": core.retained.size,
            "queue_messages": sum(len(session.queue) for session in sessions),
            "queue_bytes": sum(session.queue_bytes for session in sessions),
            "outbox_messages": len(core.events.outbox.entries),
            "links_up": len(core.neighbours.up()),
            "tree_members": len(tree.parent) if tree is not None else 0,
            "tree_ready": int(core.interest.ready),
            "journal_waiting_records": journal.waiting if journal is not None else 0,
            "journal_failing": int(bool(journal is not None and journal.problem)),
        }
        if node.keeper is not None:
            status = node.keeper.status
            node.counters.store = counters_of(core, node.keeper)
            gauges["store_events"] = status.events
            gauges["store_bytes"] = status.bytes
            gauges["store_oldest_seconds"] = (node.clock() - status.oldest_us) / 1e6 if status.oldest_us else 0
        return render(node.counters, gauges)

    def _homes_gauges(self) -> dict[str, float]:
        homes = self.core.homes
        if not homes.on:
            return {}
        found: dict[str, float] = {"homes_proposals": homes.wished, "homes_peers": len(homes.profiles.known)}
        found["homes_load"] = homes.loads()[self.core.id].times_mean
        if homes.similarity_mean is not None:
            found["homes_similarity"] = homes.similarity_mean
        return found

    def overview(self) -> Overview:
        node, core = self.node, self.core
        tree = core.interest.tree
        sessions = core.sessions.by_client.values()
        return Overview(
            core.id,
            core.settings.network,
            __version__,
            core.orders.boot,
            (node.clock() - self.started_us) / 1_000_000,
            node.settings.broker.durability,
            TreeView(
                tree.version if tree is not None else "",
                core.interest.ready,
                tuple(tree.parent) if tree is not None else (),
            ),
            tuple(self.links()),
            {
                "connections": len(node.driver.connections),
                "sessions": len(core.sessions.by_client),
                "subscriptions": sum(len(session.subscriptions) for session in sessions),
                "retained_messages": len(core.retained.events),
                "queue_messages": sum(len(session.queue) for session in sessions),
                "outbox_messages": len(core.events.outbox.entries),
            },
            node.door.draining,
        )

    def clients(self, after: str, limit: int) -> Page[ClientView]:
        names, following = page_of(self.core.sessions.by_client, after, limit)
        return Page(tuple(self._client(self.core.sessions.by_client[name]) for name in names), following)

    def client(self, client: ClientId) -> ClientView | None:
        session = self.core.sessions.by_client.get(client)
        return None if session is None else self._client(session)

    def _client(self, session: Session) -> ClientView:
        connection = self.node.driver.connections.get(session.connection)
        via, _ = self.core.mobility.remote.via(session.connection)
        since_us = session.connected_at if via else session.away_since
        return ClientView(
            session.client,
            bool(session.connection),
            session.user,
            connection.address if connection is not None else via,
            connection.transport_name if connection is not None else "tunnel" if via else "",
            "5" if session.version == V5 else "3.1.1",
            not session.durable,
            session.keep_alive_s,
            session.expiry_s,
            self._since_us(connection) if connection is not None else since_us,
            len(session.subscriptions),
            len(session.queue),
            session.queue_bytes,
            len(session.inflight) + session.leased,
        )

    def _since_us(self, connection: Connection) -> int:
        """When it connected."""
        return self.node.clock() - round((self.node.driver.loop.time() - connection.opened_at) * 1_000_000)

    def subscriptions(self, after: str, limit: int) -> Page[SubscriptionView]:
        found = {
            f"{session.client}\0{subscription.text}": (session, subscription)
            for session in self.core.sessions.by_client.values()
            for subscription in session.subscriptions.values()
        }
        keys, following = page_of(found, after, limit)
        views = []
        for key in keys:
            session, subscription = found[key]
            where = subscription.filter.where
            content = "" if where is None else str(where)
            topic = subscription.filter.topic
            views.append(SubscriptionView(session.client, topic, subscription.qos, content, subscription.group))
        return Page(tuple(views), following)

    def retained(self, after: str, limit: int) -> Page[RetainedView]:
        events = self.core.retained.events
        topics, following = page_of(events, after, limit)
        views = [
            RetainedView(topic, events[topic].qos, len(events[topic].payload), events[topic].published_us)
            for topic in topics
        ]
        return Page(tuple(views), following)

    def links(self) -> Sequence[LinkView]:
        node, core = self.node, self.core
        views = []
        for peer, link in core.neighbours.links.items():
            if not (link.wanted or link.up):
                continue
            counters = node.counters.link(peer)
            connection = node.links.current.get(peer)
            views.append(
                LinkView(
                    peer,
                    "up" if link.up and link.connected else "held" if link.up else "down",
                    connection.address if connection is not None else "",
                    link.cost_us,
                    peer in core.interest.peers,
                    counters.frames_in,
                    counters.frames_out,
                    counters.bytes_in,
                    counters.bytes_out,
                    len(link.unacked),
                    "" if connection is not None else node.links.problems.get(peer, ""),
                )
            )
        return views

    async def stores(self, sizes: Sequence[str] = (), broker: BrokerId = "") -> StoresView:
        return await self._of(broker, Wish(sizes=tuple(sizes)))

    async def assign(self, topics: tuple[str, ...], plan: str, broker: BrokerId = "") -> StoresView:
        return await self._of(broker, Wish(topics, plan))

    async def _of(self, broker: BrokerId, wish: Wish) -> StoresView:
        """Here, or at another broker."""
        return await (self.node.errands.ask(broker, wish) if broker not in ("", self.core.id) else self.carry_out(wish))

    async def carry_out(self, wish: Wish) -> StoresView:
        """What an operator wants of this broker's store."""
        if wish.topics is not None:
            await self.node.assigner.assign(wish.topics, wish.plan)
        keeper, assigner = self.node.keeper, self.node.assigner
        counted = {}
        if keeper is not None:
            await keeper.refresh()
            counted = await keeper.sizes(wish.sizes)
        return stores_view(self.core, keeper, assigner.plan, assigner.room(), counted)

    def network(self) -> NetworkView:
        return network_view(self.core)

    def overlay(self) -> OverlayView:
        return overlay_view(self.core, (self.node.clock() - self.started_us) / 1_000_000)

    def propose(self, places: Mapping[BrokerId, int]) -> None:
        if self.core.interest.family is None:
            raise LatecomerError(NO_RING)
        problem = self.core.reposition.problem_of(places)
        if problem:
            raise LatecomerError(problem)
        self.node.driver.tell(RepositionWanted(tuple(places.items())))

    def abandon(self) -> bool:
        waiting = self.core.reposition.own is not None
        if waiting:
            self.node.driver.tell(RepositionAborted())
        return waiting

    def disconnect(self, client: ClientId, reason: str, use_another_server: bool = False, to: BrokerId = "") -> bool:
        session = self.core.sessions.by_client.get(client)
        visits = self.core.mobility.visits.by_connection
        connections = [number for number, visit in visits.items() if visit.client == client]
        if session is not None and session.connection:
            connections.append(session.connection)
        code = Reason.USE_ANOTHER_SERVER if use_another_server else Reason.ADMINISTRATIVE_ACTION
        for connection in connections:
            reference = "" if session is None or not to else self.core.addresses.reference(session, to)
            self.node.driver.tell(MqttFailed(connection, code, reason, reference))
        return bool(connections)

    def end_session(self, client: ClientId, reason: str) -> bool:
        if client not in self.core.sessions.by_client:
            return False
        problem = self.core.mobility.wishes.problem_of_end(client)
        if problem:
            raise LatecomerError(problem)
        log.info("the session of %s is ended by the operator: %s", client, reason)
        self.node.driver.tell(SessionEnded(client, reason))
        return True

    def sessions(self, after: str, limit: int, client: ClientId = "") -> Page[SessionView]:
        return session_page(self.core, after, limit, client)

    def homes(self) -> HomesView:
        return homes_view(self.core)

    def move_session(self, client: ClientId, to: BrokerId, gently: bool = False) -> bool:
        session = self.core.sessions.by_client.get(client)
        if session is None:
            return False
        problem = self.core.mobility.wishes.problem_of_move(client, to)
        if not problem and gently and session.connection:
            away_us = self.core.settings.homes.away_us
            problem = problem_of_going(session, self.core.mobility, away_us)
            problem = problem and f"{client} stays: {problem}"
        if problem:
            raise LatecomerError(problem)
        self.node.driver.tell(MoveWanted(client, to))
        return True

    def release_session(self, client: ClientId) -> bool:
        if client not in self.core.sessions.by_client:
            return False
        problem = self.core.mobility.wishes.problem_of_release(client)
        if problem:
            raise LatecomerError(problem)
        log.info("the session of %s is taken back from the broker that it was promised to, by the operator", client)
        self.node.driver.tell(ReleaseWanted(client))
        return True

    def drain(self, on: bool) -> None:
        remember_draining(self.node.settings.broker.data, on)
        if on != self.node.door.draining:
            log.info("new clients are %s, by the operator", "refused: this broker is drained" if on else "accepted")
        self.node.door.draining = on
        self.node.tell_addresses()

    def neighbours(self) -> NeighboursView:
        return self.node.neighbourhood.view(self.node)

    async def add_neighbour(self, neighbour: Neighbour) -> None:
        await self.node.neighbourhood.meet(self.node, neighbour)

    def remove_neighbour(self, peer: BrokerId) -> None:
        self.node.neighbourhood.part(self.node, peer)

    def forget(self, broker: BrokerId) -> None:
        forget(self.node, broker)

    def movement_model(self) -> ModelView:
        return self.node.predicting.view(self.core.id)

    async def load_model(self, data: bytes) -> ModelView:
        await self.node.predicting.load(data)
        return self.movement_model()

    def remove_model(self) -> bool:
        return self.node.predicting.remove()

    async def reload(self) -> str:
        self.node.gate.reload_if_changed()
        self.node.apply_rights()
        done = "users and rules are in force as their files say"
        if self.node.reread is None:
            return done
        try:
            changed = different(self.node.settings, self.node.reread())
        except LatecomerError as error:
            return f"{done}; the settings file cannot be used, and would not be at a restart: {error}"
        if not changed:
            return done
        some = ", ".join(changed[:10]) + (f" and {len(changed) - 10} more" if changed[10:] else "")
        return f"{done}; changed in the settings file, and in force after a restart only: {some}"

    def shutdown(self) -> None:
        self.node.stopping.set()
