"""Bad input 13: subscribers that take nothing, or do not come, and publishers that never pause."""

from __future__ import annotations

import threading
import time

import pytest

from tests.abuse.house import LONG, House, MiB, settled
from tests.conformance.codec import PUBACK, V5, V311, P, u16
from tests.conformance.raw import Client

SETTINGS = {"limits": {"queue_messages": 50, "queue_bytes": 100_000, "stall_ms": 1500}}
SECONDS = 60 if LONG else 2
LASTING = ((P.SESSION_EXPIRY, 600),)


class Listener(threading.Thread):
    """Reads and acknowledges everything that comes, and keeps the numbers in order."""

    def __init__(self, client: Client, qos: int) -> None:
        super().__init__(daemon=True)
        self.client, self.qos = client, qos
        self.got: list[int] = []
        self.start()

    def run(self) -> None:
        buffer = bytearray()
        while True:
            try:
                more = self.client.socket.recv(262_144)
            except OSError:
                return
            if not more:
                return
            buffer += more
            acks = bytearray()
            at = 0
            while at + 3 <= len(buffer):
                size = 3 + (buffer[at + 1] & 127 | buffer[at + 2] << 7)  # every message has two bytes of length
                if at + size > len(buffer):
                    break
                body = bytes(buffer[at + 3 : at + size])
                start = 2 + int.from_bytes(body[:2])
                if self.qos:
                    acks += b"\x40\x02" + body[start : start + 2]
                    start += 2
                start += self.client.version == V5
                self.got.append(int.from_bytes(body[start : start + 8]))
                at += size
            del buffer[:at]
            if acks:
                self.client.send(bytes(acks))


def chatter(house: House, client: Client, topic: str, qos: int) -> tuple[int, int]:
    """Publish at full speed for a while, never more unacknowledged than allowed; how many, and the broker's memory."""
    sent = unanswered = 0
    most = house.rss()
    end, look = time.monotonic() + SECONDS, 0.0
    window = 500
    while time.monotonic() < end or unanswered:
        if time.monotonic() < end and unanswered + 100 <= window:
            batch = b"".join(
                client.publication(topic, (sent + number).to_bytes(8) + b"x" * 1000, qos=qos, packet_id=number + 1)
                for number in range(100)
            )
            client.send(batch)
            sent += 100
            unanswered += 100 * qos
        elif unanswered:
            client.expect(PUBACK)
            unanswered -= 1
        if time.monotonic() > look:
            look, most = time.monotonic() + 0.2, max(most, house.rss())
    return sent, most


@pytest.mark.parametrize("version", [V5, V311])
@pytest.mark.parametrize("qos", [0, 1])
def test_13_a_subscriber_that_never_reads(house: House, qos: int, version: int) -> None:
    """Memory stays bounded, another subscriber of the same topic gets everything, the publisher is not stopped for
    good, and in the end the one that reads nothing is gone."""
    deaf, good, publisher = house.join(version), house.join(version), house.join(version)
    topic = f"flood/{qos}/{version}"
    deaf.subscribe((topic, qos))
    good.subscribe((topic, qos))
    listener = Listener(good, qos)
    before = house.rss()
    dropped = house.dropped("slow consumer") + house.dropped("queue full")
    abandoned = house.refused("reads nothing")
    sent, most = chatter(house, publisher, topic, qos)
    assert sent > 1000, "the publisher was stopped for good"
    settled(lambda: len(listener.got) == sent, f"the other one has all {sent} messages")
    assert listener.got == list(range(sent))
    assert most - before < 150 * MiB
    assert house.dropped("slow consumer") + house.dropped("queue full") > dropped
    settled(lambda: house.refused("reads nothing") > abandoned, "it is sent away")
    assert "it read nothing for 1.5 s" in house.log


def test_13_who_does_not_acknowledge(house: House) -> None:
    """It reads, but never says so: what waits for it is bounded, and others are not concerned."""
    mute, good, publisher = house.join(properties=((P.RECEIVE_MAXIMUM, 10),)), house.join(), house.join()
    mute.subscribe(("mute", 1))
    good.subscribe(("mute", 1))
    listener = Listener(good, 1)
    before, memory = house.dropped("queue full"), house.rss()
    for number in range(300):
        publisher.publish("mute", number.to_bytes(8) + b"x" * 1000)
    settled(lambda: listener.got == list(range(300)), "the other one has all messages")
    assert [mute.receive().packet_id for _ in range(10)] == list(range(1, 11))
    assert house.dropped("queue full") - before == 300 - 50 - 10
    assert house.rss() - memory < 20 * MiB


@pytest.mark.parametrize(("size", "kept"), [(10, 50), (9000, 10)], ids=["messages", "bytes"])
def test_13_an_offline_queue(house: House, size: int, kept: int) -> None:
    """The oldest go first, each is counted, and the newest arrive in order."""
    name = f"away{size}"
    away = house.join(client_id=name, properties=LASTING)
    away.subscribe((name, 1))
    away.disconnect()
    publisher = house.join()
    before = house.dropped("queue full")
    for number in range(80):
        answer = publisher.publish(name, number.to_bytes(2) + b"x" * size)
        assert answer is not None
        assert answer.reason == 0
    assert house.dropped("queue full") - before == 80 - kept
    back = house.join(client_id=name, clean=False, properties=LASTING)
    got = [int.from_bytes(back.take().payload[:2]) for _ in range(kept)]
    assert got == list(range(80 - kept, 80))
    back.expect_nothing()


def test_13_acknowledgements_of_nothing(house: House) -> None:
    """A flood of them costs nothing but the time to read it."""
    client = house.join()
    before = house.rss()
    client.send(b"".join(b"\x40\x02" + u16(number) for number in range(1, 60_000)))
    client.ping()
    assert house.rss() - before < 20 * MiB
