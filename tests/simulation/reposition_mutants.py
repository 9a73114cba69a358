"""Re-positioning, deliberately broken: one function per planted bug. Each must be caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from latecomer.core.effects import Put
from latecomer.core.reposition import reposition, word
from latecomer.core.reposition.states import MOVER, Fact, Moving
from latecomer.core.tree import Tree
from latecomer.messages.reposition import Positions

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTANTS[plant.__name__] = plant
    return plant


@mutant
def positions_are_told_before_they_are_written(patch: Patch) -> None:
    """A broker writes its positions when it takes the next ones."""
    take = word.PositionsWord.take

    def late(self: word.PositionsWord, positions: Positions, told_by: str = "") -> bool:
        before = self.known
        taken = take(self, positions, told_by)
        if taken:
            written = self.orders.writes.pop(
                next(
                    at
                    for at, write in enumerate(self.orders.writes)
                    if isinstance(write, Put) and write.table == "positions"
                )
            )
            assert isinstance(written, Put)
            if before.stamp.epoch:
                self.orders.writes.append(Put("positions", "", "", before))
        return taken

    patch.setattr(word.PositionsWord, "take", late)


@mutant
def the_last_heard_wins(patch: Patch) -> None:
    """Whatever comes in is taken, older or not; each once, or two would tell one another theirs for ever."""
    take, taken = word.PositionsWord.take, set[tuple[int, Positions]]()

    def gullible(self: word.PositionsWord, positions: Positions, told_by: str = "") -> bool:
        if positions.stamp < self.stamp and (id(self), positions) not in taken:
            taken.add((id(self), positions))
            self.known = word.NO_POSITIONS
        return take(self, positions, told_by)

    patch.setattr(word.PositionsWord, "take", gullible)


@mutant
def the_first_heard_wins(patch: Patch) -> None:
    """Who has positions takes no others from a neighbour."""
    take = word.PositionsWord.take

    def stubborn(self: word.PositionsWord, positions: Positions, told_by: str = "") -> bool:
        if told_by and self.stamp.epoch:
            return False
        return take(self, positions, told_by)

    patch.setattr(word.PositionsWord, "take", stubborn)


@mutant
def stale_proposals_are_applied(patch: Patch) -> None:
    """A proposal goes on although other positions came in force since it was made."""
    patch.setattr(reposition.Reposition, "_fits", lambda self, proposal: True)

    def positions_changed(self: reposition.Reposition) -> None:
        return

    patch.setattr(reposition.Reposition, "positions_changed", positions_changed)


@mutant
def a_stamp_is_used_twice(patch: Patch) -> None:
    """Stamps do not tell the lives and proposals of a broker apart."""
    want = reposition.Reposition.want

    def repeating(self: reposition.Reposition, places: dict[str, int]) -> None:
        heard, self.heard = self.heard, self.word.stamp
        want(self, places)
        if self.own is None:
            self.heard = heard

    patch.setattr(reposition.Reposition, "want", repeating)


@mutant
def a_dead_proposer_is_waited_for(patch: Patch) -> None:
    """A broker stays ready for the proposal of one that is gone."""

    def adopted(self: reposition.Reposition, tree: Tree) -> None:
        return

    patch.setattr(reposition.Reposition, "adopted", adopted)
    patch.setattr(reposition.Reposition, "woken", lambda self: None)
    patch.setattr(reposition.Reposition, "dues", lambda self: ())


@mutant
def positions_are_not_told_at_the_start_of_a_link(patch: Patch) -> None:
    """Who was away does not hear of what came in force meanwhile."""

    def greet(self: word.PositionsWord, peer: str) -> None:
        return

    patch.setattr(word.PositionsWord, "greet", greet)


@mutant
def an_answer_is_lost_with_its_tree(patch: Patch) -> None:
    """Brokers do not say again in another tree that they are ready, and nobody looks at the time."""
    patch.delitem(MOVER, (Moving.PREPARED, Fact.TREE_READY))
    patch.setattr(reposition.Reposition, "dues", lambda self: ())
    patch.setattr(reposition.Reposition, "woken", lambda self: None)
    patch.setattr(reposition.Reposition, "dues", lambda self: ())
