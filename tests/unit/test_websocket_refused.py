"""What a WebSocket client can do wrong, before the upgrade and after it."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from websockets.asyncio.client import connect

from latecomer.model.errors import ProtocolError
from latecomer.runtime.websocket import EARLY_MAX, HEAD_MAX
from tests.unit.test_websocket import (
    BINARY,
    CLOSE,
    CONTINUED,
    MQTT,
    PING,
    TEXT,
    dialled,
    frame,
    gone,
    request,
    serving,
    told,
    upgraded,
)


def closed_with(data: bytes) -> int:
    """The code of the close frame with which these bytes end."""
    at = data.rindex(bytes([0x80 | CLOSE]))
    assert len(data) == at + 2 + data[at + 1], "something follows the close frame"
    return int.from_bytes(data[at + 2 : at + 4], "big")


# --- refused at the door ---


@pytest.mark.parametrize(
    ("sent", "status", "words", "reason"),
    [
        (request("/other"), 404, "MQTT is at /mqtt", "websocket-path"),
        (b"GET / HTTP/1.1\r\n\r\n", 404, "MQTT is at /mqtt", "websocket-path"),
        (b"GET /mqtt HTTP/1.1\r\n\r\n", 426, "WebSocket client", "websocket-upgrade"),
        (request(method="PUT"), 405, "PUT", "websocket-upgrade"),
        (request(Sec_WebSocket_Protocol=None), 400, "sub-protocol mqtt", "websocket-upgrade"),
        (request(Sec_WebSocket_Protocol="chat, mqttv9"), 400, "sub-protocol mqtt", "websocket-upgrade"),
        (request(Sec_WebSocket_Key="short"), 400, "Sec-WebSocket-Key", "websocket-upgrade"),
        (request(Origin="https://evil.example"), 403, "web site", "websocket-origin"),
        (request(Origin="null"), 403, "web site", "websocket-origin"),
        (request(Cookie="x" * HEAD_MAX), 431, "fewer headers", "websocket-request"),
        (b"GET " + b"x" * (HEAD_MAX + 1), 431, "fewer headers", "websocket-request"),
    ],
)
def test_refused_with_a_sentence(sent: bytes, status: int, words: str, reason: str) -> None:
    async def story() -> None:
        async with serving(origins=["https://good.example"]) as server:
            reader, writer = await dialled(server)
            writer.write(sent + b"and more")
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert words in answer.partition(b"\r\n\r\n")[2].decode()
            assert server.refused == [reason]
            assert server.made.empty()
            await gone(writer)

    told(story)


@pytest.mark.parametrize(
    "sent", [b"\x10\x0e\x00\x04MQTT", b"\x16\x03\x01", b"get / HTTP/1.1\r\n\r\n", b"GET /\r\n\r\n"]
)
def test_what_is_no_http_gets_no_answer(sent: bytes) -> None:
    async def story() -> None:
        async with serving() as server:
            reader, writer = await dialled(server)
            writer.write(sent)
            assert await reader.read() == b""
            assert server.refused == ["websocket-request"]
            await gone(writer)

    told(story)


@pytest.mark.parametrize(
    ("origins", "origin", "welcome"),
    [
        (["https://good.example"], None, True),
        (["https://good.example"], "https://good.example", True),
        (["https://good.example"], "https://good.example.evil", False),
        (["https://good.example"], "http://localhost", False),
        ([], None, True),
        ([], "https://any.example", False),
        ([], "http://localhost:8000", True),
        ([], "http://[", False),
        ([], "null", False),
    ],
)
def test_origins(origins: list[str], origin: str | None, welcome: bool) -> None:
    async def story() -> None:
        async with serving(origins=origins) as server:
            reader, writer = await dialled(server)
            writer.write(request(Origin=origin))
            assert (await reader.readline()).startswith(b"HTTP/1.1 101 ") == welcome
            await gone(writer)

    told(story)


@pytest.mark.parametrize(
    ("options", "host", "origin", "welcome"),
    [
        # A page whose name was pointed at this machine is of the same origin as what it asks.
        ({}, "evil.example:8083", "http://evil.example:8083", False),
        ({"loopback": True}, "evil.example:8083", "http://evil.example:8083", False),
        ({"loopback": True}, "evil.example:8083", None, False),
        ({}, "broker.example", None, True),
        ({}, "192.168.1.5:8083", "http://192.168.1.5", True),
        ({"loopback": True}, "[::1]:8083", "http://[::1]", True),
        ({"loopback": True}, "LOCALHOST", "http://localhost", True),
        ({"loopback": True}, "localhost.evil.example", "http://localhost.evil.example", False),
        # Names that the operator gives.
        ({"hosts": ["Broker.example"]}, "broker.example:1", "http://broker.example", True),
        ({"hosts": ["broker.example"], "loopback": True}, "broker.example", None, True),
        ({"hosts": ["broker.example"]}, "localhost", None, False),
        ({"hosts": ["::1"]}, "[::1]:80", None, True),
        # A page that may connect may do so under any name: a proxy hands on its own.
        ({"origins": ["https://good.example"], "loopback": True}, "good.example", "https://good.example", True),
        ({"origins": ["https://good.example"]}, "evil.example", "http://evil.example", False),
        ({"loopback": True}, None, None, False),
        ({"loopback": True}, "", None, False),
        ({"loopback": True}, "[", None, False),
    ],
)
def test_hosts(options: dict[str, Any], host: str | None, origin: str | None, welcome: bool) -> None:
    async def story() -> None:
        async with serving(**options) as server:
            reader, writer = await dialled(server)
            writer.write(request(Host=host, Origin=origin))
            line = await reader.readline()
            assert line.startswith(b"HTTP/1.1 101 " if welcome else (b"HTTP/1.1 4")), line
            await gone(writer)

    told(story)


def test_a_query_does_not_change_the_path() -> None:
    async def story() -> None:
        async with serving() as server, connect(server.url + "?v=1", subprotocols=MQTT):
            pass

    told(story)


def test_a_slow_handshake_is_ended() -> None:
    async def story() -> None:
        async with serving(handshake_s=0.05) as server:
            reader, writer = await dialled(server)
            writer.write(request()[:-1])
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert server.refused == ["websocket-slow"]
            await gone(writer)

    told(story)


def test_an_end_during_the_handshake() -> None:
    async def story() -> None:
        async with serving() as server:
            reader, writer = await dialled(server)
            writer.write(request()[:-1])
            writer.write_eof()
            assert await reader.read() == b""
            assert server.made.empty()
            await gone(writer)

    told(story)


# --- broken rules ---


@pytest.mark.parametrize(
    ("sent", "code", "words"),
    [
        (frame(TEXT, b"hello"), 1003, "text frame"),  # [MQTT-6.0.0-1]
        (frame(TEXT, b"hel", fin=False) + frame(CONTINUED, b"lo"), 1003, "text frame"),
        (frame(BINARY, bytes(2001)), 1009, "limit of 2000"),
        (frame(BINARY, bytes(1500), fin=False) + frame(CONTINUED, bytes(501)), 1009, "limit of 2000"),
        (struct.pack("!BBQ", 0x82, 0xFF, 1 << 62), 1009, "limit of 2000"),
        (b"\x82\x03abc", 1002, "mask"),
        (frame(3, b""), 1002, "opcode"),
        (frame(CONTINUED, b"x"), 1002, "continuation"),
        (b"\xc2" + frame(BINARY, b"x")[1:], 1002, "reserved"),
        (frame(PING, bytes(126)), 1002, "control frame"),
        (frame(CLOSE, b"x"), 1002, "close frame"),
    ],
)
def test_what_is_wrong_is_named(sent: bytes, code: int, words: str) -> None:
    async def story() -> None:
        async with serving(message_max=2000) as server:
            reader, writer, inner = await upgraded(server)
            writer.write(frame(BINARY, b"good"))
            await inner.until(lambda: inner.got == b"good")
            writer.write(frame(BINARY, b" and") + sent + frame(BINARY, b" lost"))
            assert closed_with(await reader.read()) == code
            await gone(writer)
            await inner.lost.wait()
            assert inner.got.startswith(b"good and")
            assert b"lost" not in inner.got
            assert isinstance(inner.error, ProtocolError)
            assert words in str(inner.error)

    told(story)


def test_a_message_does_not_begin_within_another() -> None:
    async def story() -> None:
        async with serving() as server:
            reader, writer, inner = await upgraded(server)
            writer.write(frame(BINARY, b"half", fin=False))
            await inner.until(lambda: inner.got == b"half")
            writer.write(frame(BINARY, b"another"))
            assert closed_with(await reader.read()) == 1002
            assert inner.got == b"half"
            await gone(writer)

    told(story)


def test_little_is_kept_for_a_client_that_has_no_answer_yet() -> None:
    async def story() -> None:
        async with serving() as server:
            reader, writer, inner = await upgraded(server)
            writer.write(frame(BINARY, bytes(1 << 20))[: EARLY_MAX + 100])
            assert closed_with(await reader.read()) == 1009
            await gone(writer)
            await inner.lost.wait()
            assert inner.chunks == []
            reader, writer, inner = await upgraded(server)
            inner.transport.write(b"welcome")
            large = frame(BINARY, bytes(1 << 20))
            writer.write(large[: EARLY_MAX + 100])
            await reader.readexactly(9)
            writer.write(large[EARLY_MAX + 100 :])
            await inner.until(lambda: len(inner.got) == 1 << 20)
            await gone(writer)

    told(story)


def test_an_end_without_a_close_frame() -> None:
    async def story() -> None:
        async with serving() as server:
            reader, writer, inner = await upgraded(server)
            writer.write(frame(BINARY, b"last") + frame(BINARY, b"half")[:-1])
            writer.write_eof()
            assert await reader.read() == b""
            await inner.lost.wait()
            assert inner.chunks == [b"last"]
            assert inner.calls == ["eof"]
            await gone(writer)

    told(story)
