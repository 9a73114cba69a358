"""The agreed spanning tree: a pure function of link state.

Two brokers that can reach one another and know the same link states compute the same tree, under the same name
(`version`). Link states only ever grow newer, so a name never comes back.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from latecomer.messages.link import LinkState, Version
from latecomer.messages.reposition import Stamp
from latecomer.model.ids import BrokerId


@dataclass(slots=True)
class Tree:
    """A rooted spanning tree of the brokers that can reach one another."""

    version: Version
    root: BrokerId
    parent: dict[BrokerId, BrokerId | None]
    """In order of distance from the root."""
    children: dict[BrokerId, list[BrokerId]] | None
    """None: not kept, where there are as many trees as brokers and hardly anybody asks."""
    depth: dict[BrokerId, int]

    def peers(self, broker: BrokerId) -> list[BrokerId]:
        """Neighbours of a broker in the tree: parent first, then children in order."""
        parent, kept = self.parent[broker], self.children
        below = [b for b, above in self.parent.items() if above == broker] if kept is None else kept[broker]
        return [*([] if parent is None else [parent]), *below]

    def next_hop(self, at: BrokerId, towards: BrokerId) -> BrokerId:
        """The tree neighbour of `at` behind which `towards` sits."""
        step, above = towards, self.parent[towards]
        while above is not None:
            if above == at:
                return step
            step, above = above, self.parent[above]
        parent = self.parent[at]
        assert parent is not None, f"{towards} is not in the tree below the root {at}"
        return parent

    def ways(self, at: BrokerId, towards: Iterable[BrokerId]) -> dict[BrokerId, None]:
        """The tree neighbours of `at` behind which some brokers sit; those that are not in the tree count for none."""
        return {self.next_hop(at, broker): None for broker in towards if broker != at and broker in self.parent}

    def path(self, a: BrokerId, b: BrokerId) -> list[BrokerId]:
        """The brokers on the way between two of the tree, both included."""
        first, last = [a], [b]
        while a != b:
            if self.depth[a] >= self.depth[b]:
                above = self.parent[a]
                assert above is not None
                first.append(a := above)
            else:
                above = self.parent[b]
                assert above is not None
                last.append(b := above)
        return first + last[-2::-1]

    def hops(self, a: BrokerId, b: BrokerId) -> int:
        """Links between two brokers along the tree; -1 when one of them is not in it."""
        if a not in self.depth or b not in self.depth:
            return -1
        hops = 0
        while a != b:
            if self.depth[a] < self.depth[b]:
                a, b = b, a
            above = self.parent[a]
            assert above is not None
            a, hops = above, hops + 1
        return hops


def reachable(states: Mapping[BrokerId, LinkState], start: BrokerId) -> tuple[LinkState, ...]:
    """Link states of the brokers that `start` can reach, sorted. A link counts when both ends name the present life
    of the other; what only one end says is news that has not come round, or a broker that has died."""
    found = {start: states[start]}
    todo = [states[start]]
    while todo:
        state = todo.pop()
        for neighbour in state.neighbours:
            other = states.get(neighbour.broker)
            if other is None or other.broker in found or other.boot != neighbour.boot:
                continue
            if any(back.broker == state.broker and back.boot == state.boot for back in other.neighbours):
                found[other.broker] = other
                todo.append(other)
    return tuple(found[broker] for broker in sorted(found))


def name_of(states: Iterable[LinkState], positions: Stamp | None = None) -> Version:
    """The name of the tree that follows from these link states, the unreachable ones included: they only grow newer, so
    a name never comes back. (The reachable ones alone can be the same again after somebody came and went.) Where the
    positions of brokers on the ring decide as well, their stamp is part of it: it only grows newer, too."""
    stamps = sorted((state.broker, state.boot, state.seq) for state in states)
    named = stamps if positions is None else (stamps, positions)
    return hashlib.blake2b(msgspec.msgpack.encode(named), digest_size=8).hexdigest()


def links_of(view: Sequence[LinkState]) -> dict[BrokerId, list[tuple[BrokerId, int]]]:
    """Of each broker, the links that both ends tell of in their present lives, with what they cost."""
    states = {state.broker: state for state in view}
    return {
        state.broker: [
            (n.broker, n.cost_us)
            for n in state.neighbours
            if n.broker in states
            and states[n.broker].boot == n.boot
            and any(b.broker == state.broker and b.boot == state.boot for b in states[n.broker].neighbours)
        ]
        for state in view
    }


@lru_cache(maxsize=16)
def spanning_tree(version: Version, view: tuple[LinkState, ...], root_wanted: BrokerId | None) -> Tree:
    """Shortest-path tree over the reachable brokers. Cached, because in a simulation many brokers ask the same.

    Decision: storing §III leaves the tree open. A shortest-path tree keeps paths through the root as short as the
    links allow, costs one Dijkstra run, and needs no agreement beyond the link state itself.
    """
    links = links_of(view)
    root = root_wanted if root_wanted in links else None
    if root is None:
        root = min(links, key=lambda broker: (-len(links[broker]), broker))
    parent: dict[BrokerId, BrokerId | None] = {}
    depth: dict[BrokerId, int] = {}
    heap: list[tuple[int, int, BrokerId, BrokerId]] = [(0, 0, root, "")]
    while heap:
        cost, hops, broker, above = heapq.heappop(heap)
        if broker in parent:
            continue
        parent[broker] = above or None
        depth[broker] = hops
        for other, step_us in links[broker]:
            if other not in parent:
                heapq.heappush(heap, (cost + step_us, hops + 1, other, broker))
    children: dict[BrokerId, list[BrokerId]] = {broker: [] for broker in parent}
    for broker in sorted(parent):
        over = parent[broker]
        if over is not None:
            children[over].append(broker)
    return Tree(version, root, parent, children, depth)
