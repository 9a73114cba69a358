"""Retained messages: the last one of each topic, the same at every broker.

A retained publication follows every link of the tree and is kept by every broker it passes. Which of two is the later
one is decided by its *stamp*, the same everywhere: (published_us, origin, sequence number). An origin stamps a message
later than the one it replaces, whatever its clock says. So brokers agree in the end, in whatever order they heard.

Brokers that meet compare digests and, if they differ, tell each other everything they have; what was news is told on.
A deletion is a message without payload, and is remembered like one: otherwise a broker that was away would bring the
dead back. A message that expires becomes such a deletion, under its own stamp: what it replaced stays dead as well.

Neighbours that stay linked do not compare again. So when a tree is lost, whoever carried a message on and heard
nothing of it tells what it keeps of that topic. (The origin sends again what is not done, but it may have restarted
meanwhile and had no room to keep it.)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import heapify, heappop, heappush

import msgspec

from latecomer.core.clients import Disk
from latecomer.core.effects import Drop, Put
from latecomer.core.orders import Orders
from latecomer.messages.link import Retained, RetainedSummary, SessionFrame
from latecomer.model.event import Event
from latecomer.model.ids import NUMBER_MAX, BrokerId, Instant
from latecomer.model.record import Kind
from latecomer.model.topics import topic_matches

DELETIONS_MAX = 65_536
"""Deletions remembered; beyond, the oldest are forgotten."""
SUMMARIES_MAX = 2
"""In one session: the first word of either end, and the answer to ours."""
STAMP_MAX = NUMBER_MAX // 2
BATCH_BYTES = 262_144
"""Of events in one frame."""

Stamp = tuple[int, str, int, int]


def stamp_of(event: Event) -> Stamp:
    return (event.published_us, event.id.origin, event.id.epoch, event.id.seq)


def _digest(event: Event) -> int:
    text = f"{event.topic}\0{event.published_us}\0{event.id}"
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _weight(event: Event) -> int:
    """About how long it is in a frame."""
    size = 64 + len(event.payload) + len(event.topic) + len(event.publisher)
    extras = event.extras
    if extras is not None:
        size += sum(len(name) + len(value) + 4 for name, value in extras.user)
        size += len(extras.content_type or "") + len(extras.response_topic or "") + len(extras.correlation_data or b"")
    return size


@dataclass(slots=True)
class _Node:
    children: dict[str, _Node] = field(default_factory=dict)
    topic: str = ""
    """The topic that ends here, if one is kept."""


@dataclass(slots=True)
class RetainedMessages:
    """The retained messages of the network, as far as this broker has heard."""

    orders: Orders
    send: Callable[[BrokerId, SessionFrame], None]
    neighbours: Callable[[], list[BrokerId]]
    reject: Callable[[BrokerId, str], None]
    messages_max: int
    """Beyond the limits of what clients may set, because publishers at several brokers may reach those at once."""
    bytes_max: int
    events: dict[str, Event] = field(default_factory=dict)
    deleted: OrderedDict[str, Event] = field(default_factory=OrderedDict)
    size: int = 0
    """Bytes of payloads and topics."""
    digest: int = 0
    gone: Callable[[str], None] = lambda topic: None
    """Called when the message of a topic is no longer kept, or about to be replaced."""
    expiring: list[tuple[Instant, str]] = field(default_factory=list)
    """A heap of when which topic's message expires, or would have if it were still there."""
    passing: dict[tuple[BrokerId, int], str] = field(default_factory=dict)
    """Topics of the messages that this broker carries on in the present tree, by origin and number."""
    _summaries: dict[BrokerId, int] = field(default_factory=dict)
    """How many a neighbour has sent in this session."""
    _root: _Node = field(default_factory=_Node)

    def recover(self, disk: Disk) -> None:
        for event in disk.get("retained", {}).get("", {}).values():
            assert isinstance(event, Event)
            self._enter(event)

    def stamp_after(self, topic: str, now: Instant) -> Instant:
        """When a message published now counts as published: after what it replaces."""
        before = self.events.get(topic) or self.deleted.get(topic)
        return now if before is None else max(now, before.published_us + 1)

    def keep(self, event: Event) -> bool:
        """Take a retained publication; whether it was the latest of its topic."""
        before = self.events.get(event.topic) or self.deleted.get(event.topic)
        if before is not None and stamp_of(before) >= stamp_of(event):
            return False
        if not self._has_room(event):
            return False
        if before is not None:
            self._leave(before)
        self._enter(event)
        self.orders.writes.append(Put("retained", "", event.topic, event))
        self._forget_deletions()
        return True

    def _has_room(self, event: Event) -> bool:
        """Whether a message that others retain can be kept here as well. A stamp from the end of time could not be
        followed by another."""
        problem = ""
        if event.published_us > STAMP_MAX:
            problem = "retained, and from the end of time"
        elif event.payload and (
            (len(self.events) >= self.messages_max and event.topic not in self.events)
            or self.size + len(event.payload) + len(event.topic) > self.bytes_max
        ):
            problem = "retained, and there are too many"
        if problem:
            self.orders.note(Kind.DROPPED, topic=event.topic, event=str(event.id), detail=problem)
        return not problem

    def expire(self, now: Instant) -> None:
        """Let go of what has expired [MQTT-3.3.2-5]; the other brokers do the same by themselves."""
        while self.expiring and self.expiring[0][0] <= now:
            due, topic = heappop(self.expiring)
            event = self.events.get(topic)
            if event is not None and event.expires_us == due:
                deletion = msgspec.structs.replace(event, payload=b"", extras=None, expires_us=0)
                self._leave(event)
                self._enter(deletion)
                self.orders.writes.append(Put("retained", "", topic, deletion))
        self._forget_deletions()

    def topics(self, pattern: str) -> list[str]:
        """Topics that something is retained for, and that match a topic filter."""
        if "+" in pattern or "#" in pattern:
            return self._topics(pattern)
        return [pattern] if pattern in self.events else []

    def get(self, topic: str, now: Instant) -> Event | None:
        """What is retained for a topic."""
        self.expire(now)
        return self.events.get(topic)

    # -- between brokers ---------------------------------------------------------------------------------------------

    def greet(self, peer: BrokerId) -> None:
        """A link session began. Who has nothing says nothing."""
        self._summaries[peer] = 0
        if self.digest:
            self.send(peer, RetainedSummary(self.digest))

    def on_summary(self, peer: BrokerId, frame: RetainedSummary) -> None:
        count = self._summaries[peer] = self._summaries.get(peer, 0) + 1
        if count > SUMMARIES_MAX:
            self.reject(peer, f"it asked for all retained messages {count} times")
            return
        if frame.digest != self.digest:
            if not frame.answer:
                self.send(peer, RetainedSummary(self.digest, answer=True))
            self._tell(peer, [*self.events.values(), *self.deleted.values()])

    def on_retained(self, peer: BrokerId, frame: Retained) -> None:
        now = self.orders.now
        news = []
        for told, left_us in zip(frame.events, frame.left_us, strict=False):
            event = with_expiry(told, now + left_us if left_us else 0)
            if event.retain and self.keep(event):
                news.append(event)
        for other in self.neighbours():
            if other != peer and news:
                self._tell(other, news)

    def tell(self, peers: list[BrokerId], event: Event) -> None:
        """Tell neighbours of one message."""
        for peer in peers:
            self._tell(peer, [event])

    def tell_passing(self, transit: Mapping[BrokerId, Mapping[int, Sequence[BrokerId]]]) -> None:
        """The tree is lost, and with it what was on its way in it (`Events.transit`): tell those who have not reported
        a message what is kept of its topic now."""
        lacking: dict[BrokerId, dict[str, None]] = {}
        for (origin, seq), topic in self.passing.items():
            for peer in transit.get(origin, {}).get(seq, ())[1:]:
                lacking.setdefault(peer, {})[topic] = None
        self.passing.clear()
        for peer, topics in lacking.items():
            kept = (self.events.get(topic) or self.deleted.get(topic) for topic in topics)
            self._tell(peer, [event for event in kept if event is not None])

    def _tell(self, peer: BrokerId, events: list[Event]) -> None:
        now = self.orders.now
        batch: list[Event] = []
        size = 0
        for event in events:
            if event.expires_us and event.expires_us <= now:
                continue
            batch.append(event)
            size += _weight(event)
            if size > BATCH_BYTES:
                self._send_batch(peer, batch)
                batch, size = [], 0
        if batch:
            self._send_batch(peer, batch)

    def _send_batch(self, peer: BrokerId, batch: list[Event]) -> None:
        now = self.orders.now
        left = tuple(max(1, event.expires_us - now) if event.expires_us else 0 for event in batch)
        self.send(peer, Retained(tuple(batch), left))

    # -- the table ---------------------------------------------------------------------------------------------------

    def _enter(self, event: Event) -> None:
        self.digest ^= _digest(event)
        if not event.payload:
            self.deleted[event.topic] = event
            return
        self.events[event.topic] = event
        self.size += len(event.payload) + len(event.topic)
        if event.expires_us:
            heappush(self.expiring, (event.expires_us, event.topic))
            if len(self.expiring) > 64 + 2 * len(self.events):  # mostly of messages that were replaced
                self.expiring = [(kept.expires_us, topic) for topic, kept in self.events.items() if kept.expires_us]
                heapify(self.expiring)
        node = self._root
        for level in event.topic.split("/"):
            below = node.children.get(level)
            if below is None:
                below = node.children[level] = _Node()
            node = below
        node.topic = event.topic

    def _leave(self, event: Event) -> None:
        self.digest ^= _digest(event)
        if self.deleted.pop(event.topic, None) is not None:
            return
        self.gone(event.topic)
        del self.events[event.topic]
        self.size -= len(event.payload) + len(event.topic)
        levels = event.topic.split("/")
        path = [self._root]
        for level in levels:
            path.append(path[-1].children[level])
        path[-1].topic = ""
        for above, level in zip(reversed(path[:-1]), reversed(levels), strict=True):
            below = above.children[level]
            if below.children or below.topic:
                break
            del above.children[level]

    def _forget_deletions(self) -> None:
        while len(self.deleted) > DELETIONS_MAX:
            oldest = next(iter(self.deleted.values()))
            self._leave(oldest)
            self.orders.writes.append(Drop("retained", "", oldest.topic))

    def _topics(self, pattern: str) -> list[str]:
        """Kept topics that match a filter with wildcards, in no promised order. The walk is iterative."""
        found: list[str] = []
        nodes = [self._root]
        levels = pattern.split("/")
        for depth, level in enumerate(levels):
            if level == "#":
                stack = list(nodes)
                while stack:
                    node = stack.pop()
                    if node.topic and topic_matches(pattern, node.topic):
                        found.append(node.topic)
                    stack.extend(
                        child for name, child in node.children.items() if depth or node.topic or name[:1] != "$"
                    )
                return found
            if level == "+":
                nodes = [child for node in nodes for name, child in node.children.items() if depth or name[:1] != "$"]
            else:
                nodes = [node.children[level] for node in nodes if level in node.children]
        return [node.topic for node in nodes if node.topic]


def with_expiry(event: Event, expires_us: Instant) -> Event:
    """The same event on another clock."""
    expires_us = min(expires_us, NUMBER_MAX)
    if event.expires_us == expires_us:
        return event
    return Event(
        event.id,
        event.topic,
        event.publisher,
        event.published_us,
        event.reliable,
        event.attributes,
        event.payload,
        event.qos,
        event.retain,
        expires_us,
        event.extras,
        event.shares,
    )
