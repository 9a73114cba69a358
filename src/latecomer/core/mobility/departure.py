"""The old broker's part of a hand-over.

    here ── ask(state) ──▶ leaving ── last page ──▶ promised ── taken yes ──▶ moved
      ◀──────── client back, ended, tree lost ──┘       └─ taken no ─▶ here

The session goes on collecting events until the other broker has it. The *cut* says which events the rows account for.
It is made when everything that was owed in this tree has arrived (`settling`). With the last page, when everything that
the client published here is done or parked, the *promise* is written to disk: from then on only the other broker can
say whose the session is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from latecomer.core.effects import Drop, Put
from latecomer.core.events import Events
from latecomer.core.mobility.copies import Copies, Copy, cut_of
from latecomer.core.mobility.on_device import digest_of
from latecomer.core.mobility.outlines import Outliner
from latecomer.core.mobility.rows import Pager, encode_row, encode_subscription
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.ring.flushes import Flushes
from latecomer.core.session.state import Session, Subscription
from latecomer.core.settling import Settling
from latecomer.messages.hand_over import (
    CREDIT_MAX,
    Ask,
    AskRefused,
    Attempt,
    Grant,
    Offer,
    Released,
    Row,
    Rows,
    Standing,
    Taken,
    Want,
)
from latecomer.model.ids import BrokerId, ClientId, Instant


class PromiseRow(msgspec.Struct, frozen=True, array_like=True):
    """A promise as it stands on disk."""

    attempt: Attempt
    upto: int
    """The newest delivery that the other broker has."""


@dataclass(slots=True)
class Departure:
    """A session on its way to another broker."""

    session: Session
    ask: Ask
    since: Instant
    """When the client connected to the other broker."""
    credit: int = 0
    subscribed: bool = False
    """The other broker has subscribed to what the session is subscribed to."""
    pager: Pager | None = None
    """None: the cut is not made yet."""
    cut: tuple[tuple[BrokerId, int, int], ...] = ()
    upto: int = 0
    pages: int = 0
    pending: dict[int, None] = field(default_factory=dict)
    """Events that the client published here and that are not done."""
    told: dict[str, Subscription] = field(default_factory=dict)
    """What the session was subscribed to when the other broker was told."""

    @property
    def to(self) -> BrokerId:
        return self.ask.from_broker


@dataclass(slots=True)
class Departures:
    """The sessions that leave this broker."""

    broker: BrokerId
    orders: Orders
    passage: Passage
    events: Events
    settling: Settling
    resume: Callable[[Session], None]
    """The session stays here after all."""
    patience_us: int
    most: int
    """Sessions on their way to others at once."""
    flushes: Flushes
    remove: Callable[[Session, PromiseRow], None] = field(init=False)
    """The other broker has it."""
    unsure: Callable[[ClientId], tuple[BrokerId, ...]] = field(init=False)
    """Brokers that may have an older session of the client."""
    copies: Copies = field(init=False)
    """Of sessions that stay here, at brokers to which their clients may come."""
    leaving: dict[ClientId, Departure] = field(default_factory=dict)
    held_up: dict[ClientId, Departure] = field(default_factory=dict)
    """Those that wait for the tree to settle, or for publications of their clients to be done."""
    lapsing: dict[ClientId, tuple[Instant, Session]] = field(default_factory=dict)
    """Sessions that somebody asked for, or whose clients were elsewhere, in a tree that is lost: wills and expiry wait
    a while for the next question."""
    promises: dict[ClientId, PromiseRow] = field(default_factory=dict)
    sessions: dict[ClientId, Session] = field(default_factory=dict)
    """Those that are promised."""
    granted: dict[ClientId, None] = field(default_factory=dict)
    """Those that were promised in this tree."""

    # -- asked -------------------------------------------------------------------------------------------------------

    def full(self, client: ClientId) -> bool:
        """Whether another session may not leave now."""
        return client not in self.leaving and len(self.leaving) >= self.most

    def standing(self, session: Session, ask: Ask) -> None:
        """Tell the other broker what it must subscribe to, and wait for it to ask for the rest; or send the rest at
        once, if it has subscribed to just that; or only the grant, if it has a copy of the session that holds."""
        self._give_up(session.client, "younger")
        session.suspended = True
        departure = Departure(session, ask, self.orders.now - ask.age_us, told=dict(session.subscriptions))
        self.leaving[session.client] = departure
        session.misses += session.guessed and ask.connected
        known = bool(ask.digest) and ask.digest == digest_of(departure.told.values())
        copy = self.copies.used(session, ask)
        to = ask.from_broker
        subscriptions = () if known else tuple(map(encode_subscription, departure.told.values()))
        now, row = self.orders.now, encode_row(session.row())
        away_us, age_us = max(0, now - session.away_since), max(0, now - session.connected_at)
        unsure = self.unsure(session.client)
        self.passage.send(
            to,
            Standing(
                self.broker,
                to,
                ask.attempt,
                ask.client,
                row,
                subscriptions,
                away_us,
                age_us,
                unsure,
                known,
                copy is not None,
            ),
        )
        if copy is not None:
            self._go_on_from(departure, copy)
        elif known:
            self.begin(ask)

    def _go_on_from(self, departure: Departure, copy: Copy) -> None:
        """The other broker has subscribed long ago, and has all rows up to the cut that was made then."""
        departure.subscribed = True
        departure.cut, departure.upto, departure.pager = copy.cut, copy.upto, copy.pager
        self._note_pending(departure)
        self._advance(departure)

    def begin(self, ask: Ask) -> bool:
        """The other broker has subscribed: send it everything, as soon as the cut can be made. False: it has to begin
        anew, since the client came back here meanwhile."""
        departure = self.leaving.get(ask.client)
        if departure is None or departure.ask.attempt != ask.attempt:
            return False
        departure.credit = min(ask.credit, CREDIT_MAX)
        self.flushes.behind(ask.from_broker, lambda: self._subscribed(departure))
        return True

    def _subscribed(self, departure: Departure) -> None:
        """Whatever the other broker does not get by itself has arrived."""
        if self.leaving.get(departure.session.client) is departure:
            departure.subscribed = True
            self._advance(departure)

    def on_want(self, frame: Want) -> None:
        departure = self.leaving.get(frame.client)
        if departure is not None and departure.ask.attempt == frame.attempt:
            departure.credit = max(departure.credit, min(frame.credit, departure.pages + CREDIT_MAX))
            if departure.pager is not None:
                departure.pager.answered(frame.answered, frame.lacking)
            self._advance(departure)

    def go_on(self) -> None:
        """Something changed that departures may wait for: the tree settled, or an event is done."""
        for departure in list(self.held_up.values()):
            self._advance(departure)

    def _advance(self, departure: Departure) -> None:
        client = departure.session.client
        self.held_up.pop(client, None)
        if not departure.subscribed:
            return
        if departure.pager is None:
            if not self.settling.settled:
                self.held_up[client] = departure
                return
            self._cut(departure)
        pager = departure.pager
        assert pager is not None
        while not pager.empty and departure.pages < departure.credit:
            departure.pages += 1
            rows = pager.page(self.orders.now, departure.pages)
            self._send(departure, departure.pages, rows)
        if not pager.empty or pager.unanswered:
            return
        if self._unfinished(departure):
            self.held_up[client] = departure
        else:
            self._promise(departure)

    def _unfinished(self, departure: Departure) -> bool:
        """Whether something that the client published here is under way: at its new broker it may publish more, and
        nobody may get that first. What is kept for brokers that are away is not waited for."""
        outbox = self.events.outbox
        pending = [seq for seq in departure.pending if seq in outbox.entries and seq not in outbox.parked]
        departure.pending = dict.fromkeys(pending)
        return bool(pending)

    def _promise(self, departure: Departure) -> None:
        """From here on only the other broker can say whose the session is."""
        session, attempt = departure.session, departure.ask.attempt
        client = session.client
        del self.leaving[client]
        self._keep_promise(session, PromiseRow(attempt, departure.upto))
        self.granted[client] = None
        self.orders.writes.append(Put("promised", "", client, self.promises[client]))
        forgot = session.given is not None and not session.given.whole
        self._send(departure, departure.pages + 1, (), Grant(departure.cut, departure.upto, forgot))

    def _send(self, departure: Departure, number: int, rows: tuple[Row, ...], grant: Grant | None = None) -> None:
        to, ask, pager = departure.to, departure.ask, departure.pager
        outline = b"" if grant is not None or pager is None or pager.outliner is None else pager.outliner.encoded()
        self.passage.send(to, Rows(self.broker, to, ask.attempt, ask.client, number, rows, grant, outline))

    def _keep_promise(self, session: Session, row: PromiseRow) -> None:
        self.promises[session.client] = row
        self.sessions[session.client] = session

    def _cut(self, departure: Departure) -> None:
        """Note what the rows account for."""
        session = departure.session
        departure.cut = cut_of(self.broker, self.events, session)
        departure.upto = session.number
        departure.pager = Pager(session, Outliner(session, departure.told) if departure.ask.outline else None)
        self._note_pending(departure)

    def _note_pending(self, departure: Departure) -> None:
        session, outbox = departure.session, self.events.outbox
        departure.pending = {
            seq: None
            for seq, entry in outbox.entries.items()
            if entry.event.publisher == session.client and seq not in outbox.parked
        }

    def stays(self, client: ClientId) -> bool:
        """Whether what is added to a session now goes with it, if it moves."""
        return client not in self.leaving and client not in self.promises

    # -- given up ----------------------------------------------------------------------------------------------------

    def came_back(self, client: ClientId, *, clean: bool) -> None:
        """The client is here again. It was on its way all the time, so its will is not due, and its session has not
        expired; unless it begins anew, which ends the session."""
        leaving, lapsing = self.leaving.get(client), self.lapsing.get(client)
        session = leaving.session if leaving is not None else lapsing[1] if lapsing is not None else None
        if session is not None and not clean:
            session.will, session.will_due, session.away_since = None, None, self.orders.now
        self.cancel(client, "younger" if clean else "back")

    def cancel(self, client: ClientId, why: str) -> None:
        """The session stays: its client is back, or somebody else takes it, or it has ended."""
        self._give_up(client, why)
        self._resume_lapsing(client)

    def _give_up(self, client: ClientId, why: str) -> None:
        departure = self.leaving.pop(client, None)
        self.held_up.pop(client, None)
        if departure is not None:
            to, attempt = departure.to, departure.ask.attempt
            self.passage.send(to, AskRefused(self.broker, to, attempt, client, why))
            self._stays_here(departure.session)

    def _stays_here(self, session: Session) -> None:
        """Nobody has taken the session. If a tree was lost before, its client still has what is left of its time."""
        if session.client not in self.lapsing:
            self.resume(session)

    def tree_lost(self) -> None:
        """Whoever asked will ask again, in another tree. A promise stands."""
        leaving, self.leaving = self.leaving, {}
        self.held_up.clear()
        self.granted.clear()
        for departure in leaving.values():
            self.lapse(departure.session)

    def lapse(self, session: Session) -> None:
        """A suspended session stays so for a while, until its client, or another broker, asks for it again."""
        self.lapsing[session.client] = (self.orders.wake(self.orders.now + self.patience_us), session)

    def _resume_lapsing(self, client: ClientId) -> None:
        lapsing = self.lapsing.pop(client, None)
        if lapsing is not None:
            self.resume(lapsing[1])

    def woken(self) -> None:
        for client in [client for client, (due, _) in self.lapsing.items() if due <= self.orders.now]:
            if client in self.leaving or client in self.promises:
                del self.lapsing[client]
            else:
                self._resume_lapsing(client)

    # -- promised ----------------------------------------------------------------------------------------------------

    def recover(self, session: Session, row: PromiseRow) -> None:
        """Find a promise on disk."""
        session.suspended = True
        self._keep_promise(session, row)

    def tree_ready(self) -> None:
        for client in self.promises:
            self.offer(client)

    def offer(self, client: ClientId) -> bool:
        """Ask the broker that was promised a session whether it has taken it; False: it is not there."""
        attempt = self.promises[client].attempt
        return self.passage.send(attempt.broker, Offer(self.broker, attempt.broker, attempt, client))

    def on_taken(self, frame: Taken) -> bool | None:
        """The other broker has taken a session, or has not; None: that is no news."""
        departure = self.leaving.get(frame.client)
        if departure is not None and departure.ask.attempt == frame.attempt and not frame.yes:
            del self.leaving[frame.client]
            self.held_up.pop(frame.client, None)
            self._stays_here(departure.session)
            return None
        row = self.promises.get(frame.client)
        known = row is not None and row.attempt == frame.attempt
        if frame.yes:
            if known:
                assert row is not None
                self.lapsing.pop(frame.client, None)
                self.remove(self._let_go(frame.client), row)
            self.passage.send(frame.from_broker, Released(self.broker, frame.from_broker, frame.attempt))
        elif known:
            self.release(frame.client)
        return frame.yes if known else None

    def release(self, client: ClientId) -> None:
        """The session is ours again: the other broker has not taken it, or will not come back."""
        self._stays_here(self._let_go(client))

    def _let_go(self, client: ClientId) -> Session:
        del self.promises[client]
        self.granted.pop(client, None)
        self.orders.writes.append(Drop("promised", "", client))
        return self.sessions.pop(client)

    def ended(self, client: ClientId) -> None:
        """The session has ended here."""
        self.lapsing.pop(client, None)
        self.cancel(client, "unknown")
        if client in self.promises:
            self._let_go(client)
