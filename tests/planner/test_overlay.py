"""The overlay planner against the text of DYNATOPS §III, on thousands of random rings."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.model.errors import SettingsError
from latecomer.model.ring import Ring, evenly
from latecomer.planner.overlay.cost import cost_of, total_of
from latecomer.planner.overlay.exact import exact
from latecomer.planner.overlay.greedy import dynatops_greedy, ssbr_greedy
from latecomer.planner.overlay.lsap import fewest_hops
from latecomer.planner.overlay.problem import make_problem
from latecomer.planner.overlay.reconfiguration import PAPER, Reconfiguration, movers
from latecomer.planner.overlay.search import search, search_moves
from latecomer.planner.overlay.search_kernels import descend
from latecomer.planner.overlay.state import case_of, state_of
from latecomer.planner.overlay.weigh_kernels import total_cost
from tests.planner import overlay_naive as naive

SEEDS = st.integers(0, 2**32)
law = settings(deadline=None, max_examples=100)
THOUSANDS = range(3000)
MAKERS = st.sampled_from((naive.draw, naive.draw_delays))
"""A delay is a hop, or measured."""


# --- costs ---


def costs_are_those_of_the_text(drawn: naive.Drawn) -> None:
    found = cost_of(drawn.problem, naive.configuration(drawn.start))
    expected = naive.sums(drawn, drawn.start)
    unit = drawn.problem.unit
    assert (found.external, found.internal, found.delay) == (
        expected.external * unit,
        expected.internal * unit,
        expected.delay * unit,
    )
    assert found.cost == expected.cost(drawn) * drawn.scale
    assert found.brokers.tolist() == [one * drawn.scale for one in expected.brokers]
    assert found.brokers.sum() == found.cost, "eq. 9"
    assert found.relays.tolist() == expected.relays
    assert found.longest == expected.longest


def swaps_are_those_of_the_text(drawn: naive.Drawn, seed: int) -> None:
    """The path of SSBR-Greedy: the same brokers, partners and costs; so every price that decided was right."""
    tries = random.Random(seed).choice((1, 1, 2, 100))
    path = ssbr_greedy(drawn.problem, naive.configuration(drawn.start), tries=tries)
    expected = naive.greedy(drawn, drawn.start, tries)
    assert path.swaps.tolist() == [[one, other] for one, other, _ in expected]
    assert path.costs[1:].tolist() == [cost * drawn.scale for _, _, cost in expected]
    assert total_of(drawn.problem, path.end) == path.costs[-1]
    assert path.after(len(path.swaps)).tolist() == path.end.tolist()


@given(seed=SEEDS, make=MAKERS)
@law
def test_costs_are_those_of_the_text(seed: int, make: Callable[[int], naive.Drawn]) -> None:
    costs_are_those_of_the_text(make(seed))


@given(seed=SEEDS, make=MAKERS)
@settings(deadline=None, max_examples=200)
def test_swaps_of_the_greedy_are_those_of_the_text(seed: int, make: Callable[[int], naive.Drawn]) -> None:
    swaps_are_those_of_the_text(make(seed), seed)


@pytest.mark.long
def test_costs_and_swaps_on_thousands_of_rings() -> None:
    for seed in THOUSANDS:
        for drawn in (naive.draw(seed), naive.draw_delays(seed)):
            costs_are_those_of_the_text(drawn)
            swaps_are_those_of_the_text(drawn, seed)


@given(seed=SEEDS, make=MAKERS)
@law
def test_after_all_pairs_no_swap_helps(seed: int, make: Callable[[int, int, int], naive.Drawn]) -> None:
    drawn = make(seed, 9, 4)
    case = case_of(drawn.problem)
    state = state_of(case, naive.configuration(drawn.start))
    descend(case, state, naive.configuration(drawn.start), 0)
    place = state.place.tolist()
    here = naive.cost(drawn, place)
    assert total_cost(case, state) == here * drawn.scale
    assert here <= naive.cost(drawn, drawn.start)
    for one in range(len(place)):
        for other in range(one):
            assert naive.cost(drawn, naive.swapped(place, one, other)) >= here


# --- optima and bounds ---


@given(seed=SEEDS)
@settings(deadline=None, max_examples=60)
def test_the_program_finds_the_optimum(seed: int) -> None:
    drawn = naive.draw(seed, 6, 4)
    start = naive.configuration(drawn.start)
    best = naive.optimum(drawn) * drawn.scale
    found = exact(drawn.problem, start)
    assert found.optimal
    assert found.cost == found.bound == best
    assert total_of(drawn.problem, found.configuration) == best
    searched = search(drawn.problem, start, rounds=20)
    assert searched.bound <= best <= searched.cost
    assert searched.cost == total_of(drawn.problem, searched.configuration)
    assert searched.cost <= min(total_of(drawn.problem, start), int(ssbr_greedy(drawn.problem, start).costs[0]))


@given(seed=SEEDS)
@settings(deadline=None, max_examples=60)
def test_the_assignment_has_the_fewest_hops(seed: int) -> None:
    drawn = naive.draw(seed, 6, 4)
    found = fewest_hops(drawn.problem, weight=1)
    assert found.bound == naive.fewest_hops(drawn) * drawn.problem.unit
    assert naive.sums(drawn, found.configuration.tolist()).delay * drawn.problem.unit == found.bound


def test_the_search_is_near_the_optimum_where_the_greedy_is_not() -> None:
    greedy, searched = [], []
    for seed in range(12):
        drawn = naive.draw(seed + 500, 8, 8)
        start = naive.configuration(drawn.start)
        found = search(drawn.problem, start)
        best = exact(drawn.problem, found.configuration)
        assert best.optimal
        if best.cost:
            greedy.append(ssbr_greedy(drawn.problem, start).costs[-1] / best.cost)
            searched.append(found.cost / best.cost)
    assert max(searched) < 1.1
    assert sum(searched) <= sum(greedy)


def test_where_delays_are_measured_nothing_is_known_of_the_best() -> None:
    drawn = naive.draw_delays(16)
    start = naive.configuration(drawn.start)
    found = search(drawn.problem, start, rounds=10)
    assert found.cost == naive.cost(drawn, found.configuration.tolist()) * drawn.scale < total_of(drawn.problem, start)
    assert (found.bound, found.gap) == (0, None)


# --- reconfiguration ---


@given(seed=SEEDS, factor=st.sampled_from((0.0, 0.01, 0.1, 1.0)))
@law
def test_the_choice_is_the_best_on_the_path(seed: int, factor: float) -> None:
    drawn = naive.draw(seed)
    problem, start = drawn.problem, naive.configuration(drawn.start)
    price = Reconfiguration(factor, factor, factor)
    path = ssbr_greedy(problem, start)
    gains = []
    for made in range(len(path.swaps) + 1):
        moving = sum(1 for a, b in zip(path.after(made).tolist(), drawn.start, strict=True) if a != b)
        log = math.log2(len(drawn.sets))
        spent = factor * (len(drawn.sets) + log**2 * moving + len(drawn.counts) * log * moving) if moving else 0.0
        gains.append(problem.amount(int(path.costs[0] - path.costs[made])) - spent)
    choice = dynatops_greedy(problem, start, price)
    assert choice.gain == pytest.approx(max(gains))
    assert gains[choice.swaps] == pytest.approx(choice.gain)
    assert choice.movers == movers(start, choice.configuration)
    assert choice.benefit == pytest.approx(
        problem.amount(total_of(problem, start) - total_of(problem, choice.configuration))
    )


@given(seed=SEEDS, factor=st.sampled_from((0.0, 0.01, 0.1)))
@settings(deadline=None, max_examples=60)
def test_searching_for_moves_weighs_them(seed: int, factor: float) -> None:
    drawn = naive.draw(seed, 8, 4)
    problem, start = drawn.problem, naive.configuration(drawn.start)
    price = Reconfiguration(factor, factor, factor)
    choice = search_moves(problem, start, price, rounds=5)
    assert choice.gain >= 0
    moving = movers(start, choice.configuration)
    benefit = problem.amount(total_of(problem, start) - total_of(problem, choice.configuration))
    assert choice.movers == moving
    assert choice.benefit == pytest.approx(benefit)
    assert choice.price == pytest.approx(price.of(problem, moving))
    if factor == 0:
        assert choice.benefit >= dynatops_greedy(problem, start, price).benefit * 0.9


def test_the_cost_of_reconfiguration_is_that_of_equation_11() -> None:
    problem = make_problem(evenly(8, 3), list("ABCDEFGH"), {"A": ["t"]}, {"t": 1, "u": 1, "v": 1})
    assert PAPER.of(problem, 0) == 0
    assert PAPER.of(problem, 2) == 8 + 9 * 2 + 3 * 3 * 2
    assert PAPER.worth_computing(problem, round(15.3 * problem.unit))
    assert not PAPER.worth_computing(problem, round(15.2 * problem.unit))


# --- bad input ---


def test_what_is_not_a_problem_is_told() -> None:
    ring, names = evenly(4, 4), list("ABCD")
    with pytest.raises(SettingsError, match="the broker 'X' is not on the ring"):
        make_problem(ring, names, {"X": ["t"]}, {"t": 1})
    with pytest.raises(SettingsError, match="'u' of 'A' has no publications"):
        make_problem(ring, names, {"A": ["u"]}, {"t": 1})
    with pytest.raises(SettingsError, match="the demand is empty: name at least one topic"):
        make_problem(ring, names, {}, {})
    with pytest.raises(SettingsError, match="the demand is empty: nothing is published"):
        make_problem(ring, names, {"A": ["t"]}, {"t": 0})
    with pytest.raises(SettingsError, match="a ring of 1"):
        make_problem(Ring((1,)), ["A"], {"A": ["t"]}, {"t": 1})
    with pytest.raises(SettingsError, match="3 brokers for 4 positions"):
        make_problem(ring, names[:3], {"A": ["t"]}, {"t": 1})
    with pytest.raises(SettingsError, match="must not be negative"):
        make_problem(ring, names, {"A": ["t"]}, {"t": 1}, delay_weight=-1)
    with pytest.raises(SettingsError, match="must not be negative"):
        make_problem(ring, names, {"A": ["t"]}, {"t": math.nan})
    with pytest.raises(SettingsError, match="too many to add up; shorten the period"):
        make_problem(ring, names, {"A": ["t"]}, {"t": 1e16})


def test_large_numbers_are_counted_in_coarser_parts() -> None:
    problem = make_problem(evenly(4, 4), list("ABCD"), {"A": ["t"]}, {"t": 1e12})
    assert problem.unit == 1
    assert problem.amount(total_of(problem, np.arange(4))) in (0.0, 1e12, 2e12)
