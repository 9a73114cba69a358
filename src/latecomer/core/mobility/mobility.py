"""Sessions that follow their clients: who has one, who asks for one, and what becomes of a CONNECT meanwhile.

A session has one *owner*: the broker that has it on its disk and serves it. A client that connects elsewhere waits for
its CONNACK until its session has come (`arrival`, `departure`), or until it is known that nobody has one (`seek`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from latecomer.core.clients import Disk
from latecomer.core.effects import Drop, Put
from latecomer.core.inputs import MqttConnected
from latecomer.core.interest import Interest
from latecomer.core.membership import Membership
from latecomer.core.mobility.apart import Apart
from latecomer.core.mobility.arrival import Arrival, Arrivals, Stage
from latecomer.core.mobility.asked import Asked
from latecomer.core.mobility.copies import Copies
from latecomer.core.mobility.departure import Departures, PromiseRow
from latecomer.core.mobility.doubts import Doubts
from latecomer.core.mobility.going_on import GoingOn, Words
from latecomer.core.mobility.guessing import Guessing
from latecomer.core.mobility.habits import remember
from latecomer.core.mobility.leftovers import LeftoverKeeper
from latecomer.core.mobility.on_device import read_subscriptions
from latecomer.core.mobility.particulars import Restored
from latecomer.core.mobility.remote import RemoteClients
from latecomer.core.mobility.search import Search
from latecomer.core.mobility.seek import Seeking
from latecomer.core.mobility.settings import HandOverSettings
from latecomer.core.mobility.shadows import Shadows
from latecomer.core.mobility.strategies import Strategy, strategy_named
from latecomer.core.mobility.visits import Visits
from latecomer.core.mobility.whereabouts import Change, Directory
from latecomer.core.mobility.wishes import Wishes
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.session.given import PART
from latecomer.core.session.sessions import Sessions
from latecomer.core.session.state import Refusal, Session, Subscription
from latecomer.core.session.terms import hand_over_of, terms_of
from latecomer.messages.hand_over import (
    Fetch,
    Grant,
    Here,
    Taken,
)
from latecomer.messages.mqtt import Connect, Reason
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Kind
from latecomer.model.slots import origin_of, reached

PREVIOUS = "previous-broker"
"""The user property of a CONNECT that names the broker where the client was last."""


@dataclass(slots=True)
class Mobility:
    """The hand-overs of one broker."""

    broker: BrokerId
    orders: Orders
    interest: Interest
    membership: Membership
    passage: Passage
    sessions: Sessions
    arrivals: Arrivals
    departures: Departures
    seeking: Seeking
    directory: Directory
    doubts: Doubts
    apart: Apart
    wishes: Wishes
    guessing: Guessing
    others: Asked
    search: Search
    visits: Visits
    remote: RemoteClients
    shadows: Shadows
    copies: Copies
    alone: bool
    """This broker has no neighbours, and knows of no others."""
    settings: HandOverSettings
    going_on: GoingOn
    leftovers: LeftoverKeeper
    strategies: dict[str, Strategy] = field(default_factory=dict)
    moves: int = 0
    """Sessions that came here."""
    came: Callable[[Session], None] = lambda session: None
    """Told of each of them."""
    served: Callable[[Session], None] = lambda session: None
    """Told of each session to which a client has connected."""

    def __post_init__(self) -> None:
        arrivals, departures, seeking, wishes = self.arrivals, self.departures, self.seeking, self.wishes
        arrivals.take, arrivals.look_for, arrivals.refuse = self.take, self.search.look_for, self.search.refuse
        arrivals.may_owe = self.shadows.may_owe = self.apart.may_owe
        arrivals.had = self.shadows.had = self.apart.had
        arrivals.certain = self.certain
        self.directory.leaves = departures.granted.__contains__
        self.directory.promised = departures.promises.__contains__
        self.shadows.is_known = lambda client: client in self.sessions.by_client or client in arrivals.by_client
        departures.remove = self.gone
        doubts, leftovers = self.doubts, self.leftovers
        doubts.moved_to, doubts.may_owe, doubts.leftovers = self.others.moved_to, self.apart.may_owe, leftovers
        self.others.younger_at = doubts.younger_at
        doubts.resolved = self.told_anew
        leftovers.expect, leftovers.more_doubts, leftovers.done = doubts.expect, doubts.more, doubts.done
        self.sessions.subscribing.changed = self.told_anew
        departures.unsure = self.doubts.tell
        seeking.answer, seeking.asked = self.others.answer, self.search.asked
        self.others.taken_over = self.search.taken_over
        self.others.attach, self.remote.refuse = self.remote.attach, self.others.refuse
        wishes.stays_home = lambda session: self.strategy_of(session.hand_over).attaches
        wishes.is_there, wishes.promise_kept = self.search.is_there, self.promise_kept
        wishes.begin, wishes.left = self.fetch, self.guessing.left
        self.guessing.is_there, self.guessing.strategy_of = self.search.is_there, self.strategy_of

    @property
    def idle(self) -> bool:
        """Whether no session is on its way."""
        return (
            not (
                self.arrivals.by_client
                or self.departures.leaving
                or self.departures.lapsing
                or self.departures.promises
                or self.arrivals.taken
                or self.others.deferred
                or self.seeking.waiting
            )
            and self.directory.idle
            and self.doubts.idle
        )

    def strategy_of(self, asked_for: str) -> Strategy:
        """How a session moves whose client asked for this; empty: for nothing."""
        name = asked_for or self.settings.algorithm
        strategy = self.strategies.get(name)
        if strategy is None:
            strategy = self.strategies[name] = strategy_named(name, self.settings)
        return strategy

    # -- CONNECT -----------------------------------------------------------------------------------------------------

    def holds_up(self, fact: MqttConnected, client: ClientId) -> bool:
        """Whether a CONNECT is answered later, because the client's session is elsewhere or may be."""
        device = read_subscriptions(fact, self.sessions.subscribing)
        if self.alone:
            return False
        packet = fact.packet
        session = self.sessions.at_home(client)
        waiting = self.arrivals.by_client.get(client)
        if waiting is not None and (packet.clean_start or waiting.user != fact.user):
            self.search.taken_over(waiting)  # of another user: whoever has the session decides who may have it
            waiting = None
        if session is not None and session.user != fact.user:
            return False  # which is refused
        if session is not None and not session.durable:
            self.sessions.end_by(session, "another connection uses its client id")
            session = None
        if session is not None and not packet.clean_start and (elsewhere := self.doubts.younger_at(session)):
            raise Refusal(Reason.SERVER_UNAVAILABLE, f"a younger session is at {elsewhere}: try again")
        promised = client in self.departures.promises
        brief = packet.clean_start and not terms_of(packet, self.sessions.limits)[0]
        if not promised and (session is not None or brief or not packet.client_id):
            self.departures.came_back(client, clean=packet.clean_start)
            return False  # it is here; or it is new, and ends with its connection
        if waiting is not None:
            self._replace(waiting, fact)
            waiting.device = device
        else:
            self.begin(client, fact, device=device)
        return True

    def begin(
        self,
        client: ClientId,
        fact: MqttConnected | None,
        user: str = "",
        hint: BrokerId = "",
        device: tuple[Subscription, ...] = (),
    ) -> None:
        if len(self.arrivals.by_client) >= self.settings.arrivals_max:
            raise Refusal(Reason.SERVER_BUSY, "too many sessions are on their way here: try again later")
        now, word = self.orders.now, ""
        if fact is not None:
            user = fact.user
            hint = word = next((value for name, value in fact.packet.properties.user if name == PREVIOUS), "")
            shadow = self.shadows.complete(client)
            hint = hint if shadow is None else shadow.owner
            if client not in self.departures.promises and not self._attaches(fact):
                self.sessions.admission.check_room(user)
        arrival = Arrival(
            client, user, now, fact, self.orders.wake(now + self.settings.patience_us), hint=hint, word=word
        )
        arrival.owner = self.others.pointers.get(client, "")  # it is waited for if it is away
        arrival.clean = fact is not None and fact.packet.clean_start
        arrival.device = device
        strategy = self.strategy_of("" if fact is None else hand_over_of(fact.packet))
        if strategy.outline and self.arrivals.events.recent is not None:
            arrival.outline, arrival.algorithm = True, "logging"
        arrival.attaches = fact is not None and self._attaches(fact)
        arrival.go_on = fact is not None and not arrival.clean and self.going_on.wanted_by(fact.packet)
        self.arrivals.by_client[client] = arrival
        if fact is not None:
            self.arrivals.by_connection[fact.connection] = arrival
        self.search.watch(arrival)
        self.search.look_for(arrival)

    def _attaches(self, fact: MqttConnected) -> bool:
        """Whether the session of a client is to stay where it is (*mobility* §3: home-broker)."""
        return self.strategy_of(hand_over_of(fact.packet)).attaches

    def fetch(self, frame: Fetch) -> None:
        """Have a session come whose client is away."""
        self.begin(frame.client, None, frame.user, frame.from_broker)
        arrival = self.arrivals.by_client.get(frame.client)
        if arrival is not None:
            arrival.guess, arrival.ahead = frame.guess, frame.ahead

    def _replace(self, arrival: Arrival, fact: MqttConnected) -> None:
        """[MQTT-3.1.4-3] A newer connection waits instead; what has come already stays."""
        if arrival.fact is not None:
            self.arrivals.by_connection.pop(arrival.connection)
            self.sessions.refuse(
                arrival.fact, Refusal(Reason.SESSION_TAKEN_OVER, "another connection uses this client id")
            )
        arrival.fact, arrival.since = fact, self.orders.now
        arrival.go_on = not arrival.clean and self.going_on.wanted_by(fact.packet)
        arrival.due = self.orders.wake(self.orders.now + self.settings.patience_us)
        self.arrivals.by_connection[fact.connection] = arrival
        if arrival.attaches:  # its owner serves the older connection, or is about to
            self.arrivals.begin_anew(arrival)
        arrival.attaches = arrival.stage is Stage.SEEKING and self._attaches(fact)
        if arrival.go_on and arrival.waits_for and arrival.stage is Stage.SEEKING:
            self.search.seek(arrival)  # the connection before it was to wait

    def lost(self, connection: int) -> None:
        """A client is gone before its CONNACK. A session whose rows are coming comes all the same: a client that does
        not wait long enough for a large one finds more of it each time it tries."""
        arrival = self.arrivals.by_connection.get(connection)
        if arrival is not None and arrival.pages:
            self.arrivals.by_connection.pop(connection)
            arrival.fact = None
        elif arrival is not None:
            self.arrivals.drop(arrival)
        else:
            self.visits.lost(connection)

    def failed(self, connection: int, reason: Reason, problem: str) -> None:
        arrival = self.arrivals.by_connection.get(connection)
        if arrival is not None:
            self.search.give_up(arrival, reason, problem)
        else:
            self.visits.failed(connection, reason, problem)

    # -- sessions here -----------------------------------------------------------------------------------------------

    def serves(self, session: Session) -> None:
        """A client is connected to its session."""
        self.served(session)
        if session.guessed:
            session.guessed, session.misses = False, 0
        if self.alone:
            return
        self.copies.came_back(session)
        if remember(session, self.remote.via(session.connection)[0] or self.broker):
            self.orders.writes.append(Put("session", "", session.client, session.row()))
        self.others.pointers.pop(session.client, None)
        self.directory.drop(session.client)
        if session.durable != session.told:
            session.told = session.durable
            self.directory.tell(session.client, Change.ALL if session.durable else Change.GONE)
        else:
            self.away(session)

    def away(self, session: Session) -> None:
        """A client has left its session, or is back: whoever remembers it is told, if the client may go on without."""
        if session.told and self.going_on.notices(session):
            self.directory.tell(session.client, Change.PRESENCE)

    def told_anew(self, session: Session) -> None:
        """The subscriptions of a session have changed, or it may be remembered to be elsewhere."""
        if session.told:
            self.directory.tell(session.client, Change.ALL)

    def certain(self, client: ClientId) -> None:
        """If a session is here, it is nobody else's any more, whatever others were told."""
        session = self.sessions.by_client.get(client)
        if session is not None:
            self.told_anew(session)

    def began(self, session: Session, packet: Connect, asked: bool, restored: Restored | None) -> Words:
        """A session is new: an older one, wherever it is, ends. Nobody can have one of a name that was just made up.
        Returns what the client is told about it."""
        if not self.alone and packet.client_id and (packet.clean_start or session.durable):
            self.doubts.began(session, asked=asked)
            kept = self.leftovers.has(session.client, session.user)
            if (kept or session.client in self.doubts.unsure) and session.durable and not packet.clean_start:
                self.sessions.deliveries.memory.begin(session, whole=True)
                if kept:
                    self.doubts.expect(session, self.broker)  # they come when the client has had time to subscribe
        return () if restored is None else self.going_on.restore(session, restored)

    def ended(self, session: Session) -> None:
        """A session has ended here, or left."""
        self.departures.ended(session.client)
        self.copies.void(session.client)
        self.sessions.cuts.end(session)
        self.doubts.drop(session.client)
        if session.told:
            session.told = False
            self.directory.tell(session.client, Change.GONE)

    def passed(self, wave: int) -> None:
        """A fence has passed: everything that was sent before it has been answered."""
        self.apart.passed(wave)
        self.doubts.passed(wave)
        self.search.passed(wave)

    def on_here(self, frame: Here) -> None:
        if frame.ends:
            self.doubts.on_here(frame)
        else:
            self.search.on_here(frame)

    # -- the session changes its owner -------------------------------------------------------------------------------

    def take(self, arrival: Arrival, grant: Grant) -> None:
        """All of it is here: it becomes this broker's own."""
        session, row = arrival.session, arrival.row
        assert session is not None
        assert row is not None
        if grant.forgot:
            row = replace(row, memory=PART)
        session.number = max(session.number, grant.upto)
        session.away_since = max(1, self.orders.now - arrival.away_us)
        session.connected_at = self.orders.now - arrival.age_us
        session.guessed, session.misses, session.places = arrival.guess, row.misses, row.places
        session.came_from = row.came_from if session.guessed else arrival.owner
        events = self.arrivals.events
        tree = events.interest.tree
        assert tree is not None
        had = {stream: (epoch, seq) for stream, epoch, seq in grant.cut}
        cut = {stream: stamp for stream, stamp in had.items() if origin_of(stream) != self.broker}
        self.sessions.cuts.begin(session, cut, events.seen.newest, tree.parent)
        self.sessions.adopt(session, row, arrival.tables, arrival.shared)
        for event, hops in arrival.held:
            if (event.id.epoch, event.id.seq) > reached(had, events.seen.stream(event)):
                self.sessions.restoring.give(session, event, hops)
        self.moves += 1
        self.came(session)
        count = len(session.queue)
        name = "prefetching" if arrival.ahead else arrival.algorithm
        took_ms = (self.orders.now - arrival.since) // 1000
        detail = f"{name}, {arrival.frames} frames, {arrival.bytes} bytes, {took_ms} ms"
        self.orders.note(Kind.MOVED, client=session.client, peer=arrival.owner, count=count, detail=detail)
        if arrival.unsure:
            if not arrival.in_doubt:  # another broker has an older session, which nobody knew of
                self.sessions.deliveries.memory.begin(session, whole=False)
            self.doubts.put(session, arrival.unsure)
        self.sessions.shares.flush()  # the old broker must know of the groups' new members before it lets go
        if arrival.fact is not None:
            self.sessions.answer(arrival.fact, arrival.client, arrival.since)
        else:
            self.sessions.resume(session)
            session.told = True
            self.told_anew(session)

    def on_taken(self, frame: Taken) -> None:
        if not frame.yes:
            self.remote.given_up(frame.from_broker, frame.attempt)
        said = self.departures.on_taken(frame)
        if said is None:
            return
        client = frame.client
        if said:
            self.others.left(client, frame.from_broker)
        self.promise_kept(client)

    def promise_kept(self, client: ClientId) -> None:
        """It is known whose the session is: whoever waits for that may go on."""
        ask = self.others.deferred.pop(client, None)
        self.certain(client)
        arrival = self.arrivals.by_client.get(client)
        if arrival is not None:
            if client in self.sessions.by_client:
                self.arrivals.forget(arrival)
                if arrival.fact is not None:
                    self.sessions.answer(arrival.fact, client, arrival.since, asked=not arrival.clean)
            else:
                arrival.hint = self.others.pointers.get(client, "")
                self.search.look_for(arrival)
        if ask is not None:
            self.others.on_ask(ask)

    def gone(self, session: Session, row: PromiseRow) -> None:
        """Another broker has the session: leave nothing of it here."""
        to = row.attempt.broker
        self.orders.note(Kind.DISCONNECTED, client=session.client, peer=to, detail=f"session moved to {to}")
        self.doubts.gone(session, to)
        self.sessions.depart(session, row.upto)

    # -- the network -------------------------------------------------------------------------------------------------

    def settled(self) -> None:
        self.apart.settled()
        self.doubts.settled()
        self.pumped()

    def pumped(self) -> None:
        """Events have left, or are done."""
        if self.arrivals.held_up:
            self.arrivals.go_on()
        if self.departures.held_up:
            self.departures.go_on()
        if self.shadows.held_up:
            self.shadows.go_on()
        if self.copies.held_up:
            self.copies.go_on()

    def tree_lost(self) -> None:
        self.visits.tree_lost()
        self.remote.tree_lost()
        self.arrivals.tree_lost()
        self.departures.tree_lost()
        self.shadows.tree_lost()
        self.copies.tree_lost()
        self.doubts.tree_lost()
        self.others.deferred.clear()

    def tree_ready(self) -> None:
        self.arrivals.tree_ready()
        self.departures.tree_ready()
        self.directory.tree_ready()
        self.doubts.tree_ready()
        self.apart.tree_ready()
        for arrival in list(self.arrivals.by_client.values()):
            self.search.look_for(arrival)
        self.seeking.tree_ready()

    def forgot(self, brokers: list[BrokerId]) -> None:
        """These brokers will not come back: what was promised to them is ours."""
        for client, row in list(self.departures.promises.items()):
            if row.attempt.broker in brokers:
                self.wishes.release(client)
        self.directory.forget(brokers)
        self.doubts.forget(brokers)
        self.others.forget(brokers)
        self.apart.forget(brokers)
        self.arrivals.forgot(brokers)

    def met_somebody(self) -> None:
        """This broker has neighbours from now on: of its sessions others are told, as after a restart."""
        if self.alone:
            self.alone = False
            for known in self.sessions.by_client.values():
                known.told = known.durable

    def recover(self, disk: Disk) -> None:
        """Find promises and doubts as they were; the sessions are there already."""
        self.search.started_at = self.orders.now
        self.directory.recover(disk)
        self.apart.recover(self.membership.members)
        for known in self.sessions.by_client.values():
            known.told = known.durable
        for client, row in disk.get("promised", {}).get("", {}).items():
            assert isinstance(row, PromiseRow)
            session = self.sessions.by_client.get(str(client))
            if session is None:
                self.orders.writes.append(Drop("promised", "", client))
            else:
                self.departures.recover(session, row)
        self.arrivals.recover(disk)
        self.doubts.recover(disk)
        self.leftovers.recover(disk)

    # -- time --------------------------------------------------------------------------------------------------------

    def due(self) -> Instant | None:
        found = (self.search.due(), self.seeking.due, self.directory.due, self.guessing.due())
        dues = [due for due, _ in self.departures.lapsing.values()]
        dues += [due for due in (self.doubts.due, self.leftovers.due()) if due is not None]
        dues += [due for due in found if due is not None]
        return min(dues, default=None)

    def woken(self) -> None:
        self.seeking.woken()
        self.directory.woken()
        self.guessing.woken()
        self.departures.woken()
        self.search.woken()
        self.doubts.woken()
        self.leftovers.woken()
