"""Sessions that follow their clients between real brokers: one connection per client id, users, wills."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from latecomer.messages.mqtt import Reason
from latecomer.model.topology_generators import line
from latecomer.runtime.network_file import Seat
from latecomer.runtime.users import hash_password, write_users
from tests.network.net import QUICK, network_of, running
from tests.network.peer import Peer

ANN, BOB = ("ann", "sesame open"), ("bob", "sesame shut")
WILL_DELAY_S = 5


@pytest.fixture(scope="module")
def seats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Seat, ...]]:
    """b1 – b2 – b3, for two users with passwords."""
    folder = tmp_path_factory.mktemp("wander")
    write_users(folder / "users", {name: hash_password(word.encode()) for name, word in (ANN, BOB)})
    settings = {**QUICK, "access": {"anonymous": "deny", "users_file": str(folder / "users")}}
    with running(network_of(line(3), settings), folder) as supervisor:
        yield supervisor.network.brokers


@pytest.fixture
def name() -> str:
    return f"phone-{uuid4().hex[:10]}"


class Talker:
    """Publishes numbers with QoS 1 without a pause, in a thread."""

    def __init__(self, port: int, topic: str) -> None:
        self.peer = Peer(port, user=ANN)
        self.topic = topic
        self.sent = 0
        self.talking = True
        self.thread = threading.Thread(target=self._talk)

    def __enter__(self) -> Talker:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.peer.leave()

    def stop(self) -> int:
        self.talking = False
        self.thread.join()
        return self.sent

    def _talk(self) -> None:
        while self.talking:
            assert self.peer.publish(self.topic, str(self.sent), 1) == 0
            self.sent += 1


def numbers(peer: Peer, talker: Talker) -> list[int]:
    """What comes until the talker has been stopped; it talks until something has come."""
    got = [int(peer.take()[0].payload)]
    last = talker.stop() - 1
    while got[-1] != last:
        got.append(int(peer.take()[0].payload))
    return got


def test_two_connections_with_one_client_id(seats: tuple[Seat, ...], name: str) -> None:
    """The younger one gets the session, wherever it connects; the older one is told 0x8E. Between them they miss
    nothing of what is published all the while, and what comes twice is what the older one had not acknowledged."""
    b1, b2, b3 = seats
    first = Peer(b1.port, name, keep_seconds=300, user=ANN)
    assert not first.session_present
    first.subscribe(name, 1)
    with Talker(b3.port, name) as talker:
        first_got = [int(message.payload) for message in first.take(20)]
        second = Peer(b2.port, name, keep_seconds=300, user=ANN)
        assert first.dismissed() == Reason.SESSION_TAKEN_OVER
        assert second.session_present
        second_got = [int(message.payload) for message in second.take(20)]
        third = Peer(b1.port, name, keep_seconds=300, user=ANN)  # and back, where there is a pointer to b2
        assert second.dismissed() == Reason.SESSION_TAKEN_OVER
        assert third.session_present
        third_got = numbers(third, talker)
        third.leave()
    first_got += [int(message.payload) for message in first.inbox.queue]
    second_got += [int(message.payload) for message in second.inbox.queue]
    for got in (first_got, second_got, third_got):
        assert got == list(range(got[0], got[0] + len(got)))
    assert second_got[0] <= first_got[-1] + 1
    assert third_got[0] <= second_got[-1] + 1
    Peer(b1.port, name, user=ANN).leave()


@pytest.mark.parametrize("keep_seconds", [300, None])
def test_a_clean_start_elsewhere_ends_connection_and_session(
    seats: tuple[Seat, ...], name: str, keep_seconds: int | None
) -> None:
    b1, b2, _ = seats
    first = Peer(b1.port, name, keep_seconds=keep_seconds, user=ANN)
    first.subscribe(name, 1)
    with Peer(b2.port, name, user=ANN) as second:
        assert not second.session_present
        assert first.dismissed() == Reason.SESSION_TAKEN_OVER
    with Peer(b1.port, name, keep_seconds=300, user=ANN) as third:
        assert not third.session_present
    Peer(b1.port, name, user=ANN).leave()


@pytest.mark.parametrize("connected", [True, False])
def test_another_user_with_the_same_client_id_gets_nothing(seats: tuple[Seat, ...], name: str, connected: bool) -> None:
    b1, b2, b3 = seats
    with Peer(b3.port, user=ANN) as publisher:
        ann = Peer(b1.port, name, keep_seconds=300, user=ANN)
        ann.subscribe(name, 1)
        ann.ready(publisher)
        if not connected:
            ann.leave()
        publisher.publish(name, "for ann", 1)
        with pytest.raises(ConnectionRefusedError, match="Client identifier not valid"):
            Peer(b2.port, name, keep_seconds=300, user=BOB)
        with Peer(b2.port, name, user=BOB) as bob:  # a clean start that leaves no session is not held up for this
            assert not bob.session_present
        if connected:
            assert ann.payloads() == [b"for ann"]
            publisher.publish(name, "still there", 1)
            assert ann.payloads() == [b"still there"]
            ann.leave()
        else:
            with Peer(b2.port, name, keep_seconds=300, user=ANN) as again:
                assert again.session_present
                assert again.payloads() == [b"for ann"]
    Peer(b2.port, name, user=ANN).leave()


def test_a_will_with_delay(seats: tuple[Seat, ...], name: str) -> None:
    """It does not fire if its client is back within the delay, although elsewhere; then the will counts that the client
    brought there, and fires if it does not come back."""
    b1, b2, b3 = seats
    with Peer(b3.port, user=ANN) as watcher:
        watcher.subscribe(f"{name}/will", 1)
        watcher.ready(watcher)
        first = Peer(
            b1.port, name, keep_seconds=300, user=ANN,
            will=(f"{name}/will", b"lost at b1", 1, False), will_delay_s=WILL_DELAY_S,
        )  # fmt: skip
        first.vanish()
        left = time.monotonic()
        second = Peer(
            b2.port, name, keep_seconds=300, user=ANN,
            will=(f"{name}/will", b"lost at b2", 1, False), will_delay_s=1,
        )  # fmt: skip
        assert second.session_present
        time.sleep(max(0.0, left + WILL_DELAY_S + 1 - time.monotonic()))
        assert watcher.rest(second) == []
        second.vanish()
        assert watcher.payloads() == [b"lost at b2"]
        with Peer(b1.port, name, user=ANN) as end:
            assert watcher.rest(end) == []


def test_a_will_without_a_move_fires(seats: tuple[Seat, ...], name: str) -> None:
    b1, _, b3 = seats
    with Peer(b3.port, user=ANN) as watcher:
        watcher.subscribe(f"{name}/will", 1)
        watcher.ready(watcher)
        lost = Peer(b1.port, name, keep_seconds=300, user=ANN, will=(f"{name}/will", b"lost", 1, False), will_delay_s=1)
        lost.vanish()
        assert watcher.payloads() == [b"lost"]
    Peer(b1.port, name, user=ANN).leave()
