"""Topic names and filters: the specification's own examples, and the corners."""

from __future__ import annotations

import pytest

from latecomer.model.errors import FilterError
from latecomer.model.topics import check_filter, check_topic, topic_covers, topic_matches, topic_overlaps


@pytest.mark.parametrize("name", ["a", "/", "//", "a/b", "/finance", "$SYS/x", "a b", "ä/ö", "a" * 65_535])
def test_legal_names(name: str) -> None:
    check_topic(name)
    check_filter(name)


@pytest.mark.parametrize("text", ["#", "+", "+/#", "a/#", "/#", "+/tennis/#", "sport/+/player1", "/+", "+/+", "$SYS/#"])
def test_legal_filters(text: str) -> None:
    check_filter(text)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "at least one character"),
        ("a\0b", "null character"),
        ("a/+", "wildcard"),
        ("a#", "wildcard"),
        ("ä" * 32_768, "65535 bytes"),
        ("/" * 128, "128 levels"),
        ("a\ud800", "surrogate"),
    ],
)
def test_illegal_names(name: str, says: str) -> None:
    with pytest.raises(FilterError, match=says):
        check_topic(name)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "at least one character"),
        ("\0", "null character"),
        ("sport/tennis#", "'#' must stand alone"),
        ("sport/tennis/#/ranking", "last character"),
        ("#/", "last character"),
        ("sport+", r"'\+' must stand alone"),
        ("a/+b/c", r"'\+' must stand alone"),
        ("++", r"'\+' must stand alone"),
        ("+#", "must stand alone"),
        ("/" * 128, "128 levels"),
        ("\udfff", "surrogate"),
    ],
)
def test_illegal_filters(text: str, says: str) -> None:
    with pytest.raises(FilterError, match=says):
        check_filter(text)


def test_the_place_of_the_mistake_is_told() -> None:
    with pytest.raises(FilterError) as caught:
        check_filter("a/b+/c")
    assert caught.value.position == 3


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("sport/#", "sports", False),
        ("sport/tennis/+", "sport/tennis/player1", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "/", True),
        ("#", "$SYS/monitor", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/monitor/Clients", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
        ("a/#", "a/$b", True),
        ("a/+", "a/$b", True),
        ("ACCOUNTS", "Accounts", False),
        ("a//b", "a/b", False),
    ],
)
def test_matches(pattern: str, topic: str, expected: bool) -> None:
    assert topic_matches(pattern, topic) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("#", "+/a", True),
        ("#", "$SYS/#", False),
        ("+/#", "#", True),
        ("#", "+/#", True),
        ("+", "$SYS", False),
        ("$SYS/#", "#", False),
        ("a/#", "a", True),
        ("a/#", "a/+", True),
        ("a/+", "a/#", False),
        ("a/#", "a/+/#", True),
        ("a/+/#", "a/#", False),
        ("a/+/#", "a", False),
        ("+/b", "a/b", True),
        ("a/b", "+/b", False),
        ("a/+", "a/$x", True),
        ("+/+", "/", True),
        ("/+/#", "/#", True),
    ],
)
def test_covers(a: str, b: str, expected: bool) -> None:
    assert topic_covers(a, b) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("a/+", "+/b", True),
        ("a/#", "+", True),
        ("a/+/#", "+", False),
        ("/#", "+", False),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/#", False),
        ("$SYS/+", "$SYS/#", True),
        ("a/b/#", "a/c/#", False),
        ("a/#", "a/b/c/#", True),
    ],
)
def test_overlaps(a: str, b: str, expected: bool) -> None:
    assert topic_overlaps(a, b) is expected
    assert topic_overlaps(b, a) is expected
