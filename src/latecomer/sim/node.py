"""A place where a broker runs."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from latecomer.core.broker import Broker
from latecomer.core.effects import Effect, Write
from latecomer.core.inputs import Input
from latecomer.model.ids import BrokerId, Instant
from latecomer.sim.disk import Disk


@dataclass(slots=True)
class Node:
    """A place where a broker runs, or lies dead beside its disk."""

    id: BrokerId
    neighbours: dict[BrokerId, int]
    disk: Disk = field(default_factory=Disk)
    core: Broker | None = None
    boot: int = 0
    starting: bool = False
    """It waits for its clock before it starts."""
    timer: Instant | None = None
    paused_until: Instant = 0
    inbox: deque[Input] = field(default_factory=deque)
    """What came while it was paused."""
    step_us: int = 0
    """How long it takes over each step: a slow broker."""
    disk_us: int = 0
    writing: bool = False
    under_way: list[Write] = field(default_factory=list)
    """What is being written."""
    held: deque[Effect] = field(default_factory=deque)
    """Effects that wait for the disk."""
    topics: tuple[str, ...] = ()
    """What its operator wants it to keep."""
    reads: int = 0
    """Questions to its store that have not been answered."""
