"""Since when a store keeps everything, and what it takes: two things, after its limits were widened.

What was let go of is gone, and is said to be. Whether it may come back is a matter of the settings: what the limits in
force demanded to go is not taken again, or else a replica that keeps it longer would bring it back for ever. Under
wider limits than those under which it went it is taken, so that replicas can fill the gap.
"""

from __future__ import annotations

from zlib import crc32

import msgspec

from latecomer.history.settings import EngineSettings


class Kept(msgspec.Struct, frozen=True):
    """As it stands in the file `kept`."""

    gone_us: int = 0
    """What was published before this has been let go of."""
    from_us: int = 0
    """What was published before this is not taken any more."""
    at_us: int = 0
    """When that was decided."""
    limits: tuple[int, int, int] = (0, 0, 0)
    """The limits that decided it: age, bytes, count; 0: none."""

    def encoded(self) -> bytes:
        text = " ".join(map(str, (self.gone_us, self.from_us, self.at_us, *self.limits)))
        return b"%s %d\n" % (text.encode(), crc32(text.encode()))

    def takes_from_us(self, settings: EngineSettings) -> int:
        """From when on events are taken under these settings."""
        limits = limits_of(settings)
        if not any(was and (not now or now > was) for was, now in zip(self.limits, limits, strict=True)):
            return self.from_us
        keep_us = limits[0]
        return min(self.from_us, max(0, self.at_us - keep_us)) if keep_us else 0


def parse_kept(data: bytes) -> Kept:
    """Raises a `ValueError`."""
    text, _, crc = data.strip().rpartition(b" ")
    gone_us, from_us, at_us, *limits = (int(number) for number in text.split())
    if crc32(text) != int(crc):
        raise ValueError("it fails its checksum")
    keep_us, bytes, count = limits
    return Kept(gone_us, from_us, at_us, (keep_us, bytes, count))


def limits_of(settings: EngineSettings) -> tuple[int, int, int]:
    """What lets go of events for good: with a cold tier only age does."""
    if settings.cold and settings.hot_us:
        return (settings.keep_us, 0, 0)
    return (settings.keep_us, settings.capacity_bytes, settings.events_max)
