"""How well a client suits a broker: what others there want as well, less what the broker bears already.

The rule is that of `latecomer homes advise`: similarity without the client's own subscriptions, and a load that is the
broker's share of all subscriptions of its cluster. With the client's own, its present broker would always be the best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from latecomer.core.homes.profiles import Known
from latecomer.model.ids import BrokerId

WEIGHT = 0.2
"""Of load, times the brokers that share it: a broker with twice the mean loses this much."""


class Load(msgspec.Struct, frozen=True):
    """What one broker bears."""

    clients: int
    subscriptions: int
    share: float = 0.0
    """Of the subscriptions of all that are compared."""
    times_mean: float = 0.0


class Better(msgspec.Struct, frozen=True):
    """A broker that suits a client better than its own."""

    to: BrokerId
    similarity: float
    there: float
    gain: float


def loads_of(here: BrokerId, counts: tuple[int, int], known: Mapping[BrokerId, Known]) -> dict[BrokerId, Load]:
    """The loads of this broker and of those it knows."""
    found = {here: counts, **{broker: (one.clients, one.subscriptions) for broker, one in known.items()}}
    total = sum(subscriptions for _, subscriptions in found.values())
    if not total:
        return {broker: Load(*each) for broker, each in found.items()}
    return {
        broker: Load(clients, subscriptions, subscriptions / total, subscriptions * len(found) / total)
        for broker, (clients, subscriptions) in found.items()
    }


def similarity_at(known: Known, wanted: Iterable[int]) -> float | None:
    """The share of a client's filters that somebody at another broker has; None: nothing is known of any of them."""
    asked = held = 0
    for number in wanted:
        if number < known.below:
            asked += 1
            held += number in known.numbers
    return held / asked if asked else None


def better_home(
    here: BrokerId,
    similarity: float,
    wanted: Iterable[int],
    known: Mapping[BrokerId, Known],
    loads: Mapping[BrokerId, Load],
    weight: float | None,
    gain: float,
) -> Better | None:
    """The broker that suits a client best, if it does so by more than `gain`; the first by name of equal ones."""
    numbers = list(wanted)
    weight = WEIGHT * len(loads) if weight is None else weight
    now = similarity - weight * loads[here].share
    best: Better | None = None
    for broker in sorted(known):
        there = similarity_at(known[broker], numbers)
        if there is None or broker not in loads:
            continue
        gained = there - weight * loads[broker].share - now
        if gained > gain and (best is None or gained > best.gain):
            best = Better(broker, similarity, there, gained)
    return best
