"""Ring routing on real brokers: positions change while everybody publishes, and brokers die on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from latecomer.cli.main import VERBS, run
from latecomer.model.topology_generators import line
from tests.network.net import joined, network_of, running
from tests.network.peer import Peer
from tests.network.repositioned import ROUTING, meshed, trial

Capture = pytest.CaptureFixture[str]


def test_positions_change_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    outcome = trial(tmp_path, brokers=5, moves=2)
    assert outcome.good, "\n".join(outcome.lines())
    assert not outcome.refused


@pytest.mark.long
def test_brokers_are_killed_while_positions_change(tmp_path: Path) -> None:
    outcome = trial(tmp_path, brokers=6, moves=1, kills=3)
    assert outcome.good, "\n".join(outcome.lines())


def test_the_operator_sees_the_ring_and_has_it_planned(tmp_path: Path, capsys: Capture) -> None:
    with running(network_of(meshed(4), ROUTING), tmp_path) as supervisor:
        joined(supervisor)
        ports = [seat.port for seat in supervisor.network.brokers]
        with Peer(ports[0]) as author, Peer(ports[2]) as reader:
            assert reader.subscribe("alerts/#", 1) == 1
            for number in range(20):
                assert author.publish("alerts/fire", str(number), 1) == 0
            assert len(reader.take(20)) == 20
        network = ["--network", str(tmp_path)]
        run(VERBS, ["overlay", "show", "--json", *network])
        views = json.loads(capsys.readouterr().out)
        assert {view["broker"] for view in views} == {"b1", "b2", "b3", "b4"}
        assert all(view["ring"] and view["ready"] for view in views)
        assert sum(sum(view["published"].values()) for view in views) == 20
        assert sum(place["slots"] for place in views[0]["places"]) == 1024
        run(VERBS, ["overlay", "show", *network])
        assert "A ring of 4 brokers" in capsys.readouterr().out
        ring = tmp_path / "ring.json"
        ring.write_text(json.dumps({"positions": {"b1": 1, "b2": 1 << 20, "b3": 1 << 30, "b4": 1 << 31}}))
        run(VERBS, ["overlay", "apply", str(ring), *network])
        assert "Nothing was changed" in capsys.readouterr().out
        run(VERBS, ["overlay", "apply", str(ring), "--yes", "--measure", "0", *network])
        assert "All brokers use the new positions" in capsys.readouterr().out
        run(VERBS, ["overlay", "show", "--json", *network])
        views = json.loads(capsys.readouterr().out)
        assert [place["broker"] for place in views[0]["places"]] == ["b1", "b2", "b3", "b4"]
        assert all(place["agreed"] for place in views[0]["places"])


def test_other_routings_say_that_they_have_no_ring(tmp_path: Path, capsys: Capture) -> None:
    with running(network_of(line(1)), tmp_path):
        assert run(VERBS, ["overlay", "show", "--network", str(tmp_path)]) != 0
        assert "rendezvous" in capsys.readouterr().err
