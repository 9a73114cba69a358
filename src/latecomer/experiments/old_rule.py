"""The rule by which the first pages were judged, kept so that its verdicts stand beside those of the present one.

Under it a part was reproduced when our 95 % interval reached into what the paper gives at every point, and partly when
it did at half of them. A wide interval reaches everywhere, so fewer seeds meant better verdicts; that is why the rule
was replaced. It also counted some points twice, and our own checks as parts of a claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from latecomer.experiments.statistics import Estimate

OldWord = Literal["reproduced", "partly", "not reproduced"]


def shared(good: int, points: int) -> OldWord:
    """All points, at least half of them, or fewer."""
    return "reproduced" if good == points else "partly" if 2 * good >= points else "not reproduced"


def ranged(points: Sequence[Estimate], low: float, high: float) -> OldWord:
    return shared(sum(point.meets(low, high) for point in points), len(points))


def better(points: Sequence[Estimate]) -> OldWord:
    """A direction without a size: that of the means."""
    return shared(sum(point.mean > 0 for point in points), len(points))


def up_to(points: Sequence[Estimate], low: float, high: float) -> OldWord:
    largest = max(points, key=lambda point: point.mean)
    return "reproduced" if largest.meets(low, high) else "not reproduced"


def stated(holds: bool, *, partly: bool = False) -> OldWord:
    return "reproduced" if holds else "partly" if partly else "not reproduced"


def combined(words: Sequence[OldWord]) -> OldWord | None:
    """A claim is what all its parts are; partly, when they differ."""
    found = list(dict.fromkeys(words))
    return None if not found else found[0] if len(found) == 1 else "partly"
