"""Finds walks over a set: its order differs from process to process, and a seed would not be a run.

A heuristic, by names: an expression is taken for a set if it is written as one, or if its name (`seen`,
`self.seen`) is annotated or assigned as one in the same function or class. A walk is forgiven where its order
cannot show: `sorted(s)`, `any(… for x in s)`, `{… for x in s}` and the like.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.repository import dotted

SETS = {"set", "frozenset", "AbstractSet", "MutableSet"}
ORDER_CANNOT_SHOW = {"sorted", "set", "frozenset", "any", "all", "len"}
ORDER_SHOWS = {"list", "tuple", "iter", "enumerate", "map", "zip", "dict.fromkeys", "next", "deque"}
SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def walks_over_sets(module: ast.Module) -> Iterator[ast.expr]:
    """Every expression that is a set and is walked in its own order."""
    yield from _in_scope(module, frozenset())


def _in_scope(scope: Scope, outer: frozenset[str]) -> Iterator[ast.expr]:
    known = outer | _set_names(scope)
    forgiven: set[int] = set()
    for node in _own_nodes(scope):
        if isinstance(node, Scope):
            yield from _in_scope(node, known)
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in ORDER_CANNOT_SHOW:
                forgiven.update(id(argument) for argument in node.args)
            elif name in ORDER_SHOWS:
                yield from (argument for argument in node.args if _is_set(argument, known))
        elif isinstance(node, ast.For | ast.AsyncFor):
            if _is_set(node.iter, known):
                yield node.iter
        elif isinstance(node, ast.Starred):
            if _is_set(node.value, known):
                yield node.value
        elif isinstance(node, Comprehension) and not isinstance(node, ast.SetComp) and id(node) not in forgiven:
            yield from (loop.iter for loop in node.generators if _is_set(loop.iter, known))


def _own_nodes(scope: Scope) -> Iterator[ast.AST]:
    """Nodes of this scope, parents first; an inner scope is given but not entered."""
    waiting: list[ast.AST] = list(reversed(list(ast.iter_child_nodes(scope))))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Scope):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _set_names(scope: Scope) -> frozenset[str]:
    """Names known as sets in this scope; a class also knows the `self.…` of its methods."""
    found: set[str] = set()
    nodes = ast.walk(scope) if isinstance(scope, ast.ClassDef) else _own_nodes(scope)
    for node in nodes:
        if isinstance(node, ast.arg) and node.annotation and _means_set(node.annotation):
            if not isinstance(scope, ast.ClassDef):
                found.add(node.arg)
        elif isinstance(node, ast.AnnAssign) and _means_set(node.annotation):
            found.update(_as_known(node.target, scope))
        elif isinstance(node, ast.Assign) and _is_set(node.value, frozenset()):
            for target in node.targets:
                found.update(_as_known(target, scope))
    return frozenset(found)


def _as_known(target: ast.expr, scope: Scope) -> list[str]:
    name = dotted(target)
    if isinstance(scope, ast.ClassDef) and isinstance(target, ast.Name):
        # A field of a struct is read as `self.field`; a local variable of a method is not a field.
        return [f"self.{name}"] if any(getattr(n, "target", None) is target for n in scope.body) else []
    return [name] if name else []


def _means_set(annotation: ast.expr) -> bool:
    head = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return dotted(head).rpartition(".")[2] in SETS


def _is_set(node: ast.expr, known: frozenset[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in SET_METHODS:
            return _is_set(value, known)
        case ast.Call(func=function):
            return dotted(function) in {"set", "frozenset"}
        case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, SET_OPERATORS):
            return _is_set(left, known) or _is_set(right, known)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_set(body, known) or _is_set(orelse, known)
        case ast.Name() | ast.Attribute():
            return dotted(node) in known
    return False
