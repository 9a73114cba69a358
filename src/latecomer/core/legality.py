"""Whether a publication can be carried. Whatever is accepted must fit every link, or it would stop them all."""

from __future__ import annotations

from latecomer.core.inputs import Published
from latecomer.model.errors import FilterError
from latecomer.model.ids import NUMBER_MAX
from latecomer.model.topics import check_topic


def bytes_of(text: str) -> int | None:
    """How long a text is as UTF-8; None if it cannot be written so (half a surrogate pair)."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


def topic_problem(topic: str) -> str | None:
    """Why nothing can be published under a topic, if so."""
    try:
        check_topic(topic)
    except FilterError as error:
        return error.problem
    return None


def size_problem(fact: Published, limit: int) -> str | None:
    """Why a publication cannot be written down or is too large, if so."""
    topic, client = bytes_of(fact.topic), bytes_of(fact.client)
    if topic is None or client is None:
        return "the client id is not text that can be sent"
    size = topic + client + len(fact.payload)
    for name, value in fact.attributes.items():
        if isinstance(value, int) and not -NUMBER_MAX <= value <= NUMBER_MAX:
            return f"attribute {name!r} is beyond 64 bits"
        key, text = bytes_of(name), bytes_of(value) if isinstance(value, str) else 8
        if key is None or text is None:
            return f"attribute {name!r} is not text that can be sent"
        size += key + text
    if size > limit:
        return f"{size} bytes exceed the limit of {limit}"
    return None
