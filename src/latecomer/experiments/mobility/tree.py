"""The hierarchy of brokers as the counted model sees it: depths, distances and the links on a way.

Brokers are numbers from 0 on. A link has the number of its lower end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from latecomer.model.topology import Topology
from latecomer.model.topology_generators import hierarchy

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

DEGREE = 4
BROKERS = 85
CITY_KM = 32.0


@dataclass(frozen=True, slots=True)
class Tree:
    """A rooted tree of brokers."""

    parents: tuple[int, ...]
    """The parent of every broker; the root is its own."""
    depths: tuple[int, ...]
    """Hops from every broker to the root."""
    hops: IntArray
    """Between any two brokers."""
    leaves: tuple[int, ...]
    """Brokers without children, in the order of their numbers."""

    def ancestors(self, broker: int) -> list[int]:
        """The broker, its parent, and so on up to the root."""
        found = [broker]
        while self.parents[found[-1]] != found[-1]:
            found.append(self.parents[found[-1]])
        return found

    def way(self, start: int, end: int) -> list[int]:
        """The directed links from one broker to another: 2 · link upwards, 2 · link + 1 downwards."""
        up, down = self.ancestors(start), self.ancestors(end)
        while len(up) > 1 and len(down) > 1 and up[-2] == down[-2]:
            up.pop()
            down.pop()
        return [2 * broker for broker in up[:-1]] + [2 * broker + 1 for broker in reversed(down[:-1])]


def rooted(parents: Sequence[int]) -> Tree:
    """A tree from the parent of every broker; the root is its own parent."""
    count = len(parents)
    lines: list[list[int]] = []
    for broker in range(count):
        line = [broker]
        while parents[line[-1]] != line[-1]:
            line.append(parents[line[-1]])
            assert len(line) <= count, "a cycle"
        lines.append(line)
    hops = np.zeros((count, count), dtype=np.int64)
    for a in range(count):
        above = {broker: steps for steps, broker in enumerate(lines[a])}
        for b in range(count):
            hops[a, b] = next(steps + above[broker] for steps, broker in enumerate(lines[b]) if broker in above)
    inner = {parent for broker, parent in enumerate(parents) if parent != broker}
    leaves = tuple(broker for broker in range(count) if broker not in inner)
    return Tree(tuple(parents), tuple(len(line) - 1 for line in lines), hops, leaves)


def tree_of(topology: Topology) -> Tree:
    """The same numbers as the brokers have in the topology, which is a tree with a root."""
    numbers = {id: number for number, id in enumerate(topology.ids())}
    neighbours: list[list[int]] = [[] for _ in numbers]
    for link in topology.links:
        neighbours[numbers[link.a]].append(numbers[link.b])
        neighbours[numbers[link.b]].append(numbers[link.a])
    root = numbers[topology.root] if topology.root else 0
    parents = {root: root}
    waiting = [root]
    while waiting:
        broker = waiting.pop()
        for other in neighbours[broker]:
            if other not in parents:
                parents[other] = broker
                waiting.append(other)
    return rooted([parents[number] for number in range(len(numbers))])


@cache
def city() -> Tree:
    """The paper's: degree 4, 85 brokers, 64 leaves from west to east."""
    return tree_of(hierarchy(DEGREE, BROKERS))
