"""Stores and late subscribers, deliberately broken: one function per planted bug. The checkers must notice every one of
them (P12)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from latecomer.core import advertisements, carriage, replicas, retrieval, settling, store
from latecomer.core.mobility import rows
from latecomer.core.session import holding, past, recall
from latecomer.model.history import Key
from latecomer.sim import node

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, Callable[[Patch], None]] = {}
STORIES: dict[str, str] = {"forward_on_equal": "storing_walkthrough"}
"""Mutants that break no promise and are told from the papers' rule by a story alone."""


def mutant(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTANTS[plant.__name__] = plant
    return plant


# -- Advertisement Tables ----------------------------------------------------------------------------------------------


@mutant
def forward_on_equal(patch: Patch) -> None:
    """A broker tells of a store also those who have one that is as near."""
    right = advertisements.Advertisements._tell

    def tell(self: advertisements.Advertisements, peer: str, topics: Any) -> None:
        table = self.table
        self.table = {}
        right(self, peer, topics)
        self.table = table

    patch.setattr(advertisements.Advertisements, "_tell", tell)


@mutant
def equal_takes_the_place(patch: Patch) -> None:
    """Of several nearest stores only one is known."""
    right = advertisements.Advertisements._refresh

    def refresh(self: advertisements.Advertisements, topics: list[str]) -> list[str]:
        found = right(self, topics)
        for name, entry in self.table.items():
            self.table[name] = advertisements.Nearest(entry.hops, entry.ways[:1])
        return found

    patch.setattr(advertisements.Advertisements, "_refresh", refresh)


@mutant
def forget_withdrawal(patch: Patch) -> None:
    """A store that is gone stays in the tables of others."""
    patch.setattr(advertisements.Advertisements, "on_withdraw", lambda self, peer, frame: None)


@mutant
def the_next_nearest_is_forgotten(patch: Patch) -> None:
    """What is further is not remembered, as in the papers: when the nearest store goes, nobody is known."""
    right = advertisements.Advertisements._heard

    def heard(self: advertisements.Advertisements, peer: str, topics: list[str]) -> None:
        right(self, peer, topics)
        for name in topics:
            if peer not in self.table[name].ways:
                del self.heard[peer][name]

    patch.setattr(advertisements.Advertisements, "_heard", heard)


@mutant
def tables_outlive_their_tree(patch: Patch) -> None:
    """Another tree begins with what was told in the one before."""
    right = advertisements.Advertisements.adopt

    def adopt(self: advertisements.Advertisements, peers: list[str], size: int) -> None:
        before = [peer for peer in self.speaking if peer in self.heard]
        right(self, list(dict.fromkeys((*peers, *before))), size)
        self.speaking.update(dict.fromkeys(before))

    patch.setattr(advertisements.Advertisements, "adopt", adopt)


# -- requests and responses --------------------------------------------------------------------------------------------


@mutant
def stores_answer_at_once(patch: Patch) -> None:
    """A store does not wait until what was published before the tree has arrived (`Settled` is ignored)."""
    patch.setattr(settling.Settling, "settled", property(lambda self: bool(self.version)))


@mutant
def resumes_one_too_far(patch: Patch) -> None:
    """An interrupted answer goes on behind the event after the last one received."""
    _resume_elsewhere(
        patch, lambda frame: msgspec.structs.replace(frame, events=frame.events[1:], left_us=frame.left_us[1:])
    )


def _resume_elsewhere(patch: Patch, change: Callable[[Any], Any]) -> None:
    begin, on_response = retrieval.Retrieval._begin, retrieval.Retrieval.on_response
    resumed: dict[Any, None] = {}

    def begin_again(self: retrieval.Retrieval, inquiry: Any) -> None:
        before = dict(self.parts)
        begin(self, inquiry)
        if inquiry.place is not None and inquiry.place != inquiry.query.after:
            resumed.update({id: None for id in self.parts if id not in before})

    def respond(self: retrieval.Retrieval, frame: Any, *rest: Any) -> None:
        on_response(self, change(frame) if resumed.pop(frame.id, 0) is None else frame, *rest)

    patch.setattr(retrieval.Retrieval, "_begin", begin_again)
    patch.setattr(retrieval.Retrieval, "on_response", respond)


@mutant
def resumes_one_too_early(patch: Patch) -> None:
    """An interrupted answer goes on with the last event received."""
    right = retrieval.Retrieval._begin

    def begin(self: retrieval.Retrieval, inquiry: Any) -> None:
        place = inquiry.place
        if place is not None and place != inquiry.query.after:
            inquiry.place = Key(place.published_us, place.origin, place.epoch, place.seq - 1)
        right(self, inquiry)

    patch.setattr(retrieval.Retrieval, "_begin", begin)


@mutant
def credit_is_ignored(patch: Patch) -> None:
    """A store sends as fast as it can."""
    right = store.Store._look

    def look(self: store.Store, stream: Any) -> None:
        stream.credit = stream.sent + 1
        right(self, stream)

    patch.setattr(store.Store, "_look", look)


@mutant
def credit_is_not_given(patch: Patch) -> None:
    """Whoever asks never asks for more."""
    patch.setattr(retrieval.Retrieval, "_grant", lambda self, part: None)


@mutant
def old_answers_count(patch: Patch) -> None:
    """What was asked in a tree that is gone is still answered, and taken."""
    patch.setattr(carriage.Carriage, "_current", lambda self, peer: self.interest.tree is not None)
    patch.setattr(store.Store, "tree_lost", lambda self: None)
    patch.setattr(retrieval.Retrieval, "tree_lost", lambda self: None)


@mutant
def two_classes_give_it_twice(patch: Patch) -> None:
    """An event that two topic classes hold comes for each of them."""
    right = retrieval.Retrieval._merged

    def merged(self: retrieval.Retrieval, inquiry: Any) -> Any:
        if len(inquiry.parts) < 2:
            return right(self, inquiry)
        before, inquiry.place = inquiry.place, None
        events = []
        for part in inquiry.parts:
            if all(other.done for other in inquiry.parts):
                events += [event for _, event in part.waiting]
                part.waiting.clear()
            part.responses.clear()
            self._grant(part)
        inquiry.place = before
        return sorted(events, key=lambda event: (event.published_us, event.id))

    patch.setattr(retrieval.Retrieval, "_merged", merged)


# -- stores ------------------------------------------------------------------------------------------------------------


@mutant
def appended_after_the_rest(patch: Patch) -> None:
    """What is to be kept becomes safe after what says that it is."""
    patch.setattr(node.Node, "tear", lambda self, random: self.disk.put(self.under_way))


@mutant
def new_stores_claim_the_past(patch: Patch) -> None:
    """A store says that it has everything since the beginning of time."""
    right = store.Store._keep_row
    patch.setattr(
        store.Store, "_keep_row", lambda self, name, row: right(self, name, msgspec.structs.replace(row, since_us=1))
    )


@mutant
def trimmed_stores_claim_the_past(patch: Patch) -> None:
    """A store does not say that it has let go of something."""
    patch.setattr(store.Store, "on_trimmed", lambda self, fact: None)


@mutant
def replicas_do_not_fetch(patch: Patch) -> None:
    """Stores compare what they have, and leave it at that."""

    def fetch(self: replicas.Replicas, task: Any, since_us: int, until_us: int) -> None:
        self._advance(task)

    patch.setattr(replicas.Replicas, "_fetch", fetch)


# -- the seam ----------------------------------------------------------------------------------------------------------


@mutant
def a_new_class_is_not_filled(patch: Patch) -> None:
    """A store that is to keep another class takes the word of the others for what it has."""
    patch.setattr(replicas.Replicas, "_tasks", lambda self, full: [])


@mutant
def live_is_not_held(patch: Patch) -> None:
    """Live events do not wait for history."""
    patch.setattr(
        holding.Holding, "take", lambda self, session, event, hops: self.deliveries.take(session, event, hops)
    )


@mutant
def held_and_given(patch: Patch) -> None:
    """What history gave is not taken out of what is held, nor recognised when it comes."""
    put, let_go = past.Past.put, past.Past.let_go

    def put_nameless(self: past.Past, number: int, item: Any) -> None:
        put(self, number, item)
        self.by_id.pop(item.event.id, None)

    def find(self: past.Past, number: int) -> Any:
        self.by_id[self.held[number].event.id] = number
        return let_go(self, number)

    patch.setattr(past.Past, "was_given", lambda self, event, recalls: False)
    patch.setattr(past.Past, "put", put_nameless)
    patch.setattr(past.Past, "let_go", find)


@mutant
def marker_before_the_last_batch(patch: Patch) -> None:
    """History is said to be over when the stores have said so, not when the client has it."""
    on_end, advance = retrieval.Retrieval.on_end, recall.Recalls._advance

    def end_early(self: retrieval.Retrieval, frame: Any, *rest: Any) -> None:
        inquiry = self.parts.get(frame.id)
        on_end(self, frame, *rest)
        if inquiry is not None and inquiry.busy and all(part.done and not part.waiting for part in inquiry.parts):
            self._finish(inquiry)

    def mark_first(self: recall.Recalls, session: Any, past: Any, one: Any, share: int) -> int:
        if one.ended is not None and one.batches and one.missing is None:
            batches, one.batches = one.batches, deque()
            self._finish_round(session, past, one)
            for batch in batches:
                for event in batch:
                    self._replay(session, past, one, event)
        return advance(self, session, past, one, share)

    patch.setattr(retrieval.Retrieval, "on_end", end_early)
    patch.setattr(recall.Recalls, "_advance", mark_first)


@mutant
def no_marker(patch: Patch) -> None:
    """Nobody is told where history ends."""

    def mark(self: recall.Recalls, session: Any, past: Any, one: Any) -> None:
        self._over(session, one)
        self.holding.sort(session, past)

    patch.setattr(recall.Recalls, "_mark", mark)


@mutant
def released_in_the_wrong_order(patch: Patch) -> None:
    """What was held comes newest first."""
    right = holding.Holding.sort

    def sort(self: holding.Holding, session: Any, past: Any) -> None:
        right(self, session, past)
        past.releasable.reverse()

    patch.setattr(holding.Holding, "sort", sort)


@mutant
def recalls_are_not_kept(patch: Patch) -> None:
    """A broker that crashes does not know how far it was with somebody's history."""
    patch.setattr(holding.Holding, "write", lambda self, session, past: None)


@mutant
def the_gap_is_forgotten(patch: Patch) -> None:
    """What was let go of for want of room is not asked for."""
    right = recall.Recalls._finish_round

    def finish(self: recall.Recalls, session: Any, past: Any, one: Any) -> bool:
        one.missing = None
        return right(self, session, past, one)

    patch.setattr(recall.Recalls, "_finish_round", finish)


@mutant
def whoever_comes_back_gets_no_more(patch: Patch) -> None:
    """History ends with the connection."""
    patch.setattr(recall.Recalls, "resume", lambda self, session: None)


# -- histories that move -----------------------------------------------------------------------------------------------


def _leave_behind(patch: Patch, table: str) -> None:
    right = rows.Pager.__post_init__

    def init(self: rows.Pager) -> None:
        right(self)
        self.others = deque(row for row in self.others if row.table != table)

    patch.setattr(rows.Pager, "__post_init__", init)


@mutant
def replays_stay_behind(patch: Patch) -> None:
    """A session that moves forgets which histories were being replayed."""
    _leave_behind(patch, "recall")


@mutant
def held_events_stay_behind(patch: Patch) -> None:
    """Live events that wait for the end of a history do not move with it."""
    _leave_behind(patch, "held")
