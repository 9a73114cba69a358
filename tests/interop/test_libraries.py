"""Every client does with Latecomer what it does with any broker: published at one broker, heard at another."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from latecomer.runtime.network_file import Seat
from tests.conftest import EVERYTHING
from tests.interop.libraries import LIBRARIES, Library, Listener
from tests.interop.mqttjs_setup import prepare
from tests.network.peer import LIMIT_SECONDS, Peer, told, user_properties

QOS = [0, 1, pytest.param(2, marks=pytest.mark.long)]
"""QoS 2 is also that of a client that talks to itself."""


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Library:
    found = LIBRARIES[request.param]
    lacking = [f"needs the program {program}" for program in found.needs() if shutil.which(program) is None]
    if not lacking and "npm" in found.needs():
        lacking = [complaint for complaint in [prepare()] if complaint]
    if lacking:
        (pytest.fail if EVERYTHING else pytest.skip)("; ".join(lacking))
    return found


@pytest.fixture
def here(seats: tuple[Seat, ...]) -> Iterator[Peer]:
    with Peer(seats[0].port) as peer:
        yield peer


@pytest.fixture
def there(seats: tuple[Seat, ...]) -> Iterator[Peer]:
    with Peer(seats[-1].port) as peer:
        yield peer


@contextmanager
def listening(library: Library, seat: Seat, *topics: str, **more: Any) -> Iterator[Listener]:
    listener = library.subscribe(seat, *topics, **more)
    try:
        yield listener
        library.leave(listener)
    finally:
        listener.vanish()  # wherever it has got to


@pytest.mark.parametrize("qos", QOS)
def test_it_hears_what_is_published_far_away(
    library: Library, seats: tuple[Seat, ...], here: Peer, topic: str, qos: int
) -> None:
    with listening(library, seats[-1], topic, qos=qos) as listener:
        listener.ready(here)
        sent = [f"{number}" for number in range(10)]
        for text in sent:
            here.publish(topic, text, qos)
        got = listener.rest(here) if qos == 0 else listener.take(10)
        assert [heard.payload for heard in got] == sent
        assert {heard.qos for heard in got} == {qos}


@pytest.mark.parametrize("qos", QOS)
def test_what_it_publishes_is_heard_far_away(
    library: Library, seats: tuple[Seat, ...], here: Peer, there: Peer, topic: str, qos: int
) -> None:
    there.subscribe(topic, qos)
    there.ready(here)
    library.publish(seats[0], topic, "one", "two", qos=qos)
    got = there.take(2)
    assert [(message.payload, message.qos) for message in got] == [(b"one", qos), (b"two", qos)]


def test_it_talks_to_itself_across_the_network(
    library: Library, seats: tuple[Seat, ...], here: Peer, topic: str
) -> None:
    with listening(library, seats[-1], f"{topic}/+/b", f"{topic}/c/#", qos=2) as listener:
        listener.ready(here)
        for name in ("a/b", "a/c", "c", "c/d/e"):
            library.publish(seats[0], f"{topic}/{name}", f"ü {name}", qos=2)
        assert [heard.payload for heard in listener.take(3)] == ["ü a/b", "ü c", "ü c/d/e"]
        assert listener.rest(here) == []


def test_retained(library: Library, seats: tuple[Seat, ...], here: Peer, there: Peer, topic: str) -> None:
    there.subscribe(topic, 1)
    there.ready(here)
    library.publish(seats[0], topic, "kept", qos=1, retain=True)
    there.take()
    with listening(library, seats[-1], topic, qos=1) as listener:
        (heard,) = listener.take(1)
        assert (heard.payload, heard.retain) == ("kept", True)
    library.publish(seats[0], topic, "", qos=1, retain=True)
    there.take()
    with listening(library, seats[-1], topic, qos=1) as listener:
        assert listener.rest(here) == []


def test_the_will(library: Library, seats: tuple[Seat, ...], here: Peer, there: Peer, topic: str) -> None:
    there.subscribe(topic, 1)
    there.ready(here)
    will = {"topic": topic, "payload": "gone", "qos": 1, "retain": False}
    mortal = library.subscribe(seats[0], f"{topic}/x", will=will)
    mortal.ready(here)
    mortal.vanish()
    (message,) = there.take()
    assert (message.payload, message.qos) == (b"gone", 1)
    with listening(library, seats[0], f"{topic}/x", will=will) as polite:
        polite.ready(here)
    assert [message.payload for message in there.rest(here)] == ([b"gone"] if library.last_will else [])


def test_messages_wait_for_it(library: Library, seats: tuple[Seat, ...], here: Peer, topic: str) -> None:
    name = f"keeper-{uuid4().hex[:10]}"
    with listening(library, seats[-1], topic, qos=1, client_id=name, keep=True) as listener:
        listener.ready(here)
        fence = listener.fence
    sent = [str(number) for number in range(5)]
    for text in sent:
        here.publish(topic, text, 1)
    with listening(library, seats[-1], topic, qos=1, client_id=name, keep=True, fence=fence) as listener:
        assert [heard.payload for heard in listener.take(5)] == sent
        assert listener.rest(here) == []
    with Peer(seats[-1].port, name):
        pass


def test_user_properties(library: Library, seats: tuple[Seat, ...], here: Peer, there: Peer, topic: str) -> None:
    if library.version != 5:
        pairs, expected = [], []
    else:
        pairs = expected = [("a", "1"), ("b", "zwei")]
    there.subscribe(topic, 1)
    there.ready(here)
    with listening(library, seats[-1], topic, qos=1) as listener:
        listener.ready(here)
        library.publish(seats[0], topic, "x", qos=1, user=pairs)
        (heard,), (message,) = listener.take(1), there.take()
        assert (heard.user, user_properties(message)) == (expected, expected)


def test_shared_subscriptions(library: Library, seats: tuple[Seat, ...], here: Peer, topic: str) -> None:
    """Two members at two brokers."""
    shared = f"$share/crew/{topic}"
    with (
        listening(library, seats[1], shared, qos=1) as one,
        listening(library, seats[-1], shared, qos=1) as two,
    ):
        # Brokers tell each other of groups apart from topic filters, so a fence does not say that the group is known.
        members: dict[Listener, list[str]] = {one: [], two: []}
        until = time.monotonic() + LIMIT_SECONDS
        while not all(members.values()) and time.monotonic() < until:
            here.publish(topic, "-1", 1)
            _collect(members, here)
        sent = [str(number) for number in range(40)]
        for text in sent:
            here.publish(topic, text, 1)
        while _numbers(members) != sent and time.monotonic() < until:
            _collect(members, here)
        assert _numbers(members) == sent
        assert all(_numbers({member: heard}) for member, heard in members.items())


def _collect(members: dict[Listener, list[str]], publisher: Peer) -> None:
    for member, heard in members.items():
        heard += [message.payload for message in member.rest(publisher)]


def _numbers(members: dict[Listener, list[str]]) -> list[str]:
    """What the members of a group heard, without the attempts before the group was known."""
    heard = [payload for of in members.values() for payload in of]
    return sorted((payload for payload in heard if int(payload) >= 0), key=int)


@pytest.mark.needs("mosquitto_rr")
def test_a_request_of_mosquitto_rr(seats: tuple[Seat, ...], here: Peer, there: Peer, topic: str) -> None:
    there.subscribe(topic, 1)
    there.ready(here)

    def answer() -> None:
        (question,) = there.take()
        its = told(question)
        there.publish(its.ResponseTopic, b"answer to " + bytes(question.payload), 1)

    thread = threading.Thread(target=answer)
    thread.start()
    words = ["-h", seats[0].host, "-p", str(seats[0].port), "-V", "mqttv5", "-q", "1"]
    words += ["-t", topic, "-e", f"{topic}/answers", "-m", "question", "-W", "15"]
    done = subprocess.run(["mosquitto_rr", *words], capture_output=True, text=True, timeout=60, check=False)
    thread.join()
    assert (done.returncode, done.stdout) == (0, "answer to question\n"), done.stderr
