"""A ring of real brokers is re-positioned while everybody publishes: what is lost, what comes twice, and the longest
pause.

    python -m tests.network.repositioned [BROKERS] [MOVES] [KILLS]
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from paho.mqtt.client import MQTTMessage

from latecomer.cli.doors import found_doors
from latecomer.cli.overlay_work import look, propose
from latecomer.model.errors import LatecomerError
from latecomer.model.ring import BITS
from latecomer.model.topology import Link, Node, Topology
from latecomer.runtime.supervisor import Supervisor
from tests.network.net import QUICK, joined, network_of, running
from tests.network.peer import LIMIT_SECONDS, Peer

ROUTING = {**QUICK, "core": {"routing": {"kind": "rendezvous"}, "subscribe_wait": True}}
KEYS = tuple(f"k{number}" for number in range(8))
PAUSE_SECONDS = 0.01
PATIENCE_SECONDS = 60.0


@dataclass(slots=True)
class Outcome:
    published: int = 0
    received: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    longest_pause_s: float = 0.0
    """Between two deliveries to one subscriber while nobody was killed."""
    switches_s: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.lost or self.doubled or self.disordered) and bool(self.switches_s)

    def lines(self) -> list[str]:
        switches = ", ".join(f"{seconds:.2f}" for seconds in self.switches_s)
        return [
            f"{self.published} published, {self.received} received",
            f"lost {len(self.lost)} {self.lost[:3]}, doubled {len(self.doubled)} {self.doubled[:3]}, "
            f"out of order {len(self.disordered)} {self.disordered[:3]}",
            f"{len(self.switches_s)} switches, seconds: {switches}; longest pause {self.longest_pause_s:.2f} s",
            *self.refused,
        ]


class Crowd:
    """Publishers at some brokers and subscribers at others."""

    def __init__(self, ports: dict[str, int], publishers: list[str], subscribers: list[str]) -> None:
        self.outcome = Outcome()
        self.over = threading.Event()
        self.calm = True
        """Nobody was killed lately: pauses count."""
        self.sent: dict[str, int] = {}
        self.got: dict[str, dict[str, int]] = {}
        self.heard_at: dict[str, float] = {}
        self.publishers = [(broker, Peer(ports[broker], f"pub-{broker}")) for broker in publishers]
        self.subscribers = []
        for broker in subscribers:
            peer = Peer(ports[broker], f"sub-{broker}")
            peer.client.on_message = lambda c, u, message, broker=broker: self._heard(broker, message)
            for key in KEYS:
                assert peer.subscribe(f"{key}/#", 1) == 1
            self.got[broker] = {}
            self.subscribers.append(peer)
        self.thread = threading.Thread(target=self._publish)
        self.thread.start()

    def _publish(self) -> None:
        number = 0
        while not self.over.is_set():
            number += 1
            under_way = []
            for broker, peer in self.publishers:
                for key in KEYS:
                    topic = f"{key}/{broker}"
                    under_way.append((topic, peer.client.publish(topic, b"%d" % number, qos=1)))
            for topic, told in under_way:
                told.wait_for_publish(LIMIT_SECONDS)
                self.sent[topic] = number
            self.over.wait(PAUSE_SECONDS)

    def _heard(self, broker: str, message: MQTTMessage) -> None:
        now, number = time.monotonic(), int(message.payload)
        got, name = self.got[broker], f"{message.topic} {number} at {broker}"
        self.outcome.received += 1
        before = got.get(message.topic, 0)
        if number == before:
            self.outcome.doubled.append(name)
        elif number < before:
            self.outcome.disordered.append(name)
        elif number > before + 1:
            self.outcome.lost.append(f"{name} after {before}")
        got[message.topic] = max(before, number)
        if self.calm and broker in self.heard_at:
            self.outcome.longest_pause_s = max(self.outcome.longest_pause_s, now - self.heard_at[broker])
        self.heard_at[broker] = now

    def finish(self) -> Outcome:
        """Publish no more, and wait until everybody has everything."""
        self.over.set()
        self.thread.join()
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until and any(got != self.sent for got in self.got.values()):
            time.sleep(0.05)
        for broker, got in self.got.items():
            missing = [topic for topic, number in self.sent.items() if got.get(topic, 0) != number]
            self.outcome.lost += [f"the end of {topic} at {broker}" for topic in missing]
        for peer in (*(peer for _, peer in self.publishers), *self.subscribers):
            peer.leave()
        self.outcome.published = sum(self.sent.values())
        return self.outcome


def meshed(count: int) -> Topology:
    nodes = tuple(Node(f"b{number}") for number in range(1, count + 1))
    pairs = combinations((node.id for node in nodes), 2)
    return Topology(name="meshed", nodes=nodes, links=tuple(Link(a, b, 1000) for a, b in pairs))


def trial(folder: Path, brokers: int = 6, moves: int = 2, kills: int = 0, seed: int = 1) -> Outcome:
    """Publishers at the first brokers, subscribers at the next; those who are killed have no clients."""
    chance = random.Random(seed)
    with running(network_of(meshed(brokers), ROUTING), folder) as supervisor:
        joined(supervisor)
        ids = [seat.id for seat in supervisor.network.brokers]
        ports = {seat.id: seat.port for seat in supervisor.network.brokers}
        crowd = Crowd(ports, ids[:2], ids[2:4])
        time.sleep(1)
        for _ in range(moves):
            _move(supervisor, ids, chance, crowd.outcome)
            time.sleep(0.5)
        crowd.calm = False
        for number in range(kills):
            victim = ids[4 + number % (len(ids) - 4)]
            mover = threading.Thread(target=_move, args=(supervisor, ids, chance, crowd.outcome))
            mover.start()
            time.sleep(chance.random() * 0.2)
            supervisor.kill(victim)
            mover.join()
            supervisor.revive(victim)
            joined(supervisor)
        return crowd.finish()


def _move(supervisor: Supervisor, ids: list[str], chance: random.Random, outcome: Outcome) -> None:
    places = dict(zip(ids, chance.sample(range(1 << BITS), len(ids)), strict=True))
    try:
        seen = look(found_doors(supervisor.folder, [], [], None))
        outcome.switches_s.append(propose(seen, places, PATIENCE_SECONDS, lambda what: None))
    except LatecomerError as error:  # somebody was killed meanwhile
        outcome.refused.append(str(error))


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as made:
        print("\n".join(trial(Path(made), *numbers).lines()))
