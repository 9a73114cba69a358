"""Runs of PUBLISH frames in other forms, compared with what the codec makes of the same packets."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from latecomer.messages.mqtt import V5, V311, Packet, Puback, Publish, Reason
from latecomer.runtime.forms import ACKS, Forms
from latecomer.wire.mqtt import Reader, encode
from tests.strategies_mqtt import names

versions = st.sampled_from([V5, V311])
payloads = st.one_of(st.binary(max_size=20), st.integers(100, 400).map(bytes), st.just(bytes(16_400)))
messages = st.lists(st.tuples(names, payloads, st.integers(1, 65_535)), min_size=1, max_size=6)


def run(packets: list[Publish], version: int) -> Forms:
    """As the walk over a chunk makes it."""
    data, ids = b"", []
    for packet in packets:
        frame = encode(packet, version)
        if packet.qos:
            ids.append(len(data) + len(frame) - len(packet.payload) - 2 - (version == V5))
        data += frame
    return Forms(data, version, bool(ids), ids)


def packets_of(data: bytes, version: int) -> Sequence[Packet]:
    reader = Reader()
    reader.version = version
    packets = reader.feed(data)
    assert reader.problem is None
    assert not reader.pending
    return packets


@given(messages, st.integers(0, 1), versions, versions)
def test_without_packet_ids(found: list[tuple[str, bytes, int]], qos: int, came: int, goes: int) -> None:
    packets = [Publish(topic, payload, qos, packet_id=id * qos) for topic, payload, id in found]
    wanted = b"".join(encode(Publish(topic, payload), goes) for topic, payload, _ in found)
    assert run(packets, came).plain(goes) == wanted


@given(messages, versions, versions, st.one_of(st.integers(1, 65_535), st.integers(65_530, 65_535)))
def test_under_other_packet_ids(found: list[tuple[str, bytes, int]], came: int, goes: int, first: int) -> None:
    """They count up from the first one, and begin again after 65,535."""
    forms = run([Publish(topic, payload, 1, packet_id=id) for topic, payload, id in found], came)
    wanted = [
        Publish(topic, payload, 1, packet_id=(first + position - 1) % 65_535 + 1)
        for position, (topic, payload, _) in enumerate(found)
    ]
    assert forms.acked(goes, first) == b"".join(encode(packet, goes) for packet in wanted)
    assert packets_of(forms.acked(goes, first), goes) == wanted


@given(messages, versions, st.integers(1, 65_535), st.booleans())
def test_acknowledgements(found: list[tuple[str, bytes, int]], version: int, first: int, in_sequence: bool) -> None:
    ids = [first + n for n in range(len(found))] if in_sequence else [id for _, _, id in found]
    ids = [id if id <= 65_535 else id - 65_535 for id in ids]
    forms = run(
        [Publish(topic, payload, 1, packet_id=id) for (topic, payload, _), id in zip(found, ids, strict=True)], version
    )
    assert packets_of(forms.acknowledgements(), version) == [Puback(id) for id in ids]
    assert packets_of(forms.unwanted(), V5) == [Puback(id, Reason.NO_MATCHING_SUBSCRIBERS) for id in ids]


def test_what_needs_no_change_is_handed_on_as_it_came() -> None:
    forms = run([Publish("t", b"", 1, packet_id=id) for id in (7, 8)], V5)
    assert forms.acked(V5, 7) is forms.data
    assert forms.acked(V5, 8) is forms.acked(V5, 8)
    assert run([Publish("t")], V5).plain(V5) == encode(Publish("t"), V5)


def test_every_acknowledgement_is_in_the_table() -> None:
    assert packets_of(ACKS, V311) == [Puback(id) for id in range(1, 65_536)]
