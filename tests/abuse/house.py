"""A real broker process for a module of bad inputs, and what an operator would see of them: log, metrics, memory."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.codec import PUBLISH, V5, Hello, Packet
from tests.conformance.conftest import START_S, unique
from tests.conformance.raw import PATIENCE_S, Client

LONG = os.environ.get("LATECOMER_ABUSE", "") == "long"
"""`make abuse`: the same stories with numbers that take minutes."""

READY = re.compile(r"is ready: (.*)")
MiB = 1024 * 1024


def toml(settings: Mapping[str, Any]) -> str:
    """Settings by section; a list of mappings is an array of tables."""
    lines = []
    for section, values in settings.items():
        for table in values if isinstance(values, list) else [values]:
            lines.append(f"[[{section}]]" if isinstance(values, list) else f"[{section}]")
            lines += [f"{key} = {_value(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return str(value) if isinstance(value, int | float) else '"' + str(value) + '"'


def settled(question: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Ask until the answer is yes."""
    end = time.monotonic() + patience_s
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < end, f"{what}: not within {patience_s:g} s"
        time.sleep(0.02)


@dataclass
class House:
    """A broker and who visits it."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    ports: dict[str, int] = field(default_factory=dict)
    """By scheme: mqtt, ws, http."""
    clients: list[Client] = field(default_factory=list)
    files: int = 0
    """The broker's limit on open files, if the test has one."""

    def write(self) -> Path:
        """The settings file, with everything on ports of its own."""
        listeners = [{"kind": "tcp", "port": 0}, {"kind": "ws", "port": 0}]
        whole = {
            "broker": {"durability": "process", **self.settings.get("broker", {})},
            "listeners": self.settings.get("listeners", listeners),
            "admin": {"port": 0},
            "event_log": {"enabled": False},
        }
        whole |= {key: value for key, value in self.settings.items() if key not in whole}
        path = self.folder / "broker.toml"
        path.write_text(toml(whole), "utf-8")
        path.chmod(0o600)  # some have secrets in it
        return path

    @property
    def command(self) -> list[str]:
        data = self.settings.get("broker", {}).get("data", self.folder / "data")
        limited = ["sh", "-c", f'ulimit -n {self.files}; exec "$@"', "sh"] if self.files else []
        ours = [sys.executable, "-m", "latecomer", "broker", "--config", str(self.write()), "--data", str(data)]
        return limited + ours

    @property
    def log_file(self) -> Path:
        return self.folder / "log"

    @property
    def log(self) -> str:
        return self.log_file.read_text("utf-8", "replace")

    def start(self) -> None:
        with self.log_file.open("ab") as output:
            before = output.tell()
            self.process = subprocess.Popen(self.command, stdout=output, stderr=subprocess.STDOUT)

        def ready() -> re.Match[str] | None:
            assert self.process is not None
            found = READY.search(self.log, before)
            assert found or self.process.poll() is None, f"the broker does not start:\n{self.log}"
            return found

        addresses = settled(ready, "the broker is ready", START_S).group(1)
        self.ports = {scheme: int(port) for scheme, port in re.findall(r"(\w+)://[^:]+:(\d+)", addresses)}

    def stop(self, *, kill: bool = False) -> None:
        for client in self.clients:
            client.close()
        self.clients.clear()
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    # -- visitors ----------------------------------------------------------------------------------------------------

    def raw(self, version: int = V5, source: str = "") -> Client:
        """A connection on which nothing has been said; `source` is an address of this machine to come from."""
        client = Client("127.0.0.1", self.ports["mqtt"], version)
        if source:
            client.close()
            client.socket = socket.create_connection(("127.0.0.1", self.ports["mqtt"]), PATIENCE_S, (source, 0))
        self.clients.append(client)
        return client

    def join(self, version: int = V5, **hello: Any) -> Client:
        """A client that is connected."""
        client, connack = self.knock(version, **hello)
        assert connack.reason == 0, f"{connack} instead of a welcome"
        return client

    def knock(self, version: int = V5, source: str = "", **hello: Any) -> tuple[Client, Packet]:
        """A client, and what it was answered."""
        hello.setdefault("client_id", unique("c"))
        client = self.raw(version, source)
        return client, client.connect(Hello(version=version, **hello))

    # -- what an operator sees ---------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """By name with labels, as Prometheus writes it."""
        url = f"http://127.0.0.1:{self.ports['http']}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def refused(self, reason: str) -> float:
        return self.metrics().get(f'latecomer_refused_total{{reason="{reason}"}}', 0)

    def dropped(self, reason: str) -> float:
        return self.metrics().get(f'latecomer_dropped_total{{reason="{reason}"}}', 0)

    @contextlib.contextmanager
    def noticed(self, reason: str, log: str = "", times: int = 1) -> Iterator[None]:
        """What happens inside is counted so often under this reason, and leaves a line in the log."""
        before, at = self.refused(reason), len(self.log)
        yield
        settled(lambda: self.refused(reason) >= before + times, f"refused{{reason={reason!r}}} counts {times} more")
        assert self.refused(reason) == before + times, f"refused{{reason={reason!r}}} counts more than {times}"
        if log:
            settled(lambda: log in self.log[at:], f"the log says {log!r}")

    def rss(self) -> int:
        """Bytes of memory the broker holds."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def is_well(self) -> None:
        """It runs, and has met nothing it did not foresee."""
        assert self.process is not None
        assert self.process.poll() is None, f"the broker died:\n{self.log[-3000:]}"
        assert "Traceback" not in self.log, self.log[self.log.index("Traceback") - 500 :][:5000]


@contextlib.contextmanager
def running(folder: Path, files: int = 0, **settings: Any) -> Iterator[House]:
    """A broker for as long as this lasts; it must be well at the end."""
    house = House(folder, settings, files=files)
    try:
        house.start()
        yield house
        house.is_well()
    finally:
        house.stop()


class Probe:
    """A client that behaves well: whatever others do, its messages go round."""

    def __init__(self, house: House, **hello: Any) -> None:
        self.client = house.join(client_id="probe", **hello)
        house.clients.remove(self.client)  # it stays for all tests of a module
        self.topic = unique("probe/")
        assert self.client.subscribe((self.topic, 1)) == [1]

    def round_trip(self) -> None:
        payload = unique("").encode()
        answer = self.client.publish(self.topic, payload)
        assert answer is not None
        assert answer.reason == 0
        found = self.client.take()
        assert (found.topic, found.payload) == (self.topic, payload)


@contextlib.contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[Path]:
    """A file system of so many MiB."""
    folder.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system needs the right to mount one")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def ballast(folder: Path, leaves: int) -> Iterator[None]:
    """A file that leaves so many bytes of the disk."""
    found = os.statvfs(folder)
    path = folder / "ballast"
    path.write_bytes(bytes(found.f_bavail * found.f_frsize - leaves))
    yield
    path.unlink()


def nothing_came(client: Client) -> None:
    """Not one message was routed to this client."""
    came = [found for found in client.leftovers() if found.kind == PUBLISH]
    assert not came, f"{', '.join(map(str, came))} instead of nothing"
