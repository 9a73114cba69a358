"""The commuters of `latecomer demo`: clients that go from broker to broker all the time, and what they get on the way.

Each has one persistent session and one subscription, made at its first broker. Every second it leaves and connects to
another broker, and its session follows. At the end the broker that has the session is killed while the client is away:
the client is told so (0x88), tries again, and gets everything when that broker is back.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle
from random import Random
from typing import Any

import msgspec
from paho.mqtt.client import MQTT_ERR_SUCCESS, Client, ConnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from rich.box import SIMPLE_HEAD
from rich.table import Table

from latecomer.cli.client import KEEP_ALIVE_SECONDS
from latecomer.cli.demo_traffic import DISTRICTS, PACE_S, PATIENCE_S, TOPICS, Broken
from latecomer.client.packets import no_properties
from latecomer.model.ids import BrokerId
from latecomer.runtime.network_file import Network
from latecomer.runtime.supervisor import Supervisor

AWAY_S, STAY_S = 0.3, 0.7
"""Between leaving one broker and connecting to the next; at a broker."""
RETRY_S = 0.2
"""After a broker has said that the session cannot be had now."""
EXPIRY_S = 3600
NAP_S = 0.05
SERVER_UNAVAILABLE = 0x88
NEXT_BROKER = "next-broker"
ANNOUNCED, SILENT, CUT = "announced", "silent", "cut"
"""Ways to leave: DISCONNECT with the next broker's name, DISCONNECT without it, and no DISCONNECT at all."""


# -- counting


@dataclass(slots=True)
class Received:
    """What one commuter got, counted as it comes."""

    messages: int = 0
    repeated: int = 0
    """Came before, and should not have come again."""
    again: int = 0
    """Came before and are marked as such (DUP): at QoS 1 that is allowed when a connection breaks."""
    disordered: int = 0
    numbers: dict[str, set[int]] = field(default_factory=dict)
    """Of each topic."""
    newest: dict[str, int] = field(default_factory=dict)

    def note(self, topic: str, number: int, *, marked: bool) -> None:
        """One message; `marked` if a repetition is allowed and it says that it is one."""
        known = self.numbers.setdefault(topic, set())
        self.messages += 1
        if number in known:
            self.again += marked
            self.repeated += not marked
            return
        self.disordered += number < self.newest.get(topic, -1)
        self.newest[topic] = max(number, self.newest.get(topic, -1))
        known.add(number)

    def lost(self, acknowledged: Mapping[str, int]) -> int:
        """Numbers that are missing, from the first one of each topic on, which came before the first move."""
        missing = 0
        for topic, owed in acknowledged.items():
            known = self.numbers.get(topic, set())
            end = max(owed, self.newest.get(topic, -1) + 1)
            missing += end - min(known, default=0) - len(known)
        return missing


class CommuterFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One commuter's way, in numbers."""

    client: str
    qos: int
    moves: int
    connack_median_ms: float
    """From CONNECT to the CONNACK that welcomes it, of all moves but the one whose broker was killed."""
    connack_worst_ms: float
    messages: int
    lost: int
    repeated: int
    repeated_marked_dup: int
    disordered: int
    killed: BrokerId
    """The broker that was killed while it had the session."""
    refusals: int
    """How often the client was told 0x88 then."""
    wait_s: float
    """From its first CONNECT after that to the CONNACK that welcomed it."""

    @property
    def good(self) -> bool:
        return not (self.lost or self.repeated or self.disordered)


# -- one commuter


class Commuter:
    """A client with one session, driven by whichever thread calls it; by one at a time."""

    def __init__(self, network: Network, name: str, qos: int, chance: Random) -> None:
        self.seats = {seat.id: seat for seat in network.brokers}
        self.name = name
        self.qos = qos
        self.received = Received()
        self.waits_s: list[float] = []
        """Of each move."""
        self.at: BrokerId = ""
        """Where its session is."""
        self.given_up = False
        """Set by another thread that wants the end."""
        self._chance = chance
        self._ways = cycle((ANNOUNCED, SILENT, CUT))
        self._connack: tuple[int, bool] | None = None
        self._subscribed = False
        self.client = Client(
            CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5, reconnect_on_failure=False
        )
        self.client.on_connect = self._connected
        self.client.on_message = self._came
        self.client.on_subscribe = self._was_subscribed

    def begin(self, broker: BrokerId) -> None:
        """Make the session and its subscription."""
        if self._connect(broker) != (0, False):
            raise Broken(f"{self.name} could not begin a session at {broker}")
        self.at = broker
        self.client.subscribe(TOPICS, self.qos)
        self._loop_until(lambda: self._subscribed, f"{broker} did not confirm the subscription of {self.name}")

    def settle(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Stay until something of every district has come: from then on everything is owed."""
        self._loop_until(
            lambda: stopping() or len(self.received.numbers) == len(DISTRICTS),
            f"{self.name} got nothing from some districts",
        )

    def move(self, to: BrokerId | None = None) -> None:
        """Leave, and connect to another broker."""
        to = to or self._chance.choice([broker for broker in self.seats if broker != self.at])
        self.leave(next(self._ways), to)
        time.sleep(AWAY_S)
        self.board(to)

    def leave(self, way: str, to: BrokerId = "") -> None:
        if way == CUT:
            sock = self.client.socket()
            if sock is not None:
                sock.close()
            return
        properties: Any = no_properties(PacketTypes.DISCONNECT)
        if way == ANNOUNCED:
            properties.UserProperty = (NEXT_BROKER, to)
        self._goodbye(properties)

    def board(self, broker: BrokerId, refused: Callable[[], None] = lambda: None) -> int:
        """Connect to a broker until it welcomes the client; how often it was refused with 0x88 before."""
        begun = time.monotonic()
        refusals = 0
        while (answer := self._connect(broker)) != (0, True):
            code, _ = answer
            if code != SERVER_UNAVAILABLE:
                problem = "there was no session" if code == 0 else f"it was refused with 0x{code:02X}"
                raise Broken(f"{self.name} came from {self.at} to {broker}, and {problem}")
            refusals += 1
            refused()
            if time.monotonic() > begun + PATIENCE_S:
                raise Broken(f"{self.name} did not get its session at {broker} within {PATIENCE_S:g} s")
            time.sleep(RETRY_S)
        self.waits_s.append(time.monotonic() - begun)
        self.at = broker
        return refusals

    def stay(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._loop(min(left, NAP_S))

    def catch_up(self, acknowledged: Mapping[str, int]) -> None:
        """Stay until everything has come that was acknowledged up to now, or for as long as patience lasts."""
        until = time.monotonic() + PATIENCE_S
        while self.received.lost(acknowledged) and time.monotonic() < until:
            self._loop(NAP_S)
        self.stay(NAP_S)

    def end(self) -> None:
        """End the session."""
        properties: Any = no_properties(PacketTypes.DISCONNECT)
        properties.SessionExpiryInterval = 0
        self._goodbye(properties)

    def _connect(self, broker: BrokerId) -> tuple[int, bool]:
        """The reason code of CONNACK, and whether the session was there."""
        seat = self.seats[broker]
        properties: Any = no_properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = EXPIRY_S
        self._connack = None
        try:
            self.client.connect(seat.host, seat.port, KEEP_ALIVE_SECONDS, clean_start=False, properties=properties)
        except OSError as error:
            raise Broken(f"{self.name} could not connect to {broker}: {error}") from None
        self._loop_until(lambda: self._connack is not None, f"{broker} did not answer {self.name}")
        assert self._connack is not None
        return self._connack

    def _goodbye(self, properties: Any) -> None:
        self.client.disconnect(properties=properties)
        until = time.monotonic() + 1
        while self.client.want_write() and time.monotonic() < until:
            self.client.loop(NAP_S)

    def _loop_until(self, done: Callable[[], bool], otherwise: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not done():
            if time.monotonic() > until:
                raise Broken(f"{otherwise} within {PATIENCE_S:g} s")
            self._loop(NAP_S, done)

    def _loop(self, seconds: float, done: Callable[[], bool] = lambda: False) -> None:
        if self.given_up:
            raise Broken(f"{self.name} was stopped on the way")
        if self.client.loop(seconds) != MQTT_ERR_SUCCESS and not done():
            raise Broken(f"the connection of {self.name} broke; it was at {self.at} before")

    # -- what paho calls

    def _connected(self, client: Client, data: object, flags: ConnectFlags, code: Any, properties: object) -> None:
        self._connack = (code.value, flags.session_present)

    def _was_subscribed(self, *told: object) -> None:
        self._subscribed = True

    def _came(self, client: Client, data: object, message: MQTTMessage) -> None:
        self.received.note(message.topic, int(message.payload), marked=message.dup and self.qos == 1)


# -- all of them


class Commuters:
    """Two commuters, one with QoS 1 and one with QoS 2, each in a thread of its own."""

    def __init__(self, network: Network) -> None:
        self.all = [Commuter(network, f"commuter-qos-{qos}", qos, Random(qos)) for qos in (1, 2)]
        self._brokers = [seat.id for seat in network.brokers]
        self._halting = threading.Event()
        self._pool = ThreadPoolExecutor(len(self.all))
        self._under_way: list[Any] = []
        self._killed: BrokerId = ""
        self._refusals = [0] * len(self.all)

    def begin(self) -> None:
        """Subscribe; from here on they must be let move, or they answer nobody."""
        for position, commuter in enumerate(self.all):
            commuter.begin(self._brokers[position])
        self._under_way = [self._pool.submit(self._commute, commuter) for commuter in self.all]

    def _commute(self, commuter: Commuter) -> None:
        commuter.settle(self._halting.is_set)
        while not self._halting.is_set():
            commuter.move()
            commuter.stay(STAY_S)

    def halt(self) -> None:
        """Have them stay where they are; an error of theirs is raised here."""
        self._halting.set()
        for running in self._under_way:
            running.result()

    def lose_broker(self, broker: BrokerId, supervisor: Supervisor) -> None:
        """Leave their sessions at one broker, kill it, and find them elsewhere when it is back.

        `supervisor` starts it again when a commuter has been told that its broker is away. That is done in the caller's
        thread: a broker ends with the thread that started it.
        """
        self._killed = broker
        others = [other for other in self._brokers if other != broker]
        for commuter in self.all:
            if commuter.at != broker:
                commuter.move(broker)
        for commuter, way in zip(self.all, (SILENT, CUT), strict=True):
            commuter.stay(NAP_S)
            commuter.leave(way)
        time.sleep(PACE_S + AWAY_S)  # so that something waits for them there
        supervisor.kill(broker)
        told = threading.Event()
        boarding = [
            self._pool.submit(commuter.board, other, told.set)
            for commuter, other in zip(self.all, others, strict=False)
        ]
        if not told.wait(PATIENCE_S):
            raise Broken(f"no commuter was told within {PATIENCE_S:g} s that {broker} is away")
        supervisor.revive(broker)
        self._refusals = [done.result() for done in boarding]

    def finish(self, acknowledged: Mapping[str, int]) -> tuple[CommuterFigures, ...]:
        """When they have got what was acknowledged by topic, or waited long enough for it: how they fared."""
        for running in [self._pool.submit(commuter.catch_up, acknowledged) for commuter in self.all]:
            running.result()
        for commuter in self.all:
            commuter.end()
        return tuple(
            figures(commuter, self._killed, refusals, acknowledged)
            for commuter, refusals in zip(self.all, self._refusals, strict=True)
        )

    def close(self) -> None:
        self._halting.set()
        for commuter in self.all:
            commuter.given_up = True
        self._pool.shutdown(cancel_futures=True)
        for commuter in self.all:
            commuter.leave(CUT)


def figures(commuter: Commuter, killed: BrokerId, refusals: int, acknowledged: Mapping[str, int]) -> CommuterFigures:
    """Of a commuter whose last move was away from the broker that was killed."""
    *waits_s, last_s = commuter.waits_s
    got = commuter.received
    return CommuterFigures(
        client=commuter.name,
        qos=commuter.qos,
        moves=len(commuter.waits_s),
        connack_median_ms=round(statistics.median(waits_s) * 1000, 1),
        connack_worst_ms=round(max(waits_s) * 1000, 1),
        messages=got.messages,
        lost=got.lost(acknowledged),
        repeated=got.repeated,
        repeated_marked_dup=got.again,
        disordered=got.disordered,
        killed=killed,
        refusals=refusals,
        wait_s=round(last_s, 1),
    )


def table_of(commuters: tuple[CommuterFigures, ...]) -> Table:
    """A column for each."""
    table = Table(box=SIMPLE_HEAD, title="Two commuters", title_justify="left")
    table.add_column("")
    for one in commuters:
        table.add_column(f"QoS {one.qos}", justify="right")
    killed = commuters[0].killed
    rows: tuple[tuple[str, Callable[[CommuterFigures], str]], ...] = (
        ("moves", lambda one: f"{one.moves:,}"),
        ("CONNECT to CONNACK, median", lambda one: f"{one.connack_median_ms:,.0f} ms"),
        ("CONNECT to CONNACK, worst", lambda one: f"{one.connack_worst_ms:,.0f} ms"),
        ("messages", lambda one: f"{one.messages:,}"),
        ("lost", lambda one: f"{one.lost:,}"),
        ("repeated", lambda one: f"{one.repeated:,}"),
        ("repeated, marked DUP", lambda one: f"{one.repeated_marked_dup:,}"),
        ("out of order", lambda one: f"{one.disordered:,}"),
        (f"{killed} killed: told 0x88", lambda one: f"{one.refusals} times" if one.refusals != 1 else "once"),
        (f"{killed} killed: waited", lambda one: f"{one.wait_s:.1f} s"),
    )
    for name, value in rows:
        table.add_row(name, *map(value, commuters))
    return table


def check(commuters: tuple[CommuterFigures, ...]) -> None:
    """Whether they got everything, once and in order."""
    for one in commuters:
        if not one.good:
            told = f"{one.lost} lost, {one.repeated} repeated, {one.disordered} out of order"
            raise Broken(f"of the messages that {one.client} subscribed to: {told}")
