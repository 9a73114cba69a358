"""Step 3: the weighted sum of votes, and the M highest."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latecomer.planner.greedy import votes, votes_for
from latecomer.planner.legality import infeasible
from latecomer.planner.placement import chosen, ranking, stores_by_votes, stores_of_aggregate
from latecomer.planner.problem import Problem, replace_problem
from tests.planner import naive
from tests.planner.instances import instance

SEEDS = st.integers(0, 2**32)
LINE = np.abs(np.arange(4)[:, None] - np.arange(4))


@given(seed=SEEDS)
def test_stores_are_those_of_the_text(seed: int) -> None:
    drawn = instance(seed)
    problem = replace_problem(drawn.problem, open=np.ones(drawn.count, np.bool_))
    voted = votes(problem)
    assert list(stores_by_votes(problem, voted)) == naive.stores(drawn.rates, voted.tolist(), drawn.stores)


def test_large_weights_add_up_exactly() -> None:
    """Beyond what a float can tell apart."""
    problem = Problem.small(LINE, [[2**55 + 1, 0, 0, 0], [2**55, 0, 0, 0]], 1, 2, 1)
    assert ranking(problem, np.array([[0, 1, 0, 0], [0, 0, 1, 0]])).tolist() == [0, 2**55 + 1, 2**55, 0]


def test_pinned_brokers_come_first_and_barred_never() -> None:
    problem = Problem.small(LINE, [[1, 1, 1, 1]], 3, 1, 1)
    problem = replace_problem(problem, pinned_stores=(3,), open=np.array([True, False, True, True]))
    assert chosen(problem, np.array([5, 9, 7, 1])) == (3, 2, 0)


def test_brokers_without_votes_follow_by_index() -> None:
    problem = Problem.small(LINE, [[1, 1, 1, 1]], 3, 1, 1)
    assert chosen(problem, np.array([0, 0, 0, 4])) == (3, 0, 1)


def test_stores_cover_enough_failure_domains() -> None:
    problem = Problem.small(LINE, [[1, 1, 1, 1]], 2, 1, 2)
    problem = replace_problem(problem, domain=np.array([0, 0, 0, 3], np.int32))
    assert chosen(problem, np.array([4, 3, 2, 1])) == (0, 3)


def test_stores_have_enough_room_and_some_are_large_enough() -> None:
    problem = Problem.small(LINE, [[1, 1, 1, 1], [1, 1, 1, 1]], 2, 1, 1)
    small = replace_problem(problem, size=np.array([3, 1], np.int64), capacity=np.array([1, 1, 3, 3], np.int64))
    assert chosen(small, np.array([4, 3, 2, 1])) == (0, 2)
    large = replace_problem(problem, size=np.array([3, 3], np.int64), capacity=np.array([1, 3, 3, 3], np.int64))
    assert chosen(large, np.array([4, 3, 2, 1])) == (1, 2)


def test_stores_may_serve_enough_requests() -> None:
    problem = Problem.small(LINE, [[1, 1, 1, 1]], 2, 1, 1)
    problem = replace_problem(problem, rate_limit=np.array([1, 1, 3, -1], np.int64))
    assert chosen(problem, np.array([4, 3, 2, 1])) == (0, 2)
    assert infeasible(replace_problem(problem, open=np.array([True, True, False, False]))) == [
        "4e-06 requests per second are 2e-06 more than the 2 stores with the highest limits may serve"
    ]


def test_the_aggregate_knows_no_topics() -> None:
    rates = [[9, 0, 0, 0], [0, 0, 0, 9]]
    problem = Problem.small(LINE, rates, 2, 2, 1)
    alone = votes_for(problem, np.array([[9, 0, 0, 9]]), np.array([2]))
    assert stores_of_aggregate(problem) == chosen(problem, alone[0])
