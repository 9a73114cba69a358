"""The first store of a network has everything since the beginning, and says so; a store that came later does not."""

from __future__ import annotations

from random import Random

from latecomer.core.settings import SECOND_US, BrokerSettings
from latecomer.model import topology_generators as generators
from latecomer.model.filters import Filter
from latecomer.model.history import NOT_SO_FAR, Outcome, Query
from latecomer.sim.clients import SimClients
from latecomer.sim.world import World


class Network:
    """Three brokers in a line; somebody publishes at the first, and somebody asks there."""

    def __init__(self, *, store: str = "") -> None:
        self.world = World(generators.line(3, latency_us=1_000), BrokerSettings(), Random(1))
        self.world.now = 1_000 * SECOND_US
        self.clients = SimClients(self.world, [])
        if store:
            self.world.assign(store, ("t/#",))

    def wait(self, seconds: float) -> None:
        self.world.run(self.world.now + int(seconds * SECOND_US))

    def publish(self, broker: str = "b1") -> None:
        client = f"publisher at {broker}"
        if client not in self.clients.clients:
            self.clients.join(client, broker)
        self.clients.publish(client, "t/1")

    def ask(self) -> tuple[int, Outcome]:
        """How many events came, and how the request ended that asks for the last hour and more."""
        if "late" not in self.clients.clients:
            self.clients.join("late", "b1")
        request = self.clients.request("late", Query(Filter("t/#"), since_us=1))
        assert request is not None
        self.wait(1)
        assert request.outcome is not None
        return len(request.events), request.outcome


def test_the_first_store_of_a_network_is_complete_since_the_beginning() -> None:
    network = Network(store="b3")
    network.world.start("b1")
    network.publish()  # nobody else is there yet
    network.wait(1)
    for broker in ("b2", "b3"):
        network.world.start(broker)
    network.wait(1)
    network.publish()
    count, outcome = network.ask()
    assert (count, outcome.complete, outcome.stores) == (2, True, ("b3",))


def test_it_stays_complete_when_it_restarts() -> None:
    network = Network(store="b3")
    network.world.start_all()
    network.wait(1)
    network.publish()
    network.wait(1)
    network.world.crash("b3")
    network.publish()
    network.wait(1)
    network.world.start("b3")
    network.wait(8)
    count, outcome = network.ask()
    assert (count, outcome.complete) == (2, True)


def test_a_store_that_was_assigned_later_says_since_when() -> None:
    network = Network()
    network.world.start_all()
    network.wait(1)
    network.publish()
    network.wait(1)
    network.world.assign("b3", ("t/#",))
    network.wait(8)
    network.publish()
    count, outcome = network.ask()
    assert (count, outcome.complete, outcome.problem) == (1, False, NOT_SO_FAR)
    assert outcome.from_us > 1_002 * SECOND_US


def test_a_broker_that_joins_an_old_network_says_since_when() -> None:
    """Its own disk is as empty as at the beginning; the others know better."""
    network = Network(store="b3")
    network.world.start_all()
    network.wait(1)
    network.publish()
    network.wait(1)
    network.world.crash("b3", keeps_disk=False)
    network.world.start("b3")
    network.wait(8)
    count, outcome = network.ask()
    assert (count, outcome.complete, outcome.problem) == (0, False, NOT_SO_FAR)


def test_who_cannot_reach_everybody_does_not_claim_anything() -> None:
    """A new disk, and the broker that knows of the past is cut off: the claim waits until it is heard."""
    network = Network(store="b3")
    network.world.start_all()
    network.wait(1)
    network.publish()
    network.wait(1)
    for broker in ("b2", "b3"):
        network.world.crash(broker, keeps_disk=False)
    network.world.break_wire("b1", "b2", 20 * SECOND_US)
    for broker in ("b2", "b3"):
        network.world.start(broker)
    network.wait(8)
    network.clients.join("cut off", "b2")
    request = network.clients.request("cut off", Query(Filter("t/#"), since_us=1))
    assert request is not None
    network.wait(1)
    assert request.outcome is not None
    assert not request.outcome.complete
    network.wait(30)
    assert not network.ask()[1].complete


def test_a_broker_alone_has_everything_since_the_beginning() -> None:
    world = World(generators.line(1), BrokerSettings(), Random(1))
    world.now = SECOND_US
    clients = SimClients(world, [])
    world.assign("b1", ("t/#",))
    world.start_all()
    clients.join("c", "b1")
    clients.publish("c", "t/1")
    world.run(2 * SECOND_US)
    request = clients.request("c", Query(Filter("t/#"), since_us=1))
    world.run(3 * SECOND_US)
    assert request is not None
    assert request.outcome is not None
    assert (len(request.events), request.outcome.complete) == (1, True)
