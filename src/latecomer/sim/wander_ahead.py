"""Lives in which sessions go ahead of their clients: to one broker, or as copies to several.

Drawn from random numbers of their own, so that lives without it are what they were.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from latecomer.core.mobility.settings import HandOverSettings
from latecomer.messages.hand_over import ShadowLost, ShadowOffer, ShadowRows, ShadowWanted
from latecomer.model.ids import BrokerId, ClientId
from latecomer.model.movement import BUCKETS, WEIGHT_ONE, Movement, indexed
from latecomer.sim.world import World

LIVES = 0.5
"""How likely a life is one of these."""
FRAMES = tuple(kind.__name__ for kind in (ShadowOffer, ShadowWanted, ShadowRows, ShadowLost, ShadowRows))
"""What fuses are put on."""
AWAY_US = (5_000, 20_000, 60_000, 200_000, 700_000)
"""How long after a guess the client comes."""


class Ahead:
    """What is drawn for one life."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(f"{seed} shadows")
        self.on = random.random() < LIVES
        self.guess_after_us = random.choice((5_000, 20_000, 100_000))
        self.calm = self.on and random.random() < 0.6
        """Nothing else makes clients move."""
        self._taught = random.random() < 0.5
        """The brokers have a movement model; otherwise they go by where clients were."""
        self._model: Movement | None = None

    def settings(self, settings: HandOverSettings) -> HandOverSettings:
        random = self.random
        if not self.on:
            return settings
        return replace(
            settings,
            algorithm="prefetching",
            destinations=random.choice((1, 2, 3, 3)),
            guess_after_us=self.guess_after_us,
            guess_at_least=random.choice((0.0, 0.0, 0.3)),
            shadows_max=random.choice((1, 1_000, 1_000)),
            departures_max=random.choice((1, 2, 10_000)),
        )

    def strolls(self) -> int:
        """How many clients stay away so long that their sessions go ahead."""
        return self.random.choice((10, 30, 60)) if self.on else 0

    def fuses(self) -> int:
        return self.random.choice((0, 1, 3)) if self.on else 0

    def away_us(self) -> int:
        return self.guess_after_us + self.random.choice(AWAY_US)

    def teach(self, world: World) -> None:
        """Give brokers a model of clients that go anywhere with the same likelihood, but of three places at most; one
        that was restarted has none for a while."""
        if not self._taught:
            return
        if self._model is None:
            places = tuple(world.nodes)
            model = Movement(places, 24, (3,), ((WEIGHT_ONE,) * BUCKETS,), True, {}, {})
            known: dict[str, dict[int, tuple[int, ...]]] = {}
            for number in range(100):
                chosen = self.random.sample(range(len(places)), min(len(places), 3))
                followers = [value for place in chosen for value in (place, 1)]
                known[f"c{number}"] = {model.key(-1, -1, -1): (len(chosen), *followers)}
            self._model = indexed(replace(model, clients=known))
        for node in world.nodes.values():
            if node.core is not None:
                node.core.mobility.guessing.movement = self._model

    def place_of(self, world: World, client: ClientId) -> BrokerId:
        """A broker that has a copy of the session, if the dice say so and there is one."""
        having = [
            id for id, node in world.nodes.items() if node.core and client in node.core.mobility.shadows.by_client
        ]
        return self.random.choice(having) if having and self.random.random() < 0.7 else ""
