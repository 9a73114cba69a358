"""A broker with a store in the hand: what it looks up comes from its disk, the rest of the network is the test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from latecomer.core.class_row import ClassRow
from latecomer.core.effects import Disconnect, Effect, Lookup, Survey
from latecomer.core.inputs import Found, StoreAssigned, StoreTrimmed, Surveyed
from latecomer.core.session.limits import Anything
from latecomer.messages.link import (
    Credit,
    LinkMessage,
    LinkState,
    LinkStates,
    Neighbour,
    Request,
    RequestId,
    Response,
    ResponseEnd,
    Settled,
)
from latecomer.model.event import Event
from latecomer.model.filters import parse_filter
from latecomer.model.history import Query
from latecomer.model.ids import EventId
from tests.unit.hand import COST_US, Hand, frames, of

SECOND = 1_000_000
HOUR = 3600 * SECOND
CLASS = "t/#"


def past(
    origin: str, seq: int, at: int, topic: str = "t/x", *, expires: int = 0, epoch: int = 1, payload: bytes = b""
) -> Event:
    """An event as it lies in a store."""
    return Event(EventId(origin, epoch, seq), topic, "p", at, True, {}, payload, expires_us=expires)


def ids(events: Iterable[Event]) -> list[str]:
    return [str(event.id) for event in events]


def query(filter: str = CLASS, **rest: Any) -> Query:
    return Query(parse_filter(filter), **rest)


class Rules(Anything):
    """Nobody may have the past of `secret` topics, and `mallory` may ask for none at all."""

    open_to_all = False

    def may_request(self, user: str, client: str, topic_filter: str) -> bool:
        return user != "mallory"

    def may_receive_past(self, user: str, client: str, topic: str) -> bool:
        return "secret" not in topic


class StoreHand(Hand):
    """`a` between `b` (and behind it `d`) and `c` (and behind it `e`); times begin late enough for a past."""

    def __init__(self, *neighbours: str, **rest: Any) -> None:
        super().__init__(*neighbours, **rest)
        self.now = 100 * HOUR

    def line(self, **wants: list[str]) -> list[Effect]:
        """d – b – a – c – e, ready."""
        effects: list[Effect] = []
        for peer, behind in (("b", "d"), ("c", "e")):
            effects += self.meet(peer) + self.hear(peer, self.states(peer, behind))
        effects += self.settle() + self.agree(wants)
        assert self.broker.interest.ready
        return effects

    def settled(self) -> list[Effect]:
        """The neighbours say that everything has been sent."""
        version = self.broker.membership.version
        effects: list[Effect] = []
        for peer in self.broker.interest.peers:
            effects += self.hear(peer, Settled(version))
        assert self.broker.history.settling.settled
        return effects

    def keep(self, *topics: str, since: int = 1) -> list[Effect]:
        """A store of these classes that is complete, as if it had been there for long, and answers."""
        effects = self.tell(StoreAssigned(topics or (CLASS,)))
        store = self.broker.history.store
        for name in topics or (CLASS,):
            store._keep_row(name, ClassRow(since))
        store.answer_for(list(topics or (CLASS,)))
        self.broker.history.replicas.filling = False
        return effects + self.tell(StoreTrimmed(0))

    def stock(self, *events: Event) -> None:
        """What lies in the store already."""
        for event in events:
            self.disk.store.append(event)

    def perform(self, effects: list[Effect]) -> list[Effect]:
        """Answer lookups and surveys, and those that follow from the answers."""
        every, todo = list(effects), list(effects)
        while todo:
            effect = todo.pop(0)
            more: list[Effect] = []
            if isinstance(effect, Lookup):
                now = 0 if effect.expired else self.now
                page = self.disk.store.read(effect.query, now, effect.events_max, effect.bytes_max)
                more = self.tell(Found(effect.token, page))
            elif isinstance(effect, Survey):
                span = (effect.topics, effect.since_us, effect.until_us, effect.width_us)
                more = self.tell(Surveyed(effect.token, self.disk.store.survey(*span)))
            every += more
            todo += more
        return every

    def away(self, effects: list[Effect]) -> list[str]:
        """Why links were ended."""
        return [effect.reason for effect in of(effects, Disconnect)]


def triangle() -> Hand:
    """`z` is linked to `b` and `c`, but the tree leads from `z` to `b` and from there to `c`."""
    hand = Hand("b", "c", id="z")
    for peer, other in (("b", "c"), ("c", "b")):
        hand.meet(peer)
        around = (Neighbour("z", 1, COST_US), Neighbour(other, 1, COST_US))
        hand.hear(peer, LinkStates((LinkState(peer, 1, 1, around),)))
    hand.settle()
    hand.agree()
    assert hand.broker.interest.ready
    assert hand.broker.interest.peers == ["b"]
    return hand


def request(
    asker: str, path: str, number: int = 1, *, topics: str = CLASS, asked: Query | None = None, **rest: Any
) -> Request:
    """A request whose path is written as one letter per broker."""
    return Request(RequestId(asker, 1, number), tuple(path), topics, asked or query(topics), **rest)


def responses(effects: Iterable[Effect], peer: str) -> list[Response]:
    return [frame for frame in frames(effects, peer) if isinstance(frame, Response)]


def ends(effects: Iterable[Effect], peer: str) -> list[ResponseEnd]:
    return [frame for frame in frames(effects, peer) if isinstance(frame, ResponseEnd)]


def requests(effects: Iterable[Effect], peer: str) -> list[Request]:
    return [frame for frame in frames(effects, peer) if isinstance(frame, Request)]


def credits(effects: Iterable[Effect], peer: str) -> list[Credit]:
    return [frame for frame in frames(effects, peer) if isinstance(frame, Credit)]


def carried(effects: Iterable[Effect], *peers: str) -> list[LinkMessage]:
    """What was sent on of requests, answers and credit."""
    kinds = (Request, Response, ResponseEnd, Credit)
    return [frame for peer in peers for frame in frames(effects, peer) if isinstance(frame, kinds)]
