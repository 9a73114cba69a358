"""A server that speaks just enough MQTT to send clients elsewhere: each answer is written down in a test."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from latecomer.messages.mqtt import (
    V5,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Publish,
    Reason,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from latecomer.wire.mqtt import Reader, encode

PATIENCE_S = 60.0
HOST = "127.0.0.1"

Answer = Sequence[Packet]
WELCOME: Answer = (Connack(True, Reason.SUCCESS),)
FRESH: Answer = (Connack(False, Reason.SUCCESS),)


def refuse(reason: Reason, reference: str | None = None, why: str | None = None) -> Answer:
    return (Connack(False, reason, Properties(server_reference=reference, reason_string=why)),)


def dismiss(reason: Reason, reference: str | None = None, why: str | None = None) -> Answer:
    """Accepts the client, and sends it away at once."""
    return (*WELCOME, Disconnect(reason, Properties(server_reference=reference, reason_string=why)))


class Server:
    """Answers its so-manieth CONNECT with the so-manieth answer, and all further ones with the last. It hangs up behind
    a refusal and a DISCONNECT; an empty answer hangs up without a word."""

    def __init__(
        self, *answers: Answer | Callable[[Connect], Answer], granted: Reason | int = 1,
        replies: Mapping[type[Packet], Answer] | None = None, tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self.answers = list(answers)
        self.granted = granted
        self.replies = dict(replies or {})
        """What it says to packets of a type, instead of what is usual."""
        self.tls = tls
        self.came: list[Connect] = []
        self.heard: list[Packet] = []
        """What clients said behind their CONNECT."""
        self.socket = socket.create_server((HOST, 0))
        self.port = self.socket.getsockname()[1]
        self.address = f"{HOST}:{self.port}"
        self.thread = threading.Thread(target=self._serve)
        self.talks: list[threading.Thread] = []
        self.open: list[socket.socket] = []

    def _serve(self) -> None:
        with suppress(OSError):  # closed at the end
            while True:
                client, _ = self.socket.accept()
                client.settimeout(PATIENCE_S)
                with suppress(OSError):
                    client = client if self.tls is None else self.tls.wrap_socket(client, server_side=True)
                self.open.append(client)
                talk = threading.Thread(target=self._talk, args=(client,))
                self.talks.append(talk)
                talk.start()

    def _talk(self, client: socket.socket) -> None:
        reader = Reader()
        with client, suppress(OSError):
            while data := client.recv(65_536):
                for packet in reader.feed(data):
                    if not self._answer(client, packet):
                        client.shutdown(socket.SHUT_RDWR)
                        return

    def _answer(self, client: socket.socket, packet: Packet) -> bool:
        """Whether the conversation goes on."""
        if isinstance(packet, Connect):
            self.came.append(packet)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            said = answer(packet) if callable(answer) else answer
            client.sendall(b"".join(encode(each, V5) for each in said))
            last = said[-1] if said else None
            return last is not None and not isinstance(last, Disconnect) and getattr(last, "reason", 0) < 0x80
        self.heard.append(packet)
        if type(packet) in self.replies:
            said = self.replies[type(packet)]
            client.sendall(b"".join(encode(each, V5) for each in said))
            return not (said and isinstance(said[-1], Disconnect))
        reply: Packet | None = None
        if isinstance(packet, Subscribe):
            reply = Suback(packet.packet_id, tuple(Reason(self.granted) for _ in packet.requests))
        elif isinstance(packet, Unsubscribe):
            reply = Unsuback(packet.packet_id, tuple(Reason.SUCCESS for _ in packet.filters))
        elif isinstance(packet, Publish) and packet.qos == 1:
            reply = Puback(packet.packet_id, Reason.SUCCESS)
        elif isinstance(packet, Pingreq):
            reply = Pingresp()
        if reply is not None:
            client.sendall(encode(reply, V5))
        return not isinstance(packet, Disconnect)

    def cut(self) -> None:
        """Every connection breaks."""
        for client in self.open:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def words(self, name: str, number: int = -1) -> list[str]:
        """A user property of one CONNECT."""
        return [value for key, value in self.came[number].properties.user if key == name]

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.cut()
        self.thread.join(PATIENCE_S)
        for talk in self.talks:
            talk.join(PATIENCE_S)


def free_address() -> str:
    """Where nobody listens."""
    with socket.create_server((HOST, 0)) as probe:
        return f"{HOST}:{probe.getsockname()[1]}"
