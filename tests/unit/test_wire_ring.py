"""Frames between brokers that route by rendezvous: which are refused while they are read, and their words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from latecomer.messages.link import LinkMessage
from latecomer.messages.ring import (
    BROKERS_MAX,
    FILTERS_MAX,
    ROUNDS_MAX,
    WORD_MAX,
    Flush,
    Flushed,
    FlushWanted,
    Round,
    Wants,
    WantsChange,
)
from latecomer.model.content import MAX_CONSTRAINTS, Constraint, Op
from latecomer.model.content.terms import Conjunction
from latecomer.model.errors import ProtocolError
from latecomer.model.filters import Filter
from latecomer.sim.transcript import message_text
from latecomer.wire.link import HEADER, decode_body, encode

ONE, OTHER = Filter("#"), Filter("+/x")
LOOSE = Filter("t", Conjunction(tuple(Constraint("x", Op.GT, n) for n in range(MAX_CONSTRAINTS + 1))))
MANY = tuple(Filter(f"+/{number}") for number in range(FILTERS_MAX + 1))
LONG = tuple(Filter(f"+/{number}/{'x' * 60_000}") for number in range(WORD_MAX // 60_000 + 1))

FITTING = tuple(Filter(f"+/{number:030}") for number in range(WORD_MAX // 96))
"""As many as a word can hold of this length."""


def wants(*filters: Filter) -> Wants:
    return Wants("2", 1, 1, filters)


def change(added: tuple[Filter, ...] = (), dropped: tuple[Filter, ...] = ()) -> WantsChange:
    return WantsChange("2", 1, 2, added, dropped)


REFUSED: dict[str, tuple[LinkMessage, str]] = {
    "round 0": (Round("v", 0), f"numbered from 1 to {ROUNDS_MAX}, not 0"),
    "a round too far": (Round("v", ROUNDS_MAX + 1), f"not {ROUNDS_MAX + 1}"),
    "a negative round": (Round("v", -1), "Expected `int` >= 0"),
    "a nameless broker": (Wants("", 1, 1, ()), "Expected `str` of length >= 1"),
    "too many constraints": (wants(LOOSE), f"at most {MAX_CONSTRAINTS} constraints"),
    "too many constraints added": (change((LOOSE,)), f"at most {MAX_CONSTRAINTS} constraints"),
    "too many constraints dropped": (change((), (LOOSE,)), f"at most {MAX_CONSTRAINTS} constraints"),
    "a filter twice": (wants(ONE, OTHER, ONE), "each filter once"),
    "a filter added and dropped": (change((ONE,), (ONE,)), "each filter once"),
    "many filters": (wants(*MANY), f"at most {FILTERS_MAX} filters, not {FILTERS_MAX + 1}"),
    "many changes": (change((*MANY, *MANY)), f"at most {2 * FILTERS_MAX} filters, not {2 * FILTERS_MAX + 2}"),
    "a long word": (wants(*LONG), f"at most {WORD_MAX} characters"),
    "a long change": (change(LONG), f"at most {WORD_MAX} characters"),
    "much that is dropped": (change((), LONG), f"at most {WORD_MAX} characters"),
}


def accepted(message: LinkMessage) -> None:
    assert decode_body(encode(message)[HEADER:]) == message


def refused(message: LinkMessage, sentence: str) -> None:
    with pytest.raises(ProtocolError, match=rf"^not a link message: .*{sentence}") as caught:
        decode_body(encode(message)[HEADER:])
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("message", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_nobody_may_say(message: LinkMessage, sentence: str) -> None:
    refused(message, sentence)


@pytest.mark.parametrize("body", [["wants", "2", 1, 1, [["a/#/b"]]], ["wants-change", "2", 1, 1, [], [[""]]]])
def test_filters_are_legal(body: list[Any]) -> None:
    with pytest.raises(ProtocolError, match=r"^not a link message: "):
        decode_body(msgspec.msgpack.encode(body))


@pytest.mark.parametrize(
    "message",
    [
        Round("v", 1),
        Round("v", ROUNDS_MAX),
        wants(),
        wants(*FITTING),
        change(FITTING),
        change((ONE,), (OTHER,)),
        change(),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_may_just_be_said(message: LinkMessage) -> None:
    accepted(message)


FLUSHES: dict[str, Callable[..., LinkMessage]] = {
    "flush-wanted": lambda *roots, to="5": FlushWanted("2", to, 1, roots),
    "flush": lambda *roots, to="5": Flush("2", to, 1, roots),
    "flushed": lambda *roots, to="5": Flushed("2", to, 1, roots),
}


@pytest.mark.parametrize("make", FLUSHES.values(), ids=FLUSHES)
def test_a_flush_has_some_roots_each_once(make: Callable[..., LinkMessage]) -> None:
    most = [f"b{number}" for number in range(BROKERS_MAX)]
    accepted(make("2"))
    accepted(make(*most))
    refused(make(), f"a flush has 1 to {BROKERS_MAX} roots, not 0")
    refused(make(*most, "one more"), f"not {BROKERS_MAX + 1}")
    refused(make("1", "2", "1"), "each root once")
    refused(make("1", ""), "of length >= 1")
    refused(make("1", to="2"), "from one broker to another")
    refused(make("1", to=""), "of length >= 1")


WORDS: dict[str, LinkMessage] = {
    "round 3 of tree 01234567": Round("0123456789", 3),
    "wants of 2: #, +/x (1)": wants(ONE, OTHER),
    "wants of 2: nothing (1)": wants(),
    "wants-change of 2: also # and no longer +/x (2)": change((ONE,), (OTHER,)),
    "wants-change of 2: the same (2)": change(),
    "flush-wanted 7 of 5 for 2, in the trees of 1, 3": FlushWanted("2", "5", 7, ("1", "3")),
    "flush 7 from 5 to 2 in the trees of 1": Flush("5", "2", 7, ("1",)),
    "flushed 7 of 5 at 1": Flushed("1", "5", 7, ("1",)),
}


@pytest.mark.parametrize("words", WORDS)
def test_a_message_in_words(words: str) -> None:
    assert message_text(WORDS[words]) == words
