"""Means, intervals, ratios and slopes, next to scipy."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from latecomer.experiments.statistics import Estimate, estimate, ratio, slope

values = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40)


@given(values)
def test_the_interval_is_that_of_students_t(measured: list[float]) -> None:
    assume(max(measured) - min(measured) > 1)
    found = estimate(measured)
    mean = math.fsum(measured) / len(measured)
    low, high = stats.t.interval(0.95, len(measured) - 1, loc=mean, scale=stats.sem(measured))
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)


def test_one_run_says_nothing_about_its_spread() -> None:
    assert estimate([3.0]) == Estimate(3.0, math.inf, 1)


def test_the_interval_holds_the_mean_nineteen_times_in_twenty() -> None:
    random = Random(5)
    inside = sum(estimate([random.gauss(2, 1) for _ in range(8)]).meets(2, 2) for _ in range(2000))
    assert inside / 2000 == pytest.approx(0.95, abs=0.02)


def test_a_ratio_is_that_of_the_means() -> None:
    assert ratio([2.0, 4.0], [1.0, 2.0]) == Estimate(2.0, 0.0, 2)
    assert ratio([1.0, 5.0], [1.0, 2.0]).mean == 2.0
    assert ratio([1.0, 2.0], [0.0, 0.0]).mean == math.inf


def test_the_interval_of_a_ratio_holds_it_nineteen_times_in_twenty() -> None:
    """Pairs that vary together, as two algorithms on the same network do."""
    random = Random(6)

    def pair() -> tuple[float, float]:
        network = random.gauss(10, 2)
        return 0.8 * network + random.gauss(0, 1), network + random.gauss(0, 1)

    inside = 0
    for _ in range(2000):
        pairs = [pair() for _ in range(20)]
        inside += ratio([a for a, _ in pairs], [b for _, b in pairs]).meets(0.8, 0.8)
    assert inside / 2000 == pytest.approx(0.95, abs=0.02)


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_a_straight_line_has_its_slope(steepness: float, start: float) -> None:
    assume(abs(steepness) > 0.01)
    xs = [0.0, 1.0, 2.5, 4.0]
    found, explained = slope(xs, [start + steepness * x for x in xs])
    assert found == pytest.approx(steepness)
    assert explained == pytest.approx(1)


def test_an_estimate_shows_its_unit_and_interval() -> None:
    shown = Estimate(12.3456, 0.678, 20)
    assert shown.show(" %") == "12.3 % ± 0.7"
    assert shown.show("", 2) == "12.35 ± 0.68"
    assert Estimate(-1e-9, 0, 20).show(" %") == "0.0 % ± 0.0"
    assert Estimate(-1234.56, 2345.67, 20).show(" %") == "-1,234.6 % ± 2,345.7"
    assert Estimate(math.inf, math.inf, 20).show(" %") == "∞ %"
    assert shown.meets(13, 20)
    assert not shown.meets(13.1, 20)
