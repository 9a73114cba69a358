"""Content filters against brute force.

Exactness is checked from both sides. Where a cover (or a contradiction) is claimed, no value out of a grid
may refute it; where it is denied, the implementation must show a witness, and the witness must truly be one.
The grids hold all constants a filter here can mention, values between and beyond them, and strings longer
than any constant.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.model.content import (
    ANYTHING,
    Conjunction,
    Constraint,
    Op,
    Value,
    conjunction,
    content_covers,
    content_escape,
    content_example,
    content_intersect,
    content_overlaps,
    content_satisfiable,
    parse_content,
)
from latecomer.model.errors import FilterError

NUMBER_OPS: Final = [Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE]
STRING_OPS: Final = [*NUMBER_OPS, Op.PREFIX, Op.SUFFIX, Op.CONTAINS, Op.PREFIX, Op.SUFFIX, Op.CONTAINS]

NUMBERS: Final[list[Value]] = [0, 1, 2, 3, 1.5, 1.0]
NUMBER_GRID: Final[list[Value]] = [n / 4 for n in range(-2, 15)]

LETTERS: Final = "ab"
STRING_GRID: Final[list[Value]] = ["".join(letters) for n in range(6) for letters in itertools.product("abc", repeat=n)]

# Neighbours without a gap, the first and the last character there is, and both sides of the surrogates.
ODD_LETTERS: Final = "\0\x01a\ud7ff\ue000\U0010ffff"
ODD_GRID: Final[list[Value]] = [
    "".join(letters) for n in range(5) for letters in itertools.product(ODD_LETTERS, repeat=n)
]

MIXED_GRID: Final[list[Value]] = [True, False, *NUMBER_GRID, *STRING_GRID[:41]]


def constraints(name: str, ops: list[Op], values: st.SearchStrategy[Value]) -> st.SearchStrategy[Constraint]:
    return st.one_of(
        st.builds(Constraint, st.just(name), st.sampled_from(ops), values),
        st.builds(Constraint, st.just(name), st.just(Op.IN), st.lists(values, max_size=4).map(tuple)),
    )


numbers = constraints("x", NUMBER_OPS, st.sampled_from(NUMBERS))
booleans = constraints("x", [Op.EQ, Op.NE], st.booleans())


def strings(letters: str, size: int) -> st.SearchStrategy[Constraint]:
    # `=` and `in` decide everything on the spot, so most filters do without.
    text = st.text(alphabet=st.sampled_from(letters), max_size=size)
    pure = st.builds(Constraint, st.just("x"), st.sampled_from(STRING_OPS[1:]), text)
    return st.one_of(pure, pure, pure, constraints("x", STRING_OPS, text))


mixed = st.one_of(
    numbers,
    booleans,
    strings(LETTERS, 2),
    st.builds(
        Constraint,
        st.just("x"),
        st.just(Op.IN),
        st.lists(st.one_of(st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(["", "a"])), max_size=5).map(tuple),
    ),
    st.just(Constraint("x", Op.EXISTS)),
)


def raw(parts: st.SearchStrategy[Constraint], most: int = 4) -> st.SearchStrategy[Conjunction]:
    """Not made canonical: what is decided must not depend on that."""
    return st.lists(parts, min_size=1, max_size=most).map(lambda found: Conjunction(tuple(found)))


def check(a: Conjunction, b: Conjunction, grid: Sequence[Value]) -> None:
    """Everything that can be said about two filters on `x`, from both sides."""
    in_a = [a.matches({"x": value}) for value in grid]
    in_b = [b.matches({"x": value}) for value in grid]

    witness = content_escape(a, b)
    assert content_covers(a, b) == (witness is None)
    if witness is None:
        assert not any(y and not x for x, y in zip(in_a, in_b, strict=True))
    else:
        assert b.matches(witness)
        assert not a.matches(witness)

    both = content_intersect(a, b)
    assert content_overlaps(a, b) == (both is not None)
    if both is None:
        assert not any(x and y for x, y in zip(in_a, in_b, strict=True))
    else:
        example = content_example(both)
        assert example is not None
        assert a.matches(example)
        assert b.matches(example)
        assert [both.matches({"x": value}) for value in grid] == [x and y for x, y in zip(in_a, in_b, strict=True)]


@given(raw(numbers), raw(numbers))
@settings(max_examples=400)
def test_numbers_are_exact(a: Conjunction, b: Conjunction) -> None:
    check(a, b, NUMBER_GRID)


@given(raw(strings(LETTERS, 3)), raw(strings(LETTERS, 3)))
@settings(max_examples=400, deadline=None)
def test_strings_are_exact(a: Conjunction, b: Conjunction) -> None:
    check(a, b, STRING_GRID)


@given(raw(strings(ODD_LETTERS, 3)), raw(strings(ODD_LETTERS, 3)))
@settings(max_examples=300, deadline=None)
def test_strings_at_the_edges_of_unicode_are_exact(a: Conjunction, b: Conjunction) -> None:
    check(a, b, ODD_GRID)


@given(raw(strings("\0a", 3)), raw(strings("\0a", 3)))
@settings(max_examples=300, deadline=None)
def test_strings_without_a_gap_between_them_are_exact(a: Conjunction, b: Conjunction) -> None:
    check(a, b, ODD_GRID)


@given(raw(mixed), raw(mixed))
@settings(max_examples=400, deadline=None)
def test_mixed_types_are_exact(a: Conjunction, b: Conjunction) -> None:
    check(a, b, MIXED_GRID)


# --- whole conjunctions --------------------------------------------------------------------------


def whole(most: int = 4) -> st.SearchStrategy[Conjunction]:
    """Over several attributes; the names are such that some must be quoted."""
    names = st.sampled_from(["x", "y", "in", "a b`\\"])
    renamed = st.builds(lambda part, name: Constraint(name, part.op, part.value), mixed, names)
    return st.lists(renamed, max_size=most).map(lambda found: Conjunction(tuple(found)))


@given(whole(), whole(), whole())
@settings(max_examples=300, deadline=None)
def test_cover_is_an_order(a: Conjunction, b: Conjunction, c: Conjunction) -> None:
    assert content_covers(a, a)
    assert content_covers(ANYTHING, a)
    if content_covers(a, b) and content_covers(b, c):
        assert content_covers(a, c)
    if content_covers(a, b):
        assert content_overlaps(a, b) == content_satisfiable(b)


@given(whole(), whole())
@settings(max_examples=300, deadline=None)
def test_witnesses_over_several_attributes(a: Conjunction, b: Conjunction) -> None:
    witness = content_escape(a, b)
    assert content_covers(a, b) == (witness is None)
    if witness is not None:
        assert b.matches(witness)
        assert not a.matches(witness)
    both = content_intersect(a, b)
    assert (both is None) == (content_example(Conjunction(a.constraints + b.constraints)) is None)
    if both is not None:
        assert content_covers(a, both)
        assert content_covers(b, both)


@given(whole(6))
@settings(max_examples=300, deadline=None)
def test_canonical_means_the_same_and_is_its_own_canonical(content: Conjunction) -> None:
    canonical = conjunction(content.constraints)
    assert content_covers(content, canonical)
    assert content_covers(canonical, content)
    assert conjunction(canonical.constraints) == canonical
    assert conjunction(reversed(content.constraints)) == canonical
    assert str(conjunction(reversed(content.constraints))) == str(canonical)
    assert content_satisfiable(content) == (str(canonical) != "false")


@given(whole(), whole())
@settings(max_examples=400, deadline=None)
def test_the_same_meaning_is_the_same_value(a: Conjunction, b: Conjunction) -> None:
    same = content_covers(a, b) and content_covers(b, a)
    assert (conjunction(a.constraints) == conjunction(b.constraints)) == same


@given(raw(strings("a", 3), 5), raw(strings("a", 3), 5))
@settings(max_examples=400, deadline=None)
def test_the_same_strings_are_the_same_value(a: Conjunction, b: Conjunction) -> None:
    same = content_covers(a, b) and content_covers(b, a)
    assert (conjunction(a.constraints) == conjunction(b.constraints)) == same


@given(raw(strings("\0a", 3), 6))
@settings(max_examples=300, deadline=None)
def test_canonical_settles_at_once_also_with_nulls(content: Conjunction) -> None:
    canonical = conjunction(content.constraints)
    assert conjunction(canonical.constraints) == canonical
    assert conjunction(reversed(content.constraints)) == canonical


# --- reading and printing ------------------------------------------------------------------------

any_value: st.SearchStrategy[Value] = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)


def any_constraint() -> st.SearchStrategy[Constraint]:
    name = st.text(max_size=5)
    return st.one_of(
        st.builds(Constraint, name, st.sampled_from([Op.EQ, Op.NE]), any_value),
        st.builds(Constraint, name, st.sampled_from(STRING_OPS), st.text(max_size=8)),
        st.builds(Constraint, name, st.sampled_from(NUMBER_OPS), st.integers(-5, 5) | st.floats(-5, 5)),
        st.builds(Constraint, name, st.just(Op.IN), st.lists(any_value, max_size=5).map(tuple)),
        st.builds(Constraint, name, st.just(Op.EXISTS)),
    )


@given(st.lists(any_constraint(), max_size=6))
@settings(max_examples=300)
def test_prints_what_it_reads(parts: list[Constraint]) -> None:
    content = conjunction(parts)
    assert parse_content(str(content)) == content
    assert str(parse_content(str(content))) == str(content)
    as_written = " and ".join(map(str, parts))
    assert parse_content(as_written) == content


WORDS: Final = [
    "x",
    "and",
    "in",
    "exists",
    "=",
    "<=",
    "<",
    "(",
    ")",
    ",",
    '"a"',
    "'",
    '"',
    "`",
    "\\",
    "5",
    "-1e9",
    " ",
]
WORDS_MORE: Final = ["prefix", "true", "1e999", "\ud800", "\0", "é", "9" * 30, "\\u", "`y`", "!="]


@given(st.one_of(st.lists(st.sampled_from(WORDS + WORDS_MORE), max_size=10).map(" ".join), st.text(max_size=20)))
@settings(max_examples=400)
def test_nothing_but_a_filter_error(text: str) -> None:
    try:
        content = parse_content(text)
    except FilterError:
        return
    assert parse_content(str(content)) == content


@given(raw(numbers), st.fractions(0, 3, max_denominator=16))
@settings(max_examples=300)
def test_numbers_off_the_grid(content: Conjunction, number: Fraction) -> None:
    example: dict[str, Value] = {"x": float(number)}
    canonical = conjunction(content.constraints)
    assert content.matches(example) == canonical.matches(example)
