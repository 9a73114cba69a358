"""Wires between simulated brokers: ordered, with latency, and able to fail in every way a connection can.

A wire carries one connection at a time. A *break* ends it: what was under way is gone, and both ends are told, or
neither if it is silent. A *deaf* direction loses everything on the present connection: a real connection never loses a
frame and then goes on, so nothing more arrives until an end gives up. A *stall* only delays.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from latecomer.messages.link import LinkMessage
from latecomer.model.ids import BrokerId, Instant

if TYPE_CHECKING:
    from random import Random

JitterShape = Literal["uniform", "exponential", "heavy"]
HEAVY_MAX = 50
"""A heavy tail is cut at this many times the jitter."""


def draw_jitter(random: Random, shape: JitterShape, jitter_us: int) -> int:
    """What is added to a link's latency: at most the jitter (uniform), the jitter on average (exponential), or mostly
    less and now and then very much more (heavy: Pareto with exponent 1.5)."""
    if shape == "uniform":
        return random.randrange(jitter_us)
    if shape == "exponential":
        return int(random.expovariate(1 / jitter_us))
    return int(jitter_us * min(random.paretovariate(1.5) - 1, HEAVY_MAX))


Batch = tuple[int, list[LinkMessage]]
"""The connection it travels on, and the frames."""


@dataclass(slots=True)
class Way:
    """One direction of a wire."""

    sender: BrokerId
    receiver: BrokerId
    under_way: deque[Batch] = field(default_factory=deque)
    last_arrival: Instant = 0
    doomed: int = 0
    """Number of the connection that silently loses everything in this direction."""
    stalled_until: Instant = 0


@dataclass(slots=True)
class Wire:
    """A link between two brokers. `connection` counts connections; `open` says whether the last one still is."""

    a: BrokerId
    b: BrokerId
    latency_us: int
    jitter_us: int = 0
    jitter_shape: JitterShape = "uniform"
    connection: int = 0
    open: bool = False
    blocked_until: Instant = 0
    """No new connection before."""
    attempt_at: Instant | None = None
    ways: dict[BrokerId, Way] = field(init=False)
    """By sender."""

    def __post_init__(self) -> None:
        self.ways = {self.a: Way(self.a, self.b), self.b: Way(self.b, self.a)}

    def other(self, end: BrokerId) -> BrokerId:
        return self.b if end == self.a else self.a
