"""Facts that a driver tells the core, in the past tense."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from latecomer.messages.link import LinkMessage, Publication, Run
from latecomer.messages.mqtt import Connect, Packet, Reason
from latecomer.messages.reposition import Place
from latecomer.model.event import Value
from latecomer.model.filters import Filter
from latecomer.model.history import Page, Query, Slice
from latecomer.model.ids import BrokerId, ClientId


class Started(msgspec.Struct, frozen=True):
    """The broker has been built, from its disk if it had one."""


class Woken(msgspec.Struct, frozen=True):
    """The instant asked for by `deadline()` has come."""


class LinkConnected(msgspec.Struct, frozen=True):
    """There is a connection to the neighbour, nothing has been said on it yet. It takes the place of any before it."""

    peer: BrokerId
    connection: int = 1


class LinkDisconnected(msgspec.Struct, frozen=True):
    """A connection to the neighbour is gone."""

    peer: BrokerId
    connection: int = 1


class LinkReceived(msgspec.Struct, frozen=True):
    """Frames arrived from the neighbour, in order."""

    peer: BrokerId
    frames: Sequence[LinkMessage]


class ClientConnected(msgspec.Struct, frozen=True):
    """A client is there; what waits for it may be delivered on this connection, and on no other."""

    client: ClientId
    connection: int = 1


class ClientDisconnected(msgspec.Struct, frozen=True):
    """A client went away; its subscriptions and what waits for it stay."""

    client: ClientId


class Subscribed(msgspec.Struct, frozen=True):
    """A client asked for everything that matches."""

    client: ClientId
    filter: Filter


class Unsubscribed(msgspec.Struct, frozen=True):
    """A client no longer asks for it."""

    client: ClientId
    filter: Filter


class Advertised(msgspec.Struct, frozen=True):
    """A client announced what it will publish."""

    client: ClientId
    filter: Filter


class Unadvertised(msgspec.Struct, frozen=True):
    """A client withdrew an announcement."""

    client: ClientId
    filter: Filter


class Published(msgspec.Struct, frozen=True):
    """A client published; `token` is how the client will recognise the answer."""

    client: ClientId
    token: int
    topic: str
    reliable: bool = True
    attributes: dict[str, Value] = {}
    payload: bytes = b""
    lifetime_us: int = 0
    """0: without end."""


class Confirmed(msgspec.Struct, frozen=True):
    """A client has everything delivered to it up to `number`."""

    client: ClientId
    number: int


class MqttConnected(msgspec.Struct, frozen=True):
    """A client said CONNECT, and is who it says it is."""

    connection: int
    packet: Connect
    user: str = ""
    """Empty: anonymous."""
    fresh_id: str = ""
    """A name nobody can guess, for a client that has none."""
    listener: str = ""
    """The kind of listener by which it came; empty: unknown."""


class MqttReceived(msgspec.Struct, frozen=True):
    """Packets arrived from a client, in order. None: it can be sent more."""

    connection: int
    packets: Sequence[Packet]


class MqttFailed(msgspec.Struct, frozen=True):
    """The driver found a reason to end a client's connection: malformed bytes, silence, an operator's wish."""

    connection: int
    reason: Reason
    problem: str
    reference: str = ""
    """Where the client is to go instead, if it follows references."""


class MqttLost(msgspec.Struct, frozen=True):
    """A client's connection is gone."""

    connection: int


class Relayed(msgspec.Struct, frozen=True):
    """The driver forwarded a run of unreliable publications to its clients; these neighbours want it too."""

    peers: tuple[BrokerId, ...]
    run: Run


class RunOpened(msgspec.Struct, frozen=True):
    """Publications of a neighbour's run that the driver could not forward by itself."""

    peer: BrokerId
    publications: Sequence[Publication]


class StoreAssigned(msgspec.Struct, frozen=True):
    """The operator, or a plan, decided which topics this broker keeps; takes the place of any decision before. What is
    no longer named is no longer kept; what was kept stays until it expires."""

    topics: tuple[str, ...]
    """Topic filters: the topic classes of this store."""
    kept_from_us: int = 0
    """What was published before this, the store does not take."""
    gone_us: int = 0
    """What was published before this, the store has let go of. When that is later, it may keep again what it once could
    not, and others may still have it."""
    starting: bool = False
    """It is told right after `Started`, before anything else."""


class StoreTrimmed(msgspec.Struct, frozen=True):
    """The store let go of what was published before this, by age, size or count."""

    kept_from_us: int


class StoreBlocked(msgspec.Struct, frozen=True):
    """There is no room for more in the store, or there is again."""

    blocked: bool
    since_us: int = 0
    """When the first event that found no room was published."""


class Found(msgspec.Struct, frozen=True):
    """What a `Lookup` brought to light."""

    token: int
    page: Page
    problem: str = ""
    """Why the store could not be read; then the page is empty."""


class Surveyed(msgspec.Struct, frozen=True):
    """What a `Survey` brought to light."""

    token: int
    slices: tuple[Slice, ...]
    problem: str = ""


class Requested(msgspec.Struct, frozen=True):
    """A client inside the process asked for history; `Answer`s follow."""

    client: ClientId
    token: int
    query: Query


class Wanted(msgspec.Struct, frozen=True):
    """The operator of this broker wants something of another; a `Report` with the same token follows."""

    token: int
    broker: BrokerId
    body: bytes


class CarriedOut(msgspec.Struct, frozen=True):
    """What came of a `CarryOut`."""

    broker: BrokerId
    number: int
    body: bytes
    problem: str = ""


class RulesChanged(msgspec.Struct, frozen=True):
    """Who may do what is no longer what it was."""


class SessionEnded(msgspec.Struct, frozen=True):
    """The operator has ended a client's session, connected or not."""

    client: ClientId
    reason: str


class MoveWanted(msgspec.Struct, frozen=True):
    """The operator wants another broker to take over a client's session. `wishes.problem_of_move` says beforehand
    whether that can begin."""

    client: ClientId
    to: BrokerId


class ReleaseWanted(msgspec.Struct, frozen=True):
    """The operator says that the broker to which a client's session is promised will not come back. See
    `wishes.problem_of_release`."""

    client: ClientId


class AddressesKnown(msgspec.Struct, frozen=True):
    """Where clients find this broker, one address for each kind of listener, and whether it takes new ones."""

    entries: tuple[tuple[str, str], ...]
    open: bool = True


class NeighbourAdded(msgspec.Struct, frozen=True):
    """The operator wants a link with this broker from now on, or one that costs something else."""

    peer: BrokerId
    cost_us: int


class NeighbourRemoved(msgspec.Struct, frozen=True):
    """The operator no longer wants a link with this broker."""

    peer: BrokerId


class ForgetWanted(msgspec.Struct, frozen=True):
    """The operator says that a broker will not come back. `membership.problem_of_forget` says beforehand whether it can
    be forgotten."""

    broker: BrokerId


class RepositionWanted(msgspec.Struct, frozen=True):
    """The operator wants brokers to stand at these positions. `reposition.problem_of` says beforehand whether that can
    begin."""

    places: tuple[Place, ...]


class RepositionAborted(msgspec.Struct, frozen=True):
    """The operator no longer wants what this broker has proposed."""


class Measured(msgspec.Struct, frozen=True):
    """The driver has measured what `$SYS` tells: pairs of a topic and its value."""

    figures: tuple[tuple[str, bytes], ...]


Input = (
    Started
    | Woken
    | LinkConnected
    | LinkDisconnected
    | LinkReceived
    | ClientConnected
    | ClientDisconnected
    | Subscribed
    | Unsubscribed
    | Advertised
    | Unadvertised
    | Published
    | Confirmed
    | MqttConnected
    | MqttReceived
    | MqttFailed
    | MqttLost
    | Relayed
    | RunOpened
    | RulesChanged
    | SessionEnded
    | MoveWanted
    | ReleaseWanted
    | AddressesKnown
    | NeighbourAdded
    | NeighbourRemoved
    | ForgetWanted
    | RepositionWanted
    | RepositionAborted
    | Measured
    | StoreAssigned
    | StoreTrimmed
    | StoreBlocked
    | Found
    | Surveyed
    | Requested
    | Wanted
    | CarriedOut
)
