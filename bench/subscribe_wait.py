"""What `core.subscribe_wait` costs and buys, on networks of real brokers in a line.

A client subscribes at one end, and as soon as it has its SUBACK another one publishes at the other end. Counted are the
messages that the subscriber misses, and how long the SUBACK took.

    python -m bench.subscribe_wait [--times 40]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from latecomer.model.topology_generators import line
from latecomer.runtime.network_file import Network, Seat
from latecomer.runtime.supervisor import Supervisor

HOPS = (1, 2, 3, 5)
WAIT_SECONDS = 0.5
PORT = 27_000


class Peer:
    """A connected client that says when its SUBACK or PUBACK, or a message, has come."""

    def __init__(self, port: int, name: str) -> None:
        self.answered, self.got = threading.Event(), threading.Event()
        self.client = Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
        connected = threading.Event()
        self.client.on_connect = lambda *_: connected.set()
        self.client.on_subscribe = lambda *_: self.answered.set()
        self.client.on_publish = lambda *_: self.answered.set()
        self.client.on_message = lambda *_: self.got.set()
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert connected.wait(20)

    def end(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def network_of(hops: int, *, wait: bool) -> Network:
    topology = line(hops + 1)
    seats = tuple(
        Seat(
            id=node.id,
            port=PORT + 10 * at,
            link_port=PORT + 10 * at + 1,
            admin_port=PORT + 10 * at + 2,
            websocket_port=PORT + 10 * at + 3,
        )
        for at, node in enumerate(topology.nodes)
    )
    settings: dict[str, Any] = {
        "broker": {"durability": "process"},
        "event_log": {"enabled": False},
        "core": {"subscribe_wait": wait},
    }
    return Network(name=topology.name, brokers=seats, links=topology.links, settings=settings)


def measure(hops: int, times: int, *, wait: bool) -> tuple[int, list[float]]:
    """How many messages were missed, and how many milliseconds each SUBACK took."""
    network = network_of(hops, wait=wait)
    with tempfile.TemporaryDirectory() as folder:
        supervisor = Supervisor(network, Path(folder))
        supervisor.start()
        try:
            time.sleep(2)
            publisher = Peer(network.brokers[-1].port, "publisher")
            missed, took = 0, []
            for number in range(times):
                subscriber = Peer(network.brokers[0].port, f"subscriber{number}")
                began = time.perf_counter()
                subscriber.client.subscribe(f"t/{number}", 1)
                assert subscriber.answered.wait(20)
                took.append((time.perf_counter() - began) * 1000)
                publisher.client.publish(f"t/{number}", b"x", 1)
                missed += not subscriber.got.wait(WAIT_SECONDS)
                subscriber.end()
            publisher.end()
            return missed, took
        finally:
            supervisor.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=40)
    times = parser.parse_args().times
    print(
        f"| links between | `subscribe_wait` | missed of {times} | SUBACK, median | 95 % |\n|---:|---|---:|---:|---:|"
    )
    for hops in HOPS:
        for wait in (False, True):
            missed, took = measure(hops, times, wait=wait)
            late = sorted(took)[int(0.95 * (times - 1))]
            word = "on" if wait else "off"
            print(f"| {hops} | {word} | {missed} | {statistics.median(took):.1f} ms | {late:.1f} ms |", flush=True)


if __name__ == "__main__":
    main()
