"""Small problems with every kind of limit, and all their placements one by one, to measure the searches against."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice, product
from random import Random

import numpy as np

from latecomer.planner.cost import cost
from latecomer.planner.legality import Placement, check, infeasible
from latecomer.planner.problem import Problem, most_replicas, replace_problem
from tests.planner.instances import instance


def limited(seed: int, *, most_brokers: int = 6, most_topics: int = 3) -> Problem:
    """A random problem; each kind of limit in some of them. It may be impossible to keep."""
    problem = instance(seed, most_brokers=most_brokers, most_topics=most_topics).problem
    chance = Random(seed + 1)
    count, topics = len(problem.brokers), len(problem.topics)
    changes: dict[str, object] = {}
    if chance.random() < 0.4:
        changes["size"] = np.array([chance.randint(1, 4) for _ in range(topics)], np.int64)
        changes["capacity"] = np.array([chance.randint(2, 9) for _ in range(count)], np.int64)
    if chance.random() < 0.3:
        changes["domain"] = np.array([chance.randrange(count) for _ in range(count)], np.int32)
    if chance.random() < 0.3:
        most = int(problem.rates.sum()) + 1
        limits = [chance.choice((-1, chance.randint(0, most), most)) for _ in range(count)]
        changes["rate_limit"] = np.array(limits, np.int64)
    if chance.random() < 0.3:
        pins = [(topic, chance.randrange(count)) for topic in range(topics) if chance.random() < 0.5]
        changes["pinned"] = tuple(pins)
        pinned = [broker for _, broker in pins] + ([chance.randrange(count)] if chance.random() < 0.3 else [])
        changes["pinned_stores"] = tuple(sorted(frozenset(pinned)))
    return replace_problem(problem, **changes)


def freed(seed: int, *, fewest: int = 1) -> Problem:
    """The same with free counts: of some topics at least two replicas, of some topics a given number."""
    problem = limited(seed, most_brokers=5)
    chance = Random(seed + 2)
    topics = range(len(problem.topics))
    pins = [sum(1 for topic, _ in problem.pinned if topic == one) for one in topics]
    least = [max(fewest, pins[topic], chance.choice((1, 1, 2))) for topic in topics]
    most = [max(least[topic], most_replicas(problem, topic)) for topic in topics]
    if chance.random() < 0.2:
        most[0] = least[0] = max(fewest, pins[0], int(problem.replicas[0]))
    counts = np.clip(problem.replicas, least, most)
    return replace_problem(problem, replicas=counts, at_least=np.array(least), at_most=np.array(most))


def placements(problem: Problem) -> Iterator[Placement]:
    """All legal placements that have no empty store but the pinned ones, with every count that is allowed."""
    if infeasible(problem):
        return
    places = np.flatnonzero(problem.open).tolist()
    choices = [
        [chosen for count in range(int(least), int(most) + 1) for chosen in combinations(places, count)]
        for least, most in zip(problem.fewest, problem.most, strict=True)
    ]
    for replicas in product(*choices):
        stores = sorted({*problem.pinned_stores, *(place for kept in replicas for place in kept)})
        found = Placement(tuple(stores), replicas)
        if not check(problem, found):
            yield found


def optimum(problem: Problem) -> int | None:
    """The least cost of all placements; None when there is none."""
    return min((cost(problem, found.replicas) for found in placements(problem)), default=None)


def some_placement(problem: Problem, seed: int) -> Placement | None:
    """One of the first legal placements, by chance."""
    chance = Random(seed)
    skip = chance.randrange(40)
    few = list(islice(placements(problem), skip + 1))
    return few[-1] if few else None
