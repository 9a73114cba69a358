"""Whether a placement keeps all limits, and whether any can: sentences, none when all is well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from latecomer.model.errors import SettingsError
from latecomer.model.topology import quoted
from latecomer.planner.cost import loads
from latecomer.planner.problem import NO_LIMIT, RATE_UNIT, Problem, most_replicas, rooms


@dataclass(frozen=True, slots=True)
class Placement:
    """An answer: indices of stores, and per topic those of its replicas, both in order of choice."""

    stores: tuple[int, ...]
    replicas: tuple[tuple[int, ...], ...]


class Infeasible(SettingsError):
    """No placement keeps all limits, or none was found that does; `reasons` says which and by how much."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("limits", "; ".join(reasons))


def check(problem: Problem, placement: Placement) -> list[str]:
    """Every limit that the placement breaks, as a sentence."""
    return [
        *_check_stores(problem, placement),
        *_check_replicas(problem, placement),
        *_check_capacity(problem, placement),
        *_check_rates(problem, placement),
    ]


def infeasible(problem: Problem) -> list[str]:
    """Limits that no placement can keep, with how much is missing; an empty list is no promise that one is found."""
    return [
        *_too_few_brokers(problem),
        *_too_many_replicas(problem),
        *_too_little_room(problem),
        *_pins_in_the_way(problem),
        *_too_much_demand(problem),
    ]


# --- a placement ---


def _check_stores(problem: Problem, placement: Placement) -> list[str]:
    found: list[str] = []
    if len(placement.stores) > problem.stores:
        found.append(f"{len(placement.stores)} stores are {len(placement.stores) - problem.stores} too many")
    if len(frozenset(placement.stores)) != len(placement.stores):
        found.append("a store is chosen twice")
    found += [
        f"{_broker(problem, store)} is barred and has a store" for store in placement.stores if not problem.open[store]
    ]
    chosen = frozenset(placement.stores)
    found += [
        f"{_broker(problem, pinned)} is pinned and has no store"
        for pinned in problem.pinned_stores
        if pinned not in chosen
    ]
    return found


def _check_replicas(problem: Problem, placement: Placement) -> list[str]:
    found: list[str] = []
    chosen = frozenset(placement.stores)
    if len(placement.replicas) != len(problem.topics):
        return [f"replicas of {len(placement.replicas)} topics, but there are {len(problem.topics)}"]
    for topic, kept in enumerate(placement.replicas):
        name, fewest, most = _topic(problem, topic), int(problem.fewest[topic]), int(problem.most[topic])
        if len(frozenset(kept)) != len(kept):
            found.append(f"{name} is twice in one store")
        if not fewest <= len(kept) <= most:
            found.append(f"{name} has {len(kept)} of {fewest if len(kept) < fewest else most} replicas")
        found += [f"{name} is at {_broker(problem, b)}, which has no store" for b in kept if b not in chosen]
        for a, b in combinations(kept, 2):
            if a != b and problem.domain[a] == problem.domain[b]:
                found.append(f"{name} is at {_broker(problem, a)} and {_broker(problem, b)}, one failure domain")
    for topic, broker in problem.pinned:
        if broker not in placement.replicas[topic]:
            found.append(f"{_topic(problem, topic)} is pinned to {_broker(problem, broker)} and not there")
    return found


def _check_capacity(problem: Problem, placement: Placement) -> list[str]:
    used = [0] * len(problem.brokers)
    for topic, kept in enumerate(placement.replicas):
        for broker in kept:
            used[broker] += int(problem.size[topic])
    return [
        f"{_broker(problem, broker)} keeps {units:,} {problem.unit}, {units - int(problem.capacity[broker]):,} too many"
        for broker, units in enumerate(used)
        if units > problem.capacity[broker]
    ]


def _check_rates(problem: Problem, placement: Placement) -> list[str]:
    if (problem.rate_limit == NO_LIMIT).all() or not all(placement.replicas):
        return []
    return [
        f"{_broker(problem, broker)} is the nearest for {_per_second(load)} requests per second, "
        f"{_per_second(load - int(problem.rate_limit[broker]))} above its limit"
        for broker, load in enumerate(loads(problem, placement.replicas).tolist())
        if problem.rate_limit[broker] != NO_LIMIT and load > problem.rate_limit[broker]
    ]


# --- any placement ---


def _too_few_brokers(problem: Problem) -> list[str]:
    found: list[str] = []
    allowed = int(problem.open.sum())
    if problem.stores < 1:
        found.append("no stores are allowed; at least one is needed")
    if problem.stores > allowed:
        found.append(
            f"{problem.stores} stores are {problem.stores - allowed} more than the {allowed} brokers that may have one"
        )
    if len(problem.pinned_stores) > problem.stores:
        found.append(
            f"{len(problem.pinned_stores)} brokers are pinned as stores, "
            f"{len(problem.pinned_stores) - problem.stores} more than the {problem.stores} stores"
        )
    return found


def _too_many_replicas(problem: Problem) -> list[str]:
    found: list[str] = []
    for topic, wanted in enumerate(problem.fewest.tolist()):
        name = _topic(problem, topic)
        if wanted < 1:
            found.append(f"{name} shall have {wanted} replicas; every topic needs at least one")
        if wanted > problem.stores:
            found.append(f"{name} shall have {wanted} replicas, {wanted - problem.stores} more than there are stores")
        fits = problem.open & (problem.capacity >= problem.size[topic])
        large = int(fits.sum())
        if wanted > large and large < problem.open.sum():
            found.append(
                f"{name} of {int(problem.size[topic]):,} {problem.unit} fits {large} brokers, "
                f"{wanted - large} fewer than its {wanted} replicas"
            )
            continue
        apart = len(np.unique(problem.domain[fits]))
        if wanted > apart and apart < large:
            found.append(
                f"{name} shall have {wanted} replicas, {wanted - apart} more than failure domains that can keep it"
            )
        elif problem.stores >= wanted > (most := most_replicas(problem, topic)):
            found.append(
                f"{name} shall have {wanted} replicas, {wanted - most} more than the pinned stores leave place for"
            )
    return found


def _too_little_room(problem: Problem) -> list[str]:
    needed = int((problem.size * problem.fewest).sum())
    room = sum(rooms(problem)[: problem.stores])
    if needed <= room:
        return []
    unit = "slots" if problem.unit == "topics" else problem.unit
    largest = int(np.sort(problem.capacity[problem.open])[::-1][: problem.stores].sum())
    why = " with these pins and failure domains" if largest >= needed else ""
    return [
        f"all replicas together take {needed:,} {unit}, {needed - room:,} more than the largest "
        f"{problem.stores} stores hold{why}; allow more stores or capacity, or fewer replicas"
    ]


def _pins_in_the_way(problem: Problem) -> list[str]:
    found = [
        f"{_broker(problem, broker)} is pinned as a store and barred"
        for broker in problem.pinned_stores
        if not problem.open[broker]
    ]
    held: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for topic, broker in problem.pinned:
        held.setdefault(topic, []).append(broker)
        used[broker] = used.get(broker, 0) + int(problem.size[topic])
    for topic, places in held.items():
        wanted = int(problem.most[topic])
        if len(places) > wanted:
            found.append(
                f"{_topic(problem, topic)} is pinned {len(places)} times, {len(places) - wanted} more than its replicas"
            )
        for a, b in combinations(places, 2):
            if problem.domain[a] == problem.domain[b]:
                both = f"{_broker(problem, a)} and {_broker(problem, b)}"
                found.append(f"{_topic(problem, topic)} is pinned to {both}, one failure domain")
    for broker, units in used.items():
        over = units - int(problem.capacity[broker])
        if over > 0:
            found.append(
                f"{_broker(problem, broker)} has {units:,} {problem.unit} pinned to it, {over:,} more than it holds"
            )
    return found


def _too_much_demand(problem: Problem) -> list[str]:
    limits = problem.rate_limit[problem.open]
    if not len(limits) or (limits == NO_LIMIT).any():
        return []
    pinned = list(problem.pinned_stores)
    others = np.sort(np.delete(problem.rate_limit, pinned)[np.delete(problem.open, pinned)])[::-1]
    most = int(problem.rate_limit[pinned].sum()) + int(others[: max(0, problem.stores - len(pinned))].sum())
    over = problem.total_rate - most
    if over <= 0:
        return []
    return [
        f"{_per_second(problem.total_rate)} requests per second are {_per_second(over)} more than the "
        f"{problem.stores} stores with the highest limits may serve"
    ]


# --- words ---


def _broker(problem: Problem, index: int) -> str:
    return f"broker {quoted(problem.brokers[index])}"


def _topic(problem: Problem, index: int) -> str:
    return f"topic {quoted(problem.topics[index])}"


def _per_second(rate: int) -> str:
    return f"{rate / RATE_UNIT:,.6g}"
