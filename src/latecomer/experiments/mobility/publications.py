"""What is published when, and who wants it: 27 events, 40 subscriptions (mobility §5.2.1).

Subscriptions 0–26 match one event each, 27–35 three each, 36–38 nine each, and 39 all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from latecomer.experiments.mobility.tree import BoolArray, FloatArray, IntArray

EVENTS = 27
SUBSCRIPTIONS = 40
PUBLISHERS = 100
PERIOD_S = 60.0
"""A publisher publishes once in this time."""
WIDTHS = (1, 3, 9, 27)


@cache
def matching() -> BoolArray:
    """Which subscription (row) matches which event (column)."""
    rows = [
        [start <= event < start + width for event in range(EVENTS)]
        for width in WIDTHS
        for start in range(0, EVENTS, width)
    ]
    return np.array(rows)


def covering(a: int, b: int) -> bool:
    """Whether subscription `a` covers `b`."""
    rows = matching()
    return bool((rows[a] >= rows[b]).all())


@dataclass(frozen=True, slots=True)
class Publications:
    """Everything that is published in one run, in the order of time."""

    times: FloatArray
    events: IntArray
    """Which of the 27."""
    places: IntArray
    """The brokers where they are published."""
    publishers: IntArray
    """The broker of each publisher."""
    published: IntArray
    """The event of each publisher."""

    def wanted_by(self, subscription: int) -> IntArray:
        """The numbers of the publications that a subscription matches."""
        return np.flatnonzero(matching()[subscription][self.events])


def publish(brokers: IntArray, length_s: float, random: np.random.Generator) -> Publications:
    """Each publisher has one event by chance, and publishes it once a minute from some second on."""
    count = len(brokers)
    kinds = random.integers(EVENTS, size=count)
    phases = random.uniform(0, PERIOD_S, size=count)
    rounds = np.arange(int(np.ceil(length_s / PERIOD_S)))
    times = (phases[None, :] + PERIOD_S * rounds[:, None]).ravel()
    who = np.tile(np.arange(count), len(rounds))
    order = np.argsort(times, kind="stable")
    order = order[times[order] < length_s]
    return Publications(times[order], kinds[who[order]], brokers[who[order]], brokers, kinds)


class Wanted:
    """How many publications a subscription matches in a span of time, for many at once."""

    def __init__(self, publications: Publications) -> None:
        self.numbers = [publications.wanted_by(subscription) for subscription in range(SUBSCRIPTIONS)]
        self.times = [publications.times[numbers] for numbers in self.numbers]
        self.flat = np.concatenate(self.numbers)
        """The numbers of all subscriptions, one after the other."""
        lengths = [len(numbers) for numbers in self.numbers]
        self.offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])

    def before(self, subscriptions: IntArray, until: FloatArray) -> IntArray:
        """Publications before each time, for each subscription."""
        found = np.zeros(len(subscriptions), dtype=np.int64)
        for subscription in np.unique(subscriptions):
            who = subscriptions == subscription
            found[who] = np.searchsorted(self.times[subscription], until[who])
        return found

    def between(self, subscriptions: IntArray, since: FloatArray, until: FloatArray) -> IntArray:
        return self.before(subscriptions, until) - self.before(subscriptions, since)
