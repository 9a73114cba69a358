"""The settings in words: the reference page and the example file, made from the schema."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from latecomer.core.routing import Hierarchy, Rendezvous
from latecomer.core.settings import BrokerSettings
from latecomer.runtime.settings import ELSEWHERE, SHAPE, Settings

HEAD = """\
# Settings

<!-- Made by `make docs` from the schema; change src/latecomer/runtime/settings.py instead. -->

One TOML file, UTF-8, at most 256 KiB, named with `--config`. Everything has a default that works: without a file the
broker serves clients of this machine on port 1883. A key that is not listed here is an error, and every error names
the key and the line. A relative path in the file counts from the directory of the file.

[Security](../guide/security.md) shows users, rules, TLS and links at work.
"""

_WORDS = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    Path: "path",
    tuple: "list",
    dict: "table",
}
_ARRAYS = ("listeners", "link.neighbours")
LONG = 10**9
"""A bound that nobody reaches is not worth saying."""


def describe() -> str:
    """The reference page."""
    parts = [HEAD]
    for table, struct in _sections():
        title = f"[[{table}]]" if table in _ARRAYS else f"[{table}]"
        parts.append(f"## `{title}`\n\n{_about(table, struct)}\n")
        rows = [f"| `{key}` | {default} | {values} | {note} |\n" for key, default, values, note in _rows(table, struct)]
        parts.append("| key | default | values | meaning |\n|---|---|---|---|\n" + "".join(rows))
    return "\n".join(parts)


def example() -> str:
    """A settings file in which everything is said as it is by default, and commented out."""
    parts = ["# Settings of a Latecomer broker: every key with its default.\n"]
    for table, struct in _sections():
        sign = "# " if table in _ARRAYS or table == "core.routing" else ""
        title = f"[[{table}]]" if table in _ARRAYS else f"[{table}]"
        parts.append(f"\n{_comment(_about(table, struct))}{sign}{title}\n")
        for name, default in _fields(table, struct):
            note = _notes(struct).get(name) or _notes(Rendezvous).get(name) or _given_note(table, name)
            other = table == "core.routing" and name not in ("kind", *struct.__struct_fields__)  # of another kind
            shown = "…" if other or default is msgspec.NODEFAULT or default is None else _toml(default)
            parts.append(f"\n{_comment(note)}# {name} = {shown}\n")
    return "".join(parts)


def _sections() -> Iterator[tuple[str, type[msgspec.Struct]]]:
    for table, struct in SHAPE.tables.items():
        if table:
            yield table, struct
    yield "core.routing", Hierarchy


def _about(table: str, struct: type[msgspec.Struct]) -> str:
    """What a table is for; the core's own structs speak to programmers."""
    if table == "core.routing":
        return "How events find those who want them."
    of_all = _notes(Settings).get(table, "")
    return of_all if table == "core" else " ".join(filter(None, (_prose(struct.__doc__), of_all)))


def _fields(table: str, struct: type[msgspec.Struct]) -> Iterator[tuple[str, Any]]:
    """What an operator writes into a table, with defaults."""
    if table == "core.routing":
        yield "kind", "forwarding"
    for field in _all_fields(table, struct):
        inner = f"{table}.{field.name}" in SHAPE.tables or f"{table}.{field.name}" in SHAPE.families
        if not inner and not (struct is BrokerSettings and field.name in ELSEWHERE):
            made = field.default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT
            yield field.name, field.default_factory() if made else field.default


def _all_fields(table: str, struct: type[msgspec.Struct]) -> Iterator[msgspec.structs.FieldInfo]:
    known = msgspec.structs.fields(struct)
    yield from known
    if table == "core.routing":  # strategies share the keys that they have in common
        names = [field.name for field in known]
        yield from (field for field in msgspec.structs.fields(Rendezvous) if field.name not in names)


def _rows(table: str, struct: type[msgspec.Struct]) -> Iterator[tuple[str, str, str, str]]:
    routing = table == "core.routing"
    hints = (get_type_hints(Rendezvous) if routing else {}) | get_type_hints(struct, include_extras=True)
    notes = (_notes(Rendezvous) if routing else {}) | _notes(struct)
    for name, default in _fields(table, struct):
        known = hints.get(name, Literal["forwarding", "hierarchy", "rendezvous"])
        shown = "required" if default is msgspec.NODEFAULT else "" if default is None else f"`{_toml(default)}`"
        note = notes.get(name) or _given_note(table, name)
        yield name, shown, _values(known), note.replace("|", "\\|")


def _given_note(table: str, name: str) -> str:
    assert (table, name) == ("core.routing", "kind"), f"{table}.{name} needs a sentence below it"
    return "The routing strategy; all brokers of a network have the same."


def _notes(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The sentence below each field."""
    (parsed,) = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    assert isinstance(parsed, ast.ClassDef)
    notes = {}
    for field, below in zip(parsed.body, parsed.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                notes[name] = _prose(text)
    return notes


def _values(hint: Any) -> str:
    """What may stand there."""
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *meta = get_args(hint)
        for each in meta:
            if isinstance(each, msgspec.Meta) and each.description:
                return each.description
        bounds = [_bounds(each) for each in meta if isinstance(each, msgspec.Meta)]
        return " ".join([_values(inner), *filter(None, bounds)])
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(hint))
    if origin in (Union, UnionType):
        return " or ".join(_values(part) for part in get_args(hint) if part is not NoneType)
    return _WORDS[origin or hint]


def _bounds(meta: msgspec.Meta) -> str:
    low = f"≥ {meta.ge}" if meta.ge is not None else f"> {meta.gt}" if meta.gt is not None else ""
    high = f"≤ {meta.le}" if meta.le is not None and meta.le < LONG else ""
    return ", ".join(part for part in (low, high) if part)


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return msgspec.json.encode(str(value) if isinstance(value, Path) else value).decode()


def _prose(text: str | None) -> str:
    return " ".join((text or "").split())


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, 110))
