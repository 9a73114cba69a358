"""The section `[homes]` of the settings."""

from __future__ import annotations

from typing import Annotated

import msgspec

from latecomer.core.homes.settings import HomesSettings, Mode
from latecomer.messages.homes import PROFILE_MAX
from latecomer.runtime.settings_section import Count, Seconds, Section, Text

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]


class HomesSection(Section, frozen=True):
    """Re-homing: clients that would be better at another broker, beside others that want the same. Every broker says
    for itself whether it takes part; clients are sent only to brokers that do."""

    mode: Mode = "off"
    """`off`: brokers tell one another nothing about what their clients want. `advise`: they do, and `latecomer homes`
    says which clients would be better where. `move`: besides, clients that say that they follow references are sent."""
    update_s: Seconds = 60.0
    """How often a broker asks the others what their clients want, and looks at all of its own."""
    settle_s: Seconds = 2.0
    """How long after its last SUBSCRIBE or UNSUBSCRIBE a client is looked at."""
    gain: NotNegative = 0.2
    """A move must gain more than this: in similarity, which is the share of the client's topic filters that other
    clients there have, less what the broker's load counts."""
    load_weight: NotNegative | None = None
    """What a broker's share of the subscriptions of its cluster counts against it. Left out: 0.2 times the brokers of
    the cluster, so that a broker with twice the mean load loses 0.2. 0: load does not count."""
    rest_s: Seconds = 600.0
    """How long a client is left alone that was sent, whose session came from another broker, or that came back."""
    share_max: Share = 0.01
    """Share of this broker's clients that are sent in one update; one client at least."""
    away_s: Seconds = 60.0
    """A client is sent only if its session, and its will if it has one, wait at least so long for it."""
    cluster: tuple[Text, ...] = ()
    """Brokers to which this one may send clients. Left out: the nearest ones."""
    nearest: Count = 5
    """How many these are."""
    filters_max: Annotated[int, msgspec.Meta(ge=1, le=PROFILE_MAX)] = 16_384
    """Topic filters of its clients that a broker tells the others of; if there are more, a sample."""

    def core_settings(self) -> HomesSettings:
        """What the core is told."""
        return HomesSettings(
            self.mode,
            round(self.update_s * 1_000_000),
            round(self.settle_s * 1_000_000),
            self.gain,
            round(self.rest_s * 1_000_000),
            self.share_max,
            round(self.away_s * 1_000_000),
            self.cluster,
            self.nearest,
            self.load_weight,
            self.filters_max,
        )
