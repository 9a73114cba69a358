"""Where events of a topic go from one broker, where brokers route by rendezvous (`core/routes`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from latecomer.core.ring.interest import RingInterest
from latecomer.model.content import Conjunction
from latecomer.model.ids import BrokerId


@dataclass(slots=True)
class RingWays:
    """What the family of trees and the words of the others say of a topic."""

    interest: RingInterest

    def root(self, topic: str) -> BrokerId:
        family = self.interest.family
        return "" if family is None else family.root_of(self.interest.keys.slot(topic))

    def parent(self, root: BrokerId) -> BrokerId | None:
        family = self.interest.family
        assert family is not None
        return family.tree(root).parent[self.interest.broker]

    def others(self, topic: str, root: BrokerId) -> Iterator[tuple[BrokerId, Conjunction | None]]:
        family, here = self.interest.family, self.interest.broker
        assert family is not None
        tree = family.tree(root)
        for filter, broker in self.interest.words.holders(topic):
            if broker in tree.parent:
                yield tree.next_hop(here, broker), filter.where
