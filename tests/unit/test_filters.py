"""Topic filter and content filter together."""

from __future__ import annotations

import msgspec
import pytest

from latecomer.model.content import parse_content
from latecomer.model.errors import FilterError
from latecomer.model.filters import (
    Filter,
    filter_covers,
    filter_matches,
    filter_overlaps,
    make_filter,
    parse_filter,
)


@pytest.mark.parametrize(
    ("text", "topic", "where"),
    [
        ("sensors/+/t", "sensors/+/t", None),
        ("sensors/+/t?value > 30", "sensors/+/t", "value > 30"),
        ("sensors/+/t ? value > 30", "sensors/+/t", "value > 30"),
        ('#?name = "what?"', "#", 'name = "what?"'),
        ("a?", "a", None),
        ("a ? true", "a", None),
        ("a ? false", "a", "false"),
        ("a ", "a ", None),
        ("a  ? x = 1", "a ", "x = 1"),
    ],
)
def test_reads_and_prints(text: str, topic: str, where: str | None) -> None:
    f = parse_filter(text)
    assert f == Filter(topic, None if where is None else parse_content(where))
    assert parse_filter(str(f)) == f


def test_two_texts() -> None:
    assert make_filter("a/#", "x > 1") == parse_filter("a/# ? x > 1")
    assert make_filter("a/#", "") == Filter("a/#")
    assert make_filter("why?", "x > 1").topic == "why?"


@pytest.mark.parametrize("text", ["", "?x = 1", "a/#/b", "a?x =", "a?b?c", "a+ ? x = 1", "a ? x = 1 or y = 2"])
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(FilterError):
        parse_filter(text)


def test_an_illegal_topic_filter_cannot_be_made_nor_received() -> None:
    with pytest.raises(FilterError):
        Filter("a/#/b")
    with pytest.raises(msgspec.ValidationError, match="last character"):
        msgspec.msgpack.decode(msgspec.msgpack.encode(["a/#/b"]), type=Filter)


def test_travels_as_messagepack() -> None:
    for text in ("a/+", "a/+ ? x = true and y = 1"):
        f = parse_filter(text)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(f), type=Filter) == f


def test_matches() -> None:
    f = parse_filter("sensors/+/t ? value > 30")
    assert filter_matches(f, "sensors/1/t", {"value": 31})
    assert not filter_matches(f, "sensors/1/t", {"value": 30})
    assert not filter_matches(f, "sensors/1/h", {"value": 31})
    assert not filter_matches(f, "sensors/1/t", {})
    assert filter_matches(Filter("#"), "a", {})


def test_covers_and_overlaps() -> None:
    wide, narrow, other = map(parse_filter, ("s/# ? v > 1", "s/+ ? v > 2", "s/a ? v < 1"))
    impossible = parse_filter("zzz ? v > 2 and v < 1")
    assert filter_covers(wide, narrow)
    assert not filter_covers(narrow, wide)
    assert filter_covers(Filter("s/#"), wide)
    assert not filter_covers(wide, Filter("s/#"))
    assert not filter_overlaps(wide, other)
    assert filter_overlaps(wide, narrow)
    assert filter_covers(wide, impossible)
    assert filter_covers(impossible, impossible)
    assert not filter_overlaps(impossible, impossible)
    assert not filter_overlaps(Filter("zzz"), impossible)


def test_true_is_not_one() -> None:
    """Python's True == 1 must not reach the caches."""
    assert filter_covers(parse_filter("a ? x < 2"), parse_filter("a ? x = 1"))
    assert not filter_covers(parse_filter("a ? x < 2"), parse_filter("a ? x = true"))
    assert parse_filter("a ? x = 1") != parse_filter("a ? x = true")
