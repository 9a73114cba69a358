"""MQTT over WebSocket: a protocol around the protocol of a plain connection.

Theory of operation. `WebSocketProtocol` stands between a transport and the protocol that speaks MQTT. It answers the
HTTP request, then hands on the payloads of binary frames as if they had been read from a socket; where frames begin
and end means nothing [MQTT-6.0.0-2]. The inner protocol is made when the upgrade is done, and is given a
`WebSocketTransport`: what it writes becomes binary frames, one for each call, and closing is the closing handshake.

The library decides what the bytes mean, with two exceptions. The head of the request is cut off before it is parsed,
so that frames that follow at once wait for the answer. And *plain* frames, binary, whole and below 64 KiB, which is
nearly all there ever is, are read and written here, at a fifth of the cost; when something else comes, the library
reads on until it stands between two messages again.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import struct
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

from websockets.exceptions import NegotiationError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import SEND_EOF, State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

try:
    from websockets.speedups import apply_mask
except ImportError:
    from websockets.utils import apply_mask

from latecomer.model.errors import ProtocolError

SUBPROTOCOL = Subprotocol("mqtt")
"""[MQTT-6.0.0-3], [MQTT-6.0.0-4]"""
MESSAGE_MAX = (1 << 20) + 1024
"""A largest MQTT packet of 1 MiB, and its header."""
HEAD_MAX = 16 * 1024
"""Bytes of an HTTP request."""
EARLY_MAX = 64 * 1024
"""Bytes of an unfinished frame that are kept for a client that the broker has not answered yet."""
COPY_MAX = 16 * 1024
"""Payloads below this are copied behind their head: one buffer is cheaper than two."""

BINARY = 0x80 | Opcode.BINARY
PONG = 0x80 | Opcode.PONG
_SHORT = tuple(struct.pack("!BB", BINARY, size) for size in range(126))
"""Heads of binary frames whose length fits into one byte."""

_log = logging.getLogger(f"{__name__}.library")
_log.setLevel(logging.WARNING)  # it has a line for each connection that opens or closes, and the broker has its own


def binary_head(size: int) -> bytes:
    """What stands before a payload of `size` bytes in a frame that a server sends: unmasked, final, binary."""
    if size < 126:
        return _SHORT[size]
    if size < 1 << 16:
        return struct.pack("!BBH", BINARY, 126, size)
    return struct.pack("!BBQ", BINARY, 127, size)


def plain_frames(data: bytes, size_max: int, payloads: list[bytes]) -> tuple[int, int]:
    """Take the payloads of the plain frames with which `data` begins.

    Returns how many bytes they have, and how many the plain frame has at least that begins there and is not complete;
    0 if there is none.
    """
    at, have = 0, len(data)
    while at < have:
        if data[at] != BINARY:
            return at, 0
        if have - at < 2:
            return at, 2
        size = data[at + 1] - 0x80  # what a client sends is masked
        body = at + 6
        if size == 126:
            if have - at < 4:
                return at, 4
            size = data[at + 2] << 8 | data[at + 3]
            body = at + 8
        elif size == 127:
            return at, 0
        if not 0 <= size <= size_max:
            return at, 0
        end = body + size
        if end > have:
            return at, end - at
        payloads.append(apply_mask(data[body:end], data[body - 4 : body]))
        at = end
    return at, 0


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _nobody() -> None:
    """Nobody counts connections."""


def _uncounted(reason: str) -> None:
    """Nobody counts refused handshakes."""


class WebSocketProtocol(asyncio.Protocol):
    """One WebSocket connection, on TCP or TLS: the listener decides.

    `origins` are the web sites whose pages may connect, as browsers name them (`https://example.org`); without any,
    only pages of the host that the request is addressed to. Programs send no `Origin`, and may.

    `hosts` are the names under which the broker may be addressed. A page of evil.example whose name was pointed at this
    machine (DNS rebinding) is a page of the host it addresses, so a page needs more than that: without `hosts` and
    `origins`, the host must be a number or `localhost`, which cannot be pointed anywhere; where only this machine can
    connect (`loopback`), also for programs.

    `came` is asked how many seconds the handshake may take, and says None if there is no room; `left` is told the end.
    `refused` is told why a handshake failed: `websocket-request`, `-path`, `-host`, `-origin`, `-upgrade` or `-slow`.
    What goes wrong later reaches the inner protocol: its `connection_lost` gets a `ProtocolError` that says what the
    client did.
    """

    def __init__(
        self,
        inner_factory: Callable[[], asyncio.Protocol],
        path: str = "/mqtt",
        origins: Sequence[str] = (),
        message_max: int = MESSAGE_MAX,
        handshake_s: float = 5.0,
        closing_s: float = 2.0,
        refused: Callable[[str], object] = _uncounted,
        hosts: Sequence[str] = (),
        loopback: bool = False,
        came: Callable[[asyncio.BaseTransport], float | None] | None = None,
        left: Callable[[], object] = _nobody,
    ) -> None:
        self._inner_factory = inner_factory
        self._path = path
        self._origins = origins
        self._message_max = message_max
        self._handshake_s = handshake_s
        self._closing_s = closing_s
        self._refused = refused
        self._hosts = frozenset(host.lower().strip("[]") for host in hosts)
        self._loopback = loopback
        self._came = came
        self._left = left
        self._library = ServerProtocol(
            subprotocols=[SUBPROTOCOL],
            max_size=message_max,
            logger=_log,
        )
        self._head = bytearray()
        """What has come of the request."""
        self._between = True
        """The library has no part of a message: a plain frame may follow."""
        self._begun = bytearray()
        """The beginning of a plain frame, which has at least `_needed` bytes."""
        self._needed = 0
        self._fragmented = False
        """The library is in the middle of a fragmented message."""
        self._early = 0
        """Bytes of a frame that the library waits for, while nothing has been written to the client."""
        self._raw: asyncio.Transport
        self._inner: asyncio.Protocol | None = None
        self._transport: WebSocketTransport | None = None
        """Both are there from the upgrade to the end of the connection."""
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._choked = False
        """More is waiting to be sent than the transport likes."""
        self._told_end = False
        self._failure: ProtocolError | None = None

    # --- what the event loop says ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)  # uvloop's transports are no subclasses
        if self._came is not None:
            seconds = self._came(transport)
            if seconds is None:
                self._raw.abort()
                return
            self._handshake_s = seconds
        self._start_timer(self._handshake_s, self._too_slow)

    def data_received(self, data: bytes) -> None:
        if self._library.eof_sent:
            return  # read and forgotten, so that our last words are not reset away
        if self._transport is None:
            data = self._shake_hands(data)
            if not data or self._transport is None:
                return
        payloads: list[bytes] = []
        if self._between:
            if self._begun:
                self._begun += data
                if len(self._begun) < self._needed:
                    return
                data = bytes(self._begun)
                self._begun.clear()
            at, self._needed = plain_frames(data, self._message_max, payloads)
            if self._needed:
                self._begun += memoryview(data)[at:]
            elif at < len(data):
                self._between = False
                data = data[at:]
        if self._between:
            self._hand_on(payloads)
        else:
            self._read_on(data, payloads)

    def eof_received(self) -> None:
        """Nothing can follow the end of a WebSocket: the transport closes, whatever the inner protocol says."""
        self._library.receive_eof()
        self._tell_end()

    def pause_writing(self) -> None:
        self._choked = True
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._choked = False
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        self._left()
        if self._transport is not None:
            self._transport.open = False
        if self._inner is not None:
            inner, self._inner = self._inner, None
            inner.connection_lost(error or self._failure)

    # --- the handshake ---

    def _shake_hands(self, data: bytes) -> bytes:
        """Take bytes of the HTTP request; returns what came behind it."""
        seen = len(self._head)
        self._head += data
        if not 0x41 <= self._head[0] <= 0x5A:
            # No method of HTTP begins like this: MQTT or TLS at the wrong port, and nobody who would read an answer.
            self._refused("websocket-request")
            self._raw.abort()
            return b""
        end = self._head.find(b"\r\n\r\n", max(0, seen - 3)) + 4
        if end < 4 or end > HEAD_MAX:
            if len(self._head) > HEAD_MAX:
                problem = f"The request has more than {HEAD_MAX} bytes; send fewer headers."
                self._refuse("websocket-request", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, problem)
            return b""
        head, rest = bytes(self._head[:end]), bytes(self._head[end:])
        self._head.clear()
        self._library.receive_data(head)
        requests = self._library.events_received()
        if requests:
            self._answer(cast(Request, requests[0]))
        else:
            self._refused("websocket-request")
            self._flush()
        return rest

    def _answer(self, request: Request) -> None:
        if request.path.partition("?")[0] != self._path:
            self._refuse("websocket-path", HTTPStatus.NOT_FOUND, f"MQTT is at {self._path}; connect there.")
            return
        if not self._is_addressed(request):
            problem = "The broker is not known by this name; whoever runs it can add the name to `hosts`."
            self._refuse("websocket-host", HTTPStatus.MISDIRECTED_REQUEST, problem)
            return
        if not self._may_connect(request):
            problem = "Pages of this web site may not connect; whoever runs the broker can name it in `origins`."
            self._refuse("websocket-origin", HTTPStatus.FORBIDDEN, problem)
            return
        response = self._library.accept(request)
        if isinstance(self._library.handshake_exc, NegotiationError):
            problem = f"Only MQTT is spoken here; offer the sub-protocol {SUBPROTOCOL}."
            self._refuse("websocket-upgrade", HTTPStatus.BAD_REQUEST, problem)
        else:
            self._library.send_response(response)
            self._flush()
            if self._library.state is State.OPEN:
                self._open()
            else:
                self._refused("websocket-upgrade")

    def _is_addressed(self, request: Request) -> bool:
        """Whether the request was meant for this broker: see `hosts`."""
        hosts = request.headers.get_all("Host")
        host = (_host(f"//{hosts[0]}") if len(hosts) == 1 else None) or ""
        if self._hosts:
            return host in self._hosts
        page = bool(request.headers.get_all("Origin"))
        if page and self._origins:
            return True  # which pages may connect is said there, and a page cannot be of another site than it is
        return host == "localhost" or _is_number(host) or not (page or self._loopback)

    def _may_connect(self, request: Request) -> bool:
        """Browsers let any page connect to anywhere, and say which page it was: the server has to look."""
        origins = request.headers.get_all("Origin")
        if not origins or self._origins:
            return all(origin in self._origins for origin in origins)
        hosts = request.headers.get_all("Host")
        return len(hosts) == 1 and all((_host(origin) or "null") == _host(f"//{hosts[0]}") for origin in origins)

    def _open(self) -> None:
        self._stop_timer()
        self._transport = WebSocketTransport(self._raw, self._say_goodbye)
        self._inner = self._inner_factory()
        self._inner.connection_made(self._transport)

    def _refuse(self, reason: str, status: HTTPStatus, sentence: str) -> None:
        self._refused(reason)
        self._library.send_response(self._library.reject(status, sentence + "\n"))
        self._flush()

    def _too_slow(self) -> None:
        problem = f"No whole request came within {self._handshake_s:g} s."
        self._refuse("websocket-slow", HTTPStatus.REQUEST_TIMEOUT, problem)

    # --- frames ---

    def _read_on(self, data: bytes, payloads: list[bytes]) -> None:
        """Let the library read what are not plain frames; `payloads` came before."""
        library = self._library
        library.receive_data(data)
        frames = cast(list[Frame], library.events_received())
        text = False
        for frame in frames:
            if frame.opcode is Opcode.BINARY or frame.opcode is Opcode.CONT:
                payloads.append(cast(bytes, frame.data))
                self._fragmented = not frame.fin
            elif frame.opcode is Opcode.TEXT:
                text = True  # [MQTT-6.0.0-1]; what stood before it is still good
                break
        self._hand_on(payloads)
        assert self._transport is not None
        self._early = 0 if frames or self._transport.written else self._early + len(data)
        if text:
            self._fail(CloseCode.UNSUPPORTED_DATA, "a text frame, but MQTT is carried by binary frames only")
        elif self._early > EARLY_MAX:
            self._fail(CloseCode.MESSAGE_TOO_BIG, f"more than {EARLY_MAX} bytes before the broker has answered")
        self._between = not library.reader.buffer and not self._fragmented
        self._flush()

    def _hand_on(self, payloads: list[bytes]) -> None:
        """In one call: a protocol that then pauses reading is not called again."""
        if payloads and self._inner is not None and self._transport is not None and not self._transport.deaf:
            self._inner.data_received(payloads[0] if len(payloads) == 1 else b"".join(payloads))

    def _fail(self, code: CloseCode, sentence: str) -> None:
        self._failure = ProtocolError(sentence)
        self._library.fail(code, sentence)

    def _flush(self) -> None:
        """Send what the library wants to be sent, and see whether the connection has begun to end."""
        for data in self._library.data_to_send():
            if data == SEND_EOF:
                # Ending one direction only: closing could reset away the last bytes that the client is to read.
                # TLS has no half of an end.
                self._raw.write_eof() if self._raw.can_write_eof() else self._raw.close()
            elif not (self._choked and data[0] == PONG):
                # A client that pings and does not read must not fill the memory with answers.
                self._raw.write(data)
        if self._library.close_expected():
            self._wind_up()

    def _wind_up(self) -> None:
        """A close frame or a refusal has been sent: wait for the other end, but not forever."""
        library = self._library
        if self._transport is not None:
            self._transport.open = False
        if library.parser_exc is not None and self._failure is None:
            self._failure = ProtocolError(library.close_sent.reason if library.close_sent else str(library.parser_exc))
        if library.eof_sent:
            self._tell_end()
        if not self._closing:
            self._closing = True
            self._start_timer(self._closing_s, self._raw.abort)

    def _tell_end(self) -> None:
        """Tell the inner protocol, once, that the client has nothing more to say."""
        if self._inner is not None and self._transport is not None and not self._told_end and not self._transport.deaf:
            self._told_end = True
            self._inner.eof_received()

    def _say_goodbye(self) -> None:
        """The inner protocol has said what it had to say: a close frame behind it. [RFC 6455, 7.1.2]"""
        if self._library.state is State.OPEN:
            self._library.send_close(CloseCode.NORMAL_CLOSURE)
            self._flush()

    def _start_timer(self, seconds: float, action: Callable[[], object]) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, action)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class WebSocketTransport(asyncio.Transport):
    """What the inner protocol takes for its transport."""

    def __init__(self, raw: asyncio.Transport, goodbye: Callable[[], None]) -> None:
        super().__init__()
        self._raw = raw
        self._goodbye = goodbye
        self.open = True
        """No close frame has been sent, so data can be."""
        self.deaf = False
        """The inner protocol has closed: it is told nothing but the end."""
        self.written = False
        """The client has got an answer."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        size = len(data)
        if self.open and size:
            self.written = True
            if size < COPY_MAX:
                self._raw.write(binary_head(size) + data)
            else:
                self._raw.writelines((binary_head(size), data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """One frame for all of it."""
        parts = list(list_of_data)
        size = sum(map(len, parts))
        if self.open and size:
            self.written = True
            self._raw.writelines((binary_head(size), *parts))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """A close frame behind what was written; what the client still says is still heard."""
        self._goodbye()

    def close(self) -> None:
        """A close frame behind what was written; what the client still says is not heard."""
        if not self.deaf:
            self.deaf = True
            self._goodbye()
            self.resume_reading()  # the answer to the close frame must be seen

    def abort(self) -> None:
        self.deaf = True
        self.open = False
        self._raw.abort()

    def is_closing(self) -> bool:
        return not self.open or self.deaf or self._raw.is_closing()

    def pause_reading(self) -> None:
        if not self.deaf and not self._raw.is_closing():
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        if not self._raw.is_closing():
            self._raw.resume_reading()

    def is_reading(self) -> bool:
        return self._raw.is_reading()

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._raw.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the transport below: `peername`, `sockname`, `ssl_object`, `peercert` and so on."""
        return self._raw.get_extra_info(name, default)
