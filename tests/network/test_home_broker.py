"""Sessions that stay at home while their clients connect elsewhere, with real brokers and paho."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from latecomer.cli.main import VERBS, run
from latecomer.messages.mqtt import Reason
from latecomer.model.topology_generators import line
from latecomer.runtime.network_file import Seat
from latecomer.runtime.session_views import SessionView
from latecomer.runtime.supervisor import Supervisor
from tests.network.net import QUICK, network_of, running
from tests.network.peer import Peer

LARGE = b"x" * 200_000
COUNT = 30


@pytest.fixture(scope="module")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """b1 – b2 – b3; large messages do not fit into a tunnel all at once."""
    folder: Path = tmp_path_factory.mktemp("home")
    settings = {**QUICK, "hand_over": {"algorithm": "home-broker"}}
    with running(network_of(line(3), settings), folder, restart=False) as supervisor:
        yield supervisor


@pytest.fixture
def seats(supervisor: Supervisor) -> tuple[Seat, ...]:
    return supervisor.network.brokers


@pytest.fixture
def name() -> str:
    return f"phone-{uuid4().hex[:10]}"


Sessions = dict[str, tuple[str, str, str]]


@pytest.fixture
def cli(supervisor: Supervisor, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """What a verb says, and its exit code."""

    def say(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run(VERBS, [*words, "--network", str(supervisor.folder)])
        return code, capsys.readouterr().out

    return say


@pytest.fixture
def sessions(cli: Callable[..., tuple[int, str]], name: str) -> Callable[[], Sessions]:
    """Where each broker says that the session is."""

    def ask() -> Sessions:
        views = msgspec.json.decode(cli("sessions", "--client", name, "--json")[1], type=list[SessionView])
        return {view.broker: (view.where, view.partner, view.via) for view in views}

    return ask


@pytest.mark.parametrize("old", [False, True])
def test_a_visitor_publishes_and_receives_with_every_qos(
    seats: tuple[Seat, ...], name: str, sessions: Callable[[], Sessions], old: bool
) -> None:
    b1, b2, b3 = seats
    with Peer(b1.port, name, keep_seconds=300, old=old) as at_home:
        at_home.subscribe(f"{name}/down", 2)
    with Peer(b2.port, name, keep_seconds=300, old=old) as phone, Peer(b3.port) as other:
        assert phone.session_present
        other.subscribe(f"{name}/up", 2)
        other.ready(phone)
        phone.ready(other)
        for qos in (0, 1, 2):
            assert phone.publish(f"{name}/up", f"up {qos}", qos) == 0
            assert [(m.payload, m.qos) for m in other.take()] == [(f"up {qos}".encode(), qos)]
            assert other.publish(f"{name}/down", f"down {qos}", qos) == 0
            assert [(m.payload, m.qos) for m in phone.take()] == [(f"down {qos}".encode(), qos)]
        assert sessions() == {"b1": ("here", "", "b2"), "b2": ("visiting", "b1", "")}
    assert sessions() == {"b1": ("here", "", "")}
    Peer(b1.port, name).leave()


def test_publishers_at_home_reach_a_visitor(seats: tuple[Seat, ...], name: str) -> None:
    """Also with QoS 0, which the fast path would have brought to nobody as long as the client was away."""
    b1, b2, _ = seats
    with Peer(b1.port, name, keep_seconds=300) as at_home:
        at_home.subscribe(name, 1)
    with Peer(b1.port) as publisher:
        publisher.publish(name, "nobody is there", 0)
        with Peer(b2.port, name, keep_seconds=300) as phone:
            for qos in (0, 1):
                publisher.publish(name, f"at b2 {qos}", qos)
                assert phone.payloads() == [f"at b2 {qos}".encode()]
        publisher.publish(name, "nobody is there", 0)
        with Peer(b1.port, name, keep_seconds=300) as phone:
            publisher.publish(name, "at home", 0)
            assert phone.payloads() == [b"at home"]
    Peer(b1.port, name).leave()


def test_large_messages_wait_for_room_in_the_tunnel(seats: tuple[Seat, ...], name: str) -> None:
    b1, b2, b3 = seats
    Peer(b1.port, name, keep_seconds=300).leave()
    with Peer(b2.port, name, keep_seconds=300) as phone, Peer(b3.port) as other:
        for here, there in ((phone, other), (other, phone)):
            there.subscribe(f"{name}/{here is phone}", 1)
            there.ready(here)
            for number in range(COUNT):
                here.client.publish(f"{name}/{here is phone}", b"%d " % number + LARGE, 1)
            assert [int(payload.split()[0]) for payload in there.payloads(COUNT)] == list(range(COUNT))
    Peer(b1.port, name).leave()


def test_the_younger_connection_wins_and_what_was_missed_comes(seats: tuple[Seat, ...], name: str) -> None:
    b1, b2, b3 = seats
    first = Peer(b1.port, name, keep_seconds=300)
    first.subscribe(name, 1)
    second = Peer(b2.port, name, keep_seconds=300)
    assert first.dismissed() == Reason.SESSION_TAKEN_OVER
    third = Peer(b3.port, name, keep_seconds=300)
    assert second.dismissed() == Reason.SESSION_TAKEN_OVER
    third.vanish()
    with Peer(b3.port) as other:
        for number in range(COUNT):
            assert other.publish(name, str(number), 1) == 0
    with Peer(b2.port, name, keep_seconds=300) as phone:
        assert phone.session_present
        got = [int(payload) for payload in phone.payloads(COUNT)]
    assert got == list(range(COUNT))
    Peer(b1.port, name).leave()


def test_a_drained_broker_sends_its_visitors_away(
    seats: tuple[Seat, ...], name: str, cli: Callable[..., tuple[int, str]], sessions: Callable[[], Sessions]
) -> None:
    b1, b2, _ = seats
    Peer(b1.port, name, keep_seconds=300).leave()
    phone = Peer(b2.port, name, keep_seconds=300)
    assert cli("drain", "b2")[0] == 0
    assert phone.dismissed() == Reason.USE_ANOTHER_SERVER
    assert sessions() == {"b1": ("here", "", "")}
    assert cli("drain", "b2", "--abort")[0] == 0
    Peer(b1.port, name).leave()


def test_home_is_killed_and_its_client_resumes_when_it_is_back(supervisor: Supervisor, name: str) -> None:
    b1, b2, b3 = supervisor.network.brokers
    Peer(b1.port, name, keep_seconds=300).leave()
    phone = Peer(b2.port, name, keep_seconds=300)
    phone.subscribe(name, 1)
    with Peer(b3.port) as other:
        phone.ready(other)
        supervisor.kill("b1")
        assert phone.dismissed() == Reason.SERVER_BUSY
        other.publish(name, "while home was away", 1)
        with pytest.raises(ConnectionRefusedError, match="Server unavailable"):
            Peer(b2.port, name, keep_seconds=300)
    supervisor.revive("b1")
    for _ in range(10):
        try:
            phone = Peer(b2.port, name, keep_seconds=300)
            break
        except ConnectionRefusedError:
            continue
    assert phone.session_present
    assert phone.payloads() == [b"while home was away"]
    phone.leave()
