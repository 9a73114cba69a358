"""Publications at a rate: drawn one after the other, so that a long workload costs no memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from random import Random

from latecomer.model.event import Value
from latecomer.model.ids import ClientId
from latecomer.sim.durations import Duration
from latecomer.sim.scenario import Publish, Topics, Workload
from latecomer.sim.world import World

Publisher = Callable[[ClientId, Publish], None]


class Drawn:
    """A workload with its chance."""

    def __init__(self, number: int, workload: Workload, publishers: list[ClientId], random: Random) -> None:
        self.workload = workload
        self.publishers = publishers
        self.random = random
        topics = workload.topics
        if isinstance(topics, Topics):
            self.topics = [f"w{number}/t{rank}" for rank in range(1, topics.count + 1)]
            self._weights = list(accumulate(rank**-topics.zipf for rank in range(1, topics.count + 1)))
        else:
            self.topics = list(topics)
            self._weights = [float(rank) for rank in range(1, len(topics) + 1)]

    def topic(self) -> str:
        """One topic, drawn by popularity."""
        return self.random.choices(self.topics, cum_weights=self._weights)[0]

    def begin(self, world: World, end_us: int, publish: Publisher) -> None:
        """Publish from now on; time 0 of the scenario is the world's present."""
        until = self.workload.until
        last = world.now + (end_us if until is None else until)
        self._next(world, world.now + self.workload.begin, last, publish)

    def _next(self, world: World, after: int, last: int, publish: Publisher) -> None:
        mean_us = 1e6 / self.workload.rate
        wait_us = self.random.expovariate(1 / mean_us) if self.workload.timing == "poisson" else mean_us
        at = after + max(1, round(wait_us))
        if at <= last:
            world.at(at, self._publish, world, at, last, publish)

    def _publish(self, world: World, at: int, last: int, publish: Publisher) -> None:
        client = self.publishers[self.random.randrange(len(self.publishers))]
        attributes = {name: self._draw(value) for name, value in self.workload.attributes.items()}
        topic = self.topic()
        payload, mean_us, lifetime = "x" * self.workload.payload_size, self.workload.lifetime, None
        if mean_us is not None:
            lifetime = Duration(max(1, round(self.random.expovariate(1 / mean_us))))
        reliable = self.workload.reliable
        publish(
            client,
            Publish(topic=topic, attributes=attributes, payload=payload, reliable=reliable, lifetime=lifetime),
        )
        self._next(world, at, last, publish)

    def _draw(self, value: Value | tuple[Value, ...]) -> Value:
        return value[self.random.randrange(len(value))] if isinstance(value, tuple) else value
