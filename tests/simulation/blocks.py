"""Which tests of fault seeds and of planted bugs are long."""

from __future__ import annotations

from collections.abc import Container, Iterable

import pytest


def blocks(few: int, all_of_them: int, size: int) -> list[object]:
    """Fixed seeds, a block of them to a test: the first of every block. Blocks after the first few seeds are long."""
    short = list(range(0, few, size))
    return [*short, *(pytest.param(start, marks=pytest.mark.long) for start in range(few, all_of_them, size))]


def mutants(names: Iterable[str], rare: Container[str]) -> list[object]:
    """The names of planted bugs; those that only many seeds or a long life show are long tests."""
    return [pytest.param(name, marks=pytest.mark.long) if name in rare else name for name in names]
