"""Who is at the other end of a link: a preamble before the link protocol, without I/O.

Theory of operation. Both ends say hello: network, broker id, role (caller or callee) and 32 bytes drawn by chance. The
*transcript* is both hellos, byte for byte, the caller's first. With a secret, the caller then proves that it knows it,
and only then the callee does: HMAC-SHA-256 of the transcript under the secret, with the role of the prover in
front. Each proof is over the other's fresh bytes, so none can be replayed; the role is in it, so none can be reflected;
the ids and the network are in it, so none can be used elsewhere. Who calls without knowing the secret learns nothing
to try secrets on.

With mutual TLS the certificate must name the broker id that the hello claims. Without a secret the hellos alone
are exchanged; whether that is allowed is a question of settings, and both ends must agree on it.

    caller → hello                       frame:   kind, length (2 bytes), body
             hello ← callee              hello:   version, role, mode, chance (32), length and id, length and network
    caller → proof                       proof:   32 bytes
             proof ← callee              refusal: why, as text
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from latecomer.model.ids import BrokerId
from latecomer.model.topology import quoted

VERSION = 1
CHANCE = 32
NAME_BYTES_MAX = 255
"""Bytes of a broker id and of the name of a network."""
REASON_BYTES_MAX = 200
HEADER = 3
PREAMBLE_MAX = 2 * HEADER + 3 + CHANCE + 2 * (1 + NAME_BYTES_MAX) + 32
"""Bytes that one end sends before the link protocol begins, at most."""

_HELLO, _PROOF, _REFUSAL = 1, 2, 3
_SIZES = {_HELLO: PREAMBLE_MAX, _PROOF: 32, _REFUSAL: REASON_BYTES_MAX}
_LABEL = b"latecomer link 1 "


class Role(Enum):
    CALLER = 1
    CALLEE = 2

    @property
    def other(self) -> Role:
        return Role.CALLEE if self is Role.CALLER else Role.CALLER


class Mode(Enum):
    OPEN = 0
    SECRET = 1


class Hello(msgspec.Struct, frozen=True):
    """What an end says of itself."""

    role: Role
    mode: Mode
    chance: bytes
    broker: BrokerId
    network: str

    def encode(self) -> bytes:
        names = [name.encode() for name in (self.broker, self.network)]
        assert all(0 < len(name) <= NAME_BYTES_MAX for name in names)
        body = bytes((VERSION, self.role.value, self.mode.value)) + self.chance
        return body + b"".join(bytes((len(name),)) + name for name in names)


class Progress(msgspec.Struct, frozen=True):
    """What follows from bytes that came: send this; then, perhaps, it is decided."""

    send: bytes = b""
    peer: BrokerId | None = None
    """The neighbour, when it has proved who it is."""
    rest: bytes = b""
    """With `peer`: what came behind the preamble belongs to the link protocol."""
    refused: str | None = None
    """Why the connection must be closed, after `send` was sent."""


@dataclass(slots=True)
class LinkChallenge:
    """One end of one connection. Send `begin()`, then feed what comes until `peer` or `refused` is set."""

    role: Role
    broker: BrokerId
    network: str
    expected: Collection[BrokerId]
    """Whom the other end may be: the one that was called, or all neighbours."""
    secret: bytes | None = None
    certified: Collection[str] | None = None
    """With mutual TLS, the names in the peer's certificate."""
    chance: bytes = field(default_factory=lambda: secrets.token_bytes(CHANCE))
    _buffer: bytes = field(default=b"", init=False)
    _own: bytes = field(init=False)
    _hello: Hello | None = field(default=None, init=False)
    _transcript: bytes = field(default=b"", init=False)
    _over: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        mode = Mode.OPEN if self.secret is None else Mode.SECRET
        self._own = Hello(self.role, mode, self.chance, self.broker, self.network).encode()

    def begin(self) -> bytes:
        """What to send at once; the callee sends nothing before the caller has spoken."""
        return _frame(_HELLO, self._own) if self.role is Role.CALLER else b""

    def feed(self, data: bytes) -> Progress:
        """Take what came; at most a few frames are ever kept."""
        assert not self._over
        self._buffer += data
        sent = b""
        while True:
            try:
                frame = self._next_frame()
                if frame is None:
                    return Progress(sent)
                answer, done = self._take(*frame)
            except _Refused as refused:
                self._over = True
                return Progress(sent + refused.frame(), refused=refused.reason)
            sent += answer
            if done:
                self._over = True
                assert self._hello is not None
                return Progress(sent, self._hello.broker, self._buffer)

    def _next_frame(self) -> tuple[int, bytes] | None:
        """The next whole frame; what cannot be one is refused by its header."""
        if not self._buffer:
            return None
        kind = self._buffer[0]
        if kind not in _SIZES:
            raise _Refused("the other end does not speak the link protocol")
        if len(self._buffer) < HEADER:
            return None
        size = int.from_bytes(self._buffer[1:HEADER])
        if size > _SIZES[kind]:
            raise _Refused("the preamble is too long")
        if len(self._buffer) < HEADER + size:
            return None
        body = self._buffer[HEADER : HEADER + size]
        self._buffer = self._buffer[HEADER + size :]
        return kind, body

    def _take(self, kind: int, body: bytes) -> tuple[bytes, bool]:
        """What to answer to a frame, and whether the peer has now proved who it is."""
        if kind == _REFUSAL:
            raise _Refused(f"refused by the neighbour: {quoted(body.decode('utf-8', 'replace'))}", told=False)
        if kind == _HELLO and self._hello is None:
            return self._greet(body)
        if kind == _PROOF and self._hello is not None and self.secret is not None:
            if not hmac.compare_digest(body, self._proof(self.role.other)):
                raise _Refused("the secret of the other end is a different one")
            return (_frame(_PROOF, self._proof(self.role)), True) if self.role is Role.CALLEE else (b"", True)
        raise _Refused("a frame of the preamble came out of turn")

    def _greet(self, body: bytes) -> tuple[bytes, bool]:
        hello = _decode(body)
        if hello.role is self.role or hello.chance == self.chance:
            raise _Refused("this is our own hello")
        if hello.network != self.network:
            raise _Refused(f"this is the network {quoted(self.network)}, not {quoted(hello.network)}")
        if hello.broker == self.broker:
            raise _Refused(f"there are two brokers with the id {quoted(self.broker)}")
        if hello.broker not in self.expected:
            raise _Refused(f"the broker {quoted(hello.broker)} is not the neighbour expected here")
        if (hello.mode is Mode.SECRET) != (self.secret is not None):
            raise _Refused("one end has a secret and the other has none")
        if self.certified is not None and hello.broker not in self.certified:
            raise _Refused(f"the certificate does not name the broker {quoted(hello.broker)}")
        self._hello = hello
        if self.role is Role.CALLER:
            self._transcript = _frame(_HELLO, self._own) + _frame(_HELLO, body)
            return (b"", True) if self.secret is None else (_frame(_PROOF, self._proof(Role.CALLER)), False)
        self._transcript = _frame(_HELLO, body) + _frame(_HELLO, self._own)
        return _frame(_HELLO, self._own), self.secret is None

    def _proof(self, prover: Role) -> bytes:
        assert self.secret is not None
        return hmac.digest(self.secret, _LABEL + prover.name.encode() + b"\0" + self._transcript, "sha256")


class _Refused(Exception):
    def __init__(self, reason: str, *, told: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.told = told

    def frame(self) -> bytes:
        """The reason as the peer is told it; a refusal is not answered."""
        return _frame(_REFUSAL, self.reason.encode()[:REASON_BYTES_MAX]) if self.told else b""


def _frame(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + len(body).to_bytes(2) + body


def _decode(body: bytes) -> Hello:
    try:
        if body[0] != VERSION:
            raise _Refused(f"this broker speaks version {VERSION} of the preamble, not {body[0]}")
        role, mode = Role(body[1]), Mode(body[2])
        chance = body[3 : 3 + CHANCE]
        at = 3 + CHANCE
        names = []
        for _ in range(2):
            size = body[at]
            name = body[at + 1 : at + 1 + size].decode("utf-8")
            at += 1 + size
            names.append(name)
    except (IndexError, ValueError):
        raise _Refused("the hello cannot be read") from None
    if at != len(body) or not all(names):
        raise _Refused("the hello cannot be read")
    return Hello(role, mode, chance, *names)
