"""Hand-overs, deliberately broken: one function per planted bug."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from latecomer.core import orders
from latecomer.core.effects import Effect, Persist, Put
from latecomer.core.mobility import (
    arrival,
    asked,
    copies,
    departure,
    doubts,
    leftovers,
    mobility,
    rows,
    shadows,
    whereabouts,
)
from latecomer.core.session import state
from latecomer.messages.hand_over import Grant

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTANTS[plant.__name__] = plant
    return plant


# -- the old broker ----------------------------------------------------------------------------------------------------


@mutant
def unsubscribes_before_the_other_has_subscribed(patch: Patch) -> None:
    """The old broker leaves the session's subscriptions as soon as it is asked for them."""
    right = departure.Departures.standing

    def standing(self: departure.Departures, session: Any, ask: Any) -> None:
        right(self, session, ask)
        self.events.clients.receivers[session.client] = lambda event, hops: None

    patch.setattr(departure.Departures, "standing", standing)


@mutant
def stops_collecting_at_the_cut(patch: Patch) -> None:
    """What comes behind the cut is not kept by the old broker, although the other one may never take the session."""
    right = departure.Departures._cut

    def cut(self: departure.Departures, leaving: departure.Departure) -> None:
        right(self, leaving)
        self.events.clients.receivers[leaving.session.client] = lambda event, hops: None

    patch.setattr(departure.Departures, "_cut", cut)


@mutant
def cut_without_own_numbers(patch: Patch) -> None:
    """What the old broker's own publishers sent is not in the cut."""
    right = departure.Departures._cut

    def cut(self: departure.Departures, leaving: departure.Departure) -> None:
        right(self, leaving)
        leaving.cut = tuple(entry for entry in leaving.cut if entry[0] != self.broker)

    patch.setattr(departure.Departures, "_cut", cut)


@mutant
def grants_before_publications_are_done(patch: Patch) -> None:
    """The client may publish at its new broker while what it published at the old one is under way."""
    patch.setattr(departure.Departures, "_unfinished", lambda self, leaving: False)


def _without(table: str, right: Callable[..., None]) -> Callable[..., None]:
    def method(self: Any, *arguments: Any) -> None:
        before = len(self.orders.writes)
        right(self, *arguments)
        kept = [w for w in self.orders.writes[before:] if type(w) is not Put or w.table != table]
        self.orders.writes[before:] = kept

    return method


@mutant
def promises_are_not_written(patch: Patch) -> None:
    """After a restart the old broker serves a session that it has promised."""
    patch.setattr(departure.Departures, "_promise", _without("promised", departure.Departures._promise))


@mutant
def promises_end_with_the_tree(patch: Patch) -> None:
    """The old broker takes a promised session back when it cannot reach the other one."""
    right = departure.Departures.tree_lost

    def tree_lost(self: departure.Departures) -> None:
        for client in list(self.promises):
            self.release(client)
        right(self)

    patch.setattr(departure.Departures, "tree_lost", tree_lost)


@mutant
def grants_with_the_first_page(patch: Patch) -> None:
    """The rest of the rows does not travel."""
    right = departure.Departures._advance

    def advance(self: departure.Departures, leaving: departure.Departure) -> None:
        right(self, leaving)
        if leaving.pages and leaving.pager is not None and not leaving.pager.empty:
            self._promise(leaving)

    patch.setattr(departure.Departures, "_advance", advance)
    patch.setattr(rows, "PAGE_ROWS", 1)
    patch.setattr(arrival, "CREDIT", 1)


@mutant
def wills_are_not_suspended(patch: Patch) -> None:
    """A will that falls due while its client waits elsewhere is published."""
    right = departure.Departures.standing

    def standing(self: departure.Departures, session: Any, ask: Any) -> None:
        right(self, session, ask)
        session.suspended = False

    patch.setattr(departure.Departures, "standing", standing)


@mutant
def users_are_not_compared(patch: Patch) -> None:
    """Another user gets the session."""
    right = asked.Asked.on_ask

    def on_ask(self: asked.Asked, frame: Any) -> None:
        session = self.sessions.by_client.get(frame.client)
        right(self, frame if session is None else replace(frame, user=session.user))

    patch.setattr(asked.Asked, "on_ask", on_ask)
    answer = asked.Asked.answer

    def answer_all(self: asked.Asked, asker: str, seeker: Any) -> None:
        session = self.sessions.by_client.get(seeker.client)
        answer(self, asker, seeker if session is None else replace(seeker, user=session.user))

    patch.setattr(asked.Asked, "answer", answer_all)


# -- what travels ------------------------------------------------------------------------------------------------------


@mutant
def packet_ids_stay_behind(patch: Patch) -> None:
    """A QoS 2 publication that the client repeats at its new broker enters the network again."""
    right = rows.Pager.__post_init__

    def without(self: rows.Pager) -> None:
        right(self)
        self.others = type(self.others)(row for row in self.others if row.table != "incoming")

    patch.setattr(rows.Pager, "__post_init__", without)


@mutant
def queue_stays_behind(patch: Patch) -> None:
    """What waited for the client does not travel."""
    right = rows.Pager.__post_init__

    def without(self: rows.Pager) -> None:
        right(self)
        self.numbers.clear()

    patch.setattr(rows.Pager, "__post_init__", without)


@mutant
def numbers_begin_anew(patch: Patch) -> None:
    """The new broker numbers its deliveries from 1: those that came with the session are written over."""
    right = mobility.Mobility.take

    def take(self: mobility.Mobility, coming: Any, grant: Grant) -> None:
        right(self, coming, grant)
        session = self.sessions.by_client.get(coming.client)
        if session is not None:
            session.number = 0

    patch.setattr(mobility.Mobility, "take", take)


@mutant
def nobody_knows_what_was_sent(patch: Patch) -> None:
    """The row says that nothing was sent yet: repetitions are not marked."""
    right = rows.encode_row
    patch.setattr(departure, "encode_row", lambda row: right(replace(row, sent=0)))


@mutant
def times_travel_as_if_the_client_had_just_left(patch: Patch) -> None:
    """The session's expiry begins anew with every move."""
    right = arrival.Arrivals.on_standing

    def on_standing(self: arrival.Arrivals, frame: Any) -> None:
        right(self, replace(frame, away_us=0))

    patch.setattr(arrival.Arrivals, "on_standing", on_standing)


# -- the new broker ----------------------------------------------------------------------------------------------------


@mutant
def asks_before_its_own_events_have_left(patch: Patch) -> None:
    """The question overtakes what the new broker's own publishers sent before it subscribed."""

    def ask(self: arrival.Arrivals, coming: arrival.Arrival) -> None:
        if self.settling.settled:
            coming.asked = True
            self._send(coming, state=True)

    patch.setattr(arrival.Arrivals, "_ask_for_state", ask)


@mutant
def asks_before_the_tree_has_settled(patch: Patch) -> None:
    """What the new broker was owed in this tree arrives after it subscribed, and is delivered as if it were new. (That
    the old broker waits too changes nothing: what was owed to it is ahead of a question that was asked then.)"""

    def ask(self: arrival.Arrivals, coming: arrival.Arrival) -> None:
        if self.events.outbox.sent >= coming.sent:
            coming.asked = True
            self._send(coming, state=True)

    patch.setattr(arrival.Arrivals, "_ask_for_state", ask)


@mutant
def held_events_are_dropped(patch: Patch) -> None:
    """What came while the session was on its way is forgotten."""
    patch.setattr(arrival.Arrivals, "_hold", lambda self, coming, event, hops: None)


@mutant
def held_events_are_not_compared_with_the_cut(patch: Patch) -> None:
    """What came while the session was on its way is delivered also if the rows account for it."""
    right = mobility.Mobility.take

    def take(self: mobility.Mobility, coming: Any, grant: Grant) -> None:
        right(self, coming, replace(grant, cut=()))

    patch.setattr(mobility.Mobility, "take", take)


@mutant
def cut_is_forgotten_after_the_take(patch: Patch) -> None:
    """What an origin sends again after the session has come is delivered again."""
    right = mobility.Mobility.take

    def take(self: mobility.Mobility, coming: Any, grant: Grant) -> None:
        right(self, coming, grant)
        session = self.sessions.by_client.get(coming.client)
        if session is not None:
            session.cut.clear()

    patch.setattr(mobility.Mobility, "take", take)


@mutant
def says_taken_before_the_disk(patch: Patch) -> None:
    """The old broker erases a session that the new one may lose in a crash."""

    def finish(self: orders.Orders) -> list[Effect]:
        effects = right(self)
        writes = [
            e for e in effects if type(e) is Persist and any(getattr(w, "table", "") == "taken" for w in e.writes)
        ]
        return [e for e in effects if e not in writes] + writes

    right = orders.Orders.finish
    patch.setattr(orders.Orders, "finish", finish)


@mutant
def arriving_rows_are_ours_after_a_restart(patch: Patch) -> None:
    """The marker of a session that is on its way is not erased with its rows."""
    patch.setattr(arrival.Arrivals, "_give_back", _leaves_the_marker(arrival.Arrivals._give_back))


def _leaves_the_marker(right: Callable[..., None]) -> Callable[..., None]:
    def give_back(self: Any, coming: Any) -> None:
        before = len(self.orders.writes)
        right(self, coming)
        self.orders.writes[before:] = [w for w in self.orders.writes[before:] if getattr(w, "table", "") != "arriving"]

    return give_back


@mutant
def absent_brokers_are_forgotten(patch: Patch) -> None:
    """A session that began while others were away is not compared with what they have."""
    patch.setattr(doubts.Doubts, "began", lambda self, session, *, asked: None)


@mutant
def doubts_do_not_travel(patch: Patch) -> None:
    """A session that is compared with another one later leaves that behind when it moves."""
    right = arrival.Arrivals.on_standing

    def on_standing(self: arrival.Arrivals, frame: Any) -> None:
        right(self, replace(frame, unsure=()))

    patch.setattr(arrival.Arrivals, "on_standing", on_standing)


@mutant
def nobody_is_asked(patch: Patch) -> None:
    """A client whose session is elsewhere gets a new one at once."""
    patch.setattr(mobility.Mobility, "holds_up", lambda self, fact, client: False)


# -- copies at several brokers -----------------------------------------------------------------------------------------


@mutant
def shadow_kept_after_lost(patch: Patch) -> None:
    """A broker keeps its copy although the owner has said that it is void."""
    patch.setattr(shadows.Shadows, "on_lost", lambda self, frame: None)


@mutant
def shadow_not_compared_with_the_stamp(patch: Patch) -> None:
    """A copy of an earlier stay of the client counts: what the client has settled since comes again."""
    patch.setattr(copies.Copy, "holds", property(lambda self: self.complete))
    patch.setattr(copies.Copies, "came_back", lambda self, session: None)


@mutant
def shadow_rows_are_taken_as_complete(patch: Patch) -> None:
    """The first page of rows counts as all of them."""
    right = copies.Copies._advance

    def advance(self: copies.Copies, copy: copies.Copy) -> None:
        before, copy.credit = copy.credit, min(copy.credit, 1)
        right(self, copy)
        copy.credit = before
        if copy.pager is not None and copy.pages:
            copy.complete = True
            copy.pager.numbers.clear()

    def on_rows(self: shadows.Shadows, frame: Any) -> None:
        first_page(self, replace(frame, complete=True))

    first_page = shadows.Shadows.on_rows
    patch.setattr(copies.Copies, "_advance", advance)
    patch.setattr(shadows.Shadows, "on_rows", on_rows)
    patch.setattr(copies.Copy, "holds", property(lambda self: self.complete))


@mutant
def shadow_is_granted_with_another_cut(patch: Patch) -> None:
    """The grant accounts for events that came to the owner after the rows of the copy had gone."""
    right = departure.Departures._go_on_from

    def go_on_from(self: departure.Departures, leaving: departure.Departure, copy: copies.Copy) -> None:
        copy.cut = copies.cut_of(self.broker, self.events, copy.session)
        right(self, leaving, copy)

    patch.setattr(departure.Departures, "_go_on_from", go_on_from)


@mutant
def shadow_asks_before_events_have_left(patch: Patch) -> None:
    """The rows of a copy are asked for while events of this broker's own publishers are ahead of the subscription."""

    def want(self: shadows.Shadows, shadow: shadows.Shadow) -> None:
        shadow.sent = 0
        right(self, shadow)

    right = shadows.Shadows._want
    patch.setattr(shadows.Shadows, "_want", want)


# -- where sessions are ------------------------------------------------------------------------------------------------


@mutant
def sessions_are_not_told_again_after_a_restart(patch: Patch) -> None:
    """A broker that starts on its disk tells its keepers of no session."""
    right = whereabouts.Directory.recover

    def recover(self: whereabouts.Directory, disk: Any) -> None:
        members, told = self.members, self.told
        right(self, disk)
        self.members, self.told = members, told

    patch.setattr(whereabouts.Directory, "recover", recover)


# -- leftovers ---------------------------------------------------------------------------------------------------------


@mutant
def leftovers_are_not_compared_by_id(patch: Patch) -> None:
    """What the new session was given comes again from the old one."""
    right = leftovers.LeftoverKeeper._deliver

    def deliver(self: leftovers.LeftoverKeeper, session: Any, parcel: Any) -> None:
        session.given.ids.pop(parcel.event.id, None)
        right(self, session, parcel)

    patch.setattr(leftovers.LeftoverKeeper, "_deliver", deliver)


@mutant
def leftovers_are_not_marked(patch: Patch) -> None:
    """What comes late looks like anything else."""
    right = state.Parcel
    patch.setattr(leftovers, "Parcel", _Unmarked(right))


class _Unmarked(type):
    """Makes deliveries without the mark, and is told from other values like the type it stands for."""

    def __new__(cls, right: Any) -> Any:
        def make(*arguments: Any, late: bool = False) -> Any:
            return right(*arguments)

        return type.__new__(cls, "Parcel", (), {"make": staticmethod(make), "right": right})

    def __init__(cls, right: Any) -> None: ...

    def __call__(cls, *arguments: Any, **words: Any) -> Any:
        return cls.make(*arguments, **words)  # type: ignore[attr-defined]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.right)  # type: ignore[attr-defined]


@mutant
def leftovers_are_erased_before_they_are_safe(patch: Patch) -> None:
    """The old broker forgets a page when it sends it."""
    right = leftovers.LeftoverKeeper._next

    def following(self: leftovers.LeftoverKeeper, client: str, kept: Any, safe: int) -> Any:
        page = right(self, client, kept, safe)
        for row in page:
            self._drop(client, kept, int(row.key))
        return page

    patch.setattr(leftovers.LeftoverKeeper, "_next", following)
