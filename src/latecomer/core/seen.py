"""Which events this broker has had, so that none is handed to a client twice.

Per origin and epoch: the numbers seen, down to the origin's floor. The origin bounds the distance between its floor and
its newest event (`span_max`), so the memory is bounded, and nothing has to be guessed from age.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from latecomer.model.ids import BrokerId

TRIM_EVERY = 256
"""The floor must rise by this much before numbers below it are cleared away."""


@dataclass(slots=True)
class _Window:
    floor: int = 0
    numbers: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Seen:
    """A window of numbers for each (origin, epoch)."""

    _windows: dict[tuple[BrokerId, int], _Window] = field(default_factory=dict)

    def add(self, origin: BrokerId, epoch: int, seq: int) -> bool:
        """Whether the event is new."""
        window = self._windows.get((origin, epoch))
        if window is None:
            window = self._windows[origin, epoch] = _Window()
        if seq < window.floor or seq in window.numbers:
            return False
        window.numbers.add(seq)
        return True

    def raise_floor(self, origin: BrokerId, epoch: int, floor: int) -> int | None:
        """Clear away what will not come again; the floor to write down, if it is time."""
        window = self._windows.get((origin, epoch))
        if window is None or floor < window.floor + TRIM_EVERY:
            return None
        window.floor = floor
        window.numbers = {number for number in window.numbers if number >= floor}
        return floor

    def keep_epochs(self, epochs: dict[BrokerId, int]) -> list[tuple[BrokerId, int]]:
        """Forget epochs that have ended (their origin lost its disk and began another); returns them."""
        ended = [(origin, epoch) for origin, epoch in self._windows if epochs.get(origin, epoch) > epoch]
        for key in ended:
            del self._windows[key]
        return ended

    def __len__(self) -> int:
        return sum(len(window.numbers) for window in self._windows.values())
