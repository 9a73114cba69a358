"""Events on their way: taken from publishers, carried along the tree, reported done.

Theory of operation. The origin puts a reliable event on disk (`outbox`), answers the publisher, and sends the event to
the tree neighbours behind which it is wanted. Every broker hands it to its own clients, sends it on, and reports it
*done* to where it came from when all it sent it to have reported it done. When the origin has all reports, everybody
has it. Nothing is kept on disk in between: when the tree changes, the brokers on the way forget, and the origin sends
again what is not done, in order, in the new tree. Who has seen an event (on disk, with what it put into mailboxes)
does not hand it out twice. So an event that was accepted is lost only if its origin's disk is.

Order. In one tree an event takes the same path as its predecessors and links keep order; a new tree begins with the
oldest event that is not done. Hence everybody sees each origin's events in order.

Bound. Each origin has a window of events under way, its share of what one link may hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from latecomer.core.attributes import attributes_of
from latecomer.core.clients import Clients, Disk
from latecomer.core.effects import Accept, Drop, Put, Refuse
from latecomer.core.handing_on import choose_anew, give_to_groups, hand_on_from, hand_on_unreached
from latecomer.core.inputs import Published
from latecomer.core.interest import Interest
from latecomer.core.legality import size_problem, topic_problem
from latecomer.core.losses import Losses
from latecomer.core.membership import Membership
from latecomer.core.mobility.recent import RecentLog
from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.core.outbox import CLOCK_US, RESERVE, Entry, Outbox
from latecomer.core.reports import Reports
from latecomer.core.retained import RetainedMessages, with_expiry
from latecomer.core.ring.traffic import Traffic
from latecomer.core.routes import Route, Routes
from latecomer.core.seen import Seen
from latecomer.core.settings import BrokerSettings
from latecomer.core.settling import Settling
from latecomer.core.shares import Choice, Shares
from latecomer.messages.link import Done, Publication
from latecomer.model.event import Event
from latecomer.model.ids import NUMBER_MAX, BrokerId, EventId, Instant
from latecomer.model.record import Kind

Source = BrokerId | tuple[BrokerId, BrokerId]
"""An origin; where there are many trees, behind the root of the one along which its events come."""
FLEETING_MAX = 1024
"""Unreliable events that wait for a tree to become ready."""


@dataclass(slots=True)
class Events:
    """The events this broker originates, carries and hands out."""

    broker: BrokerId
    epoch: int
    settings: BrokerSettings
    orders: Orders
    interest: Interest
    routes: Routes
    clients: Clients
    membership: Membership
    neighbours: Neighbours
    retained: RetainedMessages
    shares: Shares
    settling: Settling
    losses: Losses
    pumped: Callable[[], None]
    """Called when more of what is owed may have been sent."""
    outbox: Outbox = field(default_factory=Outbox)
    seen: Seen = field(default_factory=Seen)
    transit: dict[BrokerId, dict[int, list[BrokerId]]] = field(default_factory=dict)
    """By origin and number, events sent on and not reported done: first where it came from, then who has not reported.
    (In one tree an origin has one epoch.)"""
    reports: Reports = field(init=False)
    fleeting: deque[Event] = field(default_factory=deque)
    owed_until: int = 0
    """The newest event that was owed when this tree became ready."""
    stamp_us: Instant = 0
    """Of the newest event: none is stamped earlier than the one before it, whatever the clock says."""
    stamps_until: Instant = 0
    """Stamps up to here are safe to give: the disk knows of them."""
    window: int = 1
    members: Mapping[BrokerId, object] = field(default_factory=dict)
    """Who is in this tree: nobody else can be an origin."""
    sides: dict[Source, BrokerId] = field(default_factory=dict)
    """The tree neighbour behind which each origin sits: its events come from nobody else."""
    carrying: dict[BrokerId, int] = field(default_factory=dict)
    """How many of the events in `transit` came from each neighbour."""
    hops: dict[Source, int] = field(default_factory=dict)
    """How far away each origin is in this tree."""
    dropped: int = 0
    traffic: Traffic | None = None
    """What is counted where brokers route by rendezvous."""
    recent: RecentLog | None = None
    """What this broker has had lately; None: it does not keep a log (`hand_over.algorithm`)."""

    def __post_init__(self) -> None:
        self.reports = Reports(self.orders, self.neighbours, self.settings.done_delay_us)

    def recover(self, disk: Disk) -> None:
        """Find the outbox and what was seen as they were. What was parked is parked again."""
        meta = disk.get("meta", {}).get("", {})
        reserved, stamps_until = meta.get("seq", 0), meta.get("stamp", 0)
        assert isinstance(reserved, int)
        assert isinstance(stamps_until, int)
        self.stamp_us = self.stamps_until = stamps_until
        self.outbox = Outbox(next_seq=reserved + 1)
        self._reserve()
        entries = disk.get("outbox", {}).get("", {})
        parked = disk.get("parked", {}).get("", {})
        for seq in sorted(entries, key=int):
            event = entries[seq]
            assert isinstance(event, Event)
            needs = parked.get(seq)
            if needs is None:
                self.outbox.add(event)
                continue
            assert isinstance(needs, tuple)
            still = tuple(broker for broker in needs if broker in self.membership.members)
            if not still:
                self.drop(event.id.seq)  # all of them were forgotten
                continue
            self.outbox.add(event, still)
        for origin, newest in disk.get("seen", {}).get("", {}).items():
            assert isinstance(newest, tuple)
            self.seen.newest[str(origin)] = newest

    # -- publishing ------------------------------------------------------------------------------------------------

    def publish(self, fact: Published) -> None:
        orders = self.orders
        problem = None if fact.topic in self.routes else topic_problem(fact.topic)
        problem = problem or size_problem(fact, self.settings.event_max)
        if problem is not None:
            self._refuse(fact, problem)
            return
        if fact.reliable and not self.make_room():
            self._refuse(fact, "busy")
            return
        id = self.next_id()
        stamp_us = self._stamp(orders.now)
        event = Event(id, fact.topic, fact.client, stamp_us, fact.reliable, fact.attributes, fact.payload)
        if fact.lifetime_us:
            event = with_expiry(event, orders.now + fact.lifetime_us)
        orders.note(Kind.PUBLISHED, client=fact.client, topic=fact.topic, event=str(event.id))
        self._entrust(event)
        if fact.reliable:
            orders.effects.append(Accept(fact.client, fact.token, event))
        self._spread(event)

    def originate(self, draft: Event) -> bool | None:
        """Take a publication of an MQTT client, whose legality its session has checked; it gets its identity here.
        Whether anybody is known to want it; None if there is no room to keep it."""
        orders = self.orders
        if draft.reliable and not self.make_room():
            orders.note(Kind.REFUSED, client=draft.publisher, topic=draft.topic, detail="busy")
            return None
        chosen: list[tuple[Choice, ...]] = []
        if self.shares.any_for(draft.topic):
            chosen = self.shares.choose(draft.topic, lambda: attributes_of(draft), self.members, self.membership.known)
        stamp_us, shares = self._stamp(draft.published_us), chosen[0] if chosen else ()
        event = replace(draft, id=self.next_id(), published_us=stamp_us, shares=shares)
        orders.note(Kind.PUBLISHED, client=event.publisher, topic=event.topic, event=str(event.id))
        route = self.routes.of(event.topic)
        if event.retain:
            self._retain(event)
        if event.retain or not self._stays_here(route, event):
            self._entrust(event)
        self._spread(event)
        for more in chosen[1:]:
            give_to_groups(self, event, more)
        return route.wanted or bool(chosen)

    def _retain(self, event: Event) -> None:
        """Keep a retained message. Neighbours that are linked but not in the tree yet have compared theirs with ours
        already, and hear of it from nobody else if the origin cannot keep it for them."""
        if self.retained.keep(event):
            self.retained.tell([peer for peer in self.neighbours.up() if peer not in self.members], event)

    def _stays_here(self, route: Route, event: Event) -> bool:
        """Whether only clients of this broker can want an event: then there is nothing to answer for."""
        elsewhere = route.peers or route.picky_peers or any(choice[2] != self.broker for choice in event.shares)
        return not elsewhere and self.local_only

    @property
    def local_only(self) -> bool:
        """Whether an event that no neighbour wants is of no concern to anybody else, present or absent."""
        return (
            self.interest.ready
            and not self.settings.routing.advertisements
            and not self.membership.uncharted
            and not self.membership.link_states.absent_since
        )

    def next_id(self) -> EventId:
        outbox = self.outbox
        seq = outbox.take_seq()
        if seq + RESERVE > outbox.reserved:
            self._reserve()
        return EventId(self.broker, self.epoch, seq)

    def _stamp(self, published_us: Instant) -> Instant:
        """In history the events of an origin stand in their order (`model.history.Key`)."""
        self.stamp_us = max(self.stamp_us, published_us)
        if self.stamp_us > self.stamps_until:
            self.stamps_until = self.stamp_us + CLOCK_US
            self.orders.writes.append(Put("meta", "", "stamp", self.stamps_until))
        return self.stamp_us

    def _reserve(self) -> None:
        self.outbox.reserved = self.outbox.next_seq + 2 * RESERVE
        self.orders.writes.append(Put("meta", "", "seq", self.outbox.reserved))

    def _entrust(self, event: Event) -> None:
        """From here on the network answers for the event."""
        if event.reliable:
            self.outbox.add(event)
            self.orders.writes.append(Put("outbox", "", event.id.seq, event))
        else:
            self.queue_fleeting(event)

    def _spread(self, event: Event) -> None:
        """To the clients of this broker, then into the network."""
        if self.recent is not None:
            self.recent.add(event)
        if self.traffic is not None:
            self.traffic.publish(event.topic)
        route = self.routes.of(event.topic)
        clients = route.clients_for(attributes_of(event)) if route.picky_clients else route.clients
        if clients:
            self.clients.deliver(clients, event, 0)
        if event.shares:
            self.clients.deliver_shared(event, 0)
        if self.interest.ready:
            self.pump()

    def _refuse(self, fact: Published, reason: str) -> None:
        self.orders.note(Kind.REFUSED, client=fact.client, topic=fact.topic, detail=reason)
        self.orders.effects.append(Refuse(fact.client, fact.token, reason))

    def make_room(self) -> bool:
        """Whether one more event can be kept; what is kept only for absent brokers has to give way first."""
        outbox, settings = self.outbox, self.settings
        while len(outbox.entries) >= settings.outbox_max:
            entry = outbox.give_up_oldest_parked()
            if entry is None:
                return False
            self.drop(entry.event.id.seq)
            who = ", ".join(entry.needs or ("brokers not heard of",))
            self.note_dropped(entry.event, f"no room to keep it for {who}")
            self.losses.note(entry.needs or self.membership.members, entry.event.published_us)
        return True

    def queue_fleeting(self, event: Event) -> None:
        if len(self.fleeting) >= FLEETING_MAX:
            self.note_dropped(self.fleeting.popleft(), "unreliable, and no tree was ready")
        self.fleeting.append(event)

    def note_dropped(self, event: Event, why: str) -> None:
        self.dropped += 1
        self.orders.note(Kind.DROPPED, topic=event.topic, event=str(event.id), detail=why)

    # -- sending own events ------------------------------------------------------------------------------------------

    def tree_ready(self) -> None:
        """Events may flow: begin again with the oldest that is not done."""
        tree = self.interest.tree
        assert tree is not None
        self.window = max(1, self.settings.link_max // len(tree.parent))
        self.hops.clear()
        self.sides.clear()
        self.members = tree.parent
        self.outbox.restart(tree.parent)
        choose_anew(self)
        self.owed_until = self.outbox.queue[-1] if self.outbox.queue else 0
        self.pump()

    def tree_lost(self) -> None:
        """Events may not flow; whatever is on its way belongs to a tree of the past."""
        self.retained.tell_passing(self.transit)
        self.transit.clear()
        self.carrying.clear()
        self.reports.clear()
        self.outbox.halt()

    def pump(self) -> None:
        """Send what is queued, as far as the window allows."""
        outbox = self.outbox
        while outbox.queue and len(outbox.under_way) < self.window:
            entry = outbox.entries[outbox.queue.popleft()]
            event = entry.event
            if event.expires_us and event.expires_us <= self.orders.now:
                self._expire(event)
                continue
            peers = self._next_peers(event, "", entry.only, flooded := self._must_flood(event))
            if not peers:
                self._finish(entry)
                continue
            entry.waiting, entry.sent = peers, True
            outbox.under_way[event.id.seq] = None
            publication = Publication(event, entry.only, flooded, self._left_us(event))
            self.neighbours.send_all(peers, publication)
        while self.fleeting:
            event = self.fleeting.popleft()
            flooded = self._must_flood(event)
            publication = Publication(event, (), flooded, self._left_us(event))
            self._send_fleeting(publication, self._next_peers(event, "", (), flooded))
        if not self.settling.sent and outbox.sent >= self.owed_until:
            self.settling.all_sent()
        self.pumped()

    def _left_us(self, event: Event) -> int:
        return max(1, event.expires_us - self.orders.now) if event.expires_us else 0

    def _expire(self, event: Event) -> None:
        """[MQTT-3.3.2-5] It came too late for those who do not have it."""
        del self.outbox.entries[event.id.seq]
        self.drop(event.id.seq)
        self.note_dropped(event, "expired")

    def _must_flood(self, event: Event) -> bool:
        """A retained message is for everybody.

        Decision: mobility §2 assumes that publishers keep to their advertisements, and does not say what happens
        before an advertisement has reached everybody. An event that no settled advertisement covers goes everywhere."""
        if event.retain:
            return True
        if not self.settings.routing.advertisements:
            return False
        return not (self.interest.advertisements_settled and self.clients.advertised(event))

    def _next_peers(
        self, event: Event, came_from: BrokerId, only: tuple[BrokerId, ...], flooded: bool
    ) -> list[BrokerId]:
        """Tree neighbours that must get the event."""
        wanted: Sequence[BrokerId] = ()
        tree = self.interest.tree_of(event.topic)
        if flooded and not event.groups_only:
            wanted = tree.peers(self.broker)
        elif not event.groups_only:
            route = self.routes.of(event.topic)
            wanted = route.peers_for(attributes_of(event)) if route.picky_peers else route.peers
        if event.shares:  # a chosen broker gets it even if it has no members any more: it hands it on
            wanted = (*wanted, *tree.ways(self.broker, (choice[2] for choice in event.shares)))
        peers = [peer for peer in dict.fromkeys(wanted) if peer != came_from]
        if only:
            ways = tree.ways(self.broker, only)
            peers = [peer for peer in peers if peer in ways]
        return peers

    def _finish(self, entry: Entry) -> None:
        """Every reachable broker has it."""
        seq, parked = entry.event.id.seq, entry.needs is not None
        if self.membership.uncharted:
            self.outbox.keep_for_all(entry)
            return
        if entry.event.shares and entry.needs is None:
            hand_on_unreached(self, entry.event)
        if self.outbox.finish(entry, self.membership.link_states.absent_since):
            self.drop(seq, parked=parked)
        else:
            self.orders.writes.append(Put("parked", "", seq, entry.needs))
            self.orders.note(Kind.PARKED, event=str(entry.event.id), detail=", ".join(entry.needs or ()))

    def drop(self, seq: int, *, parked: bool = True) -> None:
        """Nobody needs it any more. If a crash undoes this it goes out again, and whoever had it recognises it."""
        self.orders.write_lazily(Drop("outbox", "", seq))
        if parked:
            self.orders.write_lazily(Drop("parked", "", seq))

    def forget(self, brokers: list[BrokerId]) -> None:
        """These brokers will not come back: stop keeping events for them."""
        hand_on_from(self, brokers)
        gone = self.outbox.forget(brokers)
        for seq in gone:
            self.drop(seq)
        for broker in brokers:
            self.orders.note(Kind.FORGOTTEN, peer=broker, count=len(gone))

    # -- carrying the events of others -------------------------------------------------------------------------------

    def on_publication(self, peer: BrokerId, publication: Publication) -> None:
        if not self.interest.ready:
            return  # belongs to a tree that one of us has left; its origin will send it again
        event = publication.event
        route = self.routes.by_topic.get(event.topic) or self.routes.of(event.topic)
        source = (route.root, event.id.origin) if route.root else event.id.origin
        if self.sides.get(source) != peer and not self.comes_from(peer, event.id.origin, event.topic, source):
            return
        only = publication.only
        if publication.left_us:
            event = replace(event, expires_us=min(self.orders.now + publication.left_us, NUMBER_MAX))
            publication = Publication(event, only, publication.flooded, publication.left_us)
        clients = route.clients_for(attributes_of(event)) if route.picky_clients else route.clients
        if event.groups_only:
            clients = ()
        peers: Sequence[BrokerId]
        if only or publication.flooded or event.shares:
            peers = self._next_peers(event, peer, only, publication.flooded)
        else:
            peers = route.onward(peer, attributes_of(event) if route.picky_peers else event.attributes)
        if event.retain and not event.groups_only:
            self._retain(event)
        if self.traffic is not None:
            self.traffic.carry(self._hops_of(event), wanted=bool(clients), sent_on=bool(peers))
        if not event.reliable:
            if clients or event.shares:
                self._deliver(clients, event)
            if peers:
                self._send_fleeting(publication, peers)
            return
        if self.recent is not None:
            self.recent.add(event)
        id = event.id
        if (clients or event.shares) and (not only or self.broker in only):
            if (stream := self.seen.take(event)) is not None:
                self.orders.write_lazily(Put("seen", "", stream, (id.epoch, id.seq)))
                self.orders.awaited |= event.qos == 2
                self._deliver(clients, event)
            elif self.clients.lacking:
                self.clients.deliver_again(self.seen.stream(event), clients, event, self._hops_of(event))
        if not peers:
            self.reports.add(peer, id.origin, id.epoch, id.seq)
            return
        under_way = self.transit.setdefault(id.origin, {})
        if id.seq not in under_way:
            carried = self.carrying[peer] = self.carrying.get(peer, 0) + 1
            if carried > 2 * max(self.settings.link_max, len(self.members)):  # windows keep it below half of this
                self.neighbours.reject(peer, f"it sent {carried} events and waited for none to be done")
                return
        under_way[id.seq] = [peer, *peers]
        if event.retain:
            self.retained.passing[id.origin, id.seq] = event.topic
        self.neighbours.send_all(peers, publication)

    def comes_from(self, peer: BrokerId, origin: BrokerId, topic: str, source: Source) -> bool:
        """Whether an origin's events come from this neighbour. While our tree is ready the neighbour uses it too, since
        links keep order; then an event takes the one way there is, or somebody made it up."""
        tree = self.interest.tree_of(topic)
        if origin not in tree.parent or (tree.parent[self.broker] != peer and tree.parent.get(peer) != self.broker):
            return False
        side = self.sides[source] = "" if origin == self.broker else tree.next_hop(self.broker, origin)
        if side != peer:
            self.neighbours.reject(peer, f"it sent an event of {origin!r}, who is not on its side of the tree")
        return side == peer

    def _deliver(self, clients: tuple[str, ...], event: Event) -> None:
        hops = self._hops_of(event)
        self.clients.deliver(clients, event, hops)
        if event.shares:
            self.clients.deliver_shared(event, hops)

    def _hops_of(self, event: Event) -> int:
        origin, root = event.id.origin, self.routes.of(event.topic).root
        source = (root, origin) if root else origin
        hops = self.hops.get(source)
        if hops is None:
            hops = self.hops[source] = self.interest.tree_of(event.topic).hops(origin, self.broker)
        return hops

    def _send_fleeting(self, publication: Publication, peers: Sequence[BrokerId]) -> None:
        """An unreliable event is not worth an unbounded queue."""
        for peer in self.neighbours.send_all(peers, publication, self.settings.link_max):
            self.note_dropped(publication.event, f"unreliable, and the link to {peer} is full")

    def on_done(self, peer: BrokerId, done: Done) -> None:
        if not self.interest.ready:
            return
        if done.origin == self.broker:
            if done.epoch == self.epoch:
                for seq in done.seqs:
                    entry = self.outbox.done(seq, peer)
                    if entry is not None:
                        self._finish(entry)
                self.pump()
            return
        under_way = self.transit.get(done.origin, {})
        for seq in done.seqs:
            waiting = under_way.get(seq)
            if waiting is None or peer not in waiting[1:]:
                continue  # reported for a tree of the past, or twice
            waiting.remove(peer)
            if len(waiting) == 1:
                del under_way[seq]
                self.carrying[waiting[0]] -= 1
                self.retained.passing.pop((done.origin, seq), None)
                self.reports.add(waiting[0], done.origin, done.epoch, seq)

    @property
    def carried(self) -> int:
        """Events of others that are under way through this broker."""
        return sum(map(len, self.transit.values()))
