"""Who may still owe something to whom.

An origin keeps events for brokers that are away, and sends them to these alone when they are back. So if this broker
was with an origin while another broker was not, the origin may have events for that other broker which this one has
had. If the origin is away then, a session must not come here from the other broker: the event would reach a broker that
has the session no more. It waits until the origin is back, or forgotten. The same holds if this broker held events for
a session that it did not get in the end: an origin that died meanwhile may have sent them here and not yet there. And
it holds if this broker passed on events of the origin, and the tree was lost before the others had reported them.

Pairs are noted in every tree that lacks somebody. They are forgotten when this broker has settled in a tree that has
both, and a fence has passed behind that: then what the origin owed has arrived. After a restart nothing is known of the
time before, so everybody may owe everybody something until that has happened. Nor does a broker that joins know what
those may owe of whom it hears only when they are away: they may have published before it was there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from latecomer.core.fences import Fences
from latecomer.core.interest import Interest
from latecomer.core.membership import Membership
from latecomer.core.settling import Settling
from latecomer.model.ids import BrokerId


@dataclass(slots=True)
class Apart:
    """Brokers that were with this one while others were not."""

    broker: BrokerId
    interest: Interest
    membership: Membership
    settling: Settling
    fences: Fences
    met: dict[BrokerId, dict[BrokerId, None]] = field(default_factory=dict)
    """By broker that was missing, who was there."""
    unknown: dict[BrokerId, None] = field(default_factory=dict)
    """Brokers that this one knew before it restarted, or that were away when it heard of them, and that it has not been
    with since for long enough."""
    heard: dict[BrokerId, None] = field(default_factory=dict)
    """All brokers that this one has heard of."""
    wave: int = 0
    """The fence behind which what was owed has arrived; 0: not asked for."""

    def recover(self, members: Iterable[BrokerId]) -> None:
        self.unknown = dict.fromkeys(member for member in members if member != self.broker)
        self.heard = dict(self.unknown)

    def tree_ready(self) -> None:
        self.wave = 0
        tree = self.interest.tree
        assert tree is not None
        there = [broker for broker in tree.parent if broker != self.broker]
        for missing in self.membership.link_states.absent_since:
            if there:
                self.met.setdefault(missing, {}).update(dict.fromkeys(there))
            if missing not in self.heard:
                self.unknown[missing] = None
        self.heard.update(dict.fromkeys((*there, *self.membership.link_states.absent_since)))

    def had(self, owner: BrokerId, origins: Iterable[BrokerId]) -> None:
        """This broker has had events of these origins for a session that another broker has, and let go of them."""
        others = dict.fromkeys(origin for origin in origins if origin not in (owner, self.broker))
        if others:
            self.met.setdefault(owner, {}).update(others)
            if self.interest.ready and self.settling.settled:
                self.wave = self.fences.ask()

    def tree_lost(self, transit: Mapping[BrokerId, Mapping[int, Sequence[BrokerId]]]) -> None:
        """Whoever is behind a neighbour that has not reported an event (`Events.transit`) may lack it."""
        tree = self.interest.tree
        assert tree is not None
        others = [broker for broker in tree.parent if broker != self.broker]
        ring = self.interest.family is not None and self.interest.family.ring
        for origin, under_way in transit.items():
            silent = dict.fromkeys(peer for peers in under_way.values() for peer in peers[1:])
            for broker in others if silent else ():
                # With trees for each root it is not known who is behind a neighbour: it may be anybody.
                if broker != origin and (ring or tree.next_hop(self.broker, broker) in silent):
                    self.met.setdefault(broker, {})[origin] = None

    def settled(self) -> None:
        """Everything that was owed to this broker has arrived; a fence finds out when the others have theirs."""
        tree = self.interest.tree
        assert tree is not None
        if self.unknown or any(missing in tree.parent for missing in self.met):
            self.wave = self.fences.ask()
            if self.fences.done >= self.wave:
                self.passed(self.wave)

    def passed(self, wave: int) -> None:
        if not self.wave or wave < self.wave or not self.settling.settled:
            return
        self.wave = 0
        tree = self.interest.tree
        assert tree is not None
        for missing in [missing for missing in self.met if missing in tree.parent]:
            left = {broker: None for broker in self.met[missing] if broker not in tree.parent}
            if left:
                self.met[missing] = left
            else:
                del self.met[missing]
        self.unknown = {broker: None for broker in self.unknown if broker not in tree.parent}

    def forget(self, brokers: Iterable[BrokerId]) -> None:
        for gone in brokers:
            self.met.pop(gone, None)
            self.unknown.pop(gone, None)
            for there in self.met.values():
                there.pop(gone, None)

    def may_owe(self, owner: BrokerId) -> BrokerId | None:
        """An origin that is away and may have something for a broker alone that this one has had."""
        absent = self.membership.link_states.absent_since
        suspects = (*self.met.get(owner, ()), *self.unknown)
        return next((origin for origin in suspects if origin in absent and origin != owner), None)
