"""MQTT: every packet survives the bytes in both versions, however they are cut; other bytes are refused."""

from __future__ import annotations

from typing import Final, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.messages.mqtt import V5, V311, Auth, Connect, Packet
from latecomer.wire.mqtt import Reader, decode, encode, header
from tests.fuzz.mqtt import EXAMPLES, check_body, check_packet, check_stream, damaged, framed
from tests.strategies_mqtt import STRATEGIES, connects, packets

sizes: Final = st.lists(st.integers(1, 40), min_size=1, max_size=5)
versions: Final = st.sampled_from([V311, V5])
KINDS: Final = [(version, kind) for version, kinds in STRATEGIES.items() for kind in kinds]


def test_every_packet_has_a_strategy() -> None:
    assert set(STRATEGIES[V5]) == set(get_args(Packet))
    assert set(STRATEGIES[V311]) == set(get_args(Packet)) - {Auth}


def reader_for(version: int) -> Reader:
    reader = Reader()
    reader.version = version
    return reader


# --- what is written is read ----------------------------------------------------------------------


@pytest.mark.parametrize(("version", "kind"), KINDS, ids=lambda value: getattr(value, "__name__", f"v{value}"))
@given(data=st.data())
@settings(max_examples=60)
def test_every_packet_survives(version: int, kind: type, data: st.DataObject) -> None:
    packet: Packet = data.draw(STRATEGIES[version][kind])
    frame = encode(packet, version)
    found = header(frame, 0)
    assert found is not None
    assert found[1] == len(frame)
    assert decode(frame[0], frame[found[0] :], version) == packet
    check_packet(packet, version)


@given(st.data(), versions, sizes)
@settings(max_examples=200)
def test_however_the_stream_is_cut(data: st.DataObject, version: int, sizes: list[int]) -> None:
    sent = [data.draw(connects(version)), *data.draw(st.lists(packets[version], max_size=5))]
    stream = b"".join(encode(packet, version) for packet in sent)
    reader = Reader()
    assert reader.feed(stream) == sent
    assert (reader.problem, reader.version, reader.pending) == (None, version, 0)
    assert check_stream(stream, [1], 0) == sent
    assert check_stream(stream, sizes, 0) == sent


@given(st.data(), versions)
@settings(max_examples=150)
def test_every_prefix_is_incomplete(data: st.DataObject, version: int) -> None:
    packet = data.draw(packets[version])
    frame = encode(packet, version)
    for cut in range(len(frame)):
        reader = reader_for(version)
        assert reader.feed(frame[:cut]) == []
        assert reader.problem is None
        assert reader.pending == cut
        assert reader.feed(memoryview(frame)[cut:]) == [packet]


@given(st.data(), versions)
@settings(max_examples=100)
def test_what_comes_before_a_problem_is_read(data: st.DataObject, version: int) -> None:
    sent = data.draw(st.lists(packets[version], max_size=4))
    reader = reader_for(version)
    stream = b"".join(encode(packet, version) for packet in sent)
    assert reader.feed(stream + b"\x00\x00" + stream) == sent
    assert reader.problem is not None
    assert reader.feed(stream) == []


# --- bytes from anywhere --------------------------------------------------------------------------


@given(st.binary(max_size=80), sizes, st.sampled_from([0, V311, V5]))
@settings(max_examples=300)
def test_random_bytes(stream: bytes, sizes: list[int], version: int) -> None:
    check_stream(stream, sizes, version)


@given(st.integers(0, 255), st.binary(max_size=80), versions)
@settings(max_examples=500)
def test_random_bodies(first: int, body: bytes, version: int) -> None:
    check_body(first, body, version)
    check_stream(framed(first, body), [7], version)


@given(st.data(), versions, st.lists(st.binary(min_size=3, max_size=3), min_size=1, max_size=4), sizes)
@settings(max_examples=500)
def test_damaged_packets(data: st.DataObject, version: int, edits: list[bytes], sizes: list[int]) -> None:
    packet = data.draw(packets[version])
    stream = damaged(packet, version, b"".join(edits)) + encode(packet, version)
    check_stream(stream, sizes, 0 if isinstance(packet, Connect) else version)


@given(st.data(), versions)
@settings(max_examples=150)
def test_no_packet_goes_on_when_its_body_is_cut(data: st.DataObject, version: int) -> None:
    """A body may be cut where the rest is optional or a payload; what is read then can still be written."""
    packet = data.draw(packets[version])
    frame = encode(packet, version)
    found = header(frame, 0)
    assert found is not None
    for end in range(found[0], len(frame)):
        check_body(frame[0], frame[found[0] : end], version)


def test_the_examples_of_the_fuzzer_are_lawful() -> None:
    assert {type(example) for example in EXAMPLES} == set(get_args(Packet))
    for example in EXAMPLES:
        check_packet(example, V5 if not isinstance(example, Connect) else example.version)
