"""Stores as real processes: late subscribers everywhere, a store that is killed, and what operators see of it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from latecomer.cli.doors import ask, found_doors
from latecomer.cli.main import VERBS, run
from latecomer.core.retrieval import PATIENCE_US
from latecomer.model.topology_generators import line
from latecomer.model.when import format_when
from latecomer.runtime.network_file import with_stores
from latecomer.runtime.store_views import StoresView
from latecomer.runtime.supervisor import Supervisor
from tests.network.history_kill import trial
from tests.network.net import QUICK, network_of, running
from tests.network.peer import LIMIT_SECONDS, Peer, properties

Capture = pytest.CaptureFixture[str]
COUNT = 150


def views(supervisor: Supervisor) -> dict[str, StoresView]:
    doors = found_doors(supervisor.folder, [], [], None)
    return {view.broker: view for view in map(ask, doors)}


def certain(supervisor: Supervisor) -> None:
    """Wait until every store has everything from some moment on, and everybody knows of it."""
    until = time.monotonic() + LIMIT_SECONDS
    while True:
        found = views(supervisor)
        stores = [view.store for view in found.values() if view.store is not None]
        known = all(len(view.table) == 1 for view in found.values())
        now_us = time.time_ns() // 1000
        if known and all(store.classes[0].answering and 0 < store.complete_since_us < now_us for store in stores):
            return
        assert time.monotonic() < until, found
        time.sleep(0.1)


def late(port: int, since: str) -> Peer:
    peer = Peer(port)
    wish = properties(8, UserProperty=[("since", since)])
    peer.client.subscribe("t/#", qos=1, properties=wish)
    return peer


def numbers_of(peer: Peer, wanted: int) -> tuple[dict[str, list[int]], list[dict[str, object]]]:
    """By topic what came, in order, until so many have come and the end of the past was told. A store that falls silent
    is waited for before another one is asked."""
    found: dict[str, list[int]] = {}
    ends: list[dict[str, object]] = []
    while sum(map(len, found.values())) < wanted or not ends:
        message = peer.inbox.get(timeout=PATIENCE_US / 1_000_000 + LIMIT_SECONDS)
        if message.topic == "$history/end":
            ends.append(json.loads(message.payload))
        else:
            found.setdefault(message.topic, []).append(int(message.payload))
    return found, ends


def test_whoever_is_late_gets_all_of_it_from_the_nearest_store(tmp_path: Path, capfd: Capture) -> None:
    """b1 – b2 – b3 – b4, stores at b2 and b4: whoever is there asks at home, the others their neighbour. Half of it is
    past when they come, half is published while they are being answered."""
    network = with_stores(network_of(line(4), QUICK), ["b2=t/#", "b4=t/#"], {})
    with running(network, tmp_path) as supervisor:
        ports = {seat.id: seat.port for seat in network.brokers}
        certain(supervisor)
        since = format_when(time.time_ns() // 1000)
        time.sleep(0.01)
        publishers = {broker: Peer(port) for broker, port in ports.items()}

        def publish(first: int) -> None:
            for number in range(first, first + COUNT):
                for broker, peer in publishers.items():
                    peer.client.publish(f"t/{broker}", b"%d" % number, qos=1)

        publish(0)
        arrived = {broker: late(port, since) for broker, port in ports.items()}
        publish(COUNT)
        for broker, peer in arrived.items():
            found, (end,) = numbers_of(peer, 2 * COUNT * len(ports))
            assert found == {f"t/{other}": list(range(2 * COUNT)) for other in ports}, broker
            assert (end["complete"], end["problem"]) == (True, "")
            assert end["hops"] == (0 if broker in ("b2", "b4") else 1)
            assert set(end["stores"]) <= {"b2", "b4"}  # type: ignore[call-overload]
        for peer in (*publishers.values(), *arrived.values()):
            peer.client.disconnect()
            peer.client.loop_stop()

        words = ["history", "t/b3", "--since", since, "--port", str(ports["b1"]), "--host", "127.0.0.1"]
        assert run(VERBS, [*words, "--format", "json"]) == 0
        lines = [json.loads(text) for text in capfd.readouterr().out.splitlines()]
        assert [int(each["payload"]) for each in lines] == list(range(2 * COUNT))
        assert run(VERBS, ["history", "t/#", "--last", "3", "--port", str(ports["b3"]), "--host", "127.0.0.1"]) in (
            0,
            3,
        )
        assert len(capfd.readouterr().out.splitlines()) == 3

        assert run(VERBS, ["stores", "--network", str(tmp_path), "--json"]) == 0
        told = {each["broker"]: each for each in json.loads(capfd.readouterr().out)}
        assert told["b1"]["store"] is None
        assert told["b1"]["table"] == [{"topics": "t/#", "hops": 1, "ways": ["b2"]}]
        assert told["b3"]["table"] == [{"topics": "t/#", "hops": 1, "ways": ["b2", "b4"]}]
        assert {other["broker"] for other in told["b1"]["others"]} == {"b2", "b4"}
        for broker in ("b2", "b4"):
            assert told[broker]["store"]["events"] == 2 * COUNT * len(ports)
            assert told[broker]["store"]["requests_served"] >= 1
        assert run(VERBS, ["stores", "--network", str(tmp_path)]) == 0
        assert "mean hops" in capfd.readouterr().out


@pytest.mark.parametrize(("kills", "rate"), [(1, 15), pytest.param(2, 50, marks=pytest.mark.long)])
def test_a_store_that_is_killed_while_it_answers(kills: int, rate: int, tmp_path: Path) -> None:
    """Nothing is missing and nothing comes twice, also for those whose own broker dies; tests/network/history_kill.py
    does the same for hours."""
    outcome = trial(tmp_path, kills=kills, seed=3, rate=rate)
    assert outcome.good, "\n".join(outcome.lines())
    assert all(tally.wanted > 100 for tally in outcome.tallies)
