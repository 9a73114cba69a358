"""Fixed fault seeds, a block of them to a test."""

from __future__ import annotations

import pytest


def blocks(few: int, all_of_them: int, size: int) -> list[object]:
    """The first seed of every block; blocks after the first few seeds are long tests."""
    short = list(range(0, few, size))
    return [*short, *(pytest.param(start, marks=pytest.mark.long) for start in range(few, all_of_them, size))]
