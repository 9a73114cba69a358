"""Operators move sessions between real brokers, and drain a broker: `latecomer sessions` and `latecomer drain`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from latecomer.cli.doors import Door, Refused, call, found_doors
from latecomer.cli.main import VERBS, run
from latecomer.cli.session_work import named, sessions_at
from latecomer.model.movement import BUCKETS, WEIGHT_ONE, Movement, write_movement
from latecomer.model.topology_generators import line
from latecomer.runtime.admin_views import Overview
from latecomer.runtime.session_views import SessionView
from latecomer.runtime.supervisor import Supervisor
from tests.network.net import network_of, running
from tests.network.peer import Peer

Capture = pytest.CaptureFixture[str]
Said = Callable[..., tuple[int, Any]]


class Net:
    """Three brokers in a line, and how they are asked."""

    def __init__(self, folder: Path, supervisor: Supervisor) -> None:
        self.folder = folder
        self.supervisor = supervisor
        self.ports = {seat.id: seat.port for seat in supervisor.network.brokers}
        self.doors, silent = named(found_doors(folder, [], [], None))
        assert not silent

    def keep(self, client: str, broker: str, topic: str = "a/#") -> None:
        """A client subscribes, and goes away."""
        peer = self.join(client, broker)
        peer.subscribe(topic, 1)
        peer.leave()

    def join(self, client: str, broker: str) -> Peer:
        return Peer(self.ports[broker], client, keep_seconds=3600)

    def sessions(self, broker: str) -> dict[str, SessionView]:
        return {view.client: view for view in sessions_at(self.doors[broker])}

    def door(self, broker: str) -> Door:
        return self.doors[broker]

    def restart(self, broker: str) -> None:
        """Kill a broker, start it again, and wait until the others have it back."""
        self.supervisor.kill(broker)
        self.supervisor.revive(broker)
        while not all(self._is_whole(door) for door in self.doors.values()):
            time.sleep(0.05)

    def _is_whole(self, door: Door) -> bool:
        tree = call(door, "overview", Overview).tree
        return tree.ready and len(tree.members) == len(self.doors)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    folder = tmp_path_factory.mktemp("sessions")
    with running(network_of(line(3)), folder) as supervisor:
        yield Net(folder, supervisor)


@pytest.fixture
def said(net: Net, capsys: Capture) -> Said:
    """Runs a command line with `--json`; its exit code and what it printed."""

    def told(*words: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = run(VERBS, [*words, "--network", str(net.folder), "--json"])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else None

    return told


def test_a_session_moves_with_what_waits_for_it(net: Net, said: Said) -> None:
    net.keep("walker", "b1", "walk/#")
    with Peer(net.ports["b1"]) as publisher:
        publisher.publish("walk/1", b"one", qos=1)
        code, found = said("sessions", "move", "walker", "b3")
        assert (code, found["from"], found["to"], found["moved"]) == (0, "b1", "b3", True)
        publisher.publish("walk/2", b"two", qos=1)
    assert "walker" not in net.sessions("b1")
    view = net.sessions("b3")["walker"]
    assert (view.where, view.connected, view.durable, view.subscriptions) == ("here", False, True, 1)
    code, (listed,) = said("sessions", "--client", "walker")
    assert (code, listed["broker"], listed["where"]) == (0, "b3", "here")
    with net.join("walker", "b3") as back:
        assert back.session_present
        assert back.payloads(2) == [b"one", b"two"]
    assert said("sessions", "move", "walker", "b3")[1]["moved"]  # it is there already


def test_a_connected_client_is_told_to_use_another_server(net: Net, said: Said) -> None:
    with net.join("talker", "b1") as peer:
        assert said("sessions", "move", "talker", "b2")[0] == 0
        assert peer.dismissed() == 0x9C
    with net.join("talker", "b2") as peer:
        assert peer.session_present


def test_why_a_session_cannot_move(net: Net, said: Said, capsys: Capture) -> None:
    net.keep("stayer", "b1")
    network = ["--network", str(net.folder)]
    assert run(VERBS, ["sessions", "move", "stayer", "b9", *network]) == 2
    assert "there is no way from b1 to b9 now" in capsys.readouterr().err
    assert run(VERBS, ["sessions", "release", "stayer", *network]) == 2
    assert "b1 has promised no session of stayer to anybody" in capsys.readouterr().err
    assert said("sessions", "move", "nobody", "b2") == (1, None)
    assert said("sessions", "release", "nobody") == (1, None)
    assert said("sessions", "--client", "nobody") == (1, [])
    body = {"client": "passer-by", "to": "b2"}
    with Peer(net.ports["b1"], "passer-by"), pytest.raises(Refused, match="ends with its connection"):
        call(net.door("b1"), "move-session", dict[str, str], body=body)


def test_a_broker_is_drained_and_takes_clients_again(net: Net, said: Said, capsys: Capture) -> None:
    for number in range(6):
        net.keep(f"drained-{number}", "b2", "drained/#")
    with Peer(net.ports["b2"], "light") as light, net.join("drained-heavy", "b2") as heavy:
        before = len(net.sessions("b2"))
        code, found = said("drain", "b2", "--rate", "100")
        assert (code, found["left"], found["to"]) == (0, [], ["b1", "b3"])
        assert (found["moved"], found["disconnected"]) == (before - 1, 1)
        assert light.dismissed() == heavy.dismissed() == 0x9C
    assert net.sessions("b2") == {}
    assert all(any(name.startswith("drained") for name in net.sessions(broker)) for broker in ("b1", "b3"))
    assert call(net.door("b2"), "overview", Overview).draining
    with pytest.raises(ConnectionRefusedError, match="Use another server"):
        Peer(net.ports["b2"], "late")
    assert said("drain", "b2")[1]["moved"] == 0
    assert run(VERBS, ["drain", "b1", "--to", "b2", "--network", str(net.folder)]) == 2
    assert "b2 cannot take sessions: it is drained itself" in capsys.readouterr().err
    assert not call(net.door("b1"), "overview", Overview).draining
    assert said("drain", "b2", "--abort") == (0, {"broker": "b2", "draining": False, "sessions": 0})
    with net.join("drained-0", "b2") as back:
        assert back.session_present


def test_a_broker_that_is_drained_is_still_drained_after_a_restart(net: Net, said: Said) -> None:
    assert said("drain", "b3")[0] == 0
    net.restart("b3")
    assert call(net.door("b3"), "overview", Overview).draining
    with pytest.raises(ConnectionRefusedError, match="Use another server"):
        Peer(net.ports["b3"], "late")
    assert said("drain", "b3", "--abort")[0] == 0
    net.restart("b3")
    assert not call(net.door("b3"), "overview", Overview).draining
    with Peer(net.ports["b3"], "late"):
        pass


def test_a_movement_model_is_loaded_while_brokers_run(net: Net, said: Said, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "clients.movement"
    model = Movement(("b1", "b2"), 24, (3,), ((WEIGHT_ONE,) * BUCKETS,), True, {}, {"c": {0: (1, 1, 1)}})
    file.write_bytes(write_movement(model))
    assert [view["source"] for view in said("movement-model")[1]] == ["", "", ""]
    code, views = said("movement-model", "load", str(file))
    assert (code, [(view["source"], view["places"], view["clients"]) for view in views]) == (0, [("loaded", 2, 1)] * 3)
    net.restart("b2")
    assert [view["source"] for view in said("movement-model")[1]] == ["loaded"] * 3
    file.write_bytes(b"spoilt")
    assert run(VERBS, ["movement-model", "load", str(file), "--network", str(net.folder)]) == 2
    assert "is no movement model" in capsys.readouterr().err
    assert [view["source"] for view in said("movement-model", "remove")[1]] == ["", "", ""]
    assert run(VERBS, ["movement-model", "remove", "--network", str(net.folder)]) == 2
    assert "no movement model was loaded" in capsys.readouterr().err


def test_a_broker_that_is_not_there_cannot_be_drained(net: Net, capsys: Capture) -> None:
    assert run(VERBS, ["drain", "b7", "--network", str(net.folder)]) == 2
    assert "no broker 'b7' answers: those that answer are b1, b2, b3" in capsys.readouterr().err
    assert run(VERBS, ["drain", "b1", "--to", "b7", "--network", str(net.folder)]) == 2
    assert "b7 cannot take sessions: there is no way to it from b1 now" in capsys.readouterr().err
