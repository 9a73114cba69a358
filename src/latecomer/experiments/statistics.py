"""Means and what is known of them: 95 % intervals by Student's t."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, inf, isinf, sqrt

import msgspec
from scipy import stats

CONFIDENCE = 0.95


class Estimate(msgspec.Struct, frozen=True):
    """A mean over independent runs, give or take `half`; one run says nothing about that."""

    mean: float
    half: float
    runs: int

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def meets(self, low: float, high: float) -> bool:
        """Whether the interval reaches into low … high; an infinite mean reaches nowhere."""
        return self.low <= high and self.high >= low

    def show(self, unit: str = "", digits: int = 1) -> str:
        if isinf(self.mean):
            return f"∞{unit}"
        mean = round(self.mean, digits) + 0.0  # no minus before a zero
        return f"{mean:,.{digits}f}{unit} ± {self.half:,.{digits}f}"


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of values that were measured independently."""
    runs = len(values)
    assert runs, "nothing was measured"
    mean = fsum(values) / runs
    if runs == 1:
        return Estimate(mean, inf, 1)
    deviation = sqrt(fsum((value - mean) ** 2 for value in values) / (runs - 1))
    return Estimate(mean, float(stats.t.ppf((1 + CONFIDENCE) / 2, runs - 1)) * deviation / sqrt(runs), runs)


def ratio(values: Sequence[float], others: Sequence[float]) -> Estimate:
    """Mean of `values` divided by the mean of `others`, measured in pairs.

    The interval is that of the ratio estimator: the spread of value − ratio · other, over the mean of the others.
    """
    below = fsum(others) / len(others)
    if not below:
        return Estimate(inf, inf, len(values))
    found = fsum(values) / len(values) / below
    rest = estimate([value - found * other for value, other in zip(values, others, strict=True)])
    return Estimate(found, rest.half / abs(below), rest.runs)


def slope(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Of the straight line through the points by least squares: how steep it is, and the share r² it explains."""
    fit = stats.linregress(xs, ys)
    return float(fit.slope), float(fit.rvalue) ** 2
