"""Clients that know nothing of Latecomer move from broker to broker, and find their sessions there.

No client retries by itself here: whoever is refused ends, and is started again, as a service manager would do it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from uuid import uuid4

import pytest

from latecomer.model.topology_generators import line
from latecomer.runtime.network_file import Seat
from latecomer.runtime.supervisor import Supervisor
from tests.conftest import EVERYTHING
from tests.interop.libraries import LIBRARIES, Heard, Library, Listener
from tests.interop.mqttjs_setup import prepare
from tests.network.net import QUICK, network_of, running
from tests.network.peer import FENCE, LIMIT_SECONDS, Peer

COUNT = 20
TRIES = 5
SUBSCRIBERS = ["mosquitto", "paho", "aiomqtt", "mqttjs"]
OLD = [pytest.param(f"{name}-311", marks=pytest.mark.long) for name in ("mosquitto", "paho", "mqttjs")]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """b1 – b2 – b3, of which each stays down when it is killed."""
    with running(network_of(line(3)), tmp_path_factory.mktemp("moves"), restart=False) as supervisor:
        yield supervisor


@pytest.fixture(scope="module", params=["logging", "prefetching", "home-broker"])
def network_with(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """The same with another algorithm than the standard one."""
    settings = {**QUICK, "hand_over": {"algorithm": request.param}}
    with running(network_of(line(3), settings), tmp_path_factory.mktemp("moves")) as supervisor:
        yield supervisor


@pytest.fixture
def library(request: pytest.FixtureRequest) -> Library:
    found = LIBRARIES[request.param]
    lacking = [f"needs the program {program}" for program in found.needs() if shutil.which(program) is None]
    if not lacking and "npm" in found.needs():
        lacking = [complaint for complaint in [prepare()] if complaint]
    if lacking:
        (pytest.fail if EVERYTHING else pytest.skip)("; ".join(lacking))
    return found


class Traveller:
    """A client with one session, as one process after the other."""

    def __init__(self, library: Library, topic: str) -> None:
        self.library = library
        self.topic = topic
        self.name = f"traveller-{uuid4().hex[:10]}"
        self.fence = FENCE + uuid4().hex
        self.listener: Listener | None = None

    def start(self, seat: Seat) -> Listener:
        self.listener = self.library.subscribe(
            seat, f"{self.topic}/#", qos=2, client_id=self.name, keep=True, fence=self.fence
        )
        return self.listener

    def leave(self) -> None:
        assert self.listener is not None
        self.library.leave(self.listener)

    def end(self, seat: Seat) -> None:
        """Leave no session behind."""
        if self.listener is not None:
            self.listener.vanish()
        with Peer(seat.port, self.name):
            pass


def publish(peer: Peer, topic: str, first: int) -> None:
    for number in range(first, first + COUNT):
        for qos in (1, 2):
            assert peer.publish(f"{topic}/{qos}", str(number), qos) == 0


def numbers(heard: list[Heard], topic: str, qos: int) -> list[int]:
    return [int(each.payload) for each in heard if (each.topic, each.qos) == (f"{topic}/{qos}", qos)]


def check(listener: Listener, publisher: Peer, topic: str, first: int) -> None:
    """Everything came once, in order per publisher and QoS: a client hands QoS 2 on later than QoS 1."""
    got = listener.take(2 * COUNT)
    for qos in (1, 2):
        assert numbers(got, topic, qos) == list(range(first, first + COUNT))
    assert listener.rest(publisher) == []
    assert listener.present in (True, None)


@pytest.mark.parametrize("library", [*SUBSCRIBERS, *OLD], indirect=True)
def test_it_moves_and_moves_on(library: Library, network: Supervisor, topic: str) -> None:
    moves_and_moves_on(library, network, topic)


@pytest.mark.long
@pytest.mark.parametrize("library", SUBSCRIBERS, indirect=True)
def test_it_moves_by_every_algorithm(library: Library, network_with: Supervisor, topic: str) -> None:
    """The client need not know which one its brokers use."""
    moves_and_moves_on(library, network_with, topic)


def moves_and_moves_on(library: Library, network: Supervisor, topic: str) -> None:
    b1, b2, b3 = network.network.brokers
    traveller = Traveller(library, topic)
    with Peer(b3.port) as far, Peer(b1.port) as near:
        try:
            assert not traveller.start(b1).ready(far).present
            traveller.leave()
            publish(far, topic, 0)
            check(traveller.start(b2), far, topic, 0)
            traveller.leave()
            publish(near, topic, 100)
            check(traveller.start(b3), near, topic, 100)
            publish(near, topic, 200)  # and what is published while it is there
            check(traveller.listener or traveller.start(b3), near, topic, 200)
            traveller.leave()
        finally:
            traveller.end(b3)


@pytest.mark.parametrize(
    "library",
    ["mosquitto", *(pytest.param(name, marks=pytest.mark.long) for name in SUBSCRIBERS[1:]), *OLD],
    indirect=True,
)
def test_it_is_refused_while_its_broker_is_away(library: Library, network: Supervisor, topic: str) -> None:
    """CONNACK 0x88, in MQTT 3.1.1 the return code 3; when the broker is back there is everything."""
    b1, b2, b3 = network.network.brokers
    traveller = Traveller(library, topic)
    with Peer(b3.port) as far:
        try:
            traveller.start(b1).ready(far)
            traveller.leave()
            publish(far, topic, 0)
            network.kill("b1")
            try:
                publish(far, topic, 100)
                assert "unavailable" in traveller.start(b2).refused().lower()
            finally:
                network.revive("b1")
            listener = admitted(traveller, b2, far)
            got = listener.take(4 * COUNT)
            for qos in (1, 2):
                assert numbers(got, topic, qos) == [*range(COUNT), *range(100, 100 + COUNT)]
            assert listener.rest(far) == []
            traveller.leave()
        finally:
            traveller.end(b2)


def admitted(traveller: Traveller, seat: Seat, publisher: Peer) -> Listener:
    """It is started until it is not refused; brokers need a moment to find one that is back."""
    for _ in range(TRIES):
        listener = traveller.start(seat)
        try:
            return listener.ready(publisher)
        except AssertionError as error:
            if "unavailable" not in str(error).lower():
                raise
    raise AssertionError(f"refused for more than {TRIES} times {LIMIT_SECONDS} s")
