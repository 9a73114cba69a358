"""Figure 2 of DYNATOPS (D1): eight brokers evenly on a ring, two topics, and what re-positioning brings.

The drawing is missing from the text. What it says: t1 is at 1 and t2 at 4, each broker wants one of them, before there
are three relays for t1 and three hops at most, and broker A gets t1 after three; C, D and F are the relays.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from latecomer.model.ring import children, evenly, route
from latecomer.planner.overlay.cost import cost_of
from latecomer.planner.overlay.exact import exact
from latecomer.planner.overlay.greedy import ssbr_greedy
from latecomer.planner.overlay.problem import Configuration, OverlayProblem, make_problem
from latecomer.planner.overlay.search import search

BROKERS = list("ABECGDHF")
"""By position, so that A is at 0 and the relays at 3, 5 and 7 have the names of the text."""
RING = evenly(8, 3)
T1, T2 = 1, 4
BEST = (1, 2, 3, 5)
PLACED = [(0, 1, 2, 4), (0, 1, 4, 6), (0, 2, 4, 6)]
"""Where t1 is wanted, so that all the text says of the state before is true."""
NOW = np.arange(8)


def figure(wanted: tuple[int, ...], delay_weight: float = 1.0) -> OverlayProblem:
    """Brokers at `wanted` want t1, the others t2."""
    wishes = {broker: ["t1" if at in wanted else "t2"] for at, broker in enumerate(BROKERS)}
    return make_problem(
        RING, BROKERS, wishes, {"t1": 1, "t2": 1}, delay_weight=delay_weight, points={"t1": T1, "t2": T2}
    )


def wanting(problem: OverlayProblem, place: Configuration, topic: int) -> tuple[int, ...]:
    matrix = problem.matrix()
    return tuple(sorted(int(place[broker]) for broker in range(8) if matrix[broker, topic]))


def longest(problem: OverlayProblem, place: Configuration, topic: int) -> int:
    _, depths, rows = problem.trees
    return max(int(depths[rows[topic], at]) for at in wanting(problem, place, topic))


def test_three_placements_fit_the_text() -> None:
    """A is at 0 and gets t1 after three hops, by 5 and 7; the third relay is at 3."""
    fits = []
    for wanted in combinations(range(8), 4):
        problem = figure(wanted)
        three = cost_of(problem, NOW).relays[0] == 3 and longest(problem, NOW, 0) == 3
        if three and 0 in wanted and not {3, 5, 7} & set(wanted):
            fits.append(wanted)
    assert fits == PLACED
    assert list(route(RING.all_fingers(), T1, 0)) == [1, 5, 7, 0]


@pytest.mark.parametrize("wanted", PLACED)
@pytest.mark.parametrize("delay_weight", [0.1, 0.5, 1.0, 2.0, 10.0])
def test_the_only_optimum_and_how_it_is_reached(wanted: tuple[int, ...], delay_weight: float) -> None:
    problem = figure(wanted, delay_weight)
    costs = {}
    for chosen in combinations(range(8), 4):
        place = np.empty(8, np.int64)
        place[list(wanted)] = chosen
        place[[at for at in range(8) if at not in wanted]] = [at for at in range(8) if at not in chosen]
        costs[chosen] = cost_of(problem, place).cost
    assert [chosen for chosen, cost in costs.items() if cost == min(costs.values())] == [BEST]
    path = ssbr_greedy(problem, NOW)
    assert wanting(problem, path.end, 0) == BEST
    assert len(path.swaps) in (2, 3)
    after = cost_of(problem, path.end)
    assert after.relays.tolist() == [0, 0]
    assert longest(problem, path.end, 0) == 1
    found = exact(problem, NOW)
    assert found.optimal
    assert found.cost == search(problem, NOW).cost == costs[BEST] == after.cost


def test_without_a_weight_for_delay_the_greedy_stops_at_two_hops() -> None:
    ends = [ssbr_greedy(figure(wanted, 0.0), NOW).end for wanted in PLACED]
    assert max(longest(figure(wanted, 0.0), end, 0) for wanted, end in zip(PLACED, ends, strict=True)) == 2


# --- as a story ---


def told(problem: OverlayProblem, place: Configuration, topic: int, root: int) -> list[str]:
    """The tree of a topic, a line per broker in it."""
    who = {int(at): broker for broker, at in zip(BROKERS, place, strict=True)}
    wanted = wanting(problem, place, topic)
    fingers = RING.all_fingers()
    inside = {stop for at in wanted for stop in route(fingers, root, at)}
    lines = []

    def line(at: int, depth: int) -> None:
        what = "subscribes" if at in wanted else "rendezvous point" if at == root else "relay"
        lines.append(f"  {'  ' * depth}{who[at]} at {at}: {what}")
        for child in children(fingers, root, at):
            if child in inside:
                line(child, depth + 1)

    line(root, 0)
    return lines


def story(wanted: tuple[int, ...]) -> str:
    problem = figure(wanted)
    path = ssbr_greedy(problem, NOW)
    lines = [f"t1 is wanted by {', '.join(BROKERS[at] for at in wanted)}; t2 by the others."]
    for made in range(len(path.swaps) + 1):
        place = path.after(made)
        cost = cost_of(problem, place)
        if made:
            one, other = path.swaps[made - 1].tolist()
            lines += ["", f"swap {made}: {BROKERS[one]} and {BROKERS[other]}"]
        lines.append(
            f"t1: relays {cost.relays[0]}, longest path {longest(problem, place, 0)};"
            f" t2: relays {cost.relays[1]}, longest path {longest(problem, place, 1)};"
            f" cost {problem.amount(cost.cost):g}"
        )
        if made in (0, len(path.swaps)):
            lines += ["tree of t1", *told(problem, place, 0, T1), "tree of t2", *told(problem, place, 1, T2)]
    return "\n".join(lines) + "\n"


def test_the_story_is_as_written_down() -> None:
    written = Path(__file__).with_name("overlay_figure_2.txt").read_text(encoding="utf-8")
    assert story(PLACED[0]) == written
