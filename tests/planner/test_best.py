"""`best` is legal, near the optimum, not worse than what it is given, and the same whatever the brokers are called."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.model.topology_generators import random_tree
from latecomer.planner.algorithms import plan_with
from latecomer.planner.assignment.wrr import Wrr
from latecomer.planner.best import solve
from latecomer.planner.cost import cost
from latecomer.planner.legality import Infeasible, check
from latecomer.planner.problem import Problem, replace_problem
from latecomer.planner.refine import measure, moved
from tests.planner.limited import limited, optimum, some_placement

SEEDS = st.integers(0, 2**32)


def tree(seed: int, brokers: int, topics: int, stores: int, capacity: int) -> Problem:
    chance = Random(seed)
    hops = np.array([list(row) for row in random_tree(brokers, chance).hop_matrix()])
    rates = [[chance.randint(0, 20) for _ in range(brokers)] for _ in range(topics)]
    shared = stores * capacity // topics
    return Problem.small(hops, rates, stores, capacity, max(1, min(stores, shared)))


@given(SEEDS)
@settings(max_examples=60)
def test_small_problems_are_solved_and_the_bound_holds(seed: int) -> None:
    problem = limited(seed)
    least = optimum(problem)
    if least is None:
        with pytest.raises(Infeasible):
            solve(problem)
        return
    try:
        found = solve(problem, effort="thorough")
    except Infeasible:
        # Packing different sizes, domains, pins and rates is itself hard; where only numbers count it never fails.
        assert _tangled(problem)
        return
    assert check(problem, found.placement) == []
    assert found.bound.value <= least <= found.cost == cost(problem, found.placement.replicas)
    if not _tangled(problem):
        assert found.cost == least


def _tangled(problem: Problem) -> bool:
    several = len(np.unique(problem.size)) > 1 or len(np.unique(problem.capacity[problem.open])) > 1
    domains = len(np.unique(problem.domain)) < len(problem.brokers)
    return several or domains or bool(problem.pinned_stores) or bool((problem.rate_limit >= 0).any())


@given(SEEDS)
@settings(max_examples=15)
def test_best_is_not_worse_than_what_the_paper_or_the_caller_has(seed: int) -> None:
    problem = tree(seed, 16, 4, 5, 2)
    start = some_placement(limited(seed), seed)
    starts = [start] if start is not None and not check(problem, start) else []
    found = solve(problem, starts=starts)
    assert found.cost <= cost(problem, plan_with(problem, Wrr()).replicas)
    assert all(found.cost <= cost(problem, one.replicas) for one in starts)
    assert found.bound.value <= found.cost
    assert solve(problem, starts=starts) == found


@given(SEEDS)
@settings(max_examples=15)
def test_more_room_replicas_or_stores_never_make_it_worse(seed: int) -> None:
    small = tree(seed, 14, 4, 4, 2)
    known = solve(small, effort="quick").placement
    least = cost(small, known.replicas)
    for larger in (
        replace_problem(small, capacity=small.capacity + 1),
        replace_problem(small, stores=small.stores + 1),
        replace_problem(small, capacity=small.capacity + 1, replicas=np.minimum(small.replicas + 1, small.stores)),
    ):
        assert solve(larger, effort="quick", starts=[known]).cost <= least


@given(SEEDS, st.randoms(use_true_random=False))
@settings(max_examples=15)
def test_names_do_not_matter(seed: int, chance: Random) -> None:
    problem = limited(seed)
    least = optimum(problem)
    order = list(range(len(problem.brokers)))
    chance.shuffle(order)
    if least is None or _tangled(problem):
        return
    other = Problem.small(
        problem.distance[np.ix_(order, order)],
        problem.rates[:, order],
        problem.stores,
        int(problem.capacity[0]),
        problem.replicas.tolist(),
    )
    other = replace_problem(other, open=problem.open[order])
    assert solve(problem, effort="thorough").cost == solve(other, effort="thorough").cost


@given(SEEDS, st.integers(0, 3))
@settings(max_examples=15)
def test_a_new_plan_moves_no_more_than_it_may(seed: int, moves: int) -> None:
    problem = tree(seed, 14, 4, 4, 2)
    before = plan_with(problem, Wrr())
    found = solve(problem, before=before, moves=moves).placement
    assert check(problem, found) == []
    assert moved(before, found) <= moves
    assert cost(problem, found.replicas) <= cost(problem, before.replicas)


@pytest.mark.parametrize("objective", ["mean-loss", "worst-loss"])
def test_losses_are_an_objective_too(objective: str) -> None:
    problem = tree(3, 20, 4, 6, 2)
    hops = solve(problem).placement
    if objective == "mean-loss":
        safe = solve(problem, objective="mean-loss").placement
        assert measure(problem, safe, "mean-loss") <= measure(problem, hops, "mean-loss")
    else:
        safe = solve(problem, objective="worst-loss", starts=[hops]).placement
        assert measure(problem, safe, "worst-loss") < measure(problem, hops, "worst-loss")
    assert check(problem, safe) == []


def test_the_gap_of_a_middle_sized_tree_is_small() -> None:
    found = solve(tree(11, 60, 6, 10, 3))
    assert found.bound.gap(found.cost) < 0.01


def test_what_cannot_be_is_said_with_its_reason() -> None:
    problem = tree(1, 6, 2, 2, 1)
    with pytest.raises(Infeasible, match="more than"):
        solve(replace_problem(problem, stores=7))


@pytest.mark.parametrize("seed", [771, 907, 1326, 1334, 1762, 1802])
def test_limits_of_rates_are_met_by_moving_on_from_a_plan_that_breaks_them(seed: int) -> None:
    problem = limited(seed)
    with pytest.raises(Infeasible):
        plan_with(problem, Wrr())
    found = solve(problem).placement
    assert check(problem, found) == []
