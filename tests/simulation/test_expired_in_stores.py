"""An event that has expired stays in the stores that have it. Stores that compare themselves take it from one another,
or else they would differ for ever, and fetch whole slices again whenever they compare anew."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from latecomer.core.settings import SECOND_US, BrokerSettings
from latecomer.messages.link import Response
from latecomer.model import topology_generators as generators
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from latecomer.sim.clients import SimClients
from latecomer.sim.world import World

CLASS = "t/#"
EVENTS = 20


class Stores:
    """b1 has kept a class for a while, and one event of it has expired. b2 and b3 begin to keep it."""

    def __init__(self) -> None:
        settings = replace(BrokerSettings(), replica_us=SECOND_US, response_events=1)
        self.world = World(generators.line(3, latency_us=1_000), settings, Random(1))
        self.world.now = 1_000 * SECOND_US
        self.clients = SimClients(self.world, [])
        self.world.assign("b1", (CLASS,))
        self.world.start_all()
        self.wait(6)
        self.clients.join("p", "b1")
        self.clients.join("late", "b3")
        for number in range(EVENTS):
            self.clients.publish("p", "t/1", lifetime_us=0 if number else SECOND_US)
        self.wait(3)
        self.keep(CLASS)
        self.wait(10)

    def wait(self, seconds: float) -> None:
        self.world.run(self.world.now + int(seconds * SECOND_US))

    def keep(self, *topics: str) -> None:
        for broker in ("b2", "b3"):
            self.world.assign(broker, topics)

    def held(self, broker: str) -> set[str]:
        return {str(event.id) for event in self.world.nodes[broker].disk.store.events.values()}


def test_stores_that_have_compared_themselves_hold_the_same_also_of_what_has_expired() -> None:
    stores = Stores()
    assert len(stores.held("b1")) == EVENTS
    assert stores.held("b2") == stores.held("b3") == stores.held("b1")


@pytest.mark.parametrize("topics", [(CLASS, "u/#"), (CLASS, "t/1")])
def test_they_have_nothing_to_fetch_when_they_compare_anew(topics: tuple[str, ...]) -> None:
    stores = Stores()
    before = stores.world.counts[Response]
    stores.keep(*topics)  # which makes them forget what they have fetched from whom
    stores.wait(10)
    assert stores.world.counts[Response] == before


def test_nobody_gets_what_has_expired() -> None:
    stores = Stores()
    request = stores.clients.request("late", Query(Filter(CLASS)))
    stores.wait(5)
    assert request is not None
    assert request.outcome is not None
    assert (len(request.events), request.outcome.complete) == (EVENTS - 1, True)
