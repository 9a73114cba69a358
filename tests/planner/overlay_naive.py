"""DYNATOPS §III as slow and literal Python: what the compiled loops of the overlay planner are compared with.

Trees are unions of routes, walked hop by hop over points of the ring; a swap is weighed as the difference of two sums
over all topics. Brokers, topics and positions are numbers from 0; `place` is a position number per broker.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, permutations

import numpy as np

from latecomer.model.ring import Ring
from latecomer.planner.overlay.problem import OverlayProblem, make_problem

KINDS = ("even", "hashed", "clustered")


@dataclass(frozen=True)
class Drawn:
    """A random ring with subscriptions, as lists; and the same as the planner's problem."""

    ring: Ring
    sets: list[list[int]]
    """per broker its topics"""
    counts: list[int]
    """per topic its publications"""
    points: list[int]
    """per topic its point"""
    weights: tuple[int, int]
    """of a relay and of a hop"""
    start: list[int]
    delays: list[list[int]] | None = None
    """between brokers; None: every hop is 1"""

    @cached_property
    def problem(self) -> OverlayProblem:
        names = [f"b{number}" for number in range(len(self.sets))]
        relay, delay = self.weights
        return make_problem(
            self.ring,
            names,
            {name: [f"t{topic}" for topic in wanted] for name, wanted in zip(names, self.sets, strict=True)},
            {f"t{topic}": float(count) for topic, count in enumerate(self.counts)},
            delay_weight=delay / relay if relay else float("inf"),
            points={f"t{topic}": point for topic, point in enumerate(self.points)},
            delays=None if self.delays is None else np.array(self.delays),
        )

    @property
    def scale(self) -> int:
        """The planner's costs per one of ours."""
        relay = self.weights[0]
        return self.problem.unit * max(1, self.problem.relay_weight) // max(1, relay)

    @cached_property
    def routes(self) -> list[list[list[int]]]:
        """[root][target] stops, both included"""
        count = len(self.ring.positions)
        return [[route(self.ring, root, target) for target in range(count)] for root in range(count)]

    def roots(self) -> list[int]:
        size = 1 << self.ring.bits
        return [
            min(range(len(self.ring.positions)), key=lambda at: (self.ring.positions[at] - point) % size)
            for point in self.points
        ]


def draw(seed: int, most_brokers: int = 12, most_topics: int = 6) -> Drawn:
    chance = random.Random(seed)
    count, topics = chance.randint(2, most_brokers), chance.randint(1, most_topics)
    kind = chance.choice(KINDS)
    bits = 10
    if kind == "even":
        positions = [(number << bits) // count for number in range(count)]
    elif kind == "hashed":
        positions = sorted(chance.sample(range(1 << bits), count))
    else:
        middle = chance.randrange(1 << bits)
        positions = sorted((middle + offset) % (1 << bits) for offset in chance.sample(range(3 * count), count))
    share = chance.random()
    counts = [chance.choice((0, 1, 1, 2, 5)) for _ in range(topics)]
    counts[chance.randrange(topics)] = 3
    return Drawn(
        Ring(tuple(positions), bits),
        [[topic for topic in range(topics) if chance.random() < share] for _ in range(count)],
        counts,
        [chance.randrange(1 << bits) for _ in range(topics)],
        chance.choice(((1, 1), (1, 0), (1, 3), (2, 1), (0, 1))),
        chance.sample(range(count), count),
    )


def draw_delays(seed: int, most_brokers: int = 12, most_topics: int = 6) -> Drawn:
    """The same with a delay of its own between any two brokers, in each direction."""
    drawn, chance = draw(seed, most_brokers, most_topics), random.Random(f"{seed} delays")
    count = len(drawn.sets)
    return replace(drawn, delays=[[chance.randrange(9) for _ in range(count)] for _ in range(count)])


def route(ring: Ring, start: int, target: int) -> list[int]:
    """The farthest finger not beyond the target, again and again."""
    size, count = 1 << ring.bits, len(ring.positions)
    stops = [start]
    while stops[-1] != target:
        here = ring.positions[stops[-1]]

        def away(at: int, here: int = here) -> int:
            return (ring.positions[at] - here) % size

        fingers = [
            min(range(count), key=lambda at: (ring.positions[at] - here - (1 << bit)) % size)
            for bit in range(ring.bits)
        ]
        stops.append(max((at for at in fingers if 0 < away(at) <= away(target)), key=away))
    return stops


@dataclass(frozen=True)
class Sums:
    external: int
    internal: int
    delay: int
    brokers: list[int]
    longest: int
    relays: list[int]

    def cost(self, drawn: Drawn) -> int:
        return drawn.weights[0] * self.external + drawn.weights[1] * self.delay


def sums(drawn: Drawn, place: Sequence[int]) -> Sums:
    """Everything from the union of routes."""
    external = internal = delay = longest = 0
    relay_weight, delay_weight = drawn.weights
    brokers = [0] * len(place)
    numbers = []
    for topic, root in enumerate(drawn.roots()):
        wanting = [broker for broker, wanted in enumerate(drawn.sets) if topic in wanted]
        places = {place[broker] for broker in wanting}
        inside = {stop for at in places for stop in drawn.routes[root][at]}
        relays = inside - places - {root}
        count = drawn.counts[topic]
        numbers.append(len(relays))
        external += count * len(relays)
        internal += count * len(places - {root})
        who = {at: broker for broker, at in enumerate(place)}
        for broker, at in enumerate(place):
            if at in relays:
                brokers[broker] += count * relay_weight
            if broker in wanting:
                stops = drawn.routes[root][at]
                way = len(stops) - 1
                longest = max(longest, way)
                if drawn.delays is not None:
                    way = sum(drawn.delays[who[a]][who[b]] for a, b in pairwise(stops))
                delay += count * way
                brokers[broker] += count * delay_weight * way
    return Sums(external, internal, delay, brokers, longest, numbers)


def cost(drawn: Drawn, place: Sequence[int]) -> int:
    return sums(drawn, place).cost(drawn)


def swapped(place: Sequence[int], one: int, other: int) -> list[int]:
    found = list(place)
    found[one], found[other] = found[other], found[one]
    return found


def greedy(drawn: Drawn, start: Sequence[int], tries: int = 1) -> list[tuple[int, int, int]]:
    """Algorithm 2 with the neighbourhood of the worst broker: (broker, partner, cost after) of each round."""
    place, path = list(start), []
    while True:
        found = sums(drawn, place)
        order = sorted(range(len(place)), key=lambda broker: (-found.brokers[broker], broker))
        now = found.cost(drawn)
        for worst in order[:tries]:
            costs = [cost(drawn, swapped(place, worst, other)) for other in range(len(place))]
            partner = costs.index(min(costs))
            if costs[partner] < now:
                place = swapped(place, worst, partner)
                path.append((worst, partner, costs[partner]))
                break
        else:
            return path


def optimum(drawn: Drawn) -> int:
    """Of all configurations."""
    return min(cost(drawn, place) for place in permutations(range(len(drawn.sets))))


def fewest_hops(drawn: Drawn) -> int:
    return min(sums(drawn, place).delay for place in permutations(range(len(drawn.sets))))


def configuration(place: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(place, np.int64)
