"""Re-homing, deliberately broken: one function per planted bug. Each must be caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from latecomer.core.homes import homes, moving, profiles
from latecomer.core.session.state import Session
from latecomer.messages.homes import Profile

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTANTS[plant.__name__] = plant
    return plant


def _waits(patch: Patch, wrong: Callable[[Session, int], str]) -> None:
    patch.setattr(moving, "waits_too_little", wrong)


@mutant
def wills_are_not_looked_at(patch: Patch) -> None:
    """Who has a will is sent like anybody, and the end of the connection publishes it."""
    right = moving.waits_too_little

    def blind(session: Session, away_us: int) -> str:
        will, session.will = session.will, None
        try:
            return right(session, away_us)
        finally:
            session.will = will

    _waits(patch, blind)


@mutant
def any_delay_of_a_will_is_enough(patch: Patch) -> None:
    """A will that waits a moment is taken for one that waits long enough."""
    right = moving.waits_too_little

    def hopeful(session: Session, away_us: int) -> str:
        will = session.will
        if will is not None and will.properties.will_delay_s:
            session.will = None
        try:
            return right(session, away_us)
        finally:
            session.will = will

    _waits(patch, hopeful)


@mutant
def brief_sessions_are_sent(patch: Patch) -> None:
    """How long the session of a client waits for it is not looked at."""
    right = moving.waits_too_little

    def hopeful(session: Session, away_us: int) -> str:
        return right(session, min(away_us, session.expiry_s * 1_000_000))

    _waits(patch, hopeful)


@mutant
def sessions_end_when_their_clients_are_sent(patch: Patch) -> None:
    """The broker ends the session instead of letting it go ahead."""
    right = homes.Homes._send

    def send(self: homes.Homes, session: Session, one: homes.Proposed) -> bool:
        sent = right(self, session, one)
        if sent and self.sessions.by_client.get(session.client) is session:
            self.sessions.end_by(session, "sent on")
        return sent

    patch.setattr(homes.Homes, "_send", send)


@mutant
def everybody_is_sent(patch: Patch) -> None:
    """Also clients that do not follow references."""
    right = homes.Homes.problem_of

    def problem_of(self: homes.Homes, session: Session, to: str) -> str:
        problem = right(self, session, to)
        return "" if problem == "it does not say that it follows references" else problem

    patch.setattr(homes.Homes, "problem_of", problem_of)


@mutant
def nobody_rests(patch: Patch) -> None:
    """Who was sent, or came, may be sent again at once."""

    def rest(self: homes.Homes, client: str) -> None:
        return

    patch.setattr(homes.Homes, "_rest", rest)
    patch.setattr(homes, "NEW_UPDATES", 0)


@mutant
def words_are_not_limited(patch: Patch) -> None:
    """A broker tells of all filters of its clients, whatever its settings say."""
    right = profiles.Profiles.gather

    def gather(self: profiles.Profiles) -> Any:
        self.filters_max = 1_000_000
        return right(self)

    patch.setattr(profiles.Profiles, "gather", gather)


@mutant
def removals_are_overlooked(patch: Patch) -> None:
    """What a broker's clients do not want any more is not taken out of its word."""
    right = profiles.Profiles.on_profile

    def on_profile(self: profiles.Profiles, peer: str, word: Profile) -> None:
        right(self, peer, replace(word, removed=()) if word.to == self.broker else word)

    patch.setattr(profiles.Profiles, "on_profile", on_profile)


@mutant
def a_word_is_added_to_the_one_before(patch: Patch) -> None:
    """A word that stands for itself is taken for a difference."""
    right = profiles.Profiles.on_profile

    def on_profile(self: profiles.Profiles, peer: str, word: Profile) -> None:
        before = self.known.get(word.from_broker)
        kept = dict(before.numbers) if before is not None and not word.base else {}
        right(self, peer, word)
        after = self.known.get(word.from_broker)
        if after is not None and after is not before:
            after.numbers.update(kept)

    patch.setattr(profiles.Profiles, "on_profile", on_profile)
