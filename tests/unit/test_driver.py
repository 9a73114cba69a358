"""The driver: what leaves for a neighbour leaves in the order in which the core numbered it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from latecomer.core.inputs import LinkReceived
from latecomer.messages.link import LinkMessage, Publication, Run
from latecomer.messages.mqtt import V311, Publish
from latecomer.model.event import Event
from latecomer.model.ids import EventId
from latecomer.runtime.disk import Durability
from latecomer.runtime.driver import Driver
from latecomer.runtime.metrics import Counters
from latecomer.wire.mqtt import encode
from tests.unit.fastpath_hand import FakeDisk
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
