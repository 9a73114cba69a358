"""Where a client goes next, by where it was before: for those of whom no movement model knows.

A session remembers the last places of its client, and takes them along. What followed on the last two places counts
most; what followed on the last one, and then how often each place was visited at all, fill in where less is known
(Jelinek and Mercer's interpolation, with one count for the more general answer). Two visits elsewhere are added to
those that were seen, so that a single move is no habit.
"""

from __future__ import annotations

from collections import Counter

from latecomer.core.session.state import Session
from latecomer.model.ids import BrokerId
from latecomer.model.movement import Guess

PLACES_MAX = 16
"""How many places a session remembers."""
ELSEWHERE = 2


def remember(session: Session, place: BrokerId) -> bool:
    """The client is connected to this broker; whether that is another one than before."""
    if not session.durable or session.places[-1:] == (place,):
        return False
    session.places = (*session.places, place)[-PLACES_MAX:]
    return True


def likely_after(places: tuple[BrokerId, ...], limit: int) -> tuple[Guess, ...]:
    """The likeliest places that come next, likeliest first."""
    here = places[-1:]
    visits = Counter(place for place in places if (place,) != here)
    total = sum(visits.values()) + ELSEWHERE
    chance = {place: count / total for place, count in visits.items()}
    for order in (1, 2):
        behind = Counter(
            places[at] for at in range(order, len(places)) if places[at - order : at] == places[-order:] and order <= at
        )
        seen = sum(behind.values())
        chance = {place: (behind[place] + value) / (seen + 1) for place, value in chance.items()}
    ranked = sorted((-value, place) for place, value in chance.items())
    return tuple(Guess(place, -value) for value, place in ranked[:limit])
