"""Networks made by rule: the shapes used in tests, in simulations and in the papers.

Brokers are "b1" .. "bn" (the walk-through keeps the papers' "1" .. "6"). Chance comes in as an argument; the
same generator state gives the same network.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import isqrt
from typing import TYPE_CHECKING

from latecomer.model.errors import SettingsError
from latecomer.model.topology import (
    DEFAULT_LATENCY_US,
    MAX_BROKERS,
    MAX_LATENCY_US,
    MAX_LINKS,
    Link,
    Node,
    Topology,
    quoted,
)

if TYPE_CHECKING:
    from random import Random


def line(n: int, *, latency_us: int = DEFAULT_LATENCY_US) -> Topology:
    _need("n", n, 1, MAX_BROKERS)
    return _network(f"line-{n}", n, ((i, i + 1) for i in range(n - 1)), latency_us)


def ring(n: int, *, latency_us: int = DEFAULT_LATENCY_US) -> Topology:
    _need("n", n, 3, MAX_BROKERS)
    return _network(f"ring-{n}", n, ((i, (i + 1) % n) for i in range(n)), latency_us)


def star(n: int, *, latency_us: int = DEFAULT_LATENCY_US) -> Topology:
    """`b1` in the middle, which is also the root."""
    _need("n", n, 1, MAX_BROKERS)
    return _network(f"star-{n}", n, ((0, i) for i in range(1, n)), latency_us, rooted=True)


def tree(n: int, degree: int, *, latency_us: int = DEFAULT_LATENCY_US) -> Topology:
    """A balanced tree, `degree` children per broker, filled level by level from the root `b1`."""
    _need("n", n, 1, MAX_BROKERS)
    _need("degree", degree, 1, MAX_BROKERS)
    pairs = (((i - 1) // degree, i) for i in range(1, n))
    return _network(f"tree-{n}-{degree}", n, pairs, latency_us, rooted=True)


def hierarchy(degree: int = 4, brokers: int = 85, *, latency_us: int = DEFAULT_LATENCY_US) -> Topology:
    """The mobility paper's tree: complete, by default 85 brokers of which 64 are leaves.

    Numbered level by level, so `leaves()` (the last ids) runs from west to east: each four in a row share a
    parent, each sixteen a grandparent.
    """
    _need("degree", degree, 1, MAX_BROKERS)
    _need("brokers", brokers, 1, MAX_BROKERS)
    smaller = complete = width = 1
    while complete < brokers:
        width *= degree
        smaller, complete = complete, complete + width
    if complete != brokers:
        problem = f"a complete tree of degree {degree} has {smaller} or {complete} brokers, not {brokers}"
        raise SettingsError("brokers", problem)
    pairs = (((i - 1) // degree, i) for i in range(1, brokers))
    return _network(f"hierarchy-{degree}-{brokers}", brokers, pairs, latency_us, rooted=True)


def random_tree(n: int, rng: Random, *, latency_us: int = DEFAULT_LATENCY_US) -> Topology:
    """One of the n^(n-2) labelled trees, each as likely as any other (Prüfer)."""
    _need("n", n, 1, MAX_BROKERS)
    return _network(f"random-tree-{n}", n, _random_tree_pairs(n, rng), latency_us)


def grid(width: int, height: int, *, latency_us: int = DEFAULT_LATENCY_US) -> Topology:
    """`width` brokers per row, numbered row by row."""
    _need("width", width, 1, MAX_BROKERS)
    _need("height", height, 1, MAX_BROKERS // width)
    n = width * height
    across = [(i, i + 1) for i in range(n) if (i + 1) % width]
    down = [(i, i + width) for i in range(n - width)]
    return _network(f"grid-{width}-{height}", n, sorted(across + down), latency_us)


def random_connected(n: int, extra_links: int, rng: Random, *, latency_us: int = DEFAULT_LATENCY_US) -> Topology:
    """A random tree and `extra_links` more, drawn evenly from the pairs the tree leaves free."""
    _need("n", n, 1, MAX_BROKERS)
    pairs_possible = n * (n - 1) // 2
    _need("extra_links", extra_links, 0, min(pairs_possible - (n - 1), MAX_LINKS - (n - 1)))
    tree_pairs = _random_tree_pairs(n, rng)
    taken = frozenset(tree_pairs)  # asked, never walked
    # At most n - 1 of the drawn pairs are in the tree, so enough are left whatever is drawn.
    drawn = map(_pair, rng.sample(range(pairs_possible), extra_links + n - 1))
    extra = [pair for pair in drawn if pair not in taken][:extra_links]
    return _network(f"random-{n}-{extra_links}", n, tree_pairs + extra, latency_us)


def barabasi_albert(n: int, m: int, rng: Random, *, latency_us: int = DEFAULT_LATENCY_US) -> Topology:
    """Preferential attachment: from a star of m + 1, each newcomer links to m others, drawn by degree."""
    _need("n", n, 2, MAX_BROKERS)
    _need("m", m, 1, min(n - 1, MAX_LINKS // n))
    pairs = [(0, i) for i in range(1, m + 1)]
    ends = [end for pair in pairs for end in pair]  # each broker once per link: a draw from it is by degree
    for newcomer in range(m + 1, n):
        chosen: dict[int, None] = {}
        while len(chosen) < m:
            chosen[ends[rng.randrange(len(ends))]] = None
        for other in chosen:
            pairs.append((other, newcomer))
            ends += (other, newcomer)
    return _network(f"barabasi-albert-{n}-{m}", n, pairs, latency_us)


def walkthrough(*, latency_us: int = DEFAULT_LATENCY_US) -> Topology:
    """The papers' worked example: 1-2, 2-3, 3-4, 3-5, 5-6."""
    _need("latency_us", latency_us, 0, MAX_LATENCY_US)
    return Topology(
        name="walkthrough",
        nodes=tuple(Node(id) for id in "123456"),
        links=tuple(Link(a, b, latency_us) for a, b in ("12", "23", "34", "35", "56")),
    )


def _need(argument: str, value: object, low: int, high: int) -> None:
    # The values come from settings and command lines, so the type is not taken on trust.
    if not isinstance(value, int) or isinstance(value, bool):
        raise SettingsError(argument, f"must be a whole number, not {quoted(str(value))}")
    if not low <= value <= high:
        # Python refuses to write out a number of more than 4300 digits.
        shown = str(value) if abs(value) <= 10**18 else "a number of that size"
        raise SettingsError(argument, f"must be from {low} to {high}, not {shown}")


def _network(name: str, n: int, pairs: Iterable[tuple[int, int]], latency_us: int, *, rooted: bool = False) -> Topology:
    _need("latency_us", latency_us, 0, MAX_LATENCY_US)
    ids = [f"b{number}" for number in range(1, n + 1)]
    return Topology(
        name=name,
        nodes=tuple(Node(id) for id in ids),
        links=tuple(Link(ids[a], ids[b], latency_us) for a, b in pairs),
        root=ids[0] if rooted else None,
    )


def _random_tree_pairs(n: int, rng: Random) -> list[tuple[int, int]]:
    """Decode a random Prüfer sequence; pairs are (smaller, larger)."""
    sequence = [rng.randrange(n) for _ in range(n - 2)]
    links_left = [1] * n
    for position in sequence:
        links_left[position] += 1
    leaves = [position for position in range(n) if links_left[position] == 1]
    heapify(leaves)
    pairs: list[tuple[int, int]] = []
    for position in sequence:
        leaf = heappop(leaves)
        pairs.append((min(leaf, position), max(leaf, position)))
        links_left[position] -= 1
        if links_left[position] == 1:
            heappush(leaves, position)
    if n > 1:
        pairs.append((heappop(leaves), heappop(leaves)))
    return pairs


def _pair(number: int) -> tuple[int, int]:
    """Pair `number` of (0,1) (0,2) (1,2) (0,3) …: a draw of numbers is a draw of pairs."""
    larger = (1 + isqrt(1 + 8 * number)) // 2
    return number - larger * (larger - 1) // 2, larger
