"""What a claim of a paper came to: its sentence, our figure, and the word for it.

A claim has parts, one for each thing the sentence says. A part is reproduced if our 95 % interval reaches into what the
paper gives at every point of its figure, and partly if it does at half of them. A direction without a size must be
that of the means. "Up to x" is held against the largest value of the figure, with a fifth of x of tolerance either way.
A claim is what all its parts are; partly, when they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from latecomer.experiments.statistics import Estimate

Word = Literal["reproduced", "partly", "not reproduced"]


class Part(msgspec.Struct, frozen=True):
    """One thing that a claim says."""

    paper: str
    """What the paper says."""
    word: Word
    figure: str
    """What we found, in words and numbers."""
    interval: tuple[float, float] | None = None
    """The lowest and the highest that our 95 % intervals allow, over all points of the figure."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    id: str
    verdict: Word
    figure: str
    interval: tuple[float, float] | None
    """Of the claim's first part; none where the example is exact."""
    paper: str
    why: str = ""
    """What explains the difference, where there is one."""
    parts: tuple[Part, ...] = ()


def ranged(paper: str, points: Sequence[Estimate], low: float, high: float, unit: str = " %") -> Part:
    """What the paper says lies between `low` and `high` all over the figure; partly, if half of the points do."""
    inside = sum(point.meets(low, high) for point in points)
    word: Word = "reproduced" if inside == len(points) else "partly" if 2 * inside >= len(points) else "not reproduced"
    ordered = sorted(points, key=lambda point: point.mean)
    figure = ordered[0].show(unit) if len(points) == 1 else f"{ordered[0].show(unit)} to {ordered[-1].show(unit)}"
    if 0 < inside < len(points):
        figure += f", {inside} of {len(points)} points within"
    return Part(paper, word, figure, (min(p.low for p in points), max(p.high for p in points)))


def better(paper: str, points: Sequence[Estimate]) -> Part:
    """A direction without a size: the mean is above zero all over the figure; partly, if at half of the points."""
    above = sum(point.mean > 0 for point in points)
    word: Word = "reproduced" if above == len(points) else "partly" if 2 * above >= len(points) else "not reproduced"
    ordered = sorted(points, key=lambda point: point.mean)
    figure = f"{ordered[0].show(' %')} to {ordered[-1].show(' %')}"
    if 0 < above < len(points):
        figure += f", at {above} of {len(points)} points"
    return Part(paper, word, figure, (min(p.low for p in points), max(p.high for p in points)))


def up_to(paper: str, points: Sequence[Estimate], most: float, unit: str = " %") -> Part:
    """The paper says that the figure reaches `most`."""
    largest = max(points, key=lambda point: point.mean)
    word: Word = "reproduced" if largest.meets(0.8 * most, 1.2 * most) else "not reproduced"
    return Part(paper, word, f"up to {largest.show(unit)}", (largest.low, largest.high))


def stated(paper: str, holds: bool, figure: str, interval: tuple[float, float], *, partly: bool = False) -> Part:
    return Part(paper, "reproduced" if holds else "partly" if partly else "not reproduced", figure, interval)


def exactly(paper: str, wanted: object, found: object) -> Part:
    """An example of the paper, which has no interval."""
    return Part(f"{paper} {wanted}", "reproduced" if found == wanted else "not reproduced", str(found))


def verdict(id: str, paper: str, parts: Sequence[Part], why: str = "") -> Verdict:
    """All parts together."""
    words = {part.word for part in parts}
    word: Word = next(iter(words)) if len(words) == 1 else "partly"
    figure = "; ".join(f"{part.paper}: {part.figure}" for part in parts)
    first = parts[0].interval if parts else None
    return Verdict(id=id, verdict=word, figure=figure, interval=first, paper=paper, why=why, parts=tuple(parts))
