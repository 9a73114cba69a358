"""What travels between brokers.

Two kinds of frame share a connection. *Connection frames* (`Hello`, `Alive`) manage it and are not numbered.
Every other message is a *session frame*: its sequence number is its position in the link session, counted by both
ends, so that after a broken connection the sender resumes at exactly the frame the receiver names in its `Hello`.

Fields are only ever appended, with a default: an older reader ignores what it does not know, a newer one fills in.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from latecomer.messages.hand_over import HandOverFrame
from latecomer.messages.homes import HomesFrame
from latecomer.messages.reposition import RepositionFrame
from latecomer.messages.ring import RingFrame
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Key, Query, Slice
from latecomer.model.ids import NUMBER_MAX, Name, Number
from latecomer.model.slots import StreamName

PROTOCOL = 4
"""1: until groups of shared subscriptions were told as differences and handed on between brokers. 2: until sessions
moved between brokers. 3: until brokers changed positions on a ring. Readers of an earlier one would not know those
frames, so a broker needs neighbours of its own protocol or a newer one."""
FRAME_MAX = 16 * 1024 * 1024
"""Bytes in one frame; larger ones are refused before anything is buffered."""
ERRAND_MAX = 4 * 1024 * 1024
"""Bytes of what an operator wants of another broker, or is told."""
Version = str
"""Name of a tree: the digest of the link state it was computed from. Equal names, equal trees."""
TopicFilter = Annotated[str, msgspec.Meta(min_length=1, max_length=65_535)]
GROUPS_MAX = 65_536
"""Groups of shared subscriptions that have members at one broker."""
STREAMS_MAX = 1024
"""Streams of brokers that are away of which a store says at once what it has had."""
GROUP_NAME_MAX = 1024
"""Bytes of the name of such a group."""
Digest = Annotated[int, msgspec.Meta(ge=0)]
"""64 bits."""


class Hello(msgspec.Struct, frozen=True, tag="hello", array_like=True):
    """First frame of a connection in each direction: who I am, and how far I am in the session we may share."""

    network: str
    broker: Name
    protocol: Number
    boot: Number
    number: Number
    known_boot: Number = 0
    known_number: Number = 0
    received: Number = 0
    routing: str = ""
    """How I route: brokers that route differently would misunderstand one another."""


class Alive(msgspec.Struct, frozen=True, tag="alive", array_like=True):
    """Heartbeat and acknowledgement: every session frame up to `received` has arrived."""

    received: Number


class Neighbour(msgspec.Struct, frozen=True, array_like=True):
    """One end's view of a link: the neighbour, which of its lives is meant, and the cost of the link."""

    broker: Name
    boot: Number
    cost_us: Number


class LinkState(msgspec.Struct, frozen=True, array_like=True, cache_hash=True):
    """What one broker says of its own links; newer is the larger (boot, seq)."""

    broker: Name
    boot: Number
    seq: Number
    neighbours: tuple[Neighbour, ...]


class LinkStates(msgspec.Struct, frozen=True, tag="link-states", array_like=True):
    """Flooded: link states that are new to the receiver as far as the sender knows."""

    states: tuple[LinkState, ...]


class Summary(msgspec.Struct, frozen=True, tag="summary", array_like=True):
    """At the start of a session: what the sender knows, as (broker, boot, seq); answered with what is newer."""

    entries: tuple[tuple[Name, Number, Number], ...]


class Adopted(msgspec.Struct, frozen=True, tag="adopted", array_like=True):
    """The sender now uses this tree; its tables are not complete until it says so."""

    version: Version


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe", array_like=True):
    """The sender's side of the tree wants these, beside what it wanted before."""

    filters: tuple[Filter, ...]


class Unsubscribe(msgspec.Struct, frozen=True, tag="unsubscribe", array_like=True):
    """The sender's side of the tree no longer asks for these."""

    filters: tuple[Filter, ...]


class Advertise(msgspec.Struct, frozen=True, tag="advertise", array_like=True):
    """Publishers on the sender's side will publish these; `number` counts the changes told on this link."""

    filters: tuple[Filter, ...]
    number: Number


class Unadvertise(msgspec.Struct, frozen=True, tag="unadvertise", array_like=True):
    """Publishers on the sender's side have stopped publishing these."""

    filters: tuple[Filter, ...]
    number: Number


class Confirm(msgspec.Struct, frozen=True, tag="confirm", array_like=True):
    """Everybody behind the sender knows the advertisements up to `number`; their subscriptions went before this."""

    number: Number


class Fence(msgspec.Struct, frozen=True, tag="fence", array_like=True):
    """Tell me, by this number, when everybody behind you in this tree knows what I told before this."""

    version: Version
    number: Number


class Fenced(msgspec.Struct, frozen=True, tag="fenced", array_like=True):
    """Everybody behind the sender knows what it was told before the fence of this number."""

    number: Number


class AdvertisementsComplete(msgspec.Struct, frozen=True, tag="advertisements-complete", array_like=True):
    """The sender's advertisements for this tree have all been told."""

    version: Version


class Complete(msgspec.Struct, frozen=True, tag="complete", array_like=True):
    """The sender's subscriptions for this tree have all been told: events may flow towards it."""

    version: Version


class Publication(msgspec.Struct, frozen=True, tag="publication", array_like=True):
    """An event on its way along the tree.

    `only`: meant for these brokers alone (they were away when the others got it).
    `flooded`: outside every confirmed advertisement, or retained, so it follows every link of the tree.
    """

    event: Event
    only: tuple[Name, ...] = ()
    flooded: bool = False
    left_us: Number = 0
    """What is left of the event's life; 0: it does not expire. Brokers' clocks need not agree."""


class Done(msgspec.Struct, frozen=True, tag="done", array_like=True):
    """Every broker on the sender's side that wants these events of `origin` has them, safely."""

    origin: Name
    epoch: Number
    seqs: tuple[Number, ...]


class RetainedSummary(msgspec.Struct, frozen=True, tag="retained-summary", array_like=True):
    """A digest of the retained messages: whoever has others answers with its own digest, and tells all it has."""

    digest: Digest
    answer: bool = False


class Retained(msgspec.Struct, frozen=True, tag="retained", array_like=True):
    """Retained messages that may be news to the receiver, and what is left of their lives (0: no end)."""

    events: tuple[Event, ...]
    left_us: tuple[Number, ...]


class Sharing(msgspec.Struct, frozen=True, tag="sharing", array_like=True):
    """Flooded: the groups of shared subscriptions that have members at one broker, and how many: its last word. Told
    whole at the start of a link session and of a broker's life."""

    broker: Name
    boot: Number
    number: Number
    entries: tuple[tuple[str, Filter, Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]], ...]


class SharingChange(msgspec.Struct, frozen=True, tag="sharing-change", array_like=True):
    """Flooded: how many members some groups have now at one broker (0: none); the others are as in its word with the
    number before this one."""

    broker: Name
    boot: Number
    number: Number
    entries: tuple[tuple[str, Filter, Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]], ...]


class Run(msgspec.Struct, frozen=True, tag="run", array_like=True):
    """Unreliable publications of one client in one frame, as MQTT 3.1.1 PUBLISH packets without retain or properties,
    one behind the other: what a client sends in a burst travels as a burst."""

    origin: Name
    publisher: str
    frames: bytes


class StoreAdvertise(msgspec.Struct, frozen=True, tag="store-advertise", array_like=True):
    """Advertise() of *storing* §III: for each topic class the nearest store on the sender's side is so many hops from
    the receiver. Takes the place of what the sender said of the class before."""

    entries: tuple[tuple[TopicFilter, Annotated[int, msgspec.Meta(ge=1, le=NUMBER_MAX)]], ...]


class StoreWithdraw(msgspec.Struct, frozen=True, tag="store-withdraw", array_like=True):
    """There is no store of these topic classes on the sender's side any more."""

    topics: tuple[TopicFilter, ...]


class Settled(msgspec.Struct, frozen=True, tag="settled", array_like=True):
    """Everything that was published before this tree on the sender's side, and is for the receiver's, has been sent."""

    version: Version
    past: bool = False
    """Some broker on the sender's side may have finished events before all brokers of this tree were known."""
    round: Number = 0
    """Where brokers route by rendezvous: this was sent when the round before it had been heard from all neighbours."""


class Lost(msgspec.Struct, frozen=True, tag="lost", array_like=True):
    """To a broker that was away: the origin had no room to keep all events of this time for it."""

    origin: Name
    broker: Name
    since_us: Number
    until_us: Number


class RequestId(msgspec.Struct, frozen=True, array_like=True, cache_hash=True):
    """Who asks, in which of its lives, and which of its requests."""

    broker: Name
    boot: Number
    number: Number

    def __str__(self) -> str:
        return f"{self.broker}.{self.boot}/{self.number}"


class Request(msgspec.Struct, frozen=True, tag="request", array_like=True):
    """Request() of *storing* §III. `path` is built hop by hop: the asking broker first, the sender last."""

    id: RequestId
    path: tuple[Name, ...]
    topics: TopicFilter
    """The topic class whose advertisements it follows."""
    query: Query
    user: str = ""
    client: str = ""
    """On whose behalf: the store asks its own rules."""
    credit: Number = 1
    """Responses that may be sent before more are asked for."""
    store: str = ""
    """This store and no other; empty: the nearest."""


class Response(msgspec.Struct, frozen=True, tag="response", array_like=True):
    """Response() of *storing* §III, for some events at once. Each broker takes itself off the end of `path`."""

    id: RequestId
    path: tuple[Name, ...]
    store: Name
    events: tuple[Event, ...]
    left_us: tuple[Number, ...]
    """What is left of each event's life (0: no end)."""
    next: Key | None = None
    """Everything up to here has been looked at."""


class ResponseEnd(msgspec.Struct, frozen=True, tag="response-end", array_like=True):
    """There is no more; or `problem` says why there may be."""

    id: RequestId
    path: tuple[Name, ...]
    store: Name
    hops: Number
    from_us: Number
    """Complete from here on."""
    problem: str = ""
    """What is missing; empty: nothing."""
    final: bool = True
    """Whether it is of no use to ask again: the store said all it can."""


class Credit(msgspec.Struct, frozen=True, tag="credit", array_like=True):
    """To the store that answers: so many responses may be sent, all in all. 0: no more are wanted."""

    id: RequestId
    store: Name
    credit: Number


class Keeping(msgspec.Struct, frozen=True, tag="keeping", array_like=True):
    """Flooded: what one broker's store keeps, and since when it has everything: its last word."""

    broker: Name
    boot: Number
    number: Number
    topics: tuple[TopicFilter, ...]
    since_us: Number = 0
    filling: bool = False
    """There is something that it does not answer clients for yet."""
    classes: tuple[tuple[Number, bool], ...] = ()
    """The same for each of the topics: since when it has everything of them, and whether they are being filled. Empty:
    an older broker, which says it of all together."""


class Compare(msgspec.Struct, frozen=True, tag="compare", array_like=True):
    """To another store of the same topics: tell me your slices. `from_broker` and `store` are the ends of the way."""

    from_broker: Name
    store: Name
    number: Number
    topics: TopicFilter
    since_us: Number
    until_us: Number
    width_us: Annotated[int, msgspec.Meta(ge=1, le=NUMBER_MAX)]


class Compared(msgspec.Struct, frozen=True, tag="compared", array_like=True):
    """The answer to `Compare`, on its way back to `to`."""

    to: Name
    store: Name
    number: Number
    slices: tuple[Slice, ...]
    problem: str = ""
    had: tuple[tuple[StreamName, Number, Number], ...] = ()
    """The newest event that the store's broker has had of each stream whose origin is away: stream, epoch, number."""


class Errand(msgspec.Struct, frozen=True, tag="errand", array_like=True):
    """What an operator at one broker wants of another; `from_broker` and `to` are the ends of the way."""

    from_broker: Name
    to: Name
    number: Number
    body: bytes


class ErrandAnswer(msgspec.Struct, frozen=True, tag="errand-answer", array_like=True):
    """What came of it, on its way back; `problem` says why not."""

    from_broker: Name
    to: Name
    number: Number
    body: bytes
    problem: str = ""


class Void(msgspec.Struct, frozen=True, tag="void", array_like=True):
    """Keeps its number in the session and says nothing: an event or a report of a tree that the sender has left."""


ConnectionFrame = Hello | Alive
SessionFrame = (
    LinkStates
    | Summary
    | Adopted
    | Subscribe
    | Unsubscribe
    | Advertise
    | Unadvertise
    | Confirm
    | Fence
    | Fenced
    | AdvertisementsComplete
    | Complete
    | Publication
    | Done
    | RetainedSummary
    | Retained
    | Sharing
    | SharingChange
    | Run
    | StoreAdvertise
    | StoreWithdraw
    | Settled
    | Lost
    | Request
    | Response
    | ResponseEnd
    | Credit
    | Keeping
    | Compare
    | Compared
    | Errand
    | ErrandAnswer
    | HandOverFrame
    | HomesFrame
    | RepositionFrame
    | RingFrame
    | Void
)
LinkMessage = ConnectionFrame | SessionFrame
