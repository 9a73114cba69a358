"""The room that is left while topics are assigned, and what may still go where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from latecomer.planner.legality import Placement
from latecomer.planner.problem import Problem


@dataclass(slots=True)
class Ledger:
    """Who keeps what so far. Pinned replicas are there from the start, and count."""

    problem: Problem
    stores: tuple[int, ...]
    kept: list[list[int]] = field(init=False)
    """Per topic its stores, in order of choice."""
    room: list[int] = field(init=False)
    """Per broker the units left."""
    size: list[int] = field(init=False)
    weights: list[int] = field(init=False)
    domain: list[int] = field(init=False)
    pinned: frozenset[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.kept = [[] for _ in self.problem.topics]
        self.room = self.problem.capacity.tolist()
        self.size = self.problem.size.tolist()
        self.weights = self.problem.weights.tolist()
        self.domain = self.problem.domain.tolist()
        self.pinned = frozenset(self.problem.pinned)
        for topic, broker in self.problem.pinned:
            self.put(topic, broker)

    def missing(self, topic: int) -> int:
        return int(self.problem.replicas[topic]) - len(self.kept[topic])

    def put(self, topic: int, store: int) -> None:
        self.kept[topic].append(store)
        self.room[store] -= self.size[topic]

    def move(self, topic: int, source: int, target: int) -> None:
        """Keeps the place in the order of choice."""
        self.kept[topic][self.kept[topic].index(source)] = target
        self.room[source] += self.size[topic]
        self.room[target] -= self.size[topic]

    def apart(self, topic: int, store: int, without: int | None = None) -> bool:
        """Whether no store in the same failure domain has the topic; `without` does not count."""
        domain = self.domain[store]
        return all(self.domain[other] != domain for other in self.kept[topic] if other != without)

    def fits(self, topic: int, store: int, without: int | None = None) -> bool:
        """Whether the store has room, and the topic is not in its failure domain."""
        return self.room[store] >= self.size[topic] and self.apart(topic, store, without)

    def take(self, topic: int, wishes: Sequence[int], most: int) -> int:
        """Up to so many more replicas from the wishes, first come first; how many it were."""
        before = len(self.kept[topic])
        for store in wishes:
            if len(self.kept[topic]) - before >= most:
                break
            if self.fits(topic, store):
                self.put(topic, store)
        return len(self.kept[topic]) - before

    def movable(self, store: int) -> list[int]:
        """The topics of a store that are not pinned to it, the lightest first, the highest index of equals."""
        there = [t for t, places in enumerate(self.kept) if store in places and (t, store) not in self.pinned]
        return sorted(there, key=lambda topic: (self.weights[topic], -topic))

    def placement(self) -> Placement:
        return Placement(self.stores, tuple(tuple(places) for places in self.kept))
