"""Bad input 8 in numbers: very many topics, very many subscriptions, and what a message costs among them."""

from __future__ import annotations

from tests.abuse.house import LONG, House, MiB, Probe, settled
from tests.conformance.codec import PUBACK

TOPICS = 1_000_000 if LONG else 30_000
SUBSCRIPTIONS = 100_000 if LONG else 3_000
SETTINGS = {"limits": {"connection_rate": 0}}


def test_a_topic_for_every_message(house: House, probe: Probe) -> None:
    """What the broker remembers of topics is bounded: the second half of them costs no more memory."""
    client = house.join()
    half = 0
    batch = 1000
    for first in range(0, TOPICS, batch):
        messages = [
            client.publication(f"many/{first + number}/{number}", b"x", qos=number % 2, packet_id=number + 1)
            for number in range(batch)
        ]
        client.send(b"".join(messages))
        for _ in range(batch // 2):
            client.expect(PUBACK)
        if first == TOPICS // 2:
            half = house.rss()
    assert house.rss() - half < 32 * MiB
    probe.round_trip()


def test_very_many_subscriptions(house: House, probe: Probe) -> None:
    """They cost memory in proportion, none of them gets what is another's, and they leave nothing behind."""
    before, count = house.rss(), 1000
    clients = [house.join() for _ in range(SUBSCRIPTIONS // count)]
    for number, client in enumerate(clients):
        shapes = (f"s/{number}/%d/+", f"s/+/{number}/%d", f"s/{number}/%d/#", f"s/{number}/x/%d")
        filters = [(shapes[each % 4] % each, each % 2) for each in range(count)]
        assert client.subscribe(*filters) == [qos for _, qos in filters]
    assert house.metrics()["latecomer_subscriptions"] >= SUBSCRIPTIONS
    assert house.rss() - before < SUBSCRIPTIONS * 8192 + 32 * MiB
    probe.round_trip()
    sender = house.join()
    for number, client in enumerate(clients):
        sender.publish(f"s/{number}/0/here", b"x")
        assert client.take().topic == f"s/{number}/0/here"
        client.disconnect()
    settled(lambda: house.metrics()["latecomer_subscriptions"] <= 2, "all are gone")
