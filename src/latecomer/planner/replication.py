"""How many replicas a topic gets: the rules of planning §6, each a strategy.

A rule is asked once per problem, with what every topic weighs, the most replicas it can have (its ceiling: stores,
failure domains, stores that are large enough) and the room of all stores together.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from heapq import heapify, heappop, heapreplace
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Asked(msgspec.Struct, frozen=True):
    """What a rule decides from; all per topic but the room."""

    weights: tuple[int, ...]
    ceiling: tuple[int, ...]
    size: tuple[int, ...]
    room: int | None
    """Units of all stores together; None when the number of stores follows from the replicas."""
    pinned: tuple[int, ...] = ()
    """Replicas that are there in any case; empty: none."""
    given: tuple[int, ...] = ()
    """Replicas of the topics for which no rule decides, 0 for the others; empty: all others."""

    def settled(self, counts: Sequence[int]) -> list[int]:
        """What a rule says, where it has a say: not below what is pinned, and what is given is given."""
        pinned = self.pinned or (0,) * len(counts)
        return [fixed or max(count, least) for count, least, fixed in zip(counts, pinned, self._given(), strict=True)]

    def ceilings(self) -> list[int]:
        """The most replicas that a rule may give."""
        return [fixed or most for most, fixed in zip(self.ceiling, self._given(), strict=True)]

    def _given(self) -> tuple[int, ...]:
        return self.given or (0,) * len(self.weights)


class ByWeight(msgspec.Struct, frozen=True, tag="by-weight"):
    """k[t] = ⌊w[t] / w[lightest] · min_replicas⌋, from min_replicas to the ceiling (planning §6.1.1).

    Decision: the lightest topic is the lightest that is asked for at all; one that nobody asks for gets the least.
    """

    min_replicas: int = 1

    def replicas(self, asked: Asked) -> Ints:
        lightest = min((weight for weight in asked.weights if weight > 0), default=1)
        wanted = (weight * self.min_replicas // lightest for weight in asked.weights)
        found = [
            max(self.min_replicas, min(count, ceiling)) for count, ceiling in zip(wanted, asked.ceiling, strict=True)
        ]
        return np.array(asked.settled(found), np.int64)


class SharedSlots(msgspec.Struct, frozen=True, tag="shared-slots"):
    """All slots of the stores, shared by weight, with at least `min_replicas` each (planning §6.1.2).

    Decision: the paper does not say how to round. The next slot goes to the topic with the largest weight per
    2·k[t] + 1, which is the least unfair (Sainte-Laguë), and more slots never take a replica from anybody.
    """

    min_replicas: int = 1

    def replicas(self, asked: Asked) -> Ints:
        return shared(asked, self.min_replicas)


class Fixed(msgspec.Struct, frozen=True, tag="fixed"):
    """The same number for every topic (storing §IV)."""

    count: int = 1

    def replicas(self, asked: Asked) -> Ints:
        return np.full(len(asked.weights), self.count, np.int64)


class Given(msgspec.Struct, frozen=True, tag="given"):
    """A number per topic, in the order of the topics."""

    counts: tuple[int, ...]

    def replicas(self, asked: Asked) -> Ints:
        return np.array(self.counts, np.int64)


class WeightWithin(msgspec.Struct, frozen=True, tag="by-weight-within"):
    """`ByWeight` where it fits the room of the stores; otherwise the room is shared, nobody above `ByWeight`.

    Decision: the paper gives either the least replication or the number of stores; this is for both at once.
    """

    min_replicas: int = 1

    def replicas(self, asked: Asked) -> Ints:
        wanted = ByWeight(self.min_replicas).replicas(asked)
        needed = sum(count * size for count, size in zip(wanted.tolist(), asked.size, strict=True))
        if asked.room is None or needed <= asked.room:
            return wanted
        return shared(msgspec.structs.replace(asked, ceiling=tuple(wanted.tolist())), self.min_replicas)


class Free(msgspec.Struct, frozen=True, tag="free"):
    """Any number from `min_replicas` to the ceiling: the search chooses the counts with the places (planning, eq. 4).

    What it says is where a search begins, and what the paper's algorithms use: all slots, shared by weight.
    """

    min_replicas: int = 1

    def replicas(self, asked: Asked) -> Ints:
        return shared(asked, self.min_replicas)


Replication: TypeAlias = ByWeight | SharedSlots | Fixed | Given | WeightWithin | Free


def shared(asked: Asked, least: int) -> Ints:
    """The room shared by weight, from `least` on; a topic that nobody asks for stays there."""
    found, most = asked.settled([least] * len(asked.weights)), asked.ceilings()
    room = sum(size * ceiling for size, ceiling in zip(asked.size, most, strict=True))
    if asked.room is not None:
        room = min(room, asked.room)
    room -= sum(size * count for size, count in zip(asked.size, found, strict=True))
    waiting = [
        (_unfair(weight, count), topic)
        for topic, (weight, count) in enumerate(zip(asked.weights, found, strict=True))
        if weight > 0
    ]
    heapify(waiting)
    while waiting:
        _, topic = waiting[0]
        if found[topic] >= most[topic] or asked.size[topic] > room:
            heappop(waiting)
            continue
        found[topic] += 1
        room -= asked.size[topic]
        heapreplace(waiting, (_unfair(asked.weights[topic], found[topic]), topic))
    return np.array(found, np.int64)


def _unfair(weight: int, count: int) -> Fraction:
    """Sorts the next slot, smallest first; exact."""
    return Fraction(-weight, 2 * count + 1)
