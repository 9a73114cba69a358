"""What a session remembers while history is handed to it: recalls, live events that are held, and what was given."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import NOT_SO_FAR, Key, Outcome, Query, key_of
from latecomer.model.ids import EventId, Instant
from latecomer.model.slots import NEVER, Stamp, Stream
from latecomer.model.topics import topic_matches

if TYPE_CHECKING:
    from latecomer.core.inquiry import Inquiry
    from latecomer.core.session.state import Grade

GIVEN_MAX = 65_536
"""Events of the past whose ids a session remembers one by one."""
FIRST = "\0"
"""Stands before the name of every broker."""

Lane = tuple[Stream, bool]
"""Stream (`model/slots`), and whether reliable: in a lane events come in the order of their numbers. An unreliable
event waits for nobody, and may overtake reliable ones of its stream."""
LaneOf = Callable[[Event], Lane]
NOTHING = Outcome()


def lane_of(event: Event) -> Lane:
    """The lane of an event where there are no slots."""
    return (event.id.origin, event.reliable)


def stamp_of(event: Event) -> Stamp:
    return (event.id.epoch, event.id.seq)


def has_identity(event: Event) -> bool:
    """What the fast path carried from broker to broker has no id of its own."""
    return event.id.epoch > 0


def size_of(event: Event) -> int:
    """About how many bytes it takes."""
    return len(event.payload) + len(event.topic) + 100


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """Live events that were let go of, because a store has them: in each lane everything from the first one on."""

    lowest: Key
    firsts: dict[Lane, Stamp]
    count: int

    def holds(self, event: Event, lane: Lane) -> bool:
        first = self.firsts.get(lane)
        return first is not None and stamp_of(event) >= first

    def wider(self, event: Event, lane: Lane) -> Gap:
        """With one more, which came behind all others of its lane."""
        firsts = self.firsts if lane in self.firsts else {**self.firsts, lane: stamp_of(event)}  # come in order
        return Gap(min(self.lowest, key_of(event)), firsts, self.count + 1)


def gap_of(event: Event, lane: Lane) -> Gap:
    return Gap(key_of(event), {}, 0).wider(event, lane)


def joined(earlier: Gap | None, later: Gap | None) -> Gap | None:
    """Two gaps as one."""
    if earlier is None or later is None:
        return earlier or later
    return Gap(
        min(earlier.lowest, later.lowest),
        {**later.firsts, **earlier.firsts},
        earlier.count + later.count,
    )


class RecallRow(msgspec.Struct, frozen=True, array_like=True):
    """A recall as it stands on disk, beside the live events that are held for it."""

    query: Query
    """Of this round, from its beginning."""
    place: Key | None
    """History has been handed over up to here."""
    count: int
    lowest: Key | None
    newest: dict[Lane, Stamp]
    fetching: Gap | None
    missing: Gap | None
    outcome: Outcome
    over_us: int
    """0: it is still under way."""
    carried: tuple[Instant, str] = (0, "")


@dataclass(slots=True, eq=False)
class Recall:
    """The history of one subscription, on its way to the client."""

    text: str
    """Of the subscription."""
    query: Query
    lane_of: LaneOf
    place: Key | None = None
    count: int = 0
    lowest: Key | None = None
    """History was asked for from here on; None: nobody knows yet, since the last ones were asked for."""
    newest: dict[Lane, Stamp] = field(default_factory=dict)
    """The newest event given in each lane."""
    passed: dict[Lane, Stamp] = field(default_factory=dict)
    """In each lane, what is not newer was given, and is no longer remembered one by one."""
    fetching: Gap | None = None
    """What this round is to bring; None: the first round, which brings history."""
    missing: Gap | None = None
    """What was let go of in this round, and the next one is to bring."""
    outcome: Outcome = NOTHING
    """Of the rounds before."""
    carried: tuple[Instant, str] = (0, "")
    """What was given in this round before an interruption: from when on it is complete, and what may be missing."""
    over_us: Instant = 0
    inquiry: Inquiry | None = None
    begun: int = 0
    """How many events the session had been given when this began (`Past.gifts`)."""
    had: dict[Stream, Stamp] = field(default_factory=dict)
    """The newest events that this broker had had from others when this began (`Seen.newest`)."""
    asked: int = 0
    """Counts questions: answers to an earlier one mean nothing."""
    batches: deque[deque[Event]] = field(default_factory=deque)
    """What came and was not handed over."""
    overdue: dict[Lane, Stamp] = field(default_factory=dict)
    """In each lane, up to where it was looked whether held events are due before the next of history."""
    early: dict[EventId, None] = field(default_factory=dict)
    """Held events that were found to be due, and put in front."""
    ended: Outcome | None = None
    """How this round ended."""
    changed: bool = True
    """What stands on disk is out of date."""

    @property
    def running(self) -> bool:
        return not self.over_us

    @property
    def filter(self) -> Filter:
        return self.query.filter

    def next_query(self) -> Query:
        """What is still to come of this round."""
        query = self.query
        if self.place is None:
            return query
        return Query(query.filter, query.since_us, query.until_us, 0, self.place)

    def miss(self, event: Event) -> None:
        lane = self.lane_of(event)
        self.missing = gap_of(event, lane) if self.missing is None else self.missing.wider(event, lane)
        self.changed = True

    def needs(self, event: Event) -> bool:
        """Whether an event that this broker has had must come in this round: it was there before the subscription, or
        was let go of."""
        if self.fetching is not None:
            return self.fetching.holds(event, self.lane_of(event))
        stream, _ = self.lane_of(event)
        return stamp_of(event) <= self.had.get(stream, NEVER)

    def asks_for(self, event: Event) -> bool:
        """Whether this round asks the stores for an event."""
        if self.lowest is None or key_of(event) < self.lowest:
            return False
        if self.query.until_us and event.published_us > self.query.until_us:
            return False
        return self.fetching is None or self.fetching.holds(event, self.lane_of(event))

    def unasked(self, event: Event) -> bool:
        """Whether something newer of its lane was given, and the event lies before what was asked for, or the client
        has been told that it may be missing: its turn is over."""
        if stamp_of(event) > self.newest.get(self.lane_of(event), NEVER):
            return False
        if self.lowest is not None and key_of(event) < self.lowest:
            return True
        lacking = not self.outcome.complete or event.published_us < self.outcome.from_us
        return lacking and not self.running and has_identity(event)

    def row(self) -> RecallRow:
        return RecallRow(
            self.query,
            self.place,
            self.count,
            self.lowest,
            dict(self.newest),
            self.fetching,
            self.missing,
            self.outcome,
            self.over_us,
            self.carried,
        )

    def carrying(self, from_us: Instant, flaw: str) -> tuple[Instant, str]:
        """What is carried if the round is interrupted now: who goes on with it knows nothing of what was given."""
        if self.place is None:
            return self.carried
        return max(self.carried[0], from_us), self.carried[1] or flaw

    def end(self, outcome: Outcome) -> None:
        """All of this round has come. The client may leave before there is room for the marker, and then somebody
        else is asked whether there is more."""
        self.inquiry, self.ended = None, outcome
        if outcome.stores:
            self.carried, self.changed = self.carrying(outcome.from_us, outcome.problem), True

    def add(self, ended: Outcome) -> None:
        """A round has ended; what was kept for how long is known from the first: what a later one lacks of the time
        before that, the client has been told."""
        first, before = self.fetching is None, self.outcome
        from_us, flaw = self.carried
        if not first and max(from_us, ended.from_us) <= before.from_us:
            if ended.problem == NOT_SO_FAR:
                ended = msgspec.structs.replace(ended, complete=True, problem="")
            flaw = "" if flaw == NOT_SO_FAR else flaw
        self.outcome = Outcome(
            ended.stores if first else tuple(dict.fromkeys(before.stores + ended.stores)),
            ended.hops if first else max(before.hops, ended.hops),
            max(from_us, ended.from_us) if first else before.from_us,
            (first or before.complete) and ended.complete and not flaw,
            ("" if first else before.problem) or ended.problem or flaw,
        )
        self.carried = (0, "")


def recall_of(text: str, row: RecallRow, lane_of: LaneOf) -> Recall:
    """A recall as it was. Ids are not on disk one by one; the newest of each lane says nearly as much."""
    recall = Recall(text, row.query, lane_of, row.place, row.count, row.lowest, dict(row.newest), dict(row.newest))
    recall.fetching, recall.missing = row.fetching, row.missing
    recall.outcome, recall.over_us, recall.changed = row.outcome, row.over_us, False
    recall.carried = row.carried
    return recall


@dataclass(slots=True)
class Held:
    """A live event that waits."""

    event: Event
    hops: int
    stored: bool
    """It stands on disk."""
    fetchable: bool
    """A store has it, and some recall can bring it."""


class Gift(NamedTuple):
    """That history gave an event: by which recall, in which turn."""

    recall: Recall
    lane: Lane
    number: int


@dataclass(slots=True)
class Past:
    """All recalls of a session, and the live events that wait for them."""

    lane_of: LaneOf
    recalls: dict[str, Recall] = field(default_factory=dict)
    """By text of the subscription; those that are over stay for a while, because of what they gave."""
    orphans: list[Recall] = field(default_factory=list)
    """Whose subscription is gone while events wait: whatever comes must not overtake them."""
    held: dict[int, Held] = field(default_factory=dict)
    """In the order in which they came."""
    by_id: dict[EventId, int] = field(default_factory=dict)
    lanes: dict[Lane, dict[int, Stamp]] = field(default_factory=dict)
    """Those with an id by lane, in order."""
    held_bytes: int = 0
    fetchable: int = 0
    """How many of them are."""
    arrivals: int = 0
    releasable: deque[int] = field(default_factory=deque)
    """Those who wait for nothing but the client."""
    given: OrderedDict[EventId, Gift] = field(default_factory=OrderedDict)
    """What history gave, oldest first. (Of a plain dict the first one is found only behind all that were removed.)"""
    gifts: int = 0
    """How many there were."""
    number: int = 0
    """Of the newest delivery of QoS 1 or 2 that nothing of QoS 0 may overtake."""
    grades: dict[str, Grade | None] = field(default_factory=dict)
    """What the recalls under way make of a topic, where no content decides; None: the client may not have it."""
    busy: bool = False
    """Something is being handed over: whoever asks for that to happen need not."""

    def running(self) -> list[Recall]:
        return [recall for recall in self.recalls.values() if recall.running]

    def concerns(self, topic: str) -> bool:
        """Whether live events of a topic may have to wait, or may have been given."""
        return bool(self.orphans) or any(topic_matches(r.filter.topic, topic) for r in self.recalls.values())

    # -- live events that wait ---------------------------------------------------------------------------------------

    def hold(self, item: Held) -> int:
        self.arrivals += 1
        self.put(self.arrivals, item)
        return self.arrivals

    def put(self, number: int, item: Held) -> None:
        self.held[number] = item
        self.held_bytes += size_of(item.event)
        self.fetchable += item.fetchable
        if has_identity(item.event):
            self.by_id[item.event.id] = number
            self.lanes.setdefault(self.lane_of(item.event), {})[number] = stamp_of(item.event)

    def let_go(self, number: int) -> Held:
        item = self.held.pop(number)
        self.held_bytes -= size_of(item.event)
        self.fetchable -= item.fetchable
        if has_identity(item.event):
            del self.by_id[item.event.id]
            lane = self.lane_of(item.event)
            del self.lanes[lane][number]
            if not self.lanes[lane]:
                del self.lanes[lane]
        return item

    def between(self, lane: Lane, after: Stamp, before: Stamp) -> list[Event]:
        """Held events of a lane that stand between two others."""
        found = []
        for number, stamp in self.lanes.get(lane, {}).items():
            if stamp >= before:
                break
            if stamp > after:
                found.append(self.held[number].event)
        return found

    # -- what was given ----------------------------------------------------------------------------------------------

    def remember(self, recall: Recall, event: Event) -> None:
        lane = self.lane_of(event)
        recall.newest[lane] = max(stamp_of(event), recall.newest.get(lane, NEVER))
        self.given.pop(event.id, None)
        self.gifts += 1
        self.given[event.id] = Gift(recall, lane, self.gifts)
        if len(self.given) > GIVEN_MAX:
            id, gift = self.given.popitem(last=False)
            passed = gift.recall.passed
            passed[gift.lane] = max((id.epoch, id.seq), passed.get(gift.lane, NEVER))

    def given_since(self, recall: Recall, event: Event) -> bool:
        """Whether another recall has given an event since this one began."""
        gift = self.given.get(event.id)
        return gift is not None and gift.number > recall.begun

    def was_given(self, event: Event, recalls: Iterable[Recall]) -> bool:
        """Whether history gave an event that these recalls ask for."""
        if not has_identity(event):
            return False
        if event.id in self.given:
            return True
        lane, stamp = self.lane_of(event), stamp_of(event)
        return any(
            stamp <= recall.passed.get(lane, NEVER) and recall.lowest is not None and key_of(event) >= recall.lowest
            for recall in recalls
        )

    def adopt(self, before: Recall, recall: Recall) -> None:
        """One recall takes the place of another; what was given was given."""
        for id, gift in self.given.items():
            if gift.recall is before:
                self.given[id] = Gift(recall, gift.lane, gift.number)

    def forget(self, recall: Recall) -> None:
        kept = ((id, gift) for id, gift in self.given.items() if gift.recall is not recall)
        self.given = OrderedDict(kept)
