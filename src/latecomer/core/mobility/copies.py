"""Copies of a session that its owner gives to brokers to which the client may come (*shadows*, on their side).

A copy is a hand-over that stops before the promise: the other broker has subscribed, the cut is made, the rows have
gone. The owner stays the owner and goes on collecting; will, expiry and questions of others are as without it. When the
client comes to a broker that has a copy, the hand-over goes on where it stopped: the grant follows at once, if nothing
that the copy holds has changed. It has changed if the client was connected since, if the queue was full and a delivery
was dropped, or if rules took a subscription away; then the rows are sent as to anybody.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from latecomer.core.events import Events
from latecomer.core.mobility.rows import Pager, encode_subscription
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.ring.flushes import Flushes
from latecomer.core.session.state import Session, Subscription
from latecomer.core.settling import Settling
from latecomer.messages.hand_over import CREDIT_MAX, Ask, Attempt, ShadowLost, ShadowOffer, ShadowRows, ShadowWanted
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.slots import NEVER, Stream

Cut = tuple[tuple[Stream, int, int], ...]


def cut_of(broker: BrokerId, events: Events, session: Session) -> Cut:
    """Per stream, the newest event that the session's rows account for. What this broker's own clients published is not
    in `seen`, and is named for all streams at once; what a session that moved here itself had before is in its own cut.
    That counts alone for streams of which this broker had events that the session came without."""
    newest = dict(events.seen.newest)
    for stream, stamp in session.cut.items():
        newest[stream] = stamp if stream in session.without else max(stamp, newest.get(stream, NEVER))
    newest[broker] = (events.epoch, events.outbox.next_seq - 1)
    return tuple((stream, *stamp) for stream, stamp in newest.items())


@dataclass(slots=True, eq=False)
class Copy:
    """What another broker has of a session, or is about to have."""

    id: Attempt
    to: BrokerId
    session: Session
    stamp: Instant
    """When the client was connected last: a copy of an earlier stay is void."""
    subscriptions: tuple[Subscription, ...]
    credit: int = 0
    subscribed: bool = False
    """The other broker has, and whatever it does not get by itself has arrived."""
    pager: Pager | None = None
    """None: the cut is not made yet."""
    cut: Cut = ()
    upto: int = 0
    pages: int = 0
    rows: int = 0
    """Deliveries among the rows."""
    complete: bool = False

    @property
    def holds(self) -> bool:
        """Whether the other broker has everything up to its cut, as it is here. Deliveries up to there can only have
        gone since, so it is enough to count them."""
        session = self.session
        return (
            self.complete
            and session.connected_at == self.stamp
            and session.past is None
            and tuple(session.subscriptions.values()) == self.subscriptions
            and sum(number <= self.upto for number in session.queue) == self.rows
        )


@dataclass(slots=True)
class Copies:
    """The copies of this broker's sessions, by client and broker."""

    broker: BrokerId
    orders: Orders
    passage: Passage
    events: Events
    settling: Settling
    most: int
    """Sessions of which others may have copies."""
    flushes: Flushes
    by_client: dict[ClientId, dict[BrokerId, Copy]] = field(default_factory=dict)
    held_up: dict[Attempt, Copy] = field(default_factory=dict)
    """Those that wait for the tree to settle."""
    numbers: int = 0

    def offer(self, session: Session, to: BrokerId) -> None:
        """Have another broker keep a copy of a session whose client is away. A replay that is under way adds to the
        session by itself, so there is none meanwhile."""
        client = session.client
        if session.past is not None or (client not in self.by_client and len(self.by_client) >= self.most):
            return
        self.numbers += 1
        copy = Copy(
            Attempt(self.broker, self.orders.boot, self.numbers),
            to,
            session,
            session.connected_at,
            tuple(session.subscriptions.values()),
        )
        subscriptions = tuple(map(encode_subscription, copy.subscriptions))
        if self.passage.send(to, ShadowOffer(self.broker, to, copy.id, client, session.user, subscriptions)):
            self.by_client.setdefault(client, {})[to] = copy

    def on_wanted(self, frame: ShadowWanted) -> None:
        copy = self._of(frame)
        if copy is None:
            to = frame.from_broker
            self.passage.send(to, ShadowLost(self.broker, to, frame.copy, frame.client))
        else:
            copy.credit = max(copy.credit, min(frame.credit, copy.pages + CREDIT_MAX))
            if copy.subscribed:
                self._advance(copy)
            else:
                self.flushes.behind(copy.to, lambda: self._subscribed(copy))

    def _subscribed(self, copy: Copy) -> None:
        """Whatever the other broker does not get by itself has arrived."""
        if self.by_client.get(copy.session.client, {}).get(copy.to) is copy:
            copy.subscribed = True
            self._advance(copy)

    def _of(self, frame: ShadowWanted | ShadowLost) -> Copy | None:
        copy = self.by_client.get(frame.client, {}).get(frame.from_broker)
        return copy if copy is not None and copy.id == frame.copy else None

    def go_on(self) -> None:
        """The tree may have settled."""
        for copy in list(self.held_up.values()):
            self._advance(copy)

    def _advance(self, copy: Copy) -> None:
        self.held_up.pop(copy.id, None)
        if copy.pager is None:
            if not self.settling.settled:
                self.held_up[copy.id] = copy
                return
            session = copy.session
            copy.cut, copy.upto = cut_of(self.broker, self.events, session), session.number
            copy.pager = Pager(session)
        pager, client, to = copy.pager, copy.session.client, copy.to
        while not copy.complete and copy.pages < copy.credit:
            copy.pages += 1
            rows = pager.page(self.orders.now, copy.pages)
            copy.rows += sum(row.table == "queue" for row in rows)
            copy.complete = pager.empty
            self.passage.send(to, ShadowRows(self.broker, to, copy.id, client, copy.pages, rows, copy.complete))

    # -- the end of copies ---------------------------------------------------------------------------------------------

    def used(self, session: Session, ask: Ask) -> Copy | None:
        """Somebody asks for the session: its copy, if it has one that holds. All others are void."""
        copies = self.by_client.get(session.client)
        if copies is None:
            return None
        copy = copies.pop(ask.from_broker, None)
        self.void(session.client)
        if ask.connected:
            session.misses = 0 if copy is not None else session.misses + 1
        return copy if copy is not None and copy.id == ask.copy and copy.session is session and copy.holds else None

    def came_back(self, session: Session) -> None:
        """The client is here again: the guess was wrong."""
        if session.client in self.by_client:
            session.misses += 1
            self.void(session.client)

    def void(self, client: ClientId) -> None:
        """The session has ended or leaves, or its client is connected."""
        for to, copy in self.by_client.pop(client, {}).items():
            self.held_up.pop(copy.id, None)
            self.passage.send(to, ShadowLost(self.broker, to, copy.id, client))

    def on_lost(self, frame: ShadowLost) -> None:
        """The other broker does not keep its copy."""
        copy = self._of(frame)
        if copy is None:
            return
        self.held_up.pop(copy.id, None)
        copies = self.by_client[frame.client]
        del copies[copy.to]
        if not copies:
            del self.by_client[frame.client]

    def tree_lost(self) -> None:
        """Copies are complete in the tree in which they were made, and only there."""
        self.by_client.clear()
        self.held_up.clear()
