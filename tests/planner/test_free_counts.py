"""Free counts: the search chooses how many replicas each topic gets, and its bound holds for every choice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.model.demand import Demand
from latecomer.model.errors import SettingsError
from latecomer.model.plan import PlanLimits
from latecomer.model.topology_generators import line
from latecomer.planner.best import solve
from latecomer.planner.cost import cost
from latecomer.planner.exact import exact
from latecomer.planner.exact import limited as rates_limited
from latecomer.planner.lagrange import certify, prices_for
from latecomer.planner.legality import Infeasible, check
from latecomer.planner.objectives import solve_in_order
from latecomer.planner.problem import Problem, make_problem, replace_problem, with_counts
from latecomer.planner.refine import measure, refine
from tests.planner.limited import freed, optimum, placements, some_placement

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=40)
def test_the_best_of_all_counts_is_found_and_no_bound_is_above_it(seed: int) -> None:
    """All counts, all stores, all assignments, tried one by one."""
    problem = freed(seed)
    least = optimum(problem)
    try:
        found = solve(problem, effort="thorough")
    except Infeasible:
        assert least is None or rates_limited(problem)  # with rate limits a plan may be missed, and says so
        return
    assert least is not None
    assert check(problem, found.placement) == []
    assert found.bound.value <= least <= found.cost == cost(problem, found.placement.replicas)
    if found.bound.kind == "optimal" or not rates_limited(problem):
        assert found.cost == least


@given(SEEDS, SEEDS)
@settings(max_examples=60)
def test_whatever_the_prices_the_bound_holds_for_every_count(seed: int, other: int) -> None:
    problem = freed(seed)
    least = optimum(problem)
    if least is None:
        return
    prices = prices_for(problem)
    prices.ascend(least, 40)
    assert certify(prices, problem).value <= least
    chance = np.random.default_rng(other)
    prices.lam *= chance.uniform(0, 3, prices.lam.shape)
    prices.mu = chance.normal(0, 1 + float(prices.lam.max()), prices.mu.shape)
    assert certify(prices, problem).value <= least


@given(SEEDS)
@settings(max_examples=30)
def test_integer_programming_chooses_the_counts_too(seed: int) -> None:
    problem = freed(seed)
    problem = replace_problem(problem, rate_limit=np.full(len(problem.brokers), -1, np.int64))
    least = optimum(problem)
    if least is not None:
        assert exact(problem).cost == least


@given(SEEDS, st.sampled_from(["hops", "mean-loss", "worst-loss"]))
@settings(max_examples=60)
def test_refinement_keeps_the_limits_and_is_never_worse(seed: int, objective: str) -> None:
    problem = freed(seed)
    start = some_placement(problem, seed)
    if start is None:
        return
    found = refine(problem, start, objective=objective)  # type: ignore[arg-type]
    assert check(problem, found) == []
    assert measure(problem, found, objective) <= measure(problem, start, objective)  # type: ignore[arg-type]


@given(SEEDS, st.booleans())
@settings(max_examples=25)
def test_no_plan_is_better_after_a_loss_than_one_that_is_said_to_be_the_best(seed: int, fixed: bool) -> None:
    problem = freed(seed, fewest=2)
    if fixed:
        problem = with_counts(problem, np.maximum(problem.replicas, 2))
    try:
        found = solve_in_order(problem, ("worst-loss", "hops"))
    except Infeasible:
        return
    mine = measure(problem, found.placement, "worst-loss")[:2]
    least = min(measure(problem, other, "worst-loss")[:2] for other in placements(problem))
    assert least <= mine
    if found.loss_bound is not None:
        assert mine[0] == least[0] == 0
        assert found.loss_bound <= least[1]
        if mine[1] <= found.loss_bound:
            assert mine == least


# Three brokers on a line, two stores of two topics: 'a' has nearly all of the weight, but all of it at one broker.
LINE = line(3)
DEMAND = Demand(("a", "b"), {"a": {"b1": 90.0}, "b": {"b1": 5.0, "b3": 5.0}})


def demanded(**limits: object) -> Problem:
    return make_problem(LINE, DEMAND, PlanLimits(**limits))  # type: ignore[arg-type]


def test_the_weight_rule_gives_a_copy_where_it_saves_nothing_and_free_counts_do_not() -> None:
    free, by_weight = demanded(stores=3, capacity=1), demanded(stores=3, capacity=1, replica_rule="weight")
    assert free.free
    assert not by_weight.free
    assert by_weight.replicas.tolist() == free.replicas.tolist() == [2, 1]
    assert solve(by_weight).cost == 10_000_000
    best = solve(free, effort="thorough")
    assert best.cost == optimum(free) == 5_000_000
    assert best.bound.kind == "optimal"
    assert [len(places) for places in best.placement.replicas] == [1, 2]


def test_room_that_saves_no_hops_goes_to_copies_for_the_loss_of_a_store() -> None:
    """With stores at both ends no request has a way to go; the slot that is left gets a second copy of 'a'."""
    found = solve(demanded(stores=2, capacity=2))
    assert found.cost == 0
    assert [sorted(places) for places in found.placement.replicas] == [[0, 2], [0, 2]]


@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        ({"stores": 2, "capacity": 2}, "free"),
        ({"stores": 2, "capacity_bytes": 2}, "free"),
        ({"stores": 2, "min_replicas": 2}, "weight"),
        ({"min_replicas": 2}, "weight"),
        ({"stores": 2, "min_replicas": 2, "replica_rule": "free"}, "free"),
        ({"stores": 2, "replica_rule": "weight"}, "weight"),
    ],
)
def test_which_rule_counts(limits: dict[str, object], rule: str) -> None:
    assert PlanLimits(**limits).rule() == rule  # type: ignore[arg-type]


def test_free_counts_begin_at_the_least_and_given_ones_are_given() -> None:
    problem = demanded(stores=3, capacity=2, min_replicas=2, replica_rule="free", replicas={"b": 1})
    assert problem.fewest.tolist() == [2, 1]
    assert problem.most.tolist() == [3, 1]


def test_free_counts_need_stores() -> None:
    with pytest.raises(SettingsError, match="give --stores"):
        demanded(replica_rule="free")
