"""Where in a TOML text each key stands, found in one pass that cannot be made slow.

`tomllib` tells values without their lines, takes seconds for one key of twenty thousand parts, and recurses for each
bracket. This pass runs before it: it keeps the line of every key, table and list element, and refuses what is nested
deeper than any file of ours needs. It reads wrong TOML as well as it can; what is wrong, `tomllib` says afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

DEPTH_MAX = 8
"""Parts of one dotted key, and brackets within brackets."""

Path = tuple[str | int, ...]
"""Keys and positions in lists, from the top."""

_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t\r]+|\#[^\n]*)
    | (?P<line>\n)
    | (?P<text>\"{3}(?:[^\\]|\\.)*?\"{3,5}|'{3}.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')
    | (?P<word>[^\s"'\#\[\]{}=,.]+)
    | (?P<mark>[\[\]{}=,.])
    """,
    re.VERBOSE | re.DOTALL,
)


class TooDeep(Exception):
    """Nesting that no file of ours needs; `line` is where it goes too far."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


@dataclass(slots=True)
class Lines:
    """Line numbers by path."""

    by_path: dict[Path, int] = field(default_factory=dict)

    def find(self, path: Sequence[str | int]) -> int | None:
        """The line of a path, or of the nearest thing around it."""
        known = tuple(path)
        while known:
            line = self.by_path.get(known)
            if line is not None:
                return line
            known = known[:-1]
        return None


def find_lines(text: str) -> Lines:
    """Read the whole text once."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.lines


@dataclass(slots=True)
class _Inside:
    """A list or an inline table that is being read."""

    path: Path
    is_list: bool
    position: int = 0
    key: list[str] = field(default_factory=list)
    in_value: bool = False


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines = Lines()
        self.line = 1
        self.tokens = self._cut(text)
        self.table: Path = ()
        self.lists: dict[Path, int] = {}
        """Arrays of tables, with the position of the last one."""

    def _cut(self, text: str) -> Iterator[tuple[str, str]]:
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                return  # a string that is not closed, or no TOML at all
            kind = match.lastgroup
            assert kind is not None
            if kind != "blank":
                yield kind, match[0]
            self.line += match[0].count("\n")
            at = match.end()

    def scan(self) -> None:
        for kind, token in self.tokens:
            if kind == "line":
                continue
            if token == "[":
                self._header()
            elif kind in ("word", "text"):
                key = self._key(_name(token), "=")
                if key:
                    path = self.table + key
                    self.lines.by_path.setdefault(path, self.line)
                    self._value(path)

    def _key(self, first: str, end: str) -> tuple[str, ...]:
        """A dotted key up to `end`; nothing if the line ends before."""
        parts = [first] if first else []
        for kind, token in self.tokens:
            if kind == "line":
                return ()
            if token == end:
                break
            if kind != "mark":
                parts.append(_name(token))
                self._not_deeper(len(parts), "a key has more than {} parts")
        return tuple(parts)

    def _header(self) -> None:
        first = next(self.tokens, ("line", ""))
        is_list = first[1] == "["
        key = self._key("" if is_list or first[0] == "mark" else _name(first[1]), "]")
        if not key:
            return
        path = self._resolve(key[:-1]) + key[-1:]
        if is_list:
            self.lists[path] = self.lists.get(path, -1) + 1
            path += (self.lists[path],)
        self.lines.by_path.setdefault(path, self.line)
        self.table = path if is_list else self._resolve(key)
        for kind, _ in self.tokens:
            if kind == "line":
                return

    def _resolve(self, key: tuple[str, ...]) -> Path:
        """Behind the name of an array of tables its last one is meant."""
        path: Path = ()
        for part in key:
            path += (part,)
            if path in self.lists:
                path += (self.lists[path],)
        return path

    def _value(self, path: Path) -> None:
        """Everything up to the end of the line, lists and inline tables included."""
        inside: list[_Inside] = []
        for kind, token in self.tokens:
            if kind == "line":
                if not inside:
                    return
            elif token in ("[", "{"):
                here = self._start(inside[-1]) if inside else path
                inside.append(_Inside(here, token == "["))
                self._not_deeper(len(inside), "brackets are nested more than {} deep")
            elif token in ("]", "}"):
                if inside:
                    inside.pop()
            elif inside:
                self._within(inside[-1], kind, token)

    def _within(self, here: _Inside, kind: str, token: str) -> None:
        if token == ",":
            here.position += 1
            here.key, here.in_value = [], False
        elif here.is_list:
            if kind != "mark":
                self._start(here)
        elif token == "=":
            here.in_value = True
            self.lines.by_path.setdefault((*here.path, *here.key), self.line)
        elif not here.in_value and kind != "mark":
            here.key.append(_name(token))
            self._not_deeper(len(here.key), "a key has more than {} parts")

    def _start(self, here: _Inside) -> Path:
        """The path of the value that begins inside a list or an inline table."""
        path = (*here.path, here.position) if here.is_list else (*here.path, *here.key)
        self.lines.by_path.setdefault(path, self.line)
        return path

    def _not_deeper(self, depth: int, problem: str) -> None:
        if depth > DEPTH_MAX:
            raise TooDeep(problem.format(DEPTH_MAX), self.line)


def _name(token: str) -> str:
    """A key as it is meant; escapes in quoted keys are not undone, no key of ours needs them."""
    return token[1:-1] if token[:1] in ('"', "'") else token
