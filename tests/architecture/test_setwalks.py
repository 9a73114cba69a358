"""The search for walks over sets finds what it should and forgives what it may."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.setwalks import walks_over_sets

WRONG = [
    "for x in {1, 2}: f(x)",
    "for x in set(y): f(x)",
    "for x in a | set(b): f(x)",
    "for x in frozenset(a).union(b): f(x)",
    "[f(x) for x in {y for y in z}]",
    "{x: 1 for x in set(y)}",
    "sum(x for x in set(y))",
    "list(set(y))",
    "f(*set(y))",
    "def f(seen: set[int]):\n  for x in seen: g(x)",
    "def f():\n  seen = set()\n  return [x for x in seen]",
    "class A:\n  def f(self):\n    self.seen: set[int] = set()\n  def g(self):\n    return list(self.seen)",
    "class A(Struct):\n  seen: frozenset[int]\n  def g(self):\n    for x in self.seen: h(x)",
]

RIGHT = [
    "for x in sorted({1, 2}): f(x)",
    "for x in sorted(set(y)): f(x)",
    "for x in dict.fromkeys(y): f(x)",
    "any(f(x) for x in set(y))",
    "sorted(f(x) for x in set(y))",
    "{f(x) for x in set(y)}",
    "x in {1, 2}",
    "len(set(y)) == 1",
    "def f(seen: set[int]):\n  return 3 in seen",
    "def f(seen: set[int]): pass\ndef g(seen: list[int]):\n  for x in seen: h(x)",
    "class A:\n  def f(self):\n    seen: set[int] = set()\n  def g(self, seen):\n    for x in seen: h(x)",
    "for x in a - b: f(x)",  # nothing says that these are sets
]


@pytest.mark.parametrize("text", WRONG)
def test_a_walk_over_a_set_is_found(text: str) -> None:
    assert len(list(walks_over_sets(ast.parse(text)))) == 1


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_no_walk_or_shows_no_order_is_forgiven(text: str) -> None:
    assert [ast.unparse(found) for found in walks_over_sets(ast.parse(text))] == []
