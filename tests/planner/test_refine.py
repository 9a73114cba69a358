"""Refinement keeps every limit and never makes anything worse; its bookkeeping is what a recount gives."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import njit

from latecomer.planner.cost import cost, worst_loss
from latecomer.planner.legality import Infeasible, Placement, check
from latecomer.planner.problem import Problem, replace_problem
from latecomer.planner.refine import measure, moved, refine
from latecomer.planner.search import Objective, case_of, state_of
from latecomer.planner.search_kernels import descend
from latecomer.planner.search_start import complete, repair
from latecomer.planner.search_state_kernels import Case, State, price
from tests.planner.limited import limited, placements, some_placement

SEEDS = st.integers(0, 2**32)
OBJECTIVES: list[Objective] = ["hops", "mean-loss", "worst-loss"]


@njit
def price_everywhere(case: Case, state: State) -> None:
    price(case, state, True)


def line(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    numbers = np.arange(count)
    found: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = np.abs(numbers[:, None] - numbers[None, :])
    return found


@given(SEEDS, st.sampled_from(OBJECTIVES))
def test_limits_are_kept_and_nothing_gets_worse(seed: int, objective: Objective) -> None:
    problem = limited(seed)
    start = some_placement(problem, seed)
    if start is None:
        return
    found = refine(problem, start, objective=objective)
    assert check(problem, found) == []
    assert measure(problem, found, objective) <= measure(problem, start, objective)
    assert refine(problem, start, objective=objective) == found


@given(SEEDS, st.integers(0, 4), st.sampled_from(OBJECTIVES))
def test_a_budget_of_moves_is_kept(seed: int, moves: int, objective: Objective) -> None:
    problem = limited(seed)
    start = some_placement(problem, seed)
    if start is None:
        return
    found = refine(problem, start, objective=objective, before=start, moves=moves)
    assert check(problem, found) == []
    assert moved(start, found) <= moves
    assert measure(problem, found, objective) <= measure(problem, start, objective)


@given(SEEDS, st.sampled_from(["hops", "mean-loss"]))
def test_prices_of_exchanges_are_differences_of_the_objective(seed: int, objective: Objective) -> None:
    problem = limited(seed)
    start = some_placement(problem, seed)
    if start is None:
        return
    case = case_of(problem, objective)
    state = state_of(case, start.stores, start.replicas)
    price_everywhere(case, state)
    now = measure(problem, start, objective)[0]
    for topic, places in enumerate(start.replicas):
        for slot in range(len(places)):
            for target in np.flatnonzero(problem.open).tolist():
                if target in places:
                    continue
                kept = (*places[:slot], target, *places[slot + 1 :])
                other = Placement((), (*start.replicas[:topic], kept, *start.replicas[topic + 1 :]))
                price_there = state.shift[target, state.first[topic] + slot]
                assert price_there == measure(problem, other, objective)[0] - now


@given(SEEDS)
def test_state_after_a_search_is_that_of_its_placement(seed: int) -> None:
    problem = limited(seed)
    start = some_placement(problem, seed)
    if start is None:
        return
    case = case_of(problem, "hops", start, 3)
    state = state_of(case, start.stores, start.replicas)
    descend(case, state, bool((problem.size == problem.size[0]).all()))
    anew = state_of(case, np.flatnonzero(state.store).tolist(), state.where.tolist())
    for name in ("where", "held", "slot", "load", "store", "crowd", "one", "two", "d1", "d2", "d3", "served", "sums"):
        np.testing.assert_array_equal(getattr(state, name), getattr(anew, name), err_msg=name)


@given(SEEDS)
@example(3189)  # room that a later step makes
def test_missing_replicas_are_added_where_there_is_room(seed: int) -> None:
    problem = limited(seed)
    start = some_placement(problem, seed)
    if start is None or (problem.rate_limit >= 0).any() or problem.pinned:
        return
    fewer = Placement(start.stores, tuple(places[:1] for places in start.replicas))
    found = refine(problem, fewer)
    assert cost(problem, found.replicas) <= cost(problem, fewer.replicas)
    assert [reason for reason in check(problem, found) if " replicas" not in reason] == []
    room = problem.capacity.copy()
    for topic, places in enumerate(found.replicas):
        room[list(places)] -= problem.size[topic]
    others = np.flatnonzero(problem.open).tolist() if len(found.stores) < problem.stores else []
    for topic, places in enumerate(found.replicas):
        if len(places) < problem.replicas[topic]:
            taken = problem.domain[list(places)]
            apart = [store for store in {*found.stores, *others} if problem.domain[store] not in taken]
            assert all(room[store] < problem.size[topic] for store in apart)


@given(SEEDS)
def test_the_worst_loss_is_that_of_the_cost_module(seed: int) -> None:
    problem = limited(seed)
    start = some_placement(problem, seed)
    if start is None:
        return
    loss = worst_loss(problem, start.replicas)
    assert measure(problem, start, "worst-loss")[:2] == (loss.unserved, loss.cost)


@given(SEEDS)
def test_a_repaired_placement_is_legal_and_a_legal_one_is_not_touched(seed: int) -> None:
    problem = limited(seed)
    start = some_placement(problem, seed)
    if start is None:
        return
    kept = repair(problem, start)
    assert kept is not None
    assert [sorted(places) for places in kept.replicas] == [sorted(places) for places in start.replicas]
    barred = Random(seed).randrange(len(problem.brokers))
    stricter = replace_problem(problem, open=problem.open & (np.arange(len(problem.brokers)) != barred))
    mended = repair(stricter, start)
    assert mended is None or check(stricter, mended) == []


@given(SEEDS)
def test_without_sizes_domains_and_pins_completing_always_succeeds(seed: int) -> None:
    problem = limited(seed)
    count = len(problem.brokers)
    plain = replace_problem(
        problem,
        open=np.ones(count, np.bool_),
        domain=np.arange(count, dtype=np.int32),
        rate_limit=np.full(count, -1, np.int64),
        size=np.ones(len(problem.topics), np.int64),
        capacity=np.full(count, -(-int(problem.replicas.sum()) // problem.stores), np.int64),
        pinned=(),
        pinned_stores=(),
    )
    wishes = [(topic, 0) for topic in range(len(problem.topics))]
    assert complete(plain, range(count), wishes) is not None


def test_a_ring_of_three_topics_is_found() -> None:
    # Each of three full stores keeps what the next one's neighbours ask for; no swap of two helps as much as the ring.
    distance = line(9)
    rates = np.zeros((3, 9), int)
    rates[0, 4], rates[1, 8], rates[2, 0] = 5, 5, 5
    problem = Problem.small(distance, rates, 3, 1, 1)
    start = Placement((0, 4, 8), ((0,), (4,), (8,)))
    found = refine(replace_problem(problem, open=np.isin(np.arange(9), (0, 4, 8))), start)
    assert found.replicas == ((4,), (8,), (0,))


def test_an_illegal_start_is_refused_with_its_reason() -> None:
    problem = Problem.small(line(4), np.ones((2, 4), int), 2, 1, 1)
    with pytest.raises(Infeasible, match="too many"):
        refine(problem, Placement((0,), ((0,), (0,))))


def test_after_the_worst_loss_is_what_the_objective_says() -> None:
    # Two replicas on a line: alone for hops they sit at 1/4 and 3/4; to lose one costs least when both are central.
    problem = Problem.small(line(9), np.ones((1, 9), int), 2, 1, 2)
    start = Placement((0, 8), ((0, 8),))
    hops = refine(problem, start)
    safe = refine(problem, start, objective="worst-loss")
    best = min(measure(problem, found, "worst-loss") for found in placements(problem))
    assert measure(problem, safe, "worst-loss") == best
    assert measure(problem, hops, "hops") < measure(problem, safe, "hops")
