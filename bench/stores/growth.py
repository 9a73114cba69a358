"""Sections 2 to 4: the stores grow, and at each size they are asked, measured, and started again."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.book import BenchError, Book
from bench.broker.brokers import Running
from bench.stores.appends import fill_jetstream, fill_latecomer
from bench.stores.events import KINDS, Ask, Kind, Past
from bench.stores.load import LOAD_BOUND, Load
from bench.stores.servers import Contenders, JetStream, Latecomer, Place, cpu_seconds, crash, disk_bytes, store_folder
from latecomer.history.engine import Engine
from latecomer.history.settings import EngineSettings
from latecomer.model.filters import Filter, make_filter
from latecomer.model.history import Query
from latecomer.runtime.disk import Durability

REPLAY, LATENCY, FOOTPRINT, NEWEST = "replay", "latency", "footprint", "newest"
LIGHT, HEAVY = 50, 10
PAGE_EVENTS, PAGE_BYTES = 1_000, 1 << 20
PATIENCE_SECONDS = 60.0
REPLAY_SECONDS = 30.0
"""A replay that takes longer is shorter the next time: its speed is known, and the others wait."""
QUEUED_MAX = 100_000
"""Events that wait for a session: Mosquitto becomes slower with their number."""
MQTT, NATS = ("--v5", "--qos", "0"), ("--nats",)


def at(name: str, size: int) -> str:
    return f"{name} at {size}"


def until_answered(load: Load, port: int, line: str) -> None:
    """A broker that listens may still be opening its store, or getting to know its neighbours."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            load.run("query", port, *MQTT, "--stall", "10", lines=[line])
        except BenchError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def read_all(engine: Engine, query: Query) -> int:
    """Events found, page by page, as a broker reads them."""
    found = 0
    while True:
        page = engine.read(query, time.time_ns() // 1000, PAGE_EVENTS, PAGE_BYTES)
        found += len(page.events)
        if page.next is None:
            return found
        query = Query(query.filter, query.since_us, query.until_us, after=page.next)


def as_query(ask: Ask, past: Past) -> Query:
    filter = make_filter(ask.topic, ask.where) if ask.where else Filter(ask.topic)
    if ask.last:
        return Query(filter, last=ask.count)
    return Query(filter, past.time_us(ask.first), past.time_us(ask.first + ask.span - 1))


@dataclass(slots=True)
class Growth:
    """Both stores hold the same events, in folders of their own."""

    book: Book
    place: Place
    load: Load
    past: Past
    sizes: Sequence[int]
    rounds: int
    replayed: int
    who: Contenders
    quick: bool
    ours: Path = field(init=False)
    theirs: Path = field(init=False)

    def __post_init__(self) -> None:
        self.ours, self.theirs = self.place.new_folder("latecomer-store"), self.place.new_folder("jetstream-store")

    def run(self) -> None:
        if self.who.latecomer is not None:
            with self.book.excuse((FOOTPRINT, at("start empty", 0), "latecomer")):
                self.start_empty(self.who.latecomer)
        self.newest_of_each()
        before = 0
        for size in self.sizes:
            self.fill(before, size)
            before = size
            if self.who.engine:
                with self.book.excuse((LATENCY, at(KINDS[0].name, size), "engine p50")):
                    self.engine_alone(size)
            with ExitStack() as stack:
                servers: dict[str, Running] = {}
                if self.who.jetstream is not None:
                    servers["jetstream"] = stack.enter_context(
                        self.opened_jetstream(self.who.jetstream, size, "restart")
                    )
                if self.who.latecomer is not None:
                    with self.book.excuse((FOOTPRINT, at("restart", size), "latecomer")):
                        opened = self.opened_latecomer(self.who.latecomer, size, "restart")
                        servers["latecomer"] = stack.enter_context(opened)
                self.questions(size, servers)
                if size == self.sizes[-1]:
                    self.replay(size, servers)
                for column, running in servers.items():
                    self.book.note((FOOTPRINT, at("memory", size), column), running.rss_kib() / 1024)
                    crash(running)
            self.after_crash(size)
        self.one_hop(self.sizes[-1])
        self.queue()

    # -- section 4: filling, opening -----------------------------------------------------------------------------------

    def fill(self, first: int, size: int) -> None:
        if self.who.jetstream is not None:
            with self.who.jetstream.start(self.place, self.theirs) as running:
                if not first:
                    self.who.jetstream.make_stream(running.port)
                seconds = fill_jetstream(self.load, running.port, first, size)
            self.filled("jetstream", self.theirs, first, size, seconds)
        if self.who.engine:
            seconds = fill_latecomer(self.ours, self.past, first, size)
            self.filled("latecomer", store_folder(self.ours), first, size, seconds)

    def filled(self, column: str, folder: Path, first: int, size: int, seconds: float) -> None:
        self.book.say(f"{column} holds {size:,} events; {(size - first) / seconds:,.0f} per second")
        self.book.note((FOOTPRINT, at("fill", size), column), (size - first) / seconds)
        self.book.note((FOOTPRINT, at("bytes", size), column), disk_bytes(folder) / size)

    @contextmanager
    def opened_jetstream(self, server: JetStream, size: int, how: str) -> Iterator[Running]:
        begin = time.perf_counter()
        with server.start(self.place, self.theirs) as running:
            stored = server.stored(running.port)
            self.book.note((FOOTPRINT, at(how, size), "jetstream"), time.perf_counter() - begin)
            if stored != size:
                raise BenchError(f"JetStream has {stored:,} of {size:,} events after a start")
            yield running

    @contextmanager
    def opened_latecomer(self, server: Latecomer, size: int, how: str) -> Iterator[Running]:
        begin = time.perf_counter()
        with server.start(self.place, self.ours) as running:
            until_answered(self.load, running.port, Ask("bench/#", size - 1, 1, 1, last=True).mqtt(self.past))
            self.book.note((FOOTPRINT, at(how, size), "latecomer"), time.perf_counter() - begin)
            yield running

    def start_empty(self, server: Latecomer) -> None:
        """What starting the process takes, whatever it stores."""
        begin = time.perf_counter()
        with server.start(self.place, self.place.new_folder("empty")) as running:
            until_answered(self.load, running.port, Ask("bench/#", 0, 1, 0, last=False).mqtt(self.past))
            self.book.note((FOOTPRINT, at("start empty", 0), "latecomer"), time.perf_counter() - begin)
            self.book.note((FOOTPRINT, at("memory empty", 0), "latecomer"), running.rss_kib() / 1024)

    def after_crash(self, size: int) -> None:
        if self.who.jetstream is not None:
            key = (FOOTPRINT, at("after kill -9", size), "jetstream")
            with self.book.excuse(key), self.opened_jetstream(self.who.jetstream, size, "after kill -9"):
                pass
        if self.who.latecomer is not None:
            key = (FOOTPRINT, at("after kill -9", size), "latecomer")
            with self.book.excuse(key), self.opened_latecomer(self.who.latecomer, size, "after kill -9"):
                pass

    # -- section 3: questions ------------------------------------------------------------------------------------------

    def engine_alone(self, size: int) -> None:
        """The store without a broker around it; nobody else may have it open."""
        begin = time.perf_counter()
        with Engine.open(store_folder(self.ours), EngineSettings(), durability=Durability.PROCESS) as engine:
            self.book.note((FOOTPRINT, at("open", size), "latecomer"), time.perf_counter() - begin)
            for kind in KINDS:
                taken = []
                for turn in range(self.repeats(kind)):
                    ask = kind.ask(size, turn)
                    query = as_query(ask, self.past)
                    begin = time.perf_counter()
                    found = read_all(engine, query)
                    taken.append(time.perf_counter() - begin)
                    if found != ask.count:
                        raise BenchError(f"the engine found {found:,} events for {ask}")
                self.book.note((LATENCY, at(kind.name, size), "engine p50"), statistics.median(taken) * 1e3)
            if size == self.sizes[-1]:
                ask = self.all_of(size)
                begin = time.perf_counter()
                read_all(engine, as_query(ask, self.past))
                self.book.note(
                    (REPLAY, "latecomer, engine alone", "events/s"), ask.count / (time.perf_counter() - begin)
                )

    def repeats(self, kind: Kind) -> int:
        """How often a question is asked per round, the shorter answers more often."""
        most = LIGHT if kind.topics == 1 else HEAVY
        return most // 10 if self.quick else most

    def questions(self, size: int, servers: dict[str, Running]) -> None:
        for number in range(self.rounds):
            self.book.say(f"questions to {size:,} events: round {number + 1} of {self.rounds}")
            for kind in KINDS:
                asks = [kind.ask(size, turn) for turn in range(self.repeats(kind))]
                for column, running in servers.items():
                    self.ask_server(at(kind.name, size), column, running.sub_port, asks)

    def ask_server(self, row: str, column: str, port: int, asks: Sequence[Ask]) -> None:
        keys = [(LATENCY, row, f"{column} {share}") for share in ("p50", "p99")]
        if any(key in self.book.faults for key in keys):
            return
        with self.book.excuse(*keys):
            if column == "jetstream":
                if asks[0].where:
                    raise BenchError("n/a")
                assert self.who.jetstream is not None
                started = self.who.jetstream.time_of(port, asks[0].first)
                found = self.load.run("query", port, *NATS, lines=[ask.nats(started) for ask in asks])
            else:
                found = self.load.run("query", port, *MQTT, lines=[ask.mqtt(self.past) for ask in asks])
            for key, share in zip(keys, ("p50_us", "p99_us"), strict=True):
                self.book.note(key, found[share] / 1e3)

    def newest_of_each(self) -> None:
        """Where nothing but the newest is wanted: retained messages, and JetStream's last per subject."""
        mqtt, nats = ["bench/#\t100"] * LIGHT, ['bench.>\t100\t"deliver_policy":"last_per_subject"'] * LIGHT
        mosquitto = self.who.mosquitto and replace(self.who.mosquitto, prompt=True)
        servers = (("jetstream", self.who.jetstream), ("mosquitto", mosquitto), ("latecomer", self.who.latecomer))
        for column, server in servers:
            if server is None:
                continue
            keys = [(NEWEST, "newest", f"{column} {share}") for share in ("p50", "p99")]
            with self.book.excuse(*keys), server.start(self.place, self.place.new_folder("newest")) as running:
                if isinstance(server, JetStream):
                    server.make_stream(running.port)
                    self.load.run("publish", running.port, *NATS, "--count", 100_000, "--window", 1_000)
                    found = self.load.run("query", running.port, *NATS, lines=nats)
                else:
                    self.load.run("publish", running.port, "--retain", "--count", 100)
                    found = self.load.run("query", running.port, "--unmarked", "--qos", 0, lines=mqtt)
                for key, share in zip(keys, ("p50_us", "p99_us"), strict=True):
                    self.book.note(key, found[share] / 1e3)

    # -- section 2: replay ---------------------------------------------------------------------------------------------

    def replay(self, size: int, servers: dict[str, Running]) -> None:
        for number in range(self.rounds):
            ask = self.all_of(size)
            self.book.say(f"replay of {ask.count:,} events: round {number + 1} of {self.rounds}")
            if (theirs := servers.get("jetstream")) is not None and self.who.jetstream is not None:
                lines = [ask.nats(self.who.jetstream.time_of(theirs.port, ask.first))]
                self.replay_once("jetstream, pull", theirs, [*NATS], lines)
                self.replay_once("jetstream, push", theirs, [*NATS, "--push"], lines)
            if (ours := servers.get("latecomer")) is not None:
                for qos in (0, 1):
                    options = ["--v5", "--qos", qos]
                    self.replay_once(f"latecomer, local, QoS {qos}", ours, options, [self.all_of(size).mqtt(self.past)])

    def all_of(self, size: int) -> Ask:
        count = min(self.replayed, size)
        return Ask("bench/#", size - count, count, count)

    def replay_once(self, row: str, running: Running, options: Sequence[str | int], lines: Sequence[str]) -> None:
        key = (REPLAY, row, "events/s")
        if key in self.book.faults:
            return
        with self.book.excuse(key):
            before = cpu_seconds(running)
            found = self.load.run("query", running.sub_port, *options, lines=lines)
            used = (cpu_seconds(running) - before) / found["events"] * 1e6
            self.book.note(key, found["per_s"], load_bound=found["idle_share"] < LOAD_BOUND)
            self.book.note((REPLAY, row, "cpu"), used)
            if found["seconds"] > REPLAY_SECONDS:
                self.replayed = int(found["per_s"] * REPLAY_SECONDS)

    def one_hop(self, size: int) -> None:
        """The same store, asked at its neighbour; both brokers share the core."""
        if self.who.latecomer is None:
            return
        replays = [f"latecomer, one hop away, QoS {qos}" for qos in (0, 1)]
        keys = [(REPLAY, row, "events/s") for row in replays]
        with self.book.excuse(*keys), self.who.latecomer.start(self.place, self.ours, brokers=2) as running:
            until_answered(self.load, running.sub_port, Ask("bench/#", size - 1, 1, 1, last=True).mqtt(self.past))
            for number in range(self.rounds):
                self.book.say(f"one hop away: round {number + 1} of {self.rounds}")
                for qos, row in enumerate(replays):
                    line = self.all_of(size).mqtt(self.past)
                    self.replay_once(row, running, ["--v5", "--qos", qos], [line])
                for kind in KINDS:
                    asks = [kind.ask(size, turn) for turn in range(self.repeats(kind))]
                    self.ask_server(at(kind.name, size), "hop", running.sub_port, asks)

    def queue(self) -> None:
        """What waits for a session that was away: all that Mosquitto has of a past; for each broker the same."""
        count = min(self.replayed, QUEUED_MAX)
        for column, server in (("mosquitto", self.who.mosquitto), ("latecomer", self.who.latecomer)):
            if server is None:
                continue
            for number in range(self.rounds):
                self.book.say(f"queue of a session, {column}: round {number + 1} of {self.rounds}")
                key = (REPLAY, f"{column}, queue of a session, QoS 1", "events/s")
                if key in self.book.faults:
                    break
                folder = self.place.new_folder("queue")
                with self.book.excuse(key), server.start(self.place, folder, "none") as running:
                    self.load.run("enlist", running.port)
                    self.load.run("publish", running.port, "--count", count, "--window", 1_000)
                    before = cpu_seconds(running)
                    found = self.load.run("drain", running.port, "--count", count)
                    used = (cpu_seconds(running) - before) / count * 1e6
                    self.book.note(key, found["per_s"], load_bound=found["idle_share"] < LOAD_BOUND)
                    self.book.note((key[0], key[1], "cpu"), used)
