"""The ring of a structured overlay (Chord): positions, fingers, routes, and the trees that routes form.

Brokers are numbered clockwise by position: `at` is 0 for the lowest position. A distance counted in brokers clockwise
is a number of *steps*. The routes from one broker to all others form a tree, and every subtree is one arc that begins
at its top. So no tree is stored: who is next, who is above and who is below all follow from fingers by arc tests.

Decision: a finger may be the target itself, so the rule is *the farthest finger not beyond the target*. With Chord's
"closest preceding finger" the last hop always comes from the predecessor, and routes from one broker form no tree.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.topology import quoted

BITS = 32
BITS_MAX = 62
"""Sums of two positions still fit 64 bits."""

Fingers: TypeAlias = Sequence[Sequence[int]]
"""Per broker the steps to each of its fingers, ascending. The successor (1 step) must be among them for all to be
reached; any other set gives a tree as well."""


class Ring(msgspec.Struct, frozen=True):
    """Positions on a circle of 2**bits points, ascending."""

    positions: tuple[int, ...]
    bits: int = BITS

    def check(self) -> None:
        """Raise a SettingsError that names the first thing wrong."""
        if not 1 <= self.bits <= BITS_MAX:
            raise SettingsError("bits", f"{self.bits} bits; a ring has from 1 to {BITS_MAX}")
        if len(self.positions) < 2:
            told = f"a ring of {len(self.positions)}: there is nothing to arrange; name at least two brokers"
            raise SettingsError("positions", told)
        before = -1
        for position in self.positions:
            if not 0 <= position < 1 << self.bits:
                told = (
                    f"{position} is not on a ring of {self.bits} bits; positions are from 0 to {(1 << self.bits) - 1}"
                )
                raise SettingsError("positions", told)
            if position <= before:
                raise SettingsError("positions", f"{position} comes after {before}; each position once, ascending")
            before = position

    def owner(self, point: int) -> int:
        """The broker responsible for a point: the first at or after it."""
        found = bisect_left(self.positions, point)
        return found if found < len(self.positions) else 0

    def fingers(self, at: int) -> tuple[int, ...]:
        """Steps from a broker to its fingers: the owners of the points 1, 2, 4, … after it; ascending, itself never."""
        count, size = len(self.positions), 1 << self.bits
        steps: dict[int, None] = {}
        for bit in range(self.bits):
            step = (self.owner((self.positions[at] + (1 << bit)) % size) - at) % count
            if step:
                steps[step] = None
        return tuple(sorted(steps))

    def all_fingers(self) -> tuple[tuple[int, ...], ...]:
        return tuple(self.fingers(at) for at in range(len(self.positions)))


def evenly(count: int, bits: int = BITS) -> Ring:
    """Brokers as far apart as they can be."""
    return Ring(tuple((number << bits) // count for number in range(count)), bits)


def point_of(name: str, bits: int = BITS) -> int:
    """The hash of a broker id or of a topic: where consistent hashing puts it."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") >> (64 - bits)


def hashed(brokers: Sequence[BrokerId], bits: int = BITS) -> dict[BrokerId, int]:
    """Per broker its position by consistent hashing; two with the same hash are an error."""
    taken: dict[int, BrokerId] = {}
    for broker in brokers:
        other = taken.setdefault(point_of(broker, bits), broker)
        if other != broker:
            told = f"{quoted(broker)} and {quoted(other)} have the same hash on a ring of {bits} bits"
            raise SettingsError("bits", f"{told}; use more bits")
    return {broker: position for position, broker in taken.items()}


# --- trees: all routes from one broker ---


def next_step(fingers: Sequence[int], steps: int) -> int:
    """The farthest finger not beyond the target, which is so many steps away."""
    found = bisect_right(fingers, steps)
    assert found, "no finger before the target: the link to the successor is missing"
    return fingers[found - 1]


def route(fingers: Fingers, start: int, target: int) -> Iterator[int]:
    """The brokers from start to target, both included."""
    count = len(fingers)
    yield start
    while start != target:
        start = (start + next_step(fingers[start], (target - start) % count)) % count
        yield start


def parent(fingers: Fingers, root: int, at: int) -> int | None:
    """Above a broker in the tree of `root`: the last stop before it on the route from the root; None at the root."""
    before = None
    for stop in route(fingers, root, at):
        if stop == at:
            return before
        before = stop
    raise AssertionError("a route ends at its target")


def depth(fingers: Fingers, root: int, at: int) -> int:
    """Hops from the root."""
    return sum(1 for _ in route(fingers, root, at)) - 1


def arc(fingers: Fingers, root: int, at: int) -> int:
    """How many brokers are in the subtree below and with `at`: those from `at` so many steps clockwise."""
    count = len(fingers)
    length, here = count, root
    while here != at:
        target = (at - here) % count
        step = next_step(fingers[here], target)
        place = bisect_right(fingers[here], step)
        end = fingers[here][place] if place < len(fingers[here]) else count
        length = min(length, end) - step
        here = (here + step) % count
    return length


def children(fingers: Fingers, root: int, at: int) -> tuple[int, ...]:
    """Directly below a broker in the tree of `root`: its fingers within its arc."""
    count, length = len(fingers), arc(fingers, root, at)
    return tuple((at + step) % count for step in fingers[at] if step < length)


def downward(fingers: Fingers, root: int, at: int, target: int) -> int | None:
    """The child of `at` in the tree of `root` that leads to the target; None if the target is not below."""
    count = len(fingers)
    steps = (target - at) % count
    if not 0 < steps < arc(fingers, root, at):
        return None
    return (at + next_step(fingers[at], steps)) % count
