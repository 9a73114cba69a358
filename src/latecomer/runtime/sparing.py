"""Log lines that strangers can cause: so many in a while, then a count instead of lines."""

from __future__ import annotations

import logging
from collections.abc import Callable

LINES = 100
"""Lines of one subject in `SECONDS`; what happens beyond is counted, and the counts are one line in the end."""
SECONDS = 10.0
KINDS_MAX = 20
"""Kinds that are told apart in such a line."""

log = logging.getLogger("latecomer")


class Sparing:
    """Logs what happens often, for one subject. `look` is to be called now and then, so that counts are told also when
    nothing happens any more."""

    def __init__(self, subject: str, clock: Callable[[], float], lines: int = LINES, seconds: float = SECONDS) -> None:
        self.subject = subject
        self.clock = clock
        self.lines = lines
        self.seconds = seconds
        self._since = 0.0
        self._logged = 0
        self._left_out: dict[str, int] = {}

    def line(self, level: int, kind: str, text: str, *values: object, error: BaseException | None = None) -> None:
        """Log this, unless there was enough already: then count it as one of its kind."""
        self.look()
        if not self._logged:
            self._since = self.clock()
        if self._logged < self.lines:
            self._logged += 1
            log.log(level, text, *values, exc_info=error)
            return
        if kind not in self._left_out and len(self._left_out) >= KINDS_MAX:
            kind = "other"
        self._left_out[kind] = self._left_out.get(kind, 0) + 1

    def look(self) -> None:
        """Tell what was left out, when its time is over."""
        if self._logged and self.clock() - self._since >= self.seconds:
            self._logged = 0
            left_out, self._left_out = self._left_out, {}
            if left_out:
                counts = ", ".join(f"{kind} {count}" for kind, count in left_out.items())
                log.warning(
                    "%s: %d more in %g s, not logged: %s", self.subject, sum(left_out.values()), self.seconds, counts
                )
