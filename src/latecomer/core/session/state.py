"""The nouns of a session, and the stages that a delivery of QoS 1 or 2 goes through."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from latecomer.core.index import FilterIndex
from latecomer.core.session.past import Past
from latecomer.messages.mqtt import V5, Puback, Pubcomp, Pubrec, Reason, Will
from latecomer.model.event import Event, Qos, Value
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId, ClientId, EventId, Instant, Number
from latecomer.model.slots import Stamp, Stream

PACKET_IDS = 65_535
TOPICS_MAX = 4096
"""Topics of which a session remembers which of its filters match."""
HISTORY_END = "$history/end"
"""The topic of the message between history and what is live; nobody can publish to it."""
NOBODY = EventId("-", 0, 0)
"""The identity of the marker, which is no event."""


class Refusal(Exception):
    """A request of a client that is answered with a reason; its connection goes on, unless the request was CONNECT."""

    def __init__(self, reason: Reason, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason
        self.problem = problem


class Subscription(msgspec.Struct, frozen=True, array_like=True):
    """One subscription with its options; `text` is the topic filter as the client wrote it, and names it."""

    text: str
    filter: Filter
    qos: Qos = 0
    group: str = ""
    """Of a shared subscription."""
    no_local: bool = False
    retain_as_published: bool = False
    id: Number = 0
    """Subscription identifier; 0: none."""


class Share(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The group of a shared subscription that a delivery is for."""

    group: str
    filter: Filter
    stored: bool
    """Whether it stands on disk although the session may not: if the broker dies, others of the group are owed it."""


class Parcel(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event as it is owed to one client."""

    event: Event
    qos: Qos = 1
    retain: bool = False
    ids: tuple[int, ...] = ()
    past: bool = False
    """Whether it comes from history: then the client is told when it was published, and which event it is."""
    share: Share | None = None
    """Set if the client gets it as a member of a group: another member gets it if this session ends before."""
    late: bool = False
    """Whether it waited in an older session of the client, and comes behind what is newer: the client is told so."""

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.event.payload) + len(self.event.topic) + 100


class SessionRow(msgspec.Struct, frozen=True, array_like=True):
    """A session as it stands on disk, beside its subscriptions, queue and unreleased packet ids."""

    user: str
    version: int
    expiry_s: int
    away_since_us: int = 0
    """0: connected when this was written."""
    will: Will | None = None
    sent: int | None = None
    """Up to this number deliveries had been sent when this was written; None, in rows of earlier versions: unknown."""
    quota: int = PACKET_IDS
    """Deliveries that may be under way at once: of a connected client, so many more may have been sent since."""
    connected_us: int = 0
    """When the client connected last."""
    misses: int = 0
    """Guesses in a row of where the client goes that were wrong."""
    came_from: str = ""
    """The broker where the client was before."""
    hand_over: str = ""
    """The algorithm by which the client wants its session to move; empty: the broker's."""
    places: tuple[str, ...] = ()
    """The brokers where the client was, the last one at the end."""
    owner_away: str = ""
    """What the client wants if its session is at a broker that is away; empty: what the broker says."""
    memory: str = ""
    """Whether it is remembered which events the session was given (`given`): whole, part, or empty: not at all."""


class Stage(Enum):
    """What the client must say next about a delivery."""

    PUBACK = "puback"
    PUBREC = "pubrec"
    PUBCOMP = "pubcomp"


class Turn(Enum):
    """What follows from what it said."""

    SETTLE = "settle"
    RELEASE = "release"


STAGES: dict[tuple[Stage, type], Turn] = {
    (Stage.PUBACK, Puback): Turn.SETTLE,
    (Stage.PUBREC, Pubrec): Turn.RELEASE,
    (Stage.PUBCOMP, Pubrec): Turn.RELEASE,  # it has not seen our PUBREL
    (Stage.PUBCOMP, Pubcomp): Turn.SETTLE,
}
"""Anything else is a protocol error, or about a packet id that is not in use."""


@dataclass(slots=True)
class Flight:
    """A delivery that was sent and is not settled."""

    number: int
    stage: Stage


@dataclass(slots=True, frozen=True)
class Grade:
    """What a session's subscriptions make of a topic: the highest QoS and every identifier [MQTT-3.3.4-2, -5]."""

    qos: int
    ids: tuple[int, ...] = ()
    retain_as_published: bool = False


def packet_id(number: int) -> int:
    """The packet id of a delivery follows from its number, so it needs no place on disk of its own and a delivery
    keeps it whatever happens [MQTT-4.4.0-1]."""
    return (number - 1) % PACKET_IDS + 1


@dataclass(slots=True)
class Given:
    """Which events a session was given since it began."""

    whole: bool
    """False: there were more."""
    ids: dict[EventId, int] = field(default_factory=dict)
    """With their numbers on disk."""
    number: int = 0


@dataclass(slots=True)
class Session:
    """One client's session. What belongs to the connection is set anew by every CONNECT."""

    client: ClientId
    user: str
    version: int = V5
    expiry_s: int = 0
    connection: int = 0
    """The one the client is connected by; 0 while it is away."""
    connected_at: Instant = 0
    """When it connected last."""
    keep_alive_s: int = 0
    """The client promised to be heard from this often; 0: it did not."""
    away_since: Instant = 0
    ends_at: Instant | None = None
    will: Will | None = None
    will_due: Instant | None = None
    suspended: bool = False
    """Another broker is about to take the session: neither its will nor its end may come meanwhile."""
    misses: int = 0
    """Guesses in a row of where the client goes that were wrong."""
    guessed: bool = False
    """The session is here because of a guess, and its client has not come yet."""
    came_from: BrokerId = ""
    """The broker where the client was before."""
    hand_over: str = ""
    """The algorithm by which the client wants its session to move; empty: the broker's."""
    places: tuple[BrokerId, ...] = ()
    """The brokers where the client was, the last one at the end (`mobility/habits`)."""
    owner_away: str = ""
    """What the client wants if its session is at a broker that is away; empty: what the broker says."""
    given: Given | None = None
    """While another broker may have an older session of the client, which of its events this one had (`given`)."""
    late: dict[BrokerId, tuple[str, int]] = field(default_factory=dict)
    """By broker that has leftovers of an older session: under which mark, and up to which row they were taken."""
    told: bool = False
    """Other brokers remember that the session is here."""
    cut: dict[Stream, Stamp] = field(default_factory=dict)
    """Of a session that came from another broker, per stream: events up to here it had there."""
    without: dict[Stream, None] = field(default_factory=dict)
    """Streams whose origin was away when it came, and of which this broker had had newer events than that (`cuts`)."""
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    number: int = 0
    """Of the newest delivery of QoS 1 or 2."""
    sent: int = 0
    """The newest of them that was sent, or may have been before a restart. They are sent in order."""
    recovered: int = 0
    """Deliveries up to here may have been sent on an earlier connection."""
    found: int = 0
    """Deliveries up to here may have been sent before a restart: nobody knows."""
    stored: bool = False
    """Something of the session stands on disk."""
    queue: OrderedDict[int, Parcel | None] = field(default_factory=OrderedDict)
    """Deliveries that are not settled, by number; None: released (QoS 2), the event is no longer needed."""
    queue_bytes: int = 0
    backlog: deque[int] = field(default_factory=deque)
    """Numbers of those that were not sent on this connection yet."""
    inflight: dict[int, Flight] = field(default_factory=dict)
    """By packet id."""
    leased: int = 0
    """Deliveries under way that the driver answers for (`runtime/fastpath`)."""
    leased_from: int = 0
    """The number of the oldest of them; their packet ids are taken as well."""
    choked: bool = False
    """The driver cannot get rid of more bytes: the client does not read fast enough."""
    quota: int = PACKET_IDS
    """Deliveries that may be under way at once: the client's receive maximum [MQTT-3.3.4-9]."""
    packet_max: int = 0
    """Bytes of a packet that the client takes; 0: any [MQTT-3.1.2-24]."""
    explains: bool = True
    """Whether the client wants to read reasons [MQTT-3.1.2-29]."""
    follows: bool = False
    """The client goes where a Server Reference points: it has said so."""
    listener: str = ""
    """The kind of listener by which it is connected; empty: unknown."""
    incoming: dict[int, None] = field(default_factory=dict)
    """Packet ids of QoS 2 publications that were taken and not released."""
    inherited: dict[int, None] = field(default_factory=dict)
    """Those of them that this connection has not named: they do not count against it [MQTT-3.3.4-7]."""
    aliases: dict[int, str] = field(default_factory=dict)
    grades: dict[str, Grade | None] = field(default_factory=dict)
    """By topic, where no content decides; void when a subscription changes."""
    picky: int = 0
    """Subscriptions that look at the content."""
    giving: deque[tuple[Subscription, deque[str]]] = field(default_factory=deque)
    """Topics whose retained message is still to be handed over, by subscription."""
    no_local: int = 0
    """Subscriptions that do not want the client's own publications."""
    shared: int = 0
    """Subscriptions that are shared."""
    wishes: dict[Filter, dict[str, Subscription]] = field(default_factory=dict)
    """Subscriptions that are not shared, by what they ask for, and an index of that."""
    index: FilterIndex = field(default_factory=FilterIndex)
    topics: dict[str, list[Filter]] = field(default_factory=dict)
    """What the index says of a topic; void when a subscription changes."""
    dropped: int = 0
    past: Past | None = None
    """While history is handed over, and for a while after it (`recall`)."""

    @property
    def durable(self) -> bool:
        """Whether the session outlives its connection, and so this process."""
        return self.expiry_s > 0

    def stores(self, parcel: Parcel | None) -> bool:
        """Whether a delivery stands on disk."""
        return self.durable or (parcel is not None and parcel.share is not None and parcel.share.stored)

    def row(self) -> SessionRow:
        return SessionRow(
            self.user,
            self.version,
            self.expiry_s,
            self.away_since,
            self.will,
            self.sent,
            self.quota,
            self.connected_at,
            self.misses,
            self.came_from,
            self.hand_over,
            self.places,
            self.owner_away,
            "" if self.given is None else "whole" if self.given.whole else "part",
        )

    def enter(self, subscription: Subscription) -> None:
        """Add a subscription, or put it in the place of one of the same text."""
        before = self.subscriptions.get(subscription.text)
        if before is not None:
            self.leave(before)
        self.subscriptions[subscription.text] = subscription
        self._options_changed()
        self.no_local += subscription.no_local
        if subscription.group:
            self.shared += 1
            return
        filter = subscription.filter
        self.picky += filter.where is not None
        if filter not in self.wishes:
            self.wishes[filter] = {}
            self.index.add(filter)
        self.wishes[filter][subscription.text] = subscription

    def leave(self, subscription: Subscription) -> None:
        """Take a subscription away."""
        del self.subscriptions[subscription.text]
        self._options_changed()
        self.no_local -= subscription.no_local
        if subscription.group:
            self.shared -= 1
            return
        filter = subscription.filter
        self.picky -= filter.where is not None
        del self.wishes[filter][subscription.text]
        if not self.wishes[filter]:
            del self.wishes[filter]
            self.index.remove(filter)

    def _options_changed(self) -> None:
        """What was made of the subscriptions is void."""
        self.grades.clear()
        self.topics.clear()
        if self.past is not None:
            self.past.grades.clear()

    def matching(self, topic: str, attributes: Mapping[str, Value]) -> Iterator[Subscription]:
        """The subscriptions that ask for an event, but for shared ones."""
        filters = self.topics.get(topic)
        if filters is None:
            if len(self.topics) >= TOPICS_MAX:
                self.topics.clear()
            filters = self.topics[topic] = self.index.match(topic)
        for filter in filters:
            if filter.where is None or filter.where.matches(attributes):
                yield from self.wishes[filter].values()
