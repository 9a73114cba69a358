"""Writes that nothing waits for: they become safe with the next commit, or are committed after a moment.

Half of what a network writes only says that something is no longer needed. A commit costs the disk much more than a
row, so such rows do not begin one: they stand first in the next one that something else begins, and so keep their
order. What is lost of them in a crash is repeated and recognised (`Persist.urgent`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

WAIT_S = 0.05
"""How long they wait for others."""


class LazyWrites:
    """What waits for the next commit."""

    __slots__ = ("_due", "_loop", "_timer", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[], None]) -> None:
        self._loop = loop
        self._due = due
        """Called when they have waited long enough."""
        self._waiting: list[Any] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, writes: Iterable[Any]) -> None:
        self._waiting += writes
        self.remind()

    def remind(self) -> None:
        """Have them committed after a moment, unless they have gone by then."""
        if self._timer is None:
            self._timer = self._loop.call_later(WAIT_S, self._elapsed)

    def _elapsed(self) -> None:
        self._timer = None
        if self._waiting:
            self._due()

    def take(self) -> list[Any]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def stop(self) -> list[Any]:
        """What is left for the last commit."""
        if self._timer is not None:
            self._timer.cancel()
        return self.take()
