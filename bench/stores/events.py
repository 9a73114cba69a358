"""The events of the bench: a number is the same event in every store. `load.c` makes them too, and checks them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from latecomer.model.event import Event
from latecomer.model.ids import EventId

PAYLOAD_BYTES = 256
TOPICS = 100
STEP_US = 1_000
"""A thousand events are published per second of the history; how fast they are written is another matter."""
MINUTE = 60_000_000 // STEP_US
"""Events in a minute of history, of all topics."""
BATCH = 1_000
ORIGIN = "past"


def topic_of(number: int) -> str:
    return f"bench/{number % TOPICS // 10}/{number % 10}"


def value_of(number: int) -> int:
    """0 to 99, in no order."""
    return ((number * 2654435761 >> 16) & 0xFFFFFFFF) % 100


def payload_of(number: int) -> bytes:
    head = f'{{"n":{number:10d},"value":{value_of(number):2d},"pad":"'
    return f'{head:x<{PAYLOAD_BYTES - 2}}"}}'.encode()


@dataclass(frozen=True, slots=True)
class Past:
    """History that ends at `size` events, the newest a moment ago."""

    start_us: int

    def time_us(self, number: int) -> int:
        return self.start_us + number * STEP_US

    def event(self, number: int) -> Event:
        return Event(
            EventId(ORIGIN, 1, number + 1), topic_of(number), "sensor", self.time_us(number), True,
            payload=payload_of(number),
        )  # fmt: skip

    def batches(self, first: int, end: int, size: int = BATCH) -> Iterator[list[Event]]:
        for start in range(first, end, size):
            yield [self.event(number) for number in range(start, min(start + size, end))]


@dataclass(frozen=True, slots=True)
class Ask:
    """Stored events that somebody wants: `count` of them from number `first` on, in a stretch of `span` events."""

    topic: str
    """With MQTT's wildcards."""
    first: int
    span: int
    count: int
    last: bool = False
    """Asked for as the last `count`, not by time."""
    where: str = ""

    def mqtt(self, past: Past) -> str:
        """A line for `load query`."""
        if self.last:
            options = [f"last={self.count}"]
        else:
            since, until = past.time_us(self.first), past.time_us(self.first + self.span - 1)
            options = [f"since={since / 1e6:.6f}", f"until={until / 1e6:.6f}"]
        if self.where:
            options.append(f"filter={self.where}")
        return "\t".join([self.topic, str(self.count), *options])

    def nats(self, start_time: str) -> str:
        """The same for JetStream, which has neither an end nor the last so many: the number is what ends it, and the
        sequence at which the last hundred begin is given to it for free. `start_time`: when JetStream got `first`."""
        subject = self.topic.replace("/", ".").replace("+", "*").replace("#", ">")
        if self.last:
            options = ['"deliver_policy":"by_start_sequence"', f'"opt_start_seq":{self.first + 1}']
        else:
            options = ['"deliver_policy":"by_start_time"', f'"opt_start_time":"{start_time}"']
        return "\t".join([subject, str(self.count), *options])


VALUE_MIN = 90


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of question: what it asks of a store of some size, each time of other topics."""

    name: str
    title: str
    where_in_store: float = 0.0
    """0: the beginning, 1: the end."""
    topics: int = 1
    """Topics that its filter matches."""
    last: int = 0
    content: bool = False

    def ask(self, size: int, turn: int) -> Ask:
        number = turn * 37 % TOPICS
        topic = {1: topic_of(number), 10: f"bench/{number // 10}/+", TOPICS: "bench/#"}[self.topics]
        if self.last:
            span = self.last * TOPICS // self.topics
            return Ask(topic, size - span, span, self.last, last=True)
        first = int((size - MINUTE) * self.where_in_store) // TOPICS * TOPICS
        numbers = range(first, first + MINUTE)
        if not self.content:
            return Ask(topic, first, MINUTE, MINUTE * self.topics // TOPICS)
        row = number // 10
        count = sum(1 for n in numbers if n % TOPICS // 10 == row and value_of(n) >= VALUE_MIN)
        return Ask(topic, first, MINUTE, count, where=f"value >= {VALUE_MIN}")


KINDS = (
    Kind("last", "last 100 of one topic", last=100),
    Kind("oldest", "a minute of one topic (600), oldest", 0.0),
    Kind("middle", "a minute of one topic (600), middle", 0.5),
    Kind("newest", "a minute of one topic (600), newest", 1.0),
    Kind("wildcard", "a minute of ten topics (6,000), middle", 0.5, topics=10),
    Kind("content", "the same where value >= 90 (some 600)", 0.5, topics=10, content=True),
)
