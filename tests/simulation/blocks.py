"""Fault seeds in blocks, seeds that show planted bugs, and which of these tests are long."""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterable, Mapping

import pytest

from latecomer.sim.soak import judge


def blocks(few: int, all_of_them: int, size: int) -> list[object]:
    """Fixed seeds, a block of them to a test: the first of every block. Blocks after the first few seeds are long."""
    short = list(range(0, few, size))
    return [*short, *(pytest.param(start, marks=pytest.mark.long) for start in range(few, all_of_them, size))]


def mutants(names: Iterable[str], rare: Container[str]) -> list[object]:
    """The names of planted bugs; those that only many seeds or a long life show are long tests."""
    return [pytest.param(name, marks=pytest.mark.long) if name in rare else name for name in names]


def catch(name: str, known: Mapping[str, int], seeds_max: int, clients: str = "plain") -> int | None:
    """The seed whose life shows a planted bug: the known one if it still does, otherwise the first. A change of what
    seeds draw makes known seeds stale, and stale ones make these tests take many times as long: a warning tells."""
    if name in known and judge(known[name], clients).violations:
        return known[name]
    caught = next((seed for seed in range(seeds_max) if judge(seed, clients).violations), None)
    if name in known and caught is not None:
        warnings.warn(f"seed {known[name]} no longer catches {name}: {caught} does", stacklevel=2)
    return caught
