"""A plan applied to a network of real processes while everybody publishes and asks for the past: nobody notices."""

from __future__ import annotations

import json
import queue
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from latecomer.cli.live_network import Live, read_live
from latecomer.cli.main import VERBS, run
from latecomer.model.applied import Applied, read_record
from latecomer.model.plan import Plan, Prediction, write_plan
from latecomer.model.topology_generators import line
from latecomer.model.when import format_when
from latecomer.runtime.network_file import Network, with_stores
from latecomer.runtime.supervisor import Supervisor
from tests.network.net import QUICK, network_of, running
from tests.network.peer import LIMIT_SECONDS, Peer, properties

Capture = pytest.CaptureFixture[str]
CLASSES = ("city/north/#", "city/south/#")
FIRST = {"city/north/#": ("b2", "b5"), "city/south/#": ("b4",)}
SECOND = {"city/north/#": ("b3",), "city/south/#": ("b1", "b4")}
PAUSE_SECONDS = 0.02


class Town:
    """Publishers at every second broker, and late subscribers who come everywhere, one after the other."""

    def __init__(self, network: Network, since: str) -> None:
        self.ports = {seat.id: seat.port for seat in network.brokers}
        self.since = since
        self.random = random.Random(5)
        self.sent: dict[str, int] = {}
        """By topic, how many were published and acknowledged."""
        self.problems: list[str] = []
        self.answers = 0
        self.over = threading.Event()
        self.spared = ""
        """Nobody comes to this broker: it is about to die."""
        self.threads = [threading.Thread(target=self._publish), threading.Thread(target=self._come)]

    def __enter__(self) -> Town:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def _publish(self) -> None:
        peers = [(broker, Peer(self.ports[broker])) for broker in ("b1", "b5")]
        number = 0
        while not self.over.is_set():
            under_way = []
            for broker, peer in peers:
                for side in ("north", "south"):
                    topic = f"city/{side}/{broker}"
                    under_way.append((topic, peer.client.publish(topic, b"%d" % number, qos=1)))
            for topic, told in under_way:
                told.wait_for_publish(LIMIT_SECONDS)
                self.sent[topic] = number + 1
            number += 1
            self.over.wait(PAUSE_SECONDS)
        for _, peer in peers:
            peer.leave()

    def _come(self) -> None:
        while not self.over.is_set():
            broker = self.random.choice([broker for broker in self.ports if broker != self.spared])
            topics = self.random.choice(CLASSES)
            try:
                self.ask(broker, topics)
            except queue.Empty:
                self.problems.append(f"{topics} at {broker}: something never came")

    def ask(self, broker: str, topics: str) -> dict[str, object]:
        """Come late, and stay until everything has come that was there before, as past or live."""
        wanted = {topic: count for topic, count in self.sent.items() if topic.startswith(topics[:-1])}
        found: dict[str, list[int]] = {}
        end: dict[str, object] = {}
        with Peer(self.ports[broker]) as peer:
            wish = properties(8, UserProperty=[("since", self.since)])
            peer.client.subscribe(topics, qos=1, properties=wish)
            while not end or any(len(found.get(topic, ())) < count for topic, count in wanted.items()):
                message = peer.inbox.get(timeout=LIMIT_SECONDS)
                if message.topic == "$history/end":
                    end = json.loads(message.payload)
                else:
                    found.setdefault(message.topic, []).append(int(message.payload))
        self.answers += 1
        if not end["complete"]:
            self.problems.append(f"{topics} at {broker}: {end}")
        for topic, count in wanted.items():
            numbers = found.get(topic, [])
            if numbers != list(range(len(numbers))):
                self.problems.append(f"{topic} at {broker}: not 0 to {count} and more, but {numbers}; {end}")
        return end


def plan_of(file: Path, replicas: dict[str, tuple[str, ...]]) -> Path:
    stores = tuple(dict.fromkeys(store for kept in replicas.values() for store in kept))
    brokers = tuple(f"b{number}" for number in range(1, 6))
    plan = Plan("line:5", brokers, "by hand", stores, dict(replicas), Prediction("by hand", 1, 1, 1))
    file.write_text(write_plan(plan))
    return file


def kept(live: Live) -> dict[str, tuple[str, ...]]:
    """Who answers for what, as one broker has heard."""
    found: dict[str, tuple[str, ...]] = {}
    for each in live.look().kept:
        if each.answering:
            found[each.topics] = tuple(sorted((*found.get(each.topics, ()), each.broker)))
    return found


def wait_for(live: Live, wanted: dict[str, tuple[str, ...]]) -> None:
    until = time.monotonic() + LIMIT_SECONDS
    while (found := kept(live)) != wanted:
        assert time.monotonic() < until, found
        time.sleep(0.05)


def certain(live: Live) -> None:
    """Wait until the first store has everything from some moment on."""
    until = time.monotonic() + LIMIT_SECONDS
    while not any(each.answering and 0 < each.since_us < time.time_ns() // 1000 for each in live.look().kept):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_stores_move_while_everybody_goes_on(tmp_path: Path, capfd: Capture) -> None:
    network = with_stores(network_of(line(5), QUICK), ["b1=city/#"], {})
    with running(network, tmp_path / "net") as supervisor:
        live = read_live(str(tmp_path / "net"))
        certain(live)
        since = format_when(time.time_ns() // 1000)
        time.sleep(0.01)
        with Town(network, since) as town:
            time.sleep(1)
            one_address(tmp_path, network, capfd)
            wait_for(live, FIRST)
            again_and_again(tmp_path, supervisor, town)
            wait_for(live, SECOND)
            time.sleep(0.5)
        assert town.problems == []
        assert town.answers > 5
        assert town.ask("b5", "city/north/#")["stores"] == ["b3"]
        assert town.ask("b5", "city/south/#")["stores"] == ["b4"]
        assert town.problems == []
        assert all(count > 50 for count in town.sent.values())
        supervisor.kill("b1")
        supervisor.revive("b1")
        view = live.stores("b1").store
        assert view is not None
        assert [each.topics for each in view.classes] == ["city/south/#"], "whatever the settings say"
        wait_for(live, SECOND)


def one_address(tmp_path: Path, network: Network, capfd: Capture) -> None:
    """A dry run changes nothing; the rest goes through the admin interface of one broker, over the links."""
    plan = plan_of(tmp_path / "first.json", FIRST)
    token = tmp_path / "net" / "b3" / "data" / "admin-token"
    url = f"http://127.0.0.1:{network.brokers[2].admin_port}"
    words = ["apply", str(plan), "--network", url, "--token-file", str(token), "--withdraw", "city/#"]
    assert run(VERBS, words) == 0
    assert "Nothing was changed" in capfd.readouterr().out
    assert kept(read_live(url, token)) == {"city/#": ("b1",)}
    assert run(VERBS, [*words, "--yes"]) == 0, capfd.readouterr().err
    applied = read_record((tmp_path / "first.applied.json").read_text(), "", Applied)
    assert applied.before == {"b1": ("city/#",), "b2": (), "b4": (), "b5": ()}
    assert applied.after["b5"] == ("city/north/#",)
    assert sorted(step.what for step in applied.steps) == ["fill", "fill", "fill", "withdraw"]
    assert applied.links == tuple((f"b{number}", f"b{number + 1}") for number in range(1, 5))
    assert run(VERBS, [*words, "--yes"]) == 0, "nothing is left to do"
    assert "There is nothing to do" in capfd.readouterr().out


def again_and_again(tmp_path: Path, supervisor: Supervisor, town: Town) -> None:
    """The one who applies a plan is killed, and a broker that is being filled as well; in the end it is the same."""
    plan = plan_of(tmp_path / "second.json", SECOND)
    words = ["apply", str(plan), "--network", str(tmp_path / "net"), "--yes", "--parallel", "1"]
    town.spared = "b3"
    work = subprocess.Popen([sys.executable, "-m", "latecomer", *words], stdout=subprocess.DEVNULL)
    until = time.monotonic() + LIMIT_SECONDS
    while not (tmp_path / "net" / "b3" / "data" / "assignment.json").exists():
        assert time.monotonic() < until
        time.sleep(0.002)
    supervisor.kill("b3")
    work.kill()
    work.wait()
    supervisor.revive("b3")
    assert run(VERBS, words) == 0
    town.spared = ""
