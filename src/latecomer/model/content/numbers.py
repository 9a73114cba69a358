"""The numbers that satisfy a set of constraints: an interval less some points.

Decision: for cover and intersection the number line is dense: between any two numbers lies another, also
between two neighbouring floats. `x > 1 and x < 2` can be satisfied.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

import msgspec

from latecomer.model.content.terms import Constraint, Op, plain

Number: TypeAlias = int | float


class Numbers(msgspec.Struct, frozen=True):
    """An interval of numbers, less `excluded`; a bound of None is none, and counts as open."""

    low: Number | None = None
    low_open: bool = True
    high: Number | None = None
    high_open: bool = True
    excluded: tuple[Number, ...] = ()

    def has(self, number: Number) -> bool:
        return (
            (self.low is None or number > self.low or (number == self.low and not self.low_open))
            and (self.high is None or number < self.high or (number == self.high and not self.high_open))
            and number not in self.excluded
        )

    def above(self, low: Number, is_open: bool) -> Numbers:
        """Only those above a bound."""
        if self.low is not None and (low < self.low or (low == self.low and self.low_open >= is_open)):
            return self
        return msgspec.structs.replace(self, low=low, low_open=is_open)

    def below(self, high: Number, is_open: bool) -> Numbers:
        """Only those below a bound."""
        if self.high is not None and (high > self.high or (high == self.high and self.high_open >= is_open)):
            return self
        return msgspec.structs.replace(self, high=high, high_open=is_open)

    def without(self, numbers: tuple[Number, ...]) -> Numbers:
        return msgspec.structs.replace(self, excluded=self.excluded + numbers)


def numbers_of(constraints: list[Constraint]) -> Numbers | tuple[Number, ...]:
    """What number constraints (none of them `=`, `in` or `exists`) leave; a tuple for at most one number."""
    found = Numbers()
    for constraint in constraints:
        number = constraint.value
        assert isinstance(number, (int, float))
        if constraint.op is Op.NE:
            found = found.without((number,))
        elif constraint.op in (Op.GT, Op.GE):
            found = found.above(number, constraint.op is Op.GT)
        else:
            assert constraint.op in (Op.LT, Op.LE)
            found = found.below(number, constraint.op is Op.LT)
    if found.low is not None and found.high is not None and found.low >= found.high:
        return (found.low,) if found.has(found.low) else ()
    return _tidied(found)


def _tidied(found: Numbers) -> Numbers:
    """An excluded bound is an open bound; what is excluded outside the bounds is not mentioned."""
    inner = Numbers(found.low, True, found.high, True)
    return Numbers(
        low=found.low,
        low_open=found.low_open or found.low in found.excluded,
        high=found.high,
        high_open=found.high_open or found.high in found.excluded,
        excluded=tuple(sorted(dict.fromkeys(filter(inner.has, found.excluded)))),
    )


def a_number(numbers: Numbers) -> Number | None:
    """One of the numbers; a Fraction (which is a float for the type checker) where no float lies between."""
    low, high = numbers.low, numbers.high
    if low is not None and high is not None and low >= high:
        return low if numbers.has(low) else None
    inner = Numbers(low, True, high, True)
    barriers: list[Number] = sorted(filter(inner.has, numbers.excluded))
    # Up to the first excluded number nothing is excluded, so that any number in between will do.
    end = barriers[0] if barriers else high
    if low is None:
        return 0 if end is None else _simple(Fraction(end) - 1)
    if end is None:
        return _simple(Fraction(low) + 1)
    middle = (Fraction(low) + Fraction(end)) / 2
    rounded = float(middle)
    return _simple(Fraction(rounded) if low < rounded < end else middle)


def _simple(number: Fraction) -> Number:
    if number.denominator == 1:
        return number.numerator
    return float(number) if Fraction(float(number)) == number else number  # type: ignore[return-value]


def escape_number(numbers: Numbers, constraint: Constraint) -> Number | None:
    """One of the numbers that does not satisfy the constraint, or None if they all do."""
    op, value = constraint.op, constraint.value
    if isinstance(value, tuple):
        members = tuple(m for m in value if isinstance(m, (int, float)) and not isinstance(m, bool))
        return a_number(numbers.without(members))
    if isinstance(value, (str, bool)) or value is None:
        return None if op is Op.EXISTS else a_number(numbers)
    if op is Op.EQ:
        return a_number(numbers.without((value,)))
    if op is Op.NE:
        return value if numbers.has(value) else None
    if op in (Op.LT, Op.LE):
        return a_number(numbers.above(value, op is Op.LE))
    assert op in (Op.GT, Op.GE)
    return a_number(numbers.below(value, op is Op.GE))


def constraints_of_numbers(name: str, numbers: Numbers) -> list[Constraint]:
    """The canonical constraints that leave these numbers."""
    found: list[Constraint] = []
    if numbers.low is not None:
        found.append(Constraint(name, Op.GT if numbers.low_open else Op.GE, plain(numbers.low)))
    if numbers.high is not None:
        found.append(Constraint(name, Op.LT if numbers.high_open else Op.LE, plain(numbers.high)))
    found.extend(Constraint(name, Op.NE, plain(number)) for number in numbers.excluded)
    return found
