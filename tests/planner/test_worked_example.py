"""The example of planning §5.3 and §5.5 (S1, S2), from the vectors that are printed and from demand."""

from __future__ import annotations

from itertools import combinations

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from latecomer.model.demand import Demand
from latecomer.model.plan import PlanLimits
from latecomer.model.topology import Link, Node, Topology
from latecomer.model.topology_generators import walkthrough
from latecomer.planner.algorithms import plan_with
from latecomer.planner.assignment.seq import Seq
from latecomer.planner.assignment.wrr import Wrr, relative_weights, rounds
from latecomer.planner.greedy import votes, votes_for
from latecomer.planner.placement import ranking, stores_by_votes
from latecomer.planner.problem import RATE_UNIT, Problem, make_problem

PRINTED = np.array([[0, 3, 5, 0, 2, 2], [0, 2, 5, 0, 5, 0], [0, 2, 5, 0, 5, 0]], np.int64)
TOTALS = [17, 27, 6]
LIMITS = PlanLimits(stores=3, capacity=2, min_replicas=2, replicas={"a": 2, "b": 2, "c": 2})


def printed_problem() -> Problem:
    """Only the totals are printed; where the requests come from does not matter once the votes are given."""
    demand = Demand(
        topics=("a", "b", "c"), rates={name: {"1": total} for name, total in zip("abc", TOTALS, strict=True)}
    )
    return make_problem(walkthrough(), demand, LIMITS)


def named(problem: Problem, brokers: tuple[int, ...]) -> set[str]:
    return {problem.brokers[broker] for broker in brokers}


def test_weights_and_their_sum() -> None:
    problem = printed_problem()
    assert (problem.weights / problem.total_rate).tolist() == [0.34, 0.54, 0.12]
    summed = ranking(problem, PRINTED) / problem.total_rate
    assert summed.tolist() == pytest.approx([0, 2.34, 5, 0, 3.98, 0.68])


def test_stores_are_3_5_and_2() -> None:
    problem = printed_problem()
    assert [problem.brokers[store] for store in stores_by_votes(problem, PRINTED)] == ["3", "5", "2"]


@pytest.mark.parametrize("algorithm", [Seq(), Wrr()])
def test_assignment(algorithm: Seq | Wrr) -> None:
    """Also the same for both, as §5.5 says of k = 2."""
    problem = printed_problem()
    a, b, c = plan_with(problem, algorithm, PRINTED).replicas
    assert named(problem, b) == {"3", "5"}
    assert named(problem, a) == {"3", "2"}
    assert named(problem, c) == {"5", "2"}


def test_rounds_of_wrr() -> None:
    assert relative_weights(TOTALS) == [3, 5, 1]
    assert rounds([6, 6, 6], [3, 5, 1]) == [[3, 5, 1], [3, 1, 1], [0, 0, 4]]
    assert rounds([2, 2, 2], [3, 5, 1]) == [[2, 2, 1], [0, 0, 1]]


# --- from demand ---

# The drawing of Fig. 3 with its requests is not in the text. On the tree of the walk-through, topics b and c come out
# from many demands, but topic a from none: brokers 5 and 6 have two votes each there only when they tie and the tie is
# decided differently from run to run. With broker 4 behind 6 instead of 3 the whole example comes out.
WALK_THROUGH_B = [1, 2, 4, 3, 15, 2]
WALK_THROUGH_C = [0, 1, 2, 0, 2, 1]
ALMOST = Topology(
    "walk-through with 4 behind 6",
    tuple(Node(name) for name in "123456"),
    tuple(Link(a, b) for a, b in ("12", "23", "35", "56", "64")),
)
ALMOST_A = [2, 3, 5, 2, 3, 2]
ALMOST_B = [3, 5, 10, 0, 9, 0]
ALMOST_C = [0, 1, 3, 0, 2, 0]


def asked_for(topology: Topology, **rows: list[int]) -> Problem:
    rates = {name: dict(zip(topology.ids(), map(float, row), strict=True)) for name, row in rows.items()}
    limits = msgspec.structs.replace(LIMITS, replicas=dict.fromkeys(rows, 2))
    return make_problem(topology, Demand(tuple(rows), rates), limits)


def test_votes_of_b_and_c_on_the_walk_through() -> None:
    problem = asked_for(walkthrough(), b=WALK_THROUGH_B, c=WALK_THROUGH_C)
    assert votes(problem).tolist() == PRINTED[1:].tolist()


@pytest.mark.parametrize("algorithm", [Seq(), Wrr()])
def test_the_whole_example_from_demand(algorithm: Seq | Wrr) -> None:
    problem = asked_for(ALMOST, a=ALMOST_A, b=ALMOST_B, c=ALMOST_C)
    assert (problem.weights // RATE_UNIT).tolist() == TOTALS
    assert votes(problem).tolist() == PRINTED.tolist()
    plan = plan_with(problem, algorithm)
    assert [problem.brokers[store] for store in plan.stores] == ["3", "5", "2"]
    assert [named(problem, places) for places in plan.replicas] == [{"3", "2"}, {"3", "5"}, {"5", "2"}]


@pytest.mark.parametrize(("total", "printed"), [(17, PRINTED[0]), (27, PRINTED[1]), (6, PRINTED[2])])
def test_which_demands_on_the_walk_through_give_the_printed_votes(total: int, printed: npt.NDArray[np.int64]) -> None:
    """All whole demands with the printed total: none for a, many for b, four for c."""
    bars = np.array(list(combinations(range(total + 5), 5)), np.int64)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), total + 5)])
    rates = np.ascontiguousarray(np.diff(edges, axis=1) - 1)
    voted = votes_for(printed_problem(), rates, np.full(len(rates), 2, np.int64))
    hits = int((voted == printed).all(axis=1).sum())
    assert hits == {17: 0, 27: 3036, 6: 4}[total]
