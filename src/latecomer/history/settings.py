"""How long, how much, and where a store keeps."""

from __future__ import annotations

from typing import Annotated

import msgspec

SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
MIB = 1024 * 1024

Count = Annotated[int, msgspec.Meta(ge=0)]
Size = Annotated[int, msgspec.Meta(ge=1)]


class EngineSettings(msgspec.Struct, frozen=True):
    """What is let go of goes by whole segments, so a little more is kept than these say, never less by age."""

    keep_us: Count = 7 * 24 * HOUR_US
    """At least so long; 0: for ever."""
    capacity_bytes: Count = 0
    """On disk, journals included; 0: any. With a cold tier: of the part that is not in it."""
    events_max: Count = 0
    """0: any. With a cold tier: of the part that is not in it."""
    segment_us: Size = HOUR_US
    segment_bytes: Size = 256 * MIB
    """A busier stretch of time is cut into several segments, at full 10 s."""
    reserve_bytes: Count = 64 * MIB
    """Nothing new is taken while less than this is free; 0: until the disk is full."""
    hot_us: Count = 0
    """Older segments go to the cold tier; 0: there is none."""
    cold: str = ""
    """Its directory or address."""
    writer: str = ""
    """The name of this store, where several share a cold tier."""
