"""Random problems for the planner, small enough for the naive transcription; a seed is an instance."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np

from latecomer.model.plan import Distance
from latecomer.model.topology import Link, Node, Topology
from latecomer.planner.distances import distances_of
from latecomer.planner.problem import Problem, replace_problem


@dataclass(frozen=True)
class Instance:
    """The same problem twice: as the naive form reads it, and as the planner does."""

    count: int
    graph: tuple[tuple[int, int, int], ...]
    rates: tuple[tuple[int, ...], ...]
    replicas: tuple[int, ...]
    stores: int
    capacity: int
    entry: tuple[int, ...]
    allowed: tuple[bool, ...]
    problem: Problem


def network(chance: Random, count: int, *, latency: bool) -> tuple[tuple[int, int, int], ...]:
    """A random tree, and in half of the cases some more links; lengths of 1, or of 0 to 5."""
    numbers = list(range(count))
    chance.shuffle(numbers)
    pairs = [(numbers[at], numbers[chance.randrange(at)]) for at in range(1, count)]
    if chance.random() < 0.5:
        for _ in range(chance.randrange(count + 1)):
            a, b = chance.randrange(count), chance.randrange(count)
            if a != b and (a, b) not in pairs and (b, a) not in pairs:
                pairs.append((a, b))
    return tuple((a, b, chance.randrange(6) if latency else 1) for a, b in pairs)


def topology(count: int, graph: tuple[tuple[int, int, int], ...]) -> Topology:
    """The graph with its lengths as latencies; names sort like the numbers."""
    nodes = tuple(Node(f"{broker:03}") for broker in range(count))
    return Topology("random", nodes, tuple(Link(f"{a:03}", f"{b:03}", length) for a, b, length in graph))


def instance(seed: int, *, most_brokers: int = 8, most_topics: int = 3) -> Instance:
    """Small rates make ties, many zeros make topics of few places or of none."""
    chance = Random(seed)
    count, topics = chance.randint(1, most_brokers), chance.randint(1, most_topics)
    kind: Distance = chance.choice(("hops", "latency"))
    graph = network(chance, count, latency=kind == "latency")
    highest, zeros = chance.choice((1, 3, 1000)), chance.choice((0.0, 0.3, 0.8))
    rates = tuple(
        tuple(0 if chance.random() < zeros else chance.randint(0, highest) for _ in range(count)) for _ in range(topics)
    )
    stores = chance.randint(1, count)
    replicas = tuple(chance.randint(1, stores) for _ in range(topics))
    capacity = chance.randint(-(-sum(replicas) // stores), topics)
    uniform = chance.random() < 0.5
    entry = tuple(1 if uniform else chance.randint(0, 4) for _ in range(count))
    everybody = chance.random() < 0.7
    allowed = tuple(everybody or chance.random() < 0.7 for _ in range(count))
    found = distances_of(topology(count, graph), kind)
    problem = Problem.small(found, rates, stores, capacity, replicas, entry=entry)
    return Instance(
        count, graph, rates, replicas, stores, capacity, entry, allowed,
        replace_problem(problem, open=np.array(allowed)),
    )  # fmt: skip
