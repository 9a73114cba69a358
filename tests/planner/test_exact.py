"""Integer programming finds what trying everything finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.planner.cost import cost
from latecomer.planner.exact import certified, exact
from latecomer.planner.legality import Infeasible, check
from latecomer.planner.problem import Problem, replace_problem
from latecomer.planner.search_start import complete
from tests.planner.limited import limited, optimum, some_placement

SEEDS = st.integers(0, 2**32)


@given(SEEDS, st.booleans())
@settings(max_examples=60)
def test_the_optimum_is_that_of_trying_everything(seed: int, known: bool) -> None:
    problem = limited(seed)
    problem = replace_problem(problem, rate_limit=np.full(len(problem.brokers), -1, np.int64))
    least = optimum(problem)
    if least is None:
        with pytest.raises(Infeasible):
            exact(problem)
        return
    found = exact(problem, some_placement(problem, seed) if known else None)
    assert found.optimal
    assert found.cost == cost(problem, found.placement.replicas) == found.bound.value == least
    assert check(problem, found.placement) == []


@given(SEEDS)
@settings(max_examples=30)
def test_rate_limits_are_kept_even_where_the_program_knows_none(seed: int) -> None:
    problem = limited(seed)
    start = some_placement(problem, seed)
    least = optimum(problem)
    if start is None or least is None:
        return
    found = exact(problem, start)
    assert check(problem, found.placement) == []
    assert found.bound.value <= least <= found.cost <= cost(problem, start.replicas)


def test_a_search_cut_short_says_so_and_its_bound_holds() -> None:
    chance = np.random.default_rng(5)
    points = chance.integers(0, 40, (14, 2))
    distance = np.abs(points[:, None] - points[None]).sum(axis=2)
    problem = Problem.small(distance, chance.integers(1, 9, (4, 14)), 5, 2, [3, 3, 2, 2])
    start = complete(problem, range(5), ())
    whole = exact(problem)
    part = exact(problem, start, nodes=0)
    assert whole.optimal
    assert not part.optimal
    assert part.bound.value <= whole.cost <= part.cost


def test_a_bound_in_floats_is_rounded_down_by_its_slack_and_up_to_a_possible_cost() -> None:
    numbers = np.arange(3)
    problem = Problem.small(np.abs(numbers[:, None] - numbers), np.full((1, 3), 10), 1, 1, 1)
    assert certified(problem, 2.0) == 20
    assert certified(problem, 2.01) == 30
    assert certified(problem, -1.0) == 0
