"""Content filters: reading, printing, matching, and cover and intersection in cases worth a name."""

from __future__ import annotations

import time

import msgspec
import pytest

from latecomer.model.content import (
    ANYTHING,
    NOTHING,
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

parse = parse_content


def covers(a: str, b: str) -> bool:
    return content_covers(parse(a), parse(b))


# --- the mobility paper's Table 1 ----------------------------------------------------------------

IBM_1600 = 'product = "computer" and brand = "IBM" and price <= 1600'
IBM_1500 = 'product = "computer" and brand = "IBM" and price <= 1500'
ANY_1600 = 'product = "computer" and price <= 1600'
DELL_1500 = 'product = "computer" and brand = "Dell" and price <= 1500'


def test_the_papers_table_of_covers() -> None:
    assert covers(IBM_1600, IBM_1500)
    assert not covers(IBM_1500, IBM_1600)
    assert covers(ANY_1600, IBM_1600)
    assert not covers(IBM_1600, ANY_1600)
    assert not covers(IBM_1600, DELL_1500)
    assert not covers(DELL_1500, IBM_1600)
    assert not content_overlaps(parse(IBM_1600), parse(DELL_1500))
    assert covers(ANY_1600, DELL_1500)


# --- reading and printing ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", "true"),
        ("  true ", "true"),
        ("false", "false"),
        ("x = 5 and false", "false"),
        ("x = 5 AND TRUE", "x = 5"),
        ("b = 1 and a = 2", "a = 2 and b = 1"),
        ("x=1.0", "x = 1"),
        ("x = -0.0", "x = 0"),
        ("x=.5 and y=5.", "x = 0.5 and y = 5"),
        ("x = +1e3", "x = 1000"),
        ("x = 1e30", "x = 1e+30"),
        ("x in (3, 1, 3.0)", "x in (1, 3)"),
        ('x in (1, true, "a", false)', 'x in (false, true, 1, "a")'),
        ("x in (1)", "x = 1"),
        ("x in ()", "false"),
        ("x in (1, 2, 3) and x > 1", "x in (2, 3)"),
        ("x < 5 and x <= 5 and x < 7", "x < 5"),
        ("x >= 5 and x <= 5", "x = 5"),
        ("x >= 5 and x != 5 and x != 4", "x > 5"),
        ("x > 5 and x < 5", "false"),
        ('x > 5 and x > "5"', "false"),
        ("x != true", "x = false"),
        ("exists x and x < 3", "x < 3"),
        ("exists x and EXISTS x", "exists x"),
        ("x = 'it''s'".replace("''", "\\'"), 'x = "it\'s"'),
        (r'x = "a\"b\\c\n\u0041\/"', 'x = "a\\"b\\\\c\nA/"'),
        ("`a b` = 1", "`a b` = 1"),
        ("`plain` = 1", "plain = 1"),
        ("`In` = 1 and `` = 2 and `a\\`b` = 3", "`` = 2 and `In` = 1 and `a\\`b` = 3"),
        ("a.b-c = 1", "a.b-c = 1"),
        ('x prefix "a" and x prefix "ab"', 'x prefix "ab"'),
        ('x prefix "a" and x prefix "b"', "false"),
        ('x >= "a" and x < "b"', 'x prefix "a"'),
        ('x suffix "c" and x suffix "bc"', 'x suffix "bc"'),
        ('x contains "b" and x contains "abc" and x contains "c"', 'x contains "abc"'),
        ('x prefix "ab" and x contains "b"', 'x prefix "ab"'),
        ('x contains "" and x suffix ""', 'x prefix ""'),
        ('x >= ""', 'x prefix ""'),
        ('x != ""', 'x > ""'),
        ('x prefix "a" and x <= "a"', 'x = "a"'),
        ('x suffix "c" and x > "b"', 'x >= "b" and x suffix "c"'),
        ('x suffix "c" and x != "b"', 'x suffix "c"'),
    ],
)
def test_reads_and_prints(text: str, printed: str) -> None:
    content = parse(text)
    assert str(content) == printed
    assert parse(printed) == content
    assert conjunction(content.constraints) == content


@pytest.mark.parametrize(
    ("text", "says", "position"),
    [
        ("x", "operator", 1),
        ("x =", "expected a value", 3),
        ("x = IBM", "double quotes", 4),
        ("x == 5", "write = ", 2),
        ("x <> 5", "write !=", 2),
        ("x = 5, y = 6", "expected 'and'", 5),
        ("x = 5 or y = 6", "expected 'and'", 6),
        ("x = 5 | y = 6", "two subscriptions", 6),
        ("x = 5 and", "attribute name", 9),
        ("and = 5", "keyword", 0),
        ('x = "a', "not closed", 4),
        ("`x = 5", "not closed", 0),
        (r'x = "\q"', "backslash", 5),
        ("x = 5x", "cannot read '5'", 4),
        ("x = 1.2.3", "cannot read '1'", 4),
        ("x = nan", "expected a value", 4),
        ("x = 1e999", "finite", 0),
        ("x = 9223372036854775808", "64 bits", 0),
        ("x < true", "booleans", 0),
        ("x prefix 5", "needs a string", 0),
        (r'x = "\ud800"', "surrogate", 0),
        ("x in 5", "parentheses", 5),
        ("x in (5", "',' or '\\)'", 7),
        ("x in (5,)", "expected a value", 8),
        ("exists 5", "attribute name", 7),
        ("x = ٣", "cannot read", 4),
    ],
)
def test_what_cannot_be_read(text: str, says: str, position: int) -> None:
    with pytest.raises(FilterError, match=says) as caught:
        parse(text)
    assert caught.value.position == position


def test_limits() -> None:
    parse(" and ".join(f"x{i} = {i}" for i in range(64)))
    with pytest.raises(FilterError, match="64 constraints"):
        parse(" and ".join(f"x{i} = {i}" for i in range(65)))
    with pytest.raises(FilterError, match="64 constraints"):
        conjunction(Constraint("x", Op.NE, i) for i in range(65))
    parse(f"x in ({','.join(map(str, range(256)))})")
    with pytest.raises(FilterError, match="256 values"):
        parse(f"x in ({','.join(map(str, range(257)))})")
    with pytest.raises(FilterError, match="256 values"):
        Constraint("x", Op.IN, tuple(range(257)))
    with pytest.raises(FilterError, match="4096 characters"):
        parse("x = 1" + " " * 4096)
    with pytest.raises(FilterError, match="4096 characters"):
        parse("x = '" + '"' * 4000 + "'")  # would print twice as long, and could not be read again


@pytest.mark.parametrize(
    ("op", "value"),
    [
        (Op.EXISTS, 1),
        (Op.IN, 1),
        (Op.EQ, None),
        (Op.EQ, (1,)),
        (Op.LT, True),
        (Op.PREFIX, 1),
        (Op.EQ, float("nan")),
        (Op.IN, (1.0, float("inf"))),
        (Op.EQ, 2**63),
        (Op.EQ, "\udc00"),
    ],
)
def test_impossible_constraints(op: Op, value: Value | tuple[Value, ...] | None) -> None:
    with pytest.raises(FilterError):
        Constraint("x", op, value)


def test_travels_as_messagepack() -> None:
    content = parse('a = true and b = 1 and c in (false, 0, 0.5, "x") and exists d and e >= "é"')
    raw = msgspec.msgpack.encode(content)
    assert msgspec.msgpack.decode(raw, type=Conjunction) == content


def test_what_a_peer_sends_is_checked() -> None:
    raw = msgspec.msgpack.encode([[["x", "<", True]]])
    with pytest.raises(msgspec.ValidationError, match="booleans"):
        msgspec.msgpack.decode(raw, type=Conjunction)


# --- matching ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "attributes", "expected"),
    [
        ("true", {}, True),
        ("false", {"": 1}, False),
        ("x = 1", {"x": 1.0}, True),
        ("x = 1", {"x": True}, False),
        ("x = true", {"x": 1}, False),
        ("x in (1)", {"x": True}, False),
        ("x in (true, 2)", {"x": 1}, False),
        ("x in (true, 2)", {"x": True}, True),
        ("x != 5", {"x": "a"}, False),
        ("x != 5", {}, False),
        ("x != 5", {"x": True}, False),
        ("x != 5", {"x": 6}, True),
        ('x != "a"', {"x": 1}, False),
        ("x != true", {"x": False}, True),
        ("x != true", {"x": 0}, False),
        ("x < 9007199254740993", {"x": 9007199254740992.0}, True),
        ("x = 9007199254740993", {"x": 9007199254740992.0}, False),
        ("x > 5", {"x": float("inf")}, True),
        ("x != 5", {"x": float("nan")}, False),
        ("exists x", {"x": False}, True),
        ("exists x", {"y": 1}, False),
        ('x >= "b"', {"x": "ba"}, True),
        ('x < "b"', {"x": "Z"}, True),
        ('x prefix "a" and x suffix "c" and x contains "b"', {"x": "abc"}, True),
        ('x prefix "ab" and x suffix "bc"', {"x": "abc"}, True),
    ],
)
def test_matches(text: str, attributes: dict[str, Value], expected: bool) -> None:
    assert parse(text).matches(attributes) is expected


def test_values_no_constraint_can_speak_about_only_exist() -> None:
    attributes: dict[str, Value] = {"x": [1]}  # type: ignore[dict-item]
    assert parse("exists x").matches(attributes)
    assert not parse("x in (1, 2)").matches(attributes)
    assert not parse("x != 2").matches(attributes)


# --- cover, intersection, satisfiability ---------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("true", "x = 1", True),
        ("x = 1", "true", False),
        ("x = 1", "false", True),
        ("false", "x = 1", False),
        ("x = 1", "x = true", False),
        ("exists x", "x = true", True),
        ("x in (true, false)", "exists x", False),
        ("x in (true, false)", "x != true", True),
        ("x <= 2", "x < 2", True),
        ("x < 2", "x <= 2", False),
        ("x < 2", "x <= 2 and x != 2", True),
        ("x <= 1", "x < 2", False),
        ("x != 3", "x > 3", True),
        ("x != 3", "x >= 2", False),
        ("x > 0", "x in (1, 2)", True),
        ("x in (1, 2, 3)", "x in (1, 2)", True),
        ('x in (1, "a")', "x = 1", True),
        ('x prefix ""', 'x in ("a", "b")', True),
        ('x prefix ""', 'x in ("a", 1)', False),
        ('x prefix "a"', 'x >= "a" and x < "b"', True),
        ('x prefix "a"', 'x >= "a" and x <= "b"', False),
        ('x < "b"', 'x prefix "a"', True),
        ('x < "ab"', 'x prefix "a"', False),
        ('x contains "bc"', 'x suffix "abc"', True),
        ('x contains "ab"', 'x prefix "a" and x suffix "b"', False),
        ('x contains "a"', 'x > "a" and x < "b"', True),
        ('x contains "aa"', 'x contains "a" and x contains "aaa"', True),
        ('x suffix "c"', 'x suffix "bc"', True),
        ('x suffix "abc"', 'x suffix "bc" and x prefix "a"', False),
        ('x != "abc"', 'x prefix "b"', True),
        ('x != "abc"', 'x prefix "a" and x suffix "c"', False),
        # no character lies between U+D7FF and U+E000
        ('x prefix "\ud7ff"', 'x >= "\ud7ff" and x < "\ue000"', True),
        # nor any string between "a" and "a\0"
        (r'x in ("a", "a\u0000")', r'x >= "a" and x < "a\u0000\u0000"', True),
        ('x prefix "\U0010ffff"', 'x >= "\U0010ffff"', True),
    ],
)
def test_covers(a: str, b: str, expected: bool) -> None:
    assert covers(a, b) is expected
    escape = content_escape(parse(a), parse(b))
    assert (escape is None) is expected
    if escape is not None:
        assert parse(b).matches(escape)
        assert not parse(a).matches(escape)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("x > 1", "x < 2", "x > 1 and x < 2"),
        ("x > 1", "x <= 1", None),
        ("x > 1", "y > 1", "x > 1 and y > 1"),
        ("x >= 1", "x <= 1", "x = 1"),
        ("x in (1, 2, 3)", "x in (3, 4)", "x = 3"),
        ('x prefix "a"', 'x < "a"', None),
        ('x prefix "ab"', 'x suffix "bc"', 'x prefix "ab" and x suffix "bc"'),
        ('x suffix "ab"', 'x suffix "bc"', None),
        ("x = 1", "x = true", None),
        ("x = 1", "false", None),
        ("true", "true", "true"),
    ],
)
def test_intersects(a: str, b: str, expected: str | None) -> None:
    both = content_intersect(parse(a), parse(b))
    assert both == (None if expected is None else parse(expected))
    assert content_overlaps(parse(a), parse(b)) is (expected is not None)


def test_satisfiable() -> None:
    assert content_satisfiable(ANYTHING)
    assert not content_satisfiable(NOTHING)
    assert not content_satisfiable(Conjunction((Constraint("x", Op.LT, 1), Constraint("x", Op.GT, 1))))


def test_between_neighbouring_floats_lies_a_number() -> None:
    content = parse("x > 1 and x < 1.0000000000000002")
    example = content_example(content)
    assert example is not None
    assert content.matches(example)


def test_many_substrings_are_no_problem() -> None:
    """A product of automata would have some 2^60 states here."""
    many = " and ".join(f'x contains "{chr(97 + i % 26)}{i}q"' for i in range(60))
    before = time.process_time()
    assert not covers('x contains "qq"', many)
    assert covers('x contains "59q"', many + ' and x prefix "a" and x < "az"')
    assert time.process_time() - before < 5


def test_long_strings_are_no_problem() -> None:
    low, high = "ab" * 450, "ab" * 450 + "\\u0000" * 20 + "b" * 900
    before = time.process_time()
    assert covers('x contains "ba"', f'x > "{low}" and x < "{high}"')
    assert not covers(f'x contains "{"b" * 900}"', f'x > "{low}" and x < "{high}"')
    assert time.process_time() - before < 5
