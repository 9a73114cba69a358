"""What this broker reports done to its neighbours: collected for a moment, so that one frame says it of many events."""

from __future__ import annotations

from dataclasses import dataclass, field

from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.messages.link import Done
from latecomer.model.ids import BrokerId, Instant

BATCH = 512
"""Reports that leave without waiting any longer."""


@dataclass(slots=True)
class Reports:
    """Reports that have not left yet."""

    orders: Orders
    neighbours: Neighbours
    delay_us: int
    waiting: dict[BrokerId, dict[tuple[BrokerId, int], list[int]]] = field(default_factory=dict)
    """By neighbour, origin and epoch, the numbers of events."""
    due: Instant | None = None
    count: int = 0

    def add(self, peer: BrokerId, origin: BrokerId, epoch: int, seq: int) -> None:
        """Report an event done to where it came from."""
        self.waiting.setdefault(peer, {}).setdefault((origin, epoch), []).append(seq)
        self.count += 1
        if self.count >= BATCH:
            self.flush()
        elif self.due is None:
            self.due = self.orders.wake(self.orders.now + self.delay_us)

    def flush(self) -> None:
        for peer, batches in self.waiting.items():
            for (origin, epoch), seqs in batches.items():
                self.neighbours.send(peer, Done(origin, epoch, tuple(seqs)))
        self.clear()

    def clear(self) -> None:
        self.waiting.clear()
        self.due, self.count = None, 0
