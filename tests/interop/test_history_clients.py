"""Other people's clients ask for the past with what they have: a user property, or a topic filter."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from latecomer.model.topology_generators import line
from latecomer.model.when import format_when
from latecomer.runtime.network_file import Seat, with_stores
from latecomer.runtime.supervisor import Supervisor
from tests.conftest import EVERYTHING
from tests.interop.libraries import LIBRARIES, Heard, Library, Listener
from tests.interop.mqttjs_setup import prepare
from tests.network.net import QUICK, network_of, running
from tests.network.peer import LIMIT_SECONDS, Peer
from tests.network.test_history import certain

END = "$history/end"
PAST, LIVE = [str(number) for number in range(5)], [str(number) for number in range(5, 10)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """Three brokers in a row; the last one keeps everything."""
    network = with_stores(network_of(line(3), QUICK), ["b3=t/#"], {})
    with running(network, tmp_path_factory.mktemp("stored")) as supervisor:
        certain(supervisor)
        yield supervisor


@pytest.fixture
def away(stored: Supervisor) -> Seat:
    """Two hops from the store."""
    return stored.network.brokers[0]


@pytest.fixture
def publisher(stored: Supervisor) -> Iterator[Peer]:
    with Peer(stored.network.brokers[1].port) as peer:
        yield peer


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Library:
    found = LIBRARIES[request.param]
    lacking = [f"needs the program {program}" for program in found.needs() if shutil.which(program) is None]
    if not lacking and "npm" in found.needs():
        lacking = [complaint for complaint in [prepare()] if complaint]
    if lacking:
        (pytest.fail if EVERYTHING else pytest.skip)("; ".join(lacking))
    return found


def check(listener: Listener, publisher: Peer, topic: str, text: str, *, new: bool) -> None:
    """History, the marker, then what is live: nothing missing, nothing twice."""
    past = listener.take(len(PAST) + 1)
    for number in LIVE:
        publisher.publish(topic, number, 1)
    live = listener.take(len(LIVE))
    assert [heard.payload for heard in (*past[:-1], *live)] == PAST + LIVE
    assert {(heard.topic, heard.qos, heard.retain) for heard in (*past[:-1], *live)} == {(topic, 1, False)}
    _check_end(past[-1], text)
    names = [[name for name, _ in heard.user] for heard in past[:-1]]
    assert names == [["published", "event"] if new else []] * len(PAST)
    assert [heard.user for heard in live] == [[]] * len(LIVE)


def _check_end(heard: Heard, text: str) -> None:
    assert (heard.topic, heard.qos) == (END, 1)
    told: dict[str, Any] = json.loads(heard.payload)
    assert (told["filter"], told["events"], told["stores"], told["hops"]) == (text, len(PAST), ["b3"], 2)
    assert (told["complete"], told["problem"]) == (True, "")


def begin(publisher: Peer, topic: str) -> str:
    """Something to remember; since when."""
    since = format_when(time.time_ns() // 1000)
    for number in PAST:
        publisher.publish(topic, number, 1)
    return since


def test_a_topic_filter(library: Library, away: Seat, publisher: Peer, topic: str) -> None:
    """Every client can subscribe to a text; it need not know what the text means."""
    text = f"$history/since={begin(publisher, topic)}/{topic}"
    listener = library.subscribe(away, text, qos=1)
    try:
        check(listener, publisher, topic, text, new=library.version == 5)
        library.leave(listener)
    finally:
        listener.vanish()


@pytest.mark.parametrize("library", [name for name, each in LIBRARIES.items() if each.version == 5], indirect=True)
def test_a_user_property(library: Library, away: Seat, publisher: Peer, topic: str) -> None:
    """Clients of MQTT 5 can say it beside the topic filter."""
    since = begin(publisher, topic)
    listener = library.subscribe(away, topic, qos=1, asking=[("since", since), ("last", "100")])
    try:
        check(listener, publisher, topic, topic, new=True)
        library.leave(listener)
    finally:
        listener.vanish()


def test_only_some_of_it(library: Library, away: Seat, publisher: Peer, topic: str) -> None:
    """The last ones of those whose content fits."""
    wanted = ['{"n": 3}', '{"n": 4}']
    for number in range(5):
        publisher.publish(topic, json.dumps({"n": number}), 1)
    publisher.publish(topic, '{"n": 0}', 1)
    if library.version == 5:
        listener = library.subscribe(away, topic, qos=1, asking=[("last", "2"), ("filter", "n > 1")])
    else:
        listener = library.subscribe(away, f"$history/last=2/{topic}?n > 1", qos=1)
    try:
        *events, end = listener.take(3)
        assert [heard.payload for heard in events] == wanted
        assert end.topic == END
        library.leave(listener)
    finally:
        listener.vanish()


def test_our_own_client(away: Seat, publisher: Peer, topic: str) -> None:
    """`latecomer sub --since`: the same from the shell."""
    since = begin(publisher, topic)
    words = [sys.executable, "-m", "latecomer", "sub", topic, "--since", since, "--qos", "1", "--count", "5"]
    done = subprocess.run(
        [*words, "--host", away.host, "--port", str(away.port), "--wait", str(LIMIT_SECONDS)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()) == (0, PAST), done.stderr
