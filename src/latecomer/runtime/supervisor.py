"""Brokers of one network as processes on this machine: started, watched, started again, stopped.

    DIR/lock                  held while a supervisor works here
    DIR/secret                what the brokers prove their belonging with
    DIR/network.toml          the network as it last ran
    DIR/<broker>/settings.toml, broker.log, data/

A rerun on the same folder goes on with the same data.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.runtime import settings
from latecomer.runtime.disk_repair import FILE as DATABASE
from latecomer.runtime.network_file import Network, Seat, read_network, toml, write_network
from latecomer.runtime.private_files import Stamp, stamp

NETWORK = "network.toml"
READY_SECONDS = 60.0
STOP_SECONDS = 10.0
FREE_SECONDS = 5.0
"""Brokers whose supervisor was killed need a moment to go."""
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.5, 30.0
STABLE_SECONDS = 60.0
"""Who has lived this long starts again at once-ish when it dies."""
TICK_SECONDS = 0.05
READY_WORDS = b" is ready: "
"""As `latecomer broker` says it when it takes clients."""
CANNOT = 2
"""The exit code of a broker whose settings cannot work: it would only say so again."""

# Runs in the child, before the broker: PR_SET_PDEATHSIG survives exec. So the brokers of a supervisor that was
# killed end themselves; where there is no prctl they stay, and the next supervisor names the ports they hold.
_BOOT = """
import ctypes, os, signal, sys
prctl = getattr(ctypes.CDLL(None), "prctl", None)
if prctl is not None:
    prctl(1, signal.SIGTERM, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(slots=True)
class Child:
    """One broker and what became of it."""

    seat: Seat
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    log_from: int = 0
    """Where in its log the words of this life begin."""
    ready: bool = False
    pause: float = PAUSE_SECONDS
    again_at: float | None = None
    wanted: bool = True
    """False: whoever ended it does not want it back."""


def settings_of(network: Network, seat: Seat, folder: Path, secret_file: Path) -> dict[str, Any]:
    """The settings file of one broker: what the network shares, and its own place in it."""
    own: dict[str, Any] = {
        "broker": {"id": seat.id, "data": str(folder / "data")},
        "listeners": [
            {"kind": "tcp", "host": seat.host, "port": seat.port},
            {"kind": "ws", "host": seat.host, "port": seat.websocket_port},
        ],
        "link": {
            "host": seat.host,
            "port": seat.link_port,
            "secret_file": str(secret_file),
            "neighbours": [
                {"id": other.id, "host": other.host, "port": other.link_port, "cost_us": cost_us}
                for other, cost_us in network.neighbours(seat.id)
            ],
        },
        "admin": {"host": seat.host, "port": seat.admin_port},
    }
    if seat.store:
        own["store"] = {"topics": list(seat.store)}
    return _merged(dict(network.settings), own)


class Supervisor:
    """Owns the processes; single-threaded, so call `watch` now and then or `run`."""

    def __init__(
        self,
        network: Network,
        folder: Path,
        *,
        restart: bool = True,
        tell: Callable[[str], None] = lambda line: None,
        command: Sequence[str] = (sys.executable, "-m", "latecomer", "broker"),
    ) -> None:
        self.network = network
        self.folder = folder.absolute()
        self.restart = restart
        self.tell = tell
        self.command = tuple(command)
        self.children = {seat.id: Child(seat) for seat in network.brokers}
        self.stopping = False
        """Set by whoever wants the end, a signal handler for one."""
        self.patience_seconds = STOP_SECONDS
        """How long a broker may take to leave."""
        self._lock: int | None = None
        self._seen: Stamp | None = None
        """How the file of the network was when it was looked at last."""

    # -- starting

    def start(self) -> None:
        """Start every broker, and return when all of them serve clients."""
        if self._lock is None:
            self.take_folder()
        try:
            self._wait_for_ports()
            self._write_files()
            for child in self.children.values():
                self._spawn(child)
            self._wait_until_ready(list(self.children.values()))
        except BaseException:
            self.stop()
            raise

    def take_folder(self) -> None:
        """See that nobody else uses the folder; the first thing to do, also before anything is said."""
        if (self.folder / DATABASE).exists():
            problem = f"{self.folder} is the data folder of a single broker; name another one for a network"
            raise SettingsError("--data", problem)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError("--data", f"{self.folder} is in use by another 'latecomer up'") from None

    def _wait_for_ports(self) -> None:
        until = time.monotonic() + FREE_SECONDS
        while True:
            taken = taken_port(self.network)
            if taken is None:
                return
            if time.monotonic() > until:
                seat, what, port = taken
                raise SettingsError(
                    "--base-port", f"port {port} on {seat.host} is taken, and {seat.id} wants it as its {what}"
                )
            self._breathe()

    def _write_files(self) -> None:
        secret = self.folder / "secret"
        if not secret.exists():
            _write(secret, secrets.token_urlsafe(32) + "\n")
        _write(self.folder / NETWORK, write_network(self.network))
        self._seen = stamp(self.folder / NETWORK)
        for seat in self.network.brokers:
            folder = self.folder / seat.id
            folder.mkdir(exist_ok=True)
            text = toml(settings_of(self.network, seat, folder, secret))
            settings.loads(text, f"settings of {seat.id}", folder)  # a mistake is told before anybody is started
            _write(folder / "settings.toml", text)

    def _spawn(self, child: Child) -> None:
        folder = self.folder / child.seat.id
        boot = (sys.executable, "-I", "-S", "-c", _BOOT, str(os.getpid()))
        command = (*boot, *self.command, "--config", str(folder / "settings.toml"))
        with (folder / "broker.log").open("ab") as log:
            child.log_from = log.tell()
            # A session of its own: Ctrl-C at the terminal is for the supervisor, who then stops all in order.
            child.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        child.started = time.monotonic()
        child.ready = False
        child.again_at = None
        child.wanted = True

    def _wait_until_ready(self, children: Sequence[Child]) -> None:
        until = time.monotonic() + READY_SECONDS
        while not all(child.ready for child in children):
            for child in children:
                self._look(child)
                process = child.process
                if not child.ready and process is not None and process.poll() is not None:
                    raise LatecomerError(f"{child.seat.id} {ending(process.returncode)}: {self.last_words(child)}")
            if time.monotonic() > until:
                late = ", ".join(child.seat.id for child in children if not child.ready)
                raise LatecomerError(f"not ready after {READY_SECONDS:g} s: {late}; see broker.log in {self.folder}")
            self._breathe()

    def _breathe(self) -> None:
        time.sleep(TICK_SECONDS)
        if self.stopping:
            raise KeyboardInterrupt

    # -- watching

    def run(self) -> None:
        """Watch until somebody sets `stopping`; a signal handler may."""
        while not self.stopping:
            self.watch()
            time.sleep(TICK_SECONDS)

    def watch(self) -> None:
        """Notice who has died and who is back; start again who is due."""
        now = time.monotonic()
        self._look_at_network()
        for child in list(self.children.values()):
            process = child.process
            if process is not None and process.poll() is not None:
                self._died(child, process.returncode, now)
            elif process is not None and not child.ready:
                self._look(child)
                if child.ready:
                    self.tell(f"{child.seat.id} is back")
            elif child.again_at is not None and now >= child.again_at:
                self._spawn(child)

    def _look_at_network(self) -> None:
        """Start brokers that joined (`latecomer join`), and let go of those that left (`latecomer leave`)."""
        file = self.folder / NETWORK
        seen = stamp(file)
        if seen is None or seen == self._seen:
            return
        self._seen = seen
        try:
            network = read_network(file)
        except SettingsError as error:
            self.tell(f"the network stays as it is: {error}")
            return
        seats = {seat.id: seat for seat in network.brokers}
        for id in [id for id, child in self.children.items() if id not in seats and child.process is None]:
            del self.children[id]
        for id, seat in seats.items():
            if id not in self.children and (self.folder / id / "settings.toml").exists():
                self.tell(f"{id} joins the network")
                self.children[id] = Child(seat)
                self._spawn(self.children[id])
        self.network = network

    def _died(self, child: Child, code: int, now: float) -> None:
        child.process = None
        child.ready = False
        if child.seat not in self.network.brokers:
            del self.children[child.seat.id]
            self.tell(f"{child.seat.id} has left the network")
            return
        told = f"{child.seat.id} {ending(code)}"
        if code > 0:
            told += f": {self.last_words(child)}"
        if not (self.restart and child.wanted) or code == CANNOT:
            self.tell(f"{told}; it stays down")
            return
        if now - child.started > STABLE_SECONDS:
            child.pause = PAUSE_SECONDS
        child.again_at = now + child.pause
        self.tell(f"{told}; starting it again in {child.pause:g} s")
        child.pause = min(child.pause * 2, PAUSE_SECONDS_MAX)

    def _look(self, child: Child) -> None:
        """A broker is ready when it says so: an answer at its port could be anybody's."""
        if child.ready:
            return
        with (self.folder / child.seat.id / "broker.log").open("rb") as log:
            log.seek(child.log_from)
            child.ready = READY_WORDS in log.read()

    def last_words(self, child: Child) -> str:
        """The last line a broker wrote."""
        log = self.folder / child.seat.id / "broker.log"
        lines = log.read_bytes()[-4096:].decode("utf-8", "replace").splitlines() if log.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), f"nothing in {log}")

    # -- by hand

    def kill(self, broker: BrokerId, number: int = signal.SIGKILL) -> None:
        """End one broker, which stays down until `revive`."""
        child = self.children[broker]
        child.wanted = False
        child.again_at = None
        if child.process is not None:
            child.process.send_signal(number)
            child.process.wait()
            child.process = None
        child.ready = False

    def revive(self, broker: BrokerId, *, wait: bool = True) -> None:
        """Start one broker again, on its old data."""
        self._spawn(self.children[broker])
        if wait:
            self._wait_until_ready([self.children[broker]])

    # -- stopping

    def stop(self) -> None:
        """Ask everybody to leave; insist after a while."""
        self.stopping = True
        running = [child.process for child in self.children.values() if child.process is not None]
        for process in running:
            process.terminate()
        begun = time.monotonic()
        while any(process.poll() is None for process in running):
            if time.monotonic() - begun > self.patience_seconds:
                for process in running:
                    process.kill()
            time.sleep(TICK_SECONDS)
        for child in self.children.values():
            child.process = None
            child.again_at = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def taken_port(network: Network) -> tuple[Seat, str, int] | None:
    """The first port that somebody else listens on."""
    for seat in network.brokers:
        for what, port in seat.ports().items():
            try:
                found = socket.getaddrinfo(seat.host, port, type=socket.SOCK_STREAM)[0]
            except socket.gaierror:
                raise SettingsError("brokers.host", f"there is no host {seat.host!r}") from None
            with socket.socket(found[0], found[1]) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(found[4])
                except OSError as error:
                    if error.errno == errno.EADDRNOTAVAIL:
                        problem = f"{seat.host} is not an address of this machine; name one that is, or 0.0.0.0 for all"
                        raise SettingsError("--host", problem) from None
                    if error.errno == errno.EACCES:
                        problem = f"only root may listen on port {port}; choose one from 1024 on"
                        raise SettingsError("--base-port", problem) from None
                    return seat, what, port
    return None


def ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _write(file: Path, text: str) -> None:
    """For the owner alone, and never half of it."""
    draft = file.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)
    draft.replace(file)


def _merged(shared: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A broker's own place wins over what all share; tables are joined."""
    both = dict(shared)
    for key, value in own.items():
        known = both.get(key)
        both[key] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return both
