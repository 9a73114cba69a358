"""What a claim of a paper came to: its sentence, our figure, and the word for it.

A claim has parts, one for each thing the sentence says, and a part is judged at every point of its figure.

- A point is *inside* when our mean lies where the paper says, and the 95 % half-width is at most half of the paper's
  range; where the paper gives one limit only, at most half of the mean's distance to that limit.
- It is *outside* when the whole interval is. Anything else is *open*: it takes more seeds to tell. With fewer than
  `SEEDS_LEAST` seeds every point is open.
- A part is reproduced when all points are inside, partly when at least half of them are, and otherwise not. It is
  undecided when the open points could change that word.
- "Up to x" is held against the largest value of the figure, with a fifth of x of tolerance either way.
- A claim is what all its parts are; partly, when they differ; undecided, when undecided parts could change that.
- An example whose input was searched for until the printed result came out is consistent, and not reproduced.

This rule was made after the results were seen; the verdicts under the one before it (`old_rule`) stand beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isinf
from typing import Literal

import msgspec

from latecomer.experiments import old_rule
from latecomer.experiments.old_rule import OldWord
from latecomer.experiments.statistics import Estimate

Word = Literal["reproduced", "partly", "not reproduced", "undecided", "consistent, input fitted"]
Place = Literal["inside", "outside", "open"]

FITTED: Word = "consistent, input fitted"
NOT: Word = "not reproduced"
SEEDS_LEAST = 20
"""Fewer decide nothing."""
TOLERANCE = 0.2
"""Of x, where the paper says "up to x"."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a claim says."""

    paper: str
    """What the paper says."""
    word: Word
    figure: str
    """What we found, in words and numbers."""
    interval: tuple[float, float] | None = None
    """The lowest and the highest that our 95 % intervals allow, over all points of the figure."""
    judged: bool = True
    """Whether it counts for the claim; what does not is shown all the same."""
    old: OldWord | None = None
    """The word under the old rule; none where there was no such part."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    id: str
    verdict: Word
    old: OldWord | None
    """Under the old rule, on the same measurements."""
    figure: str
    interval: tuple[float, float] | None
    """Of the claim's first part; none where the example is exact."""
    paper: str
    why: str = ""
    """What explains the difference, where there is one."""
    parts: tuple[Part, ...] = ()

    def judged(self) -> list[Part]:
        return [part for part in self.parts if part.judged]


# -- points


def place(point: Estimate, low: float, high: float) -> Place:
    """Where a point is, next to the range that the paper gives; an infinite end is no limit."""
    if point.runs < SEEDS_LEAST:
        return "open"
    if not low <= point.mean <= high:
        return "open" if point.meets(low, high) else "outside"
    room = min(point.mean - low, high - point.mean) if isinf(low) or isinf(high) else high - low
    return "inside" if point.half <= room / 2 else "open"


def counted(places: Sequence[Place]) -> Word:
    """What the points of a part come to."""
    inside, most = places.count("inside"), len(places) - places.count("outside")
    worst, best = (old_rule.shared(good, len(places)) for good in (inside, most))
    return worst if worst == best else "undecided"


# -- parts


def ranged(
    paper: str,
    points: Sequence[Estimate],
    low: float,
    high: float,
    unit: str = " %",
    *,
    before: Sequence[Estimate] | None = None,
) -> Part:
    """What the paper says lies between `low` and `high` all over the figure. `before`: what the old rule looked at."""
    places = [place(point, low, high) for point in points]
    old = old_rule.ranged(points if before is None else before, low, high)
    return Part(
        paper=paper, word=counted(places), figure=_spread(points, places, unit), interval=_reach(points), old=old
    )


def better(paper: str, points: Sequence[Estimate], *, before: Sequence[Estimate] | None = None) -> Part:
    """A direction without a size: above zero all over the figure."""
    part = ranged(paper, points, 0, inf)
    return msgspec.structs.replace(part, old=old_rule.better(points if before is None else before))


def mostly(paper: str, points: Sequence[Estimate], low: float, high: float, unit: str = " %") -> Part:
    """What the paper says of the majority of its points."""
    places = [place(point, low, high) for point in points]
    inside, most = places.count("inside"), len(places) - places.count("outside")
    word: Word = "reproduced" if 2 * inside > len(places) else "undecided" if 2 * most > len(places) else NOT
    return Part(paper=paper, word=word, figure=_spread(points, places, unit), interval=_reach(points))


def up_to(
    paper: str,
    points: Sequence[Estimate],
    most: float,
    unit: str = " %",
    *,
    before: Sequence[Estimate] | None = None,
) -> Part:
    """The paper says that the figure reaches `most`."""
    low, high = (1 - TOLERANCE) * most, (1 + TOLERANCE) * most
    largest = max(points, key=lambda point: point.mean)
    old = old_rule.up_to(points if before is None else before, low, high)
    return limited(paper, largest, low, high, f"up to {largest.show(unit)}", old=old)


def limited(paper: str, point: Estimate, low: float, high: float, figure: str, *, old: OldWord | None = None) -> Part:
    """One value, told in words of its own."""
    word = counted([place(point, low, high)])
    return Part(paper=paper, word=word, figure=figure, interval=(point.low, point.high), old=old)


def exactly(paper: str, wanted: object, found: object, *, fitted: bool = False) -> Part:
    """An example of the paper, which has no interval; `fitted`: the input was searched for until it came out."""
    same = found == wanted
    word: Word = NOT if not same else FITTED if fitted else "reproduced"
    return Part(paper=f"{paper} {wanted}", word=word, figure=str(found), old=old_rule.stated(same))


def shown(part: Part) -> Part:
    """For the reader; no part of the verdict."""
    return msgspec.structs.replace(part, judged=False)


def _spread(points: Sequence[Estimate], places: Sequence[Place], unit: str) -> str:
    ordered = sorted(points, key=lambda point: point.mean)
    text = ordered[0].show(unit) if len(points) == 1 else f"{ordered[0].show(unit)} to {ordered[-1].show(unit)}"
    inside, unclear = places.count("inside"), places.count("open")
    if len(points) == 1:
        return text
    share = f"all {len(points)}" if inside == len(points) else f"{inside} of {len(points)}"
    return f"{text}; {share} points inside" + (f", {unclear} open" if unclear else "")


def _reach(points: Sequence[Estimate]) -> tuple[float, float]:
    return min(point.low for point in points), max(point.high for point in points)


# -- claims


def verdict(id: str, paper: str, parts: Sequence[Part], why: str = "") -> Verdict:
    """All parts together."""
    judged = [part for part in parts if part.judged]
    return Verdict(
        id=id,
        verdict=combined([part.word for part in judged]),
        old=old_rule.combined([part.old for part in parts if part.old is not None]),
        figure="; ".join(f"{part.paper}: {part.figure}" for part in judged),
        interval=judged[0].interval,
        paper=paper,
        why=why,
        parts=tuple(parts),
    )


def combined(words: Sequence[Word]) -> Word:
    """What the words of the parts come to."""
    known: list[Word] = list(dict.fromkeys(word for word in words if word != "undecided"))
    if sorted(known) == sorted([FITTED, "reproduced"]):
        known = [FITTED]
    if len(known) > 1 or known == ["partly"]:
        return "partly"  # whatever the undecided ones will be
    return "undecided" if "undecided" in words or not known else known[0]
