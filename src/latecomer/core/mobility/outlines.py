"""Outlines: deliveries that the new broker builds from its recent log instead of being sent them (*mobility* §3,
logging).

A delivery of QoS 1 or 2 mostly follows from its event and the session's subscriptions. The old broker builds it from
both, as the new one will. If the result equals what stands in its queue, it sends only the delivery's number and the
event's id; anything else (shared, retained, from history, released, or graded by subscriptions that have changed since)
travels whole. The new broker answers which of the events it has not had, and the old one sends those deliveries whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from latecomer.core.attributes import attributes_of
from latecomer.core.mobility.recent import RecentLog
from latecomer.core.mobility.rows import RowsError
from latecomer.core.session.delivery import grade_of
from latecomer.core.session.state import Parcel, Session, Subscription
from latecomer.model.event import Event
from latecomer.model.ids import NUMBER_MAX, EventId, Instant, Name, Number

DELIVERIES_MAX = 65_536
"""Of one outline, whatever another broker says."""


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """Deliveries with successive numbers, of events with successive numbers."""

    number: Number
    seq: Number
    count: Number = 1
    left_us: Number = 0
    """What is left of the life of the event; 0: they do not expire."""


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """Deliveries of one origin's events."""

    origin: Name
    epoch: Number
    stretches: tuple[Stretch, ...]


_decoder = msgspec.msgpack.Decoder(tuple[Outline, ...])


def build(session: Session, event: Event) -> Parcel | None:
    """The delivery that follows from an event and the subscriptions that are a session's own; None: none does.
    Identifiers stand in the order of the topic filters: brokers need not have the subscriptions in the same order."""
    if not event.reliable or event.shares or event.groups_only:
        return None
    matching = [
        subscription
        for subscription in session.matching(event.topic, attributes_of(event) if session.picky else {})
        if not (subscription.no_local and event.publisher == session.client)  # [MQTT-3.8.3-3]
    ]
    grade = grade_of(sorted(matching, key=lambda subscription: subscription.text))
    qos = 0 if grade is None else min(event.qos, grade.qos)
    if grade is None or not qos:
        return None
    return Parcel(event, qos, event.retain and grade.retain_as_published, grade.ids)


@dataclass(slots=True)
class Outliner:
    """At the old broker: which deliveries of a session need not travel."""

    session: Session
    told: Mapping[str, Subscription]
    """The subscriptions that the other broker builds with."""
    unanswered: dict[int, int] = field(default_factory=dict)
    """Deliveries sent in outline, by number, with the page: the other broker has not said yet whether it has them."""
    whole: dict[int, None] = field(default_factory=dict)
    """Deliveries that the other broker lacks."""
    page: int = 0
    entries: list[tuple[int, EventId, int]] = field(default_factory=list)
    """Of the present page."""
    same: bool = False
    """The session's subscriptions are those that the other broker has: rules may have changed."""

    def begin(self, page: int) -> Sized:
        """Another page is made; returns what its outline will have."""
        self.page, self.entries = page, []
        self.same = self.session.subscriptions == self.told
        return self.entries

    def takes(self, number: int, parcel: Parcel | None, left_us: int) -> bool:
        """Whether a delivery goes into the outline of the present page."""
        if parcel is None or not self.same or number in self.whole or build(self.session, parcel.event) != parcel:
            return False
        self.entries.append((number, parcel.event.id, left_us))
        self.unanswered[number] = self.page
        return True

    def encoded(self) -> bytes:
        """The outline of the present page."""
        if not self.entries:
            return b""
        by_origin: dict[tuple[str, int], list[Stretch]] = {}
        for number, id, left_us in self.entries:
            stretches = by_origin.setdefault((id.origin, id.epoch), [])
            last = stretches[-1] if stretches else None
            if last is not None and (number, id.seq, left_us, 0) == (
                last.number + last.count,
                last.seq + last.count,
                0,
                last.left_us,
            ):
                stretches[-1] = Stretch(last.number, last.seq, last.count + 1)
            else:
                stretches.append(Stretch(number, id.seq, 1, left_us))
        return msgspec.msgpack.encode(
            [Outline(origin, epoch, tuple(stretches)) for (origin, epoch), stretches in by_origin.items()]
        )

    def answered(self, page: int, lacking: Sequence[int]) -> list[int]:
        """The other broker has gone through the outlines up to a page; returns what it must be sent whole."""
        again = [number for number in dict.fromkeys(lacking) if self.unanswered.get(number, page + 1) <= page]
        self.whole.update(dict.fromkeys(again))
        self.unanswered = {number: of for number, of in self.unanswered.items() if of > page}
        return again


def fill(outline: bytes, log: RecentLog, session: Session, now: Instant) -> tuple[dict[int, Parcel], list[int]]:
    """At the new broker: the deliveries of an outline that can be built, and the numbers of those that cannot."""
    try:
        parts = _decoder.decode(outline)
    except msgspec.MsgspecError as error:
        raise RowsError(str(error)) from None
    stretches = [stretch for part in parts for stretch in part.stretches]
    if sum(stretch.count for stretch in stretches) > DELIVERIES_MAX:
        raise RowsError(f"an outline of more than {DELIVERIES_MAX} deliveries")
    if not all(0 < stretch.number <= NUMBER_MAX - stretch.count for stretch in stretches):
        raise RowsError("an outline of deliveries that have no numbers")
    built: dict[int, Parcel] = {}
    lacking: list[int] = []
    for part in parts:
        for stretch in part.stretches:
            expires_us = min(now + stretch.left_us, NUMBER_MAX) if stretch.left_us else 0
            for at in range(stretch.count):
                event = log.get(EventId(part.origin, part.epoch, stretch.seq + at))
                parcel = None if event is None else build(session, replace(event, expires_us=expires_us))
                if parcel is None:
                    lacking.append(stretch.number + at)
                else:
                    built[stretch.number + at] = parcel
    return built, lacking
