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

from latecomer.messages.link import FRAME_MAX, Adopted, Alive, LinkMessage, Publication, Subscribe
from latecomer.model.content import MAX_CONSTRAINTS, Constraint, Op
from latecomer.model.content.terms import Conjunction
from latecomer.model.errors import ProtocolError
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.ids import EventId
from latecomer.wire import link as wire
from latecomer.wire.link import HEADER, REASON_MAX, Reader, decode_body, encode
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
