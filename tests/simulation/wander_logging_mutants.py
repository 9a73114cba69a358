"""Recent logs and subscriptions on the device, deliberately broken: one function per planted bug."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latecomer.core.mobility import arrival, departure, outlines, recent, rows
from latecomer.core.session.state import Parcel
from latecomer.model.ids import EventId

Patch = pytest.MonkeyPatch
LOGGING_MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
    LOGGING_MUTANTS[plant.__name__] = plant
    return plant


# -- the recent log ----------------------------------------------------------------------------------------------------


@mutant
def log_answers_with_another_event(patch: Patch) -> None:
    """What is asked for by number is answered with the newest event of the same origin."""

    def get(self: recent.RecentLog, id: EventId) -> Any:
        return next((event for event in reversed(self.events.values()) if event.id.origin == id.origin), None)

    patch.setattr(recent.RecentLog, "get", get)


@mutant
def what_the_log_lacks_is_not_asked_for(patch: Patch) -> None:
    """The new broker builds what it can, and says that this was all."""
    patch.setattr(arrival, "fill", lambda *arguments: (outlines.fill(*arguments)[0], []))


@mutant
def grants_before_the_outlines_are_answered(patch: Patch) -> None:
    """The old broker promises the session although the other one may lack what was outlined."""
    patch.setattr(rows.Pager, "unanswered", property(lambda self: False))


@mutant
def lacking_deliveries_are_outlined_again(patch: Patch) -> None:
    """What the new broker lacks is never sent whole: it waits for ever."""
    right = outlines.Outliner.answered

    def answered(self: outlines.Outliner, page: int, lacking: Any) -> list[int]:
        again = right(self, page, lacking)
        self.whole.clear()
        return again

    patch.setattr(outlines.Outliner, "answered", answered)


@mutant
def numbers_of_an_outline_are_off_by_one(patch: Patch) -> None:
    """Of a stretch, the second event is taken for the first."""
    right = outlines.Stretch

    def stretch(number: int, seq: int, count: int = 1, left_us: int = 0) -> outlines.Stretch:
        return right(number, seq + (count > 1), count, left_us)

    patch.setattr(outlines, "Stretch", stretch)


@mutant
def outlines_are_not_compared_with_the_queue(patch: Patch) -> None:
    """The old broker takes for granted that every delivery follows from its event and the subscriptions; what it was
    given as a member of a group, or as a retained message, does not. The log keeps what was for groups, too."""

    def takes(self: outlines.Outliner, number: int, parcel: Any, left_us: int) -> bool:
        if parcel is None or number in self.whole:
            return False
        self.entries.append((number, parcel.event.id, left_us))
        self.unanswered[number] = self.page
        return True

    patch.setattr(outlines.Outliner, "takes", takes)
    patch.setattr(outlines, "build", lambda session, event: Parcel(event, 1))


# -- subscriptions on the device ---------------------------------------------------------------------------------------


@mutant
def digests_are_not_compared(patch: Patch) -> None:
    """The old broker takes the client's word for what its session is subscribed to."""
    right = departure.Departures.standing

    def standing(self: departure.Departures, session: Any, ask: Any) -> None:
        with Patch.context() as inner:
            inner.setattr(departure, "digest_of", lambda subscriptions: ask.digest)
            right(self, session, ask)

    patch.setattr(departure.Departures, "standing", standing)


@mutant
def what_the_client_said_wrongly_stays_subscribed(patch: Patch) -> None:
    """The new broker subscribes to what the old one says as well."""
    right = arrival.Arrivals.on_standing

    def on_standing(self: arrival.Arrivals, frame: Any) -> None:
        coming = self.of(frame.attempt, frame.client)
        before = [] if coming is None or coming.session is None else list(coming.session.subscriptions.values())
        right(self, frame)
        if coming is not None and coming.session is not None and not frame.known:
            for subscription in before:
                self.subscribing.enter(coming.session, subscription)

    patch.setattr(arrival.Arrivals, "on_standing", on_standing)


@mutant
def asks_at_once_whatever_has_not_left(patch: Patch) -> None:
    """With subscriptions that its client brought, the new broker asks for the state before what its own publishers sent
    has left, and before the tree has settled."""
    patch.setattr(arrival.Arrivals, "_may_ask_at_once", lambda self, coming: True)
