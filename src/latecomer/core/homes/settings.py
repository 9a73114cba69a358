"""What an operator may set about clients that would be better at other brokers."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import msgspec

from latecomer.messages.homes import PROFILE_MAX
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId

SECOND_US = 1_000_000
Mode: TypeAlias = Literal["off", "advise", "move"]


class HomesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Times are microseconds, sizes are counts."""

    mode: Mode = "off"
    """`off`: nothing is told or asked. `advise`: moves are proposed. `move`: clients that follow references go."""
    update_us: int = 60 * SECOND_US
    """How often a broker asks the others what their clients want, and looks at all of its own."""
    settle_us: int = 2 * SECOND_US
    """How long after its last change of a subscription a client is looked at."""
    gain: float = 0.2
    """A move must gain more than this."""
    rest_us: int = 600 * SECOND_US
    """How long a client is left alone that was sent, came from elsewhere, or came back."""
    share_max: float = 0.01
    """Share of the clients that are sent in one update; one client at least."""
    away_us: int = 60 * SECOND_US
    """A client is sent only if its session and its will wait at least so long for it."""
    cluster: tuple[BrokerId, ...] = ()
    """Where clients may be sent; empty: to the nearest brokers."""
    nearest: int = 5
    """So many of them."""
    load_weight: float | None = None
    """What a broker's share of the subscriptions counts against it; None: 0.2 times the brokers that share them."""
    filters_max: int = 16_384
    """Filters that a broker tells others of; with more, a sample."""

    def check(self) -> None:
        """Raise `SettingsError` naming the key that cannot work."""
        for key in self.__struct_fields__:
            value = getattr(self, key)
            if type(value) is int and value < 1:
                raise SettingsError(f"homes.{key}", f"must be at least 1, not {value}")
        if self.filters_max > PROFILE_MAX:
            raise SettingsError("homes.filters_max", f"must be at most {PROFILE_MAX}: they are told in one word")
        if not (math.isfinite(self.gain) and self.gain >= 0):
            raise SettingsError("homes.gain", f"must not be negative, as {self.gain} is")
        if not 0 < self.share_max <= 1:
            raise SettingsError("homes.share_max", f"must be a share above 0 and up to 1, not {self.share_max}")
        if self.load_weight is not None and not (math.isfinite(self.load_weight) and self.load_weight >= 0):
            raise SettingsError("homes.load_weight", f"must not be negative, as {self.load_weight} is")
        if len(dict.fromkeys(self.cluster)) < len(self.cluster) or not all(self.cluster):
            raise SettingsError("homes.cluster", "names a broker twice, or one without a name; name each once")
