"""The rows of a session on their way: which there are, and how they are encoded.

A session travels as its disk rows, and is restored by the functions that restore it after a restart. Brokers' clocks
need not agree, so the end of an event's life travels as what is left of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from latecomer.core.session.past import RecallRow
from latecomer.core.session.state import Parcel, Session, SessionRow, Subscription
from latecomer.messages.hand_over import Row
from latecomer.model.errors import FilterError
from latecomer.model.event import Event
from latecomer.model.ids import NUMBER_MAX, EventId, Instant
from latecomer.model.topics import check_topic

if TYPE_CHECKING:
    from latecomer.core.mobility.outlines import Outliner

PAGE_ROWS = 128
PAGE_BYTES = 32_768

_encode = msgspec.msgpack.encode
_decoders: dict[str, msgspec.msgpack.Decoder[object]] = {
    "queue": msgspec.msgpack.Decoder(Parcel | None),
    "incoming": msgspec.msgpack.Decoder(int),
    "recall": msgspec.msgpack.Decoder(RecallRow),
    "held": msgspec.msgpack.Decoder(Event),
    "given": msgspec.msgpack.Decoder(EventId),
    "late": msgspec.msgpack.Decoder(tuple[str, int]),
}
NAMED = ("recall", "late")
"""Tables whose rows have names, not numbers."""
_session = msgspec.msgpack.Decoder(SessionRow)
_subscription = msgspec.msgpack.Decoder(Subscription)

Tables = dict[str, dict[int | str, object]]


class RowsError(Exception):
    """Rows that are none."""


def encode_row(session: SessionRow) -> bytes:
    return _encode(session)


def encode_subscription(subscription: Subscription) -> bytes:
    return _encode(subscription)


def decode_standing(session: bytes, subscriptions: tuple[bytes, ...]) -> tuple[SessionRow, list[Subscription]]:
    """What a `Standing` carries."""
    try:
        row = _session.decode(session)
    except msgspec.MsgspecError as error:
        raise RowsError(str(error)) from None
    return row, decode_subscriptions(subscriptions)


def decode_subscriptions(subscriptions: tuple[bytes, ...]) -> list[Subscription]:
    """What a session is subscribed to."""
    try:
        return [_subscription.decode(one) for one in subscriptions]
    except msgspec.MsgspecError as error:
        raise RowsError(str(error)) from None


@dataclass(slots=True)
class Pager:
    """The rows of a session that is away, page by page. It goes on collecting meanwhile; what is newer than the moment
    at which this was made is not among the rows."""

    session: Session
    outliner: Outliner | None = None
    """Set if the other broker can build deliveries itself."""
    numbers: deque[int] = field(init=False)
    others: deque[Row] = field(init=False)

    def __post_init__(self) -> None:
        session = self.session
        self.numbers = deque(session.queue)
        rows = [Row("incoming", id, _encode(1)) for id in session.incoming]
        rows += [Row("late", broker, _encode(taken)) for broker, taken in session.late.items()]
        if session.given is not None:
            rows += [Row("given", number, _encode(id)) for id, number in session.given.ids.items()]
        past = session.past
        if past is not None:
            rows += [Row("recall", text, _encode(recall.row())) for text, recall in past.recalls.items()]
            rows += [
                Row("held", number, _encode(item.event), item.event.expires_us)
                for number, item in past.held.items()
                if item.stored
            ]
        self.others = deque(rows)

    @property
    def empty(self) -> bool:
        return not self.numbers and not self.others

    @property
    def unanswered(self) -> bool:
        """Whether the other broker has not said yet what it lacks."""
        return self.outliner is not None and bool(self.outliner.unanswered)

    def answered(self, page: int, lacking: Sequence[int]) -> None:
        """The other broker has gone through the outlines up to a page, and lacks these deliveries."""
        if self.outliner is not None:
            self.numbers += self.outliner.answered(page, lacking)

    def page(self, now: Instant, number: int) -> tuple[Row, ...]:
        """The next rows. Deliveries that were dropped since, because the queue was full, are left out."""
        rows: list[Row] = []
        size = 0
        outlined: Sized = () if self.outliner is None else self.outliner.begin(number)
        while len(rows) + len(outlined) < PAGE_ROWS and size < PAGE_BYTES and not self.empty:
            row = self._next(now)
            if row is not None:
                rows.append(row)
                size += len(row.value)
        return tuple(rows)

    def _next(self, now: Instant) -> Row | None:
        if self.others:
            row = self.others.popleft()
            return replace(row, left_us=_left(row.left_us, now)) if row.left_us else row
        number = self.numbers.popleft()
        if number not in self.session.queue:
            return None
        parcel = self.session.queue[number]
        row = queue_row(number, parcel, now)
        return None if self.outliner is not None and self.outliner.takes(number, parcel, row.left_us) else row


def queue_row(number: int, parcel: Parcel | None, now: Instant) -> Row:
    """A delivery that waits."""
    left_us = 0 if parcel is None else _left(parcel.event.expires_us, now)
    return Row("queue", number, _encode(parcel), left_us)


def decode(row: Row, now: Instant) -> object:
    """The value of a row, as this broker's disk keeps it."""
    decoder = _decoders.get(row.table)
    if decoder is None or isinstance(row.key, int) is (row.table in NAMED):
        raise RowsError(f"a row of {row.table!r}")
    try:
        value = decoder.decode(row.value)
        event = value.event if isinstance(value, Parcel) else value
        if isinstance(event, Event):
            check_topic(event.topic)
    except (msgspec.MsgspecError, FilterError) as error:
        raise RowsError(str(error)) from None
    if row.left_us:
        expires_us = min(now + row.left_us, NUMBER_MAX)
        if isinstance(value, Parcel):
            return replace(value, event=replace(value.event, expires_us=expires_us))
        if isinstance(value, Event):
            return replace(value, expires_us=expires_us)
    return value


def _left(expires_us: Instant, now: Instant) -> int:
    return max(1, expires_us - now) if expires_us else 0
