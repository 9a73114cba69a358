"""A place where a broker runs."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from latecomer.core.broker import Broker
from latecomer.core.effects import Append, Effect, Persist, Write
from latecomer.core.inputs import Input
from latecomer.model.ids import BrokerId, Instant
from latecomer.sim.disk import Disk

if TYPE_CHECKING:
    from random import Random


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
    lazy: list[Write] = field(default_factory=list)
    """Writes that nothing waits for; a crash loses them."""
    held: deque[Effect] = field(default_factory=deque)
    """Effects that wait for the disk."""
    topics: tuple[str, ...] = ()
    """What its operator wants it to keep."""
    reads: int = 0
    """Questions to its store that have not been answered."""

    def tear(self, random: Random) -> None:
        """A write that was under way is lost; but what it appends becomes safe before the rest of it."""
        if any(type(write) is Append for write in self.under_way) and random.random() < 0.5:
            self.disk.append(self.under_way)

    def with_lazy(self, writes: list[Write]) -> list[Write]:
        """What is written at once: first what had nothing waiting for it."""
        lazy, self.lazy = self.lazy, []
        return lazy + writes

    def group_commit(self) -> list[Effect]:
        """Everything that waited for the disk, with one write in place of many, as a real driver would do it."""
        held, self.held = self.held, deque()
        effects: list[Effect] = []
        writes: list[Write] | None = None
        for effect in held:
            if type(effect) is not Persist:
                effects.append(effect)
            elif writes is not None:
                writes += effect.writes
            elif effect.urgent:
                writes = list(effect.writes)
                effects.append(Persist(writes))
            else:
                effects.append(effect)
        return effects
