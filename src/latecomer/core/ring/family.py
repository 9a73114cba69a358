"""The family of trees along which events travel: one tree for each broker as its root.

A pure function of link states and positions. Brokers stand on a ring; each uses those links that lead to its *fingers*,
and the routes from one broker to all others form its tree (`model/ring`). If some broker has no link to its successor
on the ring, there is no ring: then every tree is the agreed one, hung up at its root.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from latecomer.core.ring.places import position_in
from latecomer.core.tree import Tree, links_of, spanning_tree
from latecomer.messages.link import LinkState, Version
from latecomer.messages.reposition import Positions
from latecomer.messages.ring import BROKERS_MAX
from latecomer.model.ids import BrokerId
from latecomer.model.ring import Ring, next_step
from latecomer.model.slots import SLOTS, point_of_slot

FAMILIES_MAX = 3
"""Families that are remembered: one of 500 brokers takes up to 16 MB. A broker needs one; in a simulation the sides of
a partition ask in turns."""


@dataclass(slots=True)
class Family:
    """Trees that go together: an event is in one of them, which follows from its topic."""

    agreed: Tree
    order: list[BrokerId]
    """The brokers as they stand on the ring."""
    points: list[int]
    """Their positions."""
    fingers: list[tuple[int, ...]]
    """By place on the ring, the steps to each finger whose link is up; empty: there is no ring."""
    longest: int = 0
    """Links on the longest way between a root and another broker."""
    beside: dict[BrokerId, list[BrokerId]] = field(default_factory=dict)
    """Of each broker, its neighbours in any of the trees."""
    _last: list[list[int]] = field(default_factory=list)
    """By steps and place: the last stop before the end on the route of so many steps from a place."""
    _trees: dict[BrokerId, Tree] = field(default_factory=dict)
    _roots: list[BrokerId] = field(default_factory=list)
    _distinct: tuple[BrokerId, ...] = ()

    @property
    def ring(self) -> bool:
        """Whether there is more than one way through the network."""
        return bool(self.fingers)

    def root_of(self, slot: int) -> BrokerId:
        """The first broker at or after the point of a slot."""
        if not self._roots:
            count = len(self.order)
            places = (bisect_left(self.points, point_of_slot(number)) for number in range(SLOTS))
            self._roots = [self.order[place if place < count else 0] for place in places]
        return self._roots[slot]

    def roots(self) -> tuple[BrokerId, ...]:
        """Every root of some slot."""
        if not self._distinct:
            self.root_of(0)
            self._distinct = tuple(dict.fromkeys(self._roots))
        return self._distinct

    def slots_of(self) -> dict[BrokerId, int]:
        """How many slots have their root at each broker that has any."""
        self.root_of(0)
        return dict(Counter(self._roots))

    def tree(self, root: BrokerId) -> Tree:
        """The tree of a root."""
        tree = self._trees.get(root)
        if tree is None:
            tree = self._trees[root] = self._along_ring(root) if self.ring else hung_up(self.agreed, root)
        return tree

    def _along_ring(self, root: BrokerId) -> Tree:
        order, count = self.order, len(self.order)
        start = order.index(root)
        parent: dict[BrokerId, BrokerId | None] = {root: None}
        depth = {root: 0}
        for steps in range(1, count):  # a stop before the end is fewer steps away, so it has its depth
            broker, above = order[(start + steps) % count], order[self._last[steps][start]]
            parent[broker] = above
            depth[broker] = depth[above] + 1
        return Tree(self.agreed.version, root, parent, None, depth)


def hung_up(tree: Tree, root: BrokerId) -> Tree:
    """The same links, seen from another root."""
    parent: dict[BrokerId, BrokerId | None] = {root: None}
    children: dict[BrokerId, list[BrokerId]] = {broker: [] for broker in tree.parent}
    depth, todo = {root: 0}, [root]
    for broker in todo:
        for peer in tree.peers(broker):
            if peer != parent[broker]:
                parent[peer] = broker
                children[broker].append(peer)
                depth[peer] = depth[broker] + 1
                todo.append(peer)
    return Tree(tree.version, root, parent, children, depth)


@lru_cache(maxsize=FAMILIES_MAX)
def family_of(version: Version, view: tuple[LinkState, ...], root_wanted: BrokerId | None, word: Positions) -> Family:
    """The family of the brokers that can reach one another. Cached, as in a simulation many brokers ask the same."""
    agreed = spanning_tree(version, view, root_wanted)
    places = dict(word.places)
    order = sorted(agreed.parent, key=lambda broker: (position_in(places, broker), broker))
    points = [position_in(places, broker) for broker in order]
    family = Family(agreed, order, points, _fingers(order, points, links_of(view)))
    if family.ring:
        family.longest, family._last = _routes(family.fingers)
        family.beside = _beside(order, family.fingers)
    else:
        family.longest = max(max(hung_up(agreed, broker).depth.values()) for broker in _ends(agreed))
        family.beside = {broker: agreed.peers(broker) for broker in agreed.parent}
    return family


def _ends(tree: Tree) -> list[BrokerId]:
    """One end of a longest way through a tree is the broker that is farthest from any other."""
    return [max(tree.parent, key=lambda broker: tree.depth[broker])]


def _fingers(
    order: list[BrokerId], points: list[int], links: Mapping[BrokerId, list[tuple[BrokerId, int]]]
) -> list[tuple[int, ...]]:
    count = len(order)
    if not 2 < count <= BROKERS_MAX:
        return []  # of two, every tree is the agreed one anyhow
    ring, fingers = Ring(tuple(points)), []
    for at, broker in enumerate(order):
        linked = {other: None for other, _ in links[broker]}
        steps = [step for step in dict.fromkeys((1, *ring.fingers(at))) if order[(at + step) % count] in linked]
        if 1 not in steps:
            return []
        fingers.append(tuple(sorted(steps)))
    return fingers


def _routes(fingers: list[tuple[int, ...]]) -> tuple[int, list[list[int]]]:
    """The length of the longest route, and the last stop before the end of every route."""
    count = len(fingers)
    hops = [[0] * count]
    last = [list(range(count))]
    for steps in range(1, count):
        far = [next_step(fingers[at], steps) for at in range(count)]
        rests = [(steps - step, (at + step) % count) for at, step in enumerate(far)]
        hops.append([1 + hops[rest][stop] for rest, stop in rests])
        last.append([last[rest][stop] if rest else at for at, (rest, stop) in enumerate(rests)])
    return max(map(max, hops)), last


def _beside(order: list[BrokerId], fingers: list[tuple[int, ...]]) -> dict[BrokerId, list[BrokerId]]:
    count = len(order)
    beside: dict[BrokerId, dict[BrokerId, None]] = {broker: {} for broker in order}
    for at, steps in enumerate(fingers):
        for step in steps:
            finger = order[(at + step) % count]
            beside[order[at]][finger] = None
            beside[finger][order[at]] = None
    return {broker: list(others) for broker, others in beside.items()}
