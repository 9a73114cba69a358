"""Cover and overlap of topic filters against all short topics.

Every level name a filter can mention is in NAMES, together with one that none mentions, and topics are one
level longer than filters: among those topics is a counterexample if there is any.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.model.errors import FilterError
from latecomer.model.topics import check_filter, check_topic, topic_covers, topic_matches, topic_overlaps

NAMES: Final = ["a", "b", "", "$s", "other"]
TOPICS: Final = ["/".join(x) for n in (1, 2, 3, 4) for x in itertools.product(NAMES, repeat=n) if x != ("",)]


@st.composite
def filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(st.sampled_from(["a", "b", "", "$s", "+", "+"]), max_size=3))
    if draw(st.booleans()) or levels in ([], [""]):
        levels = [*levels, "#"]
    return "/".join(levels)


@functools.cache
def matching(pattern: str) -> set[str]:
    return {topic for topic in TOPICS if topic_matches(pattern, topic)}


def matches_by_the_book(pattern: list[str], topic: list[str], first: bool = True) -> bool:
    """The specification read aloud, recursively: the second opinion for `topic_matches`."""
    if first and topic[0].startswith("$") and pattern[0] in ("+", "#"):
        return False
    if pattern == ["#"]:
        return True
    if not pattern or not topic:
        return pattern == topic
    return pattern[0] in ("+", topic[0]) and matches_by_the_book(pattern[1:], topic[1:], False)


@given(filters())
def test_matching(pattern: str) -> None:
    check_filter(pattern)
    for topic in TOPICS:
        assert topic_matches(pattern, topic) == matches_by_the_book(pattern.split("/"), topic.split("/"))


@given(filters(), filters())
@settings(max_examples=400)
def test_cover_and_overlap_are_exact(a: str, b: str) -> None:
    assert topic_covers(a, b) == (matching(b) <= matching(a))
    assert topic_overlaps(a, b) == bool(matching(a) & matching(b))


@given(filters(), filters(), filters())
def test_cover_is_an_order(a: str, b: str, c: str) -> None:
    assert topic_covers(a, a)
    assert topic_overlaps(a, a)
    assert not (topic_covers(a, b) and topic_covers(b, c)) or topic_covers(a, c)
    assert not topic_covers(a, b) or topic_overlaps(a, b)
    if topic_covers(a, b) and topic_covers(b, a):
        assert matching(a) == matching(b)


@given(st.sampled_from(TOPICS), filters())
def test_a_name_is_a_filter_for_itself(topic: str, pattern: str) -> None:
    assert topic_covers(pattern, topic) == topic_matches(pattern, topic) == topic_overlaps(pattern, topic)


@given(st.text(alphabet=st.sampled_from("a/+#$\0\ud800é"), max_size=12))
def test_nothing_but_a_filter_error(text: str) -> None:
    for check in (check_topic, check_filter):
        with contextlib.suppress(FilterError):
            check(text)
