"""Brokers that stay away, that never came, that come back changed: stories that random lives are too short for."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from latecomer.core.broker import Broker
from latecomer.core.routing import Forwarding, Hierarchy
from latecomer.core.settings import SECOND_US, BrokerSettings
from latecomer.model.errors import SettingsError
from latecomer.model.filters import parse_filter
from latecomer.model.record import Kind, Record
from latecomer.model.topology import Link, Node, Topology
from latecomer.sim.checkers import Agreement, Promises
from latecomer.sim.clients import SimClients
from latecomer.sim.world import World


class Stage:
    """A small network with everybody watching."""

    def __init__(self, *links: str, **settings: int) -> None:
        pairs = [tuple(link.split("-")) for link in links]
        ids = dict.fromkeys(id for pair in pairs for id in pair)
        topology = Topology("stage", tuple(Node(id) for id in ids), tuple(Link(a, b) for a, b in pairs))
        self.world = World(topology, msgspec.structs.replace(BrokerSettings(), **settings), Random(1))
        self.promises = Promises(self.world)
        self.clients = SimClients(self.world, [self.promises])
        self.agreement = Agreement(self.world, self.clients)
        self.records: list[Record] = []
        self.world.observe(self.promises, self)

    def noted(self, record: Record) -> None:
        self.records.append(record)

    def sent(self, *_: object) -> None: ...

    def crashed(self, *_: object) -> None: ...

    def core(self, broker: str) -> Broker:
        core = self.world.nodes[broker].core
        assert core is not None
        return core

    def wait(self, seconds: float) -> None:
        self.world.run(self.world.now + int(seconds * SECOND_US))

    def subscriber(self, broker: str) -> None:
        self.clients.join(f"sub-{broker}", broker)
        self.clients.subscribe(f"sub-{broker}", parse_filter("#"))

    def settle(self) -> None:
        self.wait(2)
        assert self.agreement.quiet()
        self.promises.settle(self.clients)

    def noted_kinds(self, kind: Kind) -> list[Record]:
        return [record for record in self.records if record.kind is kind]

    def check(self) -> None:
        assert self.agreement.quiet()
        self.agreement.check(self.promises)
        self.promises.check_all_delivered()
        assert not self.promises.violations


def test_who_was_forgotten_by_some_and_not_by_others_is_welcomed_back_by_all() -> None:
    stage = Stage("B-A", "A-X", "X-Y", forget_us=10 * SECOND_US)
    stage.world.start_all()
    stage.subscriber("X")
    stage.clients.join("pub", "B")
    stage.settle()
    stage.world.break_wire("A", "X", 13 * SECOND_US)
    stage.wait(5)
    stage.world.crash("A")  # A begins to count anew, B forgets earlier than A
    stage.world.start("A")
    stage.wait(50)
    assert stage.agreement.quiet()
    stage.clients.publish("pub", "a")
    stage.wait(5)
    stage.check()


def test_a_broker_that_never_returns_is_forgotten_with_what_was_kept_for_it() -> None:
    stage = Stage("A-B", "B-C", "B-D", forget_us=10 * SECOND_US)
    stage.world.start_all()
    stage.subscriber("C")
    stage.clients.join("pub", "A")
    stage.settle()
    stage.world.crash("D")
    stage.wait(5)
    stage.clients.publish("pub", "a")
    stage.wait(1)
    assert len(stage.core("A").events.outbox.entries) == 1, "kept for D"
    stage.wait(10)
    assert not stage.core("A").events.outbox.entries
    assert [r.peer for r in stage.noted_kinds(Kind.FORGOTTEN) if r.broker == "A"] == ["D"]
    stage.world.break_wire("B", "C", 3 * SECOND_US)  # a later change of the tree brings nothing back
    stage.wait(10)
    stage.clients.publish("pub", "b")
    stage.wait(1)
    assert not stage.core("A").events.outbox.entries
    assert stage.promises.outstanding() == 0


def test_forgetting_one_while_another_is_being_served() -> None:
    stage = Stage("O-A", "A-X", "A-Y", forget_us=10 * SECOND_US)
    stage.world.start_all()
    stage.subscriber("X")
    stage.subscriber("Y")
    stage.clients.join("pub", "O")
    stage.settle()
    stage.world.crash("Y")
    stage.wait(2)
    stage.world.crash("X")
    stage.wait(4)
    stage.clients.publish("pub", "a")
    stage.wait(1)
    due = stage.core("O").membership.forget_due
    assert due is not None
    stage.world.run(due - SECOND_US)
    stage.world.start("X")
    stage.world.run(due - 900_000)
    stage.world.stall("A", "X", SECOND_US)  # the event is under way to X when Y is forgotten
    stage.wait(5)
    assert not stage.core("O").events.outbox.entries
    assert [r.client for r in stage.noted_kinds(Kind.DELIVERED)] == ["sub-X"]


def test_a_neighbour_that_never_started_is_waited_for_and_then_not() -> None:
    stage = Stage("A-B", "B-C", "B-D", chart_us=10 * SECOND_US)
    for broker in "ABC":
        stage.world.start(broker)
    stage.subscriber("C")
    stage.clients.join("pub", "A")
    stage.settle()
    stage.clients.publish("pub", "a")
    stage.wait(1)
    assert stage.core("A").membership.uncharted
    assert len(stage.core("A").events.outbox.entries) == 1, "nobody knows whether D wants it"
    stage.wait(15)
    assert not stage.core("A").membership.uncharted
    assert not stage.core("A").events.outbox.entries
    stage.world.start("D")  # late, and welcome all the same
    stage.subscriber("D")
    stage.settle()
    stage.clients.publish("pub", "b")
    stage.wait(1)
    stage.check()


def test_half_of_the_members_on_disk_do_not_pass_for_all_of_them() -> None:
    stage = Stage("A-B", "B-C", "B-D")
    neighbours = stage.world.nodes["B"].neighbours
    stage.world.nodes["B"].neighbours = {"A": neighbours["A"]}
    stage.world.start("A")
    stage.world.start("B")
    stage.wait(3)
    stage.world.crash("B")
    stage.world.nodes["B"].neighbours = neighbours  # the network grows, and D is not there yet
    stage.world.start("B")
    stage.world.start("C")
    stage.subscriber("C")
    stage.clients.join("pub", "A")
    stage.settle()
    stage.world.crash("A")
    stage.world.wires["A", "B"].blocked_until = stage.world.now + SECOND_US
    stage.world.start("A")
    stage.clients.publish("pub", "a")  # alone: A must not take A and B for the whole network
    stage.wait(10)
    stage.world.start("D")
    stage.wait(5)
    stage.check()


def test_a_broker_that_lost_its_disk_waits_to_meet_somebody() -> None:
    stage = Stage("O-B", "B-C", chart_us=10 * SECOND_US)
    stage.world.start_all()
    stage.subscriber("C")
    stage.clients.join("pub", "O")
    stage.settle()
    stage.world.crash("O", keeps_disk=False)
    stage.world.wires["O", "B"].blocked_until = stage.world.now + 60 * SECOND_US
    stage.world.start("O")
    stage.wait(30)
    stage.clients.publish("pub", "a")  # it has met nobody: it cannot take itself for the whole network
    stage.wait(40)
    stage.check()
    assert stage.promises.deliveries == 1


def test_who_is_forgotten_stays_forgotten_when_others_still_tell_of_it() -> None:
    stage = Stage("A-B", "B-X", forget_us=10 * SECOND_US)
    stage.world.start_all()
    stage.clients.join("pub", "A")
    stage.settle()
    stage.world.crash("X")
    stage.wait(20)
    stage.world.crash("A")
    stage.world.start("A")
    stage.wait(2)
    stage.clients.publish("pub", "a")
    stage.wait(1)
    assert not stage.core("A").events.outbox.entries, "kept for X, which was forgotten before the restart"
    stage.world.start("X")  # and yet it may come back
    stage.subscriber("X")
    stage.settle()
    stage.clients.publish("pub", "b")
    stage.wait(1)
    stage.check()
    assert stage.promises.deliveries == 1


def test_what_is_parked_stays_parked_for_the_same_brokers_across_a_restart() -> None:
    stage = Stage("A-B", "A-C")
    stage.world.start_all()
    stage.subscriber("C")
    stage.clients.join("pub", "A")
    stage.settle()
    stage.world.crash("C")
    stage.wait(5)
    stage.clients.publish("pub", "a")
    stage.wait(1)
    stage.world.crash("A")
    stage.world.start("A")
    stage.subscriber("B")  # too late for what was published before
    stage.wait(5)
    stage.world.start("C")
    stage.wait(5)
    stage.check()
    assert [record.client for record in stage.noted_kinds(Kind.DELIVERED)] == ["sub-C"]


@pytest.mark.parametrize("routing", [Forwarding(root="b"), Hierarchy(), Forwarding(advertisements=True)])
def test_brokers_that_route_differently_refuse_one_another(routing: Forwarding | Hierarchy) -> None:
    stage = Stage("a-b")
    stage.world.start("a")
    stage.world.settings = msgspec.structs.replace(stage.world.settings, routing=routing)
    stage.world.start("b")
    stage.wait(1)
    reasons = [record.detail for record in stage.noted_kinds(Kind.REJECTED)]
    assert reasons
    assert all("all must agree" in reason for reason in reasons)
    assert not stage.noted_kinds(Kind.LINKED)


@pytest.mark.parametrize(
    ("attributes", "payload"),
    [({"v": 2**64}, b""), ({"k": "\ud800"}, b""), ({"\ud800": 1}, b""), ({}, bytes(2_000_000))],
)
def test_what_no_link_could_carry_is_refused(attributes: dict[str, int | str], payload: bytes) -> None:
    stage = Stage("a-b")
    stage.world.start_all()
    stage.subscriber("b")
    stage.clients.join("pub", "a")
    stage.settle()
    stage.clients.publish("pub", "t", attributes=dict(attributes), payload=payload)
    stage.clients.publish("pub", "t")
    stage.wait(1)
    assert len(stage.noted_kinds(Kind.REFUSED)) == 1
    stage.check()
    assert stage.promises.deliveries == 1, "the next one gets through"


def test_a_client_whose_name_no_link_could_carry_is_refused() -> None:
    stage = Stage("a-b")
    stage.world.start_all()
    stage.clients.join("\ud800", "a")
    stage.clients.publish("\ud800", "t")
    stage.wait(1)
    assert len(stage.noted_kinds(Kind.REFUSED)) == 1
    assert not stage.noted_kinds(Kind.PUBLISHED)


def test_events_that_would_not_fit_a_frame_cannot_be_allowed() -> None:
    with pytest.raises(SettingsError, match="event_max"):
        BrokerSettings(event_max=2**30).check()
