"""Bad inputs 5 and 6 before MQTT begins: connections that stay in the handshakes of TLS and WebSocket."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.abuse.house import House, settled
from tests.conformance.codec import Hello
from tests.conformance.raw import PATIENCE_S

MOST = 5
RATE_EXCEEDED = 0x9F
HELLO = b"\x16\x03\x01\x02\x00\x01\x00"
"""How a TLS client begins."""


def prepare(folder: Path) -> dict[str, Any]:
    certificate = trustme.CA().issue_cert("localhost", "127.0.0.1")
    path = folder / "server.pem"
    certificate.private_key_and_cert_chain_pem.write_to_path(str(path))
    path.chmod(0o600)
    files = {"certificate": path, "key": path, "port": 0}
    return {
        "listeners": [{"port": 0}, {"kind": "tls", **files}, {"kind": "ws", "port": 0}, {"kind": "wss", **files}],
        "limits": {"connect_s": 3.0, "connections_per_address": MOST},
    }


def dial(house: House, scheme: str, number: int = 1) -> socket.socket:
    """From an address of its own: the others of the module do not count."""
    return socket.create_connection(("127.0.0.1", house.ports[scheme]), PATIENCE_S, (f"127.0.9.{number}", 0))


def ended(connection: socket.socket) -> bytes:
    """What came before the end."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(65_536):
            found += more
    return found


@pytest.mark.parametrize(
    ("scheme", "begun", "reason"),
    [
        ("mqtts", b"", "tls"),
        ("mqtts", HELLO, "tls"),
        ("wss", b"", "tls"),
        ("ws", b"", "websocket-slow"),
        ("ws", b"GET /mqtt HTTP/1.1\r\nHost: loc", "websocket-slow"),
    ],
)
def test_05_silence_in_a_handshake(house: House, scheme: str, begun: bytes, reason: str) -> None:
    """It ends with `connect_s`, long before the event loop would end it by itself (60 s)."""
    line = "no TLS handshake with 127.0.9.1" if reason == "tls" else ""
    with house.noticed(reason, line), dial(house, scheme) as connection:
        connection.sendall(begun)
        ended(connection)


@contextlib.contextmanager
def encrypted(house: House, number: int) -> Iterator[ssl.SSLSocket]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with dial(house, "mqtts", number) as plain, context.wrap_socket(plain) as connection:
        yield connection


def test_05_silence_behind_a_handshake(house: House) -> None:
    with house.noticed("no connect", "no CONNECT within 3 s"), encrypted(house, 1) as connection:
        assert connection.recv(1) == b""


def answer(house: House, number: int) -> int:
    """The reason code that a client is answered on the TLS listener."""
    with encrypted(house, number) as connection:
        connection.sendall(Hello(client_id="late").encode())
        head = connection.recv(4)
        while len(head) < 4:
            head += connection.recv(4 - len(head))
        return head[3]


@pytest.mark.parametrize(("scheme", "number"), [("mqtts", 2), ("ws", 3), ("wss", 4)])
def test_06_connections_in_a_handshake_count(house: House, scheme: str, number: int) -> None:
    """As many silent ones as one address may have, and the next one is refused; when they are gone it is let in."""
    assert answer(house, number) == 0
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(dial(house, scheme, number)) for _ in range(MOST)]
        settled(lambda: house.metrics()["latecomer_handshakes"] == MOST, "they are accepted")
        assert answer(house, number) == RATE_EXCEEDED
        assert answer(house, number + 10) == 0, "others are not concerned"
        for connection in silent:
            ended(connection)
    settled(lambda: answer(house, number) == 0, "there is room again")
