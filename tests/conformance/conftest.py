"""A broker for every worker, reached by host and port alone, and clients that leave when their test is over.

Without settings the suite starts `latecomer broker`. `LATECOMER_CONFORMANCE=host:port` takes one that runs already,
with `LATECOMER_CONFORMANCE_WS=host:port` for its WebSockets. `LATECOMER_CONFORMANCE_COMMAND="mosquitto -p {port}"`
starts another program; it may name {port}, {ws_port} and {data}, a folder of its own.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.codec import V5, Hello
from tests.conformance.deviations import DEVIATIONS
from tests.conformance.raw import Client

GIVEN = os.environ.get("LATECOMER_CONFORMANCE", "")
GIVEN_WS = os.environ.get("LATECOMER_CONFORMANCE_WS", "")
COMMAND = os.environ.get("LATECOMER_CONFORMANCE_COMMAND", "")
START_S = 60

SETTINGS = """
[[listeners]]
kind = "tcp"
port = {port}

[[listeners]]
kind = "ws"
port = {ws_port}

[access]
users_file = "{users}"

[admin]
enabled = false
"""

USER, PASSWORD = "somebody", "a password"
"""Whom our broker knows; everybody else is anonymous, or wrong."""


@dataclass(frozen=True)
class Place:
    """Where the broker under test is."""

    host: str
    port: int
    ws_port: int | None
    ours: bool
    """Its limits are Latecomer's, and can be tested as well."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What another broker is known to do differently is expected of it, so that the rest of its run can be judged."""
    known = next((table for name, table in DEVIATIONS.items() if name in COMMAND), {})
    for item in items:
        test = item.nodeid.rpartition("::")[2]
        why = known.get(test) or known.get(test.partition("[")[0])
        if why and "conformance" in item.nodeid:
            item.add_marker(pytest.mark.xfail(reason=why, strict=False))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"{process.args!r} does not answer on port {port}:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if GIVEN:
        yield Place(*split(GIVEN), split(GIVEN_WS)[1] if GIVEN_WS else None, ours=False)
        return
    folder = tmp_path_factory.mktemp("broker")
    port, ws_port = free_port(), free_port()
    config, log = folder / "broker.toml", folder / "log"
    if not COMMAND:
        users = folder / "users"
        config.write_text(SETTINGS.format(port=port, ws_port=ws_port, users=users), "utf-8")
        add_user = [
            sys.executable,
            "-m",
            "latecomer",
            "user",
            "add",
            USER,
            "--file",
            str(users),
            "--password-file",
            "-",
        ]
        subprocess.run(add_user, input=PASSWORD.encode(), check=True, timeout=START_S, stdout=subprocess.DEVNULL)
    ours = f"{sys.executable} -m latecomer broker --data {{data}} --config {{config}}"
    text = (COMMAND or ours).format(port=port, ws_port=ws_port, data=folder / "data", config=config)
    with log.open("wb") as output:
        process = subprocess.Popen(shlex.split(text), stdout=output, stderr=subprocess.STDOUT)
    try:
        web = ws_port if not COMMAND or "{ws_port}" in COMMAND else None
        for listening in (port, web):
            if listening:
                await_port(listening, process, log)
        yield Place("127.0.0.1", port, web, ours=not COMMAND)
        assert process.poll() is None, f"the broker died:\n{log.read_text('utf-8', 'replace')[-2000:]}"
    finally:
        process.terminate()
        try:
            process.wait(START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Join:
    """Makes clients of the broker under test and closes what they leave open."""

    def __init__(self, broker: Place) -> None:
        self.broker = broker
        self.clients: list[Client] = []

    def raw(self, version: int = V5) -> Client:
        """A connection on which nothing has been said."""
        self.clients.append(Client(self.broker.host, self.broker.port, version))
        return self.clients[-1]

    def __call__(self, version: int = V5, **hello: Any) -> Client:
        """A client that is connected; without a client id it gets one that no other test has."""
        hello.setdefault("client_id", unique("c"))
        client = self.raw(version)
        connack = client.connect(Hello(version=version, **hello))
        assert connack.reason == 0, f"{connack} instead of a welcome"
        return client


def unique(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:20]


@pytest.fixture
def join(broker: Place) -> Iterator[Join]:
    joining = Join(broker)
    yield joining
    for client in joining.clients:
        client.close()


@pytest.fixture
def topic() -> str:
    """A topic that no other test has."""
    return unique("t")
