"""Names to numbers: distances in compact integers, limits, and a sentence for everything that cannot be."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.demand import Demand
from latecomer.model.errors import SettingsError
from latecomer.model.plan import Distance, PlanLimits
from latecomer.model.topology import Link, Node, Topology
from latecomer.model.topology_generators import line, walkthrough
from latecomer.planner.algorithms import plan_with
from latecomer.planner.assignment.wrr import Wrr
from latecomer.planner.best import solve
from latecomer.planner.distances import compact, distances_from_matrix, distances_of
from latecomer.planner.legality import check, infeasible
from latecomer.planner.problem import NO_LIMIT, Problem, make_problem, rooms
from latecomer.planner.replication import Fixed
from tests.planner import naive
from tests.planner.instances import network, topology

SEEDS = st.integers(0, 2**32)
DEMAND = Demand(
    topics=("a", "b"),
    rates={"a": {"1": 2.5, "6": 1}, "b": {"3": 1}},
    publications={"a": {"2": 3}, "b": {"4": 1}},
    sizes={"a": 70, "b": 30},
)


def made(**limits: Any) -> Problem:
    return make_problem(walkthrough(), DEMAND, PlanLimits(**limits))


# --- distances ---


@given(seed=SEEDS, kind=st.sampled_from(["hops", "latency"]))
def test_distances_and_ways(seed: int, kind: Distance) -> None:
    chance = Random(seed)
    count = chance.randint(1, 12)
    graph = network(chance, count, latency=True)
    found = distances_of(topology(count, graph), kind)
    lengths = graph if kind == "latency" else tuple((a, b, 1) for a, b, _ in graph)
    expected, _ = naive.distances(count, lengths)
    assert found.distance.tolist() == expected
    for origin in range(count):
        for start, way in enumerate(naive.ways_to(count, lengths, origin)):
            walked = [start]
            while walked[-1] != origin:
                walked.append(int(found.toward[origin, walked[-1]]))
            assert walked == way


@given(seed=SEEDS)
def test_a_matrix_of_hops_is_as_good_as_the_network(seed: int) -> None:
    chance = Random(seed)
    count = chance.randint(1, 12)
    known = distances_of(topology(count, network(chance, count, latency=False)))
    again = distances_from_matrix(known.distance)
    assert (again.distance == known.distance).all()
    assert (again.toward == known.toward).all()


def test_distances_are_compact() -> None:
    assert [compact(n).name for n in (255, 256, 65535, 65536, 2**31)] == ["uint8", "uint16", "uint16", "int32", "int64"]
    long = distances_of(line(300))
    assert (long.distance.dtype.name, long.toward.dtype.name) == ("uint16", "int16")
    assert long.distance[0, 299] == 299


@pytest.mark.parametrize(
    ("matrix", "told"),
    [
        ([[0, 1]], "square"),
        ([[0, 1], [2, 0]], "symmetric"),
        ([[1]], "zero from a broker to itself"),
        ([[0.5]], "whole numbers"),
        ([[0, -1], [-1, 0]], "not negative"),
    ],
)
def test_a_matrix_that_is_none(matrix: list[list[float]], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        distances_from_matrix(matrix)


def test_a_network_in_parts_has_no_plan() -> None:
    parts = Topology("parts", (Node("1"), Node("2")), ())
    with pytest.raises(SettingsError, match="not connected"):
        make_problem(parts, Demand(("a",), {}), PlanLimits())


# --- demand and limits ---


def test_rates_are_whole_millionths() -> None:
    problem = made(stores=2, capacity=2)
    assert problem.rates.tolist() == [[2_500_000, 0, 0, 0, 0, 1_000_000], [0, 0, 1_000_000, 0, 0, 0]]
    assert problem.weights.tolist() == [3_500_000, 1_000_000]
    assert problem.entry.tolist() == [1] * 6


def test_entries_from_publications() -> None:
    published = PlanLimits(stores=1, entry="published")
    assert make_problem(walkthrough(), DEMAND, published).entry.tolist() == [0, 750_000, 0, 250_000, 0, 0]
    silent = msgspec.structs.replace(DEMAND, publications={})
    assert make_problem(walkthrough(), silent, published).entry.tolist() == [1] * 6


def test_replicas_and_stores() -> None:
    assert made(stores=3, capacity=1).replicas.tolist() == [2, 1]
    assert made(stores=3, capacity=2, min_replicas=2).replicas.tolist() == [3, 2]
    assert made(stores=3).replicas.tolist() == [3, 3]
    fewest = made(capacity=1, min_replicas=1)
    assert (fewest.replicas.tolist(), fewest.stores) == ([3, 1], 4)
    assert made(stores=3, replicas={"b": 3}, capacity=2).replicas.tolist()[1] == 3
    fixed = make_problem(walkthrough(), DEMAND, PlanLimits(stores=3), replication=Fixed(2))
    assert fixed.replicas.tolist() == [2, 2]
    assert made(stores=3, capacity=1, pinned_topics={"b": ("1", "2")}).replicas.tolist()[1] == 2


def test_what_is_given_or_pinned_takes_its_share_before_the_others() -> None:
    """Three stores with one slot each are full with 2 and 1; whoever wants more takes it from the rule, not on top."""
    assert made(stores=3, capacity=1, replicas={"b": 2}).replicas.tolist() == [1, 2]
    assert made(stores=3, capacity=1, replicas={"a": 1}).replicas.tolist() == [1, 2]
    assert made(stores=3, capacity=1, pinned_topics={"b": ("1", "2")}).replicas.tolist() == [1, 2]
    assert made(stores=3, capacity=1, min_replicas=1, replicas={"b": 2}).replicas.tolist() == [1, 2]
    assert infeasible(made(stores=3, capacity=1, replicas={"b": 2})) == []


def test_pinned_stores_are_part_of_the_room_even_if_small() -> None:
    """The store at 1 keeps b alone, so there is room for one more of each and no second of a at 1."""
    small = made(stores=2, capacity_bytes=100, capacities_bytes={"1": 30}, pinned_stores=("1",))
    assert infeasible(small) == []
    assert check(small, plan_with(small, Wrr())) == []
    crowded = made(stores=2, capacities_bytes={"1": 30, "2": 30}, pinned_stores=("1", "2"), replicas={"a": 1, "b": 1})
    assert any(reason.endswith("fewer replicas") and "pins" in reason for reason in infeasible(crowded))


def test_pinned_stores_of_one_domain_are_one_place() -> None:
    pins: dict[str, Any] = {"stores": 3, "pinned_stores": ("1", "2"), "domains": {"1": "x", "2": "x"}}
    assert made(**pins).replicas.tolist() == [2, 2]
    told = "topic 'a' shall have 3 replicas, 1 more than the pinned stores leave place for"
    assert infeasible(made(**pins, replicas={"a": 3})) == [told]


def test_a_failure_domain_holds_nothing_twice() -> None:
    """Three stores in one rack and one outside, two slots each: every topic once in the rack, and two outside."""
    topics = ("a", "b", "c", "d")
    demand = Demand(topics, {topic: {"1": 4 - at} for at, topic in enumerate(topics)})
    limits = PlanLimits(stores=4, capacity=2, domains=dict.fromkeys("123", "rack"), barred=("5", "6"))
    problem = make_problem(walkthrough(), demand, limits)
    assert (rooms(problem), problem.replicas.tolist()) == ([2, 2, 2, 0], [2, 2, 1, 1])
    assert check(problem, solve(problem).placement) == []


def test_bytes() -> None:
    problem = made(stores=2, capacity_bytes=70, capacities_bytes={"3": 100, "4": 10})
    assert (problem.unit, problem.size.tolist()) == ("bytes", [70, 30])
    assert problem.capacity.tolist() == [70, 70, 100, 10, 70, 70]
    plan = plan_with(problem, Wrr())
    assert 3 not in plan.stores


def test_everything_else() -> None:
    problem = made(
        stores=3,
        request_rate=2,
        request_rates={"2": 0},
        domains={"2": "x", "5": "x", "6": "y"},
        pinned_stores=("4",),
        pinned_topics={"b": ("3",)},
        barred=("1",),
    )
    assert problem.rate_limit.tolist() == [2_000_000, 0, 2_000_000, 2_000_000, 2_000_000, 2_000_000]
    assert problem.domain.tolist() == [0, 1, 2, 3, 1, 5]
    assert (problem.pinned_stores, problem.pinned) == ((2, 3), ((1, 2),))
    assert problem.open.tolist() == [False, True, True, True, True, True]


@pytest.mark.parametrize(
    ("limits", "key"),
    [
        ({"barred": ("7",)}, "barred"),
        ({"pinned_stores": ("7",)}, "pinned_stores"),
        ({"pinned_topics": {"c": ("1",)}}, "pinned_topics.c"),
        ({"pinned_topics": {"a": ("7",)}}, "pinned_topics.a"),
        ({"domains": {"7": "x"}}, "domains.7"),
        ({"request_rates": {"7": 1.0}}, "request_rates.7"),
        ({"request_rates": {"1": -1.0}}, "request_rates.1"),
        ({"capacities_bytes": {"7": 1}}, "capacities_bytes.7"),
        ({"capacity": 1, "capacity_bytes": 1}, "capacity"),
        ({"stores": -1}, "stores"),
        ({"min_replicas": -1}, "min_replicas"),
        ({"replicas": {"c": 1}}, "replicas.c"),
        ({"replicas": {"a": 0}}, "replicas.a"),
    ],
)
def test_an_error_names_the_key(limits: dict[str, Any], key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        made(**limits)
    assert caught.value.key == key


def test_demand_from_elsewhere() -> None:
    with pytest.raises(SettingsError, match=r"rates.a: there is no broker '9' in the network"):
        make_problem(walkthrough(), Demand(("a",), {"a": {"9": 1}}), PlanLimits())
    nothing = msgspec.structs.replace(DEMAND, sizes={"a": 1})
    with pytest.raises(SettingsError, match="'b' has none"):
        make_problem(walkthrough(), nothing, PlanLimits(capacity_bytes=5))


def test_sums_that_do_not_fit_are_refused() -> None:
    far = Topology("far", (Node("1"), Node("2")), (Link("1", "2", 3_600_000_000),))
    demand = Demand(("a",), {"a": {"1": 1e9}})
    with pytest.raises(SettingsError, match="divide all rates"):
        make_problem(far, demand, PlanLimits(stores=1), "latency")
    assert make_problem(far, demand, PlanLimits(stores=1), "hops").total_rate == 10**15


# --- what cannot be, and by how much ---


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"stores": 7}, "7 stores are 1 more than the 6 brokers that may have one"),
        ({"stores": 1, "pinned_stores": ("1", "2", "3")}, "3 brokers are pinned as stores, 2 more than the 1 stores"),
        ({"stores": 2, "replicas": {"a": 5}}, "topic 'a' shall have 5 replicas, 3 more than there are stores"),
        (
            {"stores": 2, "capacity": 1, "replicas": {"a": 2, "b": 2}},
            "all replicas together take 4 slots, 2 more than",
        ),
        ({"stores": 2, "capacity_bytes": 40}, "topic 'a' of 70 bytes fits 0 brokers, 1 fewer than its 1 replicas"),
        ({"stores": 2, "pinned_stores": ("1",), "barred": ("1",)}, "broker '1' is pinned as a store and barred"),
        (
            {"stores": 3, "replicas": {"a": 3}, "domains": dict.fromkeys("123456", "x")},
            "topic 'a' shall have 3 replicas, 2 more than failure domains that can keep it",
        ),
        (
            {"stores": 3, "replicas": {"a": 1}, "pinned_topics": {"a": ("1", "2")}},
            "topic 'a' is pinned 2 times, 1 more than its replicas",
        ),
        (
            {"stores": 3, "pinned_topics": {"a": ("1", "2")}, "domains": {"1": "x", "2": "x"}},
            "topic 'a' is pinned to broker '1' and broker '2', one failure domain",
        ),
        (
            {"stores": 2, "capacity": 1, "pinned_topics": {"a": ("1",), "b": ("1",)}},
            "broker '1' has 2 topics pinned to it, 1 more than it holds",
        ),
        ({"stores": 2, "request_rate": 1}, "4.5 requests per second are 2.5 more than the 2 stores"),
    ],
)
def test_infeasible_says_which_limit_and_by_how_much(limits: dict[str, Any], told: str) -> None:
    assert any(reason.startswith(told) for reason in infeasible(made(**limits))), infeasible(made(**limits))


def test_limits_beyond_all_numbers_are_none_or_a_sentence() -> None:
    for rate in (4.5, 1e12, 1e17):
        problem = made(stores=6, capacity=1, request_rate=rate, request_rates={"1": 1.0})
        assert problem.rate_limit.tolist() == [1_000_000] + [NO_LIMIT] * 5
        assert infeasible(problem) == []
    for limits in ({"request_rate": 1e300}, {"replicas": {"a": 10**30}}, {"stores": 10**30}):
        with pytest.raises(SettingsError, match="is too large; leave it out where there is no limit"):
            made(**limits)
    for limits, key in (({"capacity": 2**60}, "capacity"), ({"min_replicas": 2**61}, "min_replicas")):
        with pytest.raises(SettingsError, match="is too large to add up") as caught:
            made(stores=6, **limits)
        assert caught.value.key == key


def test_nothing_is_wrong_with_a_good_problem() -> None:
    assert infeasible(made(stores=2, capacity=2)) == []
