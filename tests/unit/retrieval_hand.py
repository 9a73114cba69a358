"""Who asks for history, in the hand: a reader with a pace of its own, and stores played by the test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from latecomer.core.effects import Effect
from latecomer.core.inputs import StoreTrimmed
from latecomer.core.inquiry import Inquiry
from latecomer.core.retrieval import Retrieval
from latecomer.messages.link import (
    Adopted,
    Complete,
    Request,
    RequestId,
    Response,
    ResponseEnd,
    SessionFrame,
    StoreAdvertise,
    StoreWithdraw,
)
from latecomer.model.event import Event
from latecomer.model.history import Key, Outcome
from tests.unit.store_hand import CLASS, StoreHand, ids, query, requests

U = "u/#"


class Reader:
    """Who asks, at a pace of its own."""

    def __init__(
        self, hand: StoreHand, asked: str = CLASS, *, eager: bool = True, user: str = "u", **rest: Any
    ) -> None:
        self.hand, self.eager = hand, eager
        self.batches: list[list[str]] = []
        self.events: list[Event] = []
        self.outcomes: list[Outcome] = []
        self.inquiry: Inquiry | None = None
        self.inquiry = self.retrieval.ask(query(asked, **rest), user, "x", self.take, self.end)
        if self.inquiry.busy and eager:
            self.retrieval.more(self.inquiry)
        self.first = self.flush()

    @property
    def retrieval(self) -> Retrieval:
        return self.hand.broker.history.retrieval

    @property
    def ids(self) -> list[str]:
        return [name for batch in self.batches for name in batch]

    def take(self, events: Sequence[Event]) -> None:
        assert events
        assert not self.outcomes, "nothing comes behind the end"
        self.batches.append(ids(events))
        self.events += events
        if self.eager and self.inquiry is not None:
            self.retrieval.more(self.inquiry)

    def end(self, outcome: Outcome) -> None:
        assert not self.outcomes, "there is one end"
        self.outcomes.append(outcome)

    def flush(self) -> list[Effect]:
        return self.hand.tell(StoreTrimmed(0))

    def more(self) -> list[Effect]:
        assert self.inquiry is not None
        self.retrieval.more(self.inquiry)
        return self.flush()

    def cancel(self) -> list[Effect]:
        assert self.inquiry is not None
        self.retrieval.cancel(self.inquiry)
        return self.flush()


def network(**stores: int) -> StoreHand:
    """d – b – a – c – e; stores of the first class at `c`'s side, and of others where it says."""
    hand = StoreHand("b", "c")
    hand.line()
    for name, hops in (stores or {"c": 2}).items():
        hand.hear(name, StoreAdvertise(((CLASS, hops),)))
    return hand


def two_classes() -> StoreHand:
    """`t/#` is behind `c` at `e`, `u/#` behind `b` at `d`."""
    hand = network(c=2)
    hand.hear("b", StoreAdvertise(((U, 2),)))
    return hand


def answer(id: RequestId, *events: Event, store: str = "e", next: Key | None = None, left: int = 0) -> Response:
    return Response(id, ("a",), store, events, (left,) * len(events), next)


def over(id: RequestId, *, store: str = "e", problem: str = "", final: bool = True, from_us: int = 0) -> ResponseEnd:
    return ResponseEnd(id, ("a",), store, 2, from_us, problem, final)


def the(effects: list[Effect], peer: str = "c") -> Request:
    [asked] = requests(effects, peer)
    return asked


def renew(hand: StoreHand, **stores: int) -> list[Effect]:
    """Another tree, ready again; what is stored behind whom may have changed."""
    hand.hear("b", hand.states("b", "d"))
    effects = hand.settle()
    version = hand.broker.membership.version
    for peer in ("b", "c"):
        known = hand.broker.advertisements.heard[peer]
        told: list[SessionFrame] = [StoreWithdraw(tuple(known))] if known else []
        if peer in stores:
            told.append(StoreAdvertise(((CLASS, stores[peer]),)))
        effects += hand.hear(peer, Adopted(version), *told, Complete(version))
    assert hand.broker.interest.ready
    return effects
