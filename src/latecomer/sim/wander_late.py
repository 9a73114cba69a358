"""What is promised to clients that go on with a new session while the broker of the old one is away.

Their ledger is loose meanwhile (`wander_stays.split`): two sessions are two. What holds all the same: since the new
session began, QoS 2 comes once; what waited in the old one and was kept for the new one on a disk (`leftovers`) comes,
or its loss is said aloud; and it comes with a mark, unless it came live as well, and nothing else has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from latecomer.core.effects import Put, Write
from latecomer.core.session.delivery import LATE
from latecomer.core.session.limits import NEVER_S
from latecomer.core.session.state import Parcel
from latecomer.messages.mqtt import V5, Properties, Publish
from latecomer.model.event import Event
from latecomer.model.ids import BrokerId, ClientId
from latecomer.model.record import Kind, Record
from latecomer.sim.mqtt_checkers import token_of
from latecomer.sim.mqtt_clients import MqttClient

LEFTOVERS = "leftovers"


@dataclass(slots=True)
class _Waiter:
    """One client that may have leftovers."""

    left_at: dict[str, dict[BrokerId, None]] = field(default_factory=dict)
    """By publication that was left over, the brokers that kept it."""
    live: dict[str, dict[BrokerId, None]] = field(default_factory=dict)
    """By event, the brokers that delivered it when it was published."""
    once_only: dict[str, str] = field(default_factory=dict)
    """By publication with QoS 2 that was left over, the event; with QoS 1 there may be several."""
    tokens: dict[str, str] = field(default_factory=dict)
    """By event that was left over, the publication."""
    owed: dict[str, None] = field(default_factory=dict)
    """Publications that were left over and have not come yet. Deletions of what was retained are not among them: older
    clients cannot tell whose they are."""
    dropped: dict[str, None] = field(default_factory=dict)
    """Events of which it was said aloud that they are lost."""
    got: dict[str, None] = field(default_factory=dict)
    once: Counter[str] = field(default_factory=Counter)
    """What came with QoS 2 since the session began."""
    anew: bool = False
    """It asked for its present session to be new: what others have of older ones is discarded."""
    told: bool = True
    """It has read that its session is new."""
    ended: bool = False
    """An operator has ended one of its sessions, and with it what waited there, or was to come there."""
    confused: bool = False
    """It was given its old session again, or does not know that it has a new one: packet ids mean nothing to it."""


@dataclass(slots=True)
class LateLedger:
    """All of them."""

    violate: Callable[[str, str], None]
    late: int = 0
    """Deliveries that came late."""
    _waiters: dict[ClientId, _Waiter] = field(default_factory=dict)

    def _of(self, client: ClientId) -> _Waiter:
        return self._waiters.setdefault(client, _Waiter())

    def written(self, broker: BrokerId, writes: Sequence[Write]) -> None:
        """A disk has changed."""
        for write in writes:
            if isinstance(write, Put) and write.table == LEFTOVERS and isinstance(write.value, Parcel):
                event, waiter = write.value.event, self._of(write.group)
                token, id = token_of_event(event), str(event.id)
                waiter.left_at.setdefault(token, {})[broker] = None
                waiter.tokens[id] = token
                if event.qos == 2:
                    waiter.once_only[token] = id
                if event.payload and not waiter.anew and token not in waiter.got and id not in waiter.dropped:
                    waiter.owed[token] = None

    def noted(self, record: Record) -> None:
        if record.kind is Kind.DELIVERED and record.hops >= 0:
            self._of(record.client).live.setdefault(record.event, {})[record.broker] = None
        elif record.kind is Kind.DROPPED and record.client:
            waiter = self._of(record.client)
            waiter.dropped[record.event] = None
            waiter.owed.pop(waiter.tokens.get(record.event, ""), None)

    def began(self, client: ClientId, present: bool, *, clean: bool, old: bool) -> None:
        """A broker welcomes a client; `clean`: which asked for a new session; `old`: with a session in whose place
        another one had begun."""
        waiter = self._of(client)
        if not present:
            waiter.once.clear()
            waiter.told, waiter.anew = False, clean
            if clean:
                waiter.owed.clear()
        elif old or not waiter.told:
            waiter.confused = True

    def welcomed(self, client: ClientId, present: bool) -> None:
        """A client reads it."""
        if not present:
            self._of(client).told, self._of(client).confused = True, False

    def unaware(self, client: ClientId) -> bool:
        """Whether a client has a new session, and has not read so: it did not wait for that CONNACK."""
        return not self._of(client).told

    def begins_anew(self, client: ClientId) -> None:
        """It wants nothing of what was."""
        self._of(client).owed.clear()

    def operator_ended(self, client: ClientId) -> None:
        """What waits for it in any session is no longer promised."""
        self._of(client).ended = True

    def left_over(self, client: ClientId, packet: Publish) -> bool:
        """Whether a publication was left over for a client: it may come late, and again with QoS 1."""
        return token_of(packet) in self._of(client).left_at

    def received(self, client: MqttClient, packet: Publish, broker: BrokerId, *, split: bool) -> None:
        """A client got something; `split`: it may have had two sessions, and neither publishes twice."""
        token, waiter = token_of(packet), self._of(client.id)
        if not token:
            return
        marked = any(name == LATE for name, _ in packet.properties.user)
        self.late += marked
        waiter.got[token] = None
        waiter.owed.pop(token, None)
        if marked and token not in waiter.left_at:
            self.violate("late", f"{client.id} got {token}, marked as late, which was never left over")
        unmarked = client.version == V5 and not marked and token in waiter.once_only
        if split and unmarked and not waiter.confused and not self._came_live(waiter, token, broker):
            self.violate("late", f"{client.id} got {token}, which was left over, without a mark")
        if packet.qos == 2 and split and not packet.retain:
            waiter.once[token] += 1
            if waiter.once[token] > 1 and not waiter.confused:
                self.violate("twice", f"{client.id} got {token} on {packet.topic!r} twice with QoS 2, of two sessions")

    @staticmethod
    def _came_live(waiter: _Waiter, token: str, broker: BrokerId) -> bool:
        """Whether a publication was delivered in another session than the one in which it was left over."""
        left_at, live = waiter.left_at[token], waiter.live.get(waiter.once_only[token], {})
        return broker in left_at or any(other not in left_at for other in live)

    def check(self, clients: Sequence[MqttClient]) -> None:
        """All is quiet: whatever was left over has come."""
        for client in clients:
            waiter = self._of(client.id)
            if client.expiry_s == NEVER_S and not waiter.confused and not waiter.ended:
                for token in waiter.owed:
                    kept = ", ".join(waiter.left_at[token])
                    self.violate("late", f"{client.id} never got {token}, which was left over at {kept}")
            waiter.owed.clear()
            waiter.ended = False


def token_of_event(event: Event) -> str:
    """Which publication an event carries; empty: it does not say."""
    user = () if event.extras is None else event.extras.user
    return token_of(Publish(event.topic, event.payload, properties=Properties(user=user)))
