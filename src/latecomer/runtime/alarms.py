"""Errors of the broker itself that were contained.

Nothing that goes wrong with one connection or one effect may stop the others. What goes wrong all the same is a bug, so
it is not swallowed: it is logged with its traceback, counted in `/metrics`, and `/healthz` says `degraded` until
nothing of the kind has happened for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from latecomer.runtime.metrics import Counters
from latecomer.runtime.sparing import Sparing

CLEARS_S = 600.0
"""The broker is called degraded for so long after the last error."""


class Alarms:
    """Counts internal errors, and remembers the last one."""

    def __init__(self, counters: Counters, clock: Callable[[], float]) -> None:
        self.counters = counters
        self.clock = clock
        self._last: tuple[float, str] | None = None
        self._error: BaseException | None = None
        self._log = Sparing("internal errors", clock)

    def ring(self, what: str, error: BaseException, about: str = "") -> None:
        """Something went wrong and was contained. `what` is one of few words, `about` says who or what it was about.
        An error that passes several places that look out for errors counts once."""
        if error is self._error:
            return
        self._error = error
        errors = self.counters.internal_errors
        errors[what] = errors.get(what, 0) + 1
        self._last = (self.clock(), what)
        text = "internal error (%s%s), contained: this is a bug, please report it"
        self._log.line(logging.ERROR, what, text, what, f" {about}" if about else "", error=error)

    def look(self) -> None:
        self._log.look()

    @property
    def problem(self) -> str:
        """What an operator reads; empty if all is well."""
        if self._last is None:
            return ""
        at, what = self._last
        ago_s = self.clock() - at
        if ago_s >= CLEARS_S:
            return ""
        total = sum(self.counters.internal_errors.values())
        return (
            f"{total} internal errors since the start, the last one ({what}) {ago_s:.0f} s ago: see the log and report "
            f"it; this is said until {CLEARS_S:g} s have passed without another one"
        )
