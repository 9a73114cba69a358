"""What travels between brokers when a client's session moves from one to another (`docs/protocol/hand-over.md`).

All of these but `Seek` go from one broker to another along the tree; `from_broker` and `to` are the ends of the way.
Rows of the session travel as they stand on disk, encoded: brokers on the way do not look into them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from latecomer.messages.mqtt import Packet
from latecomer.model.ids import Name, Number
from latecomer.model.slots import StreamName

CLIENT_ID_MAX = 65_535
"""Characters of a client id [MQTT-1.5.4]; a broker may allow fewer."""
CREDIT_MAX = 64
"""Pages under way."""

PROBLEM_MAX = 1024
"""Characters of the reason why a tunnel ended."""

Problem = Annotated[str, msgspec.Meta(max_length=PROBLEM_MAX)]
Client = Annotated[str, msgspec.Meta(min_length=1, max_length=CLIENT_ID_MAX)]


class Packets:
    """MQTT packets between a client and the broker of its session, through another one. `wire/link` writes them as MQTT
    does, and reads them with the reader that reads what clients send."""

    __slots__ = ("packets", "version")

    def __init__(self, version: int, packets: tuple[Packet, ...]) -> None:
        self.version = version
        self.packets = packets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Packets) and (self.version, self.packets) == (other.version, other.packets)

    def __hash__(self) -> int:
        return hash((self.version, len(self.packets)))

    def __repr__(self) -> str:
        return f"Packets({self.version}, {self.packets!r})"


class Attempt(msgspec.Struct, frozen=True, array_like=True, cache_hash=True):
    """One attempt of a broker to take a session over: which broker, in which of its lives, and which of its
    attempts."""

    broker: Name
    boot: Number
    number: Number

    def __str__(self) -> str:
        return f"{self.broker}.{self.boot}/{self.number}"


class Seeker(msgspec.Struct, frozen=True, array_like=True):
    """A client that connected to a broker which does not have its session."""

    client: Client
    user: str
    age_us: Number
    """How long ago it connected."""
    ends: bool = False
    """Whether an older session of the client is to end: the client asked for a clean start."""
    go_on: bool = False
    """If the session is at a broker that is away, the client goes on with a new one: what is remembered of it is
    wanted."""


class Seek(msgspec.Struct, frozen=True, tag="seek", array_like=True):
    """Sent to everybody along the tree: who has the sessions of these clients? A broker that knows something answers
    with `Here`; a fence behind this frame tells when all answers have come."""

    version: str
    """Of the tree."""
    from_broker: Name
    seekers: tuple[Seeker, ...]


class Here(msgspec.Struct, frozen=True, tag="here", array_like=True):
    """The answer to a `Seek`: the session is at `owner`, as far as the sender knows."""

    from_broker: Name
    to: Name
    client: Client
    owner: Name
    age_us: Number = 0
    """How long ago its client connected there."""
    refusal: str = ""
    """Why the seeker cannot have it: `younger` or `user`; empty: it can."""
    connected: bool = False
    """Whether its client is connected there."""
    stamp: Number = 0
    """When its client connected there, by the sender's clock: it tells this session from others of the client."""
    user: str = ""
    """Of the seeker's client."""
    ends: bool = False
    """The receiver has a session of the client as well: the older one is to end."""
    promised: bool = False
    """The session is the sender's, and promised to `owner`, which has not said yet whether it has taken it."""
    again: bool = False
    """The sender knows of the receiver's session, and that it is the younger one."""


class End(msgspec.Struct, frozen=True, tag="end", array_like=True):
    """The sender has a younger session of the client: the one that began with this stamp ends."""

    from_broker: Name
    to: Name
    client: Client
    stamp: Number
    leftovers: bool = False
    """What waits for the client in it is wanted: the receiver says by `Leftovers` whether there is something."""
    own_stamp: Number = 0
    """Of the sender's session; 0: it has none yet."""
    certain: bool = False
    """The sender's session is younger, however long frames were under way."""


class Ask(msgspec.Struct, frozen=True, tag="ask", array_like=True):
    """First for the session's subscriptions; then, with `state`, for everything else, and to take it over."""

    from_broker: Name
    to: Name
    attempt: Attempt
    client: Client
    user: str
    age_us: Number
    """How long ago the client connected to the sender."""
    connected: bool
    """Whether it is connected there; False: the session is moved while its client is away."""
    state: bool = False
    credit: Number = 1
    """Pages of rows that may be sent before more are asked for."""
    connect: Packets | None = None
    """The client's CONNECT: the session stays where it is, and its client is served through the sender."""
    digest: str = ""
    """With `state`, of the subscriptions that the client brought along: the sender has subscribed to them already, and
    was not told any. Empty: it has subscribed to those of a `Standing`."""
    outline: bool = False
    """The sender has a recent log: deliveries that follow from an event and the subscriptions may come as outlines."""
    copy: Attempt | None = None
    """The copy of the session that the sender has (a *shadow*): if it still is one, no rows are needed."""


class Standing(msgspec.Struct, frozen=True, tag="standing", array_like=True):
    """The answer to the first `Ask`: the session's own row and its subscriptions."""

    from_broker: Name
    to: Name
    attempt: Attempt
    client: Client
    session: bytes
    subscriptions: tuple[bytes, ...]
    away_us: Number
    """How long the client has been away."""
    age_us: Number
    """How long ago it connected to the sender."""
    unsure: tuple[Name, ...] = ()
    """Brokers that may have an older session of the client."""
    known: bool = False
    """The subscriptions are those whose digest the receiver sent, and are left out; the rows follow."""
    copy: bool = False
    """The copy that the receiver has is complete: the grant follows without rows."""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One row of the session's tables."""

    table: str
    key: int | str
    value: bytes
    left_us: Number = 0
    """What is left of the life of its event; 0: it does not expire, or there is none."""


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """With the last rows: from here on the asking broker may take the session."""

    cut: tuple[tuple[StreamName, Number, Number], ...]
    """Per stream the newest event, as epoch and number, that the rows account for."""
    upto: Number
    """The newest delivery among the rows, and the newest number given."""
    forgot: bool = False
    """Not everything that the session was given is remembered, perhaps only since its row was sent."""


class Rows(msgspec.Struct, frozen=True, tag="rows", array_like=True):
    """A page of a session's rows."""

    from_broker: Name
    to: Name
    attempt: Attempt
    client: Client
    number: Number
    """Of the page, from 1."""
    rows: tuple[Row, ...]
    grant: Grant | None = None
    outline: bytes = b""
    """Deliveries that the receiver can build if it has had their events, encoded (`core/mobility/outlines`)."""


class Want(msgspec.Struct, frozen=True, tag="want", array_like=True):
    """So many pages may be sent, all in all."""

    from_broker: Name
    to: Name
    attempt: Attempt
    client: Client
    credit: Number
    answered: Number = 0
    """The outlines up to this page have been gone through."""
    lacking: tuple[Number, ...] = ()
    """Numbers of their deliveries that must be sent whole: the sender has not had their events."""


class AskRefused(msgspec.Struct, frozen=True, tag="ask-refused", array_like=True):
    """The session cannot be had from the sender: `unknown`, `ended`, `younger`, `user` or `back`; or not at the moment:
    `busy`."""

    from_broker: Name
    to: Name
    attempt: Attempt
    client: Client
    refusal: str
    owner: str = ""
    """Who may have it, if the sender knows."""


class Taken(msgspec.Struct, frozen=True, tag="taken", array_like=True):
    """The sender has taken the session, safely on its disk; or it has not, and will not by this attempt."""

    from_broker: Name
    to: Name
    attempt: Attempt
    client: Client
    yes: bool


class Released(msgspec.Struct, frozen=True, tag="released", array_like=True):
    """The sender knows that the attempt succeeded, and keeps nothing of the session any more."""

    from_broker: Name
    to: Name
    attempt: Attempt


class Offer(msgspec.Struct, frozen=True, tag="offer", array_like=True):
    """To the broker that was promised a session: have you taken it? `Taken` answers."""

    from_broker: Name
    to: Name
    attempt: Attempt
    client: Client


class Fetch(msgspec.Struct, frozen=True, tag="fetch", array_like=True):
    """To a broker that is to have a session while its client is away: ask for it."""

    from_broker: Name
    to: Name
    client: Client
    user: str
    guess: bool = False
    """Nobody has said that the client goes there."""
    ahead: bool = False
    """The client has said so, or it is a guess; otherwise an operator moves the session."""


class Whereabouts(msgspec.Struct, frozen=True, tag="whereabouts", array_like=True):
    """To the brokers that remember where some sessions are: the sender has them (True), or no longer has."""

    from_broker: Name
    to: Name
    number: Number
    entries: tuple[tuple[Client, bool], ...]
    whole: bool = False
    """Forget what the sender told before: it begins anew."""
    particulars: tuple[tuple[Client, bytes], ...] = ()
    """What is to be remembered of some of these sessions, encoded (`core/mobility/particulars`)."""
    disk: Number = 0
    """Tells the sender's disk from one that it had before and has lost; 0: unknown."""


class WhereaboutsKept(msgspec.Struct, frozen=True, tag="whereabouts-kept", array_like=True):
    """The receiver remembers the batch of this number."""

    from_broker: Name
    to: Name
    number: Number


class Attached(msgspec.Struct, frozen=True, tag="attached", array_like=True):
    """The answer to an `Ask` with a CONNECT: the sender serves the client through the receiver. The attempt names the
    tunnel between them from here on; the CONNACK follows in a `Relay`."""

    from_broker: Name
    to: Name
    attempt: Attempt
    client: Client


class Relay(msgspec.Struct, frozen=True, tag="relay", array_like=True):
    """Packets of a client through a tunnel, in either direction."""

    from_broker: Name
    to: Name
    attempt: Attempt
    number: Number
    """Of the frame in its direction, from 1."""
    packets: Packets
    credit: Number = 0
    """So much of what came from the receiver has been passed on since the last time this was said."""


class Detach(msgspec.Struct, frozen=True, tag="detach", array_like=True):
    """The tunnel has ended: the client's connection is gone, or the owner has closed it."""

    from_broker: Name
    to: Name
    attempt: Attempt
    problem: Problem = ""
    """Why; empty: the client said goodbye."""
    told: bool = False
    """The client was sent a reason."""


class ShadowOffer(msgspec.Struct, frozen=True, tag="shadow-offer", array_like=True):
    """To a broker to which the client may come: keep a copy of the session. What it is subscribed to comes first."""

    from_broker: Name
    to: Name
    copy: Attempt
    """Of the sender: it tells this copy from others."""
    client: Client
    user: str
    subscriptions: tuple[bytes, ...]


class ShadowWanted(msgspec.Struct, frozen=True, tag="shadow-wanted", array_like=True):
    """The sender has subscribed, and wants the rows; so many pages may be sent, all in all."""

    from_broker: Name
    to: Name
    copy: Attempt
    client: Client
    credit: Number


class ShadowRows(msgspec.Struct, frozen=True, tag="shadow-rows", array_like=True):
    """A page of the rows of a copy."""

    from_broker: Name
    to: Name
    copy: Attempt
    client: Client
    number: Number
    """Of the page, from 1."""
    rows: tuple[Row, ...]
    complete: bool = False
    """These were the last ones."""


class ShadowLost(msgspec.Struct, frozen=True, tag="shadow-lost", array_like=True):
    """The copy is void, says the owner; or the other broker does not keep it."""

    from_broker: Name
    to: Name
    copy: Attempt
    client: Client


class Remembered(msgspec.Struct, frozen=True, tag="remembered", array_like=True):
    """An answer to a `Seek`: what the sender remembers of a session whose owner is away, or has lost it."""

    from_broker: Name
    to: Name
    client: Client
    owner: Name
    user: str
    particulars: bytes
    lost: bool = False
    """The owner has lost its disk, or is forgotten: nobody has the session."""


class Leftovers(msgspec.Struct, frozen=True, tag="leftovers", array_like=True):
    """Deliveries that waited for a client in a session that has ended, because the client went on with a new one. First
    without rows: there are some; then page by page, as they are wanted; at the end without rows, and `last`."""

    from_broker: Name
    to: Name
    client: Client
    mark: str = ""
    """Of whoever takes them, as it came with the question."""
    rows: tuple[Row, ...] = ()
    last: bool = False
    """There is nothing, or nothing more."""
    unsure: tuple[Name, ...] = ()
    """Brokers that may have a session that is older still."""


class LeftoversWanted(msgspec.Struct, frozen=True, tag="leftovers-wanted", array_like=True):
    """The sender has the leftovers up to a row safely on its disk, and wants what follows."""

    from_broker: Name
    to: Name
    client: Client
    user: str
    mark: str = ""
    """Tells this session from another of the client that may have taken some of them."""
    upto: Number = 0
    discard: bool = False
    """Nobody wants them: the client began anew."""


HandOverFrame = (
    Seek
    | Here
    | End
    | Ask
    | Standing
    | Rows
    | Want
    | AskRefused
    | Taken
    | Released
    | Offer
    | Fetch
    | Whereabouts
    | WhereaboutsKept
    | Attached
    | Relay
    | Detach
    | ShadowOffer
    | ShadowWanted
    | ShadowRows
    | ShadowLost
    | Remembered
    | Leftovers
    | LeftoversWanted
)
