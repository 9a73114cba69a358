"""Shadows: copies of sessions whose clients may come here, while another broker owns them (*mobility*: prefetching).

    offered ── events have left, settled: wanted ──▶ filling ── last rows ──▶ complete ── CONNECT ──▶ an arrival
       └──────────── lost, tree lost, too large, the client's session is here ──▶ gone

A shadow is subscribed to what the session is subscribed to, but for groups, and holds the events that come. It is in
memory only. Nothing rests on it: without one, or with one that its owner says is void, the session is handed over as
any other. An arrival takes it over if the owner says that it holds; then only the grant is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from latecomer.core.clients import Clients
from latecomer.core.events import Events
from latecomer.core.mobility.rows import RowsError, Tables, decode, decode_subscriptions
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.session.limits import SessionLimits
from latecomer.core.session.past import size_of
from latecomer.core.session.state import Subscription
from latecomer.core.settling import Settling
from latecomer.messages.hand_over import Attempt, ShadowLost, ShadowOffer, ShadowRows, ShadowWanted
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId, ClientId

CREDIT = 8
"""Pages of rows that may be under way."""


@dataclass(slots=True, eq=False)
class Shadow:
    """A copy of a session."""

    id: Attempt
    client: ClientId
    user: str
    owner: BrokerId
    subscriptions: list[Subscription]
    sent: int
    """What was published here up to this event must have left before the rows are asked for."""
    asked: bool = False
    pages: int = 0
    credit: int = 0
    complete: bool = False
    tables: Tables = field(default_factory=dict)
    held: list[tuple[Event, int]] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0
    """Of rows and events."""
    held_bytes: int = 0
    frames: int = 1
    """Sent and received for it."""

    def filters(self) -> list[Filter]:
        """What it is subscribed to; two texts may mean the same."""
        return list(dict.fromkeys(one.filter for one in self.subscriptions if not one.group))


@dataclass(slots=True)
class Shadows:
    """The shadows at one broker."""

    broker: BrokerId
    orders: Orders
    passage: Passage
    events: Events
    settling: Settling
    limits: SessionLimits
    clients: Clients
    most: int
    is_known: Callable[[ClientId], bool] = field(init=False)
    """Whether a session of the client is here, or on its way."""
    may_owe: Callable[[BrokerId], BrokerId | None] = field(init=False)
    """A broker that is away and may have events for the owner alone, which this one had before (`apart`)."""
    had: Callable[[BrokerId, Iterable[BrokerId]], None] = field(init=False)
    """This broker let go of events for a session at another one, which may not have had them (`apart`)."""
    by_client: dict[ClientId, Shadow] = field(default_factory=dict)
    held_up: dict[ClientId, Shadow] = field(default_factory=dict)
    """Those that are subscribed, and may not ask for rows yet."""

    def on_offer(self, frame: ShadowOffer) -> None:
        client = frame.client
        self.drop(client)
        try:
            subscriptions = decode_subscriptions(frame.subscriptions)
        except RowsError:
            subscriptions = []
        known = self.is_known(client) or client in self.clients.mailboxes
        if known or len(self.by_client) >= self.most or len(subscriptions) != len(frame.subscriptions):
            self._say_lost(frame.from_broker, frame.copy, client)
            return
        sent = self.events.outbox.next_seq - 1
        shadow = Shadow(frame.copy, client, frame.user, frame.from_broker, subscriptions, sent)
        self.by_client[client] = shadow
        self.clients.receivers[client] = lambda event, hops: self._hold(shadow, event, hops)
        for filter in shadow.filters():
            self.clients.subscribers.setdefault(filter, {})[client] = None
            self.clients.interested(filter)
        shadow.credit = CREDIT
        self._want(shadow)

    def go_on(self) -> None:
        """Something changed that shadows may wait for: events have left, or the tree has settled."""
        for shadow in list(self.held_up.values()):
            self._want(shadow)

    def _want(self, shadow: Shadow) -> None:
        """As for any session (`arrival`): what was published or owed here before must be out of the way."""
        self.held_up[shadow.client] = shadow
        if not self.settling.settled or self.events.outbox.sent < shadow.sent:
            return
        if self.may_owe(shadow.owner):
            self.drop(shadow.client)
            return
        del self.held_up[shadow.client]
        shadow.asked = True
        self._say_wanted(shadow)

    def _say_wanted(self, shadow: Shadow) -> None:
        shadow.frames += 1
        to = shadow.owner
        self.passage.send(to, ShadowWanted(self.broker, to, shadow.id, shadow.client, shadow.credit))

    def _hold(self, shadow: Shadow, event: Event, hops: int) -> None:
        if event.reliable and event.qos:
            shadow.held.append((event, hops))
            shadow.held_bytes += size_of(event)
            self._count(shadow, size_of(event))

    def _count(self, shadow: Shadow, size: int) -> None:
        """A shadow is no larger than a session may be."""
        shadow.messages += 1
        shadow.bytes += size
        if shadow.messages > self.limits.queue_messages or shadow.bytes > self.limits.queue_bytes:
            self.drop(shadow.client)

    def on_rows(self, frame: ShadowRows) -> None:
        shadow = self._of(frame)
        if shadow is None or not shadow.asked or shadow.complete:
            return
        if frame.number != shadow.pages + 1:
            self.drop(shadow.client)
            return
        shadow.pages += 1
        shadow.frames += 1
        try:
            for row in frame.rows:
                shadow.tables.setdefault(row.table, {})[row.key] = decode(row, self.orders.now)
                self._count(shadow, len(row.value))
        except RowsError:
            self.drop(shadow.client)
        if self.by_client.get(shadow.client) is not shadow:
            return
        shadow.complete = frame.complete
        if not frame.complete and shadow.credit - shadow.pages <= CREDIT // 2:
            shadow.credit = shadow.pages + CREDIT
            self._say_wanted(shadow)

    def _of(self, frame: ShadowRows | ShadowLost) -> Shadow | None:
        shadow = self.by_client.get(frame.client)
        return shadow if shadow is not None and shadow.id == frame.copy else None

    # -- the client comes ----------------------------------------------------------------------------------------------

    def complete(self, client: ClientId, owner: BrokerId = "") -> Shadow | None:
        """The shadow of a client that has all its rows, of this owner or of any."""
        shadow = self.by_client.get(client)
        return shadow if shadow is not None and shadow.complete and owner in ("", shadow.owner) else None

    def claim(self, client: ClientId, owner: BrokerId) -> Shadow | None:
        """The owner says that the shadow holds: whoever calls is subscribed to the same from now on, and takes it over.
        None: it has gone meanwhile."""
        shadow = self.complete(client, owner)
        if shadow is not None:
            del self.by_client[client]
        return shadow

    # -- the end of shadows --------------------------------------------------------------------------------------------

    def drop(self, client: ClientId) -> None:
        """Keep nothing, and tell the owner."""
        shadow = self._forget(client)
        if shadow is not None:
            self._say_lost(shadow.owner, shadow.id, client)

    def _forget(self, client: ClientId) -> Shadow | None:
        shadow = self.by_client.pop(client, None)
        self.held_up.pop(client, None)
        if shadow is not None:
            self.had(shadow.owner, dict.fromkeys(event.id.origin for event, _ in shadow.held))
            del self.clients.receivers[client]
            for filter in shadow.filters():
                subscribers = self.clients.subscribers[filter]
                del subscribers[client]
                if not subscribers:
                    del self.clients.subscribers[filter]
                self.clients.uninterested(filter)
        return shadow

    def on_lost(self, frame: ShadowLost) -> None:
        """The owner says that it is void."""
        if self._of(frame) is not None:
            self._forget(frame.client)

    def tree_lost(self) -> None:
        for client in list(self.by_client):
            self._forget(client)

    def _say_lost(self, to: BrokerId, copy: Attempt, client: ClientId) -> None:
        self.passage.send(to, ShadowLost(self.broker, to, copy, client))
