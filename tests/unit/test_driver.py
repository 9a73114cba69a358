"""The driver: what leaves for a neighbour leaves in the order in which the core numbered it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.core.effects import Append, Effect, Persist
from latecomer.core.inputs import Input, LinkReceived, StoreAssigned
from latecomer.messages.link import LinkMessage, Publication, Run
from latecomer.messages.mqtt import V311, Publish
from latecomer.model.event import Event
from latecomer.model.ids import EventId, Instant
from latecomer.model.topics import topic_matches
from latecomer.runtime.disk import Durability
from latecomer.runtime.driver import Driver
from latecomer.runtime.metrics import Counters
from latecomer.runtime.plans import SLOW
from latecomer.wire.mqtt import encode
from tests.properties.test_fastpath import Person, Publishes, Role, Stage, Step, people, stories
from tests.unit.fastpath_hand import FakeDisk, House
from tests.unit.mqtt_hand import MqttHand


class Neighbour:
    """Writes down what it is sent."""

    def __init__(self) -> None:
        self.heard: list[type] = []

    def send(self, peer: str, connection: int, frames: Sequence[LinkMessage]) -> None:
        self.heard += [type(frame) for frame in frames]


def test_a_run_does_not_overtake_a_publication_that_came_before_it() -> None:
    """`Relayed` is told while effects are performed; its own effects come after all of them."""

    async def story() -> list[type]:
        hand = MqttHand("b", "c")
        hand.join("b", "c", wants={"c": ["t/#"]})
        disk = cast(Any, FakeDisk(Durability.NONE))
        driver = Driver(hand.broker, disk, Counters(), None, lambda: hand.now, 1 << 20, lambda error: None)
        neighbour = Neighbour()
        driver.links = cast(Any, neighbour)
        run = Run("b", "p", encode(Publish("t/y", b"1"), V311))
        driver.tell(LinkReceived("b", [Publication(Event(EventId("b", 1, 1), "t/x", "p")), run]))
        driver.stop()
        return neighbour.heard

    assert asyncio.run(story()) == [Publication, Run]


class KeepingStage(Stage):
    """A stage whose broker has a store; what is to be kept is written down."""

    def __init__(self, persons: list[Person], *, fast: bool) -> None:
        super().__init__(persons, fast=fast, patient=True)
        self.kept: list[Event] = []
        self._step = self.house.core.step
        cast(Any, self.house.core).step = self._watched

    def _watched(self, now: Instant, fact: Input) -> list[Effect]:
        effects = self._step(now, fact)
        for effect in effects[:1]:
            if isinstance(effect, Persist):
                self.kept += [write.event for write in effect.writes if isinstance(write, Append)]
        return effects

    def keep(self, *topics: str) -> None:
        self.house.driver.tell(StoreAssigned(topics))


def kept(persons: list[Person], first: list[Step], second: list[Step], *, fast: bool) -> tuple[list[Event], list[Role]]:
    async def tell() -> tuple[list[Event], list[Role]]:
        stage = KeepingStage(persons, fast=fast)
        for topics, steps in ((("a/#",), first), (("b", "long/#"), second), ((), [])):
            stage.keep(*topics)
            for step in steps:
                await stage.play(step)
            await stage.settle()
        await stage.end()
        return stage.kept, stage.roles

    return asyncio.run(tell())


@settings(max_examples=60, deadline=None)
@given(people(st.just(60_000)), stories, stories)
def test_both_paths_keep_and_deliver_the_same_while_the_store_changes(
    persons: list[Person], first: list[Step], second: list[Step]
) -> None:
    """Every publication to a topic that is kept has an identity of its own, of whatever QoS, and is kept once."""
    quick, quick_roles = kept(persons, first, second, fast=True)
    plain, plain_roles = kept(persons, first, second, fast=False)
    for one, other in zip(quick_roles, plain_roles, strict=True):
        assert one.publications == other.publications
        assert one.answers == other.answers
    # Numbers differ: what is not kept gets none on the fast path.
    assert [(each.topic, each.payload) for each in quick] == [(each.topic, each.payload) for each in plain]
    assert len({each.id for each in quick}) == len(quick)
    said = [
        topic
        for filters, steps in ((("a/#",), first), (("b", "long/#"), second))
        for step in steps
        if isinstance(step, Publishes)
        for topic, *_ in step.messages
        if any(topic_matches(name, topic) for name in filters)
    ]
    assert sorted(each.topic for each in quick) == sorted(said)


def test_a_plan_is_void_when_its_topic_is_kept_or_no_longer() -> None:
    async def story() -> list[bool]:
        house = House()
        plans = house.driver.fastpath.plans
        found = []
        for topics in ((), ("a/#",), ("b",), ()):
            house.driver.tell(StoreAssigned(topics))
            found.append(plans.anybodys(b"a/b") is SLOW)
        house.stop()
        return found

    assert asyncio.run(story()) == [False, True, False, False]
