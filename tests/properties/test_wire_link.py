"""Broker links: every message survives the bytes, however they are cut; other bytes are refused."""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.messages.link import LinkMessage
from latecomer.model.errors import ProtocolError
from latecomer.wire.link import HEADER, Reader, decode_body, encode
from latecomer.wire.packets import encode_packets
from tests.fuzz.link import check_message, check_stream, framed
from tests.strategies import STRATEGIES, messages

sizes: Final = st.lists(st.integers(1, 40), min_size=1, max_size=5)


def test_every_message_has_a_strategy() -> None:
    assert set(STRATEGIES) == set(get_args(LinkMessage))


# --- what is written is read ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", get_args(LinkMessage), ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=60)
def test_every_message_survives(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    message: LinkMessage = data.draw(STRATEGIES[kind])
    frame = encode(message)
    assert int.from_bytes(frame[:HEADER], "big") == len(frame) - HEADER
    assert decode_body(frame[HEADER:]) == message
    assert decode_body(memoryview(frame)[HEADER:]) == message
    check_message(message)


@given(st.lists(messages, max_size=5), sizes)
@settings(max_examples=150)
def test_however_the_stream_is_cut(sent: list[LinkMessage], sizes: list[int]) -> None:
    stream = b"".join(map(encode, sent))
    assert Reader().feed(stream) == sent
    assert check_stream(stream, [1]) == sent
    assert check_stream(stream, sizes) == sent


@given(messages, messages)
@settings(max_examples=50)
def test_a_message_comes_with_its_last_byte(first: LinkMessage, second: LinkMessage) -> None:
    reader = Reader()
    frame = encode(first)
    assert reader.feed(frame[:-1]) == []
    assert reader.pending == len(frame) - 1
    assert reader.feed(frame[-1:] + encode(second)[:2]) == [first]
    assert reader.pending == 2
    assert reader.feed(bytearray(encode(second)[2:])) == [second]
    assert reader.pending == 0


# --- messages grow --------------------------------------------------------------------------------


def grown(struct: Any, news: list[Any]) -> list[Any]:
    """A struct as a newer broker might send it: with elements at the end that we do not know, also further inside."""
    tag = type(struct).__struct_config__.tag
    fields = [getattr(struct, name) for name in type(struct).__struct_fields__]
    return [*([tag] if tag else []), *(_grown_value(value, news) for value in fields), *news]


def _grown_value(value: Any, news: list[Any]) -> Any:
    if isinstance(value, msgspec.Struct):
        return grown(value, news)
    if isinstance(value, tuple):
        return [_grown_value(member, news) if isinstance(member, msgspec.Struct) else member for member in value]
    return value


unknown: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(messages, st.lists(unknown, min_size=1, max_size=3))
@settings(max_examples=150)
def test_what_a_newer_broker_appends_is_skipped(message: LinkMessage, news: list[Any]) -> None:
    assert decode_body(msgspec.msgpack.encode(grown(message, news), enc_hook=encode_packets)) == message


def required(kind: type[msgspec.Struct]) -> int:
    return sum(field.required for field in msgspec.structs.fields(kind))


@given(messages)
@settings(max_examples=150)
def test_what_an_older_broker_does_not_send_has_its_default(message: LinkMessage) -> None:
    whole = msgspec.msgpack.decode(encode(message)[HEADER:])
    for count in range(required(type(message)), len(whole) - 1):
        older = decode_body(msgspec.msgpack.encode(whole[: 1 + count]))
        given = msgspec.structs.astuple(message)[:count]
        assert older == type(message)(*given)
    with pytest.raises(ProtocolError):
        decode_body(msgspec.msgpack.encode(whole[: required(type(message))]))


# --- bytes from anywhere --------------------------------------------------------------------------


@given(st.binary(max_size=60), sizes)
@settings(max_examples=300)
def test_random_bytes(stream: bytes, sizes: list[int]) -> None:
    check_stream(stream, sizes)
    check_stream(framed(stream), sizes)


@given(st.sampled_from([str(kind.__struct_config__.tag) for kind in STRATEGIES]), st.lists(unknown, max_size=8))
@settings(max_examples=300)
def test_random_elements_behind_a_name(name: str, elements: list[Any]) -> None:
    check_stream(framed(msgspec.msgpack.encode([name, *elements])), [7])


edits: Final = st.tuples(st.integers(0, 2), st.integers(0, 2**16), st.binary(min_size=1, max_size=4))


@given(messages, messages, st.lists(edits, min_size=1, max_size=4), st.booleans(), sizes)
@settings(max_examples=500)
def test_damaged_frames(
    first: LinkMessage, second: LinkMessage, edits: list[tuple[int, int, bytes]], whole: bool, sizes: list[int]
) -> None:
    """Overwritten, cut and stretched; with and without a length that fits."""
    stream = bytearray(encode(first)[HEADER if whole else 0 :])
    for kind, place, text in edits:
        at = place % (len(stream) + 1)
        stream[at : at + (0, len(text), len(text))[kind]] = (text, text, b"")[kind]
    check_stream((framed(bytes(stream)) if whole else bytes(stream)) + encode(second), sizes)
