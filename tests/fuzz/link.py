"""Hostile bytes against the broker links: `python tests/fuzz/link.py -runs=N`.

The decoder is C, which the fuzzer does not see into; so beside raw bytes it is given bodies in whole frames, damaged
examples of every message, and MessagePack that resembles a message. Each must be refused with a `ProtocolError`, or be
read the same however the stream is cut, and survive being written and read again.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

if __name__ == "__main__":
    import atheris

    with atheris.instrument_imports(include=["latecomer"]):
        importlib.import_module("latecomer.wire.link")

import msgspec

from latecomer.messages.hand_over import (
    Ask,
    AskRefused,
    Attached,
    Attempt,
    Detach,
    End,
    Fetch,
    Grant,
    Here,
    Leftovers,
    LeftoversWanted,
    Offer,
    Packets,
    Relay,
    Released,
    Remembered,
    Row,
    Rows,
    Seek,
    Seeker,
    ShadowLost,
    ShadowOffer,
    ShadowRows,
    ShadowWanted,
    Standing,
    Taken,
    Want,
    Whereabouts,
    WhereaboutsKept,
)
from latecomer.messages.homes import Addresses, Profile, ProfileWanted
from latecomer.messages.link import (
    Adopted,
    Advertise,
    AdvertisementsComplete,
    Alive,
    Compare,
    Compared,
    Complete,
    Confirm,
    Credit,
    Done,
    Errand,
    ErrandAnswer,
    Fence,
    Fenced,
    Hello,
    Keeping,
    LinkMessage,
    LinkState,
    LinkStates,
    Lost,
    Neighbour,
    Publication,
    Request,
    RequestId,
    Response,
    ResponseEnd,
    Retained,
    RetainedSummary,
    Run,
    Settled,
    Sharing,
    SharingChange,
    StoreAdvertise,
    StoreWithdraw,
    Subscribe,
    Summary,
    Unadvertise,
    Unsubscribe,
    Void,
)
from latecomer.messages.mqtt import Connack, Connect, Puback, Publish
from latecomer.messages.reposition import NO_STAMP, Positions, PositionsKnown, Prepared, Proposal, Stamp, Withdrawn
from latecomer.messages.ring import Flush, Flushed, FlushWanted, Round, Wants, WantsChange
from latecomer.model.content import Op
from latecomer.model.errors import ProtocolError
from latecomer.model.event import Event
from latecomer.model.filters import Filter, parse_filter
from latecomer.model.history import Key, Query, Slice
from latecomer.model.ids import EventId
from latecomer.wire.link import HEADER, Reader, decode_body, encode

FILTERS = (
    parse_filter("a/+/#"),
    parse_filter('laptops ? brand = "IBM" and price <= 1600 and size in (13, 14.5, true) and exists colour'),
)
EVENT = Event(EventId("b1", 1, 7), "a/b", "c1", 12, True, {"x": 1.5, "y": True, "z": -3, "s": "t"}, b"\xddpayload")
ID = RequestId("b4", 7, 1)
KEY = Key(12, "b1", 1, 7)
ATTEMPT = Attempt("b2", 3, 7)
STAMP = Stamp(2, "b1", 7)
GRANT = Grant((("b1", 1, 9),), 3)
EXAMPLES: tuple[LinkMessage, ...] = (
    Hello("net", "b1", 1, 2, 3, 4, 5, 6),
    Alive(9),
    LinkStates((LinkState("b1", 1, 2, (Neighbour("b2", 1, 1000), Neighbour("b3", 2, 70_000))),)),
    Summary((("b1", 1, 2), ("b2", 300, 70_000))),
    Adopted("v1"),
    Subscribe(FILTERS),
    Unsubscribe(FILTERS[:1]),
    Advertise(FILTERS, 1),
    Unadvertise(FILTERS[1:], 2**40),
    Confirm(3),
    Fence("v1", 7),
    Fenced(7),
    AdvertisementsComplete("v1"),
    Complete("v1"),
    Publication(EVENT, ("b3",), True),
    Done("b1", 1, (1, 2, 300, 70_000)),
    RetainedSummary(2**64 - 1, True),
    Retained((EVENT, EVENT), (0, 5_000_000)),
    Sharing("b2", 1, 2, (("group", FILTERS[0], 3),)),
    SharingChange("b2", 1, 3, (("group", FILTERS[0], 0), ("other", FILTERS[0], 2))),
    Run("b1", "someone", b"\x30\x05\x00\x01ahi"),
    StoreAdvertise((("a/#", 1), ("b/+/c", 2))),
    StoreWithdraw(("a/#", "b/+/c")),
    Settled("v1"),
    Lost("b1", "b2", 5, 70_000),
    Request(ID, ("b4", "b3"), "laptops", Query(FILTERS[1], 5, 70_000, 0, KEY), "u", "A", 4, "b2"),
    Request(ID, ("b4",), "a/#", Query(FILTERS[0], last=100)),
    Response(ID, ("b4", "b3"), "b2", (EVENT, EVENT), (0, 5_000_000), KEY),
    ResponseEnd(ID, ("b4",), "b2", 2, 5, "the store has let go of what is older", False),
    Credit(ID, "b2", 8),
    Keeping("b2", 1, 3, ("a/#", "b/+/c"), 5, True),
    Keeping("b2", 1, 4, ("a/#", "b/+/c"), 5, True, ((3, False), (5, True))),
    Compare("b2", "b5", 1, "a/#", 0, 70_000, 1000),
    Compared("b2", "b5", 1, (Slice(0, 2, 2**40), Slice(1000, 1, 7)), "busy", (("b3", 1, 7),)),
    Addresses("b2", 1, 2, (("tcp", "b2.example:1883"), ("ws", "[::1]:8083")), False),
    ProfileWanted("b2", "b5", 1, 2),
    Profile("b5", "b2", 1, 3, 2, 10, 30, 2**63 - 1, (5, 2**62), (7,)),
    Errand("b2", "b5", 1, b'{"topics":["a/#"]}'),
    ErrandAnswer("b5", "b2", 1, b"{}", "no"),
    Positions(STAMP, (("b1", 0), ("b2", 2**32 - 1))),
    PositionsKnown(NO_STAMP),
    Proposal(STAMP, NO_STAMP, (("b1", 5),)),
    Prepared("b2", "b1", STAMP, "no link to b3"),
    Withdrawn(STAMP),
    Round("v1", 3),
    Wants("b2", 1, 2, FILTERS),
    WantsChange("b2", 1, 3, FILTERS[:1], FILTERS[1:]),
    FlushWanted("b2", "b5", 7, ("b1", "b3")),
    Flush("b5", "b2", 7, ("b1", "b3"), True),
    Flushed("b1", "b5", 7, ("b1",)),
    Seek("v1", "b2", (Seeker("c", "u", 5), Seeker("d", "", 7, ends=True))),
    Here("b5", "b2", "c", "b5", 9, "younger", True, 12, "u", True, True),
    End("b2", "b5", "c", 12),
    Ask("b2", "b5", ATTEMPT, "c", "u", 5, True, True, 8, None, "d", True, ATTEMPT),
    Standing("b5", "b2", ATTEMPT, "c", b"\x93", (b"\x92",), 4, 5, ("b3",), True, True),
    Rows("b5", "b2", ATTEMPT, "c", 1, (Row("queue", 3, b"\xc0", 6), Row("recall", "a/#", b"")), GRANT, b"\x90"),
    Want("b2", "b5", ATTEMPT, "c", 9, 8, (3, 4)),
    AskRefused("b5", "b2", ATTEMPT, "c", "unknown", "b4"),
    Taken("b2", "b5", ATTEMPT, "c", True),
    Released("b5", "b2", ATTEMPT),
    Offer("b5", "b2", ATTEMPT, "c"),
    Fetch("b5", "b2", "c", "u"),
    Whereabouts("b5", "b2", 1, (("c", True), ("d", False)), True),
    WhereaboutsKept("b2", "b5", 1),
    Ask("b2", "b5", ATTEMPT, "c", "u", 5, True, connect=Packets(5, (Connect("c", clean_start=False),))),
    Attached("b5", "b2", ATTEMPT, "c"),
    Relay("b5", "b2", ATTEMPT, 1, Packets(5, (Connack(True), Publish("t", b"p", 1, packet_id=3))), 300),
    Relay("b2", "b5", ATTEMPT, 1, Packets(4, (Puback(3),))),
    Detach("b5", "b2", ATTEMPT, "gone", True),
    ShadowOffer("b2", "b5", ATTEMPT, "c", "u", (b"\x92",)),
    ShadowWanted("b5", "b2", ATTEMPT, "c", 8),
    ShadowRows("b2", "b5", ATTEMPT, "c", 1, (Row("queue", 3, b"\xc0", 6),), True),
    ShadowLost("b2", "b5", ATTEMPT, "c"),
    Whereabouts("b5", "b2", 2, (("c", True),), False, (("c", b"\x97"),), 3),
    Remembered("b5", "b2", "c", "b4", "u", b"\x97", True),
    Leftovers("b5", "b2", "c", "b2.1/7", (Row("queue", 3, b"\xc0", 6),), False, ("b3",)),
    LeftoversWanted("b2", "b5", "c", "u", "b2.1/7", 3, True),
    Void(),
)
NAMES = tuple(msgspec.msgpack.decode(encode(example)[HEADER:])[0] for example in EXAMPLES)


# --- what must hold -------------------------------------------------------------------------------


def check_stream(stream: bytes, sizes: list[int]) -> list[LinkMessage]:
    """Read a stream in chunks of these sizes, over and over, and at once; returns what was read in chunks."""
    messages, lost = read(stream, sizes)
    whole, whole_lost = read(stream, [len(stream) or 1])
    assert lost == whole_lost
    assert lost or repr(messages) == repr(whole)
    for message in messages:
        check_message(message)
    return messages


def read(stream: bytes, sizes: list[int]) -> tuple[list[LinkMessage], bool]:
    """The messages, and whether the stream was lost. Anything but a `ProtocolError` gets through."""
    reader = Reader()
    messages: list[LinkMessage] = []
    start = turn = 0
    while start < len(stream):
        chunk = stream[start : start + sizes[turn % len(sizes)]]
        try:
            messages += reader.feed(chunk)
        except ProtocolError:
            return messages, True
        start += len(chunk)
        turn += 1
    return messages, False


def check_message(message: LinkMessage) -> None:
    """It can be written and read again. By repr: NaN is not equal to itself, and True is equal to 1."""
    frame = encode(message)
    again = decode_body(frame[HEADER:])
    assert repr(again) == repr(message)
    assert encode(again) == frame
    filters: tuple[Filter, ...] = getattr(message, "filters", ())
    for filter in (message.query.filter,) if isinstance(message, Request) else filters:
        assert hash(filter) == hash(msgspec.structs.replace(filter))
        assert str(filter)


# --- bytes out of bytes ---------------------------------------------------------------------------


class Dice:
    """Choices taken from the fuzzer's bytes; all zero when they run out."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        at = self.at
        self.at += 1
        return self.data[at] if at < len(self.data) else 0

    def take(self, count: int) -> bytes:
        start = self.at
        self.at += count
        return self.data[start : self.at]

    def rest(self) -> bytes:
        return self.take(len(self.data))

    def choose(self, options: tuple[Any, ...]) -> Any:
        return options[self.byte() % len(options)]


def stream_of(data: bytes) -> tuple[bytes, list[int]]:
    """A stream and how to cut it; the first byte chooses how wild the stream is."""
    dice = Dice(data)
    kind = dice.byte() % 4
    sizes = [1 + dice.byte() for _ in range(1 + dice.byte() % 3)]
    if kind == 0:
        return dice.rest(), sizes
    if kind == 1:
        return framed(dice.rest()), sizes
    if kind == 2:
        return damaged(dice), sizes
    return framed(msgspec.msgpack.encode(resembling(dice))) + dice.rest(), sizes


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(HEADER, "big") + body


def damaged(dice: Dice) -> bytes:
    """Example messages, the body of the first one overwritten, cut or stretched here and there."""
    body = bytearray(encode(dice.choose(EXAMPLES))[HEADER:])
    for _ in range(dice.byte() % 8):
        at = dice.byte() % (len(body) + 1)
        what = dice.byte()
        if what < 128:
            body[at : at + 1] = dice.take(1)
        elif what < 192:
            del body[at : at + what - 127]
        else:
            body[at:at] = dice.take(what - 191)
    return framed(bytes(body)) + encode(dice.choose(EXAMPLES))


def resembling(dice: Dice) -> list[Any]:
    """An array that begins with the name of a message."""
    return [dice.choose(NAMES), *(value(dice, 0) for _ in range(dice.byte() % 9))]


def value(dice: Dice, depth: int) -> Any:
    kind = dice.byte() % (14 if depth < 5 else 7)
    if kind == 0:
        return dice.byte()
    if kind == 1:
        return int.from_bytes(dice.take(8), "big", signed=False)
    if kind == 2:
        return -1 - int.from_bytes(dice.take(7), "big", signed=False)
    if kind == 3:
        return dice.choose((0.5, -0.0, 1e308, float("nan"), float("inf"), True, False, None))
    if kind == 4:
        return dice.choose(("", "a", "b1", "a/+", "#", "a/#/b", "\0", "a" * 5000, "/" * 200, "ä\x1b\n"))
    if kind == 5:
        return dice.choose(tuple(op.value for op in Op))
    if kind == 6:
        return dice.take(dice.byte())
    if kind == 7:
        return {value(dice, 9): value(dice, depth + 1) for _ in range(dice.byte() % 4)}
    if kind == 8:  # an event
        return [["b1", dice.byte(), dice.byte()], "a/b", "c1", 0, True, {"x": value(dice, 9)}, b""][: dice.byte() % 9]
    if kind == 9:  # filters
        return [["a/+", [[[value(dice, 9), dice.choose(tuple(Op)), value(dice, depth + 1)]]]]] * (dice.byte() % 3)
    if kind == 10:  # the id of a request
        return ["b4", dice.byte(), dice.byte()]
    if kind == 11:  # a path
        return [f"b{dice.byte() % 70}" for _ in range(dice.byte() % 70)]
    if kind == 12:  # a query
        key = dice.choose((None, [dice.byte(), "b1", 1, dice.byte()]))
        return [["a/+"], dice.byte(), dice.byte(), dice.byte() % 2, key][: 1 + dice.byte() % 5]
    return [value(dice, depth + 1) for _ in range(dice.byte() % 70)]


def fuzz(data: bytes) -> None:
    stream, sizes = stream_of(data)
    check_stream(stream, sizes)


if __name__ == "__main__":
    atheris.Setup(sys.argv, fuzz)
    atheris.Fuzz()
