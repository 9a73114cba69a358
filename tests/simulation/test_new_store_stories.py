"""A store that is told to keep a class claims what is published once everybody knows of it, and nothing before."""

from __future__ import annotations

from random import Random

import pytest

from latecomer.core.class_row import NOT_YET
from latecomer.core.settings import SECOND_US, BrokerSettings
from latecomer.model import topology_generators as generators
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from latecomer.sim.clients import SimClients, SimRequest
from latecomer.sim.world import World

CLASS = "t/#"
STALL_US = 8 * SECOND_US
"""Longer than a store needs to claim something where nothing is wrong."""


class Street:
    """Three brokers in a line. b1 publishes twice a second; b3 is told to keep that when nothing of what it sends
    arrives. The connection to it is lost and made again and again, so the session of the link goes on."""

    def __init__(self) -> None:
        self.world = World(generators.line(3, latency_us=1_000), BrokerSettings(), Random(1))
        self.world.now = 1_000 * SECOND_US
        self.clients = SimClients(self.world, [])
        self.world.start_all()
        self.wait(1)
        self.clients.join("p", "b1")
        self.clients.join("late", "b3")

    def wait(self, seconds: float) -> None:
        self.world.run(self.world.now + int(seconds * SECOND_US))

    def publish(self, seconds: int) -> list[int]:
        """Returns when."""
        times = []
        for _ in range(2 * seconds):
            times.append(self.world.now)
            self.clients.publish("p", "t/1")
            self.wait(0.5)
        return times

    def begin(self, stall_us: int = STALL_US) -> list[int]:
        """b3 begins to keep the class; returns what was published until everybody knew, and a little longer."""
        self.world.stall("b3", "b2", stall_us)
        self.world.assign("b3", (CLASS,))
        return self.publish((stall_us + 4 * SECOND_US) // SECOND_US)

    def since_us(self) -> int:
        core = self.world.nodes["b3"].core
        assert core is not None
        return core.history.store.rows[CLASS].since_us

    def ask(self) -> SimRequest:
        request = self.clients.request("late", Query(Filter(CLASS)))
        assert request is not None
        self.wait(1)
        assert request.outcome is not None
        return request


@pytest.mark.parametrize("crashes", [False, True])
def test_what_passed_a_store_by_while_its_subscription_was_under_way_is_not_claimed(crashes: bool) -> None:
    street = Street()
    published = street.begin()
    if crashes:  # what is on disk must not claim more than what was said
        street.world.crash("b3")
        street.world.start("b3")
    street.wait(8)
    published += street.publish(2)
    answer = street.ask()
    assert answer.outcome is not None
    assert answer.outcome.complete
    got = {event.published_us for event in answer.events}
    assert len(got) < len(published), "else nothing has passed it by"
    assert [at for at in published if at >= answer.outcome.from_us and at not in got] == []
    assert set(published[-4:]) <= got, "in the end everybody knows"
    assert answer.outcome.from_us <= published[-4]


def test_nothing_is_claimed_as_long_as_somebody_may_not_know() -> None:
    street = Street()
    street.world.stall("b3", "b2", STALL_US)
    street.world.assign("b3", (CLASS,))
    street.wait(7)
    assert street.since_us() == NOT_YET
    answer = street.ask().outcome
    assert answer is not None
    assert answer.from_us >= street.world.now, "no event that it has is claimed to be all there was"
    street.wait(10)
    assert street.since_us() <= street.world.now


def test_a_store_that_is_filled_by_another_claims_no_more_than_that_one_has() -> None:
    """b2 begins when b3 answers already, and what b3 says of itself becomes what b2 says."""
    street = Street()
    published = street.begin(6 * SECOND_US)
    street.world.assign("b2", (CLASS,))
    published += street.publish(8)
    core = street.world.nodes["b2"].core
    assert core is not None
    from_us, flaw = core.history.store.completeness(CLASS, Query(Filter(CLASS)))
    held = {event.published_us for event in street.world.nodes["b2"].disk.store.events.values()}
    assert flaw == ""
    assert [at for at in published if at >= from_us and at not in held] == []
