"""What can go wrong with the connections of MQTT clients."""

from __future__ import annotations

from latecomer.sim.chaos import SECOND_US, Faults
from latecomer.sim.mqtt_clients import MqttClient, MqttClients


class ClientFaults(Faults):
    """Besides what can go wrong between brokers."""

    clients: MqttClients

    def _client(self) -> MqttClient:
        return self.random.choice(list(self.clients.clients.values()))

    def _cut(self) -> None:
        client = self._client()
        if client.pipe is not None:
            self._say(f"fault: the connection of {client.id} breaks")
            self.clients.pipes.break_(client.pipe)

    def _snip(self) -> None:
        """Some connections break in the middle of something: just when the next, or the third, or … packet set out."""
        for client in self.clients.clients.values():
            if client.pipe is not None and self.random.random() < 0.5:
                self._say(f"fault: the connection of {client.id} will break")
                client.pipe.fuse = self.random.randint(1, 8)

    def _trip(self) -> None:
        """A broker crashes in the middle of something, while what it said last is on its way."""
        client = self._client()
        if client.pipe is not None:
            self._say(f"fault: {client.broker} will crash")
            client.pipe.fuse, client.pipe.trips = self.random.randint(1, 8), True

    def _flutter(self) -> None:
        """One client whose connection breaks again and again."""
        client = self._client()
        self._say(f"fault: the connection of {client.id} flutters")
        for _ in range(self.random.randint(2, 8)):
            self.world.at(self.world.now + self.random.randrange(SECOND_US), self._cut_again, client)

    def _cut_again(self, client: MqttClient) -> None:
        if client.pipe is None:
            return
        if self.random.random() < 0.5:
            self.clients.pipes.break_(client.pipe)
        else:
            client.pipe.fuse = self.random.randint(1, 4)

    def _storm(self) -> None:
        """All clients of one broker lose their connections."""
        broker = self.random.choice(self.brokers)
        self._say(f"fault: all connections to {broker} break")
        for client in self.clients.clients.values():
            if client.broker == broker:
                self._cut_again(client)

    def _freeze(self) -> None:
        """All clients of one broker lose their connections, and it stops for longer than some sessions last."""
        broker = self.random.choice(self.brokers)
        self._say(f"fault: all connections to {broker} break, and it freezes")
        for client in self.clients.clients.values():
            if client.broker == broker:
                self._cut_again(client)
        self.world.at(self.world.now + 50_000, self.world.pause, broker, self.random.choice((SECOND_US, 3_500_000)))

    def _blackout(self) -> None:
        """All brokers crash at once."""
        self._say("fault: all brokers crash")
        for broker in self.brokers:
            self.world.crash(broker)
            self.world.at(self.world.now + self._time(), self.world.start, broker)
