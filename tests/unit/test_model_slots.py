"""Keys, slots and streams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.ring import BITS
from latecomer.model.slots import SLOTS, key_of, origin_of, point_of_slot, reached, slot_of, stream_of


@pytest.mark.parametrize(
    ("topic", "levels", "key"),
    [
        ("bus/7/at", 1, "bus"),
        ("bus/7/at", 2, "bus/7"),
        ("bus/7/at", 3, "bus/7/at"),
        ("bus/7/at", 4, "bus/7/at"),
        ("bus", 1, "bus"),
        ("/x", 1, ""),
        ("a//b", 2, "a/"),
    ],
)
def test_the_key_of_a_topic_is_its_first_levels(topic: str, levels: int, key: str) -> None:
    assert key_of(topic, levels) == key


@given(st.text(), st.dictionaries(st.text(), st.integers(0, SLOTS - 1)))
def test_a_slot_is_the_hash_of_its_key_or_where_that_is_pinned(key: str, pins: dict[str, int]) -> None:
    slot = slot_of(key, pins)
    assert 0 <= slot < SLOTS
    assert slot == pins.get(key, slot_of(key, {}))
    assert 0 <= point_of_slot(slot) < 1 << BITS


def test_slots_are_spread_over_the_ring() -> None:
    assert [point_of_slot(slot) for slot in (0, 1, SLOTS - 1)] == [0, 1 << 22, (SLOTS - 1) << 22]
    assert len({slot_of(f"key{number}", {}) for number in range(20_000)}) == SLOTS


def test_a_stream_has_got_as_far_as_is_known_of_it_or_of_its_origin() -> None:
    b7, b9 = stream_of("b", 7), stream_of("b", 9)
    assert origin_of(b7) == origin_of("b") == "b"
    stamps = {b7: (1, 5), "b": (1, 3)}
    assert reached(stamps, b7) == (1, 5)
    assert reached(stamps, b9) == (1, 3)
    assert reached(stamps, stream_of("c", 7)) == (0, 0)
