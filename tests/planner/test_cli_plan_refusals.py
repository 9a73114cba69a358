"""Each refusal has its limit, and objectives count in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from latecomer.model.errors import SettingsError
from latecomer.model.plan import Objective, PlanLimits
from latecomer.planner.cost import cost, loads
from latecomer.planner.explain import gap, predict, store_rows, topic_rows
from latecomer.planner.explain_refusals import best_exchange, refusals, sentence
from latecomer.planner.greedy import votes
from latecomer.planner.legality import Placement, check
from latecomer.planner.objectives import Ranked, order_of, solve_in_order
from latecomer.planner.problem import Problem, replace_problem

LINE = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
MILLION = 1_000_000


def line(rates: list[list[int]], most: int, room: int, replicas: int, **more: Any) -> Problem:
    made = Problem.small(LINE, np.array(rates) * MILLION, most, room, replicas)
    return replace_problem(made, **more) if more else made


def told(problem: Problem, placement: Placement, algorithm: str = "wrr") -> list[str]:
    return [sentence(problem, one) for one in refusals(problem, placement, votes(problem), algorithm)]


ONE_AT_5 = [[0, 0, 0, 0, 0, 2]]
"""All requests are at 5, so that is where the topic wants to be."""


@pytest.mark.parametrize(
    ("more", "stores", "reason"),
    [
        ({}, (3,), "the only store is elsewhere"),
        ({"open": np.arange(6) != 5}, (3,), "5 is barred from having a store"),
        ({"capacity": np.array([1, 1, 1, 1, 1, 0])}, (3,), "5 is too small by 1 topic even when empty"),
        ({"pinned": ((0, 3),), "pinned_stores": (3,)}, (3,), "the one at 3 is pinned"),
        ({"stores": 2}, (3, 5), "wrr did not look there; --algorithm best does"),
        ({"stores": 2, "rate_limit": np.array([-1, -1, -1, -1, -1, MILLION])}, (3, 5),
         "a store would then be the nearest for 1 requests/s more than its limit"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_limit(more: dict[str, Any], stores: tuple[int, ...], reason: str) -> None:
    problem = line(ONE_AT_5, 1, 1, 1, **more)
    assert told(problem, Placement(stores, ((3,),))) == [
        f"A copy of '0' at 5 instead of 3 would save 4 requests·hops/s, but {reason}."
    ]


def test_a_full_store_and_a_failure_domain() -> None:
    problem = line([[0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 9]], 2, 1, 1)
    full = told(problem, Placement((3, 5), ((3,), (5,))))
    assert full == ["A copy of '0' at 5 instead of 3 would save 4 requests·hops/s, but 5 is full by 1 topic."]
    together = line([[3, 0, 0, 0, 0, 2]], 3, 1, 2, domain=np.array([0, 1, 2, 3, 4, 0], np.int32))
    # Instead of 3 would be best, but then 0 and 5 are in one domain.
    assert told(together, Placement((0, 3, 5), ((0, 3),))) == [
        "A copy of '0' at 5 instead of 3 would save 4 requests·hops/s, but 0 in the same failure domain keeps it."
    ]


def test_a_search_that_left_room_had_another_aim() -> None:
    problem = line(ONE_AT_5, 2, 1, 1)
    (only,) = told(problem, Placement((3, 5), ((3,),)), "best")
    assert only.endswith(", but another objective comes before the mean distance.")


def test_what_would_save_nothing_is_no_refusal() -> None:
    problem = line(ONE_AT_5, 1, 1, 1)
    assert told(problem, Placement((5,), ((5,),))) == []
    assert best_exchange(problem, 0, (5,), 3) == (5, -4 * MILLION)


# --- what a placement promises ---


def test_a_prediction_is_in_requests_per_second() -> None:
    problem = line([[0, 0, 0, 0, 0, 2], [4, 0, 0, 0, 0, 0]], 2, 1, 1)
    placement = Placement((0, 3), ((3,), (0,)))
    found = predict(problem, "wrr", placement.replicas, 2 * MILLION)
    assert (found.cost, found.rate, found.hops_mean, found.stores) == (4.0, 6.0, 4 / 6, 2)
    assert (found.bound, found.gap, found.optimal) == (2.0, 1.0, False)
    assert (found.loss_store, found.loss_cost, found.loss_unserved) == ("0", 4.0, 4.0)
    assert [(row.store, row.topics, row.used, row.load, row.cost) for row in store_rows(problem, placement)] == [
        (0, (1,), 1, 4 * MILLION, 0),
        (3, (0,), 1, 2 * MILLION, 4 * MILLION),
    ]
    assert [(row.topic, row.rate, row.cost) for row in topic_rows(problem, placement)] == [
        (1, 4 * MILLION, 0),
        (0, 2 * MILLION, 4 * MILLION),
    ]


def test_a_gap_is_told_where_one_follows() -> None:
    assert gap(10, None) is None
    assert gap(10, 10) == 0.0
    assert gap(0, 0) == 0.0
    assert gap(10, 0) is None
    assert gap(11, 10) == pytest.approx(0.1)


# --- objectives ---


def test_the_order_of_objectives() -> None:
    assert order_of(PlanLimits()) == ("hops",)
    assert order_of(PlanLimits(objectives=("stores", "balance"))) == ("stores", "balance", "hops")
    assert order_of(PlanLimits(survive_loss=True)) == ("worst-loss", "hops")
    assert order_of(PlanLimits(survive_loss=True, objectives=("hops", "worst-loss"))) == ("worst-loss", "hops")
    with pytest.raises(SettingsError, match="objective"):
        order_of(PlanLimits(objectives=("hops", "hops")))


def found_by(problem: Problem, *order: Objective, before: Placement | None = None) -> Placement:
    found = solve_in_order(problem, order, before=before).placement
    assert check(problem, found) == []
    return found


def test_a_later_objective_decides_between_equals_only() -> None:
    """Two topics that only 2 asks for: at 2 both cost nothing, and one store is enough."""
    problem = line([[0, 0, 3, 0, 0, 0], [0, 0, 3, 0, 0, 0]], 2, 2, 1)
    fewest = found_by(problem, "hops", "stores")
    assert cost(problem, fewest.replicas) == 0
    assert fewest.replicas == ((2,), (2,))


def test_balance_before_distance_spreads_the_requests() -> None:
    problem = line([[0, 0, 3, 0, 0, 0], [0, 0, 3, 0, 0, 0]], 2, 2, 1)
    spread = found_by(problem, "balance", "hops")
    assert int(loads(problem, spread.replicas).max()) == 3 * MILLION
    near = found_by(problem, "hops", "balance")
    assert cost(problem, near.replicas) == 0


def test_fewest_stores_come_before_distance_if_asked() -> None:
    problem = line([[3, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 3]], 2, 2, 1)
    assert len(frozenset(found_by(problem, "hops").replicas)) == 2
    together = found_by(problem, "stores", "hops")
    assert together.replicas[0] == together.replicas[1]
    assert cost(problem, together.replicas) == 15 * MILLION


def test_moves_count_from_where_things_are() -> None:
    problem = line([[0, 1, 0, 1, 0, 0]], 1, 1, 1)
    for place in (1, 2, 3):  # all cost the same
        before = Placement((place,), ((place,),))
        ranked = Ranked(problem, ("hops", "moves"), before)
        assert ranked.key(before) == (2 * MILLION, 0)
        assert solve_in_order(problem, ("hops", "moves"), starts=[before], before=before).placement.replicas == (
            (place,),
        )
