"""A plan under new demand: gain, moves, their cost in the same unit, and what to do."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.model.plan import Move, PlanLimits
from latecomer.planner.algorithms import ALGORITHMS, plan_with
from latecomer.planner.cost import cost
from latecomer.planner.legality import Infeasible, Placement, check
from latecomer.planner.problem import Problem, replace_problem
from latecomer.planner.refine import moved, refine
from latecomer.planner.replan import (
    Change,
    Offer,
    Way,
    broken,
    copied_from,
    fitted,
    kept,
    moves_between,
    offer,
    reassigned,
    recommended,
    replanned,
    way_cost,
    with_moves,
    within_stores,
)
from latecomer.planner.replan_drift import Drift, displaced, drift, exponent

LINE = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
"""0-1-2-3-4-5"""
MILLION = 1_000_000


def line(rates: list[list[int]], stores: int, capacity: int, replicas: int | list[int]) -> Problem:
    return Problem.small(LINE, np.array(rates) * MILLION, stores, capacity, replicas)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    topics, stores = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    replicas = draw(st.lists(st.integers(1, stores), min_size=topics, max_size=topics))
    capacity = draw(st.integers(max(1, -(-sum(replicas) // stores)), topics + 1))
    rates = draw(st.lists(st.lists(st.integers(0, 9), min_size=6, max_size=6), min_size=topics, max_size=topics))
    return line(rates, stores, capacity, replicas)


def plan_by(problem: Problem, algorithm: str) -> Placement:
    if algorithm in ALGORITHMS:
        return plan_with(problem, ALGORITHMS[algorithm])
    start = plan_with(problem, ALGORITHMS["wrr"])
    return refine(problem, start) if algorithm == "refine" else replanned(problem, start, "best", ("hops",))


# --- nothing has changed ---


@pytest.mark.parametrize("algorithm", ["seq", "wrr", "rnd", "refine", "best"])
@settings(max_examples=25)
@given(problem=problems())
def test_reassigning_under_unchanged_demand_moves_nothing(problem: Problem, algorithm: str) -> None:
    old = plan_by(problem, algorithm)
    again = reassigned(problem, old, algorithm, unchanged=True)
    assert moved(old, again) == 0
    assert moves_between(problem, old, again, problem.size) == ()


@settings(max_examples=25)
@given(problem=problems())
def test_the_papers_algorithms_need_not_be_told_that_nothing_changed(problem: Problem) -> None:
    for algorithm in ("seq", "wrr"):
        old = plan_by(problem, algorithm)
        assert moved(old, reassigned(problem, old, algorithm)) == 0
        assert moved(old, replanned(problem, old, algorithm, ("hops",))) == 0


# --- something has ---


@settings(max_examples=40)
@given(problem=problems(), other=problems())
def test_reassignment_keeps_the_stores_and_the_limits(problem: Problem, other: Problem) -> None:
    if len(problem.topics) != len(other.topics):
        return
    new = replace_problem(problem, rates=other.rates)
    for algorithm in ("wrr", "best"):
        old = plan_by(problem, algorithm)
        found = reassigned(new, old, algorithm)
        assert check(within_stores(new, old.stores), found) == []
        if algorithm == "best":
            assert cost(new, found.replicas) <= cost(new, old.replicas)


@settings(max_examples=40)
@given(problem=problems(), other=problems(), budget=st.integers(0, 4))
def test_a_budget_of_moves_is_kept_and_never_hurts(problem: Problem, other: Problem, budget: int) -> None:
    if len(problem.topics) != len(other.topics):
        return
    old = plan_by(problem, "wrr")
    new = replace_problem(problem, rates=other.rates)
    found = with_moves(new, old, budget, ("hops",), quick=True)
    assert moved(old, found) <= budget
    assert check(new, found) == []
    assert cost(new, found.replicas) <= cost(new, old.replicas)


def test_demand_that_wandered_is_followed() -> None:
    old = Placement((0,), ((0,),))
    new = line([[0, 0, 0, 0, 0, 5]], 1, 1, 1)
    assert reassigned(new, old, "best") == old  # the only store stays
    full = replanned(new, old, "best", ("hops",))
    assert full.replicas == ((5,),)
    assert with_moves(new, old, 0, ("hops",)).replicas == ((0,),)
    assert with_moves(new, old, 1, ("hops",)).replicas == ((5,),)


def test_fewer_replicas_let_go_of_the_one_that_is_missed_least() -> None:
    problem = line([[9, 0, 1, 0, 0, 9]], 3, 1, 2)
    assert fitted(problem, Placement((0, 2, 5), ((0, 2, 5),))).replicas == ((0, 5),)


def test_more_replicas_than_a_budget_allows() -> None:
    problem = line([[9, 0, 1, 0, 0, 9]], 3, 1, 3)
    with pytest.raises(Infeasible, match=r"needs 2 moves to keep all limits, 1 more than 1"):
        with_moves(problem, Placement((0, 2, 5), ((0,),)), 1, ("hops",))


def test_a_new_topic_gets_a_place_and_the_others_stay() -> None:
    problem = line([[9, 0, 0, 0, 0, 0], [0, 0, 0, 0, 9, 0]], 2, 1, 1)
    found = kept(problem, Placement((0, 5), ((0,), ())))
    assert found.replicas == ((0,), (5,))
    full = line([[9, 0, 0, 0, 0, 0], [0, 0, 0, 0, 9, 0]], 1, 1, 1)
    with pytest.raises(Infeasible, match="no plan near the old one keeps all limits"):
        kept(full, Placement((0,), ((0,), ())))


def test_more_stores_than_are_allowed_are_closed_for_a_new_topic() -> None:
    problem = line([[9, 0, 0, 0, 0, 0], [0, 0, 0, 0, 9, 0]], 1, 2, 1)
    found = kept(problem, Placement((0, 5), ((5,), ())))
    assert check(problem, found) == []


def test_a_reassignment_closes_no_store() -> None:
    problem = line([[9, 0, 0, 0, 0, 9]], 1, 1, 1)
    old = Placement((0, 5), ((0,),))
    for algorithm in ("wrr", "best"):
        assert reassigned(problem, old, algorithm).stores == (0, 5)  # one is enough now, and two are there
        with pytest.raises(Infeasible, match="the plan has 2 stores, 1 more than the limits allow"):
            reassigned(problem, old, algorithm, most=1)


def test_a_reassignment_looks_at_what_comes_first() -> None:
    """Two replicas of one topic, four stores: 0 and 5 for the distance, nearer together for the loss of one."""
    problem = line([[9, 0, 0, 0, 0, 1]], 4, 1, 2)
    old = Placement((0, 2, 3, 5), ((0, 5),))
    assert sorted(reassigned(problem, old, "best").replicas[0]) == [0, 5]
    safe = reassigned(problem, old, "best", ("worst-loss", "hops"))
    assert sorted(safe.replicas[0]) == [0, 2]
    assert sorted(safe.stores) == [0, 2, 3, 5]


def test_new_topics_are_not_copied() -> None:
    problem = line([[9, 0, 0, 0, 0, 0], [0, 0, 0, 0, 5, 5]], 2, 2, [1, 2])
    there = Placement((0, 5), ((0,), ()))
    base = kept(problem, there)
    found = with_moves(problem, base, 0, ("hops",), before=copied_from(problem, there))
    assert [len(places) for places in found.replicas] == [1, 2]
    assert found.replicas[0] == (0,)


def test_fewer_stores_do_not_come_at_more_moves() -> None:
    problem = line([[3, 0, 0, 0, 0, 0], [0, 0, 3, 0, 0, 0], [0, 0, 0, 0, 0, 3]], 3, 3, 1)
    old = Placement((1, 3, 4), ((1,), (3,), (4,)))
    for moves in range(4):
        found = with_moves(problem, old, moves, ("stores", "hops"))
        assert moved(old, found) <= moves


def test_others_give_way_when_a_new_topic_has_no_room() -> None:
    problem = line([[9, 0, 0, 0, 0, 0], [0, 0, 0, 0, 9, 0]], 2, 1, 1)
    found = kept(problem, Placement((0, 5), ((0, 5), ())))
    assert found.replicas == ((0,), (5,))


def test_a_topic_that_nobody_asks_for_needs_no_place() -> None:
    problem = line([[9, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]], 1, 2, 1)
    old = Placement((0,), ((0,), ()))
    assert kept(problem, old) is old


# --- what it takes ---


def test_a_move_comes_from_the_nearest_old_replica() -> None:
    problem = line([[1, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2]], 4, 2, 2)
    old = Placement((0, 2, 4), ((0, 4), (2, 4)))
    new = Placement((0, 3, 5), ((3, 5), (0, 3)))
    sizes = np.array([1000, 500])
    moves = moves_between(problem, old, new, sizes)
    # Heaviest topic first; 3 is as near to 2 as to 4, and the lowest index decides.
    assert moves == (
        Move("1", "2", "0", 500),
        Move("1", "2", "3", 500),
        Move("0", "4", "3", 1000),
        Move("0", "4", "5", 1000),
    )
    assert way_cost(problem, moves, Way(sizes)) == 2 + 1 + 1 + 1
    assert way_cost(problem, moves, Way(sizes, response=100)) == 5 * 2 + 5 * 1 + 10 * 1 + 10 * 1


def test_what_is_kept_nowhere_costs_no_way() -> None:
    problem = line([[1, 0, 0, 0, 0, 0]], 1, 1, 1)
    moves = moves_between(problem, Placement((0,), ((),)), Placement((5,), ((5,),)), np.array([7]))
    assert moves == (Move("0", None, "5", 7),)
    assert way_cost(problem, moves, Way(np.array([7]))) == 0


def test_gain_and_way_are_in_one_unit() -> None:
    """All ask at 5, the replica is at 2: three hops for two requests per second, and three hops for the way."""
    problem = line([[0, 0, 0, 0, 0, 2]], 1, 1, 1)
    old = Placement((2,), ((2,),))
    way = Way(np.array([3000]), response=1000, horizon_s=10.0)
    found = offer(problem, old, old, Change("full", Placement((5,), ((5,),))), way)
    assert (found.cost_per_s, found.hops_mean, found.gain, found.gain_per_s) == (0.0, 0.0, 1.0, 6.0)
    assert (found.bytes, found.way) == (3000, 9.0)
    assert (found.net, found.payback_s) == (6.0 * 10 - 9, 1.5)
    assert (found.opened, found.closed) == (("5",), ("2",))


def offered(name: str, cost_per_s: float, net: float, *, opened: tuple[str, ...] = (), moves: int = 1) -> Offer:
    gone = tuple(Move("t", "a", "b") for _ in range(moves))
    return Offer(name, cost_per_s, 1.0, 0.1, 1.0, gone, 0, 1.0, net, 1.0, opened, ())


def test_the_recommendation_is_what_is_left_of_the_gain() -> None:
    keep = offered("keep", 100, 0, moves=0)
    assert recommended([keep, offered("reassign", 90, -5)]).name == "keep"
    assert recommended([keep, offered("2 moves", 92, 7), offered("reassign", 90, 5)]).name == "2 moves"
    assert recommended([keep, offered("2 moves", 92, 7), offered("reassign", 92, 7, moves=5)]).name == "2 moves"
    assert recommended([keep, offered("nothing", 100, 0, moves=3)]).name == "keep"


def test_a_gain_that_no_measurement_shows_is_no_reason_to_move() -> None:
    keep = offered("keep", 100, 0, moves=0)
    assert recommended([keep, offered("reassign", 99.2, 500, moves=30)]).name == "keep"
    few, many = offered("2 moves", 60.5, 400, moves=2), offered("reassign", 60, 405, moves=20)
    assert recommended([keep, few, many]).name == "2 moves"
    assert recommended([keep, msgspec.structs.replace(few, opened=("x",)), many]).name == "reassign"
    dear = msgspec.structs.replace(few, net=-1.0)
    assert recommended([keep, dear, many]).name == "reassign"


def test_what_breaks_limits_is_not_kept() -> None:
    keep = msgspec.structs.replace(offered("keep", 100, 0, moves=0), broken=("full",))
    assert recommended([keep, offered("full", 110, -50, opened=("x",))]).name == "full"
    assert recommended([keep, offered("reassign", 105, -9), offered("full", 104, -8, opened=("x",))]).name == "reassign"


def test_limits_that_what_is_there_breaks_are_those_of_the_operator() -> None:
    problem = line([[9, 0, 0, 0, 0, 9], [1, 0, 0, 0, 0, 0]], 2, 2, [2, 1])
    there = Placement((0, 3, 5), ((0, 3, 5), (0,)))
    assert broken(problem, there, PlanLimits()) == ()
    assert broken(problem, there, PlanLimits(stores=2)) == ("3 stores are 1 too many",)
    assert broken(problem, there, PlanLimits(min_replicas=2)) == ("topic '1' has 1 of 2 replicas",)
    assert broken(problem, there, PlanLimits(replicas={"0": 2})) == ("topic '0' has 3 of 2 replicas",)
    barred = replace_problem(problem, open=np.arange(6) != 3)
    assert broken(barred, there, PlanLimits()) == ("broker '3' is barred and has a store",)


def test_new_stores_must_gain_more_than_a_reassignment_could_lose() -> None:
    keep, reassign = offered("keep", 100, 0, moves=0), offered("reassign", 90, 10)
    assert recommended([keep, reassign, offered("full", 85, 15, opened=("x",))]).name == "reassign"
    assert recommended([keep, reassign, offered("full", 80, 20, opened=("x",))]).name == "full"
    assert recommended([keep, reassign, offered("full", 85, 15)]).name == "full"


# --- the rule of thumb ---


@pytest.mark.parametrize("s", [-1.0, -0.3, 0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_zipf_law_is_found(s: float) -> None:
    assert exponent(np.arange(1, 11, dtype=np.float64) ** -s) == pytest.approx(s)
    assert exponent(np.array([5.0])) == 0.0
    assert exponent(np.array([5.0, 0.0, 0.0])) == 0.0


def zipf(s: float) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Ten topics, each asked for alike by four brokers."""
    weights = np.arange(1, 11) ** -s
    return np.rint(np.repeat(weights[:, None] / weights.sum(), 4, axis=1) * 1e9).astype(np.int64)


@pytest.mark.parametrize(
    ("s", "moved", "advice"), [(1.0, 0.0, "skip"), (0.6, 0.4, "skip"), (0.4, 0.6, "reassign"), (-1.0, 2.0, "reassign")]
)
def test_popularity_moves_with_its_exponent(s: float, moved: float, advice: str) -> None:
    found = drift(zipf(1.0), zipf(s))
    assert found.popularity == pytest.approx(moved, abs=1e-4)
    assert found.locality == pytest.approx(0.0, abs=1e-6)
    assert found.advice == advice


def test_locality_moves_when_fewer_ask_and_when_others_ask() -> None:
    old = np.array([[4, 4, 4, 4], [4, 4, 0, 0], [4, 0, 0, 0]])
    fewer = np.array([[4, 4, 4, 4], [4, 4, 4, 4], [4, 4, 4, 4]])
    elsewhere = old[:, ::-1].copy()
    assert drift(old, old) == Drift(0.0, 0.0)
    assert drift(old, fewer).locality == pytest.approx(1.0)
    assert displaced(old, elsewhere) == pytest.approx((16 * 0 + 8 * 1 + 4 * 1) / 28)
    assert drift(old, elsewhere).advice == "reassign"


def test_the_limits_of_the_rule_are_the_papers() -> None:
    assert Drift(0.49, 0.25).advice == "skip"
    assert Drift(0.5, 0.0).advice == "reassign"
    assert Drift(0.0, 0.26).advice == "reassign"


def test_without_requests_nothing_moved() -> None:
    nobody = np.zeros((2, 3), np.int64)
    assert drift(nobody, nobody) == Drift(0.0, 0.0)
