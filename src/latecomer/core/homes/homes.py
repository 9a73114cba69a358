"""Clients that would be better at another broker: found in every update, proposed, and sent if that is wanted.

Theory of operation. Once per update a broker asks those of its cluster what their clients want (`profiles`), and then
looks at all of its own clients, a part at a time; besides, at a client whose subscriptions have changed, when they have
settled. What is found is proposed. With mode `move`, clients that follow references are sent, those that gain most
first, few at a time.

What others say is up to one update old and names what clients had there that came here meanwhile. So whoever has
connected since the last two updates is left alone; and so is, for longer, who was sent, came from elsewhere, or came
back: nobody is sent in circles. Two brokers never send clients to one another in the same update (`_turn`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from latecomer.core.homes.addresses import AddressBook
from latecomer.core.homes.judging import Better, Load, better_home, loads_of
from latecomer.core.homes.moving import BUSY, problem_of_going
from latecomer.core.homes.nearest import nearest
from latecomer.core.homes.profiles import AT_ONCE, Known, Profiles, number_of
from latecomer.core.homes.settings import HomesSettings
from latecomer.core.interest import Interest
from latecomer.core.membership import Membership
from latecomer.core.mobility.mobility import Mobility
from latecomer.core.orders import Orders
from latecomer.core.session.sessions import Sessions
from latecomer.core.session.state import Session
from latecomer.messages.homes import Profile, ProfileWanted
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Kind

NEW_UPDATES = 2
"""Updates for which a client is left alone that has just connected."""
PAUSE_US = 1_000
"""Between two parts of an update, for other work."""
SPREAD, SPREAD_US = 10, 100_000
"""So many clients are sent at a time, and so long after one another."""
PROPOSALS_MAX = 1_000
RESTING_MAX = 100_000


class Proposed(msgspec.Struct, frozen=True):
    """A client, and where it would be better."""

    client: ClientId
    better: Better


@dataclass(slots=True)
class Homes:
    """What one broker finds out about where its clients should be, and does about it."""

    broker: BrokerId
    orders: Orders
    settings: HomesSettings
    profiles: Profiles
    sessions: Sessions
    mobility: Mobility
    addresses: AddressBook
    interest: Interest
    membership: Membership
    update_due: Instant | None = None
    work: Iterator[Instant] | None = None
    """The update that is under way; it says when it wants to go on."""
    work_due: Instant | None = None
    changed: dict[ClientId, Instant] = field(default_factory=dict)
    """When clients are looked at whose subscriptions have changed, the next one first."""
    resting: dict[ClientId, Instant] = field(default_factory=dict)
    """Until when clients are left alone."""
    away: dict[ClientId, Instant] = field(default_factory=dict)
    """Clients that were sent, and when."""
    proposals: dict[ClientId, Proposed] = field(default_factory=dict)
    """Of the last update, those that gain most first."""
    wished: int = 0
    """Clients that would be better elsewhere, also those above the limit of proposals."""
    may_send: int = 0
    """Clients that may still be sent in this update."""
    similarity_mean: float | None = None
    """Of the clients here, at the last update; None: nobody was judged."""
    sent: int = 0
    returned: int = 0

    @property
    def on(self) -> bool:
        return self.settings.mode != "off"

    def start(self) -> None:
        if self.on:
            self.update_due = self.orders.wake(self.orders.now + self.settings.update_us)
            told, changed = self.sessions.subscribing.changed, self.subscriptions_changed

            def both(session: Session) -> None:
                told(session)
                changed(session)

            self.sessions.subscribing.changed = both
            self.mobility.came, self.mobility.served = self.came, self.served

    def frames(self) -> dict[type, Callable[[BrokerId, Any], None]]:
        return {ProfileWanted: self.profiles.on_wanted, Profile: self.profiles.on_profile}

    # -- what is known -------------------------------------------------------------------------------------------------

    def cluster(self) -> list[BrokerId]:
        """Where clients may be sent, as far as there is a way."""
        tree, settings = self.interest.tree, self.settings
        if tree is None:
            return []
        states = self.membership.link_states.states
        names = settings.cluster or nearest(states, self.broker, settings.nearest)
        return [name for name in names if name != self.broker and name in tree.parent]

    def open(self) -> dict[BrokerId, Known]:
        """Those that take new clients."""
        return {broker: known for broker, known in self.profiles.known.items() if self.addresses.takes_clients(broker)}

    def loads(self) -> dict[BrokerId, Load]:
        return loads_of(self.broker, self.profiles.counts(), self.profiles.known)

    def similarity_of(self, session: Session) -> float:
        """The share of a client's filters that somebody else here has."""
        subscribers = self.profiles.subscribers
        return sum(len(subscribers.get(filter, ())) > 1 for filter in session.wishes) / len(session.wishes)

    def _better(self, session: Session, similarity: float, loads: dict[BrokerId, Load]) -> Better | None:
        numbers, settings = self.profiles.numbers, self.settings
        wanted = [numbers.get(filter) or number_of(filter) for filter in session.wishes]
        return better_home(self.broker, similarity, wanted, self.open(), loads, settings.load_weight, settings.gain)

    def problem_of(self, session: Session, to: BrokerId) -> str:
        """Why a client is not sent to another broker now; empty: it may be."""
        now = self.orders.now
        until = self.resting.get(session.client, 0)
        until = max(until, session.connected_at + NEW_UPDATES * self.settings.update_us)
        if session.connection and now < until:
            return f"it is left alone for {-(-(until - now) // 1_000_000)} s"
        if problem := problem_of_going(session, self.mobility, self.settings.away_us):
            return problem
        if not session.follows:
            return "it does not say that it follows references"
        if not self.addresses.reference(session, to):
            return f"{to} tells no address for clients of {session.listener or 'this'} listeners"
        return self.mobility.wishes.problem_of_move(session.client, to)

    # -- updates -------------------------------------------------------------------------------------------------------

    def dues(self) -> tuple[Instant | None, ...]:
        return (self.update_due, self.work_due, next(iter(self.changed.values()), None))

    def woken(self) -> None:
        now = self.orders.now
        while self.changed and next(iter(self.changed.values())) <= now:
            client = next(iter(self.changed))
            del self.changed[client]
            self._look_at(client)
        if self.update_due is not None and self.update_due <= now:
            self.update_due = self.orders.wake(now + self.settings.update_us)
            if self.work is None:
                self.work, self.work_due = self._update(), now
        if self.work is not None and self.work_due is not None and self.work_due <= now:
            pause_us = next(self.work, None)
            self.work_due = None if pause_us is None else self.orders.wake(now + pause_us)
            self.work = None if pause_us is None else self.work

    def _update(self) -> Iterator[Instant]:
        """Ask the others, and when they have answered look at everybody here."""
        now, settings = self.orders.now, self.settings
        self.resting = {client: until for client, until in self.resting.items() if until > now}
        self.away = {client: at for client, at in self.away.items() if now - at < settings.rest_us}
        self.may_send = max(1, int(settings.share_max * len(self.sessions.by_connection)))
        for _ in self.profiles.gather():
            yield PAUSE_US
        self.profiles.ask(self.cluster())
        yield settings.settle_us
        found: list[Proposed] = []
        judged, similarities, loads = 0, 0.0, self.loads()
        for at, client in enumerate(list(self.sessions.by_client)):
            if at % AT_ONCE == AT_ONCE - 1:
                yield PAUSE_US
            session = self.sessions.by_client.get(client)
            if session is None or not session.connection or not session.wishes:
                continue
            similarity = self.similarity_of(session)
            judged, similarities = judged + 1, similarities + similarity
            better = self._better(session, similarity, loads)
            if better is not None:
                found.append(Proposed(client, better))
        self.similarity_mean = similarities / judged if judged else None
        found.sort(key=lambda one: (-one.better.gain, one.client))
        self._propose(found)
        yield from self._send_some(found)

    def _propose(self, found: list[Proposed]) -> None:
        before, self.wished = self.proposals, len(found)
        self.proposals = {one.client: one for one in found[:PROPOSALS_MAX]}
        for one in self.proposals.values():
            if one.client not in before or before[one.client].better.to != one.better.to:
                self._note(Kind.ADVISED, one)

    def _send_some(self, found: list[Proposed]) -> Iterator[Instant]:
        """Those that gain most first; to whom messages are under way, at a quiet moment of this update, if there is
        one."""
        sent, until = 0, self.orders.now + self.settings.update_us - self.settings.settle_us - SPREAD_US
        while found and self.settings.mode == "move":
            busy = []
            for one in found:
                if self.may_send < 1:
                    return
                session = self.sessions.by_client.get(one.client)
                if session is None or one.client in self.changed:
                    continue
                if self._send(session, one):
                    sent += 1
                    if sent % SPREAD == 0:
                        yield SPREAD_US
                elif self.problem_of(session, one.better.to) == BUSY:
                    busy.append(one)
            found = busy
            if self.orders.now >= until:
                return
            yield SPREAD_US

    def _look_at(self, client: ClientId) -> None:
        """The subscriptions of a client have settled."""
        session = self.sessions.by_client.get(client)
        if session is None or not session.connection or not session.wishes:
            return
        better = self._better(session, self.similarity_of(session), self.loads())
        if better is not None and self.settings.mode == "move" and self.may_send >= 1:
            self._send(session, Proposed(client, better))

    def _send(self, session: Session, one: Proposed) -> bool:
        """Have a client go to another broker, if it may; its session goes ahead of it."""
        client, to = one.client, one.better.to
        if not self._turn(to) or not self.addresses.takes_clients(to) or self.problem_of(session, to):
            return False
        self.may_send -= 1
        self.sent += 1
        self.away[client] = self.orders.now
        self._rest(client)
        self.proposals.pop(client, None)
        self._note(Kind.SENT_ON, one)
        self.mobility.wishes.move(client, to)
        return True

    def _turn(self, to: BrokerId) -> bool:
        """In one update clients go to brokers with larger names only, in the next to those with smaller ones: otherwise
        two brokers that have one client each for the same would swap them."""
        upwards = self.orders.now // self.settings.update_us % 2 == 0
        return (to > self.broker) == upwards

    def _note(self, kind: Kind, one: Proposed) -> None:
        better = one.better
        detail = f"similarity {better.similarity:.2f}, there {better.there:.2f}, gain {better.gain:.2f}"
        self.orders.note(kind, client=one.client, peer=better.to, detail=detail)

    def _rest(self, client: ClientId) -> None:
        self.resting.pop(client, None)
        if len(self.resting) >= RESTING_MAX:
            del self.resting[next(iter(self.resting))]
        self.resting[client] = self.orders.now + self.settings.rest_us

    # -- what happens to clients ---------------------------------------------------------------------------------------

    def subscriptions_changed(self, session: Session) -> None:
        client = session.client
        if self.sessions.by_client.get(client) is session and session.connection:
            self.changed.pop(client, None)
            self.changed[client] = self.orders.wake(self.orders.now + self.settings.settle_us)

    def came(self, session: Session) -> None:
        """A session has come from another broker."""
        self._rest(session.client)

    def served(self, session: Session) -> None:
        """A client has connected, perhaps one that was to go elsewhere."""
        if self.away.pop(session.client, None) is not None:
            self.returned += 1
            self._rest(session.client)
