"""Names of things, and the identity of an event."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

BrokerId: TypeAlias = str
ClientId: TypeAlias = str
Instant: TypeAlias = int
"""Microseconds on the driver's clock. The core never asks for the time, it is told."""

NUMBER_MAX = 2**63 - 1
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
"""A count, a number in a sequence or an instant, as it may come from outside."""
NAME_MAX = 255
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX)]
"""A broker id as it may come from outside: never empty, never endless."""


class EventId(msgspec.Struct, frozen=True, order=True, array_like=True, cache_hash=True, gc=False):
    """Ingress broker, its epoch (a new one only when its disk was lost) and a sequence number: unique everywhere."""

    origin: Name
    epoch: Number
    seq: Number

    def __str__(self) -> str:
        return f"{self.origin}.{self.epoch}.{self.seq}"
