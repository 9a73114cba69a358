"""Frames that come early: a neighbour is ready before this broker is, in the same family of trees.

A wave along a tree makes sure that whoever gets the first event of a tree is ready (`core/interest`). Rounds cannot do
that, since the links of a family have cycles. Nobody would send those frames again in this family, so they wait, in the
order in which they came. When the family is spoiled they are void, like everything that is under way in it.

Bound. As many wait of one neighbour as may wait for one: events have their windows, the rest is small. Of what is
unreliable, more is dropped; whoever sends more of anything else than that is not heard any longer.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.core.neighbours import Neighbours
from latecomer.core.ring.interest import RingInterest
from latecomer.messages.homes import Addresses
from latecomer.messages.link import (
    Adopted,
    Complete,
    Keeping,
    LinkStates,
    Publication,
    Retained,
    RetainedSummary,
    Run,
    SessionFrame,
    Sharing,
    SharingChange,
    StoreAdvertise,
    StoreWithdraw,
    Subscribe,
    Summary,
    Unsubscribe,
    Void,
)
from latecomer.messages.reposition import Positions, PositionsKnown, Proposal, Withdrawn
from latecomer.messages.ring import Round, Wants, WantsChange
from latecomer.model.ids import BrokerId

AT_ONCE = frozenset(
    (
        Adopted,
        Addresses,
        Complete,
        Keeping,
        LinkStates,
        Positions,
        PositionsKnown,
        Proposal,
        Retained,
        RetainedSummary,
        Round,
        Sharing,
        SharingChange,
        StoreAdvertise,
        StoreWithdraw,
        Subscribe,
        Summary,
        Unsubscribe,
        Void,
        Wants,
        WantsChange,
        Withdrawn,
    )
)
"""Frames that belong to a link or to everybody, or make tables complete: brokers that are not ready take them."""


@dataclass(slots=True)
class EarlyFrames:
    """What waits for this broker to become ready."""

    interest: RingInterest
    neighbours: Neighbours
    waiting: deque[tuple[BrokerId, SessionFrame]] = field(default_factory=deque)
    of: Counter[BrokerId] = field(default_factory=Counter)
    """How many of them came from each neighbour."""

    def keep(self, peer: BrokerId, frame: SessionFrame) -> bool:
        """Whether a frame has to wait, and does from now on."""
        if type(frame) in AT_ONCE or not self._comes_early(peer):
            return False
        if self.of[peer] < self.neighbours.waiting_max:
            self.of[peer] += 1
            self.waiting.append((peer, frame))
        elif not _unreliable(frame):
            self.neighbours.reject(peer, f"it sent more than {self.of[peer]} frames before this broker was ready")
        return True

    def _comes_early(self, peer: BrokerId) -> bool:
        interest = self.interest
        if interest.ready and not self.waiting:
            return False
        theirs = interest.links.get(peer)
        if theirs is None or interest.tree is None or interest.spoiled or theirs.adopted != interest.tree.version:
            return False
        return peer in interest.beside or peer in interest.peers

    def release(self, take: Callable[[BrokerId, SessionFrame], None]) -> None:
        """This broker may be ready now: take what waits."""
        while self.waiting and self.interest.ready:
            peer, frame = self.waiting.popleft()
            self.of[peer] -= 1
            take(peer, frame)

    def clear(self) -> None:
        """Another tree begins, or this one is lost."""
        self.waiting.clear()
        self.of.clear()


def _unreliable(frame: SessionFrame) -> bool:
    return isinstance(frame, Run) or (isinstance(frame, Publication) and not frame.event.reliable)
