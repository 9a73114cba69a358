"""Checkers: they watch the simulated network from outside and know nothing of how it works.

*Promises* is the delivery oracle: an accepted event reaches every settled subscriber once and in order. *Agreement*
compares, once the network is quiet, every table with what follows from the topology and the clients' wishes alone.
`check_bounds` looks at every queue. What a checker finds is a `Violation`; the run that has one prints its seed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from latecomer.core.broker import Broker
from latecomer.core.index import strictly_covers
from latecomer.core.links import ACK_EVERY
from latecomer.core.routing import Rendezvous
from latecomer.core.table import SELF
from latecomer.messages.homes import Profile, ProfileWanted
from latecomer.messages.link import Compare, Compared, LinkMessage, Publication
from latecomer.model.event import Event
from latecomer.model.filters import Filter, filter_overlaps, filter_satisfiable
from latecomer.model.ids import BrokerId, ClientId, EventId, Instant
from latecomer.model.record import Kind, Record
from latecomer.model.slots import SLOTS, key_of
from latecomer.sim.clients import SimClients
from latecomer.sim.disk import Disk
from latecomer.sim.ring_checkers import check_ring
from latecomer.sim.sides import Observer
from latecomer.sim.store import known_topic_matches
from latecomer.sim.world import World


@dataclass(slots=True, frozen=True)
class Violation:
    """A promise that was broken."""

    at_us: Instant
    promise: str
    detail: str

    def __str__(self) -> str:
        return f"{self.at_us / 1e6:.6f}s {self.promise}: {self.detail}"


@dataclass(slots=True)
class _Receiver:
    """What one client was promised and what it got."""

    settled: dict[Filter, None] = field(default_factory=dict)
    """Subscriptions that the whole network has heard of."""
    ever: dict[Filter, None] = field(default_factory=dict)
    owed: dict[EventId, Event] = field(default_factory=dict)
    got: dict[EventId, None] = field(default_factory=dict)
    newest: dict[tuple[BrokerId, int, bool, str], int] = field(default_factory=dict)


@dataclass(slots=True)
class Promises(Observer):
    """Nothing lost that was promised, nothing twice, order kept (P1). Witness of the clients, observer of the world."""

    world: World
    violations: list[Violation] = field(default_factory=list)
    deliveries: int = 0
    accepted_count: int = 0
    repeats: int = 0
    """Deliveries that clients recognised as repeated by their number: allowed, not handed on."""
    excused: int = 0
    duplicates: int = 0
    dropped: int = 0
    _receivers: dict[ClientId, _Receiver] = field(default_factory=dict)

    def _of(self, client: ClientId) -> _Receiver:
        receiver = self._receivers.get(client)
        if receiver is None:
            receiver = self._receivers[client] = _Receiver()
        return receiver

    def violate(self, promise: str, detail: str) -> None:
        self.violations.append(Violation(self.world.now, promise, detail))

    # -- witness -----------------------------------------------------------------------------------------------------

    def subscribed(self, client: ClientId, filter: Filter) -> None:
        self._of(client).ever[filter] = None

    def unsubscribed(self, client: ClientId, filter: Filter) -> None:
        receiver = self._of(client)
        receiver.settled.pop(filter, None)
        for id, event in list(receiver.owed.items()):
            if not _any_matches(receiver.settled, event):
                del receiver.owed[id]
                self.excused += 1

    def settle(self, clients: SimClients) -> None:
        """The network is quiet: from now on everybody's present subscriptions count."""
        for client in clients.clients.values():
            self._of(client.id).settled = dict(client.subscriptions)

    def accepted(self, client: ClientId, event: Event) -> None:
        self.accepted_count += 1
        for receiver in self._receivers.values():
            if event.id not in receiver.got and _any_matches(receiver.settled, event):
                receiver.owed[event.id] = event

    def received(self, client: ClientId, event: Event) -> None:
        receiver = self._of(client)
        self.deliveries += 1
        if not _any_matches(receiver.ever, event):
            self.violate("unasked", f"{client} got {event.id} on {event.topic!r} and never asked for it")
        if event.id in receiver.got:
            self.duplicates += 1
            self.violate("twice", f"{client} got {event.id} twice")
        # [MQTT-4.6.0-6]: order is promised among events of the same quality of service.
        routing = self.world.settings.routing
        key = key_of(event.topic, routing.levels) if isinstance(routing, Rendezvous) else ""
        source = (event.id.origin, event.id.epoch, event.reliable, key)
        if receiver.newest.get(source, 0) > event.id.seq:
            self.violate("order", f"{client} got {event.id} after {receiver.newest[source]}")
        receiver.newest[source] = max(event.id.seq, receiver.newest.get(source, 0))
        receiver.got[event.id] = None
        receiver.owed.pop(event.id, None)

    def repeated(self, client: ClientId, event: Event) -> None:
        self.repeats += 1

    def forgotten(self, client: ClientId) -> None:
        """Its broker lost the disk: the client begins anew, nothing is owed to it."""
        old = self._of(client)
        self.excused += len(old.owed)
        self._receivers[client] = _Receiver(ever=old.ever)

    # -- observer ----------------------------------------------------------------------------------------------------

    def noted(self, record: Record) -> None:
        if record.kind is Kind.DROPPED:
            self.dropped += 1
            self._excuse(record.event, record.client)
        elif record.kind is Kind.REJECTED:  # all simulated brokers are honest
            self.violate("honesty", f"{record.broker} rejected {record.peer}: {record.detail}")

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None:
        if not keeps_disk:
            for event in disk.tables.get("outbox", {}).get("", {}).values():
                assert isinstance(event, Event)
                self._excuse(str(event.id), "")

    def _excuse(self, event: str, client: ClientId) -> None:
        """The loss was said aloud, or its cause is outside the promise."""
        for name, receiver in self._receivers.items():
            if client in ("", name):
                for id in [id for id in receiver.owed if str(id) == event]:
                    del receiver.owed[id]
                    self.excused += 1

    # -- verdict -----------------------------------------------------------------------------------------------------

    def outstanding(self) -> int:
        return sum(len(receiver.owed) for receiver in self._receivers.values())

    def check_all_delivered(self) -> None:
        for client, receiver in self._receivers.items():
            for id, event in receiver.owed.items():
                self.violate("lost", f"{client} never got {id} on {event.topic!r}")
            receiver.owed.clear()


def _any_matches(filters: Iterable[Filter], event: Event) -> bool:
    for f in filters:
        if known_topic_matches(f.topic, event.topic) and (f.where is None or f.where.matches(event.attributes)):
            return True
    return False


@dataclass(slots=True)
class Agreement:
    """Trees and tables, compared with what they should be."""

    world: World
    clients: SimClients

    def quiet(self) -> bool:
        """Whether the living brokers agree on one tree that reaches all of them, and nothing is under way."""
        cores = self._cores()
        versions = {core.interest.tree.version if core.interest.tree else "" for core in cores.values()}
        if len(versions) != 1:
            return False
        for core in cores.values():
            assert core.interest.tree is not None
            if not core.interest.ready or len(core.interest.tree.parent) != len(cores):
                return False
            if core.events.outbox.queue or core.events.outbox.under_way or core.events.carried:
                return False
            if not core.interest.advertisements_settled:
                return False
            if any(_matters(link.unacked) for link in core.neighbours.links.values() if link.up):
                return False
            if core.early is not None and (core.early.waiting or core.flushes.coming or core.flushes.climbing):
                return False
            if core.history.retrieval.inquiries or core.history.store.streams or core.history.store.waiting:
                return False
            if core.history.replicas.filling or core.history.replicas.task is not None or core.history.replicas.surveys:
                return False
        nodes = self.world.nodes.values()
        return not any(node.writing or node.inbox or node.reads or node.starting for node in nodes)

    def check(self, promises: Promises) -> None:
        """Every table entry has a living cause, and every cause its entries."""
        cores = self._cores()
        wanted = {id: self._local(id, "subscriptions") for id in cores}
        announced = {id: self._local(id, "advertisements") for id in cores}
        for id, core in cores.items():
            if sorted(map(str, core.interest.subscriptions.of(SELF))) != sorted(map(str, wanted[id])):
                promises.violate("tables", f"{id} does not hold what its own clients asked for")
            if core.interest.family is not None:
                check_ring(core, cores, wanted, promises.violate)
                self._check_remains(core, promises)
                continue
            tree = core.interest.tree
            assert tree is not None
            for peer in core.interest.peers:
                behind = [b for b in cores if b != id and tree.next_hop(id, b) == peer]
                before = [b for b in cores if b not in behind]
                expected = self._expected(
                    core, peer, _union(wanted[b] for b in behind), _union(announced[b] for b in before)
                )
                found = sorted(map(str, core.interest.subscriptions.of(peer)))
                if found != expected:
                    promises.violate("tables", f"{id} holds {found} for {peer}, should hold {expected}")
            self._check_remains(core, promises)

    def _expected(self, core: Broker, peer: BrokerId, wanted: list[Filter], announced: list[Filter]) -> list[str]:
        """What `peer` should have told `core`, from the definition of the routing strategy alone."""
        routing = core.settings.routing
        tree = core.interest.tree
        assert tree is not None
        to_parent = tree.parent[peer] == core.id
        told = [
            f
            for f in wanted
            if filter_satisfiable(f)
            and routing.tells_subscription(
                to_parent=to_parent,
                advertised=routing.advertisements and any(filter_overlaps(f, a) for a in announced),
            )
        ]
        if routing.covering:
            told = [f for f in told if not any(strictly_covers(other, f) for other in told)]
        return sorted(map(str, told))

    def _check_remains(self, core: Broker, promises: Promises) -> None:
        if core.events.outbox.entries and not core.membership.link_states.absent_since:
            promises.violate("memory", f"{core.id} keeps {len(core.events.outbox.entries)} events for nobody")
        tables = core.interest.subscriptions
        family = core.interest.family
        peers = core.interest.peers if family is None else family.beside[core.id]
        if any(not tables.wanted(f, p) for p in peers for f in core.interest.links[p].told_subscriptions):
            promises.violate("tables", f"{core.id} has told a neighbour something it should not have")

    def _local(self, broker: BrokerId, what: str) -> list[Filter]:
        wishes = _union(getattr(client, what) for client in self.clients.clients.values() if client.broker == broker)
        return wishes if what == "advertisements" else _union((wishes, self._stored(broker)))

    def _stored(self, broker: BrokerId) -> list[Filter]:
        """A store is a subscriber like any other."""
        return [Filter(topics) for topics in self.world.nodes[broker].topics]

    def _cores(self) -> dict[BrokerId, Broker]:
        return {id: node.core for id, node in self.world.nodes.items() if node.core is not None}


def _matters(unacked: Iterable[LinkMessage]) -> bool:
    """Stores compare what they have for ever, and brokers what their clients want: that is no news."""
    return any(not isinstance(frame, (Compare, Compared, Profile, ProfileWanted)) for frame in unacked)


def _union(groups: Iterable[Iterable[Filter]]) -> list[Filter]:
    return list(dict.fromkeys(f for group in groups for f in group))


def check_bounds(world: World, promises: Promises) -> dict[str, int]:
    """No queue is longer than its setting allows (P7); returns the longest of each kind."""
    settings = world.settings
    longest = {"link": 0, "outbox": 0, "mailbox": 0, "transit": 0, "seen": 0, "held": 0}
    for node in world.nodes.values():
        core = node.core
        if core is None:
            continue
        events = core.events
        sizes = {
            "link": max((len(link.unacked) for link in core.neighbours.links.values()), default=0),
            "outbox": len(events.outbox.entries),
            "mailbox": max((len(box.waiting) for box in core.clients.mailboxes.values()), default=0),
            "transit": events.carried,
            "seen": len(events.seen.newest),
            "held": len(node.held),
        }
        for name, size in sizes.items():
            longest[name] = max(longest[name], size)
        limits = {
            "outbox": settings.outbox_max,
            "mailbox": settings.mailbox_max,
            "transit": settings.link_max,
            "seen": len(world.nodes) * (SLOTS if isinstance(settings.routing, Rendezvous) else 1),
        }
        for link in core.neighbours.links.values():
            # Reliable events have a window, unreliable ones a limit; what arrived is let go in batches.
            allowed = 2 * settings.link_max + 2 * ACK_EVERY
            if len(link.unacked) > allowed:
                events_held = sum(type(frame) is Publication for frame in link.unacked)
                if events_held > allowed:
                    promises.violate("memory", f"{core.id} holds {events_held} events for {link.peer}")
        for name, limit in limits.items():
            if sizes[name] > limit:
                promises.violate("memory", f"{core.id} holds {sizes[name]} in its {name}, {limit} are allowed")
    return longest
