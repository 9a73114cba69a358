"""What to do when the walk is stuck: the room left is where the topic is already, or a store has too many requests.

The paper is silent about both. Nothing here touches a pinned replica, and what cannot be repaired is left as it is,
for `legality.check` to tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from latecomer.planner.assignment.ledger import Ledger
from latecomer.planner.cost import serving
from latecomer.planner.problem import NO_LIMIT, Problem

Ints = npt.NDArray[np.int64]
Moves = list[tuple[int, int, int]]
"""(topic, source, target), to be done together."""
ENOUGH = 500
"""Changes that are compared before the best of them is made; more only while none of them helps."""


def squeeze_in(ledger: Ledger, topic: int, wanted: list[int]) -> None:
    """Gives the topic its missing replicas, each by moving one replica of another topic to where room is.

    Decision: the first store in the order of the wishes, and there the topic with the least weight that can go. With
    sizes of 1 and equal capacities that always works while there is room at all: a store that has room and the topic
    keeps fewer others than a full store without it, so one of those can move.
    """
    while ledger.missing(topic) > 0:
        if not ledger.take(topic, wanted, 1) and not any(_make_place(ledger, topic, store) for store in wanted):
            return


def _make_place(ledger: Ledger, topic: int, store: int) -> bool:
    """Moves one topic out of the store, if that lets this one in."""
    if not ledger.apart(topic, store):
        return False
    for other in ledger.movable(store):
        if ledger.room[store] + ledger.size[other] < ledger.size[topic]:
            continue
        for target in ledger.stores:
            if target != store and ledger.fits(other, target, without=store):
                ledger.move(other, store, target)
                ledger.put(topic, store)
                return True
    return False


# --- too many requests ---


def relieve(ledger: Ledger) -> None:
    """Moves replicas until no store is the nearest for more requests than its limit, or nothing helps any more.

    Decision: the move or exchange that takes most off what is too much, the cheapest of equals, then the first; in
    large problems of the first that are looked at.
    """
    problem = ledger.problem
    if (problem.rate_limit == NO_LIMIT).all() or not all(ledger.kept):
        return
    served = [_served(problem, topic, places) for topic, places in enumerate(ledger.kept)]
    total: Ints = np.sum([load for load, _ in served], axis=0)
    while (over := _too_much(problem, total)) > 0:
        best, chosen = (over, 0), None
        for looked_at, moves in enumerate(_changes(ledger, total)):
            if chosen is not None and looked_at >= ENOUGH:
                break
            after, dearer = total, 0
            for topic, source, target in moves:
                places = [target if place == source else place for place in ledger.kept[topic]]
                load, cost = _served(problem, topic, places)
                after, dearer = after + load - served[topic][0], dearer + cost - served[topic][1]
            left = _too_much(problem, after)
            if left < over and (chosen is None or (left, dearer) < best):
                best, chosen = (left, dearer), moves
        if chosen is None:
            return
        for topic, source, target in chosen:
            ledger.move(topic, source, target)
            load, cost = _served(problem, topic, ledger.kept[topic])
            total = total + load - served[topic][0]
            served[topic] = (load, cost)


def _served(problem: Problem, topic: int, places: Sequence[int]) -> tuple[Ints, int]:
    """[N] the requests that go to each store for this topic, and what they cost."""
    nearest = serving(problem, places)
    rates = problem.rates[topic]
    load = np.zeros(len(rates), np.int64)
    np.add.at(load, nearest, rates)
    return load, int((rates * problem.distance[nearest, np.arange(len(rates))]).sum())


def _too_much(problem: Problem, load: Ints) -> int:
    """Requests above the limits, all stores together."""
    limited = problem.rate_limit != NO_LIMIT
    return int((load - problem.rate_limit)[limited].clip(0).sum())


def _changes(ledger: Ledger, load: Ints) -> Iterator[Moves]:
    """What may relieve a store: a topic of it has a replica elsewhere, or exchanges a store with another topic."""
    limit = ledger.problem.rate_limit
    hot = [store for store in ledger.stores if limit[store] != NO_LIMIT and load[store] > limit[store]]
    for topic, places in enumerate(ledger.kept):
        if not any(store in places for store in hot):
            continue
        for source in places:
            if (topic, source) in ledger.pinned:
                continue
            for target in ledger.stores:
                if target in places or not ledger.apart(topic, target, without=source):
                    continue
                if ledger.fits(topic, target, without=source):
                    yield [(topic, source, target)]
                yield from _exchanges(ledger, topic, source, target)


def _exchanges(ledger: Ledger, topic: int, source: int, target: int) -> Iterator[Moves]:
    for other in ledger.movable(target):
        if source in ledger.kept[other] or not ledger.apart(other, source, without=target):
            continue
        grows = ledger.size[topic] - ledger.size[other]
        if ledger.room[target] >= grows and ledger.room[source] >= -grows:
            yield [(topic, source, target), (other, target, source)]
