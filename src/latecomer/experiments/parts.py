"""Parts of a verdict that take a whole axis: curves that fall, curves that flatten, simulation next to closed form."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf, log

import msgspec

from latecomer.experiments import old_rule
from latecomer.experiments.claim import Axis
from latecomer.experiments.grid import Setting, Table
from latecomer.experiments.statistics import Estimate, estimate, slope
from latecomer.experiments.verdict import Part, limited, place


def falling(paper: str, table: Table, axis: Axis, measure: str) -> Part:
    """A curve that comes down, by the differences on the same network; partly, if it clearly rises on the way."""
    settings = axis.settings()
    points = [table.mean(setting, measure) for setting in settings]
    first, last = points[0], points[-1]
    rises = [step for step in pairwise(settings) if place(fall(table, *step, measure), 0, inf) == "outside"]
    figure = f"from {first.show('', 2)} to {last.show('', 2)} hops" + (", not all the way" if rises else "")
    rose = any(after.low > before.high for before, after in pairwise(points))
    old = old_rule.stated(last.high < first.low and not rose, partly=last.high < first.low)
    part = limited(paper, fall(table, settings[0], settings[-1], measure), 0, inf, figure, old=old)
    partly = rises and part.word == "reproduced"
    return msgspec.structs.replace(part, word="partly" if partly else part.word, interval=(last.low, first.high))


def fall(table: Table, before: Setting, after: Setting, measure: str) -> Estimate:
    """How far a curve comes down from one setting to another, network by network."""
    pairs = zip(table.values(before, measure), table.values(after, measure), strict=True)
    return estimate([one - other for one, other in pairs])


def sublinear(paper: str, table: Table, axis: Axis, measure: str, *, per_broker: bool = False) -> Part:
    """Growth as a power of N, with an exponent below 1; a measure per broker counts N times."""
    sizes = [log(size) for size in axis.points]
    seeds = zip(*(table.values(setting, measure) for setting in axis.settings()), strict=True)
    exponents = [slope(sizes, [log(value) for value in seed])[0] + per_broker for seed in seeds]
    found = estimate(exponents)
    figure = f"N to the power of {found.show('', 2)}"
    return limited(paper, found, -inf, 1, figure, old=old_rule.stated(found.high < 1))


def agreement(table: Table, settings: Sequence[Setting]) -> Part:
    """Requests sent on the broker core, next to the closed form: ours against ours, so no part of a verdict."""
    pairs = [
        (measures["simulated"], measures["expected"], measures["error"])
        for setting in settings
        for measures in table.rows[setting]
    ]
    off = estimate([100 * (simulated / expected - 1) for simulated, expected, _ in pairs])
    near = sum(abs(simulated - expected) <= 1.96 * error for simulated, expected, error in pairs)
    figure = f"{off.show(' %')} apart; {near} of {len(pairs)} runs within their own 95 % interval"
    old = old_rule.stated(off.meets(0, 0))
    return Part(
        paper="our check: requests simulated on the broker core agree with the closed form",
        word=old,
        figure=figure,
        interval=(off.low, off.high),
        judged=False,
        old=old,
    )
