"""Waiting awake: while clients answer quickly, the event loop looks again instead of going to sleep.

To be woken costs a process some tens of microseconds, on virtual machines a hundred: more than a broker needs for a
message. So after something came, the loop looks for more for a moment without sleeping. It does so only as long as that
pays: each time nothing came in time, that many more occasions are left out, twice as many with every miss, and the
first success makes it keen again. A broker with little to do therefore sleeps as soundly as any other. Whoever else
wants the processor gets it at every turn.
"""

from __future__ import annotations

import asyncio
import os
from time import perf_counter

SKIP_MAX = 4096
yield_processor = getattr(os, "sched_yield", lambda: None)


class Spinner:
    """Keeps an event loop awake for `seconds` after something came; 0: never."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.loop = loop
        self.seconds = seconds
        self.skip = 0 if seconds else 1 << 62
        """Occasions to leave out."""
        self.came = 0
        self.hits = self.misses = 0
        self._seen = 0
        self._until = 0.0
        self._patience = 1
        self._awake = False

    def heard(self) -> None:
        """Something came."""
        self.came += 1
        if self._awake:
            return
        if self.skip:
            self.skip -= 1
            return
        self._awake = True
        self._seen = self.came
        self._until = perf_counter() + self.seconds
        self.loop.call_soon(self._look)

    def _look(self) -> None:
        now = perf_counter()
        if self.came != self._seen:
            self._seen = self.came
            self._until = now + self.seconds
            self._patience = 1
            self.hits += 1
        elif now > self._until:
            self._awake = False
            self.misses += 1
            self.skip = self._patience
            self._patience = min(2 * self._patience, SKIP_MAX)
            return
        yield_processor()
        self.loop.call_soon(self._look)
