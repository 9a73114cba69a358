"""Filters: cover and overlap against all small events."""

from __future__ import annotations

import functools
import itertools
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.model.content import Value
from latecomer.model.errors import FilterError
from latecomer.model.filters import (
    Filter,
    filter_covers,
    filter_matches,
    filter_overlaps,
    make_filter,
    parse_filter,
)

PATTERNS: Final = ["a", "a/#", "a/+", "+", "#", "+/b", "$s", "$s/#", "a/b"]
CONTENTS: Final = [
    *("true", "false", "x > 1", "x >= 1", "x = 1", "x < 2 and x > 1", "x = true", "exists x", "x != 1"),
    *("x > 1 and y = 1", "y in (1, true)", "x > 2 and x < 1"),
]
TOPICS: Final = ["a", "b", "a/b", "a/c", "c/b", "a/b/c", "$s", "$s/b", "c/d/e", "other"]
VALUES: Final[list[Value | None]] = [None, True, False, 0, 1, 1.5, 2, 3, "s"]
EVENTS: Final[list[tuple[str, dict[str, Value]]]] = [
    (topic, {name: value for name, value in (("x", x), ("y", y)) if value is not None})
    for topic, x, y in itertools.product(TOPICS, VALUES, VALUES)
]

filters = st.builds(make_filter, st.sampled_from(PATTERNS), st.sampled_from(CONTENTS))


@functools.cache
def matching(f: Filter) -> set[int]:
    return {number for number, (topic, attributes) in enumerate(EVENTS) if filter_matches(f, topic, attributes)}


@given(filters, filters)
@settings(max_examples=300, deadline=None)
def test_cover_and_overlap_are_exact(a: Filter, b: Filter) -> None:
    assert filter_covers(a, b) == (matching(b) <= matching(a))
    assert filter_overlaps(a, b) == bool(matching(a) & matching(b))


@given(filters, filters, filters)
@settings(max_examples=300)
def test_cover_is_an_order(a: Filter, b: Filter, c: Filter) -> None:
    assert filter_covers(a, a)
    assert not (filter_covers(a, b) and filter_covers(b, c)) or filter_covers(a, c)
    assert filter_overlaps(a, b) == filter_overlaps(b, a)
    if filter_covers(a, b) and filter_overlaps(b, b):
        assert filter_overlaps(a, b)


@given(filters)
def test_prints_what_it_reads(f: Filter) -> None:
    assert parse_filter(str(f)) == f


@given(st.text(alphabet=st.sampled_from("a/+#?$ x=1<\"'`\0\ud800"), max_size=14))
@settings(max_examples=400)
def test_nothing_but_a_filter_error(text: str) -> None:
    try:
        f = parse_filter(text)
    except FilterError:
        return
    assert parse_filter(str(f)) == f
