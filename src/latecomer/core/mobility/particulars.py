"""What the directory remembers of a session beside its owner: enough to begin a new one in its place.

Subscriptions, user and expiry stand with a session's entry at its keepers (`whereabouts`), and, for clients that go on
without their owner, when they were last there. If the owner is away for long, or has lost its disk, they are restored
from here. Brokers' clocks need not agree: when a client left travels as how long ago that was.
"""

from __future__ import annotations

import msgspec

from latecomer.core.session.state import Session, Subscription
from latecomer.model.ids import BrokerId, Instant, Number

ENTRY_BYTES_MAX = 4096
"""Of one session. What is larger is told without its subscriptions."""


class Particulars(msgspec.Struct, frozen=True, array_like=True):
    """As they travel."""

    user: str
    expiry_s: Number
    stamp: Number
    """When they were told, by the owner's clock: of two keepers that differ, the one told last is right."""
    away: bool
    """Whether the client has left, as far as was told."""
    left_us: Number
    """How long ago."""
    subscriptions: tuple[Subscription, ...] | None = None
    """None: unchanged, or too large."""
    whole: bool = True
    """False: the subscriptions are too large to be told."""
    promised: bool = False
    """The session was promised to another broker, which may have it by now, or may have passed it on."""


class ParticularsRow(msgspec.Struct, frozen=True, array_like=True):
    """As a keeper has them on its disk."""

    owner: BrokerId
    disk: int
    """Of the owner."""
    user: str
    expiry_s: int
    stamp: int
    left_at: Instant
    """0: the client was there when they were told."""
    subscriptions: tuple[Subscription, ...] | None
    """None: not known."""
    lost_at: Instant = 0
    """When it was known that the owner has lost the session; 0: it has it."""


class Restored(msgspec.Struct, frozen=True):
    """A session that begins anew with what was remembered of the one before."""

    owner: BrokerId
    """Of the session before."""
    lost: bool
    subscriptions: tuple[Subscription, ...] | None
    since: Instant
    """When the client was last there, as far as is known; 0: it is not known."""
    stamp: int


_encode = msgspec.msgpack.encode
_decoder = msgspec.msgpack.Decoder(Particulars)


def particulars_of(session: Session, now: Instant, *, full: bool, promised: bool) -> tuple[bytes, bool]:
    """What is told of a session, and whether all of it is; without `full` its subscriptions have not changed."""
    away = not session.connection
    left_us = max(0, now - session.away_since) if away else 0
    told = tuple(session.subscriptions.values()) if full else None
    found = Particulars(session.user, session.expiry_s, now, away, left_us, told, promised=promised)
    encoded = _encode(found)
    if len(encoded) <= ENTRY_BYTES_MAX:
        return encoded, True
    return _encode(msgspec.structs.replace(found, subscriptions=None, whole=False)), False


def decode_particulars(encoded: bytes) -> Particulars | None:
    """None: they cannot be read."""
    try:
        return _decoder.decode(encoded)
    except msgspec.MsgspecError:
        return None


def kept(told: Particulars, before: ParticularsRow | None, owner: BrokerId, disk: int, now: Instant) -> ParticularsRow:
    """What a keeper remembers when it was told something."""
    subscriptions = told.subscriptions
    if subscriptions is None and told.whole and before is not None and (before.owner, before.disk) == (owner, disk):
        subscriptions = before.subscriptions
    left_at = max(1, now - told.left_us) if told.away else 0
    return ParticularsRow(owner, disk, told.user, told.expiry_s, told.stamp, left_at, subscriptions)


def remembered(row: ParticularsRow, now: Instant, absent_at: Instant | None) -> bytes:
    """What a keeper tells whoever asks: when the client left, or when its owner was last seen."""
    left_at = row.left_at or absent_at or row.lost_at or now
    left_us = max(0, now - left_at)
    known = row.subscriptions is not None
    return _encode(Particulars(row.user, row.expiry_s, row.stamp, True, left_us, row.subscriptions, known))
