"""What late subscribers are promised, checked from outside.

A subscription that asks for the past is an *episode*: what came before the marker is history, what came behind it is
live. Whatever happens, history holds only what was asked for, nothing comes twice, and publishers' order holds from the
first event of the past to the last live one. Where the marker says that history is complete from some instant on, every
publication since then that its publisher was told is taken has come, as history or live: that is the seam.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from latecomer.messages.mqtt import V5, Publish
from latecomer.model.event import Event, Value
from latecomer.model.filters import Filter, filter_matches
from latecomer.model.ids import NUMBER_MAX, BrokerId, ClientId, EventId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.checkers import Violation
from latecomer.sim.disk import Disk
from latecomer.sim.mqtt_checkers import token_of
from latecomer.sim.mqtt_clients import MqttClient, Publication, Wish
from latecomer.sim.mqtt_pipes import Pipe
from latecomer.sim.sides import Observer
from latecomer.sim.world import World

END = "$history/end"
SECOND_US = 1_000_000
NOT_YET = NUMBER_MAX


@dataclass(slots=True, frozen=True)
class Stretch:
    """Which part of the past is asked for."""

    since_us: Instant = 0
    ago_us: int = 0
    """Instead: so long before the broker hears of it, in whole seconds."""
    until_us: Instant = 0
    last: int = 0

    def options(self) -> tuple[tuple[str, str], ...]:
        """As clients write it."""
        since = f"-{self.ago_us // SECOND_US}s" if self.ago_us else _seconds(self.since_us)
        written = {"since": since if self.ago_us or self.since_us or not self.last else ""}
        written["until"] = _seconds(self.until_us) if self.until_us else ""
        written["last"] = str(self.last) if self.last else ""
        return tuple((name, text) for name, text in written.items() if text)


def _seconds(at_us: Instant) -> str:
    return f"{at_us // SECOND_US}.{at_us % SECOND_US:06}"


@dataclass(slots=True)
class PastWish(Wish):
    """A subscription that asks for the past as well."""

    stretch: Stretch | None = None
    """None: it does not."""


class Marker(msgspec.Struct, frozen=True):
    """The end of history, as clients are told."""

    filter: str
    events: int
    complete: bool
    from_: str = msgspec.field(name="from")
    stores: tuple[str, ...]
    hops: int
    problem: str

    @property
    def from_us(self) -> Instant:
        return instant(self.from_)


def instant(text: str) -> Instant:
    """Microseconds since 1970; empty: the beginning of time."""
    at = datetime.fromisoformat(text or "1970-01-01T00:00:00Z")
    return int(at.timestamp()) * SECOND_US + at.microsecond


class Arrival(NamedTuple):
    """A message that reached a client."""

    token: str
    counts: bool
    """It is not a repetition that says so."""
    event: str
    """As the message says, if it is of the past and the client reads properties."""


@dataclass(slots=True)
class Episode:
    """A subscription, from the first time it was asked for to the end of it or of the session."""

    client: MqttClient
    wish: PastWish
    first_asked: Instant
    pipe: Pipe | None
    asks: int = 0
    again: int = -1
    """Before which arrival it was last asked for again: then history begins again, whatever came before."""
    arrivals: list[Arrival] = field(default_factory=list)
    marker: Marker | None = None
    marked_at: Instant = 0
    marker_index: int = -1
    """Before which arrival it came."""
    markers: int = 0
    quiet_at: Instant = -1
    """When the network was last quiet before: what had been published then is not under way any more."""
    settled_at: Instant | None = None
    """Since when the whole network knows."""
    over: bool = False
    judged: int = -1
    """So many arrivals were found to be in order, and none of them too often. What becomes known later can only excuse
    more, so they need not be looked at again."""

    def history(self) -> Sequence[Arrival]:
        return self.arrivals if self.marker_index < 0 else self.arrivals[: self.marker_index]

    def lossless(self) -> bool:
        """Whether what is promised comes whatever happens to the connection, or nothing happened to it."""
        return self.wish.qos > 0 or (self.asks == 1 and self.undisturbed())

    def undisturbed(self) -> bool:
        """Whether it is still the connection over which it was asked."""
        return self.client.pipe is self.pipe and self.pipe is not None and not self.pipe.cut


@dataclass(slots=True)
class HistoryLedger(Observer):
    """Witness of the clients and observer of the world."""

    world: World
    violations: list[Violation] = field(default_factory=list)
    resent: Counter[str] = field(default_factory=Counter)
    """How often a publication was sent again."""
    overtaken: dict[str, int] = field(default_factory=dict)
    """Publications that the broker refused at first, and up to which number others may have been taken before them."""
    publications: dict[str, Publication] = field(default_factory=dict)
    sent_at: dict[str, Instant] = field(default_factory=dict)
    accepted_at: dict[str, Instant] = field(default_factory=dict)
    lost: dict[str, None] = field(default_factory=dict)
    """Publications that were on a disk that was lost."""
    burnt: dict[str, None] = field(default_factory=dict)
    """Events that nobody need have after a disk was lost: it kept them for others, or they had QoS 0."""
    disks_from: dict[BrokerId, Instant] = field(default_factory=dict)
    """When brokers began with an empty disk, or joined the others; `NOT_YET`: they lost it and are dead; + 1: alone."""
    drops: dict[tuple[ClientId, str], Instant] = field(default_factory=dict)
    episodes: dict[tuple[ClientId, str], list[Episode]] = field(default_factory=dict)
    events: dict[str, dict[EventId, Event]] = field(default_factory=dict)
    """By token: what stores have, or had."""
    stored: dict[str, Event] = field(default_factory=dict)
    """The same by the name of the event."""
    tokens: dict[str, str] = field(default_factory=dict)
    """The token of each of them."""
    sources: dict[str, tuple[ClientId, str]] = field(default_factory=dict)
    """The publisher and topic of each event."""
    travellers: Counter[ClientId] = field(default_factory=Counter)
    """Clients that change brokers, and how often each was given a new session because its own could not be reached.
    What waited in that one comes late, in no order, and beside what the client asks for again (hand-over.md)."""
    quiet_at: Instant = -1
    crashed_at: Instant = -1
    """When a broker last did."""
    deliveries: int = 0
    excused: int = 0
    dropped: int = 0
    complete: int = 0
    """Histories that came with the word that they are."""
    incomplete: int = 0
    replayed: int = 0
    _matches: dict[Filter, dict[str, bool]] = field(default_factory=dict)
    _learnt: dict[EventId, None] = field(default_factory=dict)
    _by_client: dict[ClientId, list[Episode]] = field(default_factory=dict)
    """All episodes of each client."""

    def violate(self, promise: str, detail: str) -> None:
        self.violations.append(Violation(self.world.now, promise, detail))

    @property
    def accepted_count(self) -> int:
        return len(self.accepted_at)

    def _current(self, client: ClientId) -> Iterator[Episode]:
        for (name, _), episodes in self.episodes.items():
            if name == client and not episodes[-1].over:
                yield episodes[-1]

    # -- witness -----------------------------------------------------------------------------------------------------

    def asked(self, client: MqttClient, wish: Wish) -> None:
        assert isinstance(wish, PastWish)
        episodes = self.episodes.setdefault((client.id, wish.text), [])
        if not episodes or episodes[-1].over:
            episode = Episode(client, wish, self.world.now, client.pipe, quiet_at=self.quiet_at)
            episodes.append(episode)
            self._by_client.setdefault(client.id, []).append(episode)
        else:
            episodes[-1].again = len(episodes[-1].arrivals)
        episodes[-1].asks += 1

    def withdrew(self, client: MqttClient, wish: Wish) -> None:
        for episode in self.episodes.get((client.id, wish.text), ()):
            episode.over = True

    def welcomed(self, client: MqttClient, pipe: Pipe, present: bool) -> None:
        if not present:
            for episode in self._current(client.id):
                episode.over = True
                if client.id in self.travellers:
                    self.travellers[client.id] += 1

    def published(self, client: MqttClient, publication: Publication) -> None:
        self.publications[publication.token] = publication
        self.sent_at[publication.token] = self.world.now

    def accepted(self, client: MqttClient, publication: Publication) -> None:
        self.accepted_at[publication.token] = self.world.now

    def received(self, client: MqttClient, packet: Publish) -> None:
        self.deliveries += 1
        if packet.topic == END:
            self._marked(client, packet)
            return
        token = token_of(packet)
        publication = self.publications.get(token)
        if publication is None or publication.topic != packet.topic:
            self.violate("forged", f"{client.id} got {token} on {packet.topic!r}, which nobody published")
            return
        ever = self._by_client.get(client.id, ())
        asked = [episode for episode in ever if self.matches(episode.wish.filter, publication)]
        if not asked:
            self.violate("unasked", f"{client.id} got {token} on {packet.topic!r} and never asked for it")
        user = packet.properties.user
        event = dict(user).get("event", "") if user else ""
        arrival = Arrival(token, packet.qos == 2 or not packet.dup, event)
        for episode in asked:
            if not episode.over:
                episode.arrivals.append(arrival)

    def _marked(self, client: MqttClient, packet: Publish) -> None:
        marker = msgspec.json.decode(packet.payload, type=Marker)
        episodes = self.episodes.get((client.id, marker.filter))
        if not episodes or all(episode.wish.stretch is None for episode in episodes):
            self.violate("marker", f"{client.id} was told of the end of {marker.filter!r}, which it did not ask for")
            return
        episode = episodes[-1]
        if episode.over or (packet.dup and packet.qos == 1 and episode.markers):
            return
        episode.markers += 1
        if episode.markers > episode.asks:
            self.violate("marker", f"{client.id} was told {episode.markers} times of the end of {marker.filter!r}")
        episode.marker, episode.marked_at, episode.marker_index = marker, self.world.now, len(episode.arrivals)

    # -- observer ----------------------------------------------------------------------------------------------------

    def noted(self, record: Record) -> None:
        if record.kind is Kind.DROPPED:
            self.dropped += 1
            self.drops[record.client, record.topic] = self.world.now
        elif record.kind is Kind.REJECTED:
            self.violate("honesty", f"{record.broker} rejected {record.peer}: {record.detail}")
        elif record.kind is Kind.STARTED:
            if self.disks_from.setdefault(record.broker, NOT_YET + 1 if self.world.now else 0) == NOT_YET:
                self.disks_from[record.broker] = self.world.now
        elif record.kind is Kind.LINKED and self.disks_from[record.broker] > NOT_YET:
            self.disks_from[record.broker] = self.world.now
        elif record.kind is Kind.PUBLISHED:
            self.sources[record.event] = (record.client, record.topic)

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None:
        self.crashed_at = self.world.now
        if keeps_disk:
            return
        self.learn(disk)
        self.disks_from[broker] = NOT_YET
        self.burnt |= {str(event.id): None for event in disk.store.events.values() if not event.reliable}
        for event in disk.tables.get("outbox", {}).get("", {}).values():
            assert isinstance(event, Event)
            self.lost[_token(event)] = None
            self.burnt[str(event.id)] = None

    def learn(self, disk: Disk) -> None:
        """Remember what a store has, before it lets go of it."""
        for event in disk.store.events.values():
            if event.id in self._learnt:
                continue
            self._learnt[event.id] = None
            token, name = _token(event), str(event.id)
            self.events.setdefault(token, {})[event.id] = event
            self.stored[name] = event
            self.tokens[name] = token

    # -- verdict -----------------------------------------------------------------------------------------------------

    def matches(self, filter: Filter, publication: Publication) -> bool:
        tokens = self._matches.get(filter)
        if tokens is None:
            tokens = self._matches[filter] = {}
        known = tokens.get(publication.token)
        if known is None:
            attributes: dict[str, Value] = {"t": publication.token, "v": publication.value}
            known = tokens[publication.token] = filter_matches(filter, publication.topic, attributes)
        return known

    def published_since(self, at: Instant, filter: Filter) -> int:
        """How many publications came, or may have come, later than this."""
        later = (t for t, sent_at in self.sent_at.items() if self.accepted_at.get(t, sent_at) >= at)
        return sum(self.matches(filter, self.publications[token]) for token in later)

    def judge(self) -> None:
        """The network is quiet: whatever was promised must have come."""
        for node in self.world.nodes.values():
            self.learn(node.disk)
        for episodes in self.episodes.values():
            for episode in episodes:
                self._judge(episode)
        self.quiet_at = self.world.now
        for episodes in self.episodes.values():
            last = episodes[-1]
            if not last.over and last.wish.granted and last.settled_at is None:
                last.settled_at = self.world.now

    def _judge(self, episode: Episode) -> None:
        if episode.judged != len(episode.arrivals):
            before = len(self.violations)
            self._check_repetition(episode)
            self._check_order(episode)
            if len(self.violations) == before:
                episode.judged = len(episode.arrivals)
        if episode.over:
            return
        if episode.wish.stretch is None:
            if episode.settled_at is not None:
                self._check_nothing_missing(episode, lambda token: False)
            return
        if episode.marker is None:
            if episode.lossless():
                self.violate("end", f"{_named(episode)} has not ended")
            return
        if episode.asks == 1:
            self._check_history(episode, episode.wish.stretch, episode.marker)
        if episode.marker.complete:
            self._check_nothing_missing(episode, self._belongs(episode, episode.wish.stretch, episode.marker))

    def _check_repetition(self, episode: Episode) -> None:
        counts = Counter(arrival.token for arrival in episode.arrivals if arrival.counts)
        for token, count in counts.items():
            again = self.resent.get(token, 0)
            if self.publications[token].qos == 2:  # a store may know of it when its origin lost its disk
                lives = {(id.origin, id.epoch) for id in self.events.get(token, ())}
                again = min(again, max(0, len(lives) - 1))
            if count > (episode.asks + self.travellers.get(episode.client.id, 0)) * (1 + again):
                self.violate("twice", f"{_named(episode)}: {token} came {count} times")

    def _check_order(self, episode: Episode) -> None:
        if self.travellers.get(episode.client.id):
            return
        if episode.again < 0:
            self._check_order_of(episode, episode.arrivals)
        else:
            middle = max(episode.again, episode.marker_index)
            self._check_order_of(episode, episode.arrivals[: episode.again])
            self._check_order_of(episode, episode.arrivals[middle:], episode.arrivals[:middle])

    def _check_order_of(self, episode: Episode, arrivals: Sequence[Arrival], before: Sequence[Arrival] = ()) -> None:
        """Each message counts when it comes first: what was not acknowledged comes again [MQTT-4.4.0-1]."""
        known, got = {arrival.token for arrival in before}, set[str]()
        newest: dict[tuple[ClientId, str, int], int] = {}
        for arrival in arrivals:
            if arrival.token in got or (arrival.token in known and not arrival.counts):
                continue
            got.add(arrival.token)
            publication = self.publications[arrival.token]
            source = (publication.publisher, publication.topic, publication.qos)
            resent = publication.qos == 1 and self.resent.get(arrival.token)
            first = max(publication.seq, self.overtaken.get(arrival.token, 0))
            if newest.get(source, 0) > first and not resent:
                self.violate("order", f"{_named(episode)}: {arrival.token} came after {newest[source]}")
            newest[source] = max(publication.seq, newest.get(source, 0))

    def _check_history(self, episode: Episode, stretch: Stretch, marker: Marker) -> None:
        """What came before the marker is what was asked for, and says of itself what is true."""
        since = max(0, episode.first_asked - stretch.ago_us) if stretch.ago_us else stretch.since_us
        until = stretch.until_us
        history = {arrival.token: arrival for arrival in episode.history() if self._replayed(episode, arrival)}
        for token, arrival in history.items():
            if episode.client.version == V5 and not self._is_named_right(arrival):
                self.violate("history", f"{_named(episode)}: {token} says it is {arrival.event!r}")
            known = self.events.get(token)
            if known is None:
                continue  # it was live, and stood before something that a store had
            asked = (since <= e.published_us and (not until or e.published_us <= until) for e in known.values())
            settled = self.accepted_at.get(token, self.sent_at[token]) <= episode.quiet_at
            if not any(asked) and settled:  # else it may have been live, and stood before something in history
                self.violate("range", f"{_named(episode)}: {token} came as history, which was not asked for")
        self._check_count(episode, marker, history)
        self.replayed += len(history)
        self.complete += marker.complete
        self.incomplete += not marker.complete

    def _is_named_right(self, arrival: Arrival) -> bool:
        """Whether a message of the past is the event that it says it is. A publication that was sent again is several
        events, and one that came live before the end of history may be in no store."""
        token = self.tokens.get(arrival.event)
        if token is not None:
            return token == arrival.token
        publication = self.publications[arrival.token]
        return self.sources.get(arrival.event) == (publication.publisher, publication.topic)

    def _replayed(self, episode: Episode, arrival: Arrival) -> bool:
        """Whether it came as history; an older client cannot tell."""
        return bool(arrival.event) if episode.client.version == V5 else arrival.token in self.events

    def _check_count(self, episode: Episode, marker: Marker, history: dict[str, Arrival]) -> None:
        """The marker says how many came."""
        if episode.client.version != V5 or not episode.lossless() or any(map(self.resent.get, history)):
            return  # some may have been lost, or be two events that look the same
        client, since = episode.client.id, episode.first_asked
        if any(name == client and at >= since for (name, _), at in self.drops.items()):
            return
        lost = 0 if episode.undisturbed() else sum(p.qos == 0 for p in self.publications.values())
        if not len(history) <= marker.events <= len(history) + lost:
            self.violate("marker", f"{_named(episode)}: {len(history)} came, the marker says {marker.events}")

    def _belongs(self, episode: Episode, stretch: Stretch, marker: Marker) -> Callable[[str], bool]:
        """Whether a publication is surely part of what was asked for and is said to be complete."""
        since = max(0, episode.marked_at - stretch.ago_us) if stretch.ago_us else stretch.since_us
        since = max(since, marker.from_us)
        if stretch.last:
            since = max(since, self._first_of_last(episode, stretch, marker))

        def belongs(token: str) -> bool:
            if self.sent_at[token] < since:
                return False
            known = self.events.get(token, {}).values()
            return not stretch.until_us or any(event.published_us <= stretch.until_us for event in known)

        return belongs

    def _first_of_last(self, episode: Episode, stretch: Stretch, marker: Marker) -> Instant:
        """Behind which everything belongs, where the last so many were asked for. Which these are is seen only when a
        store is asked; and who cannot tell them from what was live, cannot tell where they began."""
        disturbed = marker.events > stretch.last or episode.client.pipe is not episode.pipe
        if disturbed or episode.client.version != V5:
            return episode.marked_at
        if marker.events < stretch.last and not self._mortal(episode.wish.filter):
            return 0
        replayed = [self.stored.get(arrival.event) for arrival in episode.history() if arrival.event]
        return min((event.published_us for event in replayed if event is not None), default=episode.marked_at) + 1

    def _mortal(self, filter: Filter) -> bool:
        """Whether some of what matches expires: it may be among the last and not live to be handed over."""
        mortal = (publication for publication in self.publications.values() if publication.expiry_s is not None)
        return any(self.matches(filter, publication) for publication in mortal)

    def _check_nothing_missing(self, episode: Episode, belongs: Callable[[str], bool]) -> None:
        """Everything that belongs to the history, and whatever came when the whole network knew, must have come."""
        if not episode.lossless():
            return
        got = {arrival.token for arrival in episode.arrivals}
        settled = episode.settled_at
        for token, publication in self.publications.items():
            if token in got or publication.qos == 0 or publication.expiry_s is not None:
                continue
            if token not in self.accepted_at or not self.matches(episode.wish.filter, publication):
                continue
            if not belongs(token) and (settled is None or self.sent_at[token] < settled):
                continue
            if self.excuses(publication, episode.client.id):
                self.excused += 1
                continue
            self.violate("lost", f"{_named(episode)}: {token} on {publication.topic!r} never came")

    def excuses(self, publication: Publication, client: ClientId) -> bool:
        """Whether a publication that was taken need not come: a disk was lost, or the loss was said aloud."""
        token = publication.token
        disks_from = min(self.disks_from.get(id, 0) for id in self.world.nodes)
        return self.accepted_at[token] < disks_from or token in self.lost or self._was_dropped(client, publication)

    def _was_dropped(self, client: ClientId, publication: Publication) -> bool:
        since = self.sent_at[publication.token]
        topic = publication.topic
        return any(self.drops.get(key, -1) >= since for key in (("", topic), (client, topic), (client, "")))


def _token(event: Event) -> str:
    return token_of(Publish(event.topic, event.payload))


def _named(episode: Episode) -> str:
    return f"{episode.client.id}'s {episode.wish.text!r} (QoS {episode.wish.qos}, {episode.wish.stretch})"
