"""The modified greedy algorithm against the text of planning §5.1 and §5.2, on thousands of random networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.planner.greedy import Access, picks, votes
from latecomer.planner.problem import Problem, replace_problem
from tests.planner import naive
from tests.planner.instances import Instance, instance

ACCESS: tuple[Access, ...] = ("path", "nearest")
BLOCKS = range(10)
PER_BLOCK = 150
SEEDS = st.integers(0, 2**32)


def naive_votes(drawn: Instance, access: Access) -> list[list[int]]:
    return naive.votes(
        drawn.count,
        drawn.graph,
        drawn.rates,
        drawn.replicas,
        entry=drawn.entry,
        allowed=drawn.allowed,
        access=access,
    )


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("block", BLOCKS)
def test_votes_are_those_of_the_text(block: int, access: Access) -> None:
    for seed in range(block * PER_BLOCK, (block + 1) * PER_BLOCK):
        drawn = instance(seed)
        assert votes(drawn.problem, access).tolist() == naive_votes(drawn, access), f"seed {seed}"


@given(seed=SEEDS, access=st.sampled_from(ACCESS))
def test_votes_are_those_of_the_text_anywhere(seed: int, access: Access) -> None:
    drawn = instance(seed)
    assert votes(drawn.problem, access).tolist() == naive_votes(drawn, access)


@given(seed=SEEDS)
def test_the_first_pick_has_the_printed_gain(seed: int) -> None:
    drawn = instance(seed)
    length, _ = naive.distances(drawn.count, drawn.graph)
    for origin in range(drawn.count):
        ways = naive.ways_to(drawn.count, drawn.graph, origin)
        for topic, rates in enumerate(drawn.rates):
            gains = [naive.first_gain(ways, length[origin], rates, i) * drawn.allowed[i] for i in range(drawn.count)]
            chosen = picks(drawn.problem, topic, origin)
            assert list(chosen[:1]) == ([gains.index(max(gains))] if max(gains) > 0 else [])


@given(seed=SEEDS, access=st.sampled_from(ACCESS))
def test_votes_are_the_picks_of_all_origins(seed: int, access: Access) -> None:
    drawn = instance(seed)
    counted = np.zeros_like(drawn.problem.rates)
    for topic in range(len(drawn.rates)):
        for origin in range(drawn.count):
            chosen = picks(drawn.problem, topic, origin, access)
            assert origin not in chosen
            assert len(set(chosen)) == len(chosen) <= drawn.replicas[topic]
            for broker in chosen:
                counted[topic, broker] += drawn.entry[origin]
    assert (votes(drawn.problem, access) == counted).all()


@given(seed=SEEDS, access=st.sampled_from(ACCESS))
def test_threads_change_nothing(seed: int, access: Access) -> None:
    problem = instance(seed, most_brokers=30, most_topics=5).problem
    assert (votes(problem, access, parallel=True) == votes(problem, access, parallel=False)).all()


@given(seed=SEEDS, access=st.sampled_from(ACCESS))
def test_more_picks_only_add_votes(seed: int, access: Access) -> None:
    """Greedy is nested: the first k of k + 1 picks are the k picks."""
    problem = instance(seed).problem
    more = replace_problem(problem, replicas=problem.replicas + 1)
    assert (votes(more, access) >= votes(problem, access)).all()


def test_the_two_kinds_of_access_differ() -> None:
    """On a ring: a store at 2 is next to 3, but not on the way from 3 to 0."""
    ring = np.minimum((np.arange(5)[:, None] - np.arange(5)) % 5, (np.arange(5) - np.arange(5)[:, None]) % 5)
    problem = Problem.small(ring, [[0, 0, 9, 9, 10]], 2, 1, 2)
    assert picks(problem, 0, 0, "path") == (4, 2)
    assert picks(problem, 0, 0, "nearest") == (2, 4)


def test_nobody_votes_for_what_saves_nothing() -> None:
    line = np.abs(np.arange(4)[:, None] - np.arange(4))
    problem = Problem.small(line, [[0, 0, 7, 0], [0, 0, 0, 0]], 3, 2, 3)
    assert votes(problem).tolist() == [[0, 0, 3, 0], [0, 0, 0, 0]]


def test_long_distances_need_more_than_a_byte() -> None:
    count = 400
    line = np.abs(np.arange(count)[:, None] - np.arange(count))
    rates = np.zeros((1, count), np.int64)
    rates[0, 300] = rates[0, 399] = 1
    problem = Problem.small(line, rates, 2, 1, 2)
    assert problem.distance.dtype == np.uint16
    # 300 hops for both, then the 99 that are left; against 399 hops for one, then 300 for the other.
    assert picks(problem, 0, 0, "path") == (300, 399)
    assert picks(problem, 0, 0, "nearest") == (300, 399)
