"""Leftovers: what waited for a client in a session that ended because the client went on with a new one elsewhere.

The old broker keeps them, on disk, in the place of the session, until the new one has them on its disk; a page at a
time, each asked for with the number of the last row that is safe. Before the first question the new broker makes up a
*mark* and writes it to its disk, later with that number; both travel with the session. So a page that comes again,
because something was lost or the session has moved on, is recognised.

    new broker   ─ end ─▶                    ─ wanted, up to 0 ─▶             ─ wanted, up to 9 ─▶
    old broker            ◀─ there are some ─                   ◀─ rows 1–9 ─                     ◀─ nothing more ─

A row is delivered if the session's subscriptions want it and it was not given yet (`session/given`). QoS 2 at most
once: what may have been sent on the old connection is dropped when the session ends; and if somebody asks with another
mark, another session may have taken what was sent, so that is dropped too. A row of QoS 2 waits, and those behind it,
while its origin is away and this broker has not had the event: the origin may still send it to this broker too, and the
session recognises the row only if the event came first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from latecomer.core.clients import Disk
from latecomer.core.effects import Drop, Put
from latecomer.core.events import Events
from latecomer.core.mobility import rows as pages
from latecomer.core.mobility.rows import PAGE_BYTES, RowsError, decode, queue_row
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.ring.flushes import Flushes
from latecomer.core.session.limits import NEVER_S
from latecomer.core.session.sessions import Sessions
from latecomer.core.session.state import HISTORY_END, Parcel, Session
from latecomer.core.settling import Settling
from latecomer.messages.hand_over import Attempt, Leftovers, LeftoversWanted, Row
from latecomer.model.event import Event
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Kind

SECOND_US = 1_000_000


class LeftoverRow(msgspec.Struct, frozen=True, array_like=True):
    """What stands on disk beside the deliveries themselves."""

    user: str
    mark: str = ""
    """Of the session that takes them."""
    offered: int = 0
    """Rows up to here were sent to somebody."""
    ends_at: int = 0
    """When the session would have expired; 0: never."""
    unsure: tuple[str, ...] = ()
    """Brokers that may have a session that is older still."""


@dataclass(slots=True)
class Kept:
    """The leftovers of one client."""

    row: LeftoverRow
    parcels: dict[int, Parcel] = field(default_factory=dict)
    number: int = 0
    behind: int = 0
    """What this broker's own clients published up to this event must have left before: it comes to the new session by
    itself, and is recognised only if it comes first."""


@dataclass(slots=True)
class LeftoverKeeper:
    """Leftovers that this broker has, and those that it is given."""

    broker: BrokerId
    orders: Orders
    passage: Passage
    sessions: Sessions
    settling: Settling
    events: Events
    may_change: Callable[[ClientId], bool]
    """Whether something may be added to a session: not while it is on its way to another broker."""
    changes: Callable[[ClientId], None]
    """Something is added to a session: copies of it at other brokers are void, since they do not get it."""
    flushes: Flushes
    expect: Callable[[Session, BrokerId], bool] = field(init=False)
    """A broker has leftovers for a session; False: they are not wanted."""
    more_doubts: Callable[[Session, tuple[BrokerId, ...]], None] = field(init=False)
    """These brokers may have a session that is older still."""
    done: Callable[[Session, BrokerId], None] = field(init=False)
    """A broker has nothing of a session any more."""
    kept: dict[ClientId, Kept] = field(default_factory=dict)
    awaited: dict[ClientId, BrokerId] = field(default_factory=dict)
    """Origins that are away, and without which the next row cannot be delivered to a session here."""
    marks: int = 0
    """Made up in this life."""
    delivered: int = 0
    """Deliveries that came late."""

    # -- the old broker ------------------------------------------------------------------------------------------------

    def keep(self, session: Session, unsure: tuple[BrokerId, ...]) -> None:
        """A session is about to end: what waits in it is left over, but for groups, whose other members get it."""
        client, now = session.client, self.orders.now
        kept = self.kept.get(client)
        if kept is None or kept.row.user != session.user:
            self._erase(client)
            kept = Kept(LeftoverRow(session.user))
        for number, parcel in session.queue.items():
            if parcel is None or parcel.share is not None or parcel.event.topic == HISTORY_END:
                continue
            if parcel.qos == 2 and number <= max(session.sent, session.recovered):
                self._dropped(session, parcel, "may have been sent before its session ended")
                continue
            kept.number += 1
            kept.parcels[kept.number] = parcel
            self.orders.writes.append(Put("leftovers", client, kept.number, parcel))
        ends_at = 0 if session.expiry_s == NEVER_S else now + session.expiry_s * SECOND_US
        if kept.parcels or unsure:
            self.kept[client] = kept
            kept.behind = self.events.outbox.next_seq - 1
            self._write(client, replace(kept.row, ends_at=ends_at, unsure=unsure))

    def announce(self, to: BrokerId, client: ClientId) -> None:
        """Tell a broker whether there is something for a session of it."""
        kept = self.kept.get(client)
        if kept is None:
            self.passage.send(to, Leftovers(self.broker, to, client, last=True))
        else:
            unsure = tuple(other for other in kept.row.unsure if other != to)
            self.passage.send(to, Leftovers(self.broker, to, client, unsure=unsure))

    def has(self, client: ClientId, user: str) -> bool:
        return self._of(client, user) is not None

    def on_wanted(self, frame: LeftoversWanted) -> None:
        client, to = frame.client, frame.from_broker
        kept = self._of(client, frame.user)
        if kept is None or frame.discard:
            self._erase(client if kept is not None else "")
            self.passage.send(to, Leftovers(self.broker, to, client, frame.mark, last=True))
            return
        if self.events.outbox.sent < kept.behind:
            return  # it is asked for again
        if frame.mark != kept.row.mark:
            self._claim(client, kept, frame.mark)
        page = self._next(client, kept, frame.upto)
        self.passage.send(to, Leftovers(self.broker, to, client, frame.mark, page, last=not page))

    def _claim(self, client: ClientId, kept: Kept, mark: str) -> None:
        """Another session asks than before: that one may have what was sent."""
        for number, parcel in list(kept.parcels.items()):
            if number <= kept.row.offered and parcel.qos == 2:
                self._drop(client, kept, number)
                self.orders.note(
                    Kind.DROPPED,
                    client=client,
                    topic=parcel.event.topic,
                    event=str(parcel.event.id),
                    detail="left over, and another session may have it",
                )
        self._write(client, replace(kept.row, mark=mark, offered=0))

    def _of(self, client: ClientId, user: str) -> Kept | None:
        kept = self.kept.get(client)
        if kept is not None and 0 < kept.row.ends_at <= self.orders.now:
            self._erase(client)
            kept = None
        return kept if kept is not None and kept.row.user == user else None

    def _next(self, client: ClientId, kept: Kept, safe: int) -> tuple[Row, ...]:
        """The rows behind those that are safe."""
        for number in [number for number in kept.parcels if number <= safe]:
            self._drop(client, kept, number)
        page: list[Row] = []
        size = 0
        for number, parcel in kept.parcels.items():
            if len(page) >= pages.PAGE_ROWS or size >= PAGE_BYTES:
                break
            page.append(queue_row(number, parcel, self.orders.now))
            size += len(page[-1].value)
        if not page:
            self._erase(client)
        elif int(page[-1].key) > kept.row.offered:
            self._write(client, replace(kept.row, offered=int(page[-1].key)))
        return tuple(page)

    def _drop(self, client: ClientId, kept: Kept, number: int) -> None:
        del kept.parcels[number]
        self.orders.writes.append(Drop("leftovers", client, number))

    def _write(self, client: ClientId, row: LeftoverRow) -> None:
        self.kept[client].row = row
        self.orders.writes.append(Put("leftover", "", client, row))

    def _erase(self, client: ClientId) -> None:
        kept = self.kept.pop(client, None)
        if kept is not None:
            self.orders.writes += [Drop("leftovers", client, number) for number in kept.parcels]
            self.orders.writes.append(Drop("leftover", "", client))

    # -- the new broker ------------------------------------------------------------------------------------------------

    def on_leftovers(self, frame: Leftovers) -> None:
        """Rows come behind events that this broker gets by itself, whatever ways those take."""
        if frame.rows:
            self.flushes.behind(frame.from_broker, lambda: self._on_leftovers(frame))
        else:
            self._on_leftovers(frame)

    def _on_leftovers(self, frame: Leftovers) -> None:
        client, owner = frame.client, frame.from_broker
        session = self.sessions.by_client.get(client)
        if session is None:
            return  # whoever has it asks
        if frame.last:
            self._forget_progress(session, owner)
            self.done(session, owner)
        elif not self.expect(session, owner):
            self.passage.send(owner, LeftoversWanted(self.broker, owner, client, session.user, discard=True))
        elif self.may_change(client) and self.settling.settled:
            if frame.unsure:
                self.more_doubts(session, frame.unsure)
            if self._awaits(client):
                return  # it is asked for again
            if not frame.rows or self._take(session, owner, frame.mark, frame.rows):
                mark, upto = self._mark(session, owner)
                self.passage.send(owner, LeftoversWanted(self.broker, owner, client, session.user, mark, upto))

    def _mark(self, session: Session, owner: BrokerId) -> tuple[str, int]:
        """How far the leftovers at a broker have come, and the mark under which they are asked for."""
        if owner not in session.late:
            self.marks += 1
            self._progress(session, owner, (str(Attempt(self.broker, self.orders.boot, self.marks)), 0))
        return session.late[owner]

    def _progress(self, session: Session, owner: BrokerId, taken: tuple[str, int]) -> None:
        session.late[owner] = taken
        self.orders.writes.append(Put("late", session.client, owner, taken))

    def _take(self, session: Session, owner: BrokerId, mark: str, page: tuple[Row, ...]) -> bool:
        """Deliver a page; False: it is not for this session, or came before, or cannot be read, or a row must wait."""
        known, upto = self._mark(session, owner)
        if known != mark or int(page[-1].key) <= upto:
            return False
        try:
            found = [(int(row.key), decode(row, self.orders.now)) for row in page if row.table == "queue"]
        except RowsError as error:
            self.orders.note(Kind.DROPPED, client=session.client, peer=owner, detail=f"leftovers: {error}")
            return False
        self.changes(session.client)
        self.awaited.pop(session.client, None)
        for number, parcel in found:
            if number > upto and isinstance(parcel, Parcel):
                if not self._deliver(session, parcel):
                    break
                upto = number
        self._progress(session, owner, (mark, upto))
        return session.client not in self.awaited

    def _may_come(self, event: Event) -> bool:
        """Whether the origin of an event may still send it to this broker, which would not recognise it."""
        origin = event.id.origin
        if origin == self.broker or self.events.seen.has(event):
            return False
        return not self.settling.settled or origin in self.events.membership.link_states.absent_since

    def _awaits(self, client: ClientId) -> bool:
        """Whether the next row waits for an origin that is away."""
        if self.awaited.get(client) in self.events.membership.link_states.absent_since:
            return True
        self.awaited.pop(client, None)
        return False

    def _deliver(self, session: Session, parcel: Parcel) -> bool:
        """One delivery that comes late, if it is wanted still, and new; False: it must wait."""
        deliveries, given, event = self.sessions.deliveries, session.given, parcel.event
        assert given is not None
        if event.id in given.ids:
            return True
        grade = deliveries.grade_of(session, event)
        qos = 0 if grade is None else min(grade.qos, event.qos)
        if 0 < event.expires_us <= self.orders.now:
            self._dropped(session, parcel, "expired")
        elif grade is None or not qos:
            self._dropped(session, parcel, "left over, and no longer subscribed to")
        elif qos == 2 and not given.whole:
            self._dropped(session, parcel, "left over, and may have been given before")
        elif qos == 2 and self._may_come(event):
            self.awaited[session.client] = event.id.origin
            return False
        else:
            self.delivered += 1
            deliveries.hand(session, Parcel(event, qos, False, grade.ids, parcel.past, late=True), -1)
        return True

    def _forget_progress(self, session: Session, owner: BrokerId) -> None:
        if session.late.pop(owner, None) is not None:
            self.orders.writes.append(Drop("late", session.client, owner))

    def at_home(self, session: Session) -> bool:
        """The session has come to the broker that has its leftovers; False: some must wait."""
        kept, me = self._of(session.client, session.user), self.broker
        if kept is None:
            return True
        if session.given is None:
            self._erase(session.client)
            return True
        if kept.row.unsure:
            self.more_doubts(session, kept.row.unsure)
        mark, _ = self._mark(session, me)
        if mark != kept.row.mark:
            self._claim(session.client, kept, mark)
        while page := self._next(session.client, kept, session.late[me][1]):
            self._take(session, me, mark, page)
            if session.client in self.awaited:
                return False
        self._forget_progress(session, me)
        return True

    def _dropped(self, session: Session, parcel: Parcel, why: str) -> None:
        self.sessions.deliveries.dropped(session, parcel.event, why)

    # -- time and disk -------------------------------------------------------------------------------------------------

    def due(self) -> Instant | None:
        if not self.kept:
            return None
        return min((kept.row.ends_at for kept in self.kept.values() if kept.row.ends_at), default=None)

    def woken(self) -> None:
        for client, kept in list(self.kept.items()):
            if 0 < kept.row.ends_at <= self.orders.now:
                self._erase(client)

    def recover(self, disk: Disk) -> None:
        rows = disk.get("leftovers", {})
        for client, row in disk.get("leftover", {}).get("", {}).items():
            assert isinstance(row, LeftoverRow)
            kept = self.kept[str(client)] = Kept(row, behind=self.events.outbox.next_seq - 1)
            for number in sorted(rows.get(str(client), {}), key=int):
                parcel = rows[str(client)][number]
                assert isinstance(parcel, Parcel)
                kept.parcels[int(number)] = parcel
                kept.number = int(number)
            kept.number = max(kept.number, row.offered)
