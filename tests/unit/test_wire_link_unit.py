"""Broker links as bytes, by example: what is refused, what it costs, and the fuzzer itself."""

from __future__ import annotations

import math
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

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
from latecomer.messages.homes import PROFILE_MAX, Addresses, Profile, ProfileWanted
from latecomer.messages.link import (
    ERRAND_MAX,
    FRAME_MAX,
    STREAMS_MAX,
    Adopted,
    Alive,
    Compare,
    Compared,
    Credit,
    Errand,
    ErrandAnswer,
    Keeping,
    LinkMessage,
    Lost,
    Publication,
    Request,
    RequestId,
    Response,
    ResponseEnd,
    Settled,
    StoreAdvertise,
    StoreWithdraw,
    Subscribe,
)
from latecomer.messages.mqtt import Connect, Pingreq, Puback, Publish
from latecomer.messages.reposition import NO_STAMP, Positions, PositionsKnown, Prepared, Proposal, Stamp, Withdrawn
from latecomer.model.content import MAX_CONSTRAINTS, Constraint, Op
from latecomer.model.content.terms import Conjunction
from latecomer.model.errors import ProtocolError
from latecomer.model.event import Event
from latecomer.model.filters import Filter, parse_filter
from latecomer.model.history import Key, Query, Slice
from latecomer.model.ids import NAME_MAX, EventId
from latecomer.model.record import Kind, Record
from latecomer.sim.transcript import CHATTER, message_line, message_name, message_text, record_line
from latecomer.wire import link as wire
from latecomer.wire.link import (
    HEADER,
    PATH_MAX,
    PROBLEM_MAX,
    REASON_MAX,
    SLICES_MAX,
    TOPICS_MAX,
    Reader,
    decode_body,
    encode,
)
from latecomer.wire.mqtt import encode as encode_packet
from tests.fuzz.link import EXAMPLES, framed
from tests.fuzz.presence import need_atheris

pack = msgspec.msgpack.encode


def event(topic: str = "t", **attributes: Any) -> list[Any]:
    return [["b", 1, 1], topic, "c", 0, True, attributes]


def where(*constraint: Any) -> list[Any]:
    return ["subscribe", [["t", [[list(constraint)]]]]]


# --- the bytes ------------------------------------------------------------------------------------


def test_the_bytes_of_a_message() -> None:
    assert encode(Alive(7)) == b"\0\0\0\x08" + b"\x92" + b"\xa5alive" + b"\x07"


def test_the_fuzzer_has_an_example_of_every_message() -> None:
    assert {type(example) for example in EXAMPLES} == set(get_args(LinkMessage))
    assert Reader().feed(b"".join(map(encode, EXAMPLES))) == list(EXAMPLES)


# --- what is refused ------------------------------------------------------------------------------

NESTED = b"\x93" + pack("adopted") + pack("v") + b"\x91" * 100_000 + b"\x01"

REFUSED = {
    "nothing": b"",
    "a map": pack({"type": "alive", "received": 1}),
    "an unknown name": pack(["nonsense", 1]),
    "a number for a name": pack([1, 1]),
    "no elements": pack([]),
    "too few elements": pack(["alive"]),
    "bytes behind the message": pack(["alive", 1]) + b"\0",
    "deep nesting in what is skipped": NESTED,
    "deep nesting": b"\x91" * 100_000,
    "invalid UTF-8": b"\x92" + pack("adopted") + b"\xa2\xff\xfe",
    "half a surrogate pair": b"\x92" + pack("adopted") + b"\xa3\xed\xa0\x80",
    "a boolean for a number": pack(["alive", True]),
    "a fraction for a number": pack(["alive", 1.0]),
    "a negative number": pack(["alive", -1]),
    "more than 63 bits": pack(["alive", 2**63]),
    "a negative sequence number": pack(["publication", [["b", 1, -1], "t"]]),
    "a negative instant": pack(["publication", [["b", 1, 1], "t", "c", -1]]),
    "a negative cost": pack(["link-states", [["b", 1, 1, [["c", 1, -5]]]]]),
    "a negative entry": pack(["summary", [["b", 1, -1]]]),
    "an entry too short": pack(["summary", [["b", 1]]]),
    "a negative report": pack(["done", "b", 1, [1, 2, -3]]),
    "a nameless sender": pack(["hello", "n", "", 1, 1, 1]),
    "a nameless origin": pack(["publication", [["", 1, 1], "t"]]),
    "a nameless addressee": pack(["publication", event(), ["b", ""]]),
    "a nameless neighbour": pack(["link-states", [["b", 1, 1, [["", 1, 5]]]]]),
    "a topic with a wildcard": pack(["publication", event("a/#")]),
    "a topic too deep": pack(["publication", event("/" * 1000)]),
    "no topic": pack(["publication", event("")]),
    "a list for an attribute": pack(["publication", event(x=[1])]),
    "null for an attribute": pack(["publication", event(x=None)]),
    "a text for a payload": pack(["publication", [*event(), "text"]]),
    "an illegal topic filter": pack(["subscribe", [["a/#/b"]]]),
    "an empty topic filter": pack(["advertise", [[""]], 1]),
    "an unknown operator": pack(where("x", "like", "y")),
    "NaN in a filter": pack(where("x", "=", math.nan)),
    "infinity in a filter": pack(where("x", "in", [1, math.inf])),
    "64 bits in a filter": pack(where("x", "=", 2**63)),
    "an order of booleans": pack(where("x", "<", True)),
    "a list within a list": pack(where("x", "in", [[1]])),
    "too many members": pack(where("x", "in", list(range(257)))),
    "too many constraints": pack(["subscribe", [["t", [[["x", ">", n] for n in range(MAX_CONSTRAINTS + 1)]]]]]),
    "a filter too long": pack(where("x", "=", "y" * 5000)),
    "a long list claimed": b"\x92" + pack("subscribe") + b"\xdd\xff\xff\xff\xff",
    "a long list claimed deep inside": b"\x92" + pack("subscribe") + b"\x91\x92\xa1t\x91\xdd\xff\xff\xff\xff",
    "long entries claimed": b"\x92" + pack("summary") + b"\xdd\x7f\xff\xff\xff",
    "a long message claimed": b"\xdd\xff\xff\xff\xff" + pack("alive") + b"\x01",
    "a long map claimed": b"\x92" + pack("publication") + pack(event())[:-1] + b"\xdf\xff\xff\xff\xff",
    "a long text claimed": b"\x92" + pack("adopted") + b"\xdb\xff\xff\xff\xff",
    "long bytes claimed": b"\x92" + pack("publication") + b"\x97" + pack(event())[1:] + b"\xc6\xff\xff\xff\xff",
    "a long list skipped": b"\x93" + pack("adopted") + pack("v") + b"\xdd\xff\xff\xff\xff",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_refused(body: bytes) -> None:
    """With a `ProtocolError` whose sentence can be logged, without taking memory for what is only claimed."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=r"^not a link message: ") as caught:
            decode_body(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value).isprintable()
    assert peak < 1_000_000


# --- stores: what is refused ----------------------------------------------------------------------

ID = RequestId("4", 7, 1)
KEY = Key(5, "1", 1, 1)
PATH = tuple(f"b{number}" for number in range(PATH_MAX))
EVENT = Event(EventId("1", 1, 1), "a")
LOOSE = Filter("t", Conjunction(tuple(Constraint("x", Op.GT, n) for n in range(MAX_CONSTRAINTS + 1))))
DEEP = "/".join("a" * 129)


def request(path: tuple[str, ...] = ("4",), query: Query | None = None, **more: Any) -> Request:
    return Request(ID, path, more.pop("topics", "a"), query or Query(Filter("a")), **more)


def response(*events: Event, path: tuple[str, ...] = ("4",), left: tuple[int, ...] | None = None) -> Response:
    return Response(ID, path, "2", events, (0,) * len(events) if left is None else left)


def response_end(path: tuple[str, ...] = ("4",), problem: str = "") -> ResponseEnd:
    return ResponseEnd(ID, path, "2", 1, 0, problem)


TOPIC_CLASSES = {
    "store-advertise": lambda topics: StoreAdvertise((("a", 1), (topics, 2))),
    "store-withdraw": lambda topics: StoreWithdraw(("a", topics)),
    "request": lambda topics: request(topics=topics),
    "keeping": lambda topics: Keeping("2", 1, 1, ("a", topics)),
    "compare": lambda topics: Compare("2", "5", 1, topics, 0, 9, 1),
}
"""Every message that names topic classes, with one of them given."""
PATHS = {"request": request, "response": lambda path: response(path=path), "response-end": response_end}

STORES_REFUSED: dict[str, tuple[LinkMessage, str]] = {
    "a later beginning": (request(query=Query(Filter("a"), 6, 5)), "a query until 5 cannot begin later, at 6"),
    "last and after": (request(query=Query(Filter("a"), last=1, after=KEY)), "the last events or .*, not for both"),
    "constraints of a query": (request(query=Query(LOOSE)), f"at most {MAX_CONSTRAINTS} constraints"),
    "a query too long": (
        request(query=Query(Filter("a", Conjunction((Constraint("x", Op.EQ, "y" * 5000),))))),
        "a content filter has at most",
    ),
    "the name of a store": (request(store="x" * (NAME_MAX + 1)), f"at most {NAME_MAX} characters, not {NAME_MAX + 1}"),
    "no life": (response(EVENT, EVENT, left=(0,)), "2 events came with 1 times"),
    "more lives": (response(EVENT, left=(0, 0)), "1 events came with 2 times"),
    "a topic with a wildcard": (response(EVENT, msgspec.structs.replace(EVENT, topic="a/#")), "the wildcard '#'"),
    "no topic": (response(msgspec.structs.replace(EVENT, topic="")), "at least one character"),
    "a long problem": (response_end(problem="x" * (PROBLEM_MAX + 1)), f"at most {PROBLEM_MAX} characters"),
    "a long problem of slices": (Compared("2", "5", 1, (), "x" * (PROBLEM_MAX + 1)), f"at most {PROBLEM_MAX} char"),
    "many topic classes": (
        Keeping("2", 1, 1, ("a",) * (TOPICS_MAX + 1)),
        f"at most {TOPICS_MAX} topic classes, not {TOPICS_MAX + 1}",
    ),
    "a word too few": (
        Keeping("2", 1, 1, ("a", "b"), 5, False, ((5, False),)),
        "one word about each topic class, not 2 topic classes and 1 words",
    ),
    "a long errand": (Errand("2", "5", 1, bytes(ERRAND_MAX + 1)), f"at most {ERRAND_MAX} bytes, not {ERRAND_MAX + 1}"),
    "a long answer": (ErrandAnswer("5", "2", 1, bytes(ERRAND_MAX + 1)), f"at most {ERRAND_MAX} bytes"),
    "a long problem of an errand": (
        ErrandAnswer("5", "2", 1, b"", "x" * (PROBLEM_MAX + 1)),
        f"at most {PROBLEM_MAX} ch",
    ),
    "many slices": (
        Compared("2", "5", 1, (Slice(0, 1, 1),) * (SLICES_MAX + 1)),
        f"at most {SLICES_MAX} slices at once, not {SLICES_MAX + 1}",
    ),
    "many origins": (
        Compared("2", "5", 1, (), "", (("3", 1, 1),) * (STREAMS_MAX + 1)),
        f"at most {STREAMS_MAX} absent origins' streams, not {STREAMS_MAX + 1}",
    ),
    "no distance": (StoreAdvertise((("a", 0),)), "Expected `int` >= 1"),
    "no width": (Compare("2", "5", 1, "a", 0, 9, 0), "Expected `int` >= 1"),
    "a nameless store": (Credit(ID, "", 1), "Expected `str` of length >= 1"),
    "a nameless asker": (Credit(RequestId("", 1, 1), "2", 1), "Expected `str` of length >= 1"),
}


POSITIONS_REFUSED: dict[str, tuple[LinkMessage, str]] = {
    "no epoch": (Positions(NO_STAMP, ()), "an epoch from 1 on"),
    "nobody": (Proposal(Stamp(1, "", 1), NO_STAMP, ()), "the name of the broker"),
    "a broker twice": (Positions(Stamp(1, "1", 1), (("1", 5), ("1", 6))), "name a broker twice"),
    "a position twice": (Positions(Stamp(1, "1", 1), (("1", 5), ("2", 5))), "two brokers at one place"),
    "beyond the ring": (Positions(Stamp(1, "1", 1), (("1", 2**32),)), "from 0 to 4294967295, not 4294967296"),
    "before the ring": (Positions(Stamp(1, "1", 1), (("1", -1),)), "Expected `int` >= 0"),
    "a nameless broker": (Proposal(Stamp(1, "1", 1), NO_STAMP, (("", 1),)), "Expected `str` of length >= 1"),
    "a long story": (Prepared("2", "1", NO_STAMP, "x" * 301), "Expected `str` of length <= 300"),
}


@pytest.mark.parametrize(("message", "sentence"), POSITIONS_REFUSED.values(), ids=POSITIONS_REFUSED)
def test_what_nobody_may_say_about_positions(message: LinkMessage, sentence: str) -> None:
    refused(message, sentence)


@pytest.mark.parametrize(("message", "sentence"), STORES_REFUSED.values(), ids=STORES_REFUSED)
def test_what_stores_may_not_say(message: LinkMessage, sentence: str) -> None:
    refused(message, sentence)


@pytest.mark.parametrize("make", TOPIC_CLASSES.values(), ids=TOPIC_CLASSES)
def test_topic_classes_are_legal_filters(make: Any) -> None:
    accepted(make("a/+/#"))
    for topics, sentence in (("a/#/b", "'#' must be the last"), ("a+", "'\\+' must stand alone"), ("\0", "null")):
        refused(make(topics), sentence)
    refused(make(DEEP), "at most 128 levels, this one has 129")
    refused(make(""), "of length >= 1")
    refused(make("ä" * 40_000), "at most 65535 bytes")


@pytest.mark.parametrize("make", PATHS.values(), ids=PATHS)
def test_a_path_leads_somewhere_and_never_in_circles(make: Any) -> None:
    accepted(make(PATH))
    refused(make((*PATH, "one more")), f"a path has 1 to {PATH_MAX} brokers, not {PATH_MAX + 1}")
    refused(make(()), f"a path has 1 to {PATH_MAX} brokers, not 0")
    refused(make(("4", "3", "4")), "a path leads to each broker once")
    refused(make(("4", "")), "of length >= 1")


@pytest.mark.parametrize(
    "message",
    [
        request(query=Query(Filter("a"), 5, 5)),
        request(query=Query(Filter("a"), 6, 0)),
        request(query=Query(Filter("a"), after=KEY), store="x" * NAME_MAX),
        response(),
        response_end(problem="x" * PROBLEM_MAX),
        StoreAdvertise(()),
        Keeping("2", 1, 1, ("a",) * TOPICS_MAX),
        Keeping("2", 1, 1, ("a", "b"), 5, True, ((5, False), (9, True))),
        Errand("2", "5", 1, bytes(ERRAND_MAX)),
        ErrandAnswer("5", "2", 1, bytes(ERRAND_MAX), "x" * PROBLEM_MAX),
        Compared("2", "5", 1, (Slice(0, 1, 1),) * SLICES_MAX, "x" * PROBLEM_MAX, (("3", 1, 1),) * STREAMS_MAX),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_stores_may_just_say(message: LinkMessage) -> None:
    accepted(message)


def accepted(message: LinkMessage) -> None:
    assert decode_body(encode(message)[HEADER:]) == message


def refused(message: LinkMessage, sentence: str) -> None:
    with pytest.raises(ProtocolError, match=rf"^not a link message: .*{sentence}") as caught:
        decode_body(encode(message)[HEADER:])
    assert str(caught.value).isprintable()


def test_a_reason_is_short_and_printable() -> None:
    for body in (pack(["\x1b[31m\n" * 10_000]), pack(where("x" * 100_000, "=", None)), pack(["adopted\n\x1b"])):
        with pytest.raises(ProtocolError) as caught:
            decode_body(body)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < REASON_MAX + 50


def test_accepted_although_odd() -> None:
    odd = decode_body(pack(["publication", event(a=math.nan, b=-math.inf, c=2**64 - 1)]))
    assert isinstance(odd, Publication)
    assert math.isnan(odd.event.attributes["a"])  # type: ignore[arg-type]
    twice = pack(event())[:-1] + b"\x82" + pack("x") + pack(1) + pack("x") + pack(2)
    later = decode_body(b"\x92" + pack("publication") + twice)
    assert isinstance(later, Publication)
    assert later.event.attributes == {"x": 2}
    assert decode_body(pack(["adopted", ""])) == Adopted("")


def test_a_filter_of_a_peer_is_usable() -> None:
    for value in (1, True, 1.0, "a", [], [1, True, 1.0, "a"]):
        op = "in" if isinstance(value, list) else "="
        message = decode_body(pack(where("a b", op, value)))
        assert isinstance(message, Subscribe)
        (filter,) = message.filters
        assert {filter: str(filter)}[filter].startswith("t ? ")


# --- limits ---------------------------------------------------------------------------------------


def publication(payload: bytes = b"", **attributes: Any) -> Publication:
    return Publication(Event(EventId("b", 1, 1), "t", attributes=attributes, payload=payload))


def test_the_largest_frame_passes_and_a_larger_one_does_not() -> None:
    overhead = len(encode(publication(b"x" * 70_000))) - HEADER - 70_000
    largest = publication(b"x" * (FRAME_MAX - overhead))
    frame = encode(largest)
    assert len(frame) == HEADER + FRAME_MAX
    assert Reader().feed(frame) == [largest]
    with pytest.raises(ProtocolError, match="Publication of 16777217 bytes exceeds"):
        encode(publication(b"x" * (FRAME_MAX - overhead + 1)))


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800"])
def test_what_messagepack_cannot_say_is_not_written(value: object) -> None:
    with pytest.raises(ProtocolError, match="Publication cannot be written"):
        encode(publication(x=value))


def test_a_response_that_no_frame_can_carry_is_not_written() -> None:
    large = msgspec.structs.replace(EVENT, payload=bytes(FRAME_MAX // 2))
    accepted(response(large))
    with pytest.raises(ProtocolError, match=r"^a Response of 167\d{5} bytes exceeds the frame limit of 16777216$"):
        encode(response(large, large))
    odd = msgspec.structs.replace(EVENT, attributes={"x": 2**64})
    with pytest.raises(ProtocolError, match=r"^a Response cannot be written: "):
        encode(response(EVENT, odd))


@pytest.mark.parametrize("step", [1, 3, 64])
def test_an_oversized_length_is_refused_with_its_last_byte(step: int) -> None:
    reader = Reader()
    stream = encode(Alive(1)) + (FRAME_MAX + 1).to_bytes(HEADER, "big")
    chunks = [stream[start : start + step] for start in range(0, len(stream), step)]
    for chunk in chunks[:-1]:
        reader.feed(chunk)
    with pytest.raises(ProtocolError, match="16777217 bytes exceeds"):
        reader.feed(chunks[-1])
    assert reader.pending == 0


def test_a_lost_stream_stays_lost() -> None:
    reader = Reader()
    for _ in range(2):
        with pytest.raises(ProtocolError):
            reader.feed(framed(b"\xc1"))
    with pytest.raises(ProtocolError, match="lost"):
        reader.feed(encode(Alive(1)))


# --- cost -----------------------------------------------------------------------------------------


def test_a_large_frame_in_small_chunks_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not measured by the clock: frames are only cut when one is whole, and the buffer grows in place."""
    cuts: list[int] = []
    cut = wire._cut

    def counting(data: bytes, limit: int) -> tuple[list[LinkMessage], int, int]:
        cuts.append(len(data))
        return cut(data, limit)

    monkeypatch.setattr(wire, "_cut", counting)
    message = publication(bytes(FRAME_MAX - 1000))
    frame = encode(message)
    reader = Reader()
    found = [read for start in range(0, len(frame), 1024) for read in reader.feed(frame[start : start + 1024])]
    assert found == [message]
    assert cuts == [1024, len(frame)]  # once for the length, once for the message


def test_one_byte_at_a_time_costs_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    cut = wire._cut

    def counting(data: bytes, limit: int) -> tuple[list[LinkMessage], int, int]:
        looked.append(len(data))
        return cut(data, limit)

    monkeypatch.setattr(wire, "_cut", counting)
    frames = [encode(Alive(number)) for number in range(100)]
    reader = Reader()
    found = [read for byte in b"".join(frames) for read in reader.feed(bytes((byte,)))]
    assert found == [Alive(number) for number in range(100)]
    assert sum(looked) <= sum(1 + HEADER + len(frame) for frame in frames)


def test_a_legal_filter_keeps_its_meaning() -> None:
    """Also one that is not canonical: it is compared by meaning, and never rewritten on the way."""
    loose = Filter("t", Conjunction((Constraint("x", Op.GE, 1), Constraint("x", Op.GE, 0))))
    assert decode_body(encode(Subscribe((loose,)))[HEADER:]) == Subscribe((loose,))


# --- in words -------------------------------------------------------------------------------------

A_PRICE = parse_filter("a ? price > 3")
ATTEMPT = Attempt("2", 1, 7)
STAMP = Stamp(2, "1", 7)
WORDS: dict[str, LinkMessage] = {
    "store-advertise a (1 hop), b (2 hops)": StoreAdvertise((("a", 1), ("b", 2))),
    "store-withdraw a, b": StoreWithdraw(("a", "b")),
    "settled for tree 01234567": Settled("0123456789"),
    "lost for 2": Lost("1", "2", 2_000_000, 3_000_000),
    "request 4.7/1 a by 4": request(),
    "request 4.7/1 a ? price > 3 since 2.500000 for A by 4 3": request(
        ("4", "3"), Query(A_PRICE, 3_500_000), client="A"
    ),
    "request 4.7/1 a/b in a/# until -0.000001 last 9 for A by 4": request(
        query=Query(Filter("a/b"), 0, 999_999, 9), topics="a/#", client="A"
    ),
    "request 4.7/1 a after 1.1.1 at 2 by 4": request(query=Query(Filter("a"), after=KEY), store="2"),
    "response 4.7/1 2 events by 4 3": response(EVENT, EVENT, path=("4", "3")),
    "response 4.7/1 1 event by 4": response(EVENT),
    "response-end 4.7/1 complete, 1 hop": response_end(),
    "response-end 4.7/1 incomplete, 1 hop: gone": response_end(problem="gone"),
    "response-end 4.7/1 incomplete for now, 1 hop: busy": msgspec.structs.replace(
        response_end(problem="busy"), final=False
    ),
    "credit 4.7/1 of 8 responses to 2": Credit(ID, "2", 8),
    "keeping of 2: a, b/#": Keeping("2", 1, 1, ("a", "b/#")),
    "keeping of 2 (filling): a": Keeping("2", 1, 1, ("a",), filling=True),
    "compare a with 5 for 2": Compare("2", "5", 1, "a", 0, 9, 1),
    "compared with 5 for 2, 1 slice": Compared("2", "5", 1, (Slice(0, 1, 1),)),
    "compared with 5 for 2, 0 slices: busy": Compared("2", "5", 1, (), "busy"),
    "addresses of 2: tcp b2:1883, ws [::1]:8083": Addresses("2", 1, 1, (("tcp", "b2:1883"), ("ws", "[::1]:8083"))),
    "addresses of 2 (closed): none": Addresses("2", 1, 1, (), False),
    "profile-wanted of 2 by 5, which has 3": ProfileWanted("5", "2", 1, 3),
    "profile 4 of 2 for 5, after 3: 7 clients, 9 subscriptions, +2 -1": Profile(
        "2", "5", 1, 4, 3, 7, 9, 100, (1, 2), (3,)
    ),
    "errand of 2 to 5": Errand("2", "5", 1, b"{}"),
    "errand-answer of 5 for 2": ErrandAnswer("5", "2", 1, b"{}"),
    "errand-answer of 5 for 2: no": ErrandAnswer("5", "2", 1, b"", "no"),
    "positions 2 by 1.7 of 2 brokers": Positions(STAMP, (("1", 5), ("2", 9))),
    "positions-known none": PositionsKnown(NO_STAMP),
    "proposal 2 by 1.7 of 1 broker, after none": Proposal(STAMP, NO_STAMP, (("1", 5),)),
    "prepared from 2 to 1: 2 by 1.7": Prepared("2", "1", STAMP),
    "prepared from 2 to 1: 2 by 1.7, no: alone": Prepared("2", "1", STAMP, "alone"),
    "withdrawn 2 by 1.7": Withdrawn(STAMP),
    "seek by 2: c, d (ends)": Seek("v", "2", (Seeker("c", "", 1), Seeker("d", "", 1, ends=True))),
    "here from 5 to 2: c is at 4": Here("5", "2", "c", "4"),
    "here from 5 to 2: c is at 5, refused (younger)": Here("5", "2", "c", "5", refusal="younger"),
    "end from 2 to 5: c": End("2", "5", "c", 1),
    "ask from 2 to 5 for the subscriptions of c (2.1/7)": Ask("2", "5", ATTEMPT, "c", "", 1, True),
    "ask from 2 to 5 for the rest of c (2.1/7)": Ask("2", "5", ATTEMPT, "c", "", 1, True, True),
    "ask from 2 to 5 for the rest of c, which brought its subscriptions (2.1/7), in outline": Ask(
        "2", "5", ATTEMPT, "c", "", 1, True, True, 8, None, "d", True
    ),
    "standing from 5 to 2: the same subscriptions of c (2.1/7)": Standing(
        "5", "2", ATTEMPT, "c", b"", (), 1, 1, (), True
    ),
    "rows from 5 to 2: page 1 of c, 0 rows (2.1/7), 2 bytes of outline": Rows(
        "5", "2", ATTEMPT, "c", 1, (), None, b"12"
    ),
    "want from 2 to 5: up to page 9 of c (2.1/7), lacking 3, 4": Want("2", "5", ATTEMPT, "c", 9, 1, (3, 4)),
    "standing from 5 to 2: 1 subscriptions of c (2.1/7)": Standing("5", "2", ATTEMPT, "c", b"", (b"",), 1, 1),
    "rows from 5 to 2: page 1 of c, 0 rows (2.1/7)": Rows("5", "2", ATTEMPT, "c", 1, ()),
    "rows from 5 to 2: page 2 of c, 0 rows (2.1/7), granted": Rows("5", "2", ATTEMPT, "c", 2, (), Grant((), 0)),
    "want from 2 to 5: up to page 9 of c (2.1/7)": Want("2", "5", ATTEMPT, "c", 9),
    "ask-refused from 5 to 2: c: unknown (2.1/7)": AskRefused("5", "2", ATTEMPT, "c", "unknown"),
    "taken from 2 to 5: c: yes (2.1/7)": Taken("2", "5", ATTEMPT, "c", True),
    "released from 5 to 2 (2.1/7)": Released("5", "2", ATTEMPT),
    "offer from 5 to 2: c (2.1/7)": Offer("5", "2", ATTEMPT, "c"),
    "fetch from 5 to 2: c": Fetch("5", "2", "c", ""),
    "whereabouts from 5 to 2: anew: c, no longer d": Whereabouts("5", "2", 1, (("c", True), ("d", False)), True),
    "whereabouts-kept from 2 to 5: batch 1": WhereaboutsKept("2", "5", 1),
    "ask from 2 to 5 to serve c (2.1/7)": Ask("2", "5", ATTEMPT, "c", "", 1, True, connect=Packets(5, (Connect("c"),))),
    "attached from 5 to 2: c (2.1/7)": Attached("5", "2", ATTEMPT, "c"),
    "relay from 2 to 5: puback, pingreq, credit 300 (2.1/7)": Relay(
        "2", "5", ATTEMPT, 1, Packets(5, (Puback(1), Pingreq())), 300
    ),
    "relay from 5 to 2: nothing (2.1/7)": Relay("5", "2", ATTEMPT, 1, Packets(4, ())),
    "detach from 5 to 2: goodbye (2.1/7)": Detach("5", "2", ATTEMPT),
    "ask from 2 to 5 for the subscriptions of c (2.1/7), has copy 2.1/7": Ask(
        "2", "5", ATTEMPT, "c", "", 1, True, copy=ATTEMPT
    ),
    "standing from 5 to 2: 0 subscriptions of c (2.1/7), the copy holds": Standing(
        "5", "2", ATTEMPT, "c", b"", (), 1, 1, copy=True
    ),
    "shadow-offer from 2 to 5: 1 subscriptions of c (2.1/7)": ShadowOffer("2", "5", ATTEMPT, "c", "", (b"",)),
    "shadow-wanted from 5 to 2: up to page 8 of c (2.1/7)": ShadowWanted("5", "2", ATTEMPT, "c", 8),
    "shadow-rows from 2 to 5: page 1 of c, 0 rows (2.1/7)": ShadowRows("2", "5", ATTEMPT, "c", 1, ()),
    "shadow-rows from 2 to 5: page 2 of c, 0 rows (2.1/7), complete": ShadowRows("2", "5", ATTEMPT, "c", 2, (), True),
    "shadow-lost from 2 to 5: c (2.1/7)": ShadowLost("2", "5", ATTEMPT, "c"),
    "remembered from 5 to 2: c, at 4": Remembered("5", "2", "c", "4", "", b""),
    "remembered from 5 to 2: c, lost by 4": Remembered("5", "2", "c", "4", "", b"", True),
    "leftovers from 5 to 2 for c: there are some": Leftovers("5", "2", "c"),
    "leftovers from 5 to 2 for c: rows 1 to 3 (2.1/7)": Leftovers(
        "5", "2", "c", "2.1/7", (Row("queue", 1, b""), Row("queue", 3, b""))
    ),
    "leftovers from 5 to 2 for c: nothing more": Leftovers("5", "2", "c", last=True),
    "leftovers-wanted from 2 to 5 for c: up to row 3 is safe (2.1/7)": LeftoversWanted("2", "5", "c", "", "2.1/7", 3),
    "leftovers-wanted from 2 to 5 for c: discarded": LeftoversWanted("2", "5", "c", "", discard=True),
}
RECORDS = {
    "2 keeping a": Record(0, "2", Kind.KEEPING, filter="a"),
    "2 not keeping a": Record(0, "2", Kind.NOT_KEEPING, filter="a"),
    "3 tabled a by 5: equal (1 hop)": Record(0, "3", Kind.TABLED, filter="a", peer="5", hops=1, detail="equal"),
    "3 tabled a by 5: withdrawn": Record(0, "3", Kind.TABLED, filter="a", peer="5", detail="withdrawn"),
    "4 requested a for A": Record(0, "4", Kind.REQUESTED, filter="a", client="A"),
    "2 served a to 4 (2 hops, 3 events)": Record(0, "2", Kind.SERVED, filter="a", peer="4", hops=2, count=3),
    "4 recalled a for A from 2 (2 hops, 3 events)": Record(
        0, "4", Kind.RECALLED, filter="a", client="A", peer="2", hops=2, count=3
    ),
    "4 recalled a for A from nobody (0 events): no store": Record(
        0, "4", Kind.RECALLED, filter="a", client="A", detail="no store"
    ),
    "3 moved A here from 2, 5 waiting (7 ms)": Record(0, "3", Kind.MOVED, client="A", peer="2", count=5, detail="7 ms"),
    "3 restored 2 subscriptions of A, which was at 2 (owner away)": Record(
        0, "3", Kind.RESTORED, client="A", peer="2", count=2, detail="owner away"
    ),
    "4 replayed 1.1.1 a to A": Record(0, "4", Kind.REPLAYED, event="1.1.1", topic="a", client="A"),
}


@pytest.mark.parametrize("words", WORDS)
def test_a_message_in_words(words: str) -> None:
    """Times count from when time begins, like those of the lines themselves."""
    assert message_text(WORDS[words], begin_us=1_000_000) == words
    assert message_line(3_000_000, "4", "3", WORDS[words], 1_000_000) == f"    2.000000  4 -> 3    {words}"


@pytest.mark.parametrize("words", RECORDS)
def test_a_record_in_words(words: str) -> None:
    assert record_line(RECORDS[words]) == f"    0.000000  {words}"


def test_every_message_begins_with_its_name() -> None:
    for example in EXAMPLES:
        assert message_text(example).startswith(message_name(type(example)))


def test_book_keeping_between_brokers_is_left_out_of_stories() -> None:
    quiet = {kind for kind in map(type, WORDS.values()) if issubclass(kind, CHATTER)}
    homes = {Addresses, Profile, ProfileWanted}
    assert quiet == homes | {Settled, Keeping, Credit, Compare, Compared, Whereabouts, WhereaboutsKept}


def test_words_about_clients_are_limited_and_follow_an_older_one() -> None:
    def word(number: int, base: int, added: tuple[int, ...]) -> Profile:
        return Profile("2", "5", 1, number, base, 7, 9, 100, added)

    for good in (word(4, 4, ()), word(4, 0, tuple(range(PROFILE_MAX)))):
        assert decode_body(encode(good)[HEADER:]) == good
    for bad in (word(3, 4, ()), word(4, 0, tuple(range(PROFILE_MAX + 1)))):
        with pytest.raises(ProtocolError, match=r"tells of at most|cannot follow"):
            decode_body(encode(bad)[HEADER:])


# --- packets in frames ------------------------------------------------------------------------------


def relay_of(packets: bytes) -> bytes:
    """The body of a `Relay` with these bytes for packets."""
    good = encode(Relay("2", "5", ATTEMPT, 1, Packets(5, ())))[HEADER:]
    whole = msgspec.msgpack.decode(good)
    return msgspec.msgpack.encode([*whole[:5], packets, *whole[6:]])


def test_packets_travel_as_mqtt() -> None:
    packets = (Publish("t", b"p", 1, packet_id=3), Puback(1))
    body = relay_of(b"\x05" + b"".join(encode_packet(packet, 5) for packet in packets))
    assert decode_body(body) == Relay("2", "5", ATTEMPT, 1, Packets(5, packets))


@pytest.mark.parametrize(
    "packets",
    [
        pytest.param(b"", id="no version"),
        pytest.param(b"\x03\xc0\x00", id="an unknown version"),
        pytest.param(b"\x05\xc0", id="half a packet"),
        pytest.param(b"\x05\x32\x05\x00\x01t\x00\x00", id="packet id 0"),
        pytest.param(b"\x04\xf0\x00", id="AUTH in 3.1.1"),
        pytest.param(b"\x05\xff\xff\xff\xff\xff", id="no length"),
    ],
)
def test_packets_that_no_client_may_send_end_the_link(packets: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_body(relay_of(packets))


# --- the fuzzer -----------------------------------------------------------------------------------


def test_the_fuzzer_finds_nothing(tmp_path: Path) -> None:
    need_atheris()
    target = Path(__file__).resolve().parents[1] / "fuzz" / "link.py"
    done = subprocess.run(
        [sys.executable, str(target), "-runs=2000", "-seed=1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done 2000 runs" in done.stderr, done.stderr[-3000:]
    assert list(tmp_path.iterdir()) == []
