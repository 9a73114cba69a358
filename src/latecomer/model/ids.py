"""Names of things, and the identity of an event."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

BrokerId: TypeAlias = str
ClientId: TypeAlias = str
Instant: TypeAlias = int
"""Microseconds on the driver's clock. The core never asks for the time, it is told."""


class EventId(msgspec.Struct, frozen=True, order=True, array_like=True, cache_hash=True):
    """Ingress broker, its epoch (a new one only when its disk was lost) and a sequence number: unique everywhere."""

    origin: BrokerId
    epoch: int
    seq: int

    def __str__(self) -> str:
        return f"{self.origin}.{self.epoch}.{self.seq}"
