"""Brokers as plug-ins: how each is set up for a variant, started, waited for, looked at and stopped."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from bench.book import BenchError
from bench.broker.scenarios import PLAIN, Load, Variant

START_SECONDS = 30.0
STOP_SECONDS = 5.0
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Certificate:
    """Self-signed, made for this run."""

    certificate: Path
    key: Path


@dataclass(slots=True)
class Running:
    """Processes that are one broker, or a chain of them."""

    ports: list[int]
    processes: list[subprocess.Popen[bytes]]
    log: Path

    @property
    def port(self) -> int:
        """Where publishers connect."""
        return self.ports[0]

    @property
    def sub_port(self) -> int:
        return self.ports[-1]

    def wait_for_ports(self) -> None:
        end = time.monotonic() + START_SECONDS
        for port in self.ports:
            while not accepts(port):
                if any(process.poll() is not None for process in self.processes):
                    raise BenchError(f"ended at once: {self.last_words()}")
                if time.monotonic() > end:
                    raise BenchError(f"does not listen on port {port}: {self.last_words()}")
                time.sleep(0.02)

    def pids(self) -> list[int]:
        """All processes, with those that they started."""
        found = [process.pid for process in self.processes]
        for pid in found:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                found += map(int, task.read_text().split())
        return found

    def rss_kib(self) -> int:
        """Resident memory of all processes."""
        total = 0
        for process in self.processes:
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1])
        return total

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it said nothing"

    def stop(self) -> None:
        """Ask, wait, insist. Each process leads a group of its own, and the group goes with it."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.processes:
                if process.poll() is None:
                    os.killpg(process.pid, number)
            end = time.monotonic() + STOP_SECONDS
            while time.monotonic() < end and any(process.poll() is None for process in self.processes):
                time.sleep(0.01)


class Broker(Protocol):
    """What the harness wants from a broker."""

    @property
    def name(self) -> str:
        """As the tables call it."""

    def missing(self) -> str | None:
        """Why it cannot be had here; None: it can. May take its time once, to install it."""

    def refuses(self, variant: Variant, load: Load) -> str | None:
        """Why there is no such variant of it, or why it cannot carry such a load; None: there is."""

    def dialect(self, load: Load) -> tuple[str, ...]:
        """Options with which the load generator speaks to it."""

    def heeded(self, variant: Variant) -> Variant:
        """The variant without what makes no difference to this broker."""

    def commands(
        self, ports: Sequence[int], folder: Path, variant: Variant, tls: Certificate | None
    ) -> list[list[str]]:
        """Write the settings into the folder, and say what to run: one command for each port."""


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def free_ports(count: int) -> list[int]:
    """Ports that are free now. All are taken before any is given back, so they differ."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind((HOST, 0))
    ports: list[int] = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def start(broker: Broker, folder: Path, variant: Variant, tls: Certificate | None, core: int | None) -> Running:
    """Start it on its core, and wait until it listens."""
    folder.mkdir(parents=True)
    log = folder / "log"
    ports = free_ports(variant.brokers)
    running = Running(ports, [], log)
    try:
        for command in broker.commands(ports, folder, variant, tls):
            with log.open("ab") as output:
                process = subprocess.Popen(
                    command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )
            running.processes.append(process)
            if core is not None:
                os.sched_setaffinity(process.pid, {core})
        running.wait_for_ports()
    except FileNotFoundError as error:
        running.stop()
        raise BenchError(f"{error.filename} is not there") from None
    except BaseException:
        running.stop()
        raise
    return running


def make_certificate(folder: Path) -> Certificate | None:
    """None: there is no `openssl` here that can."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    who = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    try:
        subprocess.run(["openssl", "req", "-x509", *kind, *who, *files], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    made.key.chmod(0o600)
    return made


@dataclass(slots=True)
class Mosquitto:
    """As installed: no persistence, 20 messages in flight. Nagle's algorithm is on, as by default, where that makes it
    faster, and off where single messages are waited for: with it some of them take 40 ms."""

    name: str = "mosquitto"

    def program(self) -> str | None:
        return shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

    def missing(self) -> str | None:
        return None if self.program() else "mosquitto is not installed"

    def refuses(self, variant: Variant, load: Load) -> str | None:
        if variant.durable:
            return "it never waits for the disk"
        if not variant.event_log:
            return "it has no event log"
        return None

    def dialect(self, load: Load) -> tuple[str, ...]:
        return ()

    def heeded(self, variant: Variant) -> Variant:
        return variant

    def commands(
        self, ports: Sequence[int], folder: Path, variant: Variant, tls: Certificate | None
    ) -> list[list[str]]:
        commands = []
        for number, port in enumerate(ports):
            settings = folder / f"mosquitto-{number}.conf"
            before = ports[number - 1] if number else None
            settings.write_text("\n".join(self.settings(port, before, variant, tls)) + "\n")
            commands.append([self.program() or "mosquitto", "-c", str(settings)])
        return commands

    def settings(self, port: int, before: int | None, variant: Variant, tls: Certificate | None) -> list[str]:
        lines = [f"listener {port} {HOST}", "allow_anonymous true", "log_type error"]
        if os.geteuid() == 0:
            lines.append("user root")  # it would give up its rights, and with them this folder
        if variant.prompt:
            lines.append("set_tcp_nodelay true")
        if variant.unlimited_queue:
            lines.append("max_queued_messages 0")
        if variant.tls and tls:
            lines += [f"certfile {tls.certificate}", f"keyfile {tls.key}"]
        if before is not None:
            lines += [f"connection bridge-{port}", f"address {HOST}:{before}", "topic # both 1"]
            lines += ["notifications false", "restart_timeout 1"]
        return lines


@dataclass(slots=True)
class Nats:
    """A cluster of servers that are linked: QoS 0 by its own protocol, or QoS 1 by its MQTT. For that JetStream keeps
    every message in a file, though it does not wait for the disk."""

    mqtt: bool

    @property
    def name(self) -> str:
        return "nats-mqtt" if self.mqtt else "nats"

    def program(self) -> str | None:
        return shutil.which("nats-server", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

    def missing(self) -> str | None:
        return None if self.program() else "nats-server is not installed"

    def refuses(self, variant: Variant, load: Load) -> str | None:
        if variant.brokers != 2:
            return "it is measured as a cluster of two: of three, each is linked with each, which is no line"
        if load.qos != self.mqtt:
            return f"it is measured with QoS {int(self.mqtt)} only"
        if load.v5 or variant.durable or variant.tls or not variant.event_log:
            return "it has nothing like it"
        return None

    def dialect(self, load: Load) -> tuple[str, ...]:
        return () if self.mqtt else ("--nats",)

    def heeded(self, variant: Variant) -> Variant:
        return replace(variant, prompt=False, unlimited_queue=False)

    def commands(
        self, ports: Sequence[int], folder: Path, variant: Variant, tls: Certificate | None
    ) -> list[list[str]]:
        links, others = free_ports(len(ports)), free_ports(len(ports))
        routes = ", ".join(f'"nats://{HOST}:{link}"' for link in links)
        commands = []
        for number, port in enumerate(ports):
            own = others[number] if self.mqtt else port
            lines = [f"server_name: n{number}", f'host: "{HOST}"', f"port: {own}"]
            lines += [f'cluster {{ name: bench, host: "{HOST}", port: {links[number]}, routes: [{routes}] }}']
            if self.mqtt:
                lines += [f'jetstream {{ store_dir: "{folder / f"data-{number}"}" }}']
                lines += [f'mqtt {{ host: "{HOST}", port: {port} }}']
            settings = folder / f"nats-{number}.conf"
            settings.write_text("\n".join(lines) + "\n")
            commands.append([self.program() or "nats-server", "-c", str(settings)])
        return commands


@dataclass(slots=True)
class Amqtt:
    """In an environment of its own, made once and kept in the cache."""

    cache: Path
    version: str = "0.12.1"
    name: str = "amqtt"
    _why: str | None = field(default=None, init=False)

    @property
    def folder(self) -> Path:
        return self.cache / f"amqtt-{self.version}"

    def missing(self) -> str | None:
        ready = self.folder / "ready"
        if ready.exists() or self._why:
            return self._why
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(self.folder)], check=True, capture_output=True)
            pip = [str(self.folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, f"amqtt=={self.version}"], check=True, capture_output=True, timeout=300)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError):
            self._why = f"amqtt {self.version} cannot be installed with pip here"
        else:
            ready.touch()
        return self._why

    def refuses(self, variant: Variant, load: Load) -> str | None:
        if load.v5:
            return "it speaks 3.1.1 only"
        if variant.durable or not variant.event_log or variant.brokers > 1:
            return "it has nothing like it"
        return None

    def dialect(self, load: Load) -> tuple[str, ...]:
        return ()

    def heeded(self, variant: Variant) -> Variant:
        return replace(variant, prompt=False, unlimited_queue=False)

    def commands(
        self, ports: Sequence[int], folder: Path, variant: Variant, tls: Certificate | None
    ) -> list[list[str]]:
        lines = ["listeners:", "  default:", "    type: tcp", f"    bind: {HOST}:{ports[0]}", "    max_connections: 0"]
        if variant.tls and tls:
            lines += ["    ssl: true", f"    certfile: {tls.certificate}", f"    keyfile: {tls.key}"]
        # Without the two plug-ins of its default file that write every packet to the log.
        lines += ["plugins:", "  amqtt.plugins.authentication.AnonymousAuthPlugin:", "    allow_anonymous: true"]
        settings = folder / "amqtt.yaml"
        settings.write_text("\n".join(lines) + "\n")
        # Its command line logs at level INFO, a line per connection; warnings are enough.
        code = (
            "import logging, sys; logging.disable(logging.INFO); from amqtt.scripts.broker_script import main; "
            f"sys.argv = ['amqtt', '-c', {str(settings)!r}]; main()"
        )
        return [[str(self.folder / "bin" / "python"), "-c", code]]


@dataclass(slots=True)
class Latecomer:
    """Everything on; kept nowhere unless the variant is durable. The limits that a load would meet are lifted."""

    program: tuple[str, ...]
    """The words before its verb."""
    name: str = "latecomer"

    def missing(self) -> str | None:
        help_text = subprocess.run([*self.program, "broker", "--help"], capture_output=True, check=False)
        return "it has no verb `broker`" if help_text.returncode else None

    def refuses(self, variant: Variant, load: Load) -> str | None:
        return None

    def dialect(self, load: Load) -> tuple[str, ...]:
        return ()

    def heeded(self, variant: Variant) -> Variant:
        return replace(variant, prompt=False, unlimited_queue=False)

    def commands(
        self, ports: Sequence[int], folder: Path, variant: Variant, tls: Certificate | None
    ) -> list[list[str]]:
        more = free_ports(2 * len(ports))
        links, admins = more[: len(ports)], more[len(ports) :]
        commands = []
        for number, port in enumerate(ports):
            settings = folder / f"latecomer-{number}.toml"
            settings.write_text(self.settings(number, port, links, admins[number], folder, variant, tls))
            commands.append([*self.program, "broker", "--config", str(settings)])
        return commands

    def settings(
        self,
        number: int,
        port: int,
        links: list[int],
        admin: int,
        folder: Path,
        variant: Variant,
        tls: Certificate | None,
    ) -> str:
        yes = {True: "true", False: "false"}
        lines = ["[broker]", f'id = "b{number}"', f'data = "{folder / f"data-{number}"}"']
        lines += [f'durability = "{"power" if variant.durable else "none"}"', 'log_level = "warning"']
        lines += ["[[listeners]]", f'kind = "{"tls" if variant.tls else "tcp"}"', f"port = {port}"]
        if variant.tls and tls:
            lines += [f'certificate = "{tls.certificate}"', f'key = "{tls.key}"']
        lines += ["[limits]", "connections = 20000", "connection_rate = 0"]
        lines += ["[admin]", f"port = {admin}", "[event_log]", f"enabled = {yes[variant.event_log]}"]
        if len(links) > 1:
            lines += ["[link]", f"port = {links[number]}", "insecure = true"]
            for other in (number - 1, number + 1):
                if 0 <= other < len(links):
                    lines += ["[[link.neighbours]]", f'id = "b{other}"', f'host = "{HOST}"', f"port = {links[other]}"]
        return "\n".join(lines) + "\n"


@dataclass(slots=True)
class Other:
    """`--broker NAME=COMMAND`, with {port} and {data} in the command where they belong."""

    name: str
    command: str

    def missing(self) -> str | None:
        words = self.command.split()
        return None if words and shutil.which(words[0]) else f"{words[0] if words else 'the command'} is not there"

    def refuses(self, variant: Variant, load: Load) -> str | None:
        return None if self.heeded(variant) == PLAIN else "a command has no variants"

    def dialect(self, load: Load) -> tuple[str, ...]:
        return ()

    def heeded(self, variant: Variant) -> Variant:
        return replace(variant, prompt=False, unlimited_queue=False)

    def commands(
        self, ports: Sequence[int], folder: Path, variant: Variant, tls: Certificate | None
    ) -> list[list[str]]:
        # Word by word, so that a folder with a space in it stays one word.
        return [[word.replace("{port}", str(ports[0])).replace("{data}", str(folder)) for word in self.command.split()]]
