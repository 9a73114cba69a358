"""What an operator may set on a broker's core; every field has a default that works."""

from __future__ import annotations

import msgspec

from latecomer.core.homes.settings import HomesSettings
from latecomer.core.mobility.settings import HandOverSettings
from latecomer.core.routing import Forwarding, Rendezvous, Routing
from latecomer.messages.link import FRAME_MAX
from latecomer.model.errors import SettingsError

SECOND_US = 1_000_000


class BrokerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Times are microseconds of the driver's clock, sizes are counts."""

    network: str = "latecomer"
    routing: Routing = Forwarding()
    heartbeat_us: int = SECOND_US // 2
    """A silent link says it is alive this often; three silences in a row mean that the connection is dead."""
    hold_us: int = 2 * SECOND_US
    """How long a broken connection may take to come back before the link counts as down."""
    settle_us: int = 20_000
    """Link state must be unchanged for this long before a new tree is computed."""
    settle_max_us: int = SECOND_US // 2
    """A new tree is computed at the latest this long after the first change."""
    flood_us: int = 5_000
    """News of links is told on at once, but not more often than this."""
    done_delay_us: int = 5_000
    """Acknowledgements of events are collected for this long."""
    link_max: int = 65_536
    """Events under way on any one link; shared out among the brokers as the window of each origin."""
    outbox_max: int = 65_536
    """Events a broker keeps for its publishers until everybody has them; publishers are refused beyond."""
    mailbox_max: int = 65_536
    """Events waiting for one client; the oldest is dropped, counted and noted beyond."""
    routes_max: int = 65_536
    """Topics whose route is remembered."""
    chart_us: int = 60 * SECOND_US
    """How long after its start a broker waits for neighbours that nobody has ever heard of."""
    event_max: int = 1_048_576
    """Bytes of an event: topic, publisher, attributes and payload."""
    filters_max: int = 1_000_000
    """Filters that one neighbour may tell of, subscriptions and advertisements each."""
    brokers_max: int = 10_000
    """Brokers that may be heard of."""
    response_events: int = 256
    """Stored events in one response."""
    replica_us: int = 60 * SECOND_US
    """How often a store compares what it has with another store of the same topics."""
    forget_us: int = 3600 * SECOND_US
    """A broker that has been away for this long is forgotten, with what was kept for it."""
    subscribe_wait: bool = False
    """Answer SUBSCRIBE only when all brokers of the tree know the subscription. Off: when this broker does, so that
    messages published elsewhere right after the SUBACK may be missed."""
    subscribe_wait_max_us: int = 5 * SECOND_US
    """With `subscribe_wait`: the answer leaves after this time although the network has not confirmed it."""
    reposition_us: int = 30 * SECOND_US
    """How long brokers may take to get ready for new positions before the proposal is withdrawn."""
    hand_over: HandOverSettings = HandOverSettings()
    """Sessions that follow their clients."""
    homes: HomesSettings = HomesSettings()
    """Clients that would be better at other brokers."""

    def check(self) -> None:
        """Raise `SettingsError` naming the key that cannot work."""
        for key in self.__struct_fields__:
            value = getattr(self, key)
            if type(value) is int and value < 1:
                raise SettingsError(f"settings.{key}", f"must be at least 1, not {value}")
        self.hand_over.check()
        self.homes.check()
        if isinstance(self.routing, Rendezvous):
            self.routing.check()
        if not self.network:
            raise SettingsError("settings.network", "must not be empty: every broker of a network carries its name")
        if self.event_max > FRAME_MAX // 2:
            raise SettingsError("settings.event_max", f"must be at most {FRAME_MAX // 2}: an event is one frame")
        if self.hold_us < self.heartbeat_us:
            raise SettingsError("settings.hold_us", "must not be shorter than settings.heartbeat_us")
        if self.settle_max_us < self.settle_us:
            raise SettingsError("settings.settle_max_us", "must not be shorter than settings.settle_us")
