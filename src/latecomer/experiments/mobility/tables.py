"""How far the network hears of a subscription: to the root, as far as covering lets it, or towards publishers too.

*Covering* is the rule of the broker core: what a broker has told its parent is a function of what is wanted below it,
the filters that no other covers. So a wide subscription takes back what it covers, and its end brings that back.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from latecomer.experiments.mobility.publications import SUBSCRIPTIONS, Publications, covering, matching
from latecomer.experiments.mobility.tree import IntArray, Tree

Routing = Literal["plain", "covering", "advertisements"]


@cache
def _relations() -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """For each subscription, those that cover it, and those that it covers; but for itself."""
    every = range(SUBSCRIPTIONS)
    above = tuple(tuple(b for b in every if b != a and covering(b, a)) for a in every)
    below = tuple(tuple(b for b in every if b != a and covering(a, b)) for a in every)
    return above, below


class Covering:
    """The tables of a hierarchy with covering; a method answers how many hops a change travels."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.held = np.zeros((len(tree.parents), SUBSCRIPTIONS), dtype=np.int64)
        """How many clients, or children that have told it, hold a subscription at a broker."""
        self.above, self.below = _relations()

    def begin(self, broker: int, subscription: int) -> int:
        """A client begins to want something."""
        return self._change(broker, {subscription: 1})

    def end(self, broker: int, subscription: int) -> int:
        return self._change(broker, {subscription: -1})

    def _told(self, broker: int, subscription: int) -> bool:
        held = self.held[broker]
        return bool(held[subscription] and not any(held[other] for other in self.above[subscription]))

    def _change(self, broker: int, changes: dict[int, int]) -> int:
        affected = sorted({other for one in changes for other in (one, *self.below[one])})
        before = [self._told(broker, one) for one in affected]
        for one, by in changes.items():
            self.held[broker, one] += by
        parent = self.tree.parents[broker]
        if parent == broker:
            return 0
        after = [self._told(broker, one) for one in affected]
        onward = {one: now - was for one, was, now in zip(affected, before, after, strict=True) if now != was}
        return len(onward) + (self._change(parent, onward) if onward else 0)


def advertised_hops(tree: Tree, publications: Publications) -> IntArray:
    """With advertisements and without covering: the hops of each subscription (column) at each leaf (row), up to the
    root and down to every publisher that has advertised something that it matches."""
    found = np.zeros((len(tree.leaves), SUBSCRIPTIONS), dtype=np.int64)
    lines = {leaf: set(tree.ancestors(leaf)[:-1]) for leaf in tree.leaves}
    for subscription in range(SUBSCRIPTIONS):
        meant = matching()[subscription][publications.published]
        below = set().union(*(lines[broker] for broker in set(publications.publishers[meant].tolist())))
        for row, leaf in enumerate(tree.leaves):
            found[row, subscription] = len(lines[leaf]) + len(below - lines[leaf])
    return found
