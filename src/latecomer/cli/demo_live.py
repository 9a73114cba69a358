"""The last chapter of `latecomer demo`: the same brokers as processes on this machine, with MQTT clients.

What is told is what happened: the numbers are counted at the subscriber, and a promise that was not kept ends the demo
with an error.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes

from latecomer.cli.client import no_properties
from latecomer.model.errors import LatecomerError
from latecomer.runtime.network_file import Network, Seat, placed, shaped
from latecomer.runtime.supervisor import Supervisor, taken_port

BROKERS = 6
MESSAGES = 200
PAUSE_S = 0.02
DIES_AT, RETURNS_AT = 60, 120
"""After so many messages."""
PATIENCE_S = 60.0
TRIES = 50


class Broken(LatecomerError):
    """A promise was not kept."""


def perform(say: Callable[[str], None]) -> None:
    """Start the network, publish while a broker dies and returns, and count."""
    with tempfile.TemporaryDirectory(prefix="latecomer-demo-") as folder:
        network = free_network()
        supervisor = Supervisor(network, Path(folder))
        try:
            supervisor.start()
            _story(supervisor, network, say)
        finally:
            supervisor.stop()


def free_network() -> Network:
    """Six brokers in a ring, on ports that nobody uses."""
    chance = random.Random()
    for _ in range(TRIES):
        network = placed(shaped("ring", BROKERS), chance.randrange(20_000, 28_000))
        if taken_port(network) is None:
            return network
    raise Broken("no free ports were found for six brokers: end whatever uses those from 20000 to 31000")


def _story(supervisor: Supervisor, network: Network, say: Callable[[str], None]) -> None:
    first, dies, far = (network.brokers[position] for position in (0, 1, 3))
    ports = f"{network.brokers[0].port} to {network.brokers[-1].port}"
    say(
        f"Six processes now listen on 127.0.0.1, ports {ports}, and any MQTT client may connect. A subscriber does, at "
        f"{far.id}; a publisher, at {first.id}, sends {MESSAGES} messages with QoS 2."
    )
    numbers: list[int] = []

    def came(client: Client, data: object, message: MQTTMessage) -> None:
        numbers.append(int(message.payload))

    with _client("demo-subscriber", far) as subscriber, _client("demo-publisher", first) as publisher:
        subscriber.on_message = came
        subscriber.subscribe("demo/#", qos=2)
        _wait(supervisor, lambda: _probe(publisher, numbers), "the subscription did not reach the other side")
        numbers.clear()
        for number in range(MESSAGES):
            if number == DIES_AT:
                supervisor.kill(dies.id)
                say(f"After {DIES_AT} of them {dies.id} is killed, as by `kill -9`. The others find another way round.")
            if number == RETURNS_AT:
                supervisor.revive(dies.id, wait=False)
                say(f"After {RETURNS_AT} it is started again, on what its disk kept.")
            publisher.publish("demo/numbers", str(number), qos=2)
            supervisor.watch()
            time.sleep(PAUSE_S)
        _wait(supervisor, lambda: len(_real(numbers)) >= MESSAGES, "not everything arrived")
    got = _real(numbers)
    if got != list(range(MESSAGES)):
        raise Broken(f"{MESSAGES} numbers were sent, and {got} arrived")
    say(f"The subscriber has all {MESSAGES}: none missing, none twice, in order.")


def _probe(publisher: Client, numbers: list[int]) -> bool:
    """Whether a message gets through; probes are negative numbers."""
    if not numbers:
        publisher.publish("demo/numbers", "-1", qos=1)
        time.sleep(0.1)
    return bool(numbers)


def _real(numbers: list[int]) -> list[int]:
    return [number for number in numbers if number >= 0]


def _wait(supervisor: Supervisor, done: Callable[[], bool], otherwise: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > until:
            raise Broken(f"{otherwise} within {PATIENCE_S:g} s")
        supervisor.watch()
        time.sleep(0.02)


@contextmanager
def _client(name: str, seat: Seat) -> Iterator[Client]:
    """A client with a session that outlives its connection."""
    client = Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
    properties = no_properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 600
    client.connect(seat.host, seat.port, clean_start=True, properties=properties)
    client.loop_start()
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()
