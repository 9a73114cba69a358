"""How far measured demand can be trusted: how much of it is probably not where it was seen.

Requests fall on *places*, a place being a topic at a broker. Of n requests a place with the share p has n·p, give or
take √(n·p·(1 − p)); half of what all places together are off by is demand that is taken to be at one place and is at
another. Its expectation is Σ √(p·(1 − p)) / √(2·π·n) for places that are not rare, and a mean distance that is
predicted from the sample is wrong by at most this share of the network's diameter.
"""

from __future__ import annotations

import math

import msgspec

from latecomer.model.demand import Demand

MISPLACED_MAX = 0.1
"""As much of the demand may be misplaced, unless somebody wants it otherwise."""


class Evidence(msgspec.Struct, frozen=True):
    """What stands behind a measured demand."""

    requests: int
    window_s: float
    places: int
    """Pairs of topic and broker with at least one request."""
    misplaced: float
    """Expected share of the demand that is not where it was seen."""
    needed: int
    """Requests with which that share would be as small as wanted."""

    @property
    def missing(self) -> int:
        """Requests that are still to be seen."""
        return max(0, self.needed - self.requests)

    @property
    def missing_s(self) -> float:
        """How long that takes if requests go on as they came; infinite when none came."""
        if not self.missing:
            return 0.0
        return self.missing * self.window_s / self.requests if self.requests else math.inf


def evidence(demand: Demand, misplaced_max: float = MISPLACED_MAX) -> Evidence:
    """The evidence of a demand that was measured, against the share that may be misplaced."""
    assert 0 < misplaced_max < 1
    rates = [rate for row in demand.rates.values() for rate in row.values() if rate > 0]
    total = math.fsum(rates)
    spread = math.fsum(math.sqrt(rate / total * (1 - rate / total)) for rate in rates) if total else 0.0
    misplaced = 1.0
    if demand.requests:
        # One request says nothing of how requests are spread, though it is all in one place.
        misplaced = min(1.0, max(spread / math.sqrt(2 * math.pi * demand.requests), 1 / demand.requests))
    needed = max(math.ceil(spread**2 / (2 * math.pi * misplaced_max**2)), math.ceil(1 / misplaced_max))
    return Evidence(demand.requests, demand.window_s, len(rates), misplaced, needed)
