"""The servers: how each is set up to keep events, started on its core, and stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from bench.book import BenchError
from bench.broker.brokers import HOST, Running, accepts, free_ports
from bench.stores.nats import ask

STREAM = "BENCH"
DURABILITIES = ("power", "process", "none")
START_SECONDS = 180.0
_numbers = count()


@dataclass(slots=True)
class Place:
    """Where servers run, and on which cores."""

    folder: Path
    server_core: int | None
    load_core: int | None
    running: list[Running] = field(default_factory=list)

    def new_folder(self, name: str) -> Path:
        folder = self.folder / f"{name}-{next(_numbers)}"
        folder.mkdir(mode=0o700)
        return folder

    @contextmanager
    def server(self, commands: Sequence[Sequence[str]], ports: Sequence[int], folder: Path) -> Iterator[Running]:
        """Processes that together are one server; they end with the block."""
        running = Running(list(ports), [], folder / "log")
        self.running.append(running)
        try:
            for command in commands:
                running.processes.append(self._spawn(command, folder, running.log))
            wait_for(running)
            yield running
        finally:
            running.stop()
            self.running.remove(running)

    def _spawn(self, command: Sequence[str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
        # Pinned before it begins: threads inherit it, and a runtime for Go or Python counts its cores when it starts.
        before = os.sched_getaffinity(0)
        if self.server_core is not None:
            os.sched_setaffinity(0, {self.server_core})
        try:
            with log.open("ab") as output:
                return subprocess.Popen(
                    command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )
        except FileNotFoundError as error:
            raise BenchError(f"{error.filename} is not there") from None
        finally:
            os.sched_setaffinity(0, before)


def wait_for(running: Running) -> None:
    """Until it listens: a large store may take its time."""
    end = time.monotonic() + START_SECONDS
    while not all(accepts(port) for port in running.ports):
        if any(process.poll() is not None for process in running.processes):
            raise BenchError(f"ended at once: {running.last_words()}")
        if time.monotonic() > end:
            raise BenchError(f"does not listen: {running.last_words()}")
        time.sleep(0.005)


def crash(running: Running) -> None:
    """As kill -9 does it."""
    for process in running.processes:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def cpu_seconds(running: Running) -> float:
    """Processor time of all its threads so far: what a figure costs, however busy the machine is otherwise."""
    total = 0
    for process in running.processes:
        words = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        total += int(words[11]) + int(words[12])  # user and system, proc(5)
    return total / os.sysconf("SC_CLK_TCK")


def first_line(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def find(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@dataclass(frozen=True, slots=True)
class JetStream:
    """One server, one stream without limits, one replica."""

    program: str

    @property
    def version(self) -> str:
        return first_line([self.program, "--version"]).rpartition("v")[2]

    @property
    def can_sync(self) -> bool:
        """Whether it can be told to wait for the disk: `sync_interval: always` came with 2.10."""
        major, minor = self.version.split(".")[:2]
        return (int(major), int(minor)) >= (2, 10)

    @contextmanager
    def start(self, place: Place, folder: Path, durability: str = "process") -> Iterator[Running]:
        if durability == "power" and not self.can_sync:
            raise BenchError(f"nats-server {self.version} cannot wait for the disk; 2.10 can")
        port = free_ports(1)[0]
        lines = [f'host: "{HOST}"', f"port: {port}", "jetstream {", f'  store_dir: "{folder / "data"}"']
        lines += ["  max_file_store: 200GB", "  max_memory_store: 16GB"]
        lines += ["  sync_interval: always"] if durability == "power" else []
        settings = folder / f"nats-{next(_numbers)}.conf"
        settings.write_text("\n".join([*lines, "}"]) + "\n")
        with place.server([[self.program, "-c", str(settings)]], [port], folder) as running:
            yield running

    def make_stream(self, port: int, storage: str = "file") -> None:
        config = {"name": STREAM, "subjects": ["bench.>"], "storage": storage, "num_replicas": 1}
        ask(port, f"$JS.API.STREAM.CREATE.{STREAM}", config)

    def stored(self, port: int) -> int:
        return int(ask(port, f"$JS.API.STREAM.INFO.{STREAM}")["state"]["messages"])

    def time_of(self, port: int, number: int) -> str:
        """When the stream got an event, as text; sequences begin at 1."""
        return str(ask(port, f"$JS.API.STREAM.MSG.GET.{STREAM}", {"seq": number + 1})["message"]["time"])


@dataclass(frozen=True, slots=True)
class Mosquitto:
    """With persistence: what waits for a session is in memory, and in a file that is now and then written anew."""

    program: str
    prompt: bool = False
    """Without Nagle's algorithm, with which short answers take 40 ms; long ones are faster with it."""

    @property
    def version(self) -> str:
        return first_line([self.program, "-h"]).removeprefix("mosquitto version ")

    @contextmanager
    def start(self, place: Place, folder: Path, durability: str = "none") -> Iterator[Running]:
        if durability == "process":
            raise BenchError("it has nothing between")
        port = free_ports(1)[0]
        lines = [f"listener {port} {HOST}", "allow_anonymous true", "log_type error", "max_queued_messages 0"]
        lines += ["persistence true", f"persistence_location {folder}/", "max_inflight_messages 0"]
        lines += ["set_tcp_nodelay true"] if self.prompt else []
        lines += ["autosave_on_changes true", "autosave_interval 1"] if durability == "power" else []
        lines += ["user root"] if os.geteuid() == 0 else []
        settings = folder / "mosquitto.conf"
        settings.write_text("\n".join(lines) + "\n")
        with place.server([[self.program, "-c", str(settings)]], [port], folder) as running:
            yield running


@dataclass(frozen=True, slots=True)
class Latecomer:
    """A broker with a store of `bench/#`; with two, the first has the store, and clients are at the second."""

    program: str

    @contextmanager
    def start(self, place: Place, folder: Path, durability: str = "process", brokers: int = 1) -> Iterator[Running]:
        ports, links, admins = free_ports(brokers), free_ports(brokers), free_ports(brokers)
        commands = []
        for number in range(brokers):
            lines = ["[broker]", f'id = "b{number + 1}"', f'data = "{folder / f"data-{number + 1}"}"']
            lines += [f'durability = "{durability}"', 'log_level = "warning"', "[limits]", "connection_rate = 0"]
            lines += ["queue_messages = 1_000_000", "queue_bytes = 1_000_000_000"]
            lines += ["[[listeners]]", 'kind = "tcp"', f"port = {ports[number]}", "[admin]", f"port = {admins[number]}"]
            if number == 0:
                lines += ["[store]", 'topics = ["bench/#"]', 'keep = "52w"', "capacity = 0"]
                lines += [f'directory = "{store_folder(folder)}"']
            if brokers > 1:
                lines += ["[link]", f"port = {links[number]}", "insecure = true"]
            for other in (number - 1, number + 1):
                if 0 <= other < brokers:
                    lines += [
                        "[[link.neighbours]]",
                        f'id = "b{other + 1}"',
                        f'host = "{HOST}"',
                        f"port = {links[other]}",
                    ]
            settings = folder / f"latecomer-{next(_numbers)}.toml"
            settings.write_text("\n".join(lines) + "\n")
            commands.append([self.program, "broker", "--config", str(settings)])
        with place.server(commands, ports, folder) as running:
            yield running


@dataclass(frozen=True, slots=True)
class Contenders:
    """Who takes part. The engine is the store of Latecomer without a broker around it."""

    jetstream: JetStream | None
    mosquitto: Mosquitto | None
    latecomer: Latecomer | None
    engine: bool


def store_folder(folder: Path) -> Path:
    """Of the broker that has its files in a folder."""
    return folder / "store"


def disk_bytes(folder: Path) -> int:
    """What the files take on disk. Some may go away meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def latecomer_program() -> str:
    beside = Path(sys.executable).with_name("latecomer")
    return str(beside) if beside.exists() else find("latecomer") or "latecomer"
