"""Brokers join and leave a network that runs, under publishing: `latecomer join` and `latecomer leave`."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from latecomer.cli.doors import Door, Refused, call, door_in, found_doors
from latecomer.cli.main import VERBS, run
from latecomer.cli.session_work import named, sessions_at
from latecomer.model.topology_generators import line, ring
from latecomer.runtime.neighbourhood import FILE, NeighboursView
from latecomer.runtime.network_file import read_network
from latecomer.runtime.network_views import NetworkView
from latecomer.runtime.settings import load
from latecomer.runtime.supervisor import Supervisor
from tests.network.net import HOST, free_port, joined, network_of, running
from tests.network.peer import Peer

LIMIT_SECONDS = 60.0
Capture = pytest.CaptureFixture[str]


def until(true: Callable[[], object], what: str) -> None:
    limit = time.monotonic() + LIMIT_SECONDS
    while not true():
        assert time.monotonic() < limit, f"never happened: {what}"
        time.sleep(0.02)


class Net:
    """Brokers of a folder, somebody who watches over them, and how they are asked."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.folder = supervisor.folder
        self.over = threading.Event()
        self.watcher = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self.over.wait(0.05):
            self.supervisor.watch()

    def doors(self) -> dict[str, Door]:
        return named(found_doors(self.folder, [], [], None))[0]

    def view(self, broker: str) -> NetworkView:
        return call(self.doors()[broker], "network", NetworkView)

    def neighbours(self, broker: str) -> dict[str, str]:
        found = call(self.doors()[broker], "neighbours", NeighboursView).neighbours
        return {each.id: each.source for each in found}

    def port(self, broker: str) -> int:
        return {seat.id: seat.port for seat in read_network(self.folder / "network.toml").brokers}[broker]

    def members(self, broker: str) -> set[str]:
        return {member.id for member in self.view(broker).brokers if member.present}


@contextmanager
def net_of(supervisor: Supervisor) -> Iterator[Net]:
    joined(supervisor)
    net = Net(supervisor)
    net.watcher.start()
    try:
        yield net
    finally:
        net.over.set()
        net.watcher.join()


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    with running(network_of(line(3)), tmp_path / "net") as supervisor, net_of(supervisor) as found:
        yield found


class Talker:
    """Publishes numbers until it is told to stop; every one of them is acknowledged."""

    def __init__(self, port: int, topic: str) -> None:
        self.peer, self.topic, self.sent = Peer(port), topic, 0
        self.enough = threading.Event()
        self.thread = threading.Thread(target=self._talk)

    def _talk(self) -> None:
        while not self.enough.wait(0.002):
            self.peer.publish(self.topic, str(self.sent).encode(), qos=1)
            self.sent += 1

    def __enter__(self) -> Talker:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.enough.set()
        self.thread.join()
        self.peer.leave()


def said(capsys: Capture, *words: str) -> tuple[int, Any]:
    """Runs a command line with `--json`; its exit code and what it printed."""
    capsys.readouterr()
    code = run(VERBS, [*words, "--json"])
    shown = capsys.readouterr()
    return code, json.loads(shown.out) if shown.out else shown.err


def test_a_fourth_broker_joins_under_publishing_and_leaves_again(net: Net, capsys: Capture) -> None:
    network = ("--network", str(net.folder))
    with Peer(net.port("b3"), "old hand") as old, Peer(net.port("b1")) as probe:
        old.subscribe("t/#", 1)
        old.ready(probe)
        with Talker(net.port("b1"), "t/x") as talker:
            code, found = said(capsys, "join", "b4", "--beside", "b1", "--beside", "b3", *network)
            assert (code, found["beside"], found["there"]) == (0, ["b1", "b3"], True), found
            assert net.members("b2") == {"b1", "b2", "b3", "b4"}
            assert net.neighbours("b1")["b4"] == "added"
            until(lambda: len(net.view("b4").links) == 4, "both links of b4 are up")
            with Peer(net.port("b4"), "keeper", keep_seconds=3600) as keeper:
                keeper.subscribe("t/#", 1)
                keeper.ready(probe)
                first, *_, last = [int(payload) for payload in keeper.payloads(50)]
                assert last == first + 49
            seen = last + keeper.inbox.qsize()
            code, found = said(capsys, "leave", "b4", *network)
            assert code == 0, found
            assert (found["parted"], found["forgotten"], found["stopped"]) == (["b1", "b3"], True, True)
            assert found["drained"]["moved"] == 1
            sent = talker.sent
            until(lambda: talker.sent > sent + 50, "publishing goes on")
        assert old.payloads(talker.sent) == [str(number).encode() for number in range(talker.sent)]
        home = next(name for name, door in net.doors().items() if "keeper" in [s.client for s in sessions_at(door)])
        with Peer(net.port(home), "keeper", keep_seconds=3600) as keeper:
            assert keeper.session_present
            got = [seen]
            while got[-1] < talker.sent - 1:
                got += [int(payload) for payload in keeper.payloads()]
            missed = [number for number in got if number > seen]  # before: what it had not acknowledged yet
            assert missed == list(range(seen + 1, talker.sent))
    assert [seat.id for seat in read_network(net.folder / "network.toml").brokers] == ["b1", "b2", "b3"]
    for broker in ("b1", "b2", "b3"):
        assert "b4" not in [member.id for member in net.view(broker).brokers], "it is not waited for"
        assert "b4" not in net.neighbours(broker)
    assert not (net.folder / "b1" / "data" / FILE).exists()
    until(lambda: "b4" not in net.supervisor.children or net.supervisor.children["b4"].process is None, "b4 ends")
    assert said(capsys, "join", "b4", "--beside", "b2", *network)[0] == 0, "it may come back, elsewhere"
    assert net.members("b1") == {"b1", "b2", "b3", "b4"}
    call(net.doors()["b2"], "neighbours", NeighboursView, {"id": "b4"}, method="DELETE")  # so far a run had come
    code, found = said(capsys, "leave", "b4", *network)
    assert (code, found["parted"], found["forgotten"], found["stopped"]) == (0, [], True, True), found


def test_who_was_told_and_killed_knows_it_after_the_restart(net: Net, capsys: Capture, tmp_path: Path) -> None:
    file, secret = tmp_path / "new.toml", net.folder / "secret"
    asked = ("--config", str(net.folder / "b1" / "settings.toml"), "--secret-file", str(secret), "--out", str(file))
    ports = ("--port", str(free_port()), "--link-port", str(free_port()))
    words = ("join", "new", *asked, *ports)
    code, found = said(capsys, *words)
    assert (code, found["beside"], found["there"]) == (0, ["b1"], False), found
    net.supervisor.kill("b1")
    assert file.stat().st_mode & 0o077 == 0
    assert secret.read_text().strip() not in file.read_text(), "the file of the secret is named, and no more"
    net.supervisor.revive("b1")
    assert net.neighbours("b1") == {"b2": "settings", "new": "added"}
    assert said(capsys, *words)[0] == 0, "once more changes nothing"
    command = [sys.executable, "-m", "latecomer", "broker", "--config", str(file)]
    with (tmp_path / "new.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: "new" in net.members("b3"), "the new broker is there")
        net.supervisor.kill("b1")
        net.supervisor.revive("b1")
        until(lambda: "new" in net.members("b3"), "and again, after a restart of its neighbour")
        door = door_in(load(file).broker.data)
        with pytest.raises(Refused, match="this broker itself"):
            call(net.doors()["b1"], "neighbours", NeighboursView, body={"id": "b1"})
        with pytest.raises(Refused, match="only a broker that is away"):
            call(net.doors()["b2"], "forget", dict[str, str], body={"broker": "new"})
        assert call(door, "neighbours", NeighboursView).neighbours[0].source == "settings"
    finally:
        process.kill()
        process.wait()
    code, told = said(capsys, "leave", "new", "--network", str(net.folder))
    assert code == 2
    assert "new does not answer" in told
    code, found = said(capsys, "leave", "new", "--network", str(net.folder), "--force")
    assert (code, found["parted"], found["forgotten"], found["stopped"]) == (0, ["b1"], True, False), found
    assert "new" not in [member.id for member in net.view("b3").brokers]


def test_what_is_refused(net: Net, capsys: Capture) -> None:
    network = ("--network", str(net.folder))
    refusals = {
        ("leave", "b2"): "without b2, the network falls into b1 and b3",
        ("leave", "b9"): "b9 does not answer",
        ("leave", "b9", "--force"): "nobody knows a broker 'b9'",
        ("join", "b4", "--beside", "b8"): "no broker 'b8' answers",
        ("join", "b4", "--port", "7000"): "--port",
    }
    for words, sentence in refusals.items():
        code, told = said(capsys, *words, *network)
        assert code == 2, (words, told)
        assert sentence in told
    assert net.members("b1") == {"b1", "b2", "b3"}
    with pytest.raises(Refused, match="'b9' is no neighbour of b1"):
        call(net.doors()["b1"], "neighbours", NeighboursView, {"id": "b9"}, method="DELETE")
    with pytest.raises(Refused, match="b2 stands there otherwise"):
        call(net.doors()["b1"], "neighbours", NeighboursView, body={"id": "b2", "host": HOST, "cost_us": 7})


def test_a_link_is_taken_away_and_given_back(tmp_path: Path) -> None:
    with running(network_of(ring(3)), tmp_path / "net") as supervisor, net_of(supervisor) as net:
        for one, other in (("b1", "b2"), ("b2", "b1")):
            call(net.doors()[one], "neighbours", NeighboursView, {"id": other}, method="DELETE")
        until(lambda: all(len(net.view(broker).links) == 2 for broker in ("b1", "b2", "b3")), "two links are left")
        supervisor.kill("b1")
        supervisor.revive("b1")
        until(lambda: net.members("b2") == {"b1", "b2", "b3"}, "b1 is back")
        assert net.neighbours("b1") == {"b3": "settings"}, "although its settings name b2"
        assert call(net.doors()["b1"], "neighbours", NeighboursView).removed == ("b2",)
        for one, other in (("b1", "b2"), ("b2", "b1")):
            found = call(net.doors()[other], "neighbours", NeighboursView)
            body = {"id": other, "host": found.host, "port": found.port}
            call(net.doors()[one], "neighbours", NeighboursView, body=body)
        until(lambda: all(len(net.view(broker).links) == 3 for broker in ("b1", "b2", "b3")), "three links again")
