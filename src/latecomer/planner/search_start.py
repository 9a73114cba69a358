"""Legal placements to start from: wishes are granted in order, and who is left gets in by moving others on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from latecomer.planner.legality import Placement, check
from latecomer.planner.problem import Problem


@dataclass(slots=True)
class _Board:
    """Who is where, while a placement is being made."""

    problem: Problem
    stores: list[int]
    room: dict[int, int]
    held: dict[int, list[int]] = field(default_factory=dict)
    """store → topics"""
    places: list[list[int]] = field(default_factory=list)

    def may(self, topic: int, store: int, leaving: int = -1) -> bool:
        """Doubles and domains let the topic in, once it has left `leaving`."""
        domain = self.problem.domain
        return all(domain[place] != domain[store] for place in self.places[topic] if place != leaving)

    def fits(self, topic: int, store: int) -> bool:
        return bool(self.room[store] >= self.problem.size[topic])

    def put(self, topic: int, store: int) -> None:
        self.places[topic].append(store)
        self.held[store].append(topic)
        self.room[store] -= int(self.problem.size[topic])

    def take(self, topic: int, store: int) -> None:
        self.places[topic].remove(store)
        self.held[store].remove(topic)
        self.room[store] += int(self.problem.size[topic])

    def make_way(self, topic: int, pinned: frozenset[tuple[int, int]]) -> bool:
        """Put the topic somewhere, with others moving on along the shortest chain of stores."""
        came: dict[int, tuple[int, int]] = {}
        waiting: deque[int] = deque()
        for store in self.stores:
            if self.may(topic, store):
                came[store] = (topic, -1)
                waiting.append(store)
        while waiting:
            store = waiting.popleft()
            mover, _ = came[store]
            if self.fits(mover, store):
                return self._walk_back(store, came)
            for other in self.held[store]:
                if (other, store) in pinned or other == mover:
                    continue
                if self.room[store] + self.problem.size[other] < self.problem.size[mover]:
                    continue
                for target in self.stores:
                    if target not in came and self.may(other, target, store):
                        came[target] = (other, store)
                        waiting.append(target)
        return False

    def _walk_back(self, store: int, came: dict[int, tuple[int, int]]) -> bool:
        done: list[tuple[int, int, int]] = []
        while True:
            mover, origin = came[store]
            if not (self.may(mover, store, origin) and self.fits(mover, store)):
                break  # a topic twice on the way stood in its own way
            if origin >= 0:
                self.take(mover, origin)
            self.put(mover, store)
            done.append((mover, origin, store))
            if origin < 0:
                return True
            store = origin
        for mover, origin, target in reversed(done):
            self.take(mover, target)
            self.put(mover, origin)
        return False


def complete(problem: Problem, stores: Sequence[int], wishes: Iterable[tuple[int, int]]) -> Placement | None:
    """A placement within `stores` (and those pinned) that grants (topic, store) wishes in order; None if stuck.

    Every topic gets as many replicas as it must have, then wishes for more are granted while there is room.
    """
    if len(problem.pinned_stores) > problem.stores:
        return None
    chosen = list(problem.pinned_stores)
    chosen += [store for store in stores if store not in problem.pinned_stores and problem.open[store]]
    chosen = chosen[: problem.stores]
    board = _Board(problem, chosen, {store: int(problem.capacity[store]) for store in chosen})
    board.held = {store: [] for store in chosen}
    board.places = [[] for _ in problem.topics]
    pinned = frozenset(problem.pinned)
    for topic, store in problem.pinned:
        board.put(topic, store)
    wanted, later = problem.fewest.tolist(), []
    for topic, store in wishes:
        if store not in board.room:
            continue
        if len(board.places[topic]) >= wanted[topic]:
            later.append((topic, store))
        elif board.may(topic, store) and board.fits(topic, store):
            board.put(topic, store)
    # Large ones first, then those with most left: the others find room more easily.
    for topic in sorted(range(len(wanted)), key=lambda t: (-int(problem.size[t]), -wanted[t], t)):
        while len(board.places[topic]) < wanted[topic]:
            if not board.make_way(topic, pinned):
                return None
    for topic, store in later:
        enough = len(board.places[topic]) >= problem.most[topic]
        if not enough and board.may(topic, store) and board.fits(topic, store):
            board.put(topic, store)
    found = Placement(tuple(chosen), tuple(tuple(places) for places in board.places))
    return None if check(problem, found) else found


def repair(problem: Problem, placement: Placement) -> Placement | None:
    """The placement with as much of it kept as the limits let; None when no legal one was found near it."""
    kept = [store for store in placement.stores if problem.open[store]]
    others = [broker for broker in range(len(problem.brokers)) if problem.open[broker] and broker not in kept]
    others.sort(key=lambda broker: (-int(problem.capacity[broker]), broker))
    rounds = max((len(places) for places in placement.replicas), default=0)
    wishes = [
        (topic, places[turn])
        for turn in range(rounds)
        for topic, places in enumerate(placement.replicas)
        if turn < len(places)
    ]
    return complete(problem, kept + others, wishes)
