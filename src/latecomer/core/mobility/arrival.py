"""The new broker's part of a hand-over.

    seeking ── here ──▶ asking ── standing ──▶ arriving ── grant ──▶ the session is here
       │ nobody: a new session                    └─ refused, tree lost ──▶ seeking

While a session arrives this broker is subscribed to what the session is subscribed to, and holds the events. Its rows
are written to disk as they come, under a marker (`arriving`): after a restart they are erased, as the old broker still
has everything. With the grant the session becomes this broker's own in one write, and the held events that the rows do
not account for are delivered behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from latecomer.core.clients import Disk
from latecomer.core.effects import Drop, Put
from latecomer.core.events import Events
from latecomer.core.inputs import MqttConnected
from latecomer.core.mobility.on_device import digest_of
from latecomer.core.mobility.outlines import fill
from latecomer.core.mobility.particulars import Restored
from latecomer.core.mobility.rows import RowsError, Tables, decode, decode_standing
from latecomer.core.mobility.shadows import Shadow, Shadows
from latecomer.core.mobility.tunnel import connect_of
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.session.delivery import Deliveries
from latecomer.core.session.erasing import Erasing
from latecomer.core.session.limits import SessionLimits
from latecomer.core.session.past import size_of
from latecomer.core.session.state import Session, SessionRow, Subscription
from latecomer.core.session.subscribing import Subscribing
from latecomer.core.settling import Settling
from latecomer.messages.hand_over import Ask, Attempt, Grant, Here, Offer, Released, Row, Rows, Standing, Taken, Want
from latecomer.messages.mqtt import Reason
from latecomer.model.event import Event
from latecomer.model.ids import BrokerId, ClientId, Instant

CREDIT = 8
"""Pages of rows that may be under way."""
REFILL = 2
"""Pages that are asked for together: few, so that no write is large and none has to wait for another."""


class Stage(Enum):
    SEEKING = "seeking"
    ASKING = "asking"
    """For the subscriptions."""
    ARRIVING = "arriving"
    """Subscribed; the rows come."""


@dataclass(slots=True, eq=False)
class Arrival:
    """A session that is looked for, or on its way here."""

    client: ClientId
    user: str
    since: Instant
    """When its client connected, or when it was decided to move it here."""
    fact: MqttConnected | None
    """The connection that waits for it; None: its client is away."""
    due: Instant
    """When the client is told to try again later."""
    clean: bool = False
    """The client begins anew: sessions of it that others have end first."""
    stage: Stage = Stage.SEEKING
    asked_at: Instant = 0
    """When everybody was asked."""
    wave: int = 0
    """The fence behind which all answers have come; 0: nobody was asked yet."""
    heard: list[Here] = field(default_factory=list)
    hint: BrokerId = ""
    """Who may have it, by the client's or another broker's word; asked first."""
    word: BrokerId = ""
    """Who has it, by the client's word."""
    denied: dict[BrokerId, None] = field(default_factory=dict)
    """Brokers that do not have it, whatever others say."""
    asked_all: bool = True
    """Whether everybody who may have an older session has been asked."""
    answered: bool = False
    """Nobody who is there has it; those who are away are waited for."""
    owner: BrokerId = ""
    """Who was asked for it last, or to whom it went from here."""
    number: int = 0
    """Of the present attempt."""
    row: SessionRow | None = None
    away_us: int = 0
    age_us: int = 0
    """How long ago the client connected to the old broker."""
    session: Session | None = None
    """With the subscriptions that are not shared."""
    shared: list[Subscription] = field(default_factory=list)
    sent: int = 0
    """What was published here up to this event must have left before the state is asked for."""
    asked: bool = False
    """The state was asked for."""
    pages: int = 0
    credit: int = 0
    tables: Tables = field(default_factory=dict)
    held: list[tuple[Event, int]] = field(default_factory=list)
    held_bytes: int = 0
    unsure: tuple[BrokerId, ...] = ()
    """Brokers that have, or may have, an older session of the client, which is to end."""
    in_doubt: bool = False
    """The old broker knew that there may be one."""
    guess: bool = False
    """It is fetched because its client may come here."""
    ahead: bool = False
    """It comes before its client, who said so or is guessed to come."""
    device: tuple[Subscription, ...] = ()
    """What the client says that its session is subscribed to."""
    outline: bool = False
    """Deliveries that follow from the recent log need not travel."""
    attaches: bool = False
    """The session stays where it is, and its client is served through a tunnel (`visits`)."""
    algorithm: str = "standard"
    frames: int = 0
    """Sent and received for this session, from the first question for it on."""
    bytes: int = 0
    """Of its rows and subscriptions."""
    waits_for: BrokerId = ""
    """A broker that is away and without which the session cannot be had."""
    busy: BrokerId = ""
    """A broker from which too many sessions are leaving: it is asked again."""
    go_on: bool = False
    """If its owner is away, the client gets a new session."""
    remembered: list[Restored] = field(default_factory=list)
    """What others remember of a session that cannot be had."""

    @property
    def connection(self) -> int:
        return 0 if self.fact is None else self.fact.connection


@dataclass(slots=True)
class Arrivals:
    """The sessions on their way to this broker."""

    broker: BrokerId
    orders: Orders
    passage: Passage
    events: Events
    settling: Settling
    limits: SessionLimits
    subscribing: Subscribing
    deliveries: Deliveries
    erasing: Erasing
    patience_us: int
    shadows: Shadows
    """Copies of sessions whose clients may come here."""
    take: Callable[[Arrival, Grant], None] = field(init=False)
    """The session is this broker's own from here on."""
    look_for: Callable[[Arrival], None] = field(init=False)
    """Look for the session, now or in the next tree."""
    may_owe: Callable[[BrokerId], BrokerId | None] = field(init=False)
    """A broker that is away and may have events for the old broker alone, which this one had before (`apart`)."""
    had: Callable[[BrokerId, Iterable[BrokerId]], None] = field(init=False)
    """This broker let go of events for a session at another one, which may not have had them from their origins."""
    certain: Callable[[ClientId], None] = field(init=False)
    """The old broker has let go of a session, and may have told others until then that it has it."""
    refuse: Callable[[Arrival, Reason, str], None] = field(init=False)
    """Tell the client that waits, if one does."""
    by_client: dict[ClientId, Arrival] = field(default_factory=dict)
    by_connection: dict[int, Arrival] = field(default_factory=dict)
    held_up: dict[ClientId, Arrival] = field(default_factory=dict)
    """Those that are subscribed, and may not ask for the state yet."""
    taken: dict[Attempt, tuple[BrokerId, ClientId]] = field(default_factory=dict)
    """Attempts that succeeded, and whose old broker has not said that it knows."""
    told_again: dict[Attempt, None] = field(default_factory=dict)
    """Those of which it was told in another tree than the first time."""
    numbers: int = 0
    """Of the attempts of this life."""
    rows_came: int = 0
    """Deliveries of sessions that came here which travelled, and which were built from the recent log."""
    rows_built: int = 0

    def attempt_of(self, arrival: Arrival) -> Attempt:
        return Attempt(self.broker, self.orders.boot, arrival.number)

    def of(self, attempt: Attempt, client: ClientId) -> Arrival | None:
        """The arrival that an attempt belongs to, if it is the present one."""
        arrival = self.by_client.get(client)
        return arrival if arrival is not None and self.attempt_of(arrival) == attempt else None

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, arrival: Arrival, owner: BrokerId) -> bool:
        """Ask a broker for the session; False: it is not there."""
        self.numbers += 1
        arrival.number, arrival.owner, arrival.stage = self.numbers, owner, Stage.ASKING
        digest = ""
        here = self._copy_of(arrival) is not None
        if arrival.device and not here and not arrival.attaches and self._may_ask_at_once(arrival):
            digest = digest_of(arrival.device)
            lasting = Session(arrival.client, arrival.user, expiry_s=1)  # for how long, its row will say
            self._enter(arrival, lasting, arrival.device)
            arrival.credit = CREDIT
        if self._send(arrival, state=bool(digest), digest=digest):
            return True
        self._leave(arrival)
        arrival.number, arrival.stage = 0, Stage.SEEKING
        return False

    def _may_ask_at_once(self, arrival: Arrival) -> bool:
        """Whether the subscriptions that the client brought can be entered, and the state be asked for right behind
        them: the rules allow them, and nothing is waited for (`_ask_for_state`). If not, the ordinary question makes
        sure that neither will nor expiry of the session come meanwhile."""
        outbox, may = self.events.outbox, self.subscribing.access.may_subscribe
        return (
            self.settling.settled
            and outbox.sent >= outbox.next_seq - 1
            and not self.erasing.upto(arrival.client)
            and not self.may_owe(arrival.owner)
            and all(may(arrival.user, arrival.client, each.filter.topic) for each in arrival.device)
        )

    def _send(self, arrival: Arrival, *, state: bool, digest: str = "") -> bool:
        arrival.frames += 1
        connect = connect_of(arrival.fact) if arrival.attaches and arrival.fact is not None else None
        shadow = None if state or arrival.attaches else self._copy_of(arrival)
        age_us, copy = self.orders.now - arrival.since, None if shadow is None else shadow.id
        who = (self.broker, arrival.owner, self.attempt_of(arrival), arrival.client, arrival.user)
        how = (age_us, arrival.fact is not None, state, arrival.credit)
        ask = Ask(*who, *how, digest=digest, outline=arrival.outline, connect=connect, copy=copy)
        return self.passage.send(arrival.owner, ask)

    def _copy_of(self, arrival: Arrival) -> Shadow | None:
        """What is here of the session already; unless the numbers of its deliveries may stand on disk still."""
        return None if self.erasing.upto(arrival.client) else self.shadows.complete(arrival.client, arrival.owner)

    def on_standing(self, frame: Standing) -> None:
        """Subscribe to what the session is subscribed to; if the client had said so rightly, that is done already."""
        arrival = self.of(frame.attempt, frame.client)
        if arrival is None or arrival.stage is not Stage.ASKING:
            return
        try:
            row, subscriptions = decode_standing(frame.session, frame.subscriptions)
        except RowsError as error:
            self.fail(arrival, f"{frame.from_broker} sent a session that cannot be read: {error}")
            return
        if frame.known and arrival.session is None:
            self.fail(arrival, f"{frame.from_broker} left out subscriptions of which it was not told")
            return
        arrival.frames += 1
        arrival.bytes += len(frame.session) + sum(map(len, frame.subscriptions))
        arrival.stage, arrival.row = Stage.ARRIVING, row
        arrival.away_us, arrival.age_us = frame.away_us, frame.age_us
        arrival.unsure = tuple(dict.fromkeys((*arrival.unsure, *frame.unsure)))
        arrival.in_doubt = bool(frame.unsure)
        if frame.known and arrival.session is not None:
            session, arrival.asked = arrival.session, True
            session.version, session.expiry_s, session.will = row.version, row.expiry_s, row.will
            return
        shadow = self.shadows.claim(arrival.client, arrival.owner) if frame.copy else None
        self._leave(arrival)  # what the client said wrongly
        arrival.device = ()
        self._enter(arrival, Session(arrival.client, row.user, row.version, row.expiry_s, will=row.will), subscriptions)
        if shadow is not None:
            self._go_on_from(arrival, shadow)
        elif frame.copy:
            self.begin_anew(arrival)  # it went while the answer was under way
        else:
            arrival.sent = self.events.outbox.next_seq - 1
            arrival.credit = CREDIT
            self._ask_for_state(arrival)

    def _enter(self, arrival: Arrival, session: Session, subscriptions: Iterable[Subscription]) -> None:
        """Subscribe, but for groups: their events would be lost if the session did not come after all. What comes is
        held."""
        client, arrival.session = arrival.client, session
        self.shadows.drop(client)  # what is there of another owner, or void
        self.orders.writes.append(Put("arriving", "", client, str(self.attempt_of(arrival))))
        self.subscribing.clients.receivers[client] = lambda event, hops: self._hold(arrival, event, hops)
        for subscription in subscriptions:
            if subscription.group:
                arrival.shared.append(subscription)
            else:
                self.subscribing.enter(session, subscription)

    def _go_on_from(self, arrival: Arrival, shadow: Shadow) -> None:
        """The rows came before the client did: only the grant is missing."""
        arrival.asked = arrival.ahead = True
        arrival.frames += shadow.frames
        arrival.bytes += shadow.bytes - shadow.held_bytes
        arrival.held, arrival.held_bytes = shadow.held, shadow.held_bytes
        assert arrival.session is not None
        for table, rows in shadow.tables.items():
            self.orders.writes += [Put(table, arrival.client, key, value) for key, value in rows.items()]
        queue = shadow.tables.pop("queue", {})
        for number in sorted(map(int, queue)):
            self.deliveries.recover_one(arrival.session, number, queue[number])
        arrival.tables = shadow.tables

    def _leave(self, arrival: Arrival) -> None:
        """Unsubscribe, and let go of what came."""
        session, client = arrival.session, arrival.client
        if session is not None:
            for subscription in list(session.subscriptions.values()):
                self.subscribing.leave(session, subscription)
            self.subscribing.clients.receivers.pop(client, None)
            self._place(arrival, session)
            self.erasing.erase(client, session.queue)
            writes = self.orders.writes
            writes += [Drop(table, client, key) for table, rows in arrival.tables.items() for key in rows]
            writes.append(Drop("arriving", "", client))
            self.had(arrival.owner, dict.fromkeys(event.id.origin for event, _ in arrival.held))
        arrival.session, arrival.tables, arrival.shared = None, {}, []
        arrival.held, arrival.held_bytes = [], 0

    def go_on(self) -> None:
        """Something changed that arrivals may wait for: events have left, or the tree has settled."""
        for arrival in list(self.held_up.values()):
            self._ask_for_state(arrival)

    def _ask_for_state(self, arrival: Arrival) -> None:
        """What this broker's publishers sent before it subscribed must be ahead of the question; what this broker was
        owed in this tree must have arrived, or it would be delivered as if it were new; and what an earlier session
        left on this disk must be gone, as the numbers may be the same."""
        self.held_up[arrival.client] = arrival
        if not self.settling.settled or self.events.outbox.sent < arrival.sent or self.erasing.upto(arrival.client):
            return
        arrival.waits_for = self.may_owe(arrival.owner) or ""
        if not arrival.waits_for:
            del self.held_up[arrival.client]
            arrival.asked = True
            self._send(arrival, state=True)

    # -- what comes --------------------------------------------------------------------------------------------------

    def _hold(self, arrival: Arrival, event: Event, hops: int) -> None:
        """An event for a session that is not here yet; with QoS 0 it is for those who are there."""
        if not event.reliable or not event.qos:
            return
        arrival.held.append((event, hops))
        arrival.held_bytes += size_of(event)
        if len(arrival.held) > self.limits.queue_messages or arrival.held_bytes > self.limits.queue_bytes:
            arrival.device = ()  # perhaps it is more than what the session is subscribed to
            self.begin_anew(arrival)  # the old broker has them all

    def on_rows(self, frame: Rows) -> None:
        arrival = self.of(frame.attempt, frame.client)
        if arrival is None or not arrival.asked or frame.from_broker != arrival.owner:
            if frame.grant is not None and frame.attempt.broker == self.broker:
                self._say(frame.from_broker, frame.attempt, frame.client, yes=False)
            return
        if frame.number != arrival.pages + 1:
            self.fail(arrival, f"{frame.from_broker} sent page {frame.number} behind {arrival.pages}")
            return
        arrival.pages += 1
        arrival.frames += 1
        arrival.bytes += sum(len(row.value) for row in frame.rows) + len(frame.outline)
        arrival.due = self.orders.wake(self.orders.now + self.patience_us)
        try:
            for row in frame.rows:
                self._restore(arrival, row)
            lacking = self._build(arrival, frame.outline) if frame.outline else ()
        except RowsError as error:
            self.fail(arrival, f"{frame.from_broker} sent a row that cannot be read: {error}")
            return
        if frame.grant is not None:
            self._taken(arrival, frame.grant)
        elif frame.outline or arrival.credit - arrival.pages <= max(0, CREDIT - REFILL):
            arrival.credit = arrival.pages + CREDIT
            arrival.frames += 1
            owner, attempt = arrival.owner, self.attempt_of(arrival)
            want = Want(self.broker, owner, attempt, arrival.client, arrival.credit, arrival.pages, lacking)
            self.passage.send(owner, want)

    def _build(self, arrival: Arrival, outline: bytes) -> tuple[int, ...]:
        """Build what can be built from the recent log; returns the numbers of the deliveries that cannot."""
        session, log = arrival.session, self.events.recent
        if session is None or log is None or not arrival.outline:
            raise RowsError("an outline that nobody asked for")
        built, lacking = fill(outline, log, session, self.orders.now)
        arrival.tables.setdefault("queue", {}).update((number, parcel) for number, parcel in built.items())
        self.orders.writes += [Put("queue", arrival.client, number, parcel) for number, parcel in built.items()]
        self.rows_built += len(built)
        return tuple(lacking)

    def _place(self, arrival: Arrival, session: Session) -> None:
        """Deliveries of which some were built did not come in their order."""
        queue = arrival.tables.pop("queue", {})
        for number in sorted(map(int, queue)):
            self.deliveries.recover_one(session, number, queue[number])

    def _restore(self, arrival: Arrival, row: Row) -> None:
        """Deliveries find their place as they come, so that little is left to do at the end; unless some are built."""
        session, value = arrival.session, decode(row, self.orders.now)
        assert session is not None
        self.rows_came += row.table == "queue"
        if row.table != "queue" or (arrival.outline and isinstance(row.key, int) and row.key > 0):
            arrival.tables.setdefault(row.table, {})[row.key] = value
        elif isinstance(row.key, int) and row.key > session.number:
            self.deliveries.recover_one(session, row.key, value)
        else:
            raise RowsError(f"delivery {row.key} behind {session.number}")
        self.orders.writes.append(Put(row.table, arrival.client, row.key, value))

    def _taken(self, arrival: Arrival, grant: Grant) -> None:
        """One write makes the session this broker's own; the old one is told behind it."""
        attempt, owner, client = self.attempt_of(arrival), arrival.owner, arrival.client
        assert arrival.session is not None
        self._place(arrival, arrival.session)
        self.forget(arrival)
        self.orders.writes.append(Drop("arriving", "", client))
        self.taken[attempt] = (owner, client)
        self.orders.writes.append(Put("taken", "", str(attempt), (owner, client)))
        self.take(arrival, grant)
        self._say(owner, attempt, client, yes=True)

    def _say(self, to: BrokerId, attempt: Attempt, client: ClientId, *, yes: bool) -> None:
        self.passage.send(to, Taken(self.broker, to, attempt, client, yes))

    # -- the old broker wants to know ----------------------------------------------------------------------------------

    def on_offer(self, frame: Offer) -> None:
        """Have we taken it? An attempt that is still under way has not got its grant, and will not."""
        arrival = self.of(frame.attempt, frame.client)
        self._say(frame.from_broker, frame.attempt, frame.client, yes=frame.attempt in self.taken)
        if arrival is not None:
            self.begin_anew(arrival)

    def on_released(self, frame: Released) -> None:
        if frame.attempt in self.told_again:
            self.certain(self.taken[frame.attempt][1])
        self._known(frame.attempt)

    def _known(self, attempt: Attempt) -> None:
        self.told_again.pop(attempt, None)
        if self.taken.pop(attempt, None) is not None:
            self.orders.writes.append(Drop("taken", "", str(attempt)))

    def tree_ready(self) -> None:
        for attempt, (owner, client) in self.taken.items():
            self.told_again[attempt] = None
            self._say(owner, attempt, client, yes=True)

    def forgot(self, brokers: list[BrokerId]) -> None:
        for attempt in [attempt for attempt, (owner, _) in self.taken.items() if owner in brokers]:
            self._known(attempt)

    def recover(self, disk: Disk) -> None:
        for name, taken in disk.get("taken", {}).get("", {}).items():
            assert isinstance(taken, tuple)
            broker, _, rest = str(name).rpartition(".")
            boot, _, number = rest.partition("/")
            self.taken[Attempt(broker, int(boot), int(number))] = taken

    # -- given up ----------------------------------------------------------------------------------------------------

    def begin_anew(self, arrival: Arrival) -> None:
        """Let go of everything that came, and look for the session again."""
        self._give_back(arrival)
        arrival.hint = ""
        self.look_for(arrival)

    def begin_later(self, arrival: Arrival) -> None:
        """Too many sessions are leaving the old broker: ask it again in a moment, as long as the client waits."""
        owner = arrival.owner
        self._give_back(arrival)
        arrival.busy = owner

    def drop(self, arrival: Arrival) -> None:
        """The session is not wanted here any more."""
        self._give_back(arrival)
        self.forget(arrival)

    def fail(self, arrival: Arrival, problem: str) -> None:
        self.drop(arrival)
        self.refuse(arrival, Reason.SERVER_UNAVAILABLE, problem)

    def forget(self, arrival: Arrival) -> None:
        """It is here, or not wanted."""
        self.by_client.pop(arrival.client, None)
        self.by_connection.pop(arrival.connection, None)

    def tree_lost(self) -> None:
        for arrival in list(self.by_client.values()):
            self._give_back(arrival)

    def _give_back(self, arrival: Arrival) -> None:
        """Leave the subscriptions, erase the rows, and tell the old broker."""
        if arrival.stage is not Stage.SEEKING:
            self._say(arrival.owner, self.attempt_of(arrival), arrival.client, yes=False)
            self.shadows.drop(arrival.client)  # its owner may have counted on its being used
        self.held_up.pop(arrival.client, None)
        self._leave(arrival)
        arrival.stage, arrival.row, arrival.asked, arrival.heard = Stage.SEEKING, None, False, []
        arrival.number = arrival.pages = arrival.credit = arrival.wave = 0
        arrival.unsure, arrival.waits_for, arrival.answered = (), "", False
        arrival.busy = ""
