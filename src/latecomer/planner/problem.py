"""The problem of the planner as arrays: distances, rates, limits. Names end here, and so do fractions.

Rates are whole micro-requests per second, distances and sizes whole numbers. So a sum does not depend on its order,
compiled code gives what slow code gives, and a plan is the same on every machine. Ties go to the lowest index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from latecomer.model.demand import Demand
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.plan import Distance, PlanLimits
from latecomer.model.topology import Topology, quoted
from latecomer.planner.distances import Distances, distances_from_matrix, distances_of
from latecomer.planner.replication import Asked, ByWeight, Free, Replication, SharedSlots, WeightWithin

RATE_UNIT = 1_000_000
"""Units of a rate in one request per second."""
LARGEST = 2**62
"""No sum of the planner may exceed it; then no sum of two of them overflows."""
ENTRY_UNIT = 1_000_000
"""Units of the entry weights in all publications together."""
NO_LIMIT = -1

Ints = npt.NDArray[np.int64]
Unit = Literal["topics", "bytes"]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """N brokers, T topics and what the operator allows. Arrays are never written to."""

    brokers: tuple[BrokerId, ...]
    topics: tuple[str, ...]
    distance: npt.NDArray[Any]
    """[N, N], the smallest integers that fit."""
    toward: npt.NDArray[Any]
    """[N, N]: `toward[j, i]` is the next broker on the way from i to j, j itself when there."""
    rates: Ints
    """[T, N] in micro-requests per second."""
    entry: Ints
    """[N], how much the greedy run with this broker as origin counts (planning §5.2)."""
    stores: int
    """M"""
    capacity: Ints
    """[N] units of a store there; L each in the paper."""
    size: Ints
    """[T] units of a replica; 1 each in the paper."""
    replicas: Ints
    """[T], k[t]; where counts are free, those by weight, from which a search begins."""
    rate_limit: Ints
    """[N] in micro-requests per second, or NO_LIMIT."""
    domain: npt.NDArray[np.int32]
    """[N]; equal numbers are one failure domain."""
    open: npt.NDArray[np.bool_]
    """[N], who may get a store."""
    pinned_stores: tuple[int, ...] = ()
    """All brokers that must be stores, also those with pinned topics; in rising order."""
    pinned: tuple[tuple[int, int], ...] = ()
    """(topic, broker), in rising order."""
    unit: Unit = "topics"
    at_least: Ints | None = None
    """[T] the fewest replicas of each topic where counts are free; None: k[t] exactly."""
    at_most: Ints | None = None
    """[T] the most; None like `at_least`."""

    @property
    def free(self) -> bool:
        """Whether a plan may have other counts than `replicas`."""
        return self.at_least is not None

    @property
    def fewest(self) -> Ints:
        """[T] a plan has no fewer replicas of each topic."""
        return self.replicas if self.at_least is None else self.at_least

    @property
    def most(self) -> Ints:
        """[T] a plan has no more replicas of each topic."""
        return self.replicas if self.at_most is None else self.at_most

    @property
    def weights(self) -> Ints:
        """[T] requests for each topic, from everywhere: w[t] without the common divisor."""
        found: Ints = self.rates.sum(axis=1)
        return found

    @property
    def total_rate(self) -> int:
        return int(self.rates.sum())

    @staticmethod
    def small(
        distance: npt.ArrayLike | Distances,
        rates: npt.ArrayLike,
        stores: int,
        capacity: int,
        replicas: int | Sequence[int],
        *,
        entry: npt.ArrayLike | None = None,
    ) -> Problem:
        """The paper's problem from bare arrays: one L, sizes of 1, everybody open; brokers and topics have numbers."""
        known = distance if isinstance(distance, Distances) else distances_from_matrix(distance)
        table = np.ascontiguousarray(rates, dtype=np.int64)
        topics, count = table.shape
        return _checked(
            Problem(
                brokers=tuple(str(broker) for broker in range(count)),
                topics=tuple(str(topic) for topic in range(topics)),
                distance=known.distance,
                toward=known.toward,
                rates=table,
                entry=np.ones(count, np.int64) if entry is None else np.ascontiguousarray(entry, dtype=np.int64),
                stores=stores,
                capacity=np.full(count, capacity, np.int64),
                size=np.ones(topics, np.int64),
                replicas=np.array(np.broadcast_to(np.asarray(replicas, dtype=np.int64), topics)),
                rate_limit=np.full(count, NO_LIMIT, np.int64),
                domain=np.arange(count, dtype=np.int32),
                open=np.ones(count, np.bool_),
            )
        )


def make_problem(
    topology: Topology,
    demand: Demand,
    limits: PlanLimits,
    distance: Distance = "hops",
    *,
    replication: Replication | None = None,
) -> Problem:
    """Names to numbers, with everything checked; a SettingsError names the key of what cannot be.

    Whether the limits can be met is another question: `legality.infeasible` answers it.
    """
    topology.check()
    demand.check()
    brokers = {broker: index for index, broker in enumerate(topology.ids())}
    topics = {topic: index for index, topic in enumerate(demand.topics)}
    found = distances_of(topology, distance)
    rates = _rates("rates", demand.rates, topics, brokers)
    size, capacity = _units(demand, limits, topics, brokers)
    pinned = _pinned(limits, topics, brokers)
    stores_pinned = [_index("pinned_stores", broker, brokers, "broker") for broker in limits.pinned_stores]
    barred = [_index("barred", broker, brokers, "broker") for broker in limits.barred]
    problem = Problem(
        brokers=tuple(brokers),
        topics=tuple(topics),
        distance=found.distance,
        toward=found.toward,
        rates=rates,
        entry=_entry(demand, brokers, topics) if limits.entry == "published" else np.ones(len(brokers), np.int64),
        stores=_not_negative("stores", limits.stores),
        capacity=capacity,
        size=size,
        replicas=np.ones(len(topics), np.int64),
        rate_limit=_rate_limits(limits, brokers, int(rates.sum())),
        domain=_domains(limits, brokers),
        open=np.isin(np.arange(len(brokers)), barred, invert=True),
        pinned_stores=tuple(sorted({*stores_pinned, *(broker for _, broker in pinned)})),
        pinned=pinned,
        unit="bytes" if limits.capacity_bytes or limits.capacities_bytes else "topics",
    )
    return _checked(_with_replicas(problem, limits, replication))


def replace_problem(problem: Problem, **changes: Any) -> Problem:
    """The same problem with other fields, checked again."""
    fields = {name: getattr(problem, name) for name in Problem.__slots__}
    return _checked(Problem(**{**fields, **changes}))


def with_counts(problem: Problem, counts: Sequence[int] | Ints, **changes: Any) -> Problem:
    """The same problem where each topic has exactly so many replicas."""
    exact = np.array(counts, np.int64)
    return replace_problem(problem, replicas=exact, at_least=None, at_most=None, **changes)


# --- how many replicas, how many stores ---


def _with_replicas(problem: Problem, limits: PlanLimits, replication: Replication | None) -> Problem:
    rule = replication if replication is not None else _rule(limits)
    weights = tuple(problem.weights.tolist())
    ceiling = tuple(most_replicas(problem, topic) for topic in range(len(problem.topics)))
    room = usable_room(problem, problem.stores) if problem.stores else None
    pinned = np.bincount([at for at, _ in problem.pinned], minlength=len(weights)).tolist()
    asked = Asked(weights, ceiling, tuple(problem.size.tolist()), room, tuple(pinned), _given(problem, limits))
    counts = asked.settled(rule.replicas(asked).tolist())
    chosen = replace_problem(problem, replicas=np.array(counts, np.int64))
    if isinstance(rule, Free):
        fewest = np.array(asked.settled([max(1, rule.min_replicas)] * len(weights)), np.int64)
        return replace_problem(chosen, at_least=fewest, at_most=np.maximum(fewest, asked.ceilings()))
    return chosen if chosen.stores else replace_problem(chosen, stores=fewest_stores(chosen))


def _rule(limits: PlanLimits) -> Replication:
    least = _not_negative("min_replicas", limits.min_replicas)
    if limits.rule() == "free":
        if not limits.stores:
            raise SettingsError("replica_rule", "free counts need a number of stores to share; give --stores")
        return Free(max(1, least))
    if not limits.stores:
        return ByWeight(max(1, least))
    return WeightWithin(least) if least else SharedSlots()


def _given(problem: Problem, limits: PlanLimits) -> tuple[int, ...]:
    topics = {topic: index for index, topic in enumerate(problem.topics)}
    found = [0] * len(topics)
    for topic, count in limits.replicas.items():
        key = f"replicas.{topic}"
        if count < 1:
            raise SettingsError(key, f"{count} replicas; every topic needs at least one")
        found[_index(key, topic, topics, "topic")] = _not_negative(key, count)
    return tuple(found)


def most_replicas(problem: Problem, topic: int) -> int:
    """The ceiling of a topic: stores, pinned ones among them, failure domains, and stores that are large enough."""
    fits = problem.open & (problem.capacity >= problem.size[topic])
    domains = np.unique(problem.domain[fits])
    if not problem.stores:
        return max(1, len(domains))
    pinned = np.unique(problem.domain[[broker for broker in problem.pinned_stores if fits[broker]]])
    free = max(0, problem.stores - len(problem.pinned_stores))
    return max(1, len(pinned) + min(free, len(np.setdiff1d(domains, pinned))))


def usable_room(problem: Problem, stores: int) -> int:
    """Units that the best so many stores can be filled with, whatever the sizes.

    Decision: a store is full when the largest topic does not fit any more, so a rule never asks for a perfect packing.
    With sizes of 1 that is all of it.
    """
    return sum(rooms(problem, int(problem.size.max()) - 1)[:stores])


def rooms(problem: Problem, unused: int = 0) -> list[int]:
    """What every further store adds to the room, the pinned ones first and then the best; `unused` units stay empty.

    A failure domain keeps nothing twice, so all its stores together add no more than all topics once.
    """
    each = np.maximum(problem.capacity - unused, 0).tolist()
    left = dict.fromkeys(problem.domain.tolist(), int(problem.size.sum()))

    def adds(broker: int) -> int:
        return int(min(each[broker], left[int(problem.domain[broker])]))

    def taken(broker: int) -> int:
        added = adds(broker)
        left[int(problem.domain[broker])] -= added
        return added

    found = [taken(broker) for broker in problem.pinned_stores]
    others = np.setdiff1d(np.flatnonzero(problem.open), problem.pinned_stores).tolist()
    waiting = [(-adds(broker), broker) for broker in others]
    heapify(waiting)
    while waiting:
        known, broker = waiting[0]
        if -known > adds(broker):  # what a store adds only shrinks
            heapreplace(waiting, (-adds(broker), broker))
            continue
        heappop(waiting)
        found.append(taken(broker))
    return found


def fewest_stores(problem: Problem) -> int:
    """As few stores as hold all replicas, the best first; all that are open when even they do not."""
    needed = int((problem.size * problem.replicas).sum())
    most = int(problem.open.sum())
    room = np.cumsum(rooms(problem, int(problem.size.max()) - 1))
    by_room = int(np.searchsorted(room, needed)) + 1
    return max(1, min(most, max(by_room, int(problem.replicas.max()), len(problem.pinned_stores))))


# --- names to numbers ---


def _rates(
    key: str, named: Mapping[str, Mapping[BrokerId, float]], topics: dict[str, int], brokers: dict[BrokerId, int]
) -> Ints:
    """Decision: a rate is rounded to the nearest micro-request per second, one request in eleven days."""
    table = np.zeros((len(topics), len(brokers)), np.int64)
    for topic, row in named.items():
        for broker, rate in row.items():
            at = _index(f"{key}.{topic}", broker, brokers, "broker")
            table[topics[topic], at] = round(rate * RATE_UNIT)
    return table


def _entry(demand: Demand, brokers: dict[BrokerId, int], topics: dict[str, int]) -> Ints:
    """Where publications enter, all topics together, in millionths; uniform when none were seen."""
    published = _rates("publications", demand.publications, topics, brokers).sum(axis=0)
    total = int(published.sum())
    if not total:
        return np.ones(len(brokers), np.int64)
    return np.array([rate * ENTRY_UNIT // total for rate in published.tolist()], np.int64)


def _units(
    demand: Demand, limits: PlanLimits, topics: dict[str, int], brokers: dict[BrokerId, int]
) -> tuple[Ints, Ints]:
    """Sizes and capacities: topics of size 1, or bytes."""
    each = _not_negative("capacity_bytes", limits.capacity_bytes)
    topics_each = _not_negative("capacity", limits.capacity)
    if not (each or limits.capacities_bytes):
        # Nobody can keep more than everything, so that is what "no limit" comes to.
        return np.ones(len(topics), np.int64), np.full(len(brokers), topics_each or len(topics), np.int64)
    if topics_each:
        raise SettingsError("capacity", "give a capacity in topics or in bytes, not both")
    missing = [topic for topic in topics if topic not in demand.sizes]
    if missing:
        raise SettingsError(
            "sizes", f"a capacity in bytes needs the size of every topic; {quoted(missing[0])} has none"
        )
    size = np.array([demand.sizes[topic] for topic in topics], np.int64)
    everything = sum(demand.sizes.values())
    capacity = np.full(len(brokers), each or everything, np.int64)
    for broker, units in limits.capacities_bytes.items():
        key = f"capacities_bytes.{broker}"
        capacity[_index(key, broker, brokers, "broker")] = min(_not_negative(key, units), everything)
    return size, np.minimum(capacity, everything)


def _rate_limits(limits: PlanLimits, brokers: dict[BrokerId, int], total: int) -> Ints:
    """A limit that all requests together do not reach is none; so limits add up without an overflow."""

    def units(rate: float) -> int:
        found = round(rate * RATE_UNIT)
        return found if found < total else NO_LIMIT

    each = _not_negative("request_rate", limits.request_rate)
    found = np.full(len(brokers), units(each) if each else NO_LIMIT, np.int64)
    for broker, rate in limits.request_rates.items():
        key = f"request_rates.{broker}"
        found[_index(key, broker, brokers, "broker")] = units(_not_negative(key, rate))
    return found


def _domains(limits: PlanLimits, brokers: dict[BrokerId, int]) -> npt.NDArray[np.int32]:
    """A domain has the index of its first broker."""
    found = np.arange(len(brokers), dtype=np.int32)
    first: dict[str, int] = {}
    for broker in limits.domains:
        _index(f"domains.{broker}", broker, brokers, "broker")
    for broker, index in brokers.items():
        if broker in limits.domains:
            found[index] = first.setdefault(limits.domains[broker], index)
    return found


def _pinned(limits: PlanLimits, topics: dict[str, int], brokers: dict[BrokerId, int]) -> tuple[tuple[int, int], ...]:
    found: set[tuple[int, int]] = set()
    for topic, places in limits.pinned_topics.items():
        key = f"pinned_topics.{topic}"
        at = _index(key, topic, topics, "topic")
        found.update((at, _index(key, broker, brokers, "broker")) for broker in places)
    return tuple(sorted(found))


def _index(key: str, name: str, known: Mapping[str, int], kind: str) -> int:
    if name not in known:
        where = "the network" if kind == "broker" else "the demand"
        raise SettingsError(key, f"there is no {kind} {quoted(name)} in {where}")
    return known[name]


def _not_negative(key: str, value: Any) -> Any:
    if value >= LARGEST:
        raise SettingsError(key, f"{value} is too large; leave it out where there is no limit")
    if not value >= 0:
        raise SettingsError(key, f"{value} is not possible; it must be at least 0")
    return value


def _checked(problem: Problem) -> Problem:
    """Shapes are ours to get right; sums that would overflow are the operator's numbers."""
    count, topics = len(problem.brokers), len(problem.topics)
    assert count > 0
    assert topics > 0
    assert problem.distance.shape == problem.toward.shape == (count, count)
    assert problem.rates.shape == (topics, count)
    assert all(len(row) == count for row in (problem.entry, problem.capacity, problem.rate_limit, problem.domain))
    assert len(problem.open) == count
    assert len(problem.size) == len(problem.replicas) == len(problem.fewest) == len(problem.most) == topics
    assert int(problem.rates.min()) >= 0
    assert int(problem.entry.min()) >= 0
    total = sum(sum(row) for row in problem.rates.tolist())
    farthest, entries = int(problem.distance.max()), sum(problem.entry.tolist())
    if total * max(1, farthest) >= LARGEST or total * max(1, entries) >= LARGEST:
        told = f"{total / RATE_UNIT:,.0f} requests per second over distances up to {farthest:,} are too many to add up"
        raise SettingsError("rates", f"{told}; divide all rates by a common number")
    counts = np.maximum(problem.replicas, problem.most).tolist()
    sizes, space = problem.size.tolist(), problem.capacity.tolist()
    if sum(space) >= LARGEST:
        raise SettingsError("capacity", "is too large to add up; leave it out where there is no limit")
    if sum(counts) >= LARGEST:
        raise SettingsError("min_replicas", "is too large to add up; no topic has more replicas than there are brokers")
    if sum(size * max(1, k) for size, k in zip(sizes, counts, strict=True)) >= LARGEST:
        raise SettingsError("sizes", "the sizes are too large to add up; divide all sizes and capacities by a number")
    return problem
