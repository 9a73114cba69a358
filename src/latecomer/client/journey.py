"""Where a client goes next when a connection could not be made, or has ended: a decision, without doing anything.

    reason                          next
    0x9C, 0x9D, with a reference    the places that it names, then the other addresses
    0x9C, 0x9D, without             the other addresses
    0x88, 0x89                      the same one, a little later; after three times, the next one
    broken                          the same one, then the others
    nobody there                    the next one
    what would only be said again   nowhere: `Refused`

Everything is bounded: so many brokers in a row may send the client on, and so many attempts in a row may fail. A row
ends when a connection has lasted for a while. A connection that is accepted and at once sent elsewhere ends none, so
two brokers that send a client back and forth cannot keep it busy for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from latecomer.client.addresses import Address, parse_references, recognised
from latecomer.client.words import reason_words
from latecomer.messages.mqtt import Reason
from latecomer.model.errors import LatecomerError, SettingsError

ELSEWHERE = (Reason.USE_ANOTHER_SERVER, Reason.SERVER_MOVED)
LATER = (Reason.SERVER_UNAVAILABLE, Reason.SERVER_BUSY)
GONE_FOR_GOOD = (
    Reason.MALFORMED_PACKET,
    Reason.PROTOCOL_ERROR,
    Reason.NOT_AUTHORIZED,
    Reason.SESSION_TAKEN_OVER,
    Reason.PACKET_TOO_LARGE,
)
"""Reasons to be sent away after which the same client would only be sent away again."""
WORTH_TRYING = (
    *ELSEWHERE,
    *LATER,
    Reason.SERVER_SHUTTING_DOWN,
    Reason.QUOTA_EXCEEDED,
    Reason.CONNECTION_RATE_EXCEEDED,
)
"""Reasons to be refused that may pass."""
STAYS = 3
"""How often a broker may ask for patience in a row before another one is tried."""
SHOWN = 6
"""Stations of the way that a sentence names."""


class Refused(LatecomerError):
    """A broker does not want this client, or what it asks for; the same request would be refused again."""

    def __init__(self, sentence: str, reason: int = 0) -> None:
        super().__init__(sentence)
        self.reason = reason


class GaveUp(LatecomerError):
    """It was tried as often as was allowed."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how fast a client tries again."""

    attempts_max: int = 40
    """In a row, without a connection that lasted."""
    references_max: int = 8
    """Brokers in a row that send the client on."""
    pause_s: float = 0.5
    """Doubled with every attempt, up to"""
    pause_max_s: float = 15.0
    settled_s: float = 10.0
    """A connection that lasted so long ends the row."""

    def __post_init__(self) -> None:
        if self.attempts_max < 1 or self.references_max < 1:
            raise SettingsError("patience", "attempts_max and references_max must be at least 1")
        if not 0 <= self.pause_s <= self.pause_max_s or self.settled_s < 0:
            raise SettingsError("patience", "pause_s must not be negative or above pause_max_s, settled_s not negative")


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt or a connection ended."""

    welcomed: bool = False
    """The broker had accepted the client."""
    reason: int | None = None
    """What the broker said; None: nothing, it could not be reached or the connection broke."""
    reference: str = ""
    """The Server Reference, as it came."""
    told: str = ""
    """The reason string, or the error of the machine."""
    lasted_s: float = 0.0


class Leg(msgspec.Struct, frozen=True):
    """Where to go, and after which pause."""

    address: Address
    pause_s: float = 0.0


@dataclass(slots=True)
class Journey:
    """What has happened since the last connection that lasted."""

    given: tuple[Address, ...]
    patience: Patience
    only_given: bool = False
    """Do not follow references to places that the client was not given."""
    at: Address = field(init=False)
    queue: list[Address] = field(default_factory=list)
    """What is to be tried before everything begins anew."""
    attempts: int = 0
    references: int = 0
    stays: int = 0
    trail: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.given:
            raise SettingsError("addresses", "name at least one broker")
        self.begin_anew()

    def begin_anew(self) -> Leg:
        """The first address."""
        self.at, self.queue = self.given[0], list(self.given[1:])
        self.attempts = self.references = self.stays = 0
        self.trail = [str(self.at)]
        return Leg(self.at)

    def ended(self, end: Ended, chance: float = 1.0) -> Leg:
        """Where to go now. Raises `Refused` or `GaveUp`. `chance`, from 0 to 1, spreads clients that have lost the same
        broker: a pause is between half and all of what it might be."""
        if end.welcomed and end.lasted_s >= self.patience.settled_s:
            self.attempts = self.references = self.stays = 0
            self.trail = [str(self.at)]
        self._check(end)
        self.attempts += 1
        if self.attempts >= self.patience.attempts_max:
            raise GaveUp(
                f"no broker has kept this client in {self.attempts} attempts; the last was {self.at}: {said(end)}"
            )
        pause_s = self._pause(self.attempts) * (0.5 + chance / 2)
        if end.reason in ELSEWHERE:
            return self._sent_on(end, pause_s)
        if end.reason in LATER:
            self.stays += 1
            if self.stays % STAYS:
                return Leg(self.at, pause_s)
            return self._go(self._next(), pause_s)
        if end.welcomed:
            self.queue = self._others()
            return Leg(self.at, pause_s)
        return self._go(*self._unreachable(pause_s))

    def _check(self, end: Ended) -> None:
        """Whether there is any point in trying again."""
        if end.reason is None:
            return
        lasting = end.reason in GONE_FOR_GOOD if end.welcomed else end.reason not in WORTH_TRYING
        if lasting:
            did = "ended the connection" if end.welcomed else "refused the connection"
            raise Refused(f"the broker at {self.at} {did}: {said(end)}", end.reason)

    def _sent_on(self, end: Ended, pause_s: float) -> Leg:
        self.references += 1
        if self.references > self.patience.references_max:
            way = " → ".join(self.trail[-SHOWN:])
            raise GaveUp(
                f"{self.references} brokers in a row have sent this client to another one, "
                f"perhaps in a circle: {'… → ' if len(self.trail) > SHOWN else ''}{way}; {said(end)}"
            )
        named = recognised(parse_references(end.reference, self.at.port), self.given)
        if self.only_given:
            named = [place for place in named if place in self.given]
        self.queue = list(dict.fromkeys([place for place in (*named, *self._others()) if not place.is_at(self.at)]))
        # The first broker that says so is obeyed at once. Those who are sent on and on should not hurry.
        alone = not self.queue
        return self._go(self._next(), 0.0 if self.references == 1 and not alone else pause_s)

    def _unreachable(self, pause_s: float) -> tuple[Address, float]:
        """The next one at once; a pause when all have been tried."""
        if self.queue:
            return self._next(), 0.0
        return self._next(), pause_s

    def _next(self) -> Address:
        if not self.queue:
            self.queue = self._others() + [self.at] * any(place.is_at(self.at) for place in self.given)
        return self.queue.pop(0) if self.queue else self.at

    def _others(self) -> list[Address]:
        """The given addresses behind this one, in their order, and then those before it."""
        here = next((number for number, place in enumerate(self.given) if place.is_at(self.at)), -1)
        turned = (*self.given[here + 1 :], *self.given[: max(here, 0)])
        return [place for place in turned if not place.is_at(self.at)]

    def _go(self, address: Address, pause_s: float) -> Leg:
        if not address.is_at(self.at):
            self.stays = 0
        self.at = address
        self.trail = [*self.trail[-SHOWN:], str(address)]
        return Leg(address, pause_s)

    def _pause(self, attempts: int) -> float:
        doubled = self.patience.pause_s * float(2 ** min(attempts - 1, 30))
        return min(doubled, self.patience.pause_max_s)


def said(end: Ended) -> str:
    """Why it ended, in words."""
    if end.reason is not None:
        return reason_words(end.reason, end.told)
    return end.told or ("the connection broke" if end.welcomed else "it cannot be reached")


def addresses_of(given: Sequence[Address]) -> tuple[Address, ...]:
    """Each place once."""
    found: list[Address] = []
    for place in given:
        if not any(place.is_at(other) for other in found):
            found.append(place)
    return tuple(found)
