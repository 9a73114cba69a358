"""Simulated MQTT clients that are sent to other brokers: most say that they follow references, and most of these do.

They are the clients of `wander_clients` in everything else.
"""

from __future__ import annotations

from random import Random

from latecomer.messages.mqtt import Disconnect, Reason
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.sim.mqtt_clients import MqttClient
from latecomer.sim.mqtt_pipes import Pipe
from latecomer.sim.transcript import Transcript
from latecomer.sim.wander_clients import WanderClients, Wanderer, WanderWitness
from latecomer.sim.world import World

FOLLOWS = ("follows-references", "yes")
KIND = "tcp"
"""Of listener, by which all of them connect."""


def address_of(broker: BrokerId) -> str:
    return f"{broker}.example:1883"


class HomesClients(WanderClients):
    """All clients of a world in which brokers send clients on."""

    def __init__(self, world: World, witness: WanderWitness, transcript: Transcript | None, draw: Random) -> None:
        super().__init__(world, witness, transcript)
        self.pipes.listener = KIND
        self.draw = draw
        self.obedient: dict[ClientId, bool] = {}
        """Whether a client says that it follows references."""
        self.told: dict[int, Instant] = {}
        """When connections were told to go elsewhere, with a reference."""
        self.lingering: dict[int, Instant] = {}
        """By connection, how long a client that was told takes to come: nearly as long as it may."""
        self.followed = 0

    def _connect_words(self, client: MqttClient) -> tuple[tuple[str, str], ...]:
        follows = self.obedient.setdefault(client.id, self.draw.random() < 0.85)
        return (*super()._connect_words(client), *((FOLLOWS,) if follows else ()))

    def _disconnect(self, client: MqttClient, packet: Disconnect) -> None:
        reference = packet.properties.server_reference
        if packet.reason != Reason.USE_ANOTHER_SERVER or reference is None:
            super()._disconnect(client, packet)
            return
        assert isinstance(client, Wanderer)
        assert client.pipe is not None
        if not self.obedient.get(client.id):
            self.witness.violate("homes", f"{client.id} was sent to {reference}, and does not follow references")
        self.told[client.pipe.number] = self.world.now
        if self.draw.random() < 0.3:
            share = self.draw.choice((0.4, 0.7, 0.9))
            self.lingering[client.pipe.number] = round(share * self.world.settings.homes.away_us)
        if self.draw.random() < 0.8:  # others look around, or come back
            client.bound_for = reference.removesuffix(".example:1883")
            self.followed += 1

    def hung_up(self, pipe: Pipe) -> None:
        wait_us, client = self.lingering.pop(pipe.number, 0), self.clients.get(pipe.client)
        if wait_us and client is not None and client.pipe is pipe:
            self._disconnected(client)
            self.world.at(self.world.now + wait_us, self._connect, client)
        else:
            super().hung_up(pipe)
