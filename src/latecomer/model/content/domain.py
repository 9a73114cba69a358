"""What a conjunction leaves of one attribute.

Attributes are independent, so that cover and intersection can be decided for one attribute at a time, and
within it for one type at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from latecomer.model.content.numbers import (
    Numbers,
    a_number,
    constraints_of_numbers,
    escape_number,
    numbers_of,
)
from latecomer.model.content.strings import (
    Strings,
    a_string,
    constraints_of_strings,
    escape_string,
    strings_of,
)
from latecomer.model.content.terms import Constraint, Op, Value, distinct


class Anything(msgspec.Struct, frozen=True):
    """The attribute is there, and that is all."""


class Finite(msgspec.Struct, frozen=True):
    """One of these values, sorted; none of them if the constraints contradict each other."""

    values: tuple[Value, ...]


Domain: TypeAlias = Anything | Finite | Numbers | Strings

EMPTY = Finite(())


def domain_of(constraints: Iterable[Constraint]) -> Domain:
    """What the constraints, all of one attribute, leave of it together."""
    telling = [constraint for constraint in constraints if constraint.op is not Op.EXISTS]
    if not telling:
        return Anything()
    for constraint in telling:
        candidates = _candidates(constraint)
        if candidates is not None:
            return Finite(distinct(v for v in candidates if all(other.holds(v) for other in telling)))
    # What is left speaks about one type each: two types are one too many.
    texts = [constraint for constraint in telling if isinstance(constraint.value, str)]
    if texts and len(texts) < len(telling):
        return EMPTY
    found = strings_of(telling) if texts else numbers_of(telling)
    return Finite(distinct(found)) if isinstance(found, tuple) else found


def _candidates(constraint: Constraint) -> tuple[Value, ...] | None:
    """The values that satisfy a constraint, if they can be listed."""
    value = constraint.value
    if isinstance(value, tuple):
        return value
    if isinstance(value, bool):
        return (value if constraint.op is Op.EQ else not value,)
    return (value,) if constraint.op is Op.EQ and value is not None else None


def a_value(domain: Domain) -> Value | None:
    """A value out of a domain; None if it is empty."""
    if isinstance(domain, Anything):
        return True
    if isinstance(domain, Finite):
        return domain.values[0] if domain.values else None
    return a_number(domain) if isinstance(domain, Numbers) else a_string(domain)


def escape(domain: Domain, constraint: Constraint) -> Value | None:
    """A value out of a domain that does not satisfy the constraint; None if they all do."""
    if constraint.op is Op.EXISTS:
        return None
    if isinstance(domain, Finite):
        return next((value for value in domain.values if not constraint.holds(value)), None)
    if isinstance(domain, Numbers):
        return escape_number(domain, constraint)
    if isinstance(domain, Strings):
        return escape_string(domain, constraint)
    # No constraint but `exists` holds for true and for all numbers as well.
    return escape_number(Numbers(), constraint) if constraint.holds(True) else True


def constraints_of(name: str, domain: Domain) -> list[Constraint]:
    """The canonical constraints of a domain that is not empty."""
    if isinstance(domain, Anything):
        return [Constraint(name, Op.EXISTS)]
    if isinstance(domain, Finite):
        assert domain.values
        if len(domain.values) == 1:
            return [Constraint(name, Op.EQ, domain.values[0])]
        return [Constraint(name, Op.IN, domain.values)]
    if isinstance(domain, Numbers):
        return constraints_of_numbers(name, domain)
    return constraints_of_strings(name, domain)
