"""Broker links as bytes: a 4-byte big-endian length, then one message in MessagePack.

A message is an array that begins with its name (`messages/link`). Readers skip elements they do not know at the end of
an array and fill in defaults for those that are missing: that is how messages grow without a new protocol number.

What arrives here comes from outside. Whatever the bytes are, the answer is a message that the core can work with or a
`ProtocolError`: types and texts are checked while decoding, and what one message shows by itself afterwards. Every
number is a count or an instant in 0 … 2⁶³−1, every broker has a name, every topic is legal, every filter is within the
limits of those that clients may state. What needs memory of earlier messages is left to the core.

Decision: NaN and infinity are legal attributes (no comparison matches NaN) but not in filters; of two attributes with
the same name the later one counts; integers of attributes go up to 2⁶⁴−1, as MessagePack does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any

import msgspec

from latecomer.messages.homes import PROFILE_MAX, Profile
from latecomer.messages.link import (
    ERRAND_MAX,
    FRAME_MAX,
    GROUP_NAME_MAX,
    GROUPS_MAX,
    STREAMS_MAX,
    Advertise,
    Compare,
    Compared,
    Errand,
    ErrandAnswer,
    Keeping,
    LinkMessage,
    Publication,
    Request,
    Response,
    ResponseEnd,
    Retained,
    Sharing,
    SharingChange,
    StoreAdvertise,
    StoreWithdraw,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from latecomer.messages.reposition import Positions, Proposal
from latecomer.messages.ring import (
    BROKERS_MAX,
    FILTERS_MAX,
    ROUNDS_MAX,
    WORD_MAX,
    Flush,
    Flushed,
    FlushWanted,
    Round,
    Wants,
    WantsChange,
    size_of,
)
from latecomer.model.content import MAX_CONSTRAINTS, MAX_TEXT
from latecomer.model.errors import LatecomerError, ProtocolError
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from latecomer.model.ids import NAME_MAX, BrokerId
from latecomer.model.ring import BITS
from latecomer.model.topics import check_filter, check_topic
from latecomer.wire.packets import decode_packets, encode_packets

HEADER = 4
PATH_MAX = 64
"""Brokers on the way of a request."""
TOPICS_MAX = 10_000
"""Topic classes of one store."""
SLICES_MAX = 100_000
SHARES_MAX = 524_288
"""Characters of the choices that one event carries; a broker writes far fewer (`core/shares`)."""
PROBLEM_MAX = 300
"""Characters: a problem is one sentence."""

REASON_MAX = 300
"""Characters of a reason: it quotes what the peer sent, which may be long."""

_header = Struct(">I")
_encoder = msgspec.msgpack.Encoder(enc_hook=encode_packets)
_decoder: msgspec.msgpack.Decoder[LinkMessage] = msgspec.msgpack.Decoder(LinkMessage, dec_hook=decode_packets)


def encode(message: LinkMessage) -> bytes:
    """One frame."""
    try:
        body = _encoder.encode(message)
    except (OverflowError, UnicodeEncodeError) as error:  # an attribute of 2⁶⁴ or more; half a surrogate pair
        raise ProtocolError(f"a {type(message).__name__} cannot be written: {_printable(error)}") from None
    if len(body) > FRAME_MAX:
        raise ProtocolError(f"a {type(message).__name__} of {len(body)} bytes exceeds the frame limit of {FRAME_MAX}")
    return _header.pack(len(body)) + body


def decode_body(body: bytes | bytearray | memoryview) -> LinkMessage:
    """The message in one frame, without its length."""
    try:
        message = _decoder.decode(body)
        check = _CHECKS.get(type(message))
        if check is not None:
            check(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LatecomerError) as error:
        raise ProtocolError(f"not a link message: {_printable(error)}") from None
    return message


class Reader:
    """Cuts a byte stream into messages, however the stream was cut into chunks.

    Every byte is copied a bounded number of times: a chunk that ends between frames is never buffered, and a frame
    that comes in pieces is not looked at again before it is whole.
    """

    __slots__ = ("_buffer", "_limit", "_wanted")

    def __init__(self, frame_max: int = FRAME_MAX) -> None:
        self._limit = min(frame_max, FRAME_MAX)
        self._buffer = bytearray()
        self._wanted = HEADER
        """Bytes the buffer must have before there is anything to do; 0: the stream is lost."""

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[LinkMessage]:
        """The messages that are complete now. After a `ProtocolError` the stream is lost: close the connection."""
        if self._buffer or not self._wanted:
            if not self._wanted:
                raise ProtocolError("the stream was lost by an earlier error")
            self._buffer += chunk
            if len(self._buffer) < self._wanted:
                return []
            data = bytes(self._buffer)
            self._buffer = bytearray()
        else:
            data = bytes(chunk)  # no copy if it is bytes already
        try:
            messages, start, self._wanted = _cut(data, self._limit)
        except ProtocolError:
            self._wanted = 0
            raise
        if start < len(data):
            self._buffer += memoryview(data)[start:]
        return messages

    @property
    def pending(self) -> int:
        """Bytes of a message that is not complete."""
        return len(self._buffer)


def _cut(data: bytes, limit: int) -> tuple[list[LinkMessage], int, int]:
    """The whole frames at the start of the data, where the rest begins, and how long the rest must become."""
    messages: list[LinkMessage] = []
    start = 0
    size = len(data)
    while size - start >= HEADER:
        length: int = _header.unpack_from(data, start)[0]
        if length > limit:
            raise ProtocolError(f"a frame of {length} bytes exceeds the limit of {limit}")
        end = start + HEADER + length
        if size < end:
            return messages, start, HEADER + length
        messages.append(decode_body(data[start + HEADER : end]))
        start = end
    return messages, start, HEADER


def _printable(error: Exception) -> str:
    """What an error says, short and on one line: it is going to be logged, and the peer chose some of its words."""
    text = str(error)
    if len(text) > REASON_MAX:
        text = text[: REASON_MAX - 1] + "…"
    return "".join(char if char.isprintable() else "?" for char in text)


# --- what one message shows by itself --------------------------------------------------------------


@lru_cache(maxsize=4096)
def _check_topic(topic: str) -> None:
    """Remembered, because publications repeat their topics; an illegal one raises, and is not remembered."""
    check_topic(topic)


def _check_publication(message: Publication) -> None:
    _check_topic(message.event.topic)
    if message.event.shares and sum(len(part) for choice in message.event.shares for part in choice) > SHARES_MAX:
        raise ProtocolError(f"an event names its groups with at most {SHARES_MAX} characters")


def _check_told(message: Subscribe | Unsubscribe | Advertise | Unadvertise) -> None:
    _check_filters(message.filters)


def _check_filters(filters: tuple[Filter, ...]) -> None:
    """The legality of a filter was checked when it was made; its size was not: `parse_content` does that."""
    for filter in filters:
        where = filter.where
        if where is None:
            continue
        count = len(where.constraints)
        if count > MAX_CONSTRAINTS:
            raise ProtocolError(f"a content filter has at most {MAX_CONSTRAINTS} constraints, not {count}")
        size = len(str(where))
        if size > MAX_TEXT:
            raise ProtocolError(f"a content filter has at most {MAX_TEXT} characters, this one prints with {size}")


def _check_retained(message: Retained) -> None:
    for event in message.events:
        _check_topic(event.topic)


def _check_sharing(message: Sharing | SharingChange) -> None:
    if len(message.entries) > 2 * GROUPS_MAX:  # a change may name all that are gone and as many new ones
        raise ProtocolError(f"a broker tells of at most {2 * GROUPS_MAX} groups at once, not {len(message.entries)}")
    for group, _, _ in message.entries:
        if not 0 < len(group.encode()) <= GROUP_NAME_MAX or "/" in group or "+" in group or "#" in group:
            raise ProtocolError(f"a group has a name of 1 to {GROUP_NAME_MAX} bytes without '/', '+' and '#'")
    _check_filters(tuple(filter for _, filter, _ in message.entries))


# --- stores ---------------------------------------------------------------------------------------


def _check_store_advertise(message: StoreAdvertise) -> None:
    for topics, _ in message.entries:
        check_filter(topics)


def _check_store_withdraw(message: StoreWithdraw) -> None:
    for topics in message.topics:
        check_filter(topics)


def _check_request(message: Request) -> None:
    _check_path(message.path)
    check_filter(message.topics)
    _check_query(message.query)
    if len(message.store) > NAME_MAX:  # no `Name`, because it may be empty
        raise ProtocolError(f"the name of a broker has at most {NAME_MAX} characters, not {len(message.store)}")


def _check_query(query: Query) -> None:
    _check_filters((query.filter,))
    if query.until_us and query.since_us > query.until_us:
        raise ProtocolError(f"a query until {query.until_us} cannot begin later, at {query.since_us}")
    if query.last and query.after is not None:
        raise ProtocolError("a query asks for the last events or for those after one of them, not for both")


def _check_path(path: tuple[BrokerId, ...]) -> None:
    """Whoever forwards along it would otherwise send in circles, or to nobody."""
    if not 1 <= len(path) <= PATH_MAX:
        raise ProtocolError(f"a path has 1 to {PATH_MAX} brokers, not {len(path)}")
    if len(dict.fromkeys(path)) < len(path):
        raise ProtocolError("a path leads to each broker once; this one comes back to one it has passed")


def _check_response(message: Response) -> None:
    _check_path(message.path)
    if len(message.left_us) != len(message.events):
        raise ProtocolError(f"{len(message.events)} events came with {len(message.left_us)} times that they have left")
    for event in message.events:
        _check_topic(event.topic)


def _check_response_end(message: ResponseEnd) -> None:
    _check_path(message.path)
    _check_problem(message.problem)


def _check_problem(problem: str) -> None:
    if len(problem) > PROBLEM_MAX:
        raise ProtocolError(f"a problem is told in at most {PROBLEM_MAX} characters, not {len(problem)}")


def _check_keeping(message: Keeping) -> None:
    if len(message.topics) > TOPICS_MAX:
        raise ProtocolError(f"a store keeps at most {TOPICS_MAX} topic classes, not {len(message.topics)}")
    if message.classes and len(message.classes) != len(message.topics):
        told = f"{len(message.topics)} topic classes and {len(message.classes)} words about them"
        raise ProtocolError(f"a store says one word about each topic class, not {told}")
    for topics in message.topics:
        check_filter(topics)


def _check_compare(message: Compare) -> None:
    check_filter(message.topics)


def _check_compared(message: Compared) -> None:
    if len(message.slices) > SLICES_MAX:
        raise ProtocolError(f"stores compare at most {SLICES_MAX} slices at once, not {len(message.slices)}")
    if len(message.had) > STREAMS_MAX:
        raise ProtocolError(f"a store tells of at most {STREAMS_MAX} absent origins' streams, not {len(message.had)}")
    _check_problem(message.problem)


def _check_errand(message: Errand | ErrandAnswer) -> None:
    if len(message.body) > ERRAND_MAX:
        raise ProtocolError(f"an errand has at most {ERRAND_MAX} bytes, not {len(message.body)}")
    if isinstance(message, ErrandAnswer):
        _check_problem(message.problem)


def _check_positions(message: Positions | Proposal) -> None:
    if not message.stamp.epoch or not message.stamp.by:
        raise ProtocolError("positions carry an epoch from 1 on, and the name of the broker that made them")
    if len(dict(message.places)) < len(message.places):
        raise ProtocolError("positions name a broker twice; each broker has one position")
    taken = dict.fromkeys(position for _, position in message.places)
    if len(taken) < len(message.places):
        raise ProtocolError("positions have two brokers at one place; each broker has its own position")
    if any(position >= 1 << BITS for position in taken):
        raise ProtocolError(f"a position is from 0 to {(1 << BITS) - 1}, not {max(taken)}")


def _check_profile(message: Profile) -> None:
    if len(message.added) + len(message.removed) > PROFILE_MAX:
        count = len(message.added) + len(message.removed)
        raise ProtocolError(f"a broker tells of at most {PROFILE_MAX} filters of its clients at once, not {count}")
    if message.base > message.number:
        raise ProtocolError(f"word {message.number} of a broker's clients cannot follow word {message.base}")


def _check_round(message: Round) -> None:
    if not 1 <= message.number <= ROUNDS_MAX:
        raise ProtocolError(f"rounds are numbered from 1 to {ROUNDS_MAX}, not {message.number}")


def _check_wants(message: Wants | WantsChange) -> None:
    filters = message.filters if isinstance(message, Wants) else message.added + message.dropped
    most = FILTERS_MAX if isinstance(message, Wants) else 2 * FILTERS_MAX  # all that were there, and as many others
    if len(filters) > most:
        raise ProtocolError(f"what a broker wants is told with at most {most} filters, not {len(filters)}")
    _check_filters(filters)
    if len(dict.fromkeys(filters)) < len(filters):
        raise ProtocolError("what a broker wants is told with each filter once")
    for some in (filters,) if isinstance(message, Wants) else (message.added, message.dropped):
        if (size := sum(map(size_of, some))) > WORD_MAX:
            raise ProtocolError(f"what a broker wants is told with at most {WORD_MAX} characters, not {size}")


def _check_flush(message: FlushWanted | Flush | Flushed) -> None:
    if message.from_broker == message.to:
        raise ProtocolError("a flush goes from one broker to another")
    if not 1 <= len(message.roots) <= BROKERS_MAX:
        raise ProtocolError(f"a flush has 1 to {BROKERS_MAX} roots, not {len(message.roots)}")
    if len(dict.fromkeys(message.roots)) < len(message.roots):
        raise ProtocolError("a flush names each root once")


_CHECKS: dict[type, Callable[[Any], None]] = {
    Subscribe: _check_told,
    Unsubscribe: _check_told,
    Advertise: _check_told,
    Unadvertise: _check_told,
    Publication: _check_publication,
    Retained: _check_retained,
    Sharing: _check_sharing,
    SharingChange: _check_sharing,
    StoreAdvertise: _check_store_advertise,
    StoreWithdraw: _check_store_withdraw,
    Request: _check_request,
    Response: _check_response,
    ResponseEnd: _check_response_end,
    Keeping: _check_keeping,
    Compare: _check_compare,
    Compared: _check_compared,
    Errand: _check_errand,
    ErrandAnswer: _check_errand,
    Positions: _check_positions,
    Proposal: _check_positions,
    Profile: _check_profile,
    Round: _check_round,
    Wants: _check_wants,
    WantsChange: _check_wants,
    FlushWanted: _check_flush,
    Flush: _check_flush,
    Flushed: _check_flush,
}
"""What the types of the fields do not say."""
