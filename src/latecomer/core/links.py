"""Link sessions: a reliable, ordered stream to a neighbour that outlives its connections.

Theory of operation. A *session* is a pair of lives, one of each end: ((boot, number), (boot, number)). Both ends count
the session frames they sent and received. When a connection is made, each end says in its `Hello` who it is, which
life of the other it last knew, and how many frames it has received. If both remember the same pair, the session
resumes: what the other has is forgotten, what it lacks is sent again. Otherwise both start afresh with nothing under
way; the layers above then tell each other everything anew.

A session ends when its connection has been gone for `hold_us`; until then the link counts as up and frames wait.
The two conditions for resuming are the same four values seen from both sides, so the ends cannot disagree.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from latecomer.messages.link import PROTOCOL, Alive, Hello, LinkMessage, SessionFrame
from latecomer.model.ids import BrokerId, Instant

ACK_EVERY = 64
"""Frames received before the sender is told so without being asked by the heartbeat."""


class Greeting(Enum):
    """What a `Hello` led to."""

    RESUMED = "resumed"
    FRESH = "fresh"
    IMPOSSIBLE = "impossible"
    """The peer claims to have received what was never sent, or to lack what it acknowledged."""


@dataclass(slots=True)
class Link:
    """Our end of a link. `number` distinguishes sessions within one boot."""

    peer: BrokerId
    cost_us: int
    boot: int
    wanted: bool = True
    """False: the operator has taken the neighbour away. The link stays where it is, so that what comes late about it
    finds a place, and so that no number of a session is used twice if the neighbour is added again."""
    number: int = 1
    known_boot: int = 0
    known_number: int = 0
    connected: bool = False
    """A connection exists."""
    greeted: bool = False
    """The peer's `Hello` arrived on this connection: frames flow."""
    sent: int = 0
    received: int = 0
    told: int = 0
    """How many received frames the peer knows of."""
    unacked: deque[SessionFrame] = field(default_factory=deque)
    """Sent but not acknowledged; its last element has number `sent`."""
    heard_at: Instant = 0
    spoke_at: Instant = 0
    lost_at: Instant = 0
    """When the connection of a living session broke."""

    @property
    def up(self) -> bool:
        """A session exists, connected or waiting for its connection to come back."""
        return self.known_boot != 0

    def hello(self, network: str, broker: BrokerId, routing: str) -> Hello:
        return Hello(
            network,
            broker,
            PROTOCOL,
            self.boot,
            self.number,
            self.known_boot,
            self.known_number,
            self.received,
            routing,
        )

    def greet(self, hello: Hello) -> tuple[Greeting, list[SessionFrame]]:
        """Take the peer's `Hello`; returns what must be sent again."""
        same = (self.known_boot, self.known_number) == (hello.boot, hello.number) and (
            (hello.known_boot, hello.known_number) == (self.boot, self.number)
        )
        if same and not self.acknowledge(hello.received):
            return Greeting.IMPOSSIBLE, []
        self.greeted = True
        if same:
            self.told = self.received
            return Greeting.RESUMED, list(self.unacked)
        self._reset()
        self.known_boot, self.known_number = hello.boot, hello.number
        return Greeting.FRESH, []

    def acknowledge(self, received: int) -> bool:
        """The peer has everything up to `received`; False if it cannot."""
        if not self.sent - len(self.unacked) <= received <= self.sent:
            return False
        for _ in range(received - (self.sent - len(self.unacked))):
            self.unacked.popleft()
        return True

    def alive(self, now: Instant) -> Alive:
        self.told = self.received
        self.spoke_at = now
        return Alive(self.received)

    def lose(self, now: Instant) -> None:
        """The connection is gone; the session waits."""
        self.connected = self.greeted = False
        self.lost_at = now

    def close(self) -> None:
        """End the session; the next connection starts another."""
        self._reset()
        self.number += 1
        self.known_boot = self.known_number = 0

    def _reset(self) -> None:
        self.sent = self.received = self.told = 0
        self.unacked.clear()


def hello_problem(hello: LinkMessage, network: str, broker: BrokerId, routing: str, peer: BrokerId) -> str | None:
    """Why a first frame is not acceptable; None if it is."""
    if not isinstance(hello, Hello):
        return f"expected hello, got {type(hello).__name__.lower()}"
    if hello.network != network:
        return f"this is network {network!r}, the peer belongs to {hello.network!r}"
    if hello.broker == broker:
        return f"the peer calls itself {broker!r} as this broker does: broker ids must be unique"
    if hello.broker != peer:
        return f"expected broker {peer!r}, got {hello.broker!r}"
    if hello.protocol < PROTOCOL:
        return f"the peer speaks protocol {hello.protocol}, this broker needs {PROTOCOL}"
    if hello.routing != routing:
        return f"this broker routes by {routing}, the peer by {hello.routing or 'something unsaid'}: all must agree"
    if hello.boot < 1 or hello.number < 1 or hello.received < 0:
        return "hello carries an impossible number"
    return None
