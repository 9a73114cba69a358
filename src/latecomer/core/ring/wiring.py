"""The parts of ring routing, put together."""

from __future__ import annotations

from collections.abc import Callable

from latecomer.core.fences import Fences
from latecomer.core.interest import Interest
from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.ring.flushes import Flushes
from latecomer.core.ring.interest import RingInterest
from latecomer.core.ring.keys import Keys
from latecomer.core.ring.settling import RingSettling
from latecomer.core.ring.words import Words
from latecomer.core.routing import Rendezvous
from latecomer.core.settings import BrokerSettings
from latecomer.core.settling import Settling
from latecomer.model.ids import BrokerId


def make_interest(
    broker: BrokerId,
    settings: BrokerSettings,
    orders: Orders,
    neighbours: Neighbours,
    changed: Callable[[], None],
    ready: Callable[[], None],
    unready: Callable[[], None],
    completing: Callable[[BrokerId], None],
    completed: Callable[[BrokerId], None],
) -> Interest:
    """The tables of one broker, by the routing that its settings name."""
    routing, send, reject = settings.routing, neighbours.send, neighbours.reject
    parts = (broker, routing, send, changed, ready, unready, reject, settings.filters_max, completing, completed)
    if not isinstance(routing, Rendezvous):
        return Interest(*parts)
    words = Words(broker, orders, send, neighbours.up, changed, reject, settings.brokers_max)
    return RingInterest(*parts, keys=Keys(routing.levels, routing.pins), words=words)


def make_settling(interest: Interest, neighbours: Neighbours, settled: Callable[[], None]) -> Settling:
    if not isinstance(interest, RingInterest):
        return Settling(neighbours.send, settled)
    return RingSettling(
        neighbours.send,
        settled,
        rounds=lambda: 0 if interest.family is None else 2 * interest.family.longest,
        beside=lambda: interest.beside,
    )


def make_flushes(broker: BrokerId, interest: Interest, neighbours: Neighbours) -> Flushes:
    keys = interest.keys if isinstance(interest, RingInterest) else None
    return Flushes(broker, neighbours, interest, Passage(broker, neighbours, interest), keys)


def make_fences(
    interest: Interest, neighbours: Neighbours, brokers_max: int, passed: Callable[[int], None], flushes: Flushes
) -> Fences:
    fences = Fences(interest, neighbours.send, neighbours.reject, brokers_max, passed)
    if isinstance(interest, RingInterest):
        fences.climb = lambda then: interest.prove(flushes.climb, then)
    return fences
