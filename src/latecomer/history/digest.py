"""The digest of an event's id, by which replicas compare what they have."""

from __future__ import annotations

from hashlib import blake2b

from latecomer.model.ids import EventId

MODULUS = 2**64
BUCKET_US = 10_000_000
"""Sums are kept per 10 s."""


def digest_of(id: EventId) -> int:
    """The same in every store: 8 bytes of BLAKE2b over the id as text."""
    return int.from_bytes(blake2b(str(id).encode(), digest_size=8).digest(), "big")
