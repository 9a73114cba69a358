"""What an origin could not keep for a store that was away, the store hears of and owns up to."""

from __future__ import annotations

from random import Random

from latecomer.core.inputs import ClientConnected, Published, Requested
from latecomer.core.settings import BrokerSettings
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Outcome, Query
from latecomer.model.topology import Link, Node, Topology
from latecomer.sim.world import World

SECOND = 1_000_000


class Asker:
    """A client that keeps how its requests ended."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.events: list[Event] = []

    def accepted(self, client: str, token: int, event: Event) -> None: ...
    def refused(self, client: str, token: int, reason: str) -> None: ...
    def delivered(self, client: str, connection: int, number: int, event: Event) -> None: ...
    def broker_started(self, broker: str, kept_disk: bool) -> None: ...

    def answered(self, client: str, token: int, events: tuple[Event, ...], outcome: Outcome | None) -> None:
        self.events += events
        if outcome is not None:
            self.outcomes.append(outcome)


def line_world(link_max: int = 65_536) -> tuple[World, Asker]:
    """A line 1–2–3 with a store at 3 and a publisher at 1."""
    nodes, links = tuple(Node(name) for name in "123"), (Link("1", "2", 1000), Link("2", "3", 1000))
    world = World(Topology("line", nodes, links), BrokerSettings(outbox_max=3, link_max=link_max), Random(1))
    world.clients = asker = Asker()
    world.start_all()
    world.run(2 * SECOND)
    world.assign("3", ["a"])
    world.run(10 * SECOND)
    world.tell("1", ClientConnected("P", 1))
    return world, asker


def lossy_world() -> tuple[World, Asker]:
    """The store was away while 1 had no room to keep everything for it."""
    world, asker = line_world()
    world.crash("3")
    world.run(20 * SECOND)
    for token in range(8):
        world.tell("1", Published("P", token, "a"))
        world.run(world.now + SECOND // 10)
    return world, asker


def test_a_store_hears_what_could_not_be_kept_for_it() -> None:
    world, asker = lossy_world()
    world.start("3")
    world.run(40 * SECOND)
    world.tell("2", Requested("C", 1, Query(Filter("a"), 15 * SECOND)))
    world.run(41 * SECOND)
    assert asker.outcomes[-1].problem == "the store may have missed something: it was full, or away"
    core = world.nodes["3"].core
    assert core is not None
    assert core.history.store.rows["a"].gaps == ((20 * SECOND, 20 * SECOND + 4 * SECOND // 10),)


def test_a_time_without_losses_is_complete() -> None:
    world, asker = lossy_world()
    world.start("3")
    world.run(40 * SECOND)
    world.tell("2", Requested("C", 1, Query(Filter("a"), 30 * SECOND)))
    world.run(41 * SECOND)
    assert asker.outcomes[-1].complete


def test_the_origin_remembers_across_its_own_restart() -> None:
    world, asker = lossy_world()
    world.crash("1")
    world.run(world.now + SECOND)
    world.start("1")
    world.run(world.now + SECOND)
    world.start("3")
    world.run(60 * SECOND)
    world.tell("2", Requested("C", 1, Query(Filter("a"), 15 * SECOND)))
    world.run(61 * SECOND)
    assert not asker.outcomes[-1].complete


def test_who_was_told_is_not_told_for_ever() -> None:
    world, _ = lossy_world()
    world.start("3")
    world.run(60 * SECOND)
    world.crash("3")
    world.run(70 * SECOND)
    core = world.nodes["1"].core
    assert core is not None
    assert core.losses.noted == {}
    assert not world.nodes["1"].disk.tables.get("lost")
