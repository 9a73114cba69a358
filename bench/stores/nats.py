"""A word with a NATS server now and then: streams are made and looked at; the load is made in C."""

from __future__ import annotations

import json
import socket
from typing import Any

from bench.book import BenchError
from bench.broker.brokers import HOST

PATIENCE_SECONDS = 60.0


def ask(port: int, subject: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
    """One request to the JetStream API, on a connection of its own."""
    body = json.dumps(request).encode() if request is not None else b""
    with socket.create_connection((HOST, port), timeout=PATIENCE_SECONDS) as connection:
        stream = connection.makefile("rb")
        stream.readline()  # INFO
        hello = (
            b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\nSUB _INBOX.ask 1\r\n'
        )
        connection.sendall(hello + f"PUB {subject} _INBOX.ask {len(body)}\r\n".encode() + body + b"\r\n")
        while line := stream.readline():
            words = line.split()
            if words[0] == b"PING":
                connection.sendall(b"PONG\r\n")
            elif words[0] == b"-ERR":
                raise BenchError(f"NATS said: {line.decode().strip()}")
            elif words[0] in (b"MSG", b"HMSG"):
                text = stream.read(int(words[-1]))
                if words[0] == b"HMSG":
                    raise BenchError(f"nobody answers to {subject}: is JetStream on?")
                answer: dict[str, Any] = json.loads(text)
                if "error" in answer:
                    raise BenchError(f"NATS refused: {answer['error'].get('description')}")
                return answer
    raise BenchError("NATS closed the connection")
