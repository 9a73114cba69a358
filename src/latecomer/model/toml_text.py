"""A TOML text from outside: read within limits, and every complaint about it says key and line.

Scenarios and settings are both such texts. What is known about the tables of each is its `Shape`; msgspec's errors
become sentences with the help of it.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.model.toml_lines import Lines, Path, TooDeep, find_lines
from latecomer.model.topology import quoted

SIZE_MAX = 256 * 1024

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "date": "a date",
    "time": "a time of day",
    "datetime": "a date",
}
_COMPARED = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


def decode_text(data: bytes, source: str, what: str) -> str:
    """The text of a file that was read up to one byte more than `SIZE_MAX`; `what` names what it should be."""
    if len(data) > SIZE_MAX:
        raise SettingsError("", f"larger than {SIZE_MAX // 1024} KiB, which no {what} needs", source=source)
    try:
        return data.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError("", "not UTF-8 text", source=source, line=line) from None


class TomlText:
    """A TOML text with the lines of its keys: makes errors that say where."""

    def __init__(self, text: str, source: str | None) -> None:
        self.source = source
        self.data: dict[str, Any] = {}
        self.lines = Lines()
        self._overridden: list[Path] = []
        self._parse(text)

    def wrong(self, path: Sequence[str | int], problem: str) -> SettingsError:
        """An error about the value at a path; list positions are told by the line, not in the key."""
        key = ".".join(part for part in path if isinstance(part, str))
        if any(tuple(path[: len(known)]) == known for known in self._overridden):
            return SettingsError(key, problem)
        return SettingsError(key, problem, source=self.source, line=self.lines.find(path))

    def at(self, path: Sequence[str | int]) -> Any:
        """The value at a path, or None."""
        value: Any = self.data
        for part in path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def override(self, key: str, value: object) -> None:
        """A value from elsewhere for a dotted key; complaints about it name no line."""
        path = tuple(key.split("."))
        table = self.data
        for part in path[:-1]:
            inner = table.setdefault(part, {})
            if not isinstance(inner, dict):
                return  # what the file has there is wrong, and is complained about later
            table = inner
        table[path[-1]] = value
        self._overridden.append(path)

    def check_numbers(self, *, finite: bool = False) -> None:
        """What TOML can write and nothing else can hold; `finite` refuses `nan` and `inf` too."""
        waiting: list[tuple[Path, Any]] = [((), self.data)]
        for path, value in waiting:  # grows while it is walked
            if isinstance(value, dict):
                waiting.extend(((*path, key), inner) for key, inner in value.items())
            elif isinstance(value, list):
                waiting.extend(((*path, position), inner) for position, inner in enumerate(value))
            elif isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise self.wrong(path, "the number does not fit into 64 bits")
            elif finite and isinstance(value, float) and not math.isfinite(value):
                raise self.wrong(path, f"must be a number that can be counted to, not {value}")

    def _parse(self, text: str) -> None:
        try:
            self.lines = find_lines(text)
            self.data = tomllib.loads(text)
        except TooDeep as error:
            raise SettingsError("", error.problem, source=self.source, line=error.line) from None
        except tomllib.TOMLDecodeError as error:
            self._not_toml(str(error), text)
        except (ValueError, OverflowError):  # a whole number of thousands of digits
            digits = re.search(r"[0-9_]{1000}", text)
            line = text.count("\n", 0, digits.start()) + 1 if digits else None
            raise SettingsError("", "a number has too many digits", source=self.source, line=line) from None
        except RecursionError:
            raise SettingsError("", "brackets are nested too deeply", source=self.source) from None

    def _not_toml(self, said: str, text: str) -> NoReturn:
        problem, _, place = said.rpartition(" (at ")
        found = re.match(r"line (\d+)", place)
        line = int(found[1]) if found else text.count("\n") + 1
        problem = (problem[:1].lower() + problem[1:]).removesuffix(".")
        raise SettingsError("", f"not TOML: {problem}", source=self.source, line=line)


def choose(wanted: str, known: Iterable[str]) -> str:
    """The half sentence that helps somebody who wrote something that does not exist."""
    names = list(known)
    close = get_close_matches(wanted[:100], names, 1)
    if close:
        return f"did you mean {quoted(close[0])}?"
    shown = ", ".join(names[:15]) + (f" and {len(names) - 15} more" if len(names) > 15 else "")
    return f"known are {shown}" if names else "there are none"


# -- msgspec's errors as sentences


@dataclass(slots=True)
class Shape:
    """What is known about a kind of file: its tables, and which of them are chosen by their `kind`."""

    whole: str
    """What the file as a whole is called: `a scenario`."""
    tables: Mapping[str, type[msgspec.Struct]]
    """By dotted name; the top level is the empty name."""
    families: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    """Tables with a `kind`: what such a thing is called, and the union that lists them."""

    def members(self, table: str) -> dict[str, type[msgspec.Struct]]:
        """The kinds of a family by tag."""
        return {str(member.__struct_config__.tag): member for member in get_args(self.families[table][1])}

    def keys(self, text: TomlText, path: Path) -> list[str]:
        """What may stand in the table at a path."""
        table = _table(path)
        if table in self.families:
            struct = self.members(table).get(text.at((*path, "kind")))
            return ["kind", *(struct.__struct_encode_fields__ if struct else ())]
        struct = self.tables.get(table)
        return list(struct.__struct_encode_fields__) if struct else []

    def literals(self, path: Path) -> list[Any]:
        """The values that the field at a path may have, where they are listed."""
        struct = self.tables.get(_table(path[:-1]))
        if struct is None or not isinstance(path[-1], str):
            return []
        names = dict(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True))
        return list(_literals(get_type_hints(struct).get(names.get(path[-1], ""), NoneType)))


def sentence(text: TomlText, shape: Shape, said: str) -> SettingsError:
    """What msgspec said about a text, for whoever wrote the text."""
    problem, _, place = said.partition(" - at `")
    path = _path(place.removesuffix("`"))
    if found := re.match(r"Object contains unknown field `(.*)`$", problem, re.DOTALL):
        return _unknown_key(text, shape, path, found[1])
    if found := re.match(r"Object missing required field `(.*)`$", problem):
        return _missing_key(text, shape, path, found[1])
    if problem.startswith(("Invalid value", "Invalid enum value")):
        return _unknown_value(text, shape, path)
    if found := re.match(r"Expected `array` of length (\d+)", problem):
        return text.wrong(path, f"must be a list of {found[1]}, not of {len(text.at(path) or ())}")
    if found := re.match(r"Expected `(?:int|float)` (>=|<=|>|<) (\S+)$", problem):
        return text.wrong(path, f"must be {_COMPARED[found[1]]} {found[2].removesuffix('.0')}, not {text.at(path)}")
    if problem.startswith("Expected `str` of length >="):
        return text.wrong(path, "must not be empty")
    if found := re.match(r"Expected `(.*)`, got `(.*)`", problem):
        wanted = [_WORDS.get(name, name) for name in found[1].split(" | ") if name != "null"]
        shown = " or ".join(([", ".join(wanted[:-1])] if wanted[1:] else []) + wanted[-1:])
        return text.wrong(path, f"must be {shown}, not {_WORDS.get(found[2], found[2])}")
    return text.wrong(path, problem)


def _path(place: str) -> Path:
    """`$.fault[1].link` as ("fault", 1, "link"); behind `[...]` msgspec does not say which."""
    parts: list[str | int] = []
    for name, position in re.findall(r"\.([^.\[\]]+)|\[([0-9]+|\.\.\.)\]", place):
        if position == "...":
            break
        parts.append(int(position) if position else name)
    return tuple(parts)


def _table(path: Sequence[str | int]) -> str:
    return ".".join(part for part in path if isinstance(part, str))


def _literals(hint: Any) -> Iterable[Any]:
    origin = get_origin(hint)
    if origin is Literal:
        yield from get_args(hint)
    elif origin is Annotated:
        yield from _literals(get_args(hint)[0])
    elif origin in (Union, UnionType):
        for part in get_args(hint):
            yield from _literals(part)


def _unknown_key(text: TomlText, shape: Shape, path: Path, key: str) -> SettingsError:
    table = _table(path)
    name, _ = shape.families.get(table, (table, None))
    kind = text.at((*path, "kind")) if table in shape.families else None
    where = f"a {name} of kind {quoted(kind)} has" if kind else f"[{name}] has" if name else f"{shape.whole} has"
    hint = choose(key, shape.keys(text, path))
    return text.wrong((*path, key), f"{where} no such key; {hint}")


def _missing_key(text: TomlText, shape: Shape, path: Path, key: str) -> SettingsError:
    table = _table(path)
    known = f"; known are {', '.join(shape.members(table))}" if key == "kind" and table in shape.families else ""
    return text.wrong((*path, key), f"is missing{known}")


def _unknown_value(text: TomlText, shape: Shape, path: Path) -> SettingsError:
    value = text.at(path)
    table = _table(path[:-1])
    if path[-1] == "kind" and table in shape.families:
        members = list(shape.members(table))
        shown = ", ".join(members)
        close = get_close_matches(str(value)[:100], members, 1)
        guess = f" (did you mean {quoted(close[0])}?)" if close else ""
        return text.wrong(
            path, f"there is no {shape.families[table][0]} {quoted(str(value))}; known are {shown}{guess}"
        )
    known = shape.literals(path)
    if known == [True]:
        return text.wrong(path, "can only be true; leave it out otherwise")
    shown = ", ".join(map(str, known))
    return text.wrong(path, f"there is no {path[-1]} {quoted(str(value))}; known are {shown}")
