"""What travels between brokers so that clients can be sent to the brokers that suit them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from latecomer.model.ids import Name, Number

ADDRESS_MAX = 512
"""Characters of a public address."""
KINDS_MAX = 16
"""Kinds of listeners that a broker tells of."""

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


HomesFrame = Addresses
