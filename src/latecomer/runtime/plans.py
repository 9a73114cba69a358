"""Plans: what the fast path does with a topic.

They are made from the core's routes and sessions, and are void as soon as anything changed in them
(`Driver.generation`). Topics that match the same filters share a plan, and so do equal audiences: so successive
messages to different topics can be one run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from latecomer.core.session.state import PACKET_IDS

if TYPE_CHECKING:
    from latecomer.runtime.connection import Connection
    from latecomer.runtime.driver import Driver

TOPICS_MAX, OWN_TOPICS_MAX = 65_536, 1024
"""Topics whose plan is remembered for everybody, and for one client that has rules of its own."""


@dataclass(slots=True, eq=False)
class Plan:
    """What happens to a topic. Receivers are told apart by the form in which they take it."""

    fast0: bool = False
    fast1: bool = False
    plain: dict[int, list[Connection]] = field(default_factory=dict)
    """By version, those who take it with QoS 0 whatever it came with."""
    acked: dict[int, list[Connection]] = field(default_factory=dict)
    """By version, those who take QoS 1."""
    everybody: list[Connection] = field(default_factory=list)
    acking: int = 0
    """How many of them take QoS 1."""
    version: int = 0
    """That of all receivers; 0: they differ."""
    uniform: bool = False
    """All receivers take QoS 1, in one version."""
    peers: tuple[str, ...] = ()
    wanted: bool = True
    """Whether anybody subscribed to it: MQTT 5 has a reason code for that."""
    most: int = PACKET_IDS
    """Messages of QoS 1 in one run: what each receiver takes at once [MQTT-3.3.4-9]."""


SLOW = Plan()
"""For the general path."""


class Plans:
    """Plans by topic, shared by all connections."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.generation = -1
        self.by_topic: dict[bytes, Plan] = {}
        self.by_filters: dict[tuple[object, ...], Plan] = {}
        """Topics that match the same filters have the same audience, unless rules tell them apart."""
        self.shared: dict[tuple[object, ...], Plan] = {}

    def of(self, c: Connection) -> dict[bytes, Plan]:
        """The plans as they hold for this client: everybody's, unless it may not do everything."""
        if c.generation != self.driver.generation:
            if self.generation != self.driver.generation:
                self._forget()
            c.generation = self.generation
            session = c.session
            assert session is not None
            own = session.no_local or not self.driver.core.sessions.access.open_to_all
            c.plans = {} if own else self.by_topic
        return c.plans

    def make(self, c: Connection, topic: bytes) -> Plan:
        """What to do with a topic that this client publishes to."""
        plan = self.anybodys(topic)
        if c.plans is self.by_topic or plan is SLOW:
            return plan
        session = c.session
        assert session is not None
        if not self.driver.core.sessions.access.may_publish(session.user, session.client, topic.decode()) or (
            session.no_local and c in plan.everybody
        ):
            plan = SLOW
        if len(c.plans) >= OWN_TOPICS_MAX:
            c.plans.clear()
        c.plans[topic] = plan
        return plan

    def anybodys(self, topic: bytes) -> Plan:
        """What to do with a topic, whoever publishes to it."""
        if self.generation != self.driver.generation:
            self._forget()
        plan = self.by_topic.get(topic)
        if plan is None:
            if len(self.by_topic) >= TOPICS_MAX:
                self.by_topic.clear()
            plan = self.by_topic[topic] = self._make(topic)
        return plan

    def _forget(self) -> None:
        self.generation = self.driver.generation
        self.by_topic.clear()
        self.by_filters.clear()
        self.shared.clear()

    def _make(self, topic: bytes) -> Plan:
        core = self.driver.core
        try:
            text = topic.decode()
        except UnicodeDecodeError:
            return SLOW
        if core.sessions.publishing.topic_problem(text) is not None or text[0] == "$" or core.shares.any_for(text):
            return SLOW
        if core.stored(text):
            return SLOW  # a store tells events apart by their identities, which only the core gives
        # Where every topic has a tree of its own, equal filters are no equal audience.
        by_filters = core.routes.ways is None
        filters = tuple(core.interest.subscriptions.index.match(text)) if by_filters else (core.routes.of(text),)
        open_to_all = core.sessions.access.open_to_all
        plan = self.by_filters.get(filters) if open_to_all else None
        if plan is None:
            route = core.routes.of(text)
            if route.picky_clients or route.picky_peers or (route.peers and not core.interest.ready):
                plan = SLOW
            else:
                plan = self._audience(text, route.clients, route.peers)
            if open_to_all:
                self.by_filters[filters] = plan
        return plan

    def _audience(self, text: str, clients: tuple[str, ...], peers: tuple[str, ...]) -> Plan:
        core, connections = self.driver.core, self.driver.connections
        fast1 = not peers and core.events.local_only
        key: list[object] = [peers]
        members: list[tuple[Connection, int]] = []
        for client in clients:
            session = core.sessions.by_client.get(client)
            if session is None or session.connection < 0:
                return SLOW  # its client is at another broker, and reached through the core
            qos = core.sessions.deliveries.plain_qos(session, text)
            if qos is None:
                return SLOW
            if qos < 0:
                continue  # it may not have it
            connection = connections.get(session.connection)
            if qos and (session.durable or connection is None):
                fast1 = False
            if connection is None:
                continue  # QoS 0 is for those who are there
            if session.packet_max:
                return SLOW
            members.append((connection, qos))
            key += (connection.id, qos)
        wanted = bool(clients or peers)
        key += (fast1, wanted)
        plan = self.shared.get(tuple(key))
        if plan is None:
            plan = self.shared[tuple(key)] = Plan(True, fast1, peers=peers, wanted=wanted)
            for connection, qos in members:
                forms = plan.acked if qos else plan.plain
                forms.setdefault(connection.version, []).append(connection)
                plan.everybody.append(connection)
                plan.acking += qos
                if qos and connection.session is not None:
                    plan.most = min(plan.most, connection.session.quota)
            versions = dict.fromkeys((*plan.plain, *plan.acked))
            plan.version = next(iter(versions)) if len(versions) == 1 else 0
            plan.uniform = bool(plan.version and plan.acked and not plan.plain)
        return plan
