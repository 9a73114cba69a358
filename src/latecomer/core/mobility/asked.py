"""What other brokers ask of this one: whether it has a session, and to hand it over."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.core.membership import Membership
from latecomer.core.mobility.arrival import Arrival, Arrivals
from latecomer.core.mobility.departure import Departures
from latecomer.core.mobility.going_on import GoingOn
from latecomer.core.mobility.leftovers import LeftoverKeeper
from latecomer.core.mobility.whereabouts import Directory
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.session.sessions import Sessions
from latecomer.core.session.state import Session
from latecomer.messages.hand_over import Ask, AskRefused, Here, Seeker
from latecomer.model.ids import BrokerId, ClientId

SAME_US = 1_000_000
"""Connections to two brokers that are no further apart count as made at the same time: then the broker's name decides
which of them stays, since how long the question was under way is not known."""


@dataclass(slots=True)
class Asked:
    """Answers to other brokers."""

    broker: BrokerId
    orders: Orders
    membership: Membership
    passage: Passage
    sessions: Sessions
    arrivals: Arrivals
    departures: Departures
    directory: Directory
    pointers_max: int
    going_on: GoingOn
    leftovers: LeftoverKeeper
    younger_at: Callable[[Session], BrokerId] = field(init=False)
    """The broker because of whose session one is about to end here; empty: none."""
    taken_over: Callable[[Arrival], None] = field(init=False)
    """A younger connection of the client is elsewhere: whoever waits here is told."""
    attach: Callable[[Session, Ask], None] = field(init=False)
    """The session stays: serve its client through the broker that asks."""
    pointers: OrderedDict[ClientId, BrokerId] = field(default_factory=OrderedDict)
    """Where sessions went that left here."""
    deferred: dict[ClientId, Ask] = field(default_factory=dict)
    """Questions that wait for the word of the broker which was promised the session."""

    def left(self, client: ClientId, to: BrokerId) -> None:
        self.pointers[client] = to
        self.pointers.move_to_end(client)
        while len(self.pointers) > self.pointers_max:
            self.pointers.popitem(last=False)

    def forget(self, brokers: list[BrokerId]) -> None:
        """These brokers will not come back."""
        for client in [client for client, to in self.pointers.items() if to in brokers]:
            del self.pointers[client]

    def moved_to(self, client: ClientId) -> BrokerId:
        """The broker to which a session was promised, or went; empty: none."""
        promise = self.departures.promises.get(client)
        if promise is not None:
            return promise.attempt.broker
        return "" if client in self.sessions.by_client else self.pointers.get(client, "")

    # -- who has it? -------------------------------------------------------------------------------------------------

    def answer(self, asker: BrokerId, seeker: Seeker) -> None:
        """Tell a broker what this one knows of a session."""
        client = seeker.client
        if seeker.ends and self.leftovers.has(client, seeker.user):
            self.leftovers.announce(asker, client)
        waiting = self.arrivals.by_client.get(client)
        if waiting is not None and waiting.user == seeker.user:
            if not self._is_younger(waiting, asker, seeker):
                self.taken_over(waiting)
            elif seeker.ends and client not in self.departures.promises:
                return  # the client waits here for that very session
            elif not seeker.ends:
                self._here(asker, seeker, refusal="younger")
                return
        session = self.sessions.at_home(client)
        promise = self.departures.promises.get(client)
        if session is None:
            if not seeker.ends:
                self._point(asker, seeker)
        elif session.user != seeker.user:
            self._here(asker, seeker, refusal="user")
        elif not seeker.ends and (elsewhere := self.younger_at(session)):
            self._here(asker, seeker, elsewhere)
        elif promise is not None and not seeker.ends:
            to = promise.attempt.broker
            self._here(asker, seeker, self.broker if to == asker else to, promised=to != asker)
        else:
            self._here(asker, seeker, self.broker, session)

    def _point(self, asker: BrokerId, seeker: Seeker) -> None:
        """Where it went, and where it is remembered to be, if that broker is away: what went may have gone on."""
        client = seeker.client
        owner = self.directory.owners.get(client)
        if client in self.pointers:
            self._here(asker, seeker, self.pointers[client])
        if owner is not None and owner in self.membership.link_states.absent_since:
            refusal = "user" if self.going_on.of_another(client, seeker.user) else ""
            self._here(asker, seeker, owner, refusal=refusal)
        known = self.going_on.remembered(asker, client, seeker.user, go_on=seeker.go_on)
        if known is not None:
            self.passage.send(asker, known)

    def _is_younger(self, arrival: Arrival, asker: BrokerId, seeker: Seeker) -> bool:
        """Whether the client connected here after it connected to another broker."""
        own_us, age_us = self.orders.now - arrival.since, seeker.age_us
        if arrival.fact is None:
            return False
        if seeker.ends:  # it is served there already
            return own_us < age_us
        return self.broker > asker if abs(own_us - age_us) < SAME_US else own_us < age_us

    def _here(
        self,
        to: BrokerId,
        seeker: Seeker,
        owner: BrokerId = "",
        session: Session | None = None,
        refusal: str = "",
        promised: bool = False,
    ) -> None:
        age_us, connected, stamp = 0, False, 0
        if session is not None:
            stamp, connected = session.connected_at, session.connection != 0
            age_us = max(0, self.orders.now - stamp)
        self.passage.send(
            to,
            Here(
                self.broker,
                to,
                seeker.client,
                owner or self.broker,
                age_us,
                refusal,
                connected,
                stamp,
                seeker.user,
                ends=seeker.ends,
                promised=promised,
            ),
        )

    # -- hand it over ------------------------------------------------------------------------------------------------

    def on_ask(self, frame: Ask) -> None:
        if frame.state and not frame.digest:
            if not self.departures.begin(frame):
                self.refuse(frame, "unknown")
            return
        client = frame.client
        session = self.sessions.at_home(client)
        promise = self.departures.promises.get(client)
        if session is None:
            self.refuse(frame, "unknown", self.pointers.get(client, ""))
        elif session.user != frame.user:
            self.refuse(frame, "user")
        elif elsewhere := self.younger_at(session):
            self.refuse(frame, "unknown", elsewhere)
        elif promise is not None:
            if promise.attempt.broker == frame.from_broker:
                self.deferred[client] = frame  # it has not taken it, or has and must say so first
                self.departures.offer(client)
            else:
                self.refuse(frame, "unknown", promise.attempt.broker)
        elif not self._may_leave(session, frame):
            self.refuse(frame, "younger")
        elif frame.connect is not None:
            self.attach(session, frame)
        elif self.departures.full(client):
            self.refuse(frame, "busy")
        else:
            if session.connection:
                self.sessions.take_over(session)
            if self.sessions.by_client.get(client) is session:
                self.departures.standing(session, frame)
            else:
                self.refuse(frame, "ended")  # it was to end with its connection

    def _may_leave(self, session: Session, frame: Ask) -> bool:
        """The younger connection wins; a session whose client is back stays, if nobody waits for it elsewhere."""
        now = self.orders.now
        if session.connection:
            return frame.connected and now - session.connected_at >= frame.age_us
        departure = self.departures.leaving.get(session.client)
        if departure is None or not departure.ask.connected:
            return True
        return frame.connected and departure.since <= now - frame.age_us

    def refuse(self, frame: Ask, why: str, owner: BrokerId = "") -> None:
        to = frame.from_broker
        self.passage.send(to, AskRefused(self.broker, to, frame.attempt, frame.client, why, owner))
