"""Both helpers, and the examples, at real brokers: filters, history, and sessions that operators move."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from latecomer.cli.main import VERBS, run
from latecomer.client import End, Message
from latecomer.model.topology_generators import line
from latecomer.model.when import format_when
from latecomer.runtime.network_file import with_stores
from tests.architecture.repository import ROOT
from tests.client.talkers import HELPERS, LIMIT_S, Talker, Threaded, payloads, profile, take, until
from tests.network.net import HOST, QUICK, network_of, running
from tests.network.peer import Peer
from tests.network.test_history import certain
from tests.network.test_sessions import Net


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    """Three brokers in a row; the last one keeps the past."""
    folder = tmp_path_factory.mktemp("client")
    network = with_stores(network_of(line(3), QUICK), ["b3=sensors/#"], {})
    with running(network, folder) as supervisor:
        certain(supervisor)
        yield Net(folder, supervisor)


@pytest.fixture(params=HELPERS)
def helper(request: pytest.FixtureRequest) -> Any:
    return HELPERS[request.param]


@pytest.fixture
def publisher(net: Net) -> Iterator[Peer]:
    with Peer(net.ports["b2"]) as peer:
        yield peer


@pytest.fixture
def name() -> str:
    """A client id, and a level of topics, that nobody else has."""
    return f"c{uuid4().hex[:10]}"


def addresses(net: Net, *brokers: str) -> list[str]:
    return [f"{broker}={HOST}:{net.ports[broker]}" for broker in brokers or ("b1", "b2", "b3")]


def order(net: Net, *words: str) -> None:
    """What an operator types."""
    assert run(VERBS, [*words, "--network", str(net.folder)]) == 0


def known(talker: Talker, publisher: Peer, topic: str) -> None:
    """Wait until what a talker has subscribed to is known where it is published, and nothing else is under way."""
    while not fenced(talker, publisher, topic, 0.05):
        pass
    assert fenced(talker, publisher, topic, LIMIT_S)  # behind those of the attempts before


def fenced(talker: Talker, publisher: Peer, topic: str, seconds: float) -> bool:
    mark = uuid4().hex.encode()
    publisher.publish(topic, mark, 2)
    with suppress(queue.Empty):
        while True:
            heard = talker.inbox.get(timeout=seconds)
            if isinstance(heard, Message) and heard.payload == mark:
                return True
    return False


def test_history_filter_and_marker(net: Net, helper: Any, publisher: Peer, name: str) -> None:
    topic, since = f"sensors/{name}", format_when(time.time_ns() // 1000)
    for value in (20, 31, 32, 5):
        publisher.publish(topic, json.dumps({"value": value}), 1, UserProperty=[("own", "1")])
    with helper(addresses(net), profile(name)) as talker:
        talker.subscribe(topic, since=since, where="value > 30")
        *past, end = take(talker, 3)
        for value in (7, 33):
            publisher.publish(topic, json.dumps({"value": value}), 1)
        (live,) = take(talker, 1)
    assert isinstance(end, End)
    assert (end.filter, end.events, end.complete, end.stores, end.hops) == (topic, 2, True, ("b3",), 2)
    assert [json.loads(each.payload)["value"] for each in (*past, live) if isinstance(each, Message)] == [31, 32, 33]
    for each in past:
        assert isinstance(each, Message)
        assert (each.past, each.late, each.user) == (True, False, (("own", "1"),))
        assert each.event
        assert each.published is not None
        assert format_when(each.published_us or 0) >= since
    assert isinstance(live, Message)
    assert (live.past, live.late, live.published, live.event) == (False, False, None, "")


def test_the_newest_up_to_an_instant(net: Net, helper: Any, publisher: Peer, name: str) -> None:
    topic = f"sensors/{name}"
    for number in range(4):
        publisher.publish(topic, str(number), 1)
    with helper(addresses(net), profile(name)) as talker:
        talker.subscribe(topic, last=2)
        *past, end = take(talker, 3)
        assert [each.payload for each in past if isinstance(each, Message)] == [b"2", b"3"]
        assert isinstance(end, End)
        talker.subscribe(f"elsewhere/{name}", since="-1h")
        (nothing,) = take(talker, 1)
        assert isinstance(nothing, End)
        assert (nothing.events, nothing.complete) == (0, False)
        assert nothing.problem.startswith("no store keeps")


def test_a_session_that_is_moved_is_followed(net: Net, helper: Any, publisher: Peer, name: str) -> None:
    """`latecomer sessions move` names the other broker: the client goes there and finds its session; nothing is missing
    and nothing comes twice, whatever is published meanwhile."""
    topic = f"walk/{name}"
    with helper(addresses(net), profile(name)) as talker:
        talker.subscribe(f"{topic}/#", qos=2)
        known(talker, publisher, f"{topic}/fence")
        publisher.publish(f"{topic}/1", "1", 2)
        for number in range(2, 5):
            here = talker.course.journey.at.broker
            there = "b3" if here == "b1" else "b1"
            order(net, "sessions", "move", name, there, "--wait", "0")
            publisher.publish(f"{topic}/{number}", str(number), 2)
            until(lambda number=number: talker.course.connections == number)  # type: ignore[misc]
            assert talker.welcome is not None
            assert talker.welcome.session_present
            assert talker.course.journey.at.broker == there
        talker.publish(f"{topic}/last", "last", qos=2)
        assert payloads(talker, 5) == [b"1", b"2", b"3", b"4", b"last"]


def test_a_client_that_knows_one_broker_is_sent_to_another(net: Net, helper: Any, publisher: Peer, name: str) -> None:
    topic = f"walk/{name}"
    with helper(addresses(net, "b1"), profile(name)) as talker:
        talker.subscribe(topic, qos=2)
        order(net, "sessions", "move", name, "b3")
        until(lambda: talker.course.connections == 2)
        assert talker.course.journey.at.port == net.ports["b3"]
        known(talker, publisher, topic)
        publisher.publish(topic, "there", 2)
        assert payloads(talker, 1) == [b"there"]


def test_a_broker_that_is_drained_is_left(net: Net, helper: Any, publisher: Peer, name: str) -> None:
    topic = f"walk/{name}"
    with helper(addresses(net, "b1", "b3"), profile(name)) as talker:
        talker.subscribe(topic, qos=2)
        known(talker, publisher, topic)
        assert name in net.sessions("b1")
        try:
            order(net, "drain", "b1", "--to", "b3", "--rate", "100")
            until(lambda: talker.course.connections > 1)
            publisher.publish(topic, "after", 1)
            assert payloads(talker, 1) == [b"after"]
            assert talker.course.journey.at.broker == "b3"
            assert talker.welcome is not None
            assert talker.welcome.session_present
            with helper(addresses(net, "b1", "b3"), profile(f"{name}-new")) as newcomer:  # refused at the door
                assert newcomer.course.journey.at.broker == "b3"
        finally:
            order(net, "drain", "b1", "--abort")


def test_a_session_goes_ahead(net: Net, helper: Any, publisher: Peer, name: str) -> None:
    topic = f"walk/{name}"
    with helper(addresses(net, "b1"), profile(name)) as talker:
        talker.subscribe(topic, qos=2)
        known(talker, publisher, topic)
        talker.leave(next_broker="b3")
    until(lambda: name in net.sessions("b3") and name not in net.sessions("b1"))
    publisher.publish(topic, "waits", 1)
    with helper(addresses(net, "b3"), profile(name, previous_broker="b1")) as talker:
        assert talker.welcome is not None
        assert talker.welcome.session_present
        assert payloads(talker, 1) == [b"waits"]


def test_a_session_that_stays_at_home(net: Net, helper: Any, name: str) -> None:
    wanted = profile(name, hand_over="home-broker")
    with helper(addresses(net, "b1"), wanted) as talker:
        talker.subscribe(f"walk/{name}")
    with helper(addresses(net, "b2"), wanted) as talker:
        assert talker.welcome is not None
        assert talker.welcome.session_present
        assert net.sessions("b2")[name].where == "visiting"
        assert net.sessions("b1")[name].where == "here"


def counted_past(net: Net, name: str) -> int:
    """How much of the past an example will find: another one may have been here before."""
    with Threaded(addresses(net), profile(f"{name}-before")) as talker:
        talker.subscribe("sensors/+/temp", since="-1h", where="value > 30")
        while not isinstance(heard := take(talker, 1)[0], End):
            pass
        return heard.events


def publish_and_move(net: Net, publisher: Peer, process: subprocess.Popen[str], client: str) -> list[str]:
    """What an example prints while its sensors speak and its session moves."""
    assert process.stdout is not None
    said: list[str] = []
    for text in process.stdout:
        said.append(text)
        if text.startswith("history: "):
            publisher.publish("sensors/1/temp", '{"value": 41}', 2)
            order(net, "sessions", "move", client, "b3", "--wait", "0")
            publisher.publish("sensors/1/temp", '{"value": 42}', 2)
    return said


@pytest.mark.parametrize("script", ["app_asyncio.py", "app_threads.py"])
def test_the_examples(net: Net, publisher: Peer, name: str, script: str) -> None:
    with Peer(net.ports["b3"], name, keep_seconds=60):
        pass  # so that its session is not at the first broker that it tries
    publisher.publish("sensors/1/temp", '{"value": 40}', 2)
    publisher.publish("sensors/1/temp", '{"value": 4}', 2)
    before = counted_past(net, name)
    words = [sys.executable, str(ROOT / "examples" / script), *addresses(net), "--id", name, "--count", str(before + 2)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(4 * LIMIT_S, process.kill)
        watchdog.start()
        said = publish_and_move(net, publisher, process, name)
        watchdog.cancel()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0
    if script == "app_asyncio.py":
        assert [text.split()[0] for text in said] == ["past"] * before + ["history:", "live", "live"]
        assert ['{"value": 41}' in said[-2], '{"value": 42}' in said[-1]] == [True, True], said
    else:
        assert said[0].startswith(f"connected to {HOST}:{net.ports['b1']}")
        assert said[-1] == f"counted {before} past, 2 live\n"
