"""Parts of a verdict that take a whole axis: curves that fall, curves that flatten, simulation next to closed form."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log

from latecomer.experiments.claim import Axis
from latecomer.experiments.grid import Setting, Table
from latecomer.experiments.statistics import estimate, slope
from latecomer.experiments.verdict import Part, stated


def falling(paper: str, table: Table, axis: Axis, measure: str) -> Part:
    """A curve that comes down; partly, if it also rises on the way by more than the intervals explain."""
    points = [table.mean(setting, measure) for setting in axis.settings()]
    first, last = points[0], points[-1]
    rises = any(after.low > before.high for before, after in pairwise(points))
    figure = f"from {first.show('', 2)} to {last.show('', 2)} hops" + (", not all the way" if rises else "")
    return stated(
        paper, last.high < first.low and not rises, figure, (last.low, first.high), partly=last.high < first.low
    )


def sublinear(paper: str, table: Table, axis: Axis, measure: str, *, per_broker: bool = False) -> Part:
    """Growth as a power of N, with an exponent below 1; a measure per broker counts N times."""
    sizes = [log(size) for size in axis.points]
    seeds = zip(*(table.values(setting, measure) for setting in axis.settings()), strict=True)
    exponents = [slope(sizes, [log(value) for value in seed])[0] + per_broker for seed in seeds]
    found = estimate(exponents)
    return stated(paper, found.high < 1, f"N to the power of {found.show('', 2)}", (found.low, found.high))


def agreement(table: Table, settings: Sequence[Setting]) -> Part:
    """Requests sent on the broker core, next to the closed form."""
    pairs = [
        (measures["simulated"], measures["expected"], measures["error"])
        for setting in settings
        for measures in table.rows[setting]
    ]
    off = estimate([100 * (simulated / expected - 1) for simulated, expected, _ in pairs])
    near = sum(abs(simulated - expected) <= 1.96 * error for simulated, expected, error in pairs)
    figure = f"{off.show(' %')} apart; {near} of {len(pairs)} runs within their own 95 % interval"
    paper = "requests simulated on the broker core agree with the closed form"
    return stated(paper, off.meets(0, 0), figure, (off.low, off.high))
