"""A broker in the hand whose stores the test plays: it says what history is, and when."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from latecomer.core.attributes import attributes_of
from latecomer.core.effects import Effect
from latecomer.core.inputs import Input, Started
from latecomer.core.seen import Seen
from latecomer.core.session.state import HISTORY_END
from latecomer.messages.mqtt import Publish
from latecomer.model.event import Event
from latecomer.model.history import Outcome, Query
from latecomer.model.ids import BrokerId, ClientId, EventId
from tests.unit.mqtt_hand import START_US, MqttHand

COMPLETE = Outcome(("s1",), 2, 7, True)


def past(seq: int, topic: str = "t", *, origin: str = "o", at_us: int = 0, qos: int = 2, **options: Any) -> Event:
    """An event of another broker; numbered and published in the same order."""
    return Event(
        EventId(origin, 1, seq),
        topic,
        options.pop("publisher", "far"),
        at_us or START_US - 1_000_000 + seq,
        qos > 0,
        {},
        f"{origin}{seq}".encode(),
        qos,
        **options,
    )


@dataclass(eq=False)
class Question:
    """What the stores were asked, and what became of it."""

    hand: RecallHand
    query: Query
    user: str
    client: ClientId
    take: Callable[[Sequence[Event]], None]
    end: Callable[[Outcome], None]
    arrived: Mapping[BrokerId, int]
    """How many events of each origin had come when it was asked: the answer reflects them."""
    needs: Callable[[Event], bool]
    """Which of the events that this broker has had must be in the answer."""
    taken: int = 0
    dealt_with: int = 0
    cancelled: bool = False
    ended: bool = False
    worth: tuple[int, str] = (0, "")
    """What an answer is worth that breaks off."""

    @property
    def idle(self) -> bool:
        """Whether everything that was given has been dealt with."""
        return self.taken == self.dealt_with

    def give(self, *events: Event) -> list[Effect]:
        assert not self.cancelled
        assert not self.ended
        self.taken += 1
        return self.hand.do(lambda: self.take(events))

    def finish(self, outcome: Outcome = COMPLETE) -> list[Effect]:
        assert not self.cancelled
        assert not self.ended
        assert self.idle
        self.ended = True
        return self.hand.do(lambda: self.end(outcome))


@dataclass(eq=False)
class Stores:
    """In the place of `Retrieval`."""

    hand: RecallHand
    questions: list[Question] = field(default_factory=list)
    unkept: list[str] = field(default_factory=list)
    """Topics that no store keeps."""
    arrived: dict[BrokerId, int] = field(default_factory=dict)

    def ask(
        self,
        query: Query,
        user: str,
        client: ClientId,
        take: Callable[[Sequence[Event]], None],
        end: Callable[[Outcome], None],
        store: BrokerId = "",
        *,
        needs: Callable[[Event], bool],
    ) -> Question:
        question = Question(self.hand, query, user, client, take, end, dict(self.arrived), needs)
        self.questions.append(question)
        return question

    def seen(self) -> Seen:
        return self.hand.broker.events.seen

    def more(self, question: Question) -> None:
        question.dealt_with += 1

    def worth(self, question: Question) -> tuple[int, str]:
        return question.worth

    def cancel(self, question: Question) -> None:
        assert not question.cancelled
        assert not question.ended
        question.cancelled = True

    def stored(self, topic: str) -> bool:
        return topic not in self.unkept

    def last(self) -> Question:
        return self.questions[-1]


@dataclass(frozen=True)
class Do:
    """Something that happens inside a step."""

    what: Callable[[], None]


class RecallHand(MqttHand):
    def __init__(self, **options: Any) -> None:
        self.stores = Stores(self)
        super().__init__(**options)

    def tell(self, fact: Input) -> list[Effect]:
        if isinstance(fact, Started):
            self.stores.questions.clear()
            recalls = self.broker.sessions.recalls
            recalls.retrieval = recalls.holding.retrieval = self.stores  # type: ignore[assignment]
            self.broker._on_input[Do] = lambda fact: fact.what()
        return super().tell(fact)

    def do(self, what: Callable[[], None]) -> list[Effect]:
        return self.tell(Do(what))  # type: ignore[arg-type]

    def live(self, *events: Event, hops: int = 1) -> list[Effect]:
        """They arrive from the network."""
        effects: list[Effect] = []
        for event in events:
            route = self.broker.routes.of(event.topic)
            clients = route.clients_for(attributes_of(event))
            if event.reliable:
                self.broker.events.seen.take(event)
            effects += self.do(lambda: self.broker.clients.deliver(clients, event, hops))  # noqa: B023
        return effects


def names(packets: Sequence[Publish]) -> list[str]:
    """What came, in short: payloads, and `|` for the marker."""
    return ["|" if packet.topic == HISTORY_END else packet.payload.decode() for packet in packets]


def marker(packets: Sequence[Publish]) -> dict[str, Any]:
    (found,) = [packet for packet in packets if packet.topic == HISTORY_END]
    word = json.loads(found.payload)
    assert isinstance(word, dict)
    return word
