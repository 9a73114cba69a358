"""One comparison between two stores: what both have told, and what remains to be fetched."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from latecomer.core.inquiry import Inquiry
from latecomer.model.history import Slice
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.slots import NEVER, Stamp, Stream, origin_of

SLICE_US = 10_000_000
"""Width of the slices that are fetched."""
CLOCKS_US = 60_000_000
"""How far the clock of a broker that is away may have been ahead of ours."""


def behind_until(
    absent: Mapping[BrokerId, Instant],
    ours: Mapping[Stream, Stamp],
    theirs: Iterable[tuple[Stream, int, int]],
) -> Instant:
    """Until when events were published that another store may still be owed, though we have had later ones of the same
    stream: its origin went away before the store had them. 0: there are none. All that counts is the newest event had
    of each stream whose origin is away."""
    told = {stream: (epoch, seq) for stream, epoch, seq in theirs}
    later = [origin_of(stream) for stream, stamp in ours.items() if stamp > told.get(stream, NEVER)]
    return max((absent[origin] + CLOCKS_US for origin in later if origin in absent), default=0)


@dataclass(slots=True)
class Task:
    """One other store, and one set of topics that both keep."""

    store: BrokerId
    topics: str
    mine: str
    """Our class that they belong to."""
    since_us: int
    until_us: int
    width_us: int
    ours: tuple[Slice, ...] | None = None
    theirs: tuple[Slice, ...] | None = None
    hours: deque[int] = field(default_factory=deque)
    """Hours that differ and were not looked into."""
    ranges: deque[tuple[int, int]] = field(default_factory=deque)
    slices: dict[int, Slice] = field(default_factory=dict)
    """Theirs that differ from ours, by beginning: those of `ranges`."""
    inquiry: Inquiry | None = None
    number: int = 0
    heard_at: Instant = 0
    behind_us: Instant = 0
    """What was published before this the other store may still be owed (`behind_until`)."""

    def uneven(self, from_us: Instant) -> bool:
        """Whether, from an instant on, one of us lacks something of the time in which the other store may be behind.
        Hours of which it has something are looked into later, slice by slice."""
        if not self.behind_us:
            return False
        ours, theirs = ({part.start_us: part for part in parts or ()} for parts in (self.ours, self.theirs))
        return any(
            ours.get(at) != theirs.get(at) and (self.width_us == SLICE_US or at not in theirs)
            for at in {**ours, **theirs}
            if from_us < at + self.width_us and at < self.behind_us
        )

    def add_range(self, start_us: int) -> None:
        """Fetch this slice, together with the one before if that is fetched as well."""
        if self.ranges and self.ranges[-1][1] == start_us:
            start, _ = self.ranges.pop()
            self.ranges.append((start, start_us + SLICE_US))
        else:
            self.ranges.append((start_us, start_us + SLICE_US))
