"""Re-positioning: one broker proposes where all are to stand, everybody gets ready, and then it puts it in force.

Theory of operation. Adopting another family of trees stops events, keeps them and sends them again, so *any* sequence
of positions is safe. A proposal only makes a switch short: links that the new ring needs are up before. So nobody is
blocked by a proposal, a proposer that dies needs no successor, and two proposers at a time do no harm: the larger stamp
goes on, and whoever hears of it withdraws.

Any broker may propose. Everything that happens to a proposal is in the tables of `states`.

Decision: a broker waits for those links that its settings name, and fails only without one to its successor: without
it no event could travel the ring. Other links that do not exist cost hops, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from latecomer.core.interest import Interest
from latecomer.core.membership import Membership
from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.reposition.states import MANAGER, MOVER, Act, Fact, Managing, Moving
from latecomer.core.reposition.word import PositionsWord
from latecomer.core.ring.places import fingers_of, position_in
from latecomer.core.tree import Tree
from latecomer.messages.link import SessionFrame
from latecomer.messages.reposition import (
    NO_STAMP,
    PROBLEM_MAX,
    Positions,
    PositionsKnown,
    Prepared,
    Proposal,
    Stamp,
    Withdrawn,
)
from latecomer.model.ids import NAME_MAX, NUMBER_MAX, BrokerId, Instant
from latecomer.model.record import Kind
from latecomer.model.ring import BITS

BETWEEN = "of a proposal between"


@dataclass(slots=True)
class Own:
    """The proposal of this broker."""

    proposal: Proposal
    members: dict[BrokerId, int]
    """Who is to get ready, in which of its lives."""
    due: Instant
    prepared: dict[BrokerId, None] = field(default_factory=dict)

    def waits_for(self) -> list[BrokerId]:
        return [member for member in self.members if member not in self.prepared]


@dataclass(slots=True)
class Reposition:
    """What one broker has to do with new positions."""

    broker: BrokerId
    orders: Orders
    neighbours: Neighbours
    interest: Interest
    membership: Membership
    passage: Passage
    patience_us: int
    word: PositionsWord
    managing: Managing = Managing.RESTING
    moving: Moving = Moving.IDLE
    own: Own | None = None
    outcome: str = ""
    """What came of the last proposal of this broker, for its operator."""
    proposal: Proposal | None = None
    """The one that this broker gets ready for."""
    due: Instant | None = None
    heard: Stamp = NO_STAMP
    """Of the newest proposal."""
    withdrawn: bool = False
    """The newest proposal is."""
    problem: str = ""
    """Why this broker cannot get ready."""

    # -- the tables ----------------------------------------------------------------------------------------------------

    def _manage(self, fact: Fact, why: str = "") -> None:
        found = MANAGER.get((self.managing, fact))
        if found is not None:
            act, self.managing = found
            if act is Act.PUT_IN_FORCE:
                self._put_in_force()
            elif act is Act.WITHDRAW:
                self._withdraw(why)

    def _move(self, fact: Fact, proposal: Proposal | None = None) -> None:
        found = MOVER.get((self.moving, fact))
        if found is not None:
            act, self.moving = found
            if act is Act.PREPARE:
                assert proposal is not None
                self._prepare(proposal)
            elif act is Act.REPORT:
                self._report()
            elif act is Act.FORGET:
                self._forget()

    # -- who proposes --------------------------------------------------------------------------------------------------

    def problem_of(self, places: Mapping[BrokerId, int]) -> str:
        """Why these positions cannot be proposed now; empty: they can. Changes nothing."""
        tree = self.interest.tree
        if self.own is not None:
            return f"{self.broker} has proposed other positions; wait until they are in force, or abort them"
        if tree is None or not self.interest.ready:
            return f"{self.broker} has no tree that is ready; wait until the network has come together"
        if not 0 < len(places) <= self.membership.settings.brokers_max:
            return f"positions of {len(places)} brokers; name from 1 to {self.membership.settings.brokers_max}"
        if self.heard.epoch >= NUMBER_MAX - 1 or self.word.stamp.epoch >= NUMBER_MAX - 1:
            return "the network has no more numbers for positions; somebody has made one up"
        for broker, position in places.items():
            if not 0 < len(broker) <= NAME_MAX:
                return f"a broker has a name of 1 to {NAME_MAX} characters"
            if not 0 <= position < 1 << BITS:
                return f"{position} of {broker} is no position; name one from 0 to {(1 << BITS) - 1}"
        return _shared(dict(places), [*tree.parent, *places])

    def want(self, places: Mapping[BrokerId, int]) -> None:
        """Propose positions, if that is possible."""
        if self.problem_of(places):
            return
        act, self.managing = MANAGER[self.managing, Fact.WANTED]
        assert act is Act.PROPOSE
        tree = self.interest.tree
        assert tree is not None
        stamp = Stamp(max(self.word.stamp.epoch, self.heard.epoch) + 1, self.broker, self.orders.boot)
        proposal = Proposal(stamp, self.word.stamp, tuple(places.items()))
        due = self.orders.wake(self.orders.now + self.patience_us)
        self.own, self.outcome = Own(proposal, self._lives(tree), due), ""
        self.orders.note(Kind.PROPOSED, count=len(places), detail=str(stamp))
        self._heard(proposal)

    def abandon(self, why: str) -> None:
        """The operator wants the proposal of this broker withdrawn."""
        self._manage(Fact.FAILED, why)

    def _lives(self, tree: Tree) -> dict[BrokerId, int]:
        states = self.membership.link_states.states
        return {broker: states[broker].boot for broker in tree.parent}

    def _withdraw(self, why: str) -> None:
        own, self.own = self.own, None
        assert own is not None
        self.outcome = f"withdrawn: {why}"
        self.orders.note(Kind.WITHDRAWN, detail=f"{own.proposal.stamp}: {why}")
        self._over(own.proposal.stamp)

    def _put_in_force(self) -> None:
        own, self.own = self.own, None
        assert own is not None
        self.outcome = f"in force: {own.proposal.stamp}"
        self.word.take(Positions(own.proposal.stamp, own.proposal.places))

    def on_prepared(self, peer: BrokerId, frame: Prepared) -> None:
        if self.passage.arrived(peer, frame.from_broker, frame.to, frame, BETWEEN):
            self._prepared(frame)

    def _prepared(self, frame: Prepared) -> None:
        own = self.own
        if own is None or frame.stamp != own.proposal.stamp or frame.from_broker not in own.members:
            return
        if frame.problem:
            self._manage(Fact.FAILED, frame.problem)
            return
        own.prepared[frame.from_broker] = None
        if not own.waits_for():
            self._manage(Fact.ALL_PREPARED)

    # -- who gets ready ------------------------------------------------------------------------------------------------

    def on_proposal(self, peer: BrokerId, frame: Proposal) -> None:
        if frame.stamp > self.heard and not self.word.too_many(peer, frame.places):
            self._heard(frame, peer)

    def _heard(self, proposal: Proposal, told_by: BrokerId = "") -> None:
        self.heard, self.withdrawn = proposal.stamp, False
        self._flood(proposal, told_by)
        if self.own is not None and proposal.stamp != self.own.proposal.stamp:
            self._manage(Fact.FAILED, f"{proposal.stamp.by} proposes other positions")
        self._move(Fact.OVER)
        if self._fits(proposal):
            self._move(Fact.PROPOSED, proposal)
        elif proposal.base < self.word.stamp:
            self._answer(proposal.stamp, f"{self.broker} has newer positions than those from which it was computed")

    def _fits(self, proposal: Proposal) -> bool:
        """Whether it was computed from the positions that are in force here."""
        return proposal.base == self.word.stamp

    def _prepare(self, proposal: Proposal) -> None:
        self.proposal, self.problem = proposal, ""
        self.due = self.orders.wake(self.orders.now + 2 * self.patience_us)
        self.look_at_links()

    def look_at_links(self) -> None:
        """Links, or brokers, came or went."""
        tree, proposal = self.interest.tree, self.proposal
        if self.moving is not Moving.PREPARING or tree is None or proposal is None:
            return
        links = {peer: link for peer, link in self.neighbours.links.items() if link.wanted}
        needed = fingers_of(dict(proposal.places), tree.parent, self.broker)
        if needed and needed[0] not in links:
            self.problem = f"{self.broker} has no link to {needed[0]}, which would follow it on the ring"
            self._move(Fact.HOPELESS)
        elif all(links[peer].up for peer in needed if peer in links):
            self._move(Fact.LINKED)

    def _report(self) -> None:
        assert self.proposal is not None
        stamp, problem = self.proposal.stamp, self.problem
        if problem:
            self._forget()
        self._answer(stamp, problem)

    def _answer(self, stamp: Stamp, problem: str) -> None:
        answer = Prepared(self.broker, stamp.by, stamp, problem[:PROBLEM_MAX])
        if stamp.by == self.broker:
            self._prepared(answer)
        else:
            self.passage.send(stamp.by, answer)  # if there is no way now, it is sent in the next tree

    def on_withdrawn(self, peer: BrokerId, frame: Withdrawn) -> None:
        if (frame.stamp, True) > (self.heard, self.withdrawn):
            self._over(frame.stamp, peer)

    def _over(self, stamp: Stamp, told_by: BrokerId = "") -> None:
        """Nothing comes of a proposal."""
        if stamp < self.heard:
            return  # everybody hears of a newer one, which ends this as well
        self.heard, self.withdrawn = stamp, True
        self._flood(Withdrawn(stamp), told_by)
        self._move(Fact.OVER)

    def _forget(self) -> None:
        self.proposal, self.due, self.problem = None, None, ""

    def _flood(self, frame: SessionFrame, told_by: BrokerId) -> None:
        for peer in self.neighbours.up():
            if peer != told_by:
                self.neighbours.send(peer, frame)

    # -- what happens around it ----------------------------------------------------------------------------------------

    def on_positions(self, peer: BrokerId, frame: Positions) -> None:
        self.word.on_positions(peer, frame)

    def on_known(self, peer: BrokerId, frame: PositionsKnown) -> None:
        self.word.on_known(peer, frame)

    def positions_changed(self) -> None:
        """Positions are in force."""
        if self.own is not None:
            self._manage(Fact.FAILED, f"{self.word.stamp.by} has put other positions in force")
        self._move(Fact.OVER)

    def adopted(self, tree: Tree) -> None:
        """There is another tree, perhaps of other brokers, or of other lives."""
        own, proposal = self.own, self.proposal
        lives = self._lives(tree)
        if own is not None and own.members != lives:
            changed = [broker for broker in {**own.members, **lives} if own.members.get(broker) != lives.get(broker)]
            self._manage(Fact.FAILED, f"{', '.join(changed)} came or went")
        if proposal is not None and lives.get(proposal.stamp.by) != proposal.stamp.boot:
            self._move(Fact.OVER)
        self.look_at_links()

    def tree_ready(self) -> None:
        self._move(Fact.TREE_READY)

    def woken(self) -> None:
        now = self.orders.now
        if self.own is not None and self.own.due <= now:
            self._manage(Fact.FAILED, f"{', '.join(self.own.waits_for())} did not get ready in time")
        if self.due is not None and self.due <= now:
            self.due = None
            self._move(Fact.OVER)

    def dues(self) -> tuple[Instant | None, ...]:
        return (self.due, None if self.own is None else self.own.due)

    def frames(self) -> dict[type, Callable[..., None]]:
        return {
            Positions: self.on_positions,
            PositionsKnown: self.on_known,
            Proposal: self.on_proposal,
            Prepared: self.on_prepared,
            Withdrawn: self.on_withdrawn,
        }


def _shared(places: dict[BrokerId, int], brokers: Iterable[BrokerId]) -> str:
    """Which two brokers would stand at the same position; empty: none."""
    taken: dict[int, BrokerId] = {}
    for broker in dict.fromkeys(brokers):
        position = position_in(places, broker)
        if (other := taken.setdefault(position, broker)) != broker:
            return f"{other} and {broker} would both stand at {position}; give each broker its own position"
    return ""
