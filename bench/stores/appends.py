"""Section 1: how fast events are kept, by the engine alone and through a whole server."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.book import Book
from bench.broker.brokers import Running
from bench.stores.events import Past
from bench.stores.load import LOAD_BOUND, Load
from bench.stores.servers import DURABILITIES, Contenders, JetStream, Mosquitto, Place, cpu_seconds, store_folder
from latecomer.history.engine import Engine
from latecomer.history.settings import EngineSettings
from latecomer.runtime.disk import Durability

ENGINE, SERVER = "append, engine", "append, server"
BATCHES = (1, 100, 1000)
LOADS = {"window 20": ("--window", 20), "window 1,000": ("--window", 1_000)}
"""Unacknowledged publications. With many more, JetStream that syncs each acknowledges nothing for seconds."""
EVENTS_MAX = 5_000_000
FILL_WINDOW = 4_000


def row(durability: str, load: str) -> str:
    return f"{durability}, {load}"


def engine_row(durability: str, batch: int) -> str:
    return row(durability, f"batches of {batch:,}")


def prepared_for(batch: int) -> int:
    """Events that are made before the clock starts."""
    return min(200_000, 20_000 * batch)


@dataclass(frozen=True, slots=True)
class EngineAppends:
    """Batches as fast as they go, made before. Beside it: the same bytes at the end of a file, which is as fast as any
    store can be here."""

    place: Place
    seconds: float

    def latecomer(self, durability: str, batch: int) -> float:
        folder = self.place.new_folder("engine")
        prepared = list(Past(time.time_ns() // 1000).batches(0, prepared_for(batch), batch))
        with Engine.open(folder, EngineSettings(), durability=Durability(durability)) as engine:
            begin = time.perf_counter()
            done = 0
            for events in prepared:
                done += engine.append(events)
                if time.perf_counter() - begin > self.seconds:
                    break
            return done / (time.perf_counter() - begin)

    def file(self, durability: str, batch: int) -> float:
        batches = list(Past(0).batches(0, prepared_for(batch), batch))
        with (self.place.new_folder("file") / "file").open("wb", buffering=0) as out:
            begin = time.perf_counter()
            done = 0
            for events in batches:
                out.write(b"".join(event.payload for event in events))
                if durability == "power":
                    os.fdatasync(out.fileno())
                done += len(events)
                if time.perf_counter() - begin > self.seconds:
                    break
            return done / (time.perf_counter() - begin)

    def run(self, book: Book, rounds: int) -> None:
        for number in range(rounds):
            book.say(f"append, engine: round {number + 1} of {rounds}")
            for durability in DURABILITIES:
                for batch in BATCHES:
                    name = engine_row(durability, batch)
                    for column, measure in (("file", self.file), ("latecomer", self.latecomer)):
                        book.turn((ENGINE, name, column), lambda m=measure, d=durability, b=batch: m(d, b))  # type: ignore[misc]


class Server(Protocol):
    """What can be started so that it keeps events with some durability."""

    def start(self, place: Place, folder: Path, durability: str) -> AbstractContextManager[Running]: ...


@dataclass(frozen=True, slots=True)
class ServerAppends:
    """Publishers with QoS 1, or JetStream's acknowledged publications; each server starts empty in every round."""

    place: Place
    load: Load
    seconds: float
    contenders: Contenders

    def turn(self, book: Book, column: str, server: Server, durability: str) -> None:
        keys = [(SERVER, row(durability, load), column) for load in LOADS]
        if any(key in book.faults for key in keys):
            return
        folder = self.place.new_folder(column)
        with book.excuse(*keys), server.start(self.place, folder, durability) as running:
            port = running.port
            if isinstance(server, JetStream):
                server.make_stream(port, "memory" if durability == "none" else "file")
            elif isinstance(server, Mosquitto):
                self.load.run("enlist", port)
            first = 0
            for key, options in zip(keys, LOADS.values(), strict=True):
                kind = {"jetstream": ["--nats"], "latecomer": ["--v5"]}.get(column, [])
                limits: list[str | int | float] = ["--first", first, "--count", EVENTS_MAX, "--seconds", self.seconds]
                before = cpu_seconds(running)
                found = self.load.run("publish", port, *kind, *options, *limits)
                used = (cpu_seconds(running) - before) / found["events"] * 1e6
                first += found["events"]
                book.note(key, found["per_s"], load_bound=found["idle_share"] < LOAD_BOUND)
                book.note((key[0], key[1], f"{column} cpu"), used)

    def run(self, book: Book, rounds: int) -> None:
        who = self.contenders
        servers = (("jetstream", who.jetstream), ("mosquitto", who.mosquitto), ("latecomer", who.latecomer))
        for number in range(rounds):
            book.say(f"append, server: round {number + 1} of {rounds}")
            for durability in DURABILITIES:
                for column, server in servers:
                    if server is not None:
                        self.turn(book, column, server, durability)


def fill_jetstream(load: Load, port: int, first: int, end: int) -> float:
    """Seconds that it took."""
    found = load.run("publish", port, "--nats", "--first", first, "--count", end - first, "--window", FILL_WINDOW)
    return float(found["seconds"])


def fill_latecomer(folder: Path, past: Past, first: int, end: int) -> float:
    """The same events into the store of a broker that does not run."""
    begin = time.perf_counter()
    directory = store_folder(folder)
    directory.mkdir(exist_ok=True, mode=0o700)
    with Engine.open(directory, EngineSettings(), durability=Durability.PROCESS) as engine:
        for events in past.batches(first, end):
            engine.append(events)
    return time.perf_counter() - begin
