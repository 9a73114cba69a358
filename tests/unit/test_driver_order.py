import asyncio
from typing import Any, cast
from latecomer.core.inputs import LinkReceived
from latecomer.messages.link import Publication, Run
from latecomer.messages.mqtt import V311, Publish
from latecomer.model.event import Event
from latecomer.model.ids import EventId
from latecomer.runtime.disk import Durability
from latecomer.runtime.driver import Driver
from latecomer.runtime.metrics import Counters
from latecomer.wire.mqtt import encode
from tests.unit.fastpath_hand import FakeDisk
from tests.unit.mqtt_hand import MqttHand

class Recorder:
    def __init__(self): self.said=[]
    def send(self, peer, connection, frames): self.said += [(peer, type(f).__name__) for f in frames]
    def disconnect(self, *a): pass

def test_order():
    async def story():
        hand = MqttHand("b", "c")
        hand.join("b", "c", wants={"c": ["t/#"]})
        driver = Driver(hand.broker, cast(Any, FakeDisk(Durability.NONE)), Counters(), None, lambda: hand.now, 1<<20, lambda e: None)
        driver.links = cast(Any, Recorder())
        link = hand.link("c")
        run = Run("b", "p", encode(Publish("t/y", b"1"), V311))
        event = Event(EventId("b", 1, 1), "t/x", "p")
        driver.tell(LinkReceived("b", [Publication(event), run]))
        assert driver.links.said == [("c", "Publication"), ("c", "Run")]
        driver.stop()
    asyncio.run(story())
