"""Bad inputs 28, 31, 32 and 35: names that would be paths or commands, foreign web pages, WebSocket tricks."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import urllib.error
import urllib.request

import pytest

from tests.abuse.house import House, nothing_came
from tests.conformance.codec import V5, V311, Hello, P
from tests.conformance.conftest import unique
from tests.conformance.frames import TEXT, WebSocketClient
from tests.conformance.raw import PATIENCE_S, Closed

LASTING = ((P.SESSION_EXPIRY, 600),)
NAMES = (
    *("../../../etc/passwd", "/etc/passwd", "..", ".", "a/../../b", "C:\\x", "con", "NUL", "x" * 300, "é" * 200),
    *("caf\u00e9", "cafe\u0301", "ADMIN", "admin", "%2e%2e%2f", "data; rm -rf /", "x$(id)", "`id`", "' OR 1=1 --"),
)
EVIL = "a\x1b[2J\x1b]0;owned\x07\r\n2026-01-01 00:00:00,000 CRITICAL forged \u202egnp.exe\u2028next"


def test_28_names_that_look_like_paths(house: House) -> None:
    """Names never become file names: nothing appears in the data directory or above it, and twins stay apart."""
    data = house.folder / "data"
    before = {path for path in house.folder.rglob("*") if path.parent != data or "-" not in path.name}
    clients = [house.join(client_id=name, properties=LASTING) for name in NAMES]
    for name, client in zip(NAMES, clients, strict=True):
        client.subscribe((name, 1))
        client.publish(name, name.encode(), retain=True)
        client.take(topic=name, payload=name.encode())
    for client in clients:
        client.disconnect()
    sender = house.join()
    for name in NAMES:
        sender.publish(name, b"while away")
    for name in NAMES:
        back = house.join(client_id=name, clean=False, properties=LASTING)
        assert back.connack.session_present
        back.take(topic=name, payload=b"while away")
        nothing_came(back)
        sender.publish(name, b"", retain=True)
    after = {path for path in house.folder.rglob("*") if path.parent != data or "-" not in path.name}
    assert after == before


def test_32_control_characters_in_the_log(house: House) -> None:
    """One line for one event, and nothing in it that a terminal obeys."""
    at = len(house.log)
    client = house.join(client_id=EVIL)
    with house.noticed("topic_filter_invalid"):
        assert client.subscribe((EVIL + "/#/x", 0)) == [0x8F]
    with house.noticed("not_authorized"):
        client.publish("$SYS/" + EVIL, b"x")
    with house.noticed("not_authorized"):
        assert house.knock(client_id=EVIL + "2", will=None, user=None)[1].reason == 0
        client.publish("$" + EVIL, b"x")
    log = house.log_file.read_bytes()[at:].decode("utf-8")
    assert "\\x1b[2J" in log
    assert all(char.isprintable() or char == "\n" for char in log)
    assert not [line for line in log.splitlines() if line.startswith("2026-01-01")]


def test_32_names_in_the_metrics(house: House) -> None:
    """Whatever clients are called, the reasons are few and ours."""
    for _ in range(20):
        house.join(client_id=unique("someone")).publish("$SYS/" + unique("x"), b"x")
        house.join().subscribe((unique("x") + "/#/x", 0))
    reasons = [name for name in house.metrics() if name.startswith("latecomer_refused")]
    assert len(reasons) < 20
    assert not [name for name in reasons if "someone" in name]


# -- WebSocket ---------------------------------------------------------------------------------------------------------


def web(house: House, version: int = V5, **more: str) -> WebSocketClient:
    client = WebSocketClient("127.0.0.1", house.ports["ws"], version, **more)
    house.clients.append(client)
    return client


def close_code(client: WebSocketClient) -> int:
    with contextlib.suppress(Closed):
        while True:
            client.receive_late()
    return client.close_code


def test_35_a_text_frame(house: House) -> None:
    """[MQTT-6.0.0-1] Control packets are in binary frames."""
    client = web(house)
    client.frame(Hello(client_id="text").encode(), TEXT)
    assert close_code(client) in (1002, 1003)


@pytest.mark.parametrize("protocols", ["", "chat", "mqttv3.1"])
def test_35_another_sub_protocol(house: House, protocols: str) -> None:
    with house.noticed("websocket-upgrade"):
        assert web(house, protocols=protocols).status == 400


def test_35_a_giant_frame(house: House) -> None:
    """Its length is enough; so is that of one which comes in pieces."""
    client = web(house)
    client.connect(Hello(client_id=unique("c")))
    before = house.rss()
    client.socket.sendall(bytes([0x82, 0xFF]) + struct.pack("!Q", 1 << 40) + os.urandom(4))
    assert close_code(client) == 1009
    assert house.rss() - before < 8 * 1024 * 1024


def test_35_a_giant_packet_in_small_frames(house: House) -> None:
    client = web(house)
    client.connect(Hello(client_id=unique("c")))
    with house.noticed("packet_too_large"):
        client.frame(b"\x30\xff\xff\xff\x7f" + b"x" * 1000)
        client.expect_end(0x95)


def test_35_a_foreign_page(house: House) -> None:
    with house.noticed("websocket-origin"):
        assert b" 403 " in ask(house.ports["ws"], "/mqtt", "Origin: https://evil.example\r\n" + UPGRADE)


def test_35_a_page_whose_name_was_pointed_here(house: House) -> None:
    """DNS rebinding: the page is of the host that it addresses, and that host is this machine for the moment."""
    port = house.ports["ws"]
    for host, origin in ((f"evil.example:{port}", f"Origin: http://evil.example:{port}\r\n"), ("evil.example", "")):
        with house.noticed("websocket-host"):
            assert b" 421 " in ask(port, "/mqtt", origin + UPGRADE, host)
    own = f"127.0.0.1:{port}"
    assert b" 101 " in ask(port, "/mqtt", f"Origin: http://{own}\r\n" + UPGRADE, own)


def test_35_another_path_and_no_upgrade(house: House) -> None:
    with house.noticed("websocket-path"):
        assert b" 404 " in ask(house.ports["ws"], "/../mqtt", UPGRADE)
    with house.noticed("websocket-upgrade"):
        assert b" 426 " in ask(house.ports["ws"], "/mqtt", "")


UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: mqtt\r\n"
)


def ask(port: int, path: str, headers: str, host: str = "localhost", verb: str = "GET") -> bytes:
    """The first line of the answer to an HTTP request, written by hand."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        connection.sendall(f"{verb} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n{headers}\r\n".encode())
        return connection.recv(65_536).partition(b"\r\n")[0]


# -- the admin interface -----------------------------------------------------------------------------------------------


def test_31_the_admin_interface(house: House) -> None:
    """No token, another token, another Host (DNS rebinding), another Origin, no JSON: nothing is done."""
    port = house.ports["http"]
    token = (house.folder / "data" / "admin-token").read_text("ascii").strip()
    bearer = f"Authorization: Bearer {token}\r\n"
    assert b" 401 " in ask(port, "/api/v1/overview", "")
    assert b" 401 " in ask(port, "/api/v1/overview", "Authorization: Bearer guess\r\n")
    assert b" 401 " in ask(port, "/api/v1/overview", f"Cookie: token={token}\r\n")
    assert b" 200 " in ask(port, "/api/v1/overview", bearer)
    assert b" 200 " not in ask(port, "/api/v1/overview", bearer, host="evil.example")
    assert b" 200 " not in ask(port, "/metrics", "", host="evil.example")
    for headers in (bearer + "Origin: https://evil.example\r\n", bearer, "Content-Type: application/json\r\n"):
        assert b" 20" not in ask(port, "/api/v1/shutdown", headers, verb="POST")
    head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    huge = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/disconnect", b"x" * 2 * 1024 * 1024, head)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(huge)
    assert refused.value.code in (400, 413)
    refused.value.close()


@pytest.mark.parametrize("version", [V5, V311])
def test_31_an_http_request_at_the_mqtt_port(house: House, version: int) -> None:
    """A web page that makes a browser talk to the broker gets nothing to work with."""
    client = house.raw(version)
    with house.noticed("no connect"):
        client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n" + Hello(client_id="x", version=version).encode())
        client.expect_closed()
