"""Ring routing, deliberately broken: one function per planted bug, and the lives that must catch it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from latecomer.core import membership
from latecomer.core.events import Events
from latecomer.core.ring.early import EarlyFrames
from latecomer.core.ring.family import Family
from latecomer.core.ring.flushes import Flushes
from latecomer.core.ring.interest import RingInterest
from latecomer.core.ring.settling import RingSettling
from latecomer.core.ring.words import Words
from latecomer.core.seen import Seen
from latecomer.core.tree import Tree, name_of
from latecomer.messages.link import LinkState, SessionFrame
from latecomer.messages.reposition import Stamp
from latecomer.messages.ring import Wants, WantsChange
from latecomer.model.event import Event
from latecomer.model.ids import BrokerId
from latecomer.sim.soak import Clients

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, tuple[Callable[[Patch], None], str]] = {}


def mutant(kind: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def enter(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS[plant.__name__] = (plant, kind)
        return plant

    return enter


@mutant(Clients.RING)
def what_was_had_is_numbered_by_origin(patch: Patch) -> None:
    """Not by origin and slot: events of one origin come by different ways."""
    take = Seen.take

    def by_origin(self: Seen, event: Event) -> str | None:
        slot, self.slot = self.slot, None
        try:
            return take(self, event)
        finally:
            self.slot = slot

    patch.setattr(Seen, "take", by_origin)


@mutant(Clients.RING)
def one_round_is_left_out(patch: Patch) -> None:
    use = RingInterest._use

    def hasty(self: RingInterest, agreed: Tree, family: Family | None) -> None:
        use(self, agreed, family)
        assert family is not None
        if family.longest > 1:
            fields = {
                name: getattr(family, name) for name in ("agreed", "order", "points", "fingers", "beside", "_last")
            }
            self.family = Family(**fields, longest=family.longest - 1)

    patch.setattr(RingInterest, "_use", hasty)


@mutant(Clients.RING)
def early_frames_are_dropped(patch: Patch) -> None:
    patch.setattr(EarlyFrames, "keep", lambda self, peer, frame: False)


@mutant(Clients.RING)
def early_frames_are_taken_backwards(patch: Patch) -> None:
    def backwards(self: EarlyFrames, take: Callable[[BrokerId, SessionFrame], None]) -> None:
        while self.waiting and self.interest.ready:
            take(*self.waiting.pop())

    patch.setattr(EarlyFrames, "release", backwards)


@mutant(Clients.RING_TRAVEL)
def stores_answer_before_the_flush(patch: Patch) -> None:
    patch.setattr(Flushes, "behind", lambda self, broker, then, *topics: then())


@mutant(Clients.RING_WANDER)
def sessions_leave_before_the_flush(patch: Patch) -> None:
    patch.setattr(Flushes, "behind", lambda self, broker, then, *topics: then())


@mutant(Clients.RING_TRAVEL)
def one_root_alone_is_flushed(patch: Patch) -> None:
    """Although the filter crosses slots."""
    roots_for = Flushes._roots_for
    patch.setattr(Flushes, "_roots_for", lambda self, topics: roots_for(self, topics)[:1])


@mutant(Clients.RING)
def filters_are_taken_back_in_the_first_round(patch: Patch) -> None:
    """Before what they stand for has been heard of in the new family."""
    tell = RingInterest._tell_round

    def early(self: RingInterest) -> None:
        if self.told_rounds == 1:
            for peer in self.beside:
                if peer in self.links:
                    told = self.links[peer].told_subscriptions
                    self._say(peer, (), tuple(f for f in told if not self.subscriptions.wanted(f, peer)))
        tell(self)

    patch.setattr(RingInterest, "_tell_round", early)


@mutant(Clients.RING)
def words_go_one_way(patch: Patch) -> None:
    def flood(self: Words, frame: Wants | WantsChange, told_by: BrokerId = "") -> None:
        for peer in [peer for peer in self.neighbours() if peer != told_by][:1]:
            self.send(peer, frame)

    patch.setattr(Words, "_flood", flood)


@mutant(Clients.RING)
def an_empty_word_is_not_told(patch: Patch) -> None:
    greet = Words.greet

    def shy(self: Words, peer: BrokerId) -> None:
        send = self.send
        self.send = lambda to, frame: send(to, frame) if not isinstance(frame, Wants) or frame.filters else None
        greet(self, peer)
        self.send = send

    patch.setattr(Words, "greet", shy)


@mutant(Clients.RING)
def what_was_kept_goes_along_the_agreed_tree(patch: Patch) -> None:
    """Events for those alone who were away."""
    next_peers = Events._next_peers

    def wrong(self: Events, event: Event, came_from: BrokerId, only: tuple[BrokerId, ...], flooded: bool) -> list[str]:
        peers = next_peers(self, event, came_from, (), flooded)
        tree = self.interest.tree
        assert tree is not None
        ways = tree.ways(self.broker, only)
        return [peer for peer in peers if not only or peer in ways]

    patch.setattr(Events, "_next_peers", wrong)


@mutant(Clients.RING_TRAVEL)
def settled_after_the_climb(patch: Patch) -> None:
    """Half of the rounds: events have climbed, and not come down."""
    ready = RingSettling.tree_ready

    def half(self: RingSettling, version: str, peers: list[BrokerId], past: bool) -> None:
        ready(self, version, peers, past)
        self.rounds = lambda: 0

    patch.setattr(RingSettling, "tree_ready", half)


@mutant(Clients.RING_MQTT)
def roots_are_not_waited_for(patch: Patch) -> None:
    """SUBACK leaves when the agreed tree has answered, whatever the trees of events know."""
    patch.setattr(Flushes, "climb", lambda self, slots, then: then())


@mutant(Clients.RING)
def positions_are_not_in_the_name(patch: Patch) -> None:
    """Two families have one name."""

    def nameless(states: Iterable[LinkState], positions: Stamp | None = None) -> str:
        return name_of(states)

    patch.setattr(membership, "name_of", nameless)
