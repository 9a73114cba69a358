"""The section `[store]` of the settings."""

from __future__ import annotations

from pathlib import Path

from latecomer.runtime.amounts import duration_us, size_bytes
from latecomer.runtime.settings_section import Amount, Duration, Section, Size


class StoreSection(Section, frozen=True):
    """The store of this broker: the events that it keeps for those who ask for the past."""

    topics: tuple[str, ...] = ()
    """Topic filters of the events that are kept, as `["sensors/#"]`; without any there is no store."""
    keep: Duration = "7d"
    """What is older is let go of; 0: never for its age."""
    capacity: Size = "20GB"
    """Beyond this the oldest is let go of; 0: no limit."""
    events: Amount = 0
    """Events that are kept, the oldest let go of beyond; 0: any number."""
    reserve: Size | None = None
    """Room on the file system that the store leaves free: below it nothing new is kept, and what is there is served.
    Left out: 128 MiB, or 4 % of the file system if that is less."""
    directory: Path | None = None
    """Where; left out: `store` in the data directory."""
    hot: Duration = "1d"
    """With `cold`: what is older moves there."""
    remote: bool = True
    """Whether operators at other brokers of the network may decide what is kept here, as `latecomer apply` does."""
    cold: str | None = None
    """Where old events become Parquet files that stay as long as you like and are searched too: a directory, or the
    address of an object store as `s3://bucket/events`. Left out: they do not."""

    @property
    def keep_us(self) -> int:
        return duration_us(self.keep)

    @property
    def capacity_bytes(self) -> int:
        return size_bytes(self.capacity)

    @property
    def hot_us(self) -> int:
        return duration_us(self.hot)

    @property
    def reserve_bytes(self) -> int | None:
        return None if self.reserve is None else size_bytes(self.reserve)
