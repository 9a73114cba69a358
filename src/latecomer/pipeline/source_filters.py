"""What Spark pushes down to the source: conditions that decide which files are read, and which rows leave them.

Spark looks at every row again, so a condition that is not understood costs time and no truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any, Literal, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from latecomer.model.ids import NUMBER_MAX

Test: TypeAlias = Literal["in", ">", ">=", "<", "<=", "begins"]
KNOWN = (bool, int, float, str, datetime)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TESTS: dict[type[Filter], Test] = {
    EqualTo: "in",
    In: "in",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    StringStartsWith: "begins",
}


class Condition(msgspec.Struct, frozen=True):
    """One of those that a row must meet. Instants are microseconds since 1970."""

    column: str
    test: Test
    values: tuple[Any, ...]


class Wanted(msgspec.Struct, frozen=True):
    """All of them."""

    conditions: tuple[Condition, ...] = ()

    def among(self, column: str) -> tuple[Any, ...] | None:
        """The values that a column may have; None: any."""
        told = [one.values for one in self.conditions if (one.column, one.test) == (column, "in")]
        if not told:
            return None
        return tuple(value for value in told[0] if all(value in others for others in told[1:]))

    def between(self, column: str) -> tuple[int, int]:
        """From where to where a column of whole numbers may be, both included."""
        low, high = -NUMBER_MAX, NUMBER_MAX
        for condition in self.conditions:
            if condition.column != column or not all(isinstance(value, int) for value in condition.values):
                continue
            if condition.test == "in":
                low, high = max(low, min(condition.values)), min(high, max(condition.values))
            elif condition.test in (">", ">="):
                low = max(low, condition.values[0] + (condition.test == ">"))
            elif condition.test in ("<", "<="):
                high = min(high, condition.values[0] - (condition.test == "<"))
        return low, high

    def expression(self, names: dict[str, tuple[str, Any]]) -> Any:
        """For Arrow: what is known of columns that are in `names`, which has the column to look at and its type."""
        told = [_expression(one, *names[one.column]) for one in self.conditions if one.column in names]
        known = [expression for expression in told if expression is not None]
        return reduce(lambda left, right: left & right, known) if known else None


def understood(filters: Iterable[Filter]) -> Wanted:
    """As many of the filters as mean something here."""
    return Wanted(tuple(found for one in filters if (found := _condition(one)) is not None))


def _condition(one: Filter) -> Condition | None:
    test = _TESTS.get(type(one))
    if test is None:
        return None
    told = asdict(one)
    column, values = told["attribute"], told["value"]
    values = tuple(values) if isinstance(one, In) else (values,)
    if len(column) != 1 or not values or not all(isinstance(value, KNOWN) for value in values):
        return None
    return Condition(column[0], test, tuple(_microseconds(v) if isinstance(v, datetime) else v for v in values))


def _microseconds(instant: datetime) -> int:
    """Spark's instants know their zone; those of the type without one are taken as UTC, as the session does."""
    return ((instant if instant.tzinfo else instant.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)


def _expression(condition: Condition, name: str, type: Any) -> Any:
    field = pc.field(name)
    try:
        values = pa.array(condition.values, pa.int64() if pa.types.is_timestamp(type) else type).cast(type)
    except (pa.ArrowException, TypeError):
        return None  # of another kind than the column: Spark knows what that means
    first = values[0]
    match condition.test:
        case "in":
            return field == first if len(values) == 1 else field.isin(values)
        case ">":
            return field > first
        case ">=":
            return field >= first
        case "<":
            return field < first
        case "<=":
            return field <= first
        case "begins":
            return pc.starts_with(field, first.as_py())
