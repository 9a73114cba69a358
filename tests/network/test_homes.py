"""Real brokers send a client of `latecomer.client` to where another one wants the same, and nothing is lost by it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator

import pytest

from latecomer.cli.doors import Refused, call
from latecomer.cli.main import VERBS, run
from latecomer.client import Message
from latecomer.model.topology_generators import line
from latecomer.runtime.homes_views import HomesView
from tests.client.talkers import Threaded, profile, take, until
from tests.network.net import HOST, QUICK, joined, network_of, running
from tests.network.peer import Peer
from tests.network.test_sessions import Net

Capture = pytest.CaptureFixture[str]
HOMES = {
    "mode": "move",
    "update_s": 0.5,
    "settle_s": 0.1,
    "rest_s": 600,
    "share_max": 1.0,
    "away_s": 10,
    "load_weight": 0,
}
FOLLOWS = ("follows-references", "yes")
WILL = ("wills/willing", b"gone", 1, False)
AGAIN_S = 60.0


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    folder = tmp_path_factory.mktemp("homes")
    with running(network_of(line(3), QUICK | {"homes": HOMES}), folder) as supervisor:
        joined(supervisor)
        yield Net(folder, supervisor)


def at(net: Net, broker: str) -> HomesView:
    return call(net.doors[broker], "homes", HomesView)


def test_a_client_is_sent_follows_and_misses_nothing(net: Net, capsys: Capture) -> None:
    """It knows one broker only, and is told where the other one is."""
    with (
        Peer(net.ports["b3"], "reader", keep_seconds=3600) as reader,
        Peer(net.ports["b2"], "writer") as writer,
        Threaded([f"b1={HOST}:{net.ports['b1']}"], profile()) as phone,
    ):
        reader.subscribe("news/#", 1)
        phone.subscribe("news/#", qos=2)
        sent = 0
        while phone.course.connections == 1:
            sent += 1
            writer.publish(f"news/{sent}", str(sent), 2)
            assert sent < 3_000
            time.sleep(0.02)  # otherwise there is always something under way
        until(lambda: phone.course.connections == 2)
        assert phone.course.journey.at.port == net.ports["b3"]
        assert phone.welcome is not None
        assert phone.welcome.session_present
        for number in range(sent + 1, sent + 11):
            writer.publish(f"news/{number}", str(number), 2)
        heard: list[int] = []
        while sent + 10 not in heard:
            heard += [int(each.payload) for each in take(phone, 1) if isinstance(each, Message)]
        assert heard == list(range(heard[0], sent + 11)), "in order, without a gap or a repeat"
        assert (at(net, "b1").sent, at(net, "b1").returned, "phone" in net.sessions("b3")) == (1, 0, True)

        with urllib.request.urlopen(f"{net.doors['b1'].url}/metrics") as answer:
            metrics = answer.read().decode()
        assert "latecomer_homes_sent_total 1.0" in metrics
        assert "latecomer_homes_load" in metrics

        capsys.readouterr()
        assert run(VERBS, ["homes", "--network", str(net.folder), "--json"]) == 0
        views = json.loads(capsys.readouterr().out)
        assert [view["broker"] for view in views] == ["b1", "b2", "b3"]
        assert {peer["broker"] for peer in views[1]["peers"]} == {"b1", "b3"}


def test_who_has_a_will_is_proposed_and_stays(net: Net, capsys: Capture) -> None:
    """The broker does not send it, nor does an operator who asks gently."""
    with (
        Peer(net.ports["b3"], "other", keep_seconds=3600) as other,
        Peer(net.ports["b1"], "willing", keep_seconds=3600, will=WILL, UserProperty=[FOLLOWS]) as willing,
    ):
        other.subscribe("sport/#", 1)
        willing.subscribe("sport/#", 1)
        end = time.monotonic() + AGAIN_S
        while not (found := [one for one in at(net, "b1").proposals if "its will" in one.problem]):
            assert time.monotonic() < end
            time.sleep(0.05)
        (one,) = found
        assert (one.client, one.to, one.problem) == ("willing", "b3", "its will waits only 0 s for it")
        body = {"client": "willing", "to": "b3", "gently": True}
        with pytest.raises(Refused, match="its will waits only"):
            call(net.doors["b1"], "move-session", dict[str, str], body=body)
        assert run(VERBS, ["homes", "--network", str(net.folder)]) == 0
        assert "its will waits only 0 s" in capsys.readouterr().out
        assert net.sessions("b1")["willing"].connected
