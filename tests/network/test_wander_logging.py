"""Recent logs and subscriptions on the device, with real brokers and paho."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen
from uuid import uuid4

import pytest

from latecomer.model.topology_generators import line
from latecomer.runtime.network_file import Seat
from tests.network.net import HOST, network_of, running
from tests.network.peer import Peer

COUNT, BYTES = 50, 2_000


@pytest.fixture(scope="module")
def seats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Seat, ...]]:
    """b1 – b2 – b3, with recent logs."""
    settings = {
        "broker": {"durability": "process"},
        "event_log": {"enabled": False},
        "hand_over": {"algorithm": "logging"},
    }
    folder: Path = tmp_path_factory.mktemp("logging")
    with running(network_of(line(3), settings), folder) as supervisor:
        yield supervisor.network.brokers


@pytest.fixture
def name() -> str:
    return f"phone-{uuid4().hex[:10]}"


def rows(seat: Seat) -> dict[str, int]:
    """Deliveries that came to a broker with sessions, and how."""
    with urlopen(f"http://{HOST}:{seat.admin_port}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return {
        how: round(float(line.split()[1]))
        for how in ("built", "came")
        for line in lines
        if line.startswith(f"latecomer_hand_over_rows_{how}_total ")
    }


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {how: after[how] - before[how] for how in before}


def publish_to_nobody(seats: tuple[Seat, ...], name: str) -> list[bytes]:
    """The client subscribes at b1 and leaves; then it is published at b3."""
    b1, _, b3 = seats
    phone = Peer(b1.port, name, keep_seconds=300)
    with Peer(b3.port) as publisher:
        phone.subscribe(f"{name}/#", 1)
        phone.ready(publisher)
        phone.unsubscribe(phone.fence_topic)  # which is no subscription of the story
        phone.leave()
        sent = [f"{number} {'x' * BYTES}".encode() for number in range(COUNT)]
        for payload in sent:
            assert publisher.publish(f"{name}/1", payload.decode(), 1) == 0
    return sent


def test_what_the_new_broker_has_carried_does_not_travel(seats: tuple[Seat, ...], name: str) -> None:
    _, b2, _ = seats
    sent, before = publish_to_nobody(seats, name), rows(b2)
    with Peer(b2.port, name, keep_seconds=300) as phone:
        assert phone.session_present
        assert [message.payload for message in phone.take(COUNT)] == sent
    assert grown(before, rows(b2)) == {"built": COUNT, "came": 0}
    Peer(b2.port, name).leave()


def test_a_client_that_wants_the_standard_way_gets_it(seats: tuple[Seat, ...], name: str) -> None:
    _, b2, _ = seats
    sent, before = publish_to_nobody(seats, name), rows(b2)
    with Peer(b2.port, name, keep_seconds=300, UserProperty=[("hand-over", "standard")]) as phone:
        assert [message.payload for message in phone.take(COUNT)] == sent
    assert grown(before, rows(b2)) == {"built": 0, "came": COUNT}
    Peer(b2.port, name).leave()


@pytest.mark.parametrize("said", ["1 {}/#", "1 elsewhere/#"])
def test_a_client_brings_its_subscriptions(seats: tuple[Seat, ...], name: str, said: str) -> None:
    """Rightly or wrongly: it gets everything that it has missed, and what is published from then on."""
    _, b2, b3 = seats
    sent = publish_to_nobody(seats, name)
    words = [("previous-broker", "b1"), ("subscription", said.format(name))]
    with Peer(b2.port, name, keep_seconds=300, UserProperty=words) as phone, Peer(b3.port) as publisher:
        assert phone.session_present
        assert [message.payload for message in phone.take(COUNT)] == sent
        phone.ready(publisher)
        publisher.publish("elsewhere/1", "for others", 1)
        publisher.publish(f"{name}/2", "and on", 1)
        assert phone.payloads() == [b"and on"]
    Peer(b2.port, name).leave()


def test_subscriptions_that_cannot_be_read_are_refused(seats: tuple[Seat, ...], name: str) -> None:
    with pytest.raises(ConnectionRefusedError, match="Implementation specific error"):
        Peer(seats[0].port, name, keep_seconds=300, UserProperty=[("subscription", "news/#")])
