"""Stores that keep the same, in the hand: one is a broker, the others are played by the test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from latecomer.core.class_row import ClassRow
from latecomer.core.effects import Effect
from latecomer.messages.link import (
    Alive,
    Compare,
    Compared,
    Keeping,
    LinkMessage,
    Request,
    Response,
    ResponseEnd,
    StoreAdvertise,
)
from latecomer.model.event import Event
from latecomer.sim.store import SimStore
from tests.unit.hand import frames
from tests.unit.store_hand import CLASS, HOUR, SECOND, StoreHand

BASE = 90 * HOUR


@dataclass
class Other:
    """Another store, played by the test: it lies behind a neighbour, and answers from what it has."""

    hand: StoreHand
    name: str = "e"
    peer: str = "c"
    kept: SimStore = field(default_factory=SimStore)
    compared: list[Compare] = field(default_factory=list)
    asked: list[Request] = field(default_factory=list)
    silent: bool = False

    def has(self, *events: Event) -> Other:
        for event in events:
            self.kept.append(event)
        return self

    def answer(self, effects: list[Effect]) -> list[Effect]:
        """Answer what it is asked, and what follows from the answers."""
        every = todo = self.hand.perform(effects)
        while not self.silent:
            said = [reply for frame in frames(todo, self.peer) for reply in self.reply(frame)]
            if not said:
                break
            todo = self.hand.perform(self.hand.hear(self.peer, *said))
            every = every + todo
        return every

    def reply(self, frame: LinkMessage) -> list[LinkMessage]:
        if isinstance(frame, Compare) and frame.store == self.name:
            self.compared.append(frame)
            slices = self.kept.survey(frame.topics, frame.since_us, frame.until_us, frame.width_us)
            return [Compared("a", self.name, frame.number, slices)]
        if isinstance(frame, Request) and frame.store == self.name:
            self.asked.append(frame)
            page = self.kept.read(frame.query, self.hand.now, 1000, 1 << 20)
            path = frame.path
            some = [Response(frame.id, path, self.name, page.events, (0,) * len(page.events))] if page.events else []
            return [*some, ResponseEnd(frame.id, path, self.name, 2, 0)]
        return []


def word(broker: str = "e", number: int = 1, *topics: str, since: int = 1, filling: bool = False) -> Keeping:
    return Keeping(broker, 1, number, topics or (CLASS,), since, filling)


def words(effects: list[Effect], peer: str) -> list[Keeping]:
    return [frame for frame in frames(effects, peer) if isinstance(frame, Keeping)]


def network(*said: Keeping, **rest: Any) -> StoreHand:
    """d – b – a – c – e, settled; these stores are known."""
    hand = StoreHand("b", "c", **rest)
    hand.line()
    hand.hear("c", *said)
    hand.settled()
    return hand


def held(hand: StoreHand) -> list[str]:
    return [str(event.id) for event in hand.disk.store.events.values()]


def row(hand: StoreHand, name: str = CLASS) -> ClassRow:
    return hand.broker.history.store.rows[name]


def advertised(effects: list[Effect], peer: str = "b") -> bool:
    return any(isinstance(frame, StoreAdvertise) for frame in frames(effects, peer))


def alive(hand: StoreHand, duration_us: int) -> list[Effect]:
    """Time passes, and the neighbours are there."""
    effects: list[Effect] = []
    for _ in range(duration_us // SECOND):
        effects += hand.hear("b", Alive(hand.link("b").sent)) + hand.hear("c", Alive(hand.link("c").sent))
        effects += hand.wait(SECOND)
    return effects
