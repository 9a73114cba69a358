"""Where brokers stand on the ring, and to which others they link."""

from __future__ import annotations

from collections.abc import Iterable

from latecomer.model.ids import BrokerId
from latecomer.model.ring import Ring, point_of


def position_in(places: dict[BrokerId, int], broker: BrokerId) -> int:
    """Where a broker stands by these positions."""
    position = places.get(broker)
    return point_of(broker) if position is None else position


def fingers_of(places: dict[BrokerId, int], brokers: Iterable[BrokerId], broker: BrokerId) -> list[BrokerId]:
    """The other brokers that one of them links to on the ring, its successor first. Two at the same position, which
    hashes may give, stand in the order of their names."""
    order = sorted(brokers, key=lambda other: (position_in(places, other), other))
    at, count = order.index(broker), len(order)
    if count == 1:
        return []
    ring = Ring(tuple(position_in(places, other) for other in order))
    steps = dict.fromkeys((1, *ring.fingers(at)))
    return [order[(at + step) % count] for step in steps]
