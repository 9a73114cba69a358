"""Cost, loads and losses against the sums as they are written (planning §5.4)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.planner.cost import after_failures, cost, hops_mean, loads, losses, per_topic, serving, worst_loss
from tests.planner import naive
from tests.planner.instances import Instance, instance

SEEDS = st.integers(0, 2**32)


def placed(drawn: Instance, seed: int) -> list[list[int]]:
    chance = Random(seed)
    return [chance.sample(range(drawn.count), count) for count in drawn.replicas]


@given(seed=SEEDS)
def test_cost_is_the_sum_over_nearest_replicas(seed: int) -> None:
    drawn = instance(seed)
    kept = placed(drawn, seed)
    length, _ = naive.distances(drawn.count, drawn.graph)
    expected = naive.cost(length, drawn.rates, kept)
    total = sum(map(sum, drawn.rates))
    assert cost(drawn.problem, kept) == per_topic(drawn.problem, kept).sum() == expected
    assert hops_mean(drawn.problem, kept) == pytest.approx(expected / total if total else 0)


@given(seed=SEEDS)
def test_who_serves_whom(seed: int) -> None:
    drawn = instance(seed)
    kept = placed(drawn, seed)
    length, _ = naive.distances(drawn.count, drawn.graph)
    load = [0] * drawn.count
    for rates, places in zip(drawn.rates, kept, strict=True):
        nearest = [naive.served_by(length, places, asking) for asking in range(drawn.count)]
        assert serving(drawn.problem, places).tolist() == nearest
        for store, rate in zip(nearest, rates, strict=True):
            load[store] += rate
    assert loads(drawn.problem, kept).tolist() == load


@given(seed=SEEDS, lost=st.integers(0, 8))
def test_lost_stores_leave_requests_to_the_next_nearest(seed: int, lost: int) -> None:
    drawn = instance(seed)
    kept = placed(drawn, seed)
    failed = Random(seed).sample(range(drawn.count), min(lost, drawn.count))
    left = [[place for place in places if place not in failed] for places in kept]
    length, _ = naive.distances(drawn.count, drawn.graph)
    served = [(rates, places) for rates, places in zip(drawn.rates, left, strict=True) if places]
    expected = naive.cost(length, [rates for rates, _ in served], [places for _, places in served])
    unserved = sum(sum(rates) for rates, places in zip(drawn.rates, left, strict=True) if not places)
    assert after_failures(drawn.problem, kept, failed) == (expected, unserved)


@given(seed=SEEDS)
def test_every_single_loss(seed: int) -> None:
    drawn = instance(seed)
    kept = placed(drawn, seed)
    found = losses(drawn.problem, kept)
    assert [loss.store for loss in found] == sorted({place for places in kept for place in places})
    for loss in found:
        assert (loss.cost, loss.unserved) == after_failures(drawn.problem, kept, [loss.store])
    worst = worst_loss(drawn.problem, kept)
    assert all((loss.unserved, loss.cost) <= (worst.unserved, worst.cost) for loss in found)
    assert worst in found
