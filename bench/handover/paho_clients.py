"""Wandering clients on paho-mqtt, in a process of their own.

    python -m bench.handover.paho_clients COUNT SEED STAY_FROM STAY_TO PORT…

Says `ready` when all have subscribed, to `paho/0` and so on with QoS 1 and 2 in turn. A line on its standard input ends
the wandering: then everybody stays connected. At the end of the input it prints what each has got.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from contextlib import suppress

import msgspec
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bench.handover.client import BODY, HOST, KEEP_S

AWAY_S = (1.5, 3.0)
ANSWER_S = 30.0


class Got(msgspec.Struct):
    """What one client has got."""

    qos: int
    numbers: int = 0
    repeated: int = 0
    disordered: int = 0
    moves: int = 0
    refused: int = 0


class Pahos(msgspec.Struct):
    clients: list[Got]


class Wanderer:
    """One client and its thread."""

    def __init__(self, at: int, ports: list[int], seed: int, stay_s: tuple[float, float]) -> None:
        self.at, self.ports, self.stay_s = at, ports, stay_s
        self.chance = random.Random(f"{seed}/{at}")
        self.got = Got(1 + at % 2)
        self.seen: dict[int, int] = {}
        self.newest = -1
        self.here = at % len(ports)
        self.ready, self.settle = threading.Event(), threading.Event()
        self._connected, self._code = threading.Event(), 0
        # one object for the whole life, as paho keeps there what it has to remember of QoS 2
        self.paho = Client(CallbackAPIVersion.VERSION2, f"paho{at}", protocol=MQTTProtocolVersion.MQTTv5)
        self.paho.on_message = self._on_message
        self.paho.on_connect = self._on_connect
        self.paho.on_subscribe = lambda *_: self.ready.set()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _on_connect(self, client: Client, data: object, flags: object, reason: object, properties: object) -> None:
        self._code = getattr(reason, "value", 0)
        if not getattr(flags, "session_present", False) and not self._code:
            client.subscribe(f"paho/{self.at}", self.got.qos)
        self._connected.set()

    def _on_message(self, client: Client, data: object, message: MQTTMessage) -> None:
        number, _ = BODY.unpack_from(message.payload)
        before = self.seen.get(number, 0)
        self.seen[number] = before + 1
        if not before:
            self.got.disordered += number < self.newest
            self.newest = max(self.newest, number)

    def _run(self) -> None:
        self._come()
        while not self.settle.wait(self.chance.uniform(*self.stay_s)):
            self.paho.disconnect()
            self.paho.loop_stop()
            time.sleep(self.chance.uniform(*AWAY_S))
            there = self.chance.randrange(len(self.ports))
            self.got.moves += there != self.here
            self.here = there
            self._come()

    def _come(self) -> None:
        """Connect, again and again; from a broker that is dead to the next one."""
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = KEEP_S
        while True:
            self._connected.clear()
            with suppress(OSError):
                self.paho.connect(HOST, self.ports[self.here], 60, clean_start=False, properties=properties)
                self.paho.loop_start()
                if self._connected.wait(ANSWER_S) and not self._code:
                    return
                self.got.refused += 1
                self.paho.disconnect()
                self.paho.loop_stop()
            time.sleep(0.2)
            self.here = self.chance.randrange(len(self.ports))

    def told(self) -> Got:
        self.got.numbers, self.got.repeated = len(self.seen), sum(self.seen.values()) - len(self.seen)
        return self.got


class Process:
    """The same, seen from the generator."""

    def __init__(self, count: int, seed: int, stay_s: tuple[float, float], ports: list[int]) -> None:
        self.words = [str(word) for word in (count, seed, *stay_s, *ports)]
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.handover.paho_clients", *self.words, stdin=pipe, stdout=pipe
        )
        assert self.process.stdout is not None
        assert (await self.process.stdout.readline()).strip() == b"ready"

    def settle(self) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(b"settle\n")

    async def stop(self) -> list[Got]:
        assert self.process is not None
        told, _ = await self.process.communicate(b"")
        return msgspec.json.decode(told, type=Pahos).clients


def main() -> None:
    count, seed, *stay = sys.argv[1:5]
    ports = [int(port) for port in sys.argv[5:]]
    stay_s = (float(stay[0]), float(stay[1]))
    clients = [Wanderer(at, ports, int(seed), stay_s) for at in range(int(count))]
    for client in clients:
        client.ready.wait()
    print("ready", flush=True)
    sys.stdin.readline()
    for client in clients:
        client.settle.set()
    sys.stdin.read()
    for client in clients:
        client.paho.disconnect()
    print(msgspec.json.encode(Pahos([client.told() for client in clients])).decode())


if __name__ == "__main__":
    main()
