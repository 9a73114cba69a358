"""The brokers to which a broker's clients may be sent."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

from latecomer.messages.link import LinkState
from latecomer.model.ids import BrokerId


def nearest(states: Mapping[BrokerId, LinkState], here: BrokerId, count: int) -> list[BrokerId]:
    """The brokers that cost least to reach over the links there are, at most so many; of equal ones the first by
    name."""
    found: dict[BrokerId, None] = {}
    heap: list[tuple[int, BrokerId]] = [(0, here)]
    while heap and len(found) <= count:
        cost_us, broker = heappop(heap)
        if broker in found:
            continue
        found[broker] = None
        for link in states[broker].neighbours if broker in states else ():
            other = states.get(link.broker)
            if other is not None and other.boot == link.boot and link.broker not in found:
                heappush(heap, (cost_us + link.cost_us, link.broker))
    return [broker for broker in found if broker != here]
