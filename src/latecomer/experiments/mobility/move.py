"""The messages and hops of one move: a client leaves a broker, and comes to the same or another one.

A pure function of the tree, the brokers, the numbers of subscriptions and events, and the algorithm. Everything that
the experiments count is counted here, so that a test can hold it against the broker core, kind by kind and hop by hop.

What counts (mobility §3 and §4). A message between two brokers costs the hops between them. A subscription or its end
climbs to the root; with covering or advertisements it goes as far as the tables say, which is what `Reach` answers. A
message to or from a client is not counted here.

The steps of §3.1 and the legs that stand for them:

| step | leg | messages | hops each |
|---|---|---|---|
| 2, new broker asks for the session | `ask` | 1 | old–new |
| 2, old broker sends the subscriptions | `row` | subscriptions | old–new |
| 3, new broker subscribes | `subscribe` | subscriptions | new–root |
| 3, new broker has the old one unsubscribe | `release` | 1 | old–new |
| 3, old broker unsubscribes | `unsubscribe` | subscriptions | old–root |
| logging only: which events there are; which are in the log | `outline`, `known` | 1 each | old–new |
| 5, stored events | `event` | stored, but for those in the log | old–new |

The broker core asks twice (for the subscriptions, for the events) and says at the end that it has taken the session.
The paper's `release` is both: compare it with the second `ask`, and add one control message, `taken`, per transfer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec

from latecomer.experiments.mobility.algorithms.algorithm import Algorithm
from latecomer.experiments.mobility.tree import Tree

Kind = Literal[
    "ask", "row", "subscribe", "release", "unsubscribe", "outline", "known", "event", "attach", "grant", "discard"
]
MIGRATION: tuple[Kind, ...] = ("row", "subscribe", "unsubscribe")
"""What the paper calls the migration of subscriptions; the rest but `event` is the protocol's constant overhead."""

Reach = Callable[[int, bool], int]
"""Hops over which the network hears that a broker begins (or ends) to want a client's subscriptions. The walk asks in
the order in which it happens."""


class Leg(NamedTuple):
    """Messages of one kind, and the hops of all of them together."""

    kind: Kind
    messages: int
    hops: int


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one move when it is over."""

    old: int
    """The broker that owns the session when the client leaves: its last one, or its home."""
    new: int
    subscriptions: int = 1
    guesses: tuple[int, ...] = ()
    """Where the client was expected, likeliest first."""
    early: int = 0
    """Events stored at the old broker until what was sent ahead has arrived (the period T2')."""
    stored: int = 0
    """All events that the client missed, the early ones included."""
    logged: int = 0
    """Those of them that are in the new broker's log."""


def departure(tree: Tree, algorithm: Algorithm, absence: Absence, reach: Reach | None = None) -> list[Leg]:
    """What is sent because the client has left."""
    walk = _Walk(tree, algorithm, absence, reach)
    destinations = walk.destinations()
    legs: list[Leg] = []
    for place in destinations:
        legs += [*walk.subscriptions(absence.old, place), walk.sent("release", 1, absence.old, place)]
        if not walk.several():
            legs.append(walk.told("unsubscribe", absence.old))
        legs.append(walk.sent("event", absence.early, absence.old, place))
    return legs


def arrival(tree: Tree, algorithm: Algorithm, absence: Absence, reach: Reach | None = None) -> list[Leg]:
    """What is sent because the client has come."""
    walk = _Walk(tree, algorithm, absence, reach)
    if algorithm.arrival() == "attach":
        if absence.new == absence.old:
            return []
        return [walk.sent(kind, n, absence.old, absence.new) for kind, n in _attached(absence)]
    destinations = walk.destinations()
    if walk.several():
        return walk.among_several(destinations)
    owner = destinations[0] if destinations else absence.old
    if owner == absence.new:
        return []
    return [*walk.fetched(owner), walk.told("unsubscribe", owner)]


def _attached(absence: Absence) -> list[tuple[Kind, int]]:
    return [("attach", 1), ("event", absence.stored)]


def move(tree: Tree, algorithm: Algorithm, absence: Absence, reach: Reach | None = None) -> list[Leg]:
    """All legs of one move."""
    return departure(tree, algorithm, absence, reach) + arrival(tree, algorithm, absence, reach)


class _Walk:
    def __init__(self, tree: Tree, algorithm: Algorithm, absence: Absence, reach: Reach | None) -> None:
        self.tree, self.algorithm, self.absence = tree, algorithm, absence
        self.reach = reach or (lambda broker, begins: tree.depths[broker] * absence.subscriptions)

    def destinations(self) -> tuple[int, ...]:
        """Where the session goes when the client leaves: other brokers than the one where it is."""
        places = dict.fromkeys(self.algorithm.departure(self.absence.guesses))
        return tuple(place for place in places if place != self.absence.old)

    def several(self) -> bool:
        """Whether the old broker stays the owner, as nobody knows which of several is to become it."""
        return len(frozenset(self.algorithm.departure(self.absence.guesses))) > 1

    def sent(self, kind: Kind, messages: int, start: int, end: int) -> Leg:
        return Leg(kind, messages, messages * int(self.tree.hops[start, end]))

    def told(self, kind: Literal["subscribe", "unsubscribe"], broker: int) -> Leg:
        return Leg(kind, self.absence.subscriptions, self.reach(broker, kind == "subscribe"))

    def subscriptions(self, owner: int, place: int) -> list[Leg]:
        """Steps 2 and 3: a broker takes over the subscriptions, which a device may have brought."""
        fetched = [self.sent("ask", 1, owner, place), self.sent("row", self.absence.subscriptions, owner, place)]
        return [*([] if self.algorithm.on_device else fetched), self.told("subscribe", place)]

    def fetched(self, owner: int) -> list[Leg]:
        """Steps 2 to 5, without the end of the owner's subscriptions."""
        absence, place = self.absence, self.absence.new
        legs = [*self.subscriptions(owner, place), self.sent("release", 1, owner, place)]
        travelling = absence.stored
        if self.algorithm.outline() and absence.stored:
            legs += [self.sent("outline", 1, owner, place), self.sent("known", 1, owner, place)]
            travelling -= absence.logged
        return [*legs, self.sent("event", travelling, owner, place)]

    def among_several(self, destinations: Sequence[int]) -> list[Leg]:
        """The client comes to one of the expected brokers, to none of them, or back; all others discard."""
        absence = self.absence
        owner, place = absence.old, absence.new
        legs: list[Leg] = []
        if place in destinations:
            legs += [self.sent("ask", 1, owner, place), self.sent("grant", 1, owner, place)]
        elif place != owner:
            nearest = min((owner, *destinations), key=lambda broker: (self.tree.hops[broker, place], broker))
            legs += self.fetched(nearest)
        if place != owner:
            legs.append(self.told("unsubscribe", owner))
        for other in destinations:
            if other != place:
                legs += [self.sent("discard", 1, owner, other), self.told("unsubscribe", other)]
        return legs


class Sums(NamedTuple):
    """What the legs of one or many moves come to."""

    messages: int
    hops: int
    migration_hops: int
    told_hops: int
    """Of the migration, those of `subscribe` and `unsubscribe`."""
    event_hops: int
    events: int


def summed(legs: Sequence[Leg]) -> Sums:
    events = [leg for leg in legs if leg.kind == "event"]
    return Sums(
        messages=sum(leg.messages for leg in legs),
        hops=sum(leg.hops for leg in legs),
        migration_hops=sum(leg.hops for leg in legs if leg.kind in MIGRATION),
        told_hops=sum(leg.hops for leg in legs if leg.kind in ("subscribe", "unsubscribe")),
        event_hops=sum(leg.hops for leg in events),
        events=sum(leg.messages for leg in events),
    )
