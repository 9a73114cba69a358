"""A lower bound is one: not above the best of all placements, whatever the limits and whatever the prices."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latecomer.planner.bounds import Bound, bound
from latecomer.planner.lagrange import certify, prices_for, quantum
from latecomer.planner.problem import Problem, replace_problem
from tests.planner.limited import limited, optimum

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
def test_no_placement_is_below_the_bound(seed: int) -> None:
    problem = limited(seed)
    least = optimum(problem)
    if least is None:
        return
    known = bound(problem, least, iterations=200)
    assert 0 <= known.value <= least
    assert bound(problem, iterations=200).value <= least
    if known.kind == "optimal":
        assert known.value == least


@given(SEEDS, st.integers(0, 2**32))
def test_whatever_the_prices_the_bound_holds(seed: int, other: int) -> None:
    problem = limited(seed)
    least = optimum(problem)
    if least is None:
        return
    prices = prices_for(problem)
    chance = np.random.default_rng(other)
    prices.lam *= chance.uniform(0, 3, prices.lam.shape)
    prices.mu = chance.normal(0, 1 + float(prices.lam.max()), prices.mu.shape)
    assert certify(prices, problem).value <= least


@given(SEEDS)
def test_a_forbidden_change_of_a_store_is_a_bound_on_all_placements_that_make_it(seed: int) -> None:
    problem = limited(seed)
    least = optimum(problem)
    if least is None:
        return
    prices = prices_for(problem)
    prices.ascend(least, 60)
    found = certify(prices, problem)
    for at, broker in enumerate(prices.candidates.tolist()):
        changed = problem.open.copy()
        if found.taken[at] and broker not in problem.pinned_stores:
            changed[broker] = False
            without = optimum(replace_problem(problem, open=changed))
            assert without is None or found.stores[at] <= without


def test_a_path_with_one_store_is_settled_by_prices_alone() -> None:
    numbers = np.arange(7)
    problem = Problem.small(np.abs(numbers[:, None] - numbers), np.full((1, 7), 10), 1, 1, 1)
    assert bound(problem, 120) == Bound(120, "optimal", bound(problem, 120).iterations)
    assert quantum(problem) == 10


def test_gap_is_a_part_of_the_bound() -> None:
    assert Bound(100, "lagrangian").gap(103) == 0.03
    assert Bound(0, "lagrangian").gap(0) == 0.0
    assert Bound(0, "lagrangian").gap(5) == 1.0
