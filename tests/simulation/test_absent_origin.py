"""A broker that goes away with events that a store still lacks: whoever asks the store meanwhile is told."""

from __future__ import annotations

from random import Random

import pytest

from latecomer.core.settings import SECOND_US, BrokerSettings
from latecomer.model import topology_generators as generators
from latecomer.model.filters import parse_filter
from latecomer.model.history import Outcome, Query
from latecomer.sim.clients import SimClients
from latecomer.sim.world import World

MISSING = "events of b1, which is away, are missing"
MAYBE = "events of b1, which is away, may be missing"


class Network:
    """Brokers in a line: somebody publishes at the first, and asks at the second; the third has a store."""

    def __init__(self, brokers: int = 3, stores: tuple[str, ...] = ("b3",), late: str = "b2") -> None:
        self.world = World(generators.line(brokers, latency_us=1_000), BrokerSettings(), Random(1))
        self.world.now = 1_000 * SECOND_US
        self.clients = SimClients(self.world, [])
        for store in stores:
            self.world.assign(store, ("t/#",))
        self.world.start_all()
        self.clients.join("publisher", "b1")
        self.clients.join("late", late)
        self.wait(1)

    def subscribe(self) -> None:
        """Somebody gets everything at the second broker."""
        self.clients.join("present", "b2")
        self.clients.subscribe("present", parse_filter("#"))
        self.wait(1)

    def wait(self, seconds: float) -> None:
        self.world.run(self.world.now + int(seconds * SECOND_US))

    def publish(self, topic: str = "t/1") -> None:
        self.clients.publish("publisher", topic, attributes={"v": 1})
        self.wait(0.1)

    def cut_off_the_store(self) -> None:
        self.world.break_wire("b2", "b3", 2 * SECOND_US)
        self.wait(0.1)

    def lose_the_store(self, store: str = "b3") -> None:
        self.world.crash(store)
        self.wait(20)

    def find_the_store(self, store: str = "b3") -> None:
        self.world.start(store)
        self.wait(20)

    def lose_the_origin(self) -> None:
        self.world.crash("b1")
        self.wait(20)

    def ask(self, topics: str = "t/#", *, until_us: int = 0, last: int = 0) -> tuple[int, Outcome]:
        """How many events came, and how the request ended."""
        request = self.clients.request("late", Query(parse_filter(topics), 0, until_us, last))
        assert request is not None
        self.wait(1)
        assert request.outcome is not None
        return len(request.events), request.outcome


def test_an_answer_that_lacks_what_an_absent_origin_owes_the_store_says_so() -> None:
    network = Network()
    network.subscribe()
    network.publish()
    network.cut_off_the_store()
    network.publish()  # the second broker has it
    network.lose_the_origin()
    count, outcome = network.ask()
    assert (count, outcome.complete, outcome.problem) == (1, False, MISSING)
    network.world.start("b1")
    network.wait(10)
    count, outcome = network.ask()
    assert (count, outcome.complete, outcome.problem) == (2, True, "")


def test_what_was_kept_for_the_store_while_it_was_away_is_missing_as_well() -> None:
    """It is seen at the second broker by nobody; but that broker knows that it was together with the origin."""
    network = Network()
    network.publish()
    network.lose_the_store()
    network.publish()  # done, and kept for the store
    network.lose_the_origin()
    network.find_the_store()
    for until_us, expected in ((0, (1, False, MAYBE)), (900 * SECOND_US, (0, True, ""))):
        count, outcome = network.ask(until_us=until_us)
        assert (count, outcome.complete, outcome.problem) == expected
    network.world.start("b1")
    network.wait(10)
    count, outcome = network.ask()
    assert (count, outcome.complete, outcome.problem) == (2, True, "")
    network.lose_the_origin()
    assert network.ask()[1].complete, "nothing is owed any more"


def test_a_store_that_was_away_only_while_the_origin_was_is_owed_nothing() -> None:
    network = Network()
    network.publish()
    network.lose_the_origin()
    network.lose_the_store()
    network.find_the_store()
    count, outcome = network.ask()
    assert (count, outcome.complete, outcome.problem) == (1, True, "")


def test_a_store_that_was_away_has_got_it_from_another_store() -> None:
    network = Network(5, stores=("b2", "b5"), late="b4")
    network.publish()
    network.lose_the_store("b5")
    network.publish()
    network.lose_the_origin()
    network.find_the_store("b5")
    count, outcome = network.ask()
    assert (count, outcome.complete, outcome.problem, outcome.stores) == (2, True, "", ("b5",))


@pytest.mark.parametrize(("topics", "complete"), [("t/2", True), ("t/# ? v > 1", True), ("t/# ? v = 1", False)])
def test_what_was_not_asked_for_is_not_missing(topics: str, complete: bool) -> None:
    network = Network()
    network.subscribe()
    network.cut_off_the_store()
    network.publish("t/1")
    network.lose_the_origin()
    count, outcome = network.ask(topics)
    assert (count, outcome.complete) == (0, complete)


def test_what_was_published_later_than_asked_for_is_not_missing() -> None:
    network = Network()
    network.subscribe()
    network.publish()
    until_us = network.world.now
    network.cut_off_the_store()
    network.publish()
    network.lose_the_origin()
    count, outcome = network.ask(until_us=until_us)
    assert (count, outcome.complete) == (1, True)


def test_an_answer_that_has_all_of_an_absent_origin_is_complete() -> None:
    network = Network()
    network.subscribe()
    for _ in range(3):
        network.publish()
    network.lose_the_origin()
    for last in (0, 2):
        count, outcome = network.ask(last=last)
        assert (count, outcome.complete, outcome.problem) == (last or 3, True, "")
