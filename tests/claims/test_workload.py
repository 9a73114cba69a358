"""The papers' workload: trees, popularity, locality."""

from __future__ import annotations

from random import Random
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.experiments.workload import (
    BOUNDED_LINKS,
    TREES,
    Negative,
    Neighbourhood,
    TreeKind,
    bounded_tree,
    localities,
    neighbourhoods,
    powers,
    shares,
    stores_needed,
    uniform_rates,
    zipf_rates,
)
from latecomer.planner.distances import distances_of
from latecomer.planner.problem import RATE_UNIT

exponents = st.floats(-3, 3)
seeds = st.integers(0, 2**32)


@given(st.sampled_from(get_args(TreeKind)), st.integers(2, 60), seeds)
def test_a_tree_is_a_tree_and_its_seed_decides_it(kind: TreeKind, n: int, seed: int) -> None:
    made = TREES[kind](n, Random(seed))
    assert len(made.nodes) == n
    assert made.is_tree()
    assert made == TREES[kind](n, Random(seed))


@given(st.integers(2, 80), seeds)
def test_a_bounded_tree_has_no_broker_with_more_links(n: int, seed: int) -> None:
    made = bounded_tree(n, Random(seed))
    assert max(map(len, made.neighbours().values())) <= BOUNDED_LINKS


@given(st.integers(1, 40), exponents, st.sampled_from(get_args(Negative)))
def test_popularity_is_a_share_and_falls_or_rises_with_the_sign(count: int, s: float, negative: Negative) -> None:
    found = shares(count, s, negative)
    assert sum(found) == pytest.approx(1)
    assert found == sorted(found, reverse=s >= 0)


@given(st.integers(1, 40), exponents)
def test_a_negative_exponent_is_the_law_in_reversed_order(count: int, s: float) -> None:
    assert powers(count, -s) == powers(count, s)[::-1] or s == 0


def test_the_formula_as_it_stands_is_linear_at_minus_one() -> None:
    assert powers(4, -1, "power") == pytest.approx([0.25, 0.5, 0.75, 1])
    assert powers(4, -1, "reversed") == pytest.approx([1 / 4, 1 / 3, 1 / 2, 1])


@given(st.integers(1, 40), exponents, st.sampled_from(get_args(Neighbourhood)))
def test_localities_add_up_to_one_or_reach_it(count: int, s: float, kind: Neighbourhood) -> None:
    found = localities(count, s, kind)
    assert (sum(found) if kind == "share" else max(found)) == pytest.approx(1)
    assert localities(count, None, kind) == [1.0] * count


@given(st.integers(2, 40), st.lists(st.floats(0.001, 1), min_size=1, max_size=6), seeds)
def test_a_neighbourhood_is_the_nearest_to_its_centre(n: int, parts: list[float], seed: int) -> None:
    distances = distances_of(TREES["labelled"](n, Random(seed))).distance
    for part, members in zip(parts, neighbourhoods(distances, parts, Random(seed)), strict=True):
        assert len(members) == len(set(members)) == int(np.ceil(part * n - 1e-9))
        others = [broker for broker in range(n) if broker not in members]
        from_centre = distances[members[0]]
        assert members[0] == min(members, key=lambda broker: from_centre[broker])
        assert not others or max(from_centre[members]) <= min(from_centre[others])


@given(st.integers(2, 40), st.floats(0.1, 0.5), seeds)
def test_a_locality_that_drifts_keeps_its_centre(n: int, part: float, seed: int) -> None:
    distances = distances_of(TREES["labelled"](n, Random(seed))).distance
    small, large = (neighbourhoods(distances, [p] * 3, Random(seed)) for p in (part, 2 * part))
    for fewer, more in zip(small, large, strict=True):
        assert more[: len(fewer)] == fewer


def test_rates_are_those_of_the_paper() -> None:
    """25 · p[t] requests per second at every broker: 250 in all for ten brokers."""
    rates = zipf_rates(25, shares(10, 0), [range(10)] * 10, 10)
    assert (rates == 2_500_000).all()
    few = zipf_rates(25, shares(2, 1), [[3], [0, 1]], 4)
    assert few.tolist() == [[0, 0, 0, 16_666_666], [8_333_333, 8_333_333, 0, 0]]
    loud = zipf_rates(25, shares(2, 1), [[3], [0, 1, 2]], 4, spread=True)
    assert loud.sum(axis=1).tolist() == [4 * 16_666_666, 4 * 8_333_333]
    assert np.ptp(loud[1, :3]) <= 1


@given(st.integers(1, 5), st.integers(1, 30), seeds)
def test_uniform_rates_lie_between_nothing_and_one(topics: int, brokers: int, seed: int) -> None:
    rates = uniform_rates(topics, brokers, Random(seed))
    assert rates.shape == (topics, brokers)
    assert 0 <= rates.min() <= rates.max() <= RATE_UNIT


def test_weights_keep_whole_ratios() -> None:
    """With exponent 1 the first of ten topics is asked for exactly ten times as often as the last."""
    weights = zipf_rates(25, shares(10, 1), [range(100)] * 10, 100).sum(axis=1).tolist()
    assert [weight * 2 // weights[-1] for weight in weights] == [20, 10, 6, 5, 4, 3, 2, 2, 2, 2]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 12))
def test_stores_fit_what_the_rule_says(replicas: list[int], capacity: int) -> None:
    def fits(stores: int) -> bool:
        return max(replicas) <= stores and sum(replicas) <= capacity * stores

    every = stores_needed(replicas, capacity, "fit-all")
    assert fits(every)
    assert not fits(every - 1)
    some = stores_needed(replicas, capacity, "fit-some")
    capped = stores_needed(replicas, capacity, "fit-capped")
    assert min(replicas) <= capped <= some <= every
    assert sum(replicas) <= capacity * some
    assert sum(min(count, capped) for count in replicas) <= capacity * capped
