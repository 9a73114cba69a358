"""Hierarchical routing (mobility §2): subscriptions climb to the root, events climb always and descend on match."""

from __future__ import annotations

import msgspec

from latecomer.core.routing.description import describe
from latecomer.model.ids import BrokerId


class Hierarchy(msgspec.Struct, frozen=True, tag="hierarchy", tag_field="kind", forbid_unknown_fields=True):
    """A broker knows what is wanted below it. With advertisements, subscriptions also descend towards publishers that
    announced something they intersect, and then no event climbs in vain."""

    covering: bool = True
    """Do not tell the parent what is covered by something it was told."""
    advertisements: bool = False
    """Publishers announce what they publish; the announcements climb to the root."""
    root: BrokerId | None = None
    """Top of the hierarchy; the broker with the most links by default."""

    def tells_subscription(self, *, to_parent: bool, advertised: bool) -> bool:
        """Whether a subscription is told to a tree neighbour from which an advertisement it intersects came, or not."""
        return to_parent or (self.advertisements and advertised)

    def tells_advertisement(self, *, to_parent: bool) -> bool:
        """Whether an advertisement is told to this tree neighbour."""
        return self.advertisements and to_parent

    @property
    def climbs(self) -> bool:
        """Whether every event goes to the parent, wanted or not."""
        return not self.advertisements

    def __str__(self) -> str:
        """The same text for the same routing, everywhere."""
        return describe("hierarchy", self.covering, self.advertisements, self.root)
