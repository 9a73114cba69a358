"""Bad inputs 23 and 27: whoever calls the link port and is no neighbour."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable

import pytest

from latecomer.runtime.link_challenge import CHANCE, LinkChallenge, Role
from tests.abuse.house import House, settled
from tests.conformance.conftest import free_port
from tests.conformance.raw import PATIENCE_S

SECRET = "a secret of some length"
PORT = free_port()
SETTINGS = {
    "broker": {"id": "a", "network": "ours"},
    "link": {"port": PORT, "secret": SECRET, "challenge_s": 1.0},
    "link.neighbours": [{"id": "b"}],
}


def calling() -> socket.socket:
    return socket.create_connection(("127.0.0.1", PORT), PATIENCE_S)


def speak(broker: str = "b", network: str = "ours", secret: str | None = SECRET) -> LinkChallenge:
    return LinkChallenge(Role.CALLER, broker, network, ("a",), secret.encode() if secret else None)


def everything(connection: socket.socket) -> bytes:
    """What comes until the broker closes."""
    found = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(65_536):
            found += more
    return bytes(found)


def converse(connection: socket.socket, mine: LinkChallenge) -> tuple[str, bytes]:
    """Play the caller's part to its end: what the other end says against it, and all it said."""
    connection.sendall(mine.begin())
    heard = bytearray()
    while more := connection.recv(65_536):
        heard += more
        progress = mine.feed(more)
        if progress.send:
            connection.sendall(progress.send)
        if progress.refused is not None:
            return progress.refused, bytes(heard)
        if progress.peer is not None:
            return "", bytes(heard)
    return "closed", bytes(heard)


GARBAGE: dict[str, bytes] = {
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "an MQTT CONNECT": b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03abc",
    "zeros": bytes(5000),
    "a long hello": b"\x01\xff\xff",
    "a proof before a hello": b"\x02\x00\x20" + bytes(32),
    "an empty hello": b"\x01\x00\x00",
    "a hello of another version": b"\x01\x00\x28\x63\x01\x01" + bytes(CHANCE) + b"\x01b\x01ours"[:5],
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_23_garbage(house: House, data: bytes) -> None:
    with house.noticed("link", "link connection with 127.0.0.1"), calling() as caller:
        caller.sendall(data)
        everything(caller)


STRANGERS: dict[str, tuple[Callable[[], LinkChallenge], str]] = {
    "no secret": (lambda: speak(secret=None), "one end has a secret and the other has none"),
    "another secret": (lambda: speak(secret="a guess of some length"), "the secret of the other end"),
    "another network": (lambda: speak(network="theirs"), "this is the network"),
    "an unknown broker": (lambda: speak(broker="c"), "is not the neighbour expected here"),
    "the broker itself": (lambda: speak(broker="a"), "there are two brokers with the id"),
}


@pytest.mark.parametrize(("who", "why"), STRANGERS.values(), ids=STRANGERS)
def test_23_strangers(house: House, who: Callable[[], LinkChallenge], why: str) -> None:
    with house.noticed("link", why), calling() as caller:
        refused, _ = converse(caller, who())
        assert why in refused
        assert everything(caller) == b""
    assert house.metrics()["latecomer_links_up"] == 0


def test_23_a_conversation_played_again(house: House) -> None:
    """What the right neighbour once said is worth nothing the second time: the broker's chance is another."""
    recorded = speak(broker="b")
    with calling() as first:
        hello = recorded.begin()
        first.sendall(hello)
        progress = recorded.feed(first.recv(65_536))
        proof = progress.send
        assert proof
    with house.noticed("link", "the secret of the other end"), calling() as second:
        second.sendall(hello)
        second.recv(65_536)
        second.sendall(proof)
        everything(second)
    assert house.metrics()["latecomer_links_up"] == 0


def test_23_its_own_words(house: House) -> None:
    """Reflected to it, its own hello and proof are refused."""
    with house.noticed("link"), calling() as caller:
        caller.sendall(speak().begin())
        caller.sendall(caller.recv(65_536))
        everything(caller)


def test_23_silence(house: House) -> None:
    with house.noticed("link", "it did not prove who it is in time"), calling() as caller:
        assert everything(caller) == b""


def test_23_half_a_hello(house: House) -> None:
    with house.noticed("link", "it did not prove who it is in time"), calling() as caller:
        caller.sendall(speak().begin()[:-1])
        assert everything(caller) == b""


@pytest.mark.parametrize("size", [640, 3_000_000])
def test_27_a_neighbour_that_talks_nonsense(house: House, size: int) -> None:
    """It knows the secret and sends bytes that are no frames: the link is closed, clients are served."""
    before = house.rss()
    with calling() as caller:
        assert converse(caller, speak())[0] == ""
        with contextlib.suppress(OSError):
            caller.sendall(b"\xff" + os.urandom(64) * (size // 64))
        everything(caller)
    settled(lambda: house.metrics()["latecomer_links_up"] == 0, "the link is down")
    settled(lambda: "link connection with b closed" in house.log, "the log says so")
    assert house.rss() - before < 32 * 1024 * 1024


def test_23_many_who_prove_nothing(house: House) -> None:
    """Those who wait to be asked for the secret are few at any time, and the neighbour still gets through."""
    crowd = [calling() for _ in range(150)]
    settled(lambda: "too many connections that have not proved who they are" in house.log, "some are sent away")
    for one in crowd:
        one.close()
    with calling() as caller:
        assert converse(caller, speak())[0] == ""
