"""The error tree: who did wrong decides which branch.

    LatecomerError
    ├── SettingsError      the operator: names the key, the place, and what to do
    │   └── FilterError    a topic name, topic filter or content filter that cannot be read
    └── ProtocolError      the peer: what it sent is not our protocol

What *we* did wrong is an `assert`, never one of these.
"""

from __future__ import annotations


class LatecomerError(Exception):
    """Anything a user or a peer can cause."""


class SettingsError(LatecomerError):
    """The operator asked for something that cannot be done; the sentence says which key, where, and what to do."""

    def __init__(self, key: str, problem: str, *, source: str | None = None, line: int | None = None) -> None:
        self.key = key
        self.problem = problem
        self.source = source
        self.line = line
        super().__init__(key, problem)

    def __str__(self) -> str:
        place = "" if self.source is None else f"{self.source}:{self.line}: " if self.line else f"{self.source}: "
        return f"{place}{self.key}: {self.problem}" if self.key else f"{place}{self.problem}"

    def at(self, key: str, *, source: str | None = None, line: int | None = None) -> SettingsError:
        """The same problem, told with the place in a settings file where it was found."""
        return SettingsError(key, self.problem, source=source, line=line)


class FilterError(SettingsError):
    """A topic name, topic filter or content filter that cannot be read; `position` counts characters from 0."""

    def __init__(self, text: str, problem: str, *, position: int | None = None) -> None:
        where = "" if position is None else f" at character {position + 1}"
        self.text = text
        self.position = position
        super().__init__("filter", f"{problem}{where} in {text!r}")


class ProtocolError(LatecomerError):
    """A peer broke the protocol; the connection is closed with this sentence as the reason."""
