"""From a problem and a placement to the arrays of the search, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from latecomer.model.errors import SettingsError
from latecomer.planner.lagrange import compact
from latecomer.planner.legality import Placement
from latecomer.planner.problem import LARGEST, NO_LIMIT, Problem
from latecomer.planner.search_state_kernels import UNLIMITED, Case, State, begin

Objective: TypeAlias = Literal["hops", "mean-loss", "worst-loss"]
"""What a search lowers: requests times distance now, on average after the loss of one store, or after the worst."""


PRICES = 1 << 24
"""Brokers × replicas: prices that a search may keep, 8 bytes each."""


def case_of(
    problem: Problem,
    objective: Objective = "hops",
    before: Placement | None = None,
    moves: int | None = None,
    *,
    fits: Placement | None = None,
) -> Case:
    """`before` and `moves`: at most so many replicas where `before` has none. `fits`: a placement to be looked at."""
    topics, count = problem.rates.shape
    kept_store = np.zeros(count, np.bool_)
    kept_store[list(problem.pinned_stores)] = True
    kept = np.zeros((topics, count), np.bool_)
    for topic, broker in problem.pinned:
        kept[topic, broker] = True
    there = np.full((topics, count), before is None)
    for topic, places in enumerate(before.replicas if before is not None else ()):
        there[topic, list(places)] = True
    # A store lost costs Σ rate·(d2 − d1) more; the sum over M losses is (M − 1)·d1 + d2.
    first, second = (1, 0) if objective == "hops" else (max(problem.stores - 1, 0), 1)
    lost = int(problem.distance.max()) + 1
    if problem.total_rate * lost * (first + second) >= 2 * LARGEST:
        raise SettingsError("rates", "the rates are too high to add up losses; divide all rates by a common number")
    return Case(
        toward=compact(problem.distance),
        rates=problem.rates,
        size=problem.size.astype(np.int64),
        capacity=problem.capacity.astype(np.int64),
        replicas=_most(problem, fits),
        least=problem.fewest.astype(np.int64),
        free=problem.free,
        usable=problem.open.copy(),
        domain=_dense(problem),
        limit=np.where(problem.rate_limit == NO_LIMIT, UNLIMITED, problem.rate_limit),
        limited=bool((problem.rate_limit != NO_LIMIT).any()),
        kept_store=kept_store,
        kept=kept,
        before=there,
        budget=int(UNLIMITED) if moves is None else moves,
        stores=problem.stores,
        first=first,
        second=second,
        lost=lost,
    )


def _most(problem: Problem, fits: Placement | None) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """[T] replicas that a search may give a topic: all that are legal, or fewer where their prices would not fit.

    Counts that are worth it lie between those by weight and equal ones, so twice as many and some more are enough.
    """
    most = problem.most.astype(np.int64)
    if not problem.free or len(problem.brokers) * int((most + 1).sum()) <= PRICES:
        return most
    there = [len(places) for places in fits.replicas] if fits is not None else 0
    return np.minimum(most, np.maximum(np.maximum(problem.fewest, 2 * problem.replicas + 6), there))


def one_size(problem: Problem) -> bool:
    """All topics take the same room, so they can be exchanged in a ring."""
    return bool((problem.size == problem.size[0]).all())


def state_of(case: Case, stores: Iterable[int], replicas: Sequence[Iterable[int]]) -> State:
    """The state of a placement; of more replicas than a topic may have the first count."""
    topics, count = case.rates.shape
    slots = max(1, int(case.replicas.max()))
    first = np.concatenate([[0], np.cumsum(np.maximum(case.replicas, 1) + 1)])

    def table(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.zeros(shape, np.int64)

    def distances() -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.zeros((topics, count), case.toward.dtype)

    state = State(
        where=table(topics, slots),
        held=np.zeros(topics, np.int64),
        slot=np.full((topics, count), -1, np.int64),
        load=np.zeros(count, np.int64),
        store=np.zeros(count, np.bool_),
        crowd=table(topics, int(case.domain.max()) + 1),
        one=table(topics, count),
        two=table(topics, count),
        d1=distances(),
        d2=distances(),
        d3=distances(),
        first=first,
        shift=table(count, int(first[-1])),
        fall=np.zeros(int(first[-1]) if case.free else 1, np.int64),
        stale=np.full(topics, 2, np.int64),
        swap=table(topics, 4),
        touched=np.ones(topics, np.bool_),
        served=np.zeros((topics, count) if case.limited else (1, 1), np.int64),
        sums=np.zeros(3, np.int64),
    )
    kept = [list(places)[:most] for places, most in zip(replicas, case.replicas.tolist(), strict=True)]
    starts = np.cumsum([0, *map(len, kept)])
    begin(
        case, state, np.array([*stores], np.int64), starts, np.array([c for places in kept for c in places], np.int64)
    )
    return state


def placement_of(state: State, start: Placement | None = None) -> Placement:
    """What was in `start` stays in its order, what is new follows by index."""
    known = start if start is not None else Placement((), ((),) * len(state.held))
    found = np.flatnonzero(state.store).tolist()
    replicas = tuple(
        _in_order(sorted(state.where[topic, : state.held[topic]].tolist()), known.replicas[topic])
        for topic in range(len(state.held))
    )
    return Placement(_in_order(found, known.stores), replicas)


def _in_order(found: Sequence[int], known: Sequence[int]) -> tuple[int, ...]:
    rank = {place: at for at, place in enumerate(known)}
    return tuple(sorted(found, key=lambda place: (rank.get(place, len(known)), place)))


def _dense(problem: Problem) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    _, numbers = np.unique(problem.domain, return_inverse=True)
    return numbers.astype(np.int64)
