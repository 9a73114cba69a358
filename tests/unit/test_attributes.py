"""The attributes of an event: what content filters look at."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.core.attributes import JSON_MAX, attributes_of
from latecomer.model.event import Event, Extras, Value
from latecomer.model.filters import filter_matches, parse_filter
from latecomer.model.ids import NUMBER_MAX, EventId


def attributes(payload: bytes = b"", *user: tuple[str, str]) -> dict[str, Value]:
    extras = Extras(user=user) if user else None
    return dict(attributes_of(Event(EventId("a", 1, 1), "t", payload=payload, extras=extras)))


def test_single_values_of_a_json_object() -> None:
    payload = b'{"b": true, "i": -3, "f": 1.5, "s": "x", "n": null, "l": [1], "o": {"i": 1}}'
    assert attributes(payload) == {"b": True, "i": -3, "f": 1.5, "s": "x"}


@pytest.mark.parametrize(
    "payload", [b"", b"x", b"[1]", b"{", b'{"a": }', b'{"a": "\xff"}', b'{"a":' * 5000, b"{" + b" " * JSON_MAX + b"}"]
)
def test_payloads_that_are_something_else(payload: bytes) -> None:
    assert attributes(payload) == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("0", 0),
        ("-7", -7),
        ("007", "007"),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        ("-2E-2", -0.02),
        ("+1", "+1"),
        (".5", ".5"),
        ("1.", "1."),
        ("nan", "nan"),
        ("inf", "inf"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        (" 1", " 1"),
        ("", ""),
        ("٣", "٣"),
    ],
)
def test_user_properties_that_read_as_json_are_that(text: str, value: Value) -> None:
    found = attributes(b"", ("a", text))["a"]
    assert found == value
    assert type(found) is type(value)


def test_a_user_property_goes_before_a_field_and_the_last_one_counts() -> None:
    assert attributes(b'{"a": 1, "b": 2}', ("a", "3"), ("a", "4")) == {"a": 4, "b": 2}


def test_numbers_beyond_64_bits_are_no_attributes() -> None:
    payload = b'{"a": %d, "b": %d}' % (NUMBER_MAX, NUMBER_MAX + 1)
    assert attributes(payload) == {"a": NUMBER_MAX}


def test_what_a_client_of_the_core_states_is_all_there_is() -> None:
    event = Event(EventId("a", 1, 1), "t", attributes={"a": 1}, payload=b'{"b": 2}')
    assert attributes_of(event) == {"a": 1}


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=60), st.lists(st.tuples(st.text(), st.text()), max_size=3))
def test_nothing_a_client_sends_is_a_problem(rest: bytes, user: list[tuple[str, str]]) -> None:
    """Whatever is found can be compared with, and is a number that is one."""
    found = attributes(b"{" + rest, *user)
    for value in found.values():
        assert isinstance(value, (bool, int, float, str))
        assert not isinstance(value, float) or math.isfinite(value)
    filter_matches(parse_filter("t?a > 1 and b = true"), "t", found)


@pytest.mark.parametrize("text", ["1e999", "-1e999", "9" * 18 + "e999"])
def test_numbers_too_large_for_a_float_are_texts(text: str) -> None:
    assert attributes(b"", ("a", text)) == {"a": text}
    assert attributes(b'{"a": %s}' % text.encode()) == {}
