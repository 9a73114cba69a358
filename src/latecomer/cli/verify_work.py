"""A plan's promise beside what was measured: means, their errors, and whether one can be the other.

Both means are of samples. The measured one is of the requests that came since; the predicted one is of those that the
demand was measured from, each taken to its nearest store. So the difference of the two has the variances of both, and
the prediction holds if it is no larger than chance explains. If the demand was not measured, its rates are taken as
exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist

from latecomer.model.applied import Applied, Reach, TopicReach, Verdict
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.plan import Plan
from latecomer.model.topology import Link, Node, Topology

Counts = Mapping[str, Mapping[BrokerId, tuple[int, int, int]]]
"""topic → broker → requests that were answered, the sum of their hops, and of the squares of these."""
ROUNDING = 1e-9
REQUESTS_MIN = 30
"""Below this a mean is not nearly normal, and an interval says little."""


def tree_of(applied: Applied, plan: Plan) -> Topology:
    """The tree on which requests travelled when the plan was applied."""
    brokers = dict.fromkeys([*plan.brokers, *(end for link in applied.links for end in link)])
    return Topology(applied.network, tuple(map(Node, brokers)), tuple(Link(a, b) for a, b in applied.links))


class Distances:
    """From each broker to the nearest planned store of each topic."""

    def __init__(self, plan: Plan, tree: Topology) -> None:
        ids = tree.ids()
        self._position = {broker: position for position, broker in enumerate(ids)}
        self._hops = tree.hop_matrix()
        self._replicas = plan.replicas

    def of(self, topic: str, broker: BrokerId) -> int | None:
        """None: nobody keeps it, or it is not known how far that is."""
        here = self._position.get(broker)
        stores = [self._position[store] for store in self._replicas.get(topic, ()) if store in self._position]
        if here is None:
            return None
        return min((hops for store in stores if (hops := self._hops[here][store]) >= 0), default=None)


def verdict(
    plan: Plan, id: str, tree: Topology, counts: Counts, unserved: int, since_us: int, until_us: int, confidence: float
) -> Verdict:
    """Whether what was measured can be what was predicted."""
    if plan.distance != "hops":
        raise SettingsError(
            "distance", f"the plan was made for {plan.distance}; what a log says is hops, so make one for hops"
        )
    distances = Distances(plan, tree)
    topics = list(_topics(distances, counts))
    measured = _measured([part for row in counts.values() for part in row.values()], unserved)
    expected = _expected(topics)
    predicted = _predicted(plan, distances)
    if measured.requests < 2:
        told = f"{measured.requests} requests for topics of the plan were answered"
        raise LatecomerError(f"{told} in this time, too few to compare: let the network serve, and run this again")
    half = NormalDist().inv_cdf((1 + confidence) / 2) * math.hypot(measured.error, predicted.error)
    low, high = predicted.hops_mean - half, predicted.hops_mean + half
    holds = low - ROUNDING <= measured.hops_mean <= high + ROUNDING
    return Verdict(
        id, since_us, until_us, predicted, expected, measured, low, high, confidence, holds, tuple(topics)
    )  # fmt: skip


def _measured(parts: Iterable[tuple[int, int, int]], unserved: int) -> Reach:
    served = hops = squares = 0
    for part in parts:
        served, hops, squares = served + part[0], hops + part[1], squares + part[2]
    if not served:
        return Reach(0, 0.0, 0.0, unserved)
    error = math.sqrt(max(0, served * squares - hops**2) / served**2 / (served - 1)) if served > 1 else 0.0
    return Reach(served, hops / served, error, unserved)


def _topics(distances: Distances, counts: Counts) -> Iterable[TopicReach]:
    for topic, row in counts.items():
        known = [(broker, *part) for broker, part in row.items() if distances.of(topic, broker) is not None]
        served = sum(part[1] for part in known)
        if served:
            near = sum(part[1] * (distances.of(topic, part[0]) or 0) for part in known)
            yield TopicReach(topic, served, sum(part[2] for part in known) / served, near / served)


def _expected(topics: Iterable[TopicReach]) -> Reach:
    parts = list(topics)
    served = sum(part.requests for part in parts)
    return Reach(served, math.fsum(part.requests * part.expected for part in parts) / served if served else 0.0)


def _predicted(plan: Plan, distances: Distances) -> Reach:
    """The mean is the plan's own word; its error follows from the demand that the plan was made for."""
    mean, demand = plan.prediction.hops_mean, plan.demand
    if demand is None or not demand.requests:
        return Reach(0, mean)
    weighed = [
        (rate, hops)
        for topic, row in demand.rates.items()
        for broker, rate in row.items()
        if rate and (hops := distances.of(topic, broker)) is not None
    ]
    total = math.fsum(rate for rate, _ in weighed)
    if not total:
        return Reach(demand.requests, mean)
    middle = math.fsum(rate * hops for rate, hops in weighed) / total
    variance = math.fsum(rate * (hops - middle) ** 2 for rate, hops in weighed) / total
    return Reach(demand.requests, mean, math.sqrt(variance / demand.requests))
