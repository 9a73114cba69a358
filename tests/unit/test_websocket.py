"""MQTT over WebSocket, on real sockets: by the client of a library, and by bytes made by hand."""

from __future__ import annotations

import asyncio
import os
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trustme
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from latecomer.runtime.websocket import WebSocketProtocol, WebSocketTransport, binary_head

MQTT = [Subprotocol("mqtt")]
PATIENCE_S = 60
"""Only a hanging test waits this long."""

Story = Callable[[], Coroutine[Any, Any, None]]


def told(story: Story, loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await story()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(bounded())


class Inner(asyncio.Protocol):
    """Remembers what it is told; answers each chunk with `echo`, if it is set."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.chunks: list[bytes] = []
        self.calls: list[str] = []
        self.error: Exception | None = None
        self.transport: WebSocketTransport
        self.heard = asyncio.Event()
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, WebSocketTransport)
        self.transport = transport
        self.server.made.put_nowait(self)

    def data_received(self, data: bytes) -> None:
        self.chunks.append(data)
        self.heard.set()
        if self.server.echo is not None:
            self.server.echo(self.transport, data)

    def eof_received(self) -> None:
        self.calls.append("eof")

    def pause_writing(self) -> None:
        self.calls.append("pause")
        self.heard.set()

    def resume_writing(self) -> None:
        self.calls.append("resume")
        self.heard.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error
        self.lost.set()

    async def until(self, told: Callable[[], bool]) -> None:
        while not told():
            self.heard.clear()
            await self.heard.wait()

    @property
    def got(self) -> bytes:
        return b"".join(self.chunks)


class Server:
    def __init__(self) -> None:
        self.made: asyncio.Queue[Inner] = asyncio.Queue()
        self.refused: list[str] = []
        self.port = 0
        self.echo: Callable[[WebSocketTransport, bytes], None] | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/mqtt"


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None, **options: Any) -> AsyncIterator[Server]:
    server = Server()

    def factory() -> WebSocketProtocol:
        return WebSocketProtocol(lambda: Inner(server), refused=server.refused.append, **options)

    listener = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await listener.wait_closed()


def frame(opcode: int, payload: bytes, fin: bool = True, mask: bytes = b"\1\2\3\4") -> bytes:
    """A frame as a client sends it."""
    head = bytes([(0x80 if fin else 0) | opcode])
    size = len(payload)
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += struct.pack("!BH", 0x80 | 126, size)
    else:
        head += struct.pack("!BQ", 0x80 | 127, size)
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


CONTINUED, TEXT, BINARY, CLOSE, PING = 0, 1, 2, 8, 9


def request(path: str = "/mqtt", method: str = "GET", **headers: str | None) -> bytes:
    lines = {
        "Host": "localhost",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "mqtt",
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
    return f"{method} {path} HTTP/1.1\r\n{text}\r\n".encode()


async def dialled(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.port)


async def upgraded(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Inner]:
    reader, writer = await dialled(server)
    writer.write(request())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    return reader, writer, await server.made.get()


async def gone(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


# --- there and back ---


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_client_library_connects_speaks_and_leaves(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def story() -> None:
        async with serving() as server:
            server.echo = lambda transport, data: transport.write(data[::-1])
            async with connect(server.url, subprotocols=MQTT) as client:
                assert client.subprotocol == "mqtt"
                inner = await server.made.get()
                assert inner.transport.get_extra_info("peername") == client.local_address
                for payload in (b"one", bytes(125), os.urandom(126), os.urandom(65_536), os.urandom(1 << 20)):
                    await client.send(payload)
                    got = b""
                    while len(got) < len(payload):
                        part = await client.recv()
                        assert isinstance(part, bytes)
                        got += part
                    assert got == payload[::-1]
                await (await client.ping())
            assert client.close_code == 1000
            await inner.lost.wait()
            assert inner.calls.count("eof") == 1
            assert inner.error is None
            assert inner.transport.is_closing()
            assert server.refused == []

    told(story, loop)


def test_tls() -> None:
    async def story() -> None:
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        async with serving(context) as server:
            server.echo = lambda transport, data: transport.write(data)
            async with connect(server.url.replace("ws:", "wss:"), subprotocols=MQTT, ssl=trusting) as client:
                await client.send(b"hidden")
                assert await client.recv() == b"hidden"
                inner = await server.made.get()
                assert inner.transport.get_extra_info("ssl_object") is not None
                inner.transport.write(b"bye")
                inner.transport.close()
                assert await client.recv() == b"bye"
                with pytest.raises(ConnectionClosed):
                    await client.recv()
                assert client.close_code == 1000
            await inner.lost.wait()

    told(story)


def test_packets_and_frames_are_independent() -> None:
    """[MQTT-6.0.0-2]: fragments, several packets in a frame, a ping in between, and byte by byte."""

    async def story() -> None:
        async with serving() as server:
            reader, writer, inner = await upgraded(server)
            sent = (
                frame(BINARY, b"ab", fin=False)
                + frame(CONTINUED, b"", fin=False)
                + frame(PING, b"still there?")
                + frame(CONTINUED, b"cd")
                + frame(BINARY, b"")
                + frame(BINARY, b"ef")
            )
            for at in range(len(sent)):
                writer.write(sent[at : at + 1])
                await writer.drain()
                await asyncio.sleep(0)
            assert await reader.readexactly(14) == b"\x8a\x0cstill there?"
            await inner.until(lambda: inner.got == b"abcdef")
            writer.write(frame(BINARY, b"gh") + frame(BINARY, b"ij", fin=False) + frame(CONTINUED, b"kl"))
            await inner.until(lambda: inner.got == b"abcdefghijkl")
            writer.write(frame(CLOSE, struct.pack("!H", 1001)))
            assert await reader.read() == b"\x88\x02" + struct.pack("!H", 1001), "the close frame is answered, then EOF"
            await gone(writer)
            await inner.lost.wait()
            assert inner.calls == ["eof"]

    told(story)


class Raw:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.out = b""

    def write(self, data: bytes) -> None:
        self.out += data

    def is_closing(self) -> bool:
        return False


sizes = st.one_of(st.integers(0, 8), st.sampled_from([125, 126, 300, 65_535, 65_536]))
messages = st.lists(st.lists(sizes, min_size=1, max_size=3), max_size=6)


@given(messages, st.lists(st.integers(1, 60_000), max_size=12), st.lists(st.booleans(), min_size=6, max_size=6))
@settings(max_examples=40)
def test_any_frames_in_any_pieces(sent: list[list[int]], cuts: list[int], pings: list[bool]) -> None:
    """Plain or not, fragmented or not, with pings between: the same bytes come out, however the network cuts them."""
    data, expected = request(), b""
    for number, (fragments, ping) in enumerate(zip(sent, pings, strict=False)):
        for at, size in enumerate(fragments):
            payload = bytes([number * 16 + at]) * size
            data += frame(CONTINUED if at else BINARY, payload, fin=at == len(fragments) - 1)
            data += frame(PING, b"") if ping else b""
            expected += payload

    async def story() -> None:
        server, raw = Server(), Raw()
        protocol = WebSocketProtocol(lambda: Inner(server))
        protocol.connection_made(raw)  # type: ignore[arg-type]
        left = data
        for cut in cuts:
            piece, left = left[:cut], left[cut:]
            if piece:
                protocol.data_received(piece)
            if not server.made.empty():
                server.made.get_nowait().transport.write(b"hello")  # a client with an answer may send large frames
        protocol.data_received(left + frame(BINARY, b"!"))
        protocol.connection_lost(None)

    seen: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Inner, "data_received", lambda self, chunk: seen.append(chunk))
        told(story)
    assert b"".join(seen) == expected + b"!"


def test_frames_that_follow_the_request_at_once_wait_for_its_answer() -> None:
    async def story() -> None:
        async with serving() as server:
            server.echo = lambda transport, data: transport.write(b"<" + data + b">")
            reader, writer = await dialled(server)
            writer.write(request() + frame(BINARY, b"early") + frame(CLOSE, b""))
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 101 ")
            assert answer.endswith(b"\r\n\r\n\x82\x07<early>\x88\x00")
            await gone(writer)

    told(story)


def test_one_frame_for_each_call() -> None:
    async def story() -> None:
        async with serving() as server:
            reader, writer, inner = await upgraded(server)
            inner.transport.write(b"one")
            inner.transport.write(b"")
            inner.transport.writelines([b"t", bytearray(b"w"), memoryview(b"o")])
            inner.transport.writelines([])
            large = bytes(range(256)) * 100
            inner.transport.write(memoryview(large))
            assert await reader.readexactly(10) == b"\x82\x03one\x82\x03two"
            assert await reader.readexactly(4 + len(large)) == binary_head(len(large)) + large
            await gone(writer)

    told(story)


@pytest.mark.parametrize(
    ("size", "head"),
    [
        (0, b"\x82\x00"),
        (125, b"\x82\x7d"),
        (126, b"\x82\x7e\x00\x7e"),
        (65_535, b"\x82\x7e\xff\xff"),
        (65_536, b"\x82\x7f" + (65_536).to_bytes(8, "big")),
    ],
)
def test_heads_of_frames(size: int, head: bytes) -> None:
    """RFC 6455, 5.2: the shortest of three forms."""
    assert binary_head(size) == head


# --- closing ---


def test_close_says_goodbye_behind_what_was_written() -> None:
    async def story() -> None:
        async with serving() as server:
            reader, writer, inner = await upgraded(server)
            inner.transport.pause_reading()
            inner.transport.write(b"last words")
            inner.transport.close()
            inner.transport.write(b"too late")
            inner.transport.close()
            assert inner.transport.is_closing()
            assert await reader.readexactly(16) == b"\x82\x0alast words\x88\x02\x03\xe8"
            writer.write(frame(BINARY, b"unheard") + frame(CLOSE, b"\x03\xe8"))
            assert await reader.read() == b""
            await gone(writer)
            await inner.lost.wait()
            assert (inner.chunks, inner.calls, inner.error) == ([], [], None)

    told(story)


def test_after_write_eof_the_client_is_still_heard() -> None:
    async def story() -> None:
        async with serving() as server:
            reader, writer, inner = await upgraded(server)
            assert inner.transport.can_write_eof()
            inner.transport.write_eof()
            assert await reader.readexactly(4) == b"\x88\x02\x03\xe8"
            writer.write(frame(BINARY, b"I was about to say") + frame(CLOSE, b"\x03\xe8"))
            assert await reader.read() == b""
            await gone(writer)
            await inner.lost.wait()
            assert inner.got == b"I was about to say"
            assert inner.calls == ["eof"]

    told(story)


@pytest.mark.parametrize("chatty", [False, True])
def test_nobody_waits_forever_for_the_answer_to_a_close_frame(chatty: bool) -> None:
    async def story() -> None:
        async with serving(closing_s=0.05) as server:
            _, writer, inner = await upgraded(server)
            inner.transport.close()
            if chatty:  # what is said meanwhile gives no further delay
                writer.write(frame(BINARY, b"but"))
            await inner.lost.wait()
            await gone(writer)

    told(story)


def test_abort() -> None:
    async def story() -> None:
        async with serving() as server:
            reader, writer, inner = await upgraded(server)
            inner.transport.abort()
            assert inner.transport.is_closing()
            assert await reader.read() == b""
            await inner.lost.wait()
            await gone(writer)

    told(story)


# --- flow ---


def test_pausing() -> None:
    """Both directions: a reader that is full, and a client that does not read, which gets no pongs meanwhile."""

    async def story() -> None:
        async with serving() as server:
            server.echo = lambda transport, data: transport.pause_reading()
            reader, writer, inner = await upgraded(server)
            writer.write(frame(BINARY, b"1") + frame(BINARY, b"2"))
            await inner.heard.wait()
            assert not inner.transport.is_reading()
            writer.write(frame(BINARY, b"3"))
            await inner.until(lambda: inner.got.startswith(b"12"))
            server.echo = None
            inner.transport.resume_reading()
            await inner.until(lambda: inner.got == b"123")

            inner.transport.set_write_buffer_limits(high=1000)
            assert inner.transport.get_write_buffer_limits()[1] == 1000
            chunk = bytes(1 << 20)
            written = 0
            while "pause" not in inner.calls:
                inner.transport.write(chunk)
                written += 10 + len(chunk)
            assert inner.transport.get_write_buffer_size() > 0
            writer.write(frame(PING, b"") + frame(BINARY, b"4"))
            await inner.until(lambda: inner.got == b"1234")
            await reader.readexactly(written)
            await inner.until(lambda: "resume" in inner.calls)
            writer.write(frame(PING, b"read"))
            assert await reader.readexactly(6) == b"\x8a\x04read"
            await gone(writer)
            await inner.lost.wait()

    told(story)
