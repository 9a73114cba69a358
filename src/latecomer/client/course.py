"""A client's whole behaviour without its sockets: who it is, where it goes, what it says on arrival and leaving. Both
helpers are this, and a library that moves bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from latecomer.client.addresses import PORT, TLS_PORT, Address, parse_address
from latecomer.client.journey import Ended, Journey, Leg, Patience, addresses_of
from latecomer.client.wanted import Due, Wanted
from latecomer.client.words import End, Heard, Subscription, Welcome
from latecomer.messages.mqtt import Will
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId

FOLLOWS = ("follows-references", "yes")
"""Says in CONNECT that this client goes where a Server Reference points, so that a broker may send it on."""
PREVIOUS, NEXT = "previous-broker", "next-broker"
HAND_OVER, OWNER_AWAY, SUBSCRIPTION = "hand-over", "owner-away", "subscription"
DEVICE_BYTES_MAX = 32_768
"""Subscriptions that take more are not stated: a CONNECT that is too large is refused, and they are only a hint."""
SESSION_S_MAX = 2**32 - 1
KEEP_ALIVE_S_MAX = 65_535

Algorithm = Literal["", "standard", "logging", "prefetching", "home-broker"]
OwnerAway = Literal["", "hold", "go-on"]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Who a client is, and what it wants of the network."""

    client_id: str
    """The name of its session: the same one at every broker."""
    user: str = ""
    password: str = ""
    session_s: int = 3600
    """How long its session outlives its connection; a session of 0 s cannot follow."""
    clean_start: bool = False
    """Begin with a new session; later connections go on with it."""
    keep_alive_s: int = 60
    answer_s: float = 30.0
    """How long to wait for the answer to a CONNECT or SUBSCRIBE. A broker may need a while to fetch a session."""
    will: Will | None = None
    previous_broker: BrokerId = ""
    """Where its session is, if it knows, before it has been welcomed anywhere."""
    hand_over: Algorithm = ""
    """How its session moves; empty: as the broker is set up."""
    owner_away: OwnerAway = ""
    """`go-on`: rather a new session than to wait for a broker that is away."""
    subscriptions: tuple[Subscription, ...] = ()
    """Subscribed to whenever the broker has no session of it."""
    bring_subscriptions: bool = True
    """State its subscriptions when it comes, which saves the new broker a question."""
    only_given: bool = False
    """Do not follow references to places that it was not given."""
    patience: Patience = Patience()

    def __repr__(self) -> str:
        """Without the password: profiles end up in logs."""
        return f"Profile(client_id={self.client_id!r}, user={self.user!r})"

    def __post_init__(self) -> None:
        if not self.client_id:
            raise SettingsError("client_id", "is missing: it is the name under which a session is found again")
        if self.password and not self.user:
            raise SettingsError("password", "needs user")
        if not 0 <= self.session_s <= SESSION_S_MAX:
            raise SettingsError("session_s", f"must be a number from 0 to {SESSION_S_MAX}, not {self.session_s}")
        if not 1 <= self.keep_alive_s <= KEEP_ALIVE_S_MAX:
            raise SettingsError("keep_alive_s", f"must be from 1 to {KEEP_ALIVE_S_MAX}, not {self.keep_alive_s}")


def read_addresses(given: str | Address | Sequence[str | Address], *, tls: bool) -> tuple[Address, ...]:
    """Addresses as applications write them."""
    several = [given] if isinstance(given, str | Address) else given
    port = TLS_PORT if tls else PORT
    return addresses_of([parse_address(each, port) if isinstance(each, str) else each for each in several])


@dataclass(slots=True)
class Course:
    """Where a client is, where it has been, and what it wants."""

    profile: Profile
    given: tuple[Address, ...]
    journey: Journey = field(init=False)
    wanted: Wanted = field(default_factory=Wanted)
    previous: Address | None = None
    """Where it was welcomed last."""
    connections: int = 0

    def __post_init__(self) -> None:
        self.journey = Journey(self.given, self.profile.patience, self.profile.only_given)
        for subscription in self.profile.subscriptions:
            self.wanted.want(subscription)

    def begin(self) -> Leg:
        return self.journey.begin_anew()

    @property
    def clean_start(self) -> bool:
        """Only the first connection may begin anew: all others are there to find the session again."""
        return self.profile.clean_start and not self.connections

    def connect_words(self) -> list[tuple[str, str]]:
        """User properties of the next CONNECT."""
        profile, words = self.profile, [FOLLOWS]
        if (previous := self._previous()) and not self.clean_start:
            words.append((PREVIOUS, previous))
        words += [(HAND_OVER, profile.hand_over)] * bool(profile.hand_over)
        words += [(OWNER_AWAY, profile.owner_away)] * bool(profile.owner_away)
        return [*words, *((SUBSCRIPTION, text) for text in self._brought())]

    def _previous(self) -> BrokerId:
        """The name of the broker that has its session, if it is another one than where it goes."""
        if self.previous is None:
            name = self.profile.previous_broker
            return "" if name == self.journey.at.broker else name
        return "" if self.previous.is_at(self.journey.at) else self.previous.broker

    def _brought(self) -> list[str]:
        """Only what this process has been granted: what an earlier one had, it cannot know."""
        if not self.profile.bring_subscriptions or self.clean_start or not self.connections:
            return []
        words = self.wanted.device_words()
        return words if sum(len(text.encode()) for text in words) <= DEVICE_BYTES_MAX else []

    def leave_words(self, next_broker: BrokerId) -> list[tuple[str, str]]:
        """User properties of the DISCONNECT."""
        return [(NEXT, next_broker)] if next_broker else []

    def welcomed(self, welcome: Welcome) -> Due:
        """A broker has accepted it; what to say now."""
        self.previous = self.journey.at
        self.connections += 1
        return self.wanted.welcomed(welcome)

    def ended(self, end: Ended, chance: float) -> Leg:
        """Where to go now. Raises `Refused` or `GaveUp`."""
        return self.journey.ended(end, chance)

    def take(self, heard: Heard) -> Heard:
        """Something has come."""
        if isinstance(heard, End):
            self.wanted.past_over(heard.filter)
        return heard
