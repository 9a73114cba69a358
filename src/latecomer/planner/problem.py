"""The problem of the planner as arrays: distances, rates, limits. Names end here, and so do fractions.

Rates are whole micro-requests per second, distances and sizes whole numbers. So a sum does not depend on its order,
compiled code gives what slow code gives, and a plan is the same on every machine. Ties go to the lowest index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from latecomer.model.demand import Demand
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.plan import Distance, PlanLimits
from latecomer.model.topology import Topology, quoted
from latecomer.planner.distances import Distances, distances_from_matrix, distances_of
from latecomer.planner.replication import Asked, ByWeight, Replication, SharedSlots, WeightWithin

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
    """[T], k[t]"""
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
    entry: Literal["uniform", "published"] = "uniform",
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
        entry=_entry(demand, brokers, topics) if entry == "published" else np.ones(len(brokers), np.int64),
        stores=_not_negative("stores", limits.stores),
        capacity=capacity,
        size=size,
        replicas=np.ones(len(topics), np.int64),
        rate_limit=_rate_limits(limits, brokers),
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


# --- how many replicas, how many stores ---


def _with_replicas(problem: Problem, limits: PlanLimits, replication: Replication | None) -> Problem:
    rule = replication if replication is not None else _rule(limits)
    weights = tuple(problem.weights.tolist())
    ceiling = tuple(most_replicas(problem, topic) for topic in range(len(problem.topics)))
    room = usable_room(problem, problem.stores) if problem.stores else None
    counts = rule.replicas(Asked(weights, ceiling, tuple(problem.size.tolist()), room))
    topics = {topic: index for index, topic in enumerate(problem.topics)}
    for topic, count in limits.replicas.items():
        key = f"replicas.{topic}"
        if count < 1:
            raise SettingsError(key, f"{count} replicas; every topic needs at least one")
        counts[_index(key, topic, topics, "topic")] = count
    pins = np.bincount([at for at, _ in problem.pinned], minlength=len(counts))
    for at, name in enumerate(problem.topics):
        if name not in limits.replicas:  # no rule gives fewer than are pinned
            counts[at] = max(counts[at], pins[at])
    chosen = replace_problem(problem, replicas=counts)
    return chosen if chosen.stores else replace_problem(chosen, stores=fewest_stores(chosen))


def _rule(limits: PlanLimits) -> Replication:
    least = _not_negative("min_replicas", limits.min_replicas)
    if not limits.stores:
        return ByWeight(max(1, least))
    return WeightWithin(least) if least else SharedSlots()


def most_replicas(problem: Problem, topic: int) -> int:
    """The ceiling of a topic: stores, failure domains, and brokers with a large enough store."""
    fits = problem.open & (problem.capacity >= problem.size[topic])
    domains = len(np.unique(problem.domain[fits]))
    return max(1, min(domains, problem.stores) if problem.stores else domains)


def usable_room(problem: Problem, stores: int) -> int:
    """Units that the best so many stores can be filled with, whatever the sizes.

    Decision: a store is full when the largest topic does not fit any more, so a rule never asks for a perfect packing.
    With sizes of 1 that is all of it.
    """
    best = np.sort(problem.capacity[problem.open])[::-1][:stores]
    return int(np.maximum(best - int(problem.size.max()) + 1, 0).sum())


def fewest_stores(problem: Problem) -> int:
    """As few stores as hold all replicas, the largest first; all that are open when even they do not."""
    needed = int((problem.size * problem.replicas).sum())
    most = int(problem.open.sum())
    room = np.cumsum(np.maximum(np.sort(problem.capacity[problem.open])[::-1] - int(problem.size.max()) + 1, 0))
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


def _rate_limits(limits: PlanLimits, brokers: dict[BrokerId, int]) -> Ints:
    each = _not_negative("request_rate", limits.request_rate)
    found = np.full(len(brokers), round(each * RATE_UNIT) if each else NO_LIMIT, np.int64)
    for broker, rate in limits.request_rates.items():
        key = f"request_rates.{broker}"
        found[_index(key, broker, brokers, "broker")] = round(_not_negative(key, rate) * RATE_UNIT)
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
    if not 0 <= value < LARGEST:
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
    assert len(problem.size) == len(problem.replicas) == topics
    assert int(problem.rates.min()) >= 0
    assert int(problem.entry.min()) >= 0
    total = sum(sum(row) for row in problem.rates.tolist())
    farthest, entries = int(problem.distance.max()), sum(problem.entry.tolist())
    if total * max(1, farthest) >= LARGEST or total * max(1, entries) >= LARGEST:
        told = f"{total / RATE_UNIT:,.0f} requests per second over distances up to {farthest:,} are too many to add up"
        raise SettingsError("rates", f"{told}; divide all rates by a common number")
    sizes, counts, rooms = problem.size.tolist(), problem.replicas.tolist(), problem.capacity.tolist()
    if sum(size * max(1, k) for size, k in zip(sizes, counts, strict=True)) >= LARGEST or sum(rooms) >= LARGEST:
        raise SettingsError("sizes", "the sizes are too large to add up; divide all sizes and capacities by a number")
    return problem
