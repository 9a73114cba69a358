"""What travels between brokers so that clients can be sent to the brokers that suit them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from latecomer.model.ids import Name, Number

ADDRESS_MAX = 512
"""Characters of a public address."""
KINDS_MAX = 16
"""Kinds of listeners that a broker tells of."""
PROFILE_MAX = 65_536
"""Filters in one word about a broker's clients."""

Kind = Annotated[str, msgspec.Meta(min_length=1, max_length=16)]
PublicAddress = Annotated[str, msgspec.Meta(min_length=1, max_length=ADDRESS_MAX)]


class Addresses(msgspec.Struct, frozen=True, tag="addresses", array_like=True):
    """Flooded: where clients find a broker, one address for each kind of listener. The newest has the largest (boot,
    number)."""

    broker: Name
    boot: Number
    number: Number
    entries: tuple[tuple[Kind, PublicAddress], ...]
    open: bool = True
    """False: the broker takes no new clients at the moment."""


class ProfileWanted(msgspec.Struct, frozen=True, tag="profile-wanted", array_like=True):
    """To one broker: tell me what your clients want. (boot, number) is the newest word of it that the sender has; 0:
    none."""

    from_broker: Name
    to: Name
    boot: Number
    number: Number


class Profile(msgspec.Struct, frozen=True, tag="profile", array_like=True):
    """The answer: what the clients of a broker are subscribed to, as what has changed since the word `base`."""

    from_broker: Name
    to: Name
    boot: Number
    number: Number
    base: Number
    """0: nothing is taken as known, and `added` is all there is."""
    clients: Number
    """How many are connected."""
    subscriptions: Number
    """Of all its clients together."""
    below: Number
    """Filters whose numbers are not below this are left out, as there are too many."""
    added: tuple[Number, ...]
    """Numbers of filters (`core/homes/profiles`)."""
    removed: tuple[Number, ...] = ()


ProfileFrame = ProfileWanted | Profile
"""From one broker to another along the tree."""
HomesFrame = Addresses | ProfileFrame
