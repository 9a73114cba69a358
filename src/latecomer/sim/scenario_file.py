"""Reading a scenario file: whatever it holds, the answer is a scenario or one sentence with the key and the line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, get_args

import msgspec

from latecomer.core.routing import Routing
from latecomer.model.errors import SettingsError
from latecomer.model.topology import quoted
from latecomer.sim.durations import Duration, read_duration
from latecomer.sim.scenario import Client, Fault, Publish, Scenario, Step, Topics, Workload
from latecomer.sim.toml_lines import Lines, TooDeep, find_lines
from latecomer.sim.topologies import Network

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
_FAMILIES: dict[str, tuple[str, Any]] = {
    "topology": ("topology", Network),
    "routing": ("routing strategy", Routing),
    "fault": ("fault", Fault),
}
"""Tables with a `kind`: what such a thing is called, and the union that lists them."""
_TABLES: dict[str, type[msgspec.Struct]] = {
    "": Scenario,
    "client": Client,
    "workload": Workload,
    "workload.topics": Topics,
    "step": Step,
    "step.publish": Publish,
}


class ScenarioText:
    """A scenario's text with the lines of its keys: makes errors that say where."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.data: dict[str, Any] = {}
        self.lines = Lines()
        self._parse(text)

    def wrong(self, path: Sequence[str | int], problem: str) -> SettingsError:
        """An error about the value at a path; list positions are told by the line, not in the key."""
        key = ".".join(part for part in path if isinstance(part, str))
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


def read_text(path: Path) -> str:
    """The text of a scenario file, if it is one that can be read."""
    source = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_MAX + 1)
    except OSError as error:
        raise SettingsError("", f"cannot be read: {error.strerror}", source=source) from None
    except ValueError:
        raise SettingsError("", "is not the name of a file", source=repr(source)) from None
    if len(data) > SIZE_MAX:
        raise SettingsError("", f"larger than {SIZE_MAX // 1024} KiB, which no scenario needs", source=source)
    try:
        return data.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError("", "not UTF-8 text", source=source, line=line) from None


def convert(text: ScenarioText) -> Scenario:
    """The scenario, with every key known and every value of the right type."""
    _check_numbers(text)
    try:
        return msgspec.convert(text.data, Scenario, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise _sentence(text, str(error)) from None


def choose(wanted: str, known: Iterable[str]) -> str:
    """The half sentence that helps somebody who wrote something that does not exist."""
    names = list(known)
    close = get_close_matches(wanted[:100], names, 1)
    if close:
        return f"did you mean {quoted(close[0])}?"
    shown = ", ".join(names[:15]) + (f" and {len(names) - 15} more" if len(names) > 15 else "")
    return f"known are {shown}" if names else "there are none"


def _decode(kind: type, value: object) -> object:
    assert kind is Duration
    return read_duration(value)


def _check_numbers(text: ScenarioText) -> None:
    """What TOML can write and nothing else can hold."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), text.data)]
    for path, value in waiting:  # grows while it is walked
        if isinstance(value, dict):
            waiting.extend(((*path, key), inner) for key, inner in value.items())
        elif isinstance(value, list):
            waiting.extend(((*path, position), inner) for position, inner in enumerate(value))
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise text.wrong(path, "the number does not fit into 64 bits")


# -- msgspec's errors as sentences


def _sentence(text: ScenarioText, said: str) -> SettingsError:
    problem, _, place = said.partition(" - at `")
    path = _path(place.removesuffix("`"))
    if found := re.match(r"Object contains unknown field `(.*)`$", problem, re.DOTALL):
        return _unknown_key(text, path, found[1])
    if found := re.match(r"Object missing required field `(.*)`$", problem):
        return _missing_key(text, path, found[1])
    if problem.startswith(("Invalid value", "Invalid enum value")):
        return _unknown_value(text, path)
    if found := re.match(r"Expected `array` of length (\d+)", problem):
        return text.wrong(path, f"must be a list of {found[1]}, not of {len(text.at(path) or ())}")
    if found := re.match(r"Expected `(.*)`, got `(.*)`", problem):
        wanted = [_WORDS.get(name, name) for name in found[1].split(" | ") if name != "null"]
        shown = " or ".join(([", ".join(wanted[:-1])] if wanted[1:] else []) + wanted[-1:])
        return text.wrong(path, f"must be {shown}, not {_WORDS.get(found[2], found[2])}")
    return text.wrong(path, problem)


def _path(place: str) -> tuple[str | int, ...]:
    """`$.fault[1].link` as ("fault", 1, "link"); behind `[...]` msgspec does not say which."""
    parts: list[str | int] = []
    for name, position in re.findall(r"\.([^.\[\]]+)|\[([0-9]+|\.\.\.)\]", place):
        if position == "...":
            break
        parts.append(int(position) if position else name)
    return tuple(parts)


def _table(path: Sequence[str | int]) -> str:
    return ".".join(part for part in path if isinstance(part, str))


def _members(table: str) -> dict[str, type[msgspec.Struct]]:
    """The kinds of a family by tag."""
    return {str(member.__struct_config__.tag): member for member in get_args(_FAMILIES[table][1])}


def _keys(text: ScenarioText, path: Sequence[str | int]) -> list[str]:
    table = _table(path)
    if table in _FAMILIES:
        struct = _members(table).get(text.at((*path, "kind")))
        return ["kind", *(struct.__struct_encode_fields__ if struct else ())]
    struct = _TABLES.get(table)
    return list(struct.__struct_encode_fields__) if struct else []


def _unknown_key(text: ScenarioText, path: tuple[str | int, ...], key: str) -> SettingsError:
    table = _table(path)
    name, _ = _FAMILIES.get(table, (table, None))
    kind = text.at((*path, "kind")) if table in _FAMILIES else None
    where = f"a {name} of kind {quoted(kind)} has" if kind else f"[{name}] has" if name else "a scenario has"
    hint = choose(key, _keys(text, path))
    return text.wrong((*path, key), f"{where} no such key; {hint}")


def _missing_key(text: ScenarioText, path: tuple[str | int, ...], key: str) -> SettingsError:
    table = _table(path)
    known = f"; known are {', '.join(_members(table))}" if key == "kind" and table in _FAMILIES else ""
    return text.wrong((*path, key), f"is missing{known}")


def _unknown_value(text: ScenarioText, path: tuple[str | int, ...]) -> SettingsError:
    value = text.at(path)
    table = _table(path[:-1])
    if path[-1] == "kind" and table in _FAMILIES:
        members = list(_members(table))
        shown = ", ".join(members)
        close = get_close_matches(str(value)[:100], members, 1)
        guess = f" (did you mean {quoted(close[0])}?)" if close else ""
        return text.wrong(path, f"there is no {_FAMILIES[table][0]} {quoted(str(value))}; known are {shown}{guess}")
    if path[-1] == "timing":
        return text.wrong(path, f"there is no timing {quoted(str(value))}; known are poisson, steady")
    return text.wrong(path, "can only be true; leave it out otherwise")
