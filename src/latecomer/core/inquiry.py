"""An inquiry: one request for history, as the broker of who asks sees it. `retrieval` says what is done with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from latecomer.messages.link import RequestId
from latecomer.model.event import Event
from latecomer.model.history import Key, Outcome, Query
from latecomer.model.ids import BrokerId, ClientId, EventId, Instant
from latecomer.model.slots import Stamp, Stream
from latecomer.model.topics import topic_matches

WINDOW = 4
"""Responses under way to one request."""
TOPICS_MAX = 4096
"""Topics of an answer that are remembered."""


@dataclass(slots=True)
class Part:
    """What is asked of one store."""

    id: RequestId
    topics: str
    way: BrokerId | None = None
    """The neighbour that was asked, or `SELF`."""
    waiting: deque[tuple[Key, Event]] = field(default_factory=deque)
    """Events that came and were not handed on."""
    place: Key | None = None
    """Everything up to here has come."""
    responses: deque[int] = field(default_factory=deque)
    """How many of `waiting` came with each response that has not been handed on."""
    credit: int = WINDOW
    received: int = 0
    done: bool = False
    hops: int = 0
    store: BrokerId = ""
    since_us: Instant | None = None
    """From when on that store had everything, by its worst word while it answered."""
    heard_at: Instant = 0


@dataclass(slots=True)
class Inquiry:
    """One request for history, from the first question to the last answer."""

    number: int
    query: Query
    user: str
    client: ClientId
    take: Callable[[Sequence[Event]], None]
    """Called with the next events, oldest first, each once. `Retrieval.more` must follow when they have been dealt
    with, perhaps much later: until then at most a few batches more are called up."""
    end: Callable[[Outcome], None]
    """Called once, after the last events were taken *and* `more` was called for them; never after `cancel`."""
    store: BrokerId = ""
    """The only one to ask."""
    published: int = 0
    """The newest event that this broker had taken from its own clients when this was asked."""
    needs: Callable[[Event], bool] | None = None
    """Whether an event that this broker had when this was asked comes to who asks in no other way; None: nobody cares.
    """
    had: dict[Stream, Stamp] = field(default_factory=dict)
    """The newest events that this broker had had from others when this was asked (`Seen.newest`)."""
    owed: dict[EventId, Key] = field(default_factory=dict)
    """Events of origins that are away, which this broker has had and the stores that are asked must have, too; less
    those that came."""
    absent: tuple[BrokerId, ...] = ()
    """Brokers that were away when the parts were asked."""
    first: Key | None = None
    """The first event that was handed on."""
    parts: list[Part] = field(default_factory=list)
    place: Key | None = None
    """Everything up to here has been handed on."""
    known: dict[str, bool] = field(default_factory=dict)
    """Topics that came, and whether they were asked for."""
    flaw: str = ""
    """What may be missing in what was handed on, whoever goes on with it."""
    behind: Key | None = None
    """The parts were asked for what stands behind this place."""
    given: int = 0
    """Events that have been handed on."""
    last: int = 0
    """How many the parts were asked for, the newest; 0: all that stand behind the place."""
    scope: tuple[str, ...] = ()
    """The classes that were asked, or the topics of the query itself where these hold all of it."""
    begun: tuple[str, ...] = ()
    """Those in which events were found: where the last ones begin is known there."""
    busy: bool = False
    """The taker has not dealt with the last events yet."""
    attempts: int = 0
    failed: list[BrokerId | None] = field(default_factory=list)
    """Ways that led to no answer."""
    alone_since: Instant | None = None
    """Since when nobody has kept what is asked for."""
    retry_at: Instant | None = None
    stores: dict[BrokerId, None] = field(default_factory=dict)
    hops: int = 0
    from_us: int = 0
    problem: str = ""

    def next_query(self, scope: tuple[str, ...]) -> Query | None:
        """What is still to be asked for in these classes; None if nothing is."""
        asked, whole = self.query, (self.query.filter.topic,)
        if self.place != self.behind and self.begun != whole:
            self.begun = self.scope
        self.scope, self.behind = scope, self.place
        if not self.resumed:
            self.last = asked.last
            return asked
        if not asked.last or self.begun in (scope, whole):
            self.last = 0
            return Query(asked.filter, asked.since_us, asked.until_us, 0, self.place)
        # What stands before the place comes once more, and is passed over: `last` and `after` do not go together.
        self.last = asked.last - self.given
        return Query(asked.filter, asked.since_us, asked.until_us, self.last) if self.last > 0 else None

    def outcome(self) -> Outcome:
        return Outcome(tuple(self.stores), self.hops, self.from_us, not self.problem, self.problem)

    @property
    def resumed(self) -> bool:
        """Whether the parts go on where others have stopped."""
        return self.behind != self.query.after

    def fits(self, topic: str) -> bool:
        """Whether a topic was asked for."""
        fits = self.known.get(topic)
        if fits is None:
            if len(self.known) >= TOPICS_MAX:
                self.known.clear()
            fits = self.known[topic] = topic_matches(self.query.filter.topic, topic)
        return fits
