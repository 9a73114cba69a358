"""Laws of keys: a filter belongs to the key of all topics that it matches, or to none."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.core.ring.keys import KEYS_MAX, Keys
from latecomer.model.slots import key_of, key_of_filter, slot_of
from tests.properties.test_topics_laws import filters, matching

levels = st.integers(1, 4)


@given(filters(), levels)
@settings(max_examples=400)
def test_a_filter_has_the_key_of_what_it_matches(topic_filter: str, levels: int) -> None:
    """Topics of up to four levels are looked at, and filters have at most four: a counterexample would be there."""
    key = key_of_filter(topic_filter, levels)
    keys = {key_of(topic, levels) for topic in matching(topic_filter)}
    if key is None:
        assert len(keys) > 1
    else:
        assert keys == {key}


@given(filters(), levels, st.dictionaries(st.sampled_from(["a", "b", "a/b", ""]), st.integers(0, 5)))
def test_slots_of_filters_are_those_of_their_topics(topic_filter: str, levels: int, pins: dict[str, int]) -> None:
    keys = Keys(levels, pins)
    slot = keys.slot_of_filter(topic_filter)
    assert (slot is None) == (key_of_filter(topic_filter, levels) is None)
    for topic in sorted(matching(topic_filter)):
        assert keys.slot(topic) == slot_of(key_of(topic, levels), pins)
        assert slot in (None, keys.slot(topic))


def test_only_so_many_slots_are_remembered() -> None:
    keys = Keys(1, {})
    for number in range(KEYS_MAX + 10):
        assert keys.slot(f"k{number}/x") == slot_of(f"k{number}", {})
    assert len(keys._slots) <= KEYS_MAX
