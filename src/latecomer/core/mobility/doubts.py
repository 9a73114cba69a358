"""Clients that may have two sessions: the older one must end.

A client that began anew here may have an older session elsewhere. Those that are there are asked at once (`seek`), and
again in the next tree until all have answered; those that are away, when they are back. Of two sessions, one whose
client is connected stays; else the one to which it connected last, and if that cannot be told, the one whose broker
asked. The broker of the session that stays tells the other which one is to end, by its stamp: a frame that was long
under way cannot end a session that began later, and nobody ends its own before the other has said that it has one.

What waits in the session that ends comes later (`leftovers`), unless the client asked for a clean start. For that the
older session must have got everything that it was owed: its broker has settled in this tree, and no broker is away that
may have something for it alone (`apart`). Until all of it has come, the doubt stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.core.clients import Disk
from latecomer.core.effects import Drop, Put
from latecomer.core.interest import Interest
from latecomer.core.membership import Membership
from latecomer.core.mobility.leftovers import LeftoverKeeper
from latecomer.core.mobility.seek import Seeking
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.session.sessions import Sessions
from latecomer.core.session.state import Session
from latecomer.messages.hand_over import End, Here, Seeker
from latecomer.messages.mqtt import Reason
from latecomer.model.ids import BrokerId, ClientId, Instant

EVERYBODY = "*"
"""Stands for brokers that nobody has heard of yet."""
THERE = "."
"""Stands for those that were there when the session began."""
RETRY_US = 1_000_000
"""If nothing is heard of an older session, or of what is left of it, for so long, its broker is asked again."""


@dataclass(slots=True)
class Doubts:
    """The sessions in doubt, and the brokers because of which they are."""

    broker: BrokerId
    orders: Orders
    interest: Interest
    membership: Membership
    passage: Passage
    sessions: Sessions
    seeking: Seeking
    unsure: dict[ClientId, tuple[BrokerId, ...]] = field(default_factory=dict)
    stored: dict[ClientId, None] = field(default_factory=dict)
    """Those that stand on disk."""
    waves: dict[ClientId, int] = field(default_factory=dict)
    """Questions under way: all answers have come when this fence has passed."""
    asked_at: dict[ClientId, Instant] = field(default_factory=dict)
    """When they were asked."""
    sought: dict[ClientId, Instant] = field(default_factory=dict)
    """The same, of questions to everybody."""
    doomed: dict[ClientId, End] = field(default_factory=dict)
    """Sessions that end as soon as everything has arrived that this broker was owed in this tree."""
    moved_to: Callable[[ClientId], BrokerId] = field(init=False)
    """The broker to which a session was promised, or went; empty: none."""
    leftovers: LeftoverKeeper = field(init=False)
    may_owe: Callable[[BrokerId], BrokerId | None] = field(init=False)
    """A broker that is away and may have events for another broker alone (`apart`)."""
    resolved: Callable[[Session], None] = field(init=False)
    """An older session has ended, or there was none: whoever remembers where this one is may have been told of both."""
    pending: dict[ClientId, dict[BrokerId, Instant]] = field(default_factory=dict)
    """Brokers that have an older session, or leftovers of one, and when something was heard of it last."""
    ending: dict[ClientId, dict[BrokerId, tuple[Instant, bool]]] = field(default_factory=dict)
    """The brokers that were told in this tree to end their sessions, the stamps of these, and whether they are
    certainly older. They may do so much later, when they have settled."""
    told: dict[ClientId, tuple[BrokerId, ...]] = field(default_factory=dict)
    """Of sessions on their way to another broker, the brokers because of which that doubts them."""
    due: Instant | None = None
    """When brokers are asked again."""

    @property
    def idle(self) -> bool:
        """Whether nobody who is there is to be asked."""
        return not any(self._is_back(broker) for brokers in self.unsure.values() for broker in brokers)

    def began(self, session: Session, *, asked: bool) -> None:
        """A session is new; `asked`: those who are there have no older one."""
        away = tuple(self.membership.link_states.absent_since)
        unheard = (EVERYBODY,) if self.membership.uncharted else ()
        # Without a tree that is ready nobody is there: whoever was may be away in the next one.
        there = () if asked else (THERE,) if self.interest.ready else self._named(())
        self.put(session, tuple(dict.fromkeys((*there, *away, *unheard))))

    def put(self, session: Session, brokers: tuple[BrokerId, ...]) -> None:
        """Doubt a session because of these brokers, and no others."""
        self.waves.pop(session.client, None)
        self._keep(session.client, brokers, stored=session.durable)
        if self.interest.ready:
            self._ask(session.client, brokers)

    def tell(self, client: ClientId) -> tuple[BrokerId, ...]:
        """What another broker has to know of a session that goes there."""
        self.told[client] = self.unsure.get(client, ())
        return self.told[client]

    def gone(self, session: Session, to: BrokerId) -> None:
        """A session has gone to another broker, which has to know of doubts that came up on the way, too."""
        told = (to, THERE, EVERYBODY, *self.told.get(session.client, ()))
        for broker in self.unsure.get(session.client, ()):
            if broker not in told:
                self.passage.send(to, Here(self.broker, to, session.client, broker, user=session.user, ends=True))

    def drop(self, client: ClientId) -> None:
        self.told.pop(client, None)
        self.leftovers.awaited.pop(client, None)
        self.waves.pop(client, None)
        self.sought.pop(client, None)
        self.ending.pop(client, None)
        self.pending.pop(client, None)
        self.asked_at.pop(client, None)
        self._keep(client, ())

    def _keep(self, client: ClientId, brokers: tuple[BrokerId, ...], *, stored: bool = False) -> None:
        if brokers:
            self.unsure[client] = brokers
            if stored:
                self.stored[client] = None
                self.orders.writes.append(Put("unsure", "", client, brokers))
        else:
            self.unsure.pop(client, None)
            if self.stored.pop(client, "") is None:
                self.orders.writes.append(Drop("unsure", "", client))
            session = self.sessions.by_client.get(client)
            if session is not None:
                self.sessions.deliveries.memory.end(session)

    def tree_lost(self) -> None:
        """Whoever was there and has not answered may be away in the next tree."""
        self.doomed.clear()
        self.pending.clear()
        self.sought.clear()
        self.ending.clear()
        for client in [client for client, brokers in self.unsure.items() if THERE in brokers]:
            self._keep(client, self._named(self.unsure[client]), stored=client in self.stored)

    def _named(self, brokers: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        members = (member for member in self.membership.members if member != self.broker)
        return tuple(dict.fromkeys((*(broker for broker in brokers if broker != THERE), *members)))

    def tree_ready(self) -> None:
        """Ask those who are there, or there again."""
        self.waves.clear()
        for client, brokers in list(self.unsure.items()):
            self._ask(client, brokers)

    def _ask(self, client: ClientId, brokers: tuple[BrokerId, ...]) -> None:
        session = self.sessions.by_client.get(client)
        if self.broker in brokers and session is not None:
            self._come_home(session)
        if any(map(self._is_back, brokers)):
            self.seeking.ask(client, lambda: self._question(client))

    def _question(self, client: ClientId) -> Seeker | None:
        session = self.sessions.by_client.get(client)
        if session is None or client not in self.unsure:
            return None
        return Seeker(client, session.user, max(0, self.orders.now - session.connected_at), ends=True)

    def asked(self, client: ClientId, wave: int) -> None:
        self.waves[client], self.asked_at[client] = wave, self.orders.now
        self.sought[client] = self.orders.now

    def passed(self, wave: int) -> None:
        """Everybody who is there has answered."""
        for client in [client for client, awaited in self.waves.items() if awaited <= wave]:
            del self.waves[client]
            session, brokers = self.sessions.by_client.get(client), self.unsure.get(client, ())
            pending, sought = self.pending.get(client, {}), self.sought.pop(client, 0)
            for broker in [broker for broker, heard_at in pending.items() if heard_at < sought]:
                if broker != self.broker:
                    del pending[broker]  # it has nothing, or it would have said so
            still = tuple(broker for broker in brokers if broker in pending or not self._is_back(broker))
            self._keep(client, still, stored=session is not None and session.durable)
            if session is not None and still != brokers:
                self.resolved(session)

    def _is_back(self, broker: BrokerId) -> bool:
        tree = self.interest.tree
        if tree is None or not self.interest.ready:
            return False
        if broker == EVERYBODY:
            return not self.membership.uncharted
        return broker == THERE or broker in tree.parent

    # -- two sessions ------------------------------------------------------------------------------------------------

    def on_here(self, frame: Here) -> None:
        """Another broker has a session of the client as well."""
        session, to = self.sessions.by_client.get(frame.client), frame.from_broker
        if session is None or frame.user not in (session.user, ""):
            return
        self.pending.get(frame.client, {}).pop(to, None)
        if frame.refusal == "user":
            problem = "this client id belongs to somebody else"
            self.sessions.end_by(session, problem, Reason.CLIENT_IDENTIFIER_NOT_VALID)
        elif frame.owner != to:
            self._begin_memory(session)
            self.put(session, tuple(dict.fromkeys((*self.unsure.get(frame.client, ()), frame.owner))))
        elif frame.again or self._is_younger(session, frame):
            self._end_other(session, frame)
        else:
            self.passage.send(to, self.here(session, to, again=True))
            self._watch(session, to)

    def _end_other(self, session: Session, frame: Here) -> None:
        """The session here stays. What waits in the other one is wanted, unless the client began anew."""
        client, to = session.client, frame.from_broker
        self._begin_memory(session)
        wanted = self.expect(session, to)
        if not wanted or (self.leftovers.may_change(client) and self.may_owe(to) is None):
            certain = session.connected_at > self.orders.now - frame.age_us
            ending = self.ending.setdefault(client, {})
            certain |= ending.get(to) == (frame.stamp, True)
            self.passage.send(to, End(self.broker, to, client, frame.stamp, wanted, session.connected_at, certain))
            self._watch(session, to)
            ending[to] = (frame.stamp, certain)

    def _begin_memory(self, session: Session) -> None:
        """An older session turns up, of which nobody knew: what it has left is wanted."""
        if session.client not in self.unsure and session.durable:
            self.sessions.deliveries.memory.begin(session, whole=False)

    # -- what is left of the older one ---------------------------------------------------------------------------------

    def expect(self, session: Session, broker: BrokerId) -> bool:
        """A broker has an older session, or leftovers of one; whether they are wanted."""
        client = session.client
        if session.given is None:
            self._watch(session, broker)
            return False
        if broker not in self.unsure.get(client, ()):
            self._keep(client, (*self.unsure.get(client, ()), broker), stored=session.durable)
        self._expect_soon(client, broker)
        return True

    def _expect_soon(self, client: ClientId, broker: BrokerId) -> None:
        """A broker has something of an older session: ask it again if nothing is heard of it."""
        self.pending.setdefault(client, {})[broker] = self.orders.now
        if self.due is None:
            self.due = self.orders.wake(self.orders.now + RETRY_US)

    def more(self, session: Session, brokers: tuple[BrokerId, ...]) -> None:
        """The older session was itself in doubt, and what it was given is not known here."""
        client = session.client
        known = self.unsure.get(client, ())
        if any(broker not in known for broker in brokers):
            self.sessions.deliveries.memory.begin(session, whole=False)
            self._keep(client, tuple(dict.fromkeys((*known, *brokers))), stored=session.durable)
            self._ask(client, brokers)

    def done(self, session: Session, broker: BrokerId) -> None:
        """A broker has nothing of an older session any more."""
        client = session.client
        self.pending.get(client, {}).pop(broker, None)
        self.ending.get(client, {}).pop(broker, None)
        left = tuple(other for other in self.unsure.get(client, ()) if other != broker)
        self._keep(client, left, stored=session.durable)
        self.resolved(session)

    def woken(self) -> None:
        """Ask those again of whom nothing was heard."""
        if self.due is None or self.due > self.orders.now:
            return
        self.due, quiet_since = None, self.orders.now - RETRY_US
        for client, brokers in self.pending.items():
            if brokers:
                self.due = self.orders.wake(self.orders.now + RETRY_US)
            if any(heard_at <= quiet_since for heard_at in brokers.values()):
                self._ask(client, self.unsure.get(client, ()))

    def forget(self, brokers: list[BrokerId]) -> None:
        """These brokers will not come back."""
        for client, names in list(self.unsure.items()):
            if any(broker in names for broker in brokers):
                left = tuple(broker for broker in names if broker not in brokers)
                self._keep(client, left, stored=client in self.stored)

    def _watch(self, session: Session, broker: BrokerId) -> None:
        """What was just sent to a broker may die with this tree: ask again in the next one, unless a fence passes."""
        client = session.client
        brokers = tuple(dict.fromkeys((*self.unsure.get(client, ()), broker)))
        self._keep(client, brokers, stored=session.durable)
        self.waves[client], self.asked_at[client] = self.seeking.fences.ask(), self.orders.now

    def _is_younger(self, session: Session, frame: Here) -> bool:
        """Whether the session here stays. When the other broker answered is not known, only that it was after the
        question."""
        if bool(session.connection) != frame.connected:
            return bool(session.connection)
        return session.connected_at >= self.asked_at.get(frame.client, self.orders.now) - frame.age_us

    def here(self, session: Session, to: BrokerId, *, again: bool = False) -> Here:
        """Tell another broker of a session."""
        stamp, connected = session.connected_at, session.connection != 0
        age_us = max(0, self.orders.now - stamp)
        return Here(
            self.broker,
            to,
            session.client,
            self.broker,
            age_us,
            "",
            connected,
            stamp,
            session.user,
            ends=True,
            again=again,
        )

    def on_end(self, frame: End) -> None:
        """Our session is the older one; unless it is another than the sender knows of, or has moved on. If it was
        promised to the sender, that has not taken it: it would have said so before."""
        client, to = frame.client, frame.from_broker
        session, owner = self.sessions.by_client.get(client), self.moved_to(client)
        if owner and owner != to:
            user = "" if session is None else session.user
            self.passage.send(to, Here(self.broker, to, client, owner, user=user, ends=True))
        elif session is not None and session.connected_at == frame.stamp:
            if self._outdoes(frame):
                return
            if not frame.leftovers:
                self.sessions.end_by(session, f"its client began anew at {to}")
            elif self.leftovers.settling.settled:
                self._leave_over(session, to)
            else:
                self.doomed[client] = frame
        elif session is not None:
            self.passage.send(to, self.here(session, to))
        elif frame.leftovers:
            self.leftovers.announce(to, client)

    def _outdoes(self, frame: End) -> bool:
        """Whether both brokers have told the other to end its session, and the other one must: it is certainly the
        older one, or that is not known and its broker has the greater name."""
        to = frame.from_broker
        told = self.ending.get(frame.client, {}).get(to)
        if told is None or told[0] != frame.own_stamp:
            return False
        certain = told[1]
        return self.broker < to if certain == frame.certain else certain

    def settled(self) -> None:
        """What was owed to this broker has arrived: sessions that waited for that end, and leftovers here come."""
        doomed, self.doomed = self.doomed, {}
        for frame in doomed.values():
            self.on_end(frame)
        for client, brokers in list(self.unsure.items()):
            session = self.sessions.by_client.get(client)
            if self.broker in brokers and session is not None:
                self._come_home(session)

    def _come_home(self, session: Session) -> None:
        """What this broker itself has left of an older session comes, now or later."""
        if self.leftovers.at_home(session):
            self.done(session, self.broker)
        else:
            self._expect_soon(session.client, self.broker)

    def younger_at(self, session: Session) -> BrokerId:
        """The broker that has a younger session of the client, because of which this one is about to end; empty:
        none."""
        frame = self.doomed.get(session.client)
        return frame.from_broker if frame is not None and frame.stamp == session.connected_at else ""

    def _leave_over(self, session: Session, to: BrokerId) -> None:
        """A session ends whose client went on with another one: what waits in it is kept for that."""
        client = session.client
        if session.connection:
            self.sessions.take_over(session)
        if self.sessions.by_client.get(client) is session:
            unsure = self.unsure.get(client, ())
            unsure = self._named(unsure) if THERE in unsure else unsure
            self.leftovers.keep(session, tuple(broker for broker in unsure if broker != to))
            if session.suspended:
                session.will = None  # it waited for the client to connect again, which it has
            self.sessions.end_by(session, f"its client went on at {to}")
        self.leftovers.announce(to, client)

    def recover(self, disk: Disk) -> None:
        for client, brokers in disk.get("unsure", {}).get("", {}).items():
            assert isinstance(brokers, tuple)
            if str(client) in self.sessions.by_client:
                self.unsure[str(client)] = self._named(brokers) if THERE in brokers else brokers
                self.stored[str(client)] = None
            else:
                self.orders.writes.append(Drop("unsure", "", client))
