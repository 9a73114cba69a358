"""The papers' synthetic workload (*planning* §6): trees of brokers, popularity and locality by Zipf's law.

Each topic has a popularity, its share of all requests, and a locality, the part of the network that asks for it: a
broker drawn by chance and its nearest, found breadth first. What the papers do not say is an argument with a name
here, so that a sweep can show whether it matters: which random tree, what a negative exponent means, and what the
largest neighbourhood is.

Rates are whole numbers, in millionths of a request per second, as the planner takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from random import Random
from typing import Literal

import numpy as np
import numpy.typing as npt

from latecomer.model.topology import Link, Node, Topology
from latecomer.model.topology_generators import barabasi_albert, random_tree, tree
from latecomer.planner.distances import Matrix
from latecomer.planner.problem import RATE_UNIT

IntArray = npt.NDArray[np.int64]

TreeKind = Literal["labelled", "recursive", "preferential", "bounded", "balanced"]
Negative = Literal["reversed", "power"]
Neighbourhood = Literal["share", "relative", "spread"]

BOUNDED_LINKS = 4
"""Most links of a broker in a tree of kind `bounded`."""
BALANCED_CHILDREN = 3


# -- trees


def recursive_tree(n: int, random: Random) -> Topology:
    """Each newcomer links to one of those before it, all as likely (a random recursive tree)."""
    return _grown("recursive", n, [random.randrange(newcomer) for newcomer in range(1, n)])


def bounded_tree(n: int, random: Random, links_max: int = BOUNDED_LINKS) -> Topology:
    """Each newcomer links to one of those before it that have fewer than `links_max` links."""
    parents: list[int] = []
    links = [0] * n
    room = [0]
    for newcomer in range(1, n):
        place = random.randrange(len(room))
        parent = room[place]
        parents.append(parent)
        links[parent] += 1
        links[newcomer] = 1
        if links[parent] == links_max:
            room[place] = room[-1]
            room.pop()
        room.append(newcomer)
    return _grown("bounded", n, parents)


def _grown(kind: str, n: int, parents: Sequence[int]) -> Topology:
    ids = [f"b{number}" for number in range(1, n + 1)]
    links = tuple(Link(ids[parent], ids[newcomer]) for newcomer, parent in enumerate(parents, start=1))
    return Topology(f"{kind}-{n}", tuple(Node(id) for id in ids), links)


TREES: dict[TreeKind, Callable[[int, Random], Topology]] = {
    "labelled": random_tree,
    "recursive": recursive_tree,
    "preferential": lambda n, random: barabasi_albert(n, 1, random),
    "bounded": bounded_tree,
    "balanced": lambda n, random: tree(n, BALANCED_CHILDREN),
}
"""`labelled`: all n^(n-2) trees as likely; `preferential`: newcomers link to who has many links;
`balanced`: no chance in it."""


# -- popularity and locality


def powers(count: int, exponent: float, negative: Negative = "reversed") -> list[float]:
    """Zipf's law, the largest being 1: rank ** -exponent, topics being ranked from the first for positive exponents.

    For a negative one the last topic is first. `reversed` takes the law of the absolute value in reversed order;
    `power` takes the formula as it stands, which is another law: with -1 it is linear.
    """
    ranks = range(1, count + 1)
    if exponent >= 0:
        return [rank**-exponent for rank in ranks]
    if negative == "reversed":
        return [rank**exponent for rank in reversed(ranks)]
    return [(rank / count) ** -exponent for rank in ranks]


def shares(count: int, exponent: float, negative: Negative = "reversed") -> list[float]:
    """Zipf's law, adding up to 1."""
    values = powers(count, exponent, negative)
    total = sum(values)
    return [value / total for value in values]


def localities(
    count: int, exponent: float | None, neighbourhood: Neighbourhood = "share", negative: Negative = "reversed"
) -> list[float]:
    """The part of the network that asks for each topic; without an exponent all of it (the papers' uniform locality).

    `share`: as popularity, adding up to 1, so that requests are as many whatever the exponent, as *planning* §6.1.2
    says they are. `relative` and `spread`: the largest is the whole network, so that exponent 0 is uniform locality.
    """
    if exponent is None:
        return [1.0] * count
    law = shares if neighbourhood == "share" else powers
    return law(count, exponent, negative)


def neighbourhood(distances: Matrix, centre: int, size: int, order: Sequence[int]) -> list[int]:
    """`centre` and its nearest; among equally near ones, those first in `order`."""
    rank = {broker: place for place, broker in enumerate(order)}
    return sorted(range(len(distances)), key=lambda broker: (distances[centre, broker], rank[broker]))[:size]


def neighbourhoods(distances: Matrix, parts: Sequence[float], random: Random) -> list[list[int]]:
    """Who asks for each topic. The chance taken does not depend on the parts: when they drift, the centres stay."""
    n = len(distances)
    found = []
    for part in parts:
        order = list(range(n))
        random.shuffle(order)
        size = min(n, max(1, ceil(part * n - 1e-9)))
        found.append(neighbourhood(distances, order[0], size, order))
    return found


def zipf_rates(
    rate: float, popularity: Sequence[float], asking: Sequence[Sequence[int]], brokers: int, *, spread: bool = False
) -> IntArray:
    """`rate` · p[t] requests per second at each broker that asks for t; or, spread, as if all asked and only these did.

    Rates are multiples of the lightest, so that a topic asked for ten times as often is so to the last digit: rules
    that round notice.
    """
    lightest = min(popularity)
    unit = round(rate * lightest * RATE_UNIT)
    rates = np.zeros((len(popularity), brokers), dtype=np.int64)
    for topic, (share, members) in enumerate(zip(popularity, asking, strict=True)):
        each = round(unit * (share / lightest))
        if spread:
            each, rest = divmod(each * brokers, len(members))
            rates[topic, list(members[:rest])] = 1
        rates[topic, list(members)] += each
    return rates


def uniform_rates(topics: int, brokers: int, random: Random) -> IntArray:
    """Between 0 and 1 requests per second for each topic at each broker (*storing* §V)."""
    return np.array([[random.randrange(RATE_UNIT + 1) for _ in range(brokers)] for _ in range(topics)], dtype=np.int64)


# -- replicas and stores, where a paper gives only one of the two

StoreRule = Literal["fit-all", "fit-some", "fit-capped"]


def stores_needed(replicas: Sequence[int], capacity: int, rule: StoreRule = "fit-all") -> int:
    """The least M that keeps all replicas, where the paper gives only min_k.

    `fit-all`: k[t] ≤ M and Σ k[t] ≤ L·M, both as printed. `fit-some`: only Σ k[t] ≤ L·M, with the unlimited k[t], which
    are cut to M afterwards. `fit-capped`: the least M with Σ min(k[t], M) ≤ L·M and at least the least k[t].
    """
    if rule == "fit-capped":
        stores = min(replicas)
        while sum(min(count, stores) for count in replicas) > capacity * stores:
            stores += 1
        return stores
    enough = -(-sum(replicas) // capacity)
    return max(enough, *replicas) if rule == "fit-all" else max(enough, min(replicas))
