"""Mutated packets against a live broker, while a second client watches that nothing happens to it."""

from __future__ import annotations

import random
import socket
import threading

import pytest

from tests.abuse.house import LONG, House, MiB, Probe, settled
from tests.conformance.codec import (
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBSCRIBE,
    UNSUBSCRIBE,
    V5,
    V311,
    Hello,
    P,
    Will,
    packet,
    properties,
    string,
    u16,
)
from tests.conformance.raw import PATIENCE_S, Client, farewell

PACKETS = 1_000_000 if LONG else 20_000
PER_CONNECTION = 8
SETTINGS = {"limits": {"connection_rate": 0, "sessions": 500, "packet_s": 2.0}}
SEED = 20_221


def seeds(version: int) -> list[bytes]:
    """One of each kind that a client sends, with everything in it."""
    five = version == V5
    plain = properties(()) if five else b""
    rich = properties([(P.USER, ("filter", "x > 1")), (P.SUBSCRIPTION_ID, 5)]) if five else b""
    message = properties(
        [
            (P.PAYLOAD_FORMAT, 1),
            (P.MESSAGE_EXPIRY, 60),
            (P.TOPIC_ALIAS, 1),
            (P.RESPONSE_TOPIC, "r"),
            (P.USER, ("a", "b")),
        ]
    )
    reason = b"\x10" + properties([(P.REASON_STRING, "why")]) if five else b""
    will = Will("fuzz/will", b"w", 1, properties=((P.WILL_DELAY, 1),) if five else ())
    expiry = ((P.SESSION_EXPIRY, 1), (P.RECEIVE_MAXIMUM, 5), (P.MAXIMUM_PACKET_SIZE, 5000)) if five else ()
    found = [
        Hello(client_id="fuzz", version=version, will=will, user="u", password=b"p", properties=expiry).encode(),
        packet(3, string("fuzz/a") + (message if five else b"") + b"payload"),
        packet(3, string("fuzz/a") + plain + b"payload"),
        packet(3, string("fuzz/b") + u16(7) + plain + b"payload", 2),
        packet(3, string("fuzz/b") + u16(8) + plain + b'{"x": 2}', 5),
        packet(SUBSCRIBE, u16(1) + rich + string("fuzz/#") + b"\1" + string("$share/g/fuzz/+") + b"\2", 2),
        packet(UNSUBSCRIBE, u16(2) + plain + string("fuzz/#"), 2),
        packet(PINGREQ),
        farewell(4, [(P.REASON_STRING, "x")]) if five else farewell(),
        packet(15, b"\x18" + properties([(P.AUTH_METHOD, "m"), (P.AUTH_DATA, b"d")])),
    ]
    return found + [
        packet(kind, u16(1) + reason, 2 if kind == PUBREL else 0) for kind in (PUBACK, PUBREC, PUBREL, PUBCOMP)
    ]


def mutate(chance: random.Random, data: bytes) -> bytes:
    """Flip, cut, repeat, swap in a number with a meaning; now and then nothing at all."""
    found = bytearray(data)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
        at = chance.randrange(len(found)) if found else 0
        what = chance.randrange(7)
        if what == 0 and found:
            found[at] ^= 1 << chance.randrange(8)
        elif what == 1 and found:
            found[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, 0x2B, 0x23, 0x2F, 0x24))
        elif what == 2:
            del found[at:]
        elif what == 3:
            found[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 8)))
        elif what == 4:
            found += found[at : at + 50]
        elif what == 5 and len(found) > 1:
            found[1] = chance.randrange(256)
        elif what == 6:
            del found[at : at + chance.randrange(1, 5)]
    return bytes(found)


class Watcher(threading.Thread):
    """Sends itself numbered messages all the while; misses none."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.over = threading.Event()
        self.count = 0
        self.problem: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self.over.wait(0.005):
                text = b"%d" % self.count
                self.client.publish("watch/me", text, packet_id=self.count % 60_000 + 1)
                self.client.take(topic="watch/me", payload=text)
                self.count += 1
        except BaseException as problem:  # told by the test, in its own thread
            self.problem = problem


@pytest.mark.parametrize("version", [V5, V311])
def test_mutated_packets(house: House, probe: Probe, version: int) -> None:
    chance = random.Random(SEED + version)
    material = seeds(version)
    subscribed = house.join()
    subscribed.subscribe(("watch/me", 1))
    watching = Watcher(subscribed)
    address = ("127.0.0.1", house.ports["mqtt"])
    before = 0
    connections = PACKETS // PER_CONNECTION // 2
    for number in range(connections):
        data = b"" if chance.random() < 0.1 else hello(chance, version)
        data += b"".join(mutate(chance, chance.choice(material)) for _ in range(PER_CONNECTION))
        with socket.create_connection(address, PATIENCE_S) as client:
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65_536):
                    pass
            except OSError:
                pass
        if number == connections // 2:
            before = house.rss()
    watching.over.set()
    watching.join(PATIENCE_S)
    assert watching.problem is None, f"seed {SEED}: {watching.problem}"
    assert watching.count > 10
    assert house.rss() - before < 40 * MiB
    house.is_well()
    probe.round_trip()
    settled(lambda: house.metrics()["latecomer_connections"] <= 2, "nobody is left behind")


def hello(chance: random.Random, version: int) -> bytes:
    """Mostly a few clients who come again, so that sessions are resumed and taken over."""
    expiry = ((P.SESSION_EXPIRY, 3),) if version == V5 else ()
    name = f"fuzz{chance.randrange(50)}"
    return Hello(client_id=name, version=version, clean=chance.random() < 0.5, properties=expiry).encode()
