"""The broker network: brokers, the links between them, and how far apart they are.

A topology is what the operator asked for, so everything that can be wrong with it is found by `check`. The
other methods take a topology that passes `check(connected=False)`. Every order below follows `nodes` and
`links`, so equal topologies give equal answers in any process.
"""

from __future__ import annotations

from array import array
from collections import deque
from heapq import heappop, heappush
from itertools import pairwise
from typing import TypeAlias

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId

DEFAULT_LATENCY_US = 1000
MAX_LATENCY_US = 3_600_000_000
"""One hour per link: more is a mistake in the units, and the sum along any path still fits 64 bits."""
MAX_BROKERS = 100_000
MAX_LINKS = 1_000_000
"""At most so much is generated or read: a slip in a settings file is a sentence, not a dead machine."""
UNREACHABLE = -1
"""What the matrices hold for two brokers in different parts."""

KEY = "topology"
_PARTS_SHOWN = 4
_QUOTED_CHARACTERS = 60

Adjacency: TypeAlias = list[list[tuple[int, int]]]
"""Per node position: (position of the neighbour, latency in microseconds), in link order."""


def quoted(text: str) -> str:
    """`text` as it is shown in an error: quoted, and cut where a hostile file would fill the screen."""
    return repr(text if len(text) <= _QUOTED_CHARACTERS else text[:_QUOTED_CHARACTERS] + "…")


class Node(msgspec.Struct, frozen=True):
    """A place for one broker; coordinates in degrees where they are known."""

    id: BrokerId
    label: str = ""
    lat: float | None = None
    lon: float | None = None


class Link(msgspec.Struct, frozen=True):
    """Two brokers that talk directly; undirected, `a != b`."""

    a: BrokerId
    b: BrokerId
    latency_us: int = DEFAULT_LATENCY_US

    def __str__(self) -> str:
        return f"{quoted(self.a)} - {quoted(self.b)}"


class Topology(msgspec.Struct, frozen=True):
    """Brokers and links under one name; `root` is set where the network has a top (hierarchical routing)."""

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    root: BrokerId | None = None

    def ids(self) -> tuple[BrokerId, ...]:
        return tuple(node.id for node in self.nodes)

    def neighbours(self) -> dict[BrokerId, tuple[tuple[BrokerId, int], ...]]:
        """Per broker its direct neighbours with the latency of the link, in link order."""
        ids = self.ids()
        return {
            broker: tuple((ids[other], latency_us) for other, latency_us in row)
            for broker, row in zip(ids, self._adjacency(), strict=True)
        }

    def leaves(self) -> tuple[BrokerId, ...]:
        """Brokers with at most one link, the root excepted (unless it is alone), in node order."""
        alone = len(self.nodes) == 1
        rows = zip(self.nodes, self._adjacency(), strict=True)
        return tuple(node.id for node, row in rows if len(row) <= 1 and (alone or node.id != self.root))

    # -- distances

    def hops_from(self, broker: BrokerId) -> dict[BrokerId, int]:
        """Links to cross to each broker that can be reached, nearest first."""
        ids = self.ids()
        hops, order = _breadth_first(self._adjacency(), self._position(broker))
        return {ids[reached]: hops[reached] for reached in order}

    def latency_from(self, broker: BrokerId) -> dict[BrokerId, int]:
        """Microseconds along the fastest path to each broker that can be reached, nearest first."""
        ids = self.ids()
        latency_us, order = _dijkstra(self._adjacency(), self._position(broker))
        return {ids[reached]: latency_us[reached] for reached in order}

    def hop_matrix(self) -> list[array[int]]:
        """Row and column by position in `nodes`; `UNREACHABLE` between parts."""
        adjacency = self._adjacency()
        return [array("i", _breadth_first(adjacency, start)[0]) for start in range(len(adjacency))]

    def latency_matrix(self) -> list[array[int]]:
        """Microseconds, row and column by position in `nodes`; `UNREACHABLE` between parts."""
        adjacency = self._adjacency()
        return [array("q", _dijkstra(adjacency, start)[0]) for start in range(len(adjacency))]

    def diameter_hops(self) -> int:
        """The longest of the shortest paths; a SettingsError when some pair has none."""
        self.check()
        return max(max(row) for row in self.hop_matrix())

    # -- shape

    def components(self) -> list[tuple[BrokerId, ...]]:
        """The connected parts; brokers in node order, parts by their first broker."""
        ids = self.ids()
        adjacency = self._adjacency()
        seen = [False] * len(ids)
        parts: list[tuple[BrokerId, ...]] = []
        for start in range(len(ids)):
            if seen[start]:
                continue
            seen[start] = True
            part = [start]
            for position in part:  # grows while it is walked
                for other, _ in adjacency[position]:
                    if not seen[other]:
                        seen[other] = True
                        part.append(other)
            parts.append(tuple(ids[position] for position in sorted(part)))
        return parts

    def is_connected(self) -> bool:
        """Whether every broker reaches every other; a network without brokers is not connected."""
        return len(self.components()) == 1

    def is_tree(self) -> bool:
        return len(self.links) == len(self.nodes) - 1 and self.is_connected()

    def without(self, broker: BrokerId) -> Topology:
        """The network after `broker` and its links are gone; it may fall into parts or be empty."""
        self._position(broker)
        return self._only(tuple(kept for kept in self.ids() if kept != broker))

    def largest_component(self) -> Topology:
        """The part with most brokers, the first of equals."""
        parts = self.components()
        return self._only(max(parts, key=len)) if len(parts) > 1 else self

    # -- what the operator did wrong

    def check(self, *, connected: bool = True) -> None:
        """Raise a SettingsError that names the first thing wrong."""
        if not self.nodes:
            raise self._wrong("has no brokers")
        known = dict.fromkeys(self.ids())
        if "" in known:
            raise self._wrong("has a broker with an empty id")
        if len(known) != len(self.nodes):
            raise self._wrong(f"has duplicate broker ids: {_listed(_repeated(self.ids()))}")
        if self.root is not None and self.root not in known:
            raise self._wrong(f"has an unknown root {quoted(self.root)}")
        self._check_links(known)
        if connected:
            self._check_connected()

    def _check_links(self, known: dict[BrokerId, None]) -> None:
        seen: set[tuple[BrokerId, BrokerId]] = set()
        for link in self.links:
            for end in (link.a, link.b):
                if end not in known:
                    raise self._wrong(f"has a link {link} to an unknown broker {quoted(end)}")
            if link.a == link.b:
                raise self._wrong(f"has a link {link} from a broker to itself")
            pair = (link.a, link.b) if link.a < link.b else (link.b, link.a)
            if pair in seen:
                raise self._wrong(f"has the link {link} twice")
            seen.add(pair)
            if link.latency_us < 0:
                raise self._wrong(f"has a link {link} with a negative latency of {link.latency_us} us")
            if link.latency_us > MAX_LATENCY_US:
                raise self._wrong(f"has a link {link} with a latency above {MAX_LATENCY_US} us (one hour)")

    def _check_connected(self) -> None:
        parts = sorted(self.components(), key=len, reverse=True)
        if len(parts) == 1:
            return
        sizes = [str(len(part)) for part in parts]
        if len(sizes) <= _PARTS_SHOWN:
            told = f"{len(parts)} parts of {', '.join(sizes[:-1])} and {sizes[-1]} brokers"
        else:
            told = f"{len(parts)} parts, the largest of {', '.join(sizes[: _PARTS_SHOWN - 1])} brokers"
        here, there = quoted(parts[0][0]), quoted(parts[1][0])
        raise self._wrong(f"is not connected: {here} cannot reach {there} ({told})")

    def _wrong(self, problem: str) -> SettingsError:
        return SettingsError(KEY, f"network {quoted(self.name)} {problem}")

    # -- helpers

    def _position(self, broker: BrokerId) -> int:
        for position, node in enumerate(self.nodes):
            if node.id == broker:
                return position
        raise self._wrong(f"has no broker {quoted(broker)}")

    def _only(self, brokers: tuple[BrokerId, ...]) -> Topology:
        kept = frozenset(brokers)  # asked, never walked
        return Topology(
            name=self.name,
            nodes=tuple(node for node in self.nodes if node.id in kept),
            links=tuple(link for link in self.links if link.a in kept and link.b in kept),
            root=self.root if self.root in kept else None,
        )

    def _adjacency(self) -> Adjacency:
        position = {node.id: index for index, node in enumerate(self.nodes)}
        rows: Adjacency = [[] for _ in self.nodes]
        for link in self.links:
            a, b = position[link.a], position[link.b]
            rows[a].append((b, link.latency_us))
            rows[b].append((a, link.latency_us))
        return rows


def _breadth_first(adjacency: Adjacency, start: int) -> tuple[list[int], list[int]]:
    """Hops per position, and the positions reached, nearest first."""
    hops = [UNREACHABLE] * len(adjacency)
    hops[start] = 0
    order: list[int] = []
    waiting = deque((start,))
    while waiting:
        here = waiting.popleft()
        order.append(here)
        for other, _ in adjacency[here]:
            if hops[other] == UNREACHABLE:
                hops[other] = hops[here] + 1
                waiting.append(other)
    return hops, order


def _dijkstra(adjacency: Adjacency, start: int) -> tuple[list[int], list[int]]:
    """Microseconds per position, and the positions reached, nearest first (ties by position)."""
    latency_us = [UNREACHABLE] * len(adjacency)
    latency_us[start] = 0
    order: list[int] = []
    waiting = [(0, start)]
    while waiting:
        so_far, here = heappop(waiting)
        if so_far > latency_us[here]:
            continue  # a faster way was found while this one waited
        order.append(here)
        for other, step_us in adjacency[here]:
            through, known = so_far + step_us, latency_us[other]
            if known == UNREACHABLE or through < known:
                latency_us[other] = through
                heappush(waiting, (through, other))
    return latency_us, order


def _repeated(ids: tuple[BrokerId, ...]) -> list[BrokerId]:
    ordered = sorted(ids)
    return list(dict.fromkeys(this for this, following in pairwise(ordered) if this == following))


def _listed(ids: list[BrokerId]) -> str:
    shown = ", ".join(quoted(broker) for broker in ids[:_PARTS_SHOWN])
    return shown if len(ids) <= _PARTS_SHOWN else f"{shown} and {len(ids) - _PARTS_SHOWN} more"
