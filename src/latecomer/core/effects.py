"""Orders that the core gives its driver. They are performed in order.

A `Persist` is always the first effect of its step: nothing after it, in this step or a later one, may happen before
its writes are safe, if it is urgent. That one rule is the whole durability contract.
"""

from __future__ import annotations

import msgspec

from latecomer.messages.link import LinkMessage, Run
from latecomer.messages.mqtt import Packet
from latecomer.model.event import Event
from latecomer.model.history import Outcome, Query
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Record


class Put(msgspec.Struct, frozen=True):
    """Write `value` at (`table`, `group`, `key`)."""

    table: str
    group: str
    key: int | str
    value: object


class Drop(msgspec.Struct, frozen=True):
    """Remove what stands at (`table`, `group`, `key`)."""

    table: str
    group: str
    key: int | str


class Trim(msgspec.Struct, frozen=True):
    """Remove every key below `below` of (`table`, `group`)."""

    table: str
    group: str
    below: int


class Append(msgspec.Struct, frozen=True):
    """Keep an event in this broker's store; one that the store has is not kept twice."""

    event: Event


class TakeBack(msgspec.Struct, frozen=True):
    """Take events of one origin and epoch, numbered higher than `after`, out of this broker's store again: they became
    safe, and what belongs to them did not. None of them was published before `since_us`."""

    origin: BrokerId
    epoch: int
    after: int
    since_us: Instant


Write = Put | Drop | Trim | Append | TakeBack


class Persist(msgspec.Struct, frozen=True):
    """Make these writes safe, all or none, before anything that follows. What is appended may become safe a moment
    before the rest: after a crash it comes again and is not kept twice, or it is taken back.

    If it is not `urgent`, nothing waits for the writes: what follows may happen before they are safe. They become safe
    with the next urgent ones, in order and before them, or a little later. A crash may lose them, but never leaves the
    disk with a later write and without an earlier one."""

    writes: list[Write]
    urgent: bool = True


class Send(msgspec.Struct, frozen=True):
    """Send frames to a neighbour, in order, on the connection they are meant for; if it is gone, so are they."""

    peer: BrokerId
    connection: int
    frames: list[LinkMessage]


class Disconnect(msgspec.Struct, frozen=True):
    """Close a connection to a neighbour; `LinkDisconnected` need not follow."""

    peer: BrokerId
    connection: int
    reason: str


class Deliver(msgspec.Struct, frozen=True):
    """Hand an event to a client on the connection it is meant for; a connection that is gone loses it. Numbers grow
    by one per client; 0 marks a delivery that is not repeated."""

    client: ClientId
    connection: int
    number: int
    event: Event


class Accept(msgspec.Struct, frozen=True):
    """Tell the publisher that its publication is safe: from here on it is ours to deliver."""

    client: ClientId
    token: int
    event: Event


class Refuse(msgspec.Struct, frozen=True):
    """Tell the publisher that its publication was not taken, and why."""

    client: ClientId
    token: int
    reason: str


class Attach(msgspec.Struct, frozen=True):
    """A CONNECT is accepted: from here on what comes on this connection is for the client's session."""

    connection: int


class Transmit(msgspec.Struct, frozen=True):
    """Send packets to an MQTT client, in order; a connection that is gone loses them."""

    connection: int
    packets: list[Packet]


class Close(msgspec.Struct, frozen=True):
    """End an MQTT client's connection, after everything that was sent on it; no `MqttLost` need follow."""

    connection: int
    problem: str
    """Why, for the log; empty: as it should be."""


class Read(msgspec.Struct, frozen=True):
    """Read from an MQTT client, or do not for now: what it said has not been passed on yet."""

    connection: int
    go_on: bool


class Spread(msgspec.Struct, frozen=True):
    """Forward a neighbour's run: to the clients of this broker, and with `Relayed` to the neighbours beyond."""

    peer: BrokerId
    run: Run


class Lookup(msgspec.Struct, frozen=True):
    """Look into this broker's store, which holds everything that was to be persisted before; `Found` follows."""

    token: int
    query: Query
    events_max: int
    bytes_max: int
    expired: bool = False
    """Also what has expired; another store wants it, since `Survey` counts it."""


class Survey(msgspec.Struct, frozen=True):
    """Add up what this broker's store holds of a topic filter, in slices; `Surveyed` follows."""

    token: int
    topics: str
    since_us: int
    until_us: int
    """Not included."""
    width_us: int


class Answer(msgspec.Struct, frozen=True):
    """Hand a client inside the process some of the history it asked for; with an outcome: the last of it."""

    client: ClientId
    token: int
    events: tuple[Event, ...]
    outcome: Outcome | None = None


class CarryOut(msgspec.Struct, frozen=True):
    """Do what the operator of another broker wants; `CarriedOut` follows."""

    broker: BrokerId
    number: int
    body: bytes


class Report(msgspec.Struct, frozen=True):
    """Tell the operator what came of what was `Wanted`; `problem` says why nothing did."""

    token: int
    body: bytes
    problem: str = ""
    answered: bool = True
    """False: the other broker has not said so, and may yet have done it."""


class Note(msgspec.Struct, frozen=True):
    """Write a record into the event log."""

    record: Record


Effect = (
    Persist
    | Send
    | Disconnect
    | Deliver
    | Accept
    | Refuse
    | Attach
    | Transmit
    | Close
    | Read
    | Spread
    | Lookup
    | Survey
    | Answer
    | CarryOut
    | Report
    | Note
)
