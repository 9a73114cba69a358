"""The store of a broker: what it keeps, how complete that is, and the answers it is giving (*storing* §III).

A store is a subscriber of its topic classes like any other: what it is owed it gets once and in order, and an event
is reported done only when it is safely kept. Requests are answered by looking up one page after the other, as far as
the asking broker has given credit; nothing is kept for an answer but its place. A page sees everything that was kept
before it was asked for, so an event that reached the store before the request is in the answer.

Completeness. A store knows since when it has had everything of a class (`since_us`), what it has let go of since
(`kept_from_us`) and the gaps in between: it was full, or away for so long that others no longer kept things for it.
It says so in every answer, and `replicas` closes the gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from latecomer.core.advertisements import Advertisements
from latecomer.core.beginnings import Beginnings
from latecomer.core.class_row import ALWAYS, NOT_YET, ClassRow, closed, with_gap
from latecomer.core.clients import Clients, Disk
from latecomer.core.effects import Append, Drop, Lookup, Put, TakeBack
from latecomer.core.inputs import Found, StoreAssigned, StoreBlocked, StoreTrimmed
from latecomer.core.orders import Orders
from latecomer.core.outbox import CLOCK_US, Outbox
from latecomer.core.session.limits import Access
from latecomer.core.settings import BrokerSettings
from latecomer.core.settling import Settling
from latecomer.messages.link import Credit, Request, RequestId, Response, ResponseEnd
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import NOT_SO_FAR, Query
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Kind
from latecomer.model.topics import topic_covers, topic_matches

STORE = "\0store"
"""The subscriber that is the store: no client can have this name."""
REPLICA = "\0replica"
"""In whose name one store asks another: it may have everything."""
RESPONSE_BYTES = 131_072
"""Of events in one response."""
STREAMS_MAX = 16_384
"""Answers that a store has under way; most of them wait for who reads them."""
LOOKUPS_MAX = 8
"""Pages that are looked up at the same time; then it is the turn of another answer."""
CREDIT_MAX = 64
"""Responses under way, whatever the asking broker says (bad input 24)."""
ALIVE_US = 10_000_000
"""How often a store writes down that it is there."""
SET_BACK_US = 60_000_000
"""How far a clock may be set back between two starts, and what a crash left in the store is still found at once."""
PROBLEM_MAX = 200
"""Characters of a problem."""


@dataclass(slots=True)
class Stream:
    """An answer that is being given."""

    id: RequestId
    path: tuple[BrokerId, ...]
    topics: str
    query: Query
    """What is still to be looked up."""
    asked: Query
    user: str
    client: str
    credit: int
    sent: int = 0
    count: int = 0
    looking: int = 0
    """Token of the lookup that is under way."""
    from_us: int = 0
    flaw: str = ""
    """From when on what was sent is complete, and what is missing in it."""


@dataclass(slots=True)
class Store:
    """What this broker keeps for others."""

    broker: BrokerId
    settings: BrokerSettings
    orders: Orders
    clients: Clients
    advertisements: Advertisements
    access: Access
    outbox: Callable[[], Outbox]
    """Of this broker: what its own clients published."""
    settling: Settling
    everybody: Callable[[], bool]
    """Whether all brokers of the network are known, and here."""
    respond: Callable[[Response | ResponseEnd], None]
    keeps: Callable[[], None]
    """Called when the store keeps other topics, or may have missed something: the others are to be asked."""
    beginnings: Beginnings
    rows: dict[str, ClassRow] = field(default_factory=dict)
    """The topic classes."""
    kept_from_us: int = 0
    blocked: bool = False
    streams: dict[RequestId, Stream] = field(default_factory=dict)
    waiting: dict[RequestId, Stream] = field(default_factory=dict)
    """Asked, and not begun."""
    hungry: dict[RequestId, Stream] = field(default_factory=dict)
    """Those with credit whose next page is not looked up yet, in turn."""
    lookups: dict[int, Stream] = field(default_factory=dict)
    under_way: int = 0
    """Lookups that the driver has not answered; some may concern nobody any more."""
    token: int = 0
    alive_due: Instant | None = None
    alive_us: int = 0
    """When the store was last known to be there, before this start."""
    fresh: bool = False
    """This is the first start of this broker."""
    first: dict[str, None] = field(default_factory=dict)
    """Classes assigned at the first start, until it is known whether anything was published before."""
    recovered: dict[str, ClassRow] = field(default_factory=dict)
    retiring: dict[str, ClassRow] = field(default_factory=dict)
    """Classes that are no longer kept, as they were then, for the answers that had begun."""
    awaited: dict[str, tuple[int, BrokerId]] = field(default_factory=dict)
    """Classes of which another store has events that we take when their origin is back: since when, and which."""
    kept: int = 0
    """The newest event of our own clients that the disk knows of."""
    appended: int = 0
    refused: int = 0
    served: int = 0
    served_hops: int = 0
    replayed: int = 0

    def recover(self, disk: Disk) -> None:
        meta = disk.get("meta", {}).get("", {})
        alive_us = meta.get("store_alive", 0)
        assert isinstance(alive_us, int)
        self.alive_us = alive_us
        self.fresh = "epoch" not in meta
        if "kept" in meta or not disk.get("store"):  # the very first write of a store may have been torn
            self._take_back(meta)
        for name, row in disk.get("store", {}).get("", {}).items():
            assert isinstance(row, ClassRow)
            self.recovered[str(name)] = row

    def _take_back(self, meta: Mapping[int | str, object]) -> None:
        """An event of our own clients that the store has and our disk does not know of was never acknowledged: its
        publisher sends it again, and it becomes another event."""
        epoch, kept, stamps_until = meta.get("epoch"), meta.get("kept", 0), meta.get("stamp", 0)
        assert isinstance(kept, int)
        assert isinstance(stamps_until, int)
        if isinstance(epoch, int):
            # It came after the last commit; the clock may have been set back a little since the start before that.
            since_us = max(0, stamps_until - CLOCK_US, self.alive_us - SET_BACK_US)
            self.orders.writes.append(TakeBack(self.broker, epoch, kept, since_us))

    # -- what is kept ----------------------------------------------------------------------------------------------

    def on_assigned(self, fact: StoreAssigned) -> None:
        """Keep these classes from now on, and no others."""
        self.kept_from_us = max(self.kept_from_us, fact.kept_from_us)
        wanted = dict.fromkeys(fact.topics)
        gone = [name for name in self.rows if name not in wanted]
        for name in gone:
            self.retiring[name] = self.rows.pop(name)
            self.beginnings.drop(name)
            self.orders.writes.append(Drop("store", "", name))
            self._unsubscribe(name)
            self.orders.note(Kind.NOT_KEEPING, filter=name)
        self.advertisements.close(gone)
        self._retire(gone)
        for name in wanted:
            if name not in self.rows:
                self._begin(name)
        self.known_to_all(self.beginnings.ask())
        self._forget_recovered()
        if self.fresh and fact.starting:
            self.first = dict.fromkeys(self.rows)
            self.settled_first()
        if fact.gone_us > self.kept_from_us:
            for name, row in list(self.rows.items()):
                if row.since_us < fact.gone_us:
                    self._keep_row(name, with_gap(row, self.kept_from_us, fact.gone_us))
        if self.rows:
            self._stay_alive()
            self._know(self.outbox().next_seq - 1)
        self.keeps()

    def _forget_recovered(self) -> None:
        """Classes that were kept before this start, and are not now."""
        for name in self.recovered:
            if name not in self.rows:
                self.orders.writes.append(Drop("store", "", name))
        self.recovered = {}

    def _begin(self, name: str) -> None:
        now, row = self.orders.now, self.recovered.get(name)
        if row is None or row.since_us > self.alive_us:  # it died before its subscription was sure to be known
            row = ClassRow(NOT_YET)
            self.beginnings.begin(name)
        else:
            row = closed(row, now)  # whether there is room will be seen anew
        if self.blocked:
            row = with_gap(row, now, 0)
        elif name in self.recovered and now - self.alive_us >= self.settings.forget_us // 2:
            row = with_gap(row, self.alive_us, now)  # the others have, or may have, stopped keeping things for us
        self._keep_row(name, row)
        filter = Filter(name)
        self.clients.receivers[STORE] = self.take
        self.clients.subscribers.setdefault(filter, {})[STORE] = None
        self.clients.interested(filter)

    def known_to_all(self, topics: list[str]) -> None:
        """Everybody in the tree knows that we keep these."""
        for name in topics:
            self._keep_row(name, ClassRow(self.beginnings.complete_from(self.orders.now), self.rows[name].gaps))
        if topics:
            self._stay_alive()

    def _unsubscribe(self, name: str) -> None:
        filter = Filter(name)
        subscribers = self.clients.subscribers[filter]
        del subscribers[STORE]
        if not subscribers:
            del self.clients.subscribers[filter]
        self.clients.uninterested(filter)

    def _keep_row(self, name: str, row: ClassRow) -> None:
        self.rows[name] = row
        self.orders.writes.append(Put("store", "", name, row))

    def _stay_alive(self) -> None:
        """The moment from which on a class is complete is written down as well, when it has been lived to see."""
        now = self.orders.now
        self.orders.writes.append(Put("meta", "", "store_alive", now))
        awaited = [row.since_us for row in self.rows.values() if row.since_us > now]
        self.alive_due = self.orders.wake(min((now + ALIVE_US, *awaited)))

    def woken(self) -> None:
        if self.recovered:  # nobody assigned them: nothing is kept, and what others kept for us came to nothing
            self._forget_recovered()
        if self.alive_due is not None and self.alive_due <= self.orders.now:
            self.alive_due = None
            if self.rows:
                self._stay_alive()

    def answer_for(self, topics: list[str]) -> None:
        """These are as complete as they can be: tell everybody."""
        for name in topics:
            if name not in self.advertisements.own:
                self.orders.note(Kind.KEEPING, filter=name)
        self.advertisements.open(topics)

    def settled_first(self) -> None:
        """Decide whether the classes of the first start are complete since the beginning of time: the subscription was
        there before any link, and no broker finished an event before it knew all brokers of this tree."""
        if self.first and self.settling.settled and self.everybody():
            for name in self.first if self.settling.first else ():
                if name in self.rows:
                    self.beginnings.drop(name)
                    self._keep_row(name, ClassRow(ALWAYS, self.rows[name].gaps))
            self.first = {}

    def filled(self, name: str, since_us: int) -> None:
        """Another store had everything of a class since then, and now so have we."""
        row = self.rows.get(name)
        if row is None:
            return
        gaps = tuple(gap for gap in row.gaps if gap[1] == 0 or gap[0] < since_us)
        if since_us < row.since_us:
            self.beginnings.drop(name)
        self._keep_row(name, ClassRow(min(row.since_us, max(since_us, 1)), gaps))

    def awaits(self, name: str, events: list[Event]) -> None:
        """Another store has these, and we take them later: until then answers say that they are missing."""
        first = min(events, key=lambda event: event.published_us)
        since_us, origin = self.awaited.get(name, (first.published_us, first.id.origin))
        self.awaited[name] = (min(since_us, first.published_us), origin)

    def take(self, event: Event, hops: int) -> None:
        """An event that belongs into the store."""
        if event.id.epoch == 0:
            return  # a run has no identities; publishers' brokers stop using them when they hear of the store
        if self.blocked:
            self._widen_gaps(event)
            self.refused += 1
            self.orders.note(Kind.DROPPED, topic=event.topic, event=str(event.id), detail="the store is full")
            return
        self.append(event)

    def _widen_gaps(self, event: Event) -> None:
        """What is refused may have been published long before the store was full."""
        for name, row in list(self.rows.items()):
            start, end = row.gaps[-1]
            if not end and event.published_us < start and topic_matches(name, event.topic):
                self._keep_row(name, ClassRow(row.since_us, (*row.gaps[:-1], (event.published_us, 0))))

    def missed(self, since_us: int, until_us: int) -> None:
        """Somebody did not keep everything of this time for us."""
        for name, row in list(self.rows.items()):
            self._keep_row(name, with_gap(row, since_us, max(1, until_us)))
        if self.rows:
            self.keeps()

    def append(self, event: Event) -> None:
        self.appended += 1
        self.orders.writes.append(Append(event))
        if event.id.origin == self.broker and self.kept < event.id.seq < self.outbox().next_seq:  # not of another epoch
            self._know(event.id.seq)

    def _know(self, newest: int) -> None:
        self.kept = newest
        self.orders.writes.append(Put("meta", "", "kept", newest))

    def on_trimmed(self, fact: StoreTrimmed) -> None:
        self.kept_from_us = max(self.kept_from_us, fact.kept_from_us)
        for name, row in list(self.rows.items()):
            gaps = tuple(gap for gap in row.gaps if gap[1] == 0 or gap[1] >= self.kept_from_us)
            if gaps != row.gaps:
                self._keep_row(name, ClassRow(row.since_us, gaps))

    def on_blocked(self, fact: StoreBlocked) -> None:
        """Bad input 13, for stores: refuse what is new, serve what is old, say so."""
        if fact.blocked == self.blocked:
            return
        self.blocked = fact.blocked
        now = self.orders.now
        for name, row in list(self.rows.items()):
            self._keep_row(name, with_gap(row, fact.since_us or now, 0) if fact.blocked else closed(row, now))
        self.keeps()

    # -- answers ---------------------------------------------------------------------------------------------------

    def serve(self, request: Request) -> None:
        """Answer a request that has found its way here."""
        query = request.query
        stream = Stream(
            request.id,
            request.path,
            request.topics,
            query,
            query,
            request.user,
            request.client,
            min(request.credit, CREDIT_MAX),
        )
        if not self._keeps(stream):
            self._end(stream, f"{self.broker} does not keep {request.topics}"[:PROBLEM_MAX])
        elif not self._permits(stream):
            self._end(stream)  # bad input 16: no hint of what there is
        elif len(self.waiting) + len(self.streams) >= STREAMS_MAX:
            self._end(stream, "too many requests")
        else:
            self.waiting[stream.id] = stream
            self.begin_waiting()

    def _keeps(self, stream: Stream) -> bool:
        if stream.client == REPLICA:
            return any(topic_covers(name, stream.query.filter.topic) for name in self.rows)
        return stream.topics in self.advertisements.own

    def _permits(self, stream: Stream) -> bool:
        return stream.client == REPLICA or self.access.may_request(
            stream.user, stream.client, stream.query.filter.topic
        )

    def begin_waiting(self) -> None:
        """Begin the answers that need wait no longer."""
        for stream in list(self.waiting.values()):
            if stream.client == REPLICA or self.settling.settled:
                del self.waiting[stream.id]
                self.streams[stream.id] = stream
                self._look(stream)

    def on_credit(self, frame: Credit) -> None:
        stream = self.streams.get(frame.id) or self.waiting.get(frame.id)
        if stream is None:
            return
        if frame.credit == 0:
            self._drop(stream)
            return
        stream.credit = max(stream.credit, min(frame.credit, stream.sent + CREDIT_MAX))
        if frame.id in self.streams:
            self._look(stream)

    def _look(self, stream: Stream) -> None:
        if not stream.looking and stream.sent < stream.credit:
            self.hungry[stream.id] = stream
            self._feed()

    def _feed(self) -> None:
        """Look up pages, for one answer after the other."""
        while self.hungry and self.under_way < LOOKUPS_MAX:
            stream = self.hungry.pop(next(iter(self.hungry)))
            self.token += 1
            self.under_way += 1
            stream.looking = self.token
            self.lookups[self.token] = stream
            limits = (self.settings.response_events, RESPONSE_BYTES)
            self.orders.effects.append(Lookup(self.token, stream.query, *limits, expired=stream.client == REPLICA))

    def on_found(self, fact: Found) -> None:
        self.under_way -= 1
        stream = self.lookups.pop(fact.token, None)
        if stream is not None and self.streams.get(stream.id) is stream:
            self._found(stream, fact)
        self._feed()

    def _found(self, stream: Stream, fact: Found) -> None:
        if fact.problem:
            self._end(stream, fact.problem[:PROBLEM_MAX])
            return
        self._judge(stream)
        events, page, query = fact.page.events, fact.page, stream.query
        stream.query = Query(query.filter, query.since_us, query.until_us, 0, page.next)
        if stream.client != REPLICA and not self.access.open_to_all:
            may = self.access.may_receive_past
            events = tuple(event for event in events if may(stream.user, stream.client, event.topic))
        if events or page.next is not None:
            now = self.orders.now
            left = tuple(max(1, event.expires_us - now) if event.expires_us else 0 for event in events)
            stream.count += len(events)
            stream.sent += 1
            self.replayed += len(events)
            self.respond(Response(stream.id, stream.path, self.broker, events, left, page.next))
        stream.looking = 0  # not before: an answer to this very broker brings its credit at once
        if self.streams.get(stream.id) is not stream:
            return
        if page.next is None:
            self._end(stream)
        else:
            self._look(stream)

    def _end(self, stream: Stream, problem: str = "") -> None:
        self._drop(stream)
        hops = len(stream.path)
        self._judge(stream)
        final = not problem  # what the store has been asked, it has answered
        problem = problem or stream.flaw
        if stream.client != REPLICA:
            self.served += 1
            self.served_hops += hops
            peer = stream.path[0] if stream.path else self.broker
            filter = str(stream.asked.filter)
            self.orders.note(
                Kind.SERVED,
                client=stream.client,
                filter=filter,
                peer=peer,
                hops=hops,
                count=stream.count,
                detail=problem,
            )
        self.respond(ResponseEnd(stream.id, stream.path, self.broker, hops, stream.from_us, problem, final))

    def _judge(self, stream: Stream) -> None:
        """What a page lacks stays missing in the answer, though the store may have got it by its end."""
        from_us, flaw = self.completeness(stream.topics, stream.asked)
        stream.from_us, stream.flaw = max(stream.from_us, from_us), stream.flaw or flaw

    def completeness(self, topics: str, query: Query) -> tuple[int, str]:
        """From when on an answer has everything, and what is missing in it, in words."""
        row = self.rows.get(topics) or self.retiring.get(topics)
        if row is None:
            return query.since_us, ""
        begun_us = self.beginnings.complete_from(self.orders.now) if row.since_us == NOT_YET else row.since_us
        floor = max(begun_us, self.kept_from_us)
        from_us = max(query.since_us, floor)
        until = query.until_us or self.orders.now
        if query.since_us and query.since_us < floor and until >= query.since_us and not query.last:
            return from_us, NOT_SO_FAR
        for start, end in row.gaps:
            if start <= until and (end == 0 or end >= from_us):
                return from_us, "the store may have missed something: it was full, or away"
        if topics in self.awaited and self.awaited[topics][0] <= until:
            return from_us, f"events of {self.awaited[topics][1]}, which is away, come when it is back"[:PROBLEM_MAX]
        return from_us, ""

    def _drop(self, stream: Stream) -> None:
        self.streams.pop(stream.id, None)
        self.waiting.pop(stream.id, None)
        self.hungry.pop(stream.id, None)
        if stream.looking:
            self.lookups.pop(stream.looking, None)
        if stream.topics in self.retiring and all(other.topics != stream.topics for other in self.streams.values()):
            del self.retiring[stream.topics]

    def _retire(self, topics: list[str]) -> None:
        """An answer that has begun goes on to its end: what belongs into it was here when it was asked for, and what
        is published later comes to who asked by another way. What was waiting for the tree to settle is for others."""
        for stream in [stream for stream in self.waiting.values() if stream.topics in topics]:
            self._end(stream, f"{self.broker} no longer keeps {stream.topics}"[:PROBLEM_MAX])
        for name in topics:
            if all(stream.topics != name for stream in self.streams.values()):
                self.retiring.pop(name, None)

    def tree_lost(self) -> None:
        """Whoever asked will ask again, in another tree."""
        self.streams.clear()
        self.retiring.clear()
        self.waiting.clear()
        self.hungry.clear()
        self.lookups.clear()
