"""Bad inputs 5 and 6: those who say nothing, say it slowly, or promise to be silent for hours."""

from __future__ import annotations

import time

import pytest

from tests.abuse.house import House, nothing_came
from tests.conformance.codec import V5, V311, Hello, P
from tests.conformance.raw import Client

SETTINGS = {
    "limits": {"connect_s": 1.0, "packet_s": 1.0, "keep_alive_max_s": 30, "keep_alive_allow_longer": False},
}
SILENCE = 0x8D
HELLO = Hello(client_id="slow").encode()


def drip(client: Client, data: bytes) -> None:
    """One byte at a time, until the broker has had enough."""
    for number in range(len(data)):
        client.send(data[number : number + 1])
        client.socket.settimeout(0.15)
        try:
            client.buffer += client.read_more()
        except TimeoutError:
            continue
        finally:
            client.socket.settimeout(15)
        return
    raise AssertionError("every byte was taken")


@pytest.mark.parametrize("begun", [b"", HELLO[:1], HELLO[:-1]], ids=["silent", "one byte", "half a CONNECT"])
def test_05_no_connect(house: House, begun: bytes) -> None:
    with house.noticed("no connect", "no CONNECT within 1 s"):
        client = house.raw()
        client.send(begun)
        client.expect_closed()


def test_05_a_connect_byte_by_byte(house: House) -> None:
    """Every byte is in time, the whole is not."""
    with house.noticed("no connect", "no CONNECT within 1 s"):
        client = house.raw()
        drip(client, HELLO)
        client.expect_closed()


@pytest.mark.parametrize("version", [V5, V311])
@pytest.mark.parametrize("size", [1, 2, 50])
def test_05_half_a_publish(house: House, version: int, size: int) -> None:
    """One byte, the header, and most of it."""
    client, witness = house.join(version, keep_alive=20), house.join()
    witness.subscribe(("#", 0))
    with house.noticed("keep_alive_timeout", "a packet took too long to arrive"):
        client.send(client.publication("half", b"x" * 100)[:size])
        client.expect_end(SILENCE)
    nothing_came(witness)


def test_05_a_publish_byte_by_byte(house: House) -> None:
    """Bytes that keep coming do not make a packet."""
    client, witness = house.join(), house.join()
    witness.subscribe(("#", 0))
    with house.noticed("keep_alive_timeout", "a packet took too long to arrive"):
        drip(client, client.publication("slow", b"x" * 100))
        client.expect_end(SILENCE)
    nothing_came(witness)


def test_05_a_hundred_at_once(house: House) -> None:
    """All of them are gone in the end, and none was in the way of others."""
    with house.noticed("no connect", times=100):
        silent = [house.raw() for _ in range(100)]
        for client in silent:
            client.expect_closed()


@pytest.mark.parametrize("keep_alive", [0, 31, 65_535])
def test_06_keep_alive(house: House, keep_alive: int) -> None:
    """A client of MQTT 5 is told a shorter one; one of 3.1.1 cannot be told, and is refused if that is set."""
    assert house.join(keep_alive=keep_alive).connack.get(P.SERVER_KEEP_ALIVE) == 30
    with house.noticed("not_authorized", "keep-alive must be 1 to 30 s"):
        client, answer = house.knock(V311, keep_alive=keep_alive)
        assert answer.reason == 5
        client.expect_closed()
    house.join(V311, keep_alive=30)


@pytest.mark.parametrize("version", [V5, V311])
def test_06_a_broken_promise(house: House, version: int) -> None:
    """Silent for one and a half times the keep alive [MQTT-3.1.2-22]."""
    client, begun = house.join(version, keep_alive=1), time.monotonic()
    with house.noticed("keep_alive_timeout", "nothing was heard for too long"):
        client.expect_end(SILENCE)
    assert time.monotonic() - begun > 1.4
