"""What a subscription asks for: a topic filter, and perhaps a content filter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from latecomer.model.content import (
    ANYTHING,
    Conjunction,
    Value,
    content_covers,
    content_overlaps,
    content_satisfiable,
    parse_content,
)
from latecomer.model.topics import check_filter, topic_covers, topic_matches, topic_overlaps


class Filter(msgspec.Struct, frozen=True, cache_hash=True, array_like=True):
    """Events whose topic matches `topic` and whose attributes match `where`.

    Decision: '?' is a legal character of MQTT topics, so a Filter may have it in its topic (MQTT 5 clients
    say `where` in a user property); only such a Filter prints as a text that reads differently.
    """

    topic: str
    where: Conjunction | None = None
    """None: any attributes. A content filter that is always true is written as None."""

    def __post_init__(self) -> None:
        check_filter(self.topic)

    def __str__(self) -> str:
        return self.topic if self.where is None else f"{self.topic} ? {self.where}"


def parse_filter(text: str) -> Filter:
    """Read 'topic' or 'topic?content', as an MQTT 3.1.1 client writes it into the topic filter.

    One space before '?' belongs to the notation, any further ones to the topic.
    """
    topic, question, content = text.partition("?")
    if not question:
        return Filter(topic)
    return make_filter(topic.removesuffix(" "), content)


def make_filter(topic: str, content: str) -> Filter:
    """The same from two texts, as an MQTT 5 client sends them."""
    where = parse_content(content)
    return Filter(topic, None if where == ANYTHING else where)


def filter_matches(f: Filter, topic: str, attributes: Mapping[str, Value]) -> bool:
    """Does an event belong to what the filter asks for?"""
    return topic_matches(f.topic, topic) and (f.where is None or f.where.matches(attributes))


def filter_satisfiable(f: Filter) -> bool:
    """Is there any event that matches?"""
    return f.where is None or content_satisfiable(f.where)


@lru_cache(maxsize=65_536)
def filter_covers(a: Filter, b: Filter) -> bool:
    """Is every event that matches `b` one that matches `a`? What matches nothing is covered by everything."""
    if b.where is not None and not content_satisfiable(b.where):
        return True
    return topic_covers(a.topic, b.topic) and (a.where is None or content_covers(a.where, b.where or ANYTHING))


@lru_cache(maxsize=65_536)
def filter_overlaps(a: Filter, b: Filter) -> bool:
    """Is there an event that matches both?"""
    return topic_overlaps(a.topic, b.topic) and content_overlaps(a.where or ANYTHING, b.where or ANYTHING)
