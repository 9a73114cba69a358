"""Subscription forwarding (storing §III): subscriptions go everywhere, events follow them back."""

from __future__ import annotations

import msgspec

from latecomer.core.routing.description import describe
from latecomer.model.ids import BrokerId


class Forwarding(msgspec.Struct, frozen=True, tag="forwarding", tag_field="kind", forbid_unknown_fields=True):
    """Every broker learns, per neighbour, what is wanted behind it; an event goes where a filter matches."""

    covering: bool = True
    """Do not tell a neighbour what is covered by something it was told (mobility §2)."""
    advertisements: bool = False
    """Send subscriptions only towards publishers whose advertisement they intersect (mobility §2)."""
    root: BrokerId | None = None
    """Root of the spanning tree; the broker with the most links by default."""

    def tells_subscription(self, *, to_parent: bool, advertised: bool) -> bool:
        """Whether a subscription is told to a tree neighbour from which an advertisement it intersects came, or not."""
        return advertised or not self.advertisements

    def tells_advertisement(self, *, to_parent: bool) -> bool:
        """Whether an advertisement is told to this tree neighbour."""
        return self.advertisements

    @property
    def climbs(self) -> bool:
        """Whether every event goes to the parent, wanted or not."""
        return False

    def __str__(self) -> str:
        """The same text for the same routing, everywhere."""
        return describe("forwarding", self.covering, self.advertisements, self.root)
