"""Live events that wait for history: held, let go of when they are too many, released in the order they came.

Why and when is said in `recall`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from latecomer.core.attributes import attributes_of
from latecomer.core.effects import Drop, Put
from latecomer.core.orders import Orders
from latecomer.core.retrieval import Retrieval
from latecomer.core.session.delivery import Deliveries
from latecomer.core.session.limits import SessionLimits
from latecomer.core.session.past import Held, Past, Recall, has_identity, size_of
from latecomer.core.session.state import HISTORY_END, NOBODY, Session, Subscription
from latecomer.model.event import Event

BACKLOG_LOW = 256
"""Deliveries that may wait for the client before more is added."""
LOST = "held while its history ran"


@dataclass(slots=True)
class Holding:
    """Keeps the present waiting."""

    orders: Orders
    limits: SessionLimits
    retrieval: Retrieval
    deliveries: Deliveries

    def take(self, session: Session, event: Event, hops: int) -> None:
        """A live event for a session with a past: it waits, or was given already, or is delivered like any other."""
        past = session.past
        assert past is not None
        matching = self.matching(session, event)
        recalls = recalls_of(past, matching)
        if past.was_given(event, recalls) or unasked(event, matching, recalls):
            return
        running = [recall for recall in recalls if recall.running]
        qos = min(event.qos, max((sub.qos for sub in matching), default=0)) if event.reliable else 0
        if running or ((past.releasable or not is_clear(session, past)) and past.concerns(event.topic)):
            self._hold(session, past, Held(event, hops, False, False), running, qos)
        else:
            self.deliveries.take(session, event, hops)

    def _hold(self, session: Session, past: Past, item: Held, running: list[Recall], qos: int) -> None:
        event = item.event
        if event.id in past.by_id:
            return
        item.fetchable = bool(running) and self._fetchable(event)
        if item.fetchable:
            letting_go = [recall for recall in running if recall.missing is not None]
            for recall in letting_go:
                recall.miss(event)
            if letting_go:
                self.write(session, past)
            if letting_go == running:
                return
        if not session.connection and not qos:
            return
        number = past.hold(item)
        if session.durable and qos:
            item.stored = True
            self.orders.writes.append(Put("held", session.client, number, event))
        if not running:
            past.releasable.append(number)
        if self._crowded(past):
            self._make_room(session, past)

    def _crowded(self, past: Past) -> bool:
        return len(past.held) > self.limits.queue_messages or past.held_bytes > self.limits.queue_bytes

    def _make_room(self, session: Session, past: Past) -> None:
        """Too much is held: let go of what can be asked for again; of the rest, the oldest is lost."""
        if past.fetchable:
            known = [recall for recall in past.recalls.values() if recall.missing is not None]
            for number, item in list(past.held.items()):
                running = self.running(session, past, item.event) if item.fetchable else []
                for recall in running:
                    if recall not in known:  # which was told of it when it came
                        recall.miss(item.event)
                if running:
                    self.let_go(session, past, number)
            self.write(session, past)
        while self._crowded(past):
            number = next(iter(past.held))
            why = "queue full" if past.releasable and past.releasable[0] == number else LOST
            self.deliveries.dropped(session, self.let_go(session, past, number).event, why)
        past.releasable = deque(number for number in past.releasable if number in past.held)

    def let_go(self, session: Session, past: Past, number: int) -> Held:
        item = past.let_go(number)
        if item.stored:
            self.orders.writes.append(Drop("held", session.client, number))
        return item

    def running(self, session: Session, past: Past, event: Event) -> list[Recall]:
        """The recalls under way that an event waits for."""
        return [recall for recall in self.recalls(session, past, event) if recall.running]

    def recalls(self, session: Session, past: Past, event: Event) -> list[Recall]:
        """The recalls that an event belongs to, under way or over."""
        return recalls_of(past, self.matching(session, event))

    @staticmethod
    def matching(session: Session, event: Event) -> list[Subscription]:
        echo = session.no_local and event.publisher == session.client
        attributes = attributes_of(event) if session.picky else {}
        return [sub for sub in session.matching(event.topic, attributes) if not (echo and sub.no_local)]

    def sort(self, session: Session, past: Past) -> None:
        """Find out which of the held events wait for no recall any more."""
        past.releasable.clear()
        past.fetchable = 0
        for number, item in past.held.items():
            waits = bool(self.running(session, past, item.event))
            item.fetchable = waits and self._fetchable(item.event)
            past.fetchable += item.fetchable
            if not waits:
                past.releasable.append(number)

    def _fetchable(self, event: Event) -> bool:
        """Whether it can be asked for again."""
        return has_identity(event) and self.retrieval.stored(event.topic)

    def write(self, session: Session, past: Past) -> None:
        """Bring what stands on disk up to date."""
        for recall in past.recalls.values():
            if recall.changed:
                recall.changed = False
                if session.durable:
                    row = recall.row()
                    if recall.inquiry is not None:
                        carried = recall.carrying(*self.retrieval.worth(recall.inquiry))
                        row = msgspec.structs.replace(row, carried=carried)
                    self.orders.writes.append(Put("recall", session.client, recall.text, row))

    def release(self, session: Session, past: Past) -> bool:
        """Deliver the first of the held events that wait for nothing else; False: the client cannot take it now."""
        number = past.releasable[0]
        item = past.held.get(number)
        if item is None:
            past.releasable.popleft()  # history gave it
            return True
        event = item.event
        matching = self.matching(session, event)
        if not self.has_room(session, past, event, 2):
            return False
        past.releasable.popleft()
        if unasked(event, matching, recalls_of(past, matching)):
            self.let_go(session, past, number)
        else:
            self.give(session, past, number)
        return True

    def give(self, session: Session, past: Past, number: int) -> None:
        """Deliver a held event, as what it is: live."""
        item = self.let_go(session, past, number)
        if 0 < item.event.expires_us <= self.orders.now:
            self.deliveries.dropped(session, item.event, "expired")
            return
        self.deliveries.take(session, item.event, item.hops)
        past.number = session.number

    def has_room(self, session: Session, past: Past, event: Event, granted: int) -> bool:
        """Whether one more delivery pushes nothing out of the queue, and overtakes nothing."""
        if session.choked:
            return False
        if not session.backlog:
            return True
        grants = [granted, *(sub.qos for sub in self.matching(session, event))]
        qos = event.qos if event.reliable else 0
        if min(qos, *grants) == 0 and not is_clear(session, past):
            return False
        return min(qos, max(grants)) == 0 or (
            len(session.backlog) < BACKLOG_LOW
            and len(session.queue) < self.limits.queue_messages // 2
            and session.queue_bytes + size_of(event) <= self.limits.queue_bytes // 2
        )


def is_clear(session: Session, past: Past) -> bool:
    """Whether history, the marker and what followed it have left. Until then QoS 0, which waits for nobody, would
    overtake them, and a flood of live events would push them out of the queue."""
    return not session.backlog or session.backlog[0] > past.number


def recalls_of(past: Past, matching: Sequence[Subscription]) -> list[Recall]:
    return [recall for sub in matching if (recall := past.recalls.get(sub.text)) is not None]


def unasked(event: Event, matching: Sequence[Subscription], recalls: Sequence[Recall]) -> bool:
    return bool(recalls) and len(recalls) == len(matching) and all(recall.unasked(event) for recall in recalls)


def marker_like(session: Session, recall: Recall) -> tuple[Event, int]:
    """What stands for a marker when room is looked for."""
    qos = session.subscriptions[recall.text].qos
    return Event(NOBODY, HISTORY_END, payload=bytes(256 + len(recall.text)), qos=qos), qos
