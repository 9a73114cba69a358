"""SUBACKs that wait until the whole network knows the subscriptions (`core.subscribe_wait`).

Without it a SUBACK says that this broker has the subscription, and a message that somebody publishes elsewhere right
afterwards may be missed. With it the SUBACK leaves when every broker of the tree has answered a fence (`core/fences`).

Brokers that are away are not asked: they keep for this broker what they accept. But they must have noticed that it is
not there. A broker that restarts is alone at once, while its neighbours hold the link to its former life for seconds,
and finish what its tables of then did not ask for. So a fence counts when whoever is away must have noticed; one that
passed before is followed by another, in the next tree or when it is time.

A broken link must not hold a SUBACK for ever: after `core.subscribe_wait_max_us` it leaves as it would have without
waiting, and an MQTT 5 client reads in its reason string that the network did not answer in time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from msgspec.structs import replace

from latecomer.core.fences import Fences
from latecomer.core.membership import Membership
from latecomer.core.orders import Orders
from latecomer.core.session.state import Session
from latecomer.core.settings import BrokerSettings
from latecomer.core.shares import Shares
from latecomer.messages.mqtt import Properties, Suback
from latecomer.model.ids import Instant

HELD_MAX = 100
"""SUBACKs of one client that wait; a client that asks for more without waiting is answered as if without."""
LATE = "granted, but the network has not confirmed it in time"


@dataclass(slots=True, frozen=True)
class _Held:
    wave: int
    due: Instant
    session: Session
    connection: int
    packet: Suback


@dataclass(slots=True)
class Subacks:
    """Sends SUBACKs, at once or when they are due."""

    orders: Orders
    settings: BrokerSettings
    fences: Fences
    shares: Shares
    membership: Membership
    _again: Instant | None = None
    """A fence passed too early for those who are away: another one follows at this instant."""
    _held: deque[_Held] = field(default_factory=deque)
    """In the order in which they were asked for, which is that of their waves and of their deadlines."""
    _counts: dict[int, int] = field(default_factory=dict)
    """By connection."""

    def send(self, session: Session, packet: Suback, *, granted: bool) -> None:
        """Answer a SUBSCRIBE that has been carried out; `granted`: some of it."""
        if not self.settings.subscribe_wait or not granted:
            self.orders.transmit(session.connection, packet)
            return
        connection = session.connection
        self.shares.flush()  # what the others must know of groups goes ahead of the fence
        held = _Held(
            self.fences.ask(),
            self.orders.now + self.settings.subscribe_wait_max_us,
            session,
            connection,
            packet,
        )
        passed = self.fences.done >= held.wave
        if passed and self._noticed():
            self.orders.transmit(connection, packet)
        elif self._counts.get(connection, 0) >= HELD_MAX:
            self._send(held, late=True)
        else:
            self._counts[connection] = self._counts.get(connection, 0) + 1
            self._held.append(held)
            self.orders.wake(held.due)
            if passed:
                self._ask_again_later()

    def passed(self, wave: int) -> None:
        """Everybody in the tree knows what was told up to this wave."""
        if not self._held or self._held[0].wave > wave:
            return
        if not self._noticed():
            self._ask_again_later()
            return
        while self._held and self._held[0].wave <= wave:
            self._release(late=False)

    def tree_ready(self) -> None:
        """Who was away may be in this tree: then there is nothing to wait for but its answer."""
        if self._again is not None:
            self._ask_again()

    def woken(self) -> None:
        now = self.orders.now
        while self._held and self._held[0].due <= now:
            self._release(late=True)
        if self._again is not None and self._again <= now:
            self._ask_again()

    def due(self) -> Instant | None:
        if not self._held:
            return None
        due = self._held[0].due
        return due if self._again is None else min(due, self._again)

    def _noticed(self) -> bool:
        """Whether everybody who is away knows that this broker is."""
        return self.orders.now >= self.membership.noticed_at

    def _ask_again_later(self) -> None:
        self._again = self.orders.wake(self.membership.noticed_at)

    def _ask_again(self) -> None:
        self._again = None
        if self._held:
            self.fences.ask()

    def _release(self, *, late: bool) -> None:
        held = self._held.popleft()
        left = self._counts[held.connection] - 1
        if left:
            self._counts[held.connection] = left
        else:
            del self._counts[held.connection]
        self._send(held, late=late)

    def _send(self, held: _Held, *, late: bool) -> None:
        if held.session.connection != held.connection:
            return  # the client is gone, or has come back and asks again
        packet = held.packet
        if late and held.session.explains and packet.properties.reason_string is None:
            packet = replace(packet, properties=Properties(reason_string=LATE))
        self.orders.transmit(held.connection, packet)
