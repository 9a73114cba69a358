"""Constraints and their conjunctions: the values themselves, what they match, and how they print.

Decision: a constraint needs its attribute to be present, and never matches a value of another type. So `x !=
5` is false where x is "a" or missing, and a boolean is not a number: `x = 1` does not match true.
Decision: numbers compare by value (1 = 1.0, exactly, however large); strings order by code point.
Decision: NaN is no number: as an attribute it satisfies `exists` only, and no filter may mention it.
Decision: `exists` matches a value of any type, also of types no constraint can speak about (a list out of
JSON).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from latecomer.model.errors import FilterError

Value: TypeAlias = bool | int | float | str

MAX_CONSTRAINTS = 64
MAX_MEMBERS = 256
MAX_TEXT = 4096

KEYWORDS = ("and", "contains", "exists", "false", "in", "prefix", "suffix", "true")
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class Op(StrEnum):
    """The order of the members is the order in which constraints of one attribute are printed."""

    EXISTS = "exists"
    EQ = "="
    IN = "in"
    PREFIX = "prefix"
    GE = ">="
    GT = ">"
    LE = "<="
    LT = "<"
    SUFFIX = "suffix"
    CONTAINS = "contains"
    NE = "!="


ORDER_OPS = (Op.GE, Op.GT, Op.LE, Op.LT)
TEXT_OPS = (Op.PREFIX, Op.SUFFIX, Op.CONTAINS)


class ConstraintError(FilterError, ValueError):
    """Also a ValueError, so that msgspec reports a malformed constraint from a peer as a ValidationError."""


class Constraint(msgspec.Struct, frozen=True, cache_hash=True, array_like=True):
    """`attribute op value`; the value is a tuple for `in` and None for `exists`."""

    attribute: str
    op: Op
    value: Value | tuple[Value, ...] | None = None

    def __post_init__(self) -> None:
        problem = constraint_problem(self.attribute, self.op, self.value)
        if problem is not None:
            shown = ascii(self.value)
            raise ConstraintError(f"{self.attribute} {self.op} {shown[:80]}", problem)

    def __eq__(self, other: object) -> bool:
        # Python says True == 1; here they differ, and a cache keyed by constraints must not mix them up.
        if not isinstance(other, Constraint):
            return NotImplemented
        return self is other or (
            self.op == other.op
            and self.attribute == other.attribute
            and self.value == other.value
            and _booleans(self.value) == _booleans(other.value)
        )

    __hash__ = msgspec.Struct.__hash__

    def __str__(self) -> str:
        name = print_name(self.attribute)
        if self.op is Op.EXISTS:
            return f"exists {name}"
        if isinstance(self.value, tuple):
            return f"{name} in ({', '.join(map(print_value, self.value))})"
        assert self.value is not None
        return f"{name} {self.op} {print_value(self.value)}"

    def holds(self, value: object) -> bool:
        """Does an attribute with this value satisfy the constraint?"""
        return _test(self)(value)


class Conjunction(msgspec.Struct, frozen=True, cache_hash=True, array_like=True):
    """All of these constraints. Made canonical by `conjunction`, `parse_content` and `content_intersect`."""

    constraints: tuple[Constraint, ...] = ()

    def __str__(self) -> str:
        if not self.constraints:
            return "true"
        if self == NOTHING:
            return "false"
        return " and ".join(map(str, self.constraints))

    def matches(self, attributes: Mapping[str, Value]) -> bool:
        """The hot path: one cached lookup, then one dict lookup and one closure per constraint."""
        for name, test in _tests(self):
            if name not in attributes or not test(attributes[name]):
                return False
        return True


def _booleans(value: Value | tuple[Value, ...] | None) -> tuple[bool, ...]:
    if isinstance(value, tuple):
        return tuple(member is True or member is False for member in value)
    return (value is True or value is False,)


_NUMBERS = (int, float, Fraction)
"""By exact type: a boolean is no number. (A Fraction comes from a witness, never from an event.)"""


def constraint_problem(attribute: str, op: Op, value: Value | tuple[Value, ...] | None) -> str | None:
    """What would be wrong with such a constraint, if anything."""
    if _has_surrogate(attribute):
        return "an attribute name must not contain half a surrogate pair"
    if op is Op.EXISTS:
        return None if value is None else "'exists' takes no value"
    if op is Op.IN:
        if not isinstance(value, tuple):
            return "'in' needs a list of values"
        if len(value) > MAX_MEMBERS:
            return f"'in' takes at most {MAX_MEMBERS} values, here are {len(value)}"
        return next((problem for member in value if (problem := _value_problem(member))), None)
    if value is None or isinstance(value, tuple):
        return f"'{op}' needs exactly one value"
    if isinstance(value, bool) and op in ORDER_OPS:
        return f"'{op}' cannot order booleans; use = or !="
    if not isinstance(value, str) and op in TEXT_OPS:
        return f"'{op}' needs a string"
    return _value_problem(value)


def _value_problem(value: object) -> str | None:
    if isinstance(value, str):
        return "a string must not contain half a surrogate pair" if _has_surrogate(value) else None
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else "a number must be finite"
    if isinstance(value, int):
        # Decision: integers are those MessagePack and most JSON readers can carry; a float may be larger.
        return None if -(2**63) <= value < 2**63 else "an integer must fit into 64 bits; write 1e30 for a larger number"
    return "a value is a number, a string or a boolean"


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


# --- matching -------------------------------------------------------------------------------------

Test: TypeAlias = Callable[[object], bool]


@lru_cache(maxsize=16_384)
def _tests(conjunction: Conjunction) -> tuple[tuple[str, Test], ...]:
    return tuple((constraint.attribute, _test(constraint)) for constraint in conjunction.constraints)


@lru_cache(maxsize=16_384)
def _test(constraint: Constraint) -> Test:
    """A constraint as a closure: what depends on the constraint is decided once, not per event."""
    value = constraint.value
    if value is None:
        return lambda _given: True
    if isinstance(value, tuple):
        return _member_test(value)
    if isinstance(value, str):
        return _string_test(constraint.op, value)
    if isinstance(value, bool):
        wanted = value if constraint.op is Op.EQ else not value
        return lambda given: given is wanted
    return _number_test(constraint.op, value)


def _member_test(values: tuple[Value, ...]) -> Test:
    booleans = tuple(value for value in values if isinstance(value, bool))
    others = frozenset(value for value in values if not isinstance(value, bool))

    def test(given: object) -> bool:
        if type(given) is bool:
            return given in booleans
        return (type(given) is str or type(given) in _NUMBERS) and given in others

    return test


def _string_test(op: Op, text: str) -> Test:
    tests: dict[Op, Test] = {
        Op.EQ: lambda given: given == text,
        Op.NE: lambda given: type(given) is str and given != text,
        Op.LT: lambda given: type(given) is str and given < text,
        Op.LE: lambda given: type(given) is str and given <= text,
        Op.GT: lambda given: type(given) is str and given > text,
        Op.GE: lambda given: type(given) is str and given >= text,
        Op.PREFIX: lambda given: type(given) is str and given.startswith(text),
        Op.SUFFIX: lambda given: type(given) is str and given.endswith(text),
        Op.CONTAINS: lambda given: type(given) is str and text in given,
    }
    return tests[op]


def _number_test(op: Op, number: int | float) -> Test:
    # Any for the type checker: it cannot conclude from `in _NUMBERS` that there is an order.
    tests: dict[Op, Callable[[Any], bool]] = {
        Op.EQ: lambda given: type(given) in _NUMBERS and given == number,
        # Not Python's !=, which holds for NaN.
        Op.NE: lambda given: type(given) in _NUMBERS and (given < number or given > number),
        Op.LT: lambda given: type(given) in _NUMBERS and given < number,
        Op.LE: lambda given: type(given) in _NUMBERS and given <= number,
        Op.GT: lambda given: type(given) in _NUMBERS and given > number,
        Op.GE: lambda given: type(given) in _NUMBERS and given >= number,
    }
    return tests[op]


# --- printing -------------------------------------------------------------------------------------


def print_name(name: str) -> str:
    """An attribute name as the parser reads it: backquoted unless it is a plain word and no keyword."""
    if PLAIN_NAME.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`").replace("\0", "\\u0000") + "`"


def print_value(value: Value) -> str:
    """A value as the parser reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A null character could not travel in an MQTT string, so it is spelled out; all else goes as it is.
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "\\u0000") + '"'
    return repr(value)


def plain(value: Value) -> Value:
    """One way to write each number: 5.0 is 5, as long as an integer may be that large."""
    if isinstance(value, float) and value.is_integer() and -(2.0**63) <= value < 2.0**63:
        return int(value)
    return value


def sort_key(value: Value) -> tuple[int, Value]:
    """Orders values of mixed types: booleans, numbers, strings."""
    return (0 if isinstance(value, bool) else 2 if isinstance(value, str) else 1, value)


def distinct(values: Iterable[Value]) -> tuple[Value, ...]:
    """Sorted, each value once, true kept apart from 1."""
    kept: dict[tuple[int, Value], Value] = {sort_key(value): plain(value) for value in values}
    return tuple(kept[key] for key in sorted(kept))


NOTHING = Conjunction((Constraint("", Op.IN, ()),))
"""The canonical contradiction; prints as `false`."""

ANYTHING = Conjunction(())
"""The canonical tautology; prints as `true`."""
