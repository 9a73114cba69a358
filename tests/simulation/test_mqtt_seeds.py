"""Fault seeds of MQTT clients in bulk, and a look at what they draw: a generator that never breaks anything proves
nothing (P12)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from latecomer.core.session.limits import NEVER_S
from latecomer.messages.mqtt import Packet, Publish
from latecomer.sim.chaos import Life
from latecomer.sim.mqtt_chaos import MqttChaos, live_mqtt
from latecomer.sim.mqtt_pipes import Pipe, Pipes
from latecomer.sim.soak import Verdict, judge, soak
from latecomer.sim.transcript import Digest
from tests.simulation.blocks import blocks

SEEDS, FEW = 300, 40
"""With LATECOMER_TEST_ALL=1, and without."""
BLOCK = 20
DRAWS = 300
"""Seeds within which everything that can happen has."""
DIGESTED = (0, 5, 17, 33)

PRINT_DIGESTS = """
import sys
from latecomer.sim.mqtt_chaos import live_mqtt
from latecomer.sim.transcript import Digest
print(hash("a"))
for seed in map(int, sys.argv[1:]):
    digest = Digest()
    live_mqtt(seed, digest)
    print(digest.value())
"""


def told(verdict: Verdict) -> str:
    """A failed seed, and the command that shows it."""
    return "\n  ".join(
        [f"seed {verdict.seed} ({verdict.description})", *verdict.violations[:3], f"replay: {verdict.replay}"]
    )


@pytest.mark.parametrize("start", blocks(FEW, SEEDS, BLOCK))
def test_every_promise_is_kept(start: int) -> None:
    failed = [verdict for seed in range(start, start + BLOCK) if (verdict := judge(seed, "mqtt")).violations]
    assert not failed, "\n".join(map(told, failed))


def test_a_failed_seed_says_how_to_see_it_again() -> None:
    verdict = Verdict(7, "3 brokers", ("0.5s lost: c1 never got c2:9", "b", "c", "d"), 1, 0, 9, 1, 0, "mqtt")
    assert told(verdict).splitlines() == [
        "seed 7 (3 brokers)",
        "  0.5s lost: c1 never got c2:9",
        "  b",
        "  c",
        "  replay: latecomer soak --start 7 --seeds 1 --clients mqtt --transcript",
    ]


def test_all_lives_of_a_seed_count() -> None:
    kinds = ("plain", "mqtt", "history")
    *lives, all_of_them = (next(iter(soak(3, 1, 1, clients))) for clients in (*kinds, "all"))
    assert all(life.accepted for life in lives)
    assert all_of_them.accepted == sum(life.accepted for life in lives)
    assert next(iter(soak(3, 1, 1))) == all_of_them, "that is what a soak does unless told otherwise"


def test_the_life_that_failed_is_the_one_to_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: MqttChaos) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(MqttChaos, "run", crash)
    verdict = judge(3, "all")
    assert "ZeroDivisionError: planted" in verdict.violations[0]
    assert verdict.replay == "latecomer soak --start 3 --seeds 1 --clients mqtt --transcript"


def test_the_same_in_processes_that_hash_differently() -> None:
    printed = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", PRINT_DIGESTS, *map(str, DIGESTED)]
        done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=True, timeout=300)
        printed.append(done.stdout.splitlines())
    (one_hash, *one), (other_hash, *other) = printed
    assert one_hash != other_hash, "the processes do hash differently"
    assert one == other
    for seed, digest in zip(DIGESTED, one, strict=True):
        here = Digest()
        live_mqtt(seed, here)
        assert here.value() == digest
    assert len(set(one)) == len(DIGESTED), "different seeds are different runs"


# -- the generator -----------------------------------------------------------------------------------------------------


class Watched(MqttChaos):
    """A life that counts what happens in it."""

    def __init__(self, seed: int, seen: Counter[str]) -> None:
        self.seen = seen
        super().__init__(seed, None)

    def _fault(self, kind: str) -> None:
        self.seen[f"fault {kind}"] += 1
        super()._fault(kind)

    def _join(self, id: str) -> None:
        super()._join(id)
        client = self.clients.clients[id]
        self.seen[f"version {client.version}"] += 1
        self.seen[f"expiry {client.expiry_s}"] += 1

    def run(self) -> Life:
        life = super().run()
        for name in ("deliveries", "excused", "dropped", "refusals"):
            self.seen[name] += getattr(life, name)
        self.seen["repeats"] += self.ledger.repeats
        stays = [stay for stays in self.ledger.stays.by_client.values() for stay in stays]
        for stay in stays:
            self.seen["session found"] += stay.present is True
            self.seen["session over"] += stay.present is False and not stay.pipe.connect.clean_start
            if stay.pipe.connect.will is not None:
                self.seen[f"will published {self.ledger.stays.wills[stay.pipe.connect.will.topic]}"] += 1
        return life


EXPECTED = {
    *(f"fault {kind}" for kind in Watched(0, Counter())._faults),
    *("version 4", "version 5", "expiry 0", "expiry 1", "expiry 3", f"expiry {NEVER_S}"),
    *("deliveries", "excused", "dropped", "refusals", "repeats"),
    *("session found", "session over", "will published 0", "will published 1"),
    *(f"{packet} lost" for packet in ("connect", "connack", "publish", "puback", "pubrec", "pubrel", "pubcomp")),
    *(f"{packet} lost" for packet in ("subscribe", "suback", "unsubscribe", "unsuback", "disconnect")),
    *("publish 1 again", "publish 2 again", "retained deleted", "shared delivered"),
}


@pytest.mark.parametrize("part", [0.9, pytest.param(1.0, marks=pytest.mark.long)])
def test_everything_that_can_go_wrong_does(part: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fault strikes, every packet is lost on its way, and what was interrupted goes on. A few seeds draw most of
    that; the rarest needs many, so all of it is a long test."""
    seen: Counter[str] = Counter()
    to_client, to_broker = Pipes._reached_client, Pipes._reached_broker

    def count(packet: Packet, lost: bool) -> None:
        if lost:
            seen[f"{type(packet).__name__.lower()} lost"] += 1
        elif type(packet) is Publish:
            seen[f"publish {packet.qos} again"] += packet.dup
            seen["retained deleted"] += packet.retain and not packet.payload
            seen["shared delivered"] += packet.topic.startswith("s/")

    def reached_client(self: Pipes, pipe: Pipe, packets: Sequence[Packet]) -> None:
        for packet in packets:
            count(packet, not pipe.down)
        to_client(self, pipe, packets)

    def reached_broker(self: Pipes, pipe: Pipe, packet: Packet) -> None:
        count(packet, not pipe.up)
        to_broker(self, pipe, packet)

    monkeypatch.setattr(Pipes, "_reached_client", reached_client)
    monkeypatch.setattr(Pipes, "_reached_broker", reached_broker)
    for seed in range(DRAWS):
        Watched(seed, seen).run()
        if sum(seen[name] > 0 for name in EXPECTED) >= part * len(EXPECTED):
            return
    pytest.fail(f"not within {DRAWS} seeds: {sorted(name for name in EXPECTED if not seen[name])}")
