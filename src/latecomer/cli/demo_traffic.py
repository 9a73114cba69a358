"""The people of `latecomer demo`: who publishes, who comes late and asks for the past, and whether they get all of it.

Publishers number what they publish in each district and never stop. A latecomer asks for everything since the
beginning; what it must get is every number that was acknowledged before it asked, each once and in order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from queue import Empty, SimpleQueue
from random import Random
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions

from latecomer.cli.past import end_of
from latecomer.client.packets import no_properties
from latecomer.client.words import END_TOPIC, End
from latecomer.model.errors import LatecomerError
from latecomer.runtime.network_file import Network, Seat

DISTRICTS = ("harbour", "market", "north", "old-town", "river", "south")
TOPICS = "city/#"
AT_FIRST = 40
"""Events of each district before anybody asks."""
PACE_S = 1.0
"""Between two events of a district afterwards."""
PATIENCE_S = 60.0


class Broken(LatecomerError):
    """A promise was not kept."""


@dataclass(slots=True)
class Tally:
    """What latecomers got, counted."""

    requests: int = 0
    events: int = 0
    lost: int = 0
    repeated: int = 0
    disordered: int = 0
    hops: int = 0

    def add(self, got: Sequence[int], owed: int, hops: int) -> None:
        """A history of which the first `owed` numbers had been acknowledged when it was asked for."""
        self.requests += 1
        self.events += len(got)
        self.hops += hops
        self.lost += len(set(range(max(owed, max(got, default=-1) + 1))) - set(got))
        self.repeated += len(got) - len(set(got))
        self.disordered += sum(after < before for before, after in pairwise(got))


class People:
    """Clients of all kinds at the brokers of a network."""

    def __init__(self, network: Network, since_us: int) -> None:
        """The stores of the network have everything from `since_us` on, and nobody says anything before that."""
        self.network = network
        self._since_us = since_us
        self.acknowledged = dict.fromkeys(DISTRICTS, 0)
        self._publisher = Publisher(network, self.acknowledged)
        self._askers = {seat.id: Asker(seat, since_us) for seat in network.brokers}

    def begin(self, told: Callable[[int], None]) -> None:
        """What is there before anybody asks; from then on it becomes more."""
        time.sleep(max(0.0, self._since_us / 1e6 + 1 - time.time()))
        self._publisher.begin(told)

    def close(self) -> None:
        self._publisher.close()
        for asker in self._askers.values():
            asker.close()

    def ask(self, requests: int, seed: int, told: Callable[[int], None]) -> Tally:
        """So many latecomers, at all brokers at once: others for every seed, with the habits of this city."""
        wanted: dict[str, list[str]] = {seat.id: [] for seat in self.network.brokers}
        for district, broker in drawn(self.network, requests, Random(seed)):
            wanted[broker].append(district)
        tally, lock, done = Tally(), threading.Lock(), [0]

        def at(broker: str) -> None:
            for district in wanted[broker]:
                owed = self.acknowledged[district]
                got, hops = self._askers[broker].history(district, owed)
                with lock:
                    tally.add(got, owed, hops)
                    done[0] += 1
                    told(done[0])

        with ThreadPoolExecutor(len(wanted)) as pool:
            for finished in [pool.submit(at, broker) for broker in wanted]:
                finished.result()
        return tally


def drawn(network: Network, requests: int, chance: Random) -> list[tuple[str, str]]:
    """Who asks for what where: some districts are asked for more than others, and most by those who live there."""
    brokers = [seat.id for seat in network.brokers]
    places = [(district, broker) for district in DISTRICTS for broker in brokers]
    weights = [popularity(district) * nearness(position, brokers, broker)
               for position, district in enumerate(DISTRICTS) for broker in brokers]  # fmt: skip
    return chance.choices(places, weights, k=requests)


def topic_of(district: str) -> str:
    """To which it publishes."""
    return f"city/{district}/air"


def popularity(district: str) -> float:
    return 1 / (1 + DISTRICTS.index(district))


def nearness(position: int, brokers: Sequence[str], broker: str) -> float:
    """A district is at home at one broker, from the last one backwards; some ask from elsewhere."""
    home = len(brokers) - 1 - position
    away = abs(brokers.index(broker) - home)
    return (1.0, 0.25, 0.05)[away] if away < 3 else 0.0


class Publisher:
    """Publishes in all districts: some at once, and then on and on."""

    def __init__(self, network: Network, acknowledged: dict[str, int]) -> None:
        self.acknowledged = acknowledged
        self._clients = {
            district: connected(network.brokers[position % len(network.brokers)], f"publisher-{district}")
            for position, district in enumerate(DISTRICTS)
        }
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._publish, daemon=True)
        self._failure: Exception | None = None

    def begin(self, told: Callable[[int], None]) -> None:
        for number in range(AT_FIRST):
            for district in DISTRICTS:
                self._one(district, number)
            told(number + 1)
        self._thread.start()

    def _publish(self) -> None:
        number = AT_FIRST
        try:
            while not self._stopping.wait(PACE_S):
                for district in DISTRICTS:
                    self._one(district, number)
                number += 1
        except Exception as error:
            self._failure = error

    def _one(self, district: str, number: int) -> None:
        published = self._clients[district].publish(topic_of(district), str(number), qos=2)
        published.wait_for_publish(PATIENCE_S)
        if not published.is_published():
            raise Broken(f"number {number} of {district} was not acknowledged within {PATIENCE_S:g} s")
        self.acknowledged[district] = number + 1

    def close(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for client in self._clients.values():
            hang_up(client)
        if self._failure is not None:
            raise self._failure


@dataclass(slots=True)
class Asker:
    """A client that comes again and again, each time for the past of one district."""

    seat: Seat
    since_us: int
    client: Client = field(init=False)
    came: SimpleQueue[MQTTMessage | None] = field(default_factory=SimpleQueue)
    """None: what was subscribed to is over."""

    def __post_init__(self) -> None:
        self.client = connected(self.seat, f"latecomer-{self.seat.id}")
        self.client.on_message = lambda client, data, message: self.came.put(message)
        self.client.on_unsubscribe = lambda *told: self.came.put(None)

    def history(self, district: str, owed: int) -> tuple[list[int], int]:
        """The numbers of a district, at least as many as are owed, and how far away the store was that knew them.

        What was acknowledged and had not reached the store comes as news, before or after the end of the history.
        """
        topic = f"city/{district}/#"
        properties: Any = no_properties(PacketTypes.SUBSCRIBE)
        properties.UserProperty = ("since", str(self.since_us // 1_000_000 + 1))
        self.client.subscribe(topic, options=SubscribeOptions(qos=1), properties=properties)
        numbers: list[int] = []
        end: End | None = None
        while end is None or len(numbers) < owed:
            message = self._next(topic)
            assert message is not None
            if message.topic == END_TOPIC:
                end = end_of(message)
            else:
                numbers.append(int(message.payload))
        self.client.unsubscribe(topic)
        while (message := self._next(topic)) is not None:
            numbers.append(int(message.payload))
        if not end.complete:
            raise Broken(f"{topic}: at {self.seat.id} the history is not complete: {end.problem}")
        return numbers, end.hops

    def _next(self, topic: str) -> MQTTMessage | None:
        try:
            return self.came.get(timeout=PATIENCE_S)
        except Empty:
            raise Broken(f"{topic}: not everything came to {self.seat.id} within {PATIENCE_S:g} s") from None

    def close(self) -> None:
        hang_up(self.client)


def connected(seat: Seat, name: str) -> Client:
    client = Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
    client.connect(seat.host, seat.port)
    client.loop_start()
    return client


def hang_up(client: Client) -> None:
    client.disconnect()
    client.loop_stop()
