"""Assignment against the text of planning §5.3 step 4 and §5.5; and no limit is ever broken."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from latecomer.planner.algorithms import ALGORITHMS, Algorithm, plan_with, reassign
from latecomer.planner.assignment.grd_opt import GrdOpt
from latecomer.planner.assignment.rnd import Rnd
from latecomer.planner.assignment.seq import Seq
from latecomer.planner.assignment.wrr import Wrr
from latecomer.planner.cost import loads
from latecomer.planner.greedy import votes
from latecomer.planner.legality import Infeasible, Placement, check, infeasible
from latecomer.planner.placement import ranking
from latecomer.planner.problem import NO_LIMIT, Problem, replace_problem
from tests.planner import naive
from tests.planner.instances import instance

SEEDS = st.integers(0, 2**32)
LIMITED: tuple[Algorithm, ...] = (Seq(), Wrr(), Rnd(), Rnd(seed=3, stores="random"))


@pytest.mark.parametrize("block", range(10))
def test_plans_are_those_of_the_text(block: int) -> None:
    """Where the text gets stuck it has no answer; elsewhere ours is its answer, in its order."""
    compared = 0
    for seed in range(block * 200, (block + 1) * 200):
        drawn = instance(seed, most_brokers=10, most_topics=6)
        problem = replace_problem(drawn.problem, open=np.ones(drawn.count, np.bool_))
        voted = votes(problem)
        chosen = naive.stores(drawn.rates, voted.tolist(), drawn.stores)
        for algorithm, per_round in ((Seq(), [drawn.count] * 6), (Wrr(), naive.relative_weights(drawn.rates))):
            found = plan_with(problem, algorithm, voted)
            assert list(found.stores) == chosen
            text = naive.assign(drawn.rates, voted.tolist(), chosen, drawn.replicas, drawn.capacity, per_round)
            if text is not None:
                assert [list(places) for places in found.replicas] == text, f"seed {seed}"
                compared += 1
    assert compared > 300


@given(seed=SEEDS, algorithm=st.sampled_from(LIMITED))
def test_the_papers_problem_always_has_a_plan(seed: int, algorithm: Algorithm) -> None:
    """Equal stores, enough slots, k ≤ M: then nobody is left over, whatever the walk did first."""
    drawn = instance(seed, most_brokers=10, most_topics=6)
    problem = replace_problem(drawn.problem, open=np.ones(drawn.count, np.bool_))
    assert infeasible(problem) == []
    assert check(problem, plan_with(problem, algorithm)) == []


def harder(problem: Problem, seed: int) -> Problem:
    """The same with sizes, capacities, request limits, domains, pins and bars, each in some of the cases."""
    chance = Random(seed)
    count, topics = len(problem.brokers), len(problem.topics)
    changes: dict[str, Any] = {}
    if chance.random() < 0.5:
        changes["size"] = np.array([chance.randint(1, 9) for _ in range(topics)], np.int64)
        changes["capacity"] = np.array([chance.randint(5, 40) for _ in range(count)], np.int64)
    if chance.random() < 0.5:
        most = 2 * problem.total_rate // problem.stores + 1
        limits = [chance.choice((NO_LIMIT, chance.randint(0, most))) for _ in range(count)]
        changes["rate_limit"] = np.array(limits, np.int64)
    if chance.random() < 0.5:
        changes["domain"] = np.array([chance.randrange(count) for _ in range(count)], np.int32)
    if chance.random() < 0.5:
        pinned = {(chance.randrange(topics), chance.randrange(count)) for _ in range(chance.randint(0, 2))}
        alone = {chance.randrange(count) for _ in range(chance.randint(0, 2))}
        changes["pinned"] = tuple(sorted(pinned))
        changes["pinned_stores"] = tuple(sorted(alone | {broker for _, broker in pinned}))
    return replace_problem(problem, **changes)


@given(seed=SEEDS, algorithm=st.sampled_from(LIMITED))
def test_no_plan_breaks_a_limit(seed: int, algorithm: Algorithm) -> None:
    """A plan or a sentence; and pins, bars, domains, sizes and limits are looked at once more by hand."""
    problem = harder(instance(seed, most_brokers=10, most_topics=5).problem, seed)
    try:
        plan = plan_with(problem, algorithm)
    except Infeasible:
        return
    assert check(problem, plan) == []
    assert len(set(plan.stores)) == len(plan.stores) <= problem.stores
    assert all(problem.open[store] for store in plan.stores)
    assert set(problem.pinned_stores) <= set(plan.stores)
    used = dict.fromkeys(plan.stores, 0)
    for topic, places in enumerate(plan.replicas):
        assert len({int(problem.domain[place]) for place in places}) == len(places) == problem.replicas[topic]
        for place in places:
            used[place] += int(problem.size[topic])
    assert all(units <= problem.capacity[store] for store, units in used.items())
    assert all(broker in plan.replicas[topic] for topic, broker in problem.pinned)
    load = loads(problem, plan.replicas)
    assert ((problem.rate_limit == NO_LIMIT) | (load <= problem.rate_limit)).all()


def test_most_hard_problems_have_a_plan() -> None:
    """Otherwise the test above would say little."""
    planned = refused = impossible = 0
    for seed in range(400):
        problem = harder(instance(seed, most_brokers=10, most_topics=5).problem, seed)
        if infeasible(problem):
            impossible += 1
            continue
        try:
            plan_with(problem, Wrr())
            planned += 1
        except Infeasible:
            refused += 1
    assert planned > 4 * refused
    assert planned > impossible


@given(seed=SEEDS, shift=SEEDS, algorithm=st.sampled_from([Seq(), Wrr(), GrdOpt()]))
def test_permuted_brokers_get_the_permuted_plan(seed: int, shift: int, algorithm: Algorithm) -> None:
    """Without ties, that is: one way to everywhere, rates that all differ, and origins whose votes add up uniquely."""
    chance = Random(seed)
    count, topics = chance.randint(3, 12), chance.randint(1, 4)
    parents = [chance.randrange(at) for at in range(1, count)]
    rates = np.array([[chance.randint(10**9, 10**10) for _ in range(count)] for _ in range(topics)], np.int64)
    order = list(range(count))
    Random(shift).shuffle(order)

    def problem(names: list[int]) -> Problem:
        length, _ = naive.distances(count, [(names[at + 1], names[up], 1) for at, up in enumerate(parents)])
        table, entry = np.empty_like(rates), np.empty(count, np.int64)
        table[:, names] = rates
        entry[names] = [1 << at for at in range(count)]
        stores = min(4, count)
        return Problem.small(length, table, stores, -(-2 * topics // stores), 2, entry=entry)

    plain, permuted = problem(list(range(count))), problem(order)
    voted = votes(plain)
    # Brokers that nobody votes for are told apart by their index alone.
    assume(voted.any(axis=0).sum() >= plain.stores and (np.count_nonzero(voted, axis=1) >= 2).all())
    # And two that the same runs picked have the same votes.
    assume(all(len(np.unique(row[row > 0])) == np.count_nonzero(row) for row in (*voted, ranking(plain, voted))))
    expected, found = plan_with(plain, algorithm), plan_with(permuted, algorithm)
    assert [order[store] for store in expected.stores] == list(found.stores)
    assert [[order[place] for place in places] for places in expected.replicas] == list(map(list, found.replicas))


@given(seed=SEEDS, algorithm=st.sampled_from(LIMITED))
def test_reassigning_under_unchanged_demand_moves_nothing(seed: int, algorithm: Algorithm) -> None:
    problem = harder(instance(seed, most_brokers=10, most_topics=5).problem, seed)
    try:
        plan = plan_with(problem, algorithm)
    except Infeasible:
        return
    assert reassign(problem, plan.stores, algorithm) == plan


@given(seed=SEEDS)
def test_grd_opt_takes_the_best_votes_of_every_topic(seed: int) -> None:
    problem = instance(seed).problem
    voted = votes(problem)
    plan = plan_with(problem, GrdOpt(), voted)
    for topic, places in enumerate(plan.replicas):
        allowed = [broker for broker in range(len(problem.brokers)) if problem.open[broker]]
        best = sorted(allowed, key=lambda broker: (-voted[topic, broker], broker))
        assert list(places) == best[: problem.replicas[topic]]
    assert set(plan.stores) == {place for places in plan.replicas for place in places}


def test_rnd_is_its_seed() -> None:
    line = np.abs(np.arange(9)[:, None] - np.arange(9))
    problem = Problem.small(line, [list(range(9)), [3] * 9], 4, 1, 2)
    plans = [plan_with(problem, Rnd(seed)) for seed in range(20)]
    assert plans == [plan_with(problem, Rnd(seed)) for seed in range(20)]
    assert len({plan.replicas for plan in plans}) > 1
    assert len({plan.stores for plan in plans}) == 1
    assert len({plan_with(problem, Rnd(seed, stores="random")).stores for seed in range(20)}) > 1


def test_the_registry_has_the_papers_names() -> None:
    assert list(ALGORITHMS) == ["seq", "wrr", "grd_opt", "rnd"]


# --- by example ---

LINE = np.abs(np.arange(4)[:, None] - np.arange(4))


def test_a_topic_that_finds_no_room_makes_some() -> None:
    """The light topic comes last, needs two stores, and both free slots are in one: somebody moves."""
    rates = [[9, 9, 9, 9], [5, 5, 5, 5], [1, 1, 1, 1]]
    problem = Problem.small(LINE, rates, 3, 2, [2, 2, 2])
    voted = np.array([[0, 5, 4, 0], [0, 5, 4, 0], [0, 5, 4, 1]], np.int64)
    plan = plan_with(problem, Seq(), voted)
    assert plan.replicas == ((1, 2), (3, 2), (3, 1))


def test_a_store_with_too_many_requests_is_relieved() -> None:
    problem = Problem.small(LINE, [[4, 0, 0, 0], [4, 0, 0, 0]], 2, 2, 1)
    free = plan_with(problem, Wrr())
    assert free.replicas == ((0,), (0,))
    limited = replace_problem(problem, rate_limit=np.array([4, 4, 4, 4], np.int64))
    plan = plan_with(limited, Wrr())
    assert sorted(plan.replicas) == [(0,), (1,)]


def test_too_many_requests_for_all_are_refused_with_a_sentence() -> None:
    problem = Problem.small(LINE, [[3_000_000, 0, 0, 0], [3_000_000, 0, 0, 0]], 2, 2, 1)
    one_too_large = replace_problem(
        problem, rate_limit=np.array([2_000_000, 9_000_000, 1, 1], np.int64), pinned=((0, 0),)
    )
    with pytest.raises(Infeasible, match="broker '0' is the nearest for 3 requests per second, 1 above its limit"):
        plan_with(replace_problem(one_too_large, pinned_stores=(0,)), Wrr())
    too_little = replace_problem(problem, rate_limit=np.full(4, 2_000_000, np.int64))
    with pytest.raises(Infeasible, match="6 requests per second are 2 more than the 2 stores"):
        plan_with(too_little, Wrr())


def test_replicas_stay_out_of_one_failure_domain() -> None:
    """The best votes are in one domain; the second replica goes to the other one."""
    problem = Problem.small(LINE, [[0, 9, 9, 1]], 2, 1, 2)
    assert plan_with(problem, Wrr()).replicas == ((1, 2),)
    apart = replace_problem(problem, domain=np.array([0, 1, 1, 3], np.int32))
    assert plan_with(apart, Wrr()).replicas == ((1, 3),)


def test_a_check_names_everything_that_is_wrong() -> None:
    problem = Problem.small(LINE, [[1, 0, 0, 0], [1, 0, 0, 0]], 2, 1, 1)
    problem = replace_problem(
        problem,
        open=np.array([True, True, True, False]),
        pinned=((1, 0),),
        pinned_stores=(0,),
        domain=np.array([0, 1, 1, 3], np.int32),
    )
    told = check(problem, Placement((1, 2, 3), ((1, 2), (1,))))
    assert told == [
        "3 stores are 1 too many",
        "broker '3' is barred and has a store",
        "broker '0' is pinned and has no store",
        "topic '0' has 2 of 1 replicas",
        "topic '0' is at broker '1' and broker '2', one failure domain",
        "topic '1' is pinned to broker '0' and not there",
        "broker '1' keeps 2 topics, 1 too many",
    ]
