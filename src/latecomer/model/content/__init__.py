"""Content filters: conjunctions of constraints over the attributes of an event.

    brand = "IBM" and price <= 1600 and name prefix "ab" and kind in ("a", "b") and exists size

Cover, intersection and satisfiability are exact: neither a missed cover (brokers would forward superfluous
subscriptions) nor a wrong one (subscribers would miss events). See `strings` for why that is cheap also for
text.

    terms     the values: Constraint, Conjunction; matching and printing
    text      the parser
    numbers, strings, domain     what constraints leave of one attribute
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from latecomer.model.content.domain import EMPTY, Domain, a_value, constraints_of, domain_of, escape
from latecomer.model.content.terms import (
    ANYTHING,
    MAX_CONSTRAINTS,
    MAX_MEMBERS,
    MAX_TEXT,
    NOTHING,
    Conjunction,
    Constraint,
    ConstraintError,
    Op,
    Value,
)
from latecomer.model.content.text import read_constraints
from latecomer.model.errors import FilterError

__all__ = [
    "ANYTHING",
    "MAX_CONSTRAINTS",
    "MAX_MEMBERS",
    "MAX_TEXT",
    "NOTHING",
    "Conjunction",
    "Constraint",
    "ConstraintError",
    "Op",
    "Value",
    "conjunction",
    "content_covers",
    "content_escape",
    "content_example",
    "content_intersect",
    "content_overlaps",
    "content_satisfiable",
    "parse_content",
]


@lru_cache(maxsize=4096)
def parse_content(text: str) -> Conjunction:
    """Read a content filter; blank text and `true` match everything, `false` matches nothing. The same text is the same
    object, so that equal filters of many clients are compared without a look at their constraints."""
    return conjunction(read_constraints(text))


def conjunction(constraints: Iterable[Constraint]) -> Conjunction:
    """The canonical conjunction: sorted, and nothing in it that the rest of it implies.

    Decision: a contradiction, wherever it is, makes all of it NOTHING: the same meaning, the same value.
    Decision: the limits hold for what comes from outside, before and after simplifying, so that every
    conjunction made here also prints as a text that can be read again; `content_intersect` may exceed them.
    """
    given = tuple(constraints)
    if len(given) > MAX_CONSTRAINTS:
        raise _too_many(len(given))
    found = _canonical(given)
    if len(found.constraints) > MAX_CONSTRAINTS:
        raise _too_many(len(found.constraints))
    text = str(found)
    if len(text) > MAX_TEXT:
        problem = f"a content filter has at most {MAX_TEXT} characters, this one prints with {len(text)}"
        raise FilterError(text[:79] + "…", problem)
    return found


def _too_many(count: int) -> FilterError:
    return FilterError("…", f"a content filter has at most {MAX_CONSTRAINTS} constraints, not {count}")


def _canonical(constraints: tuple[Constraint, ...]) -> Conjunction:
    found: list[Constraint] = []
    for name, domain in sorted(_domains_of(constraints).items()):
        if domain == EMPTY:
            return NOTHING
        found.extend(constraints_of(name, domain))
    return Conjunction(tuple(found))


def _domains_of(constraints: tuple[Constraint, ...]) -> dict[str, Domain]:
    by_name: dict[str, list[Constraint]] = {}
    for constraint in constraints:
        by_name.setdefault(constraint.attribute, []).append(constraint)
    return {name: domain_of(same) for name, same in by_name.items()}


@lru_cache(maxsize=16_384)
def _domains(content: Conjunction) -> dict[str, Domain] | None:
    """What a conjunction leaves of each attribute it mentions; None if nothing can match it."""
    domains = _domains_of(content.constraints)
    return None if EMPTY in domains.values() else domains


def content_satisfiable(content: Conjunction) -> bool:
    """Can an event match this at all?"""
    return _domains(content) is not None


@lru_cache(maxsize=65_536)
def content_covers(a: Conjunction, b: Conjunction) -> bool:
    """Does everything that matches `b` match `a`? So: is "`b`, but not c" impossible for each c of `a`?"""
    if a == b or not a.constraints:
        return True
    narrow = _domains(b)
    if narrow is None:
        return True
    for constraint in a.constraints:
        domain = narrow.get(constraint.attribute)
        if domain is None or escape(domain, constraint) is not None:
            return False
    return True


@lru_cache(maxsize=65_536)
def content_intersect(a: Conjunction, b: Conjunction) -> Conjunction | None:
    """What matches both, in canonical form; None if nothing can."""
    found = _canonical(a.constraints + b.constraints)
    return None if found == NOTHING else found


@lru_cache(maxsize=65_536)
def content_overlaps(a: Conjunction, b: Conjunction) -> bool:
    """Can an event match both? Only attributes that both mention can clash."""
    left, right = _domains(a), _domains(b)
    if left is None or right is None:
        return False
    shared = tuple(constraint for constraint in a.constraints if constraint.attribute in right)
    if not shared:
        return True
    names = {constraint.attribute for constraint in shared}
    return EMPTY not in _domains_of(shared + tuple(c for c in b.constraints if c.attribute in names)).values()


def content_example(content: Conjunction) -> dict[str, Value] | None:
    """Attributes that match; None if nothing can. A number is a Fraction where no float would do."""
    domains = _domains(content)
    if domains is None:
        return None
    return {name: value for name, domain in domains.items() if (value := a_value(domain)) is not None}


def content_escape(a: Conjunction, b: Conjunction) -> dict[str, Value] | None:
    """Attributes that match `b` but not `a`: the proof that `a` does not cover `b`; None if it does."""
    example = content_example(b)
    narrow = _domains(b)
    if example is None or narrow is None:
        return None
    for constraint in a.constraints:
        domain = narrow.get(constraint.attribute)
        if domain is None:
            return example  # which lacks the attribute
        value = escape(domain, constraint)
        if value is not None:
            return {**example, constraint.attribute: value}
    return None
