"""MQTT topic names and topic filters: what is legal, what matches, what covers, what overlaps.

Clauses are cited as in MQTT 3.1.1; where MQTT 5 numbers the same rule differently, both numbers are given.

Decision: cover and overlap speak about all topics the specification allows, not only those within MAX_LEVELS
and MAX_BYTES: our limits guard this broker, they are no part of what a filter means.
"""

from __future__ import annotations

from functools import lru_cache

from latecomer.model.errors import FilterError

MAX_BYTES = 65_535
"""[MQTT-4.7.3-3] a topic name or filter is an UTF-8 string with a two-byte length in front."""

MAX_LEVELS = 128
"""Ours, not the specification's: keeps a hostile 'a/a/a/…' from building a 32,768-deep subscription tree."""


class TopicError(FilterError, ValueError):
    """Also a ValueError, so that msgspec reports an illegal filter from a peer as a ValidationError."""


def check_topic(name: str) -> None:
    """Raise a FilterError unless `name` is a legal topic name to publish to."""
    _check_text(name, "topic name")
    # [MQTT-4.7.1-1] (v5 [MQTT-4.7.0-1]): wildcards are for filters only.
    for wildcard in ("#", "+"):
        at = name.find(wildcard)
        if at >= 0:
            raise TopicError(name, f"a topic name must not contain the wildcard '{wildcard}'", position=at)


def check_filter(text: str) -> None:
    """Raise a FilterError unless `text` is a legal topic filter to subscribe with."""
    _check_text(text, "topic filter")
    if "#" not in text and "+" not in text:
        return
    at = 0
    for level in text.split("/"):
        # [MQTT-4.7.1-3] (v5 [MQTT-4.7.1-2]): '+' occupies an entire level.
        if "+" in level and level != "+":
            raise TopicError(text, "'+' must stand alone between slashes", position=at + level.index("+"))
        if "#" in level:
            # [MQTT-4.7.1-2] (v5 [MQTT-4.7.1-1]): '#' occupies an entire level, and only the last one.
            if level != "#":
                raise TopicError(text, "'#' must stand alone behind a slash", position=at + level.index("#"))
            if at + 1 != len(text):
                raise TopicError(text, "'#' must be the last character of a topic filter", position=at)
        at += len(level) + 1


def _check_text(text: str, what: str) -> None:
    if not text:
        raise TopicError(text, f"a {what} needs at least one character")  # [MQTT-4.7.3-1]
    at = text.find("\0")
    if at >= 0:
        raise TopicError(_short(text), f"a {what} must not contain the null character", position=at)  # [MQTT-4.7.3-2]
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:  # [MQTT-1.5.3-1] (v5 [MQTT-1.5.4-1])
        raise TopicError(
            _short(text), f"a {what} must not contain half a surrogate pair", position=error.start
        ) from None
    if size > MAX_BYTES:
        raise TopicError(_short(text), f"a {what} has at most {MAX_BYTES} bytes, this one has {size}")
    levels = text.count("/") + 1
    if levels > MAX_LEVELS:
        raise TopicError(_short(text), f"a {what} has at most {MAX_LEVELS} levels, this one has {levels}")


def _short(text: str) -> str:
    """Enough of a text to recognise it in an error message, however long it is."""
    return text if len(text) <= 80 else text[:79] + "…"


def topic_matches(pattern: str, topic: str) -> bool:
    """Does an event published to `topic` belong to the topic filter `pattern`? Both must be legal."""
    if pattern == topic:
        return True
    if topic[:1] == "$" and pattern[:1] in ("#", "+"):
        return False  # [MQTT-4.7.2-1] a leading wildcard does not reach into $SYS and its like
    levels = topic.split("/")
    wanted = pattern.split("/")
    if wanted[-1] == "#":
        # 'a/#' includes its parent 'a' (section 4.7.1.2), hence >= and not >.
        wanted.pop()
        if len(levels) < len(wanted):
            return False
    elif len(levels) != len(wanted):
        return False
    for want, level in zip(wanted, levels, strict=False):
        if want != level and want != "+":
            return False
    return True


@lru_cache(maxsize=65_536)
def topic_covers(a: str, b: str) -> bool:
    """Does every topic that matches `b` match `a`?

    Level by level is exact: `b` leaves each level either fixed or free, independently of the others, and
    there is always a further name a free level could have.
    """
    if a == b:
        return True
    wide, wide_open = _levels(a)
    narrow, narrow_open = _levels(b)
    if wide_open:
        if len(wide) > len(narrow):
            return False  # b's shortest topic is too short for a
    elif narrow_open or len(wide) != len(narrow):
        return False
    if wide[0] == "+" and narrow[0][:1] == "$":
        return False  # [MQTT-4.7.2-1]
    return all(want in ("+", level) for want, level in zip(wide, narrow, strict=False))


@lru_cache(maxsize=65_536)
def topic_overlaps(a: str, b: str) -> bool:
    """Is there a topic that matches both `a` and `b`?"""
    if a == b:
        return True
    left, left_open = _levels(a)
    right, right_open = _levels(b)
    if (len(left) < len(right) and not left_open) or (len(right) < len(left) and not right_open):
        return False
    if (left[0] == "+" and right[0][:1] == "$") or (right[0] == "+" and left[0][:1] == "$"):
        return False  # [MQTT-4.7.2-1]
    return all(x == y or x == "+" or y == "+" for x, y in zip(left, right, strict=False))


def _levels(pattern: str) -> tuple[list[str], bool]:
    """The levels before '#', and whether there was one.

    '/#' is read as '/+/#': its parent would be the empty topic, which is none [MQTT-4.7.3-1].
    '#' alone is read as '+/#': every topic has a first level, and both keep away from '$', so they mean the
    same.
    """
    levels = pattern.split("/")
    if levels[-1] != "#":
        return levels, False
    levels.pop()
    if levels == [""]:
        levels.append("+")
    return levels or ["+"], True
