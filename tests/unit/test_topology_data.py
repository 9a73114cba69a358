"""The real networks of the shared data set, read whole.

The data is not part of the repository: it lies in $LATECOMER_SHARED_DATA, or beside the checkout in
../shared/data. Where it is absent these tests are skipped, and with LATECOMER_TEST_ALL=1 they fail.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from latecomer.model.errors import SettingsError
from latecomer.model.topology import Topology
from latecomer.model.topology_formats import parse_graphml, parse_jsonl, pick


def shared(name: str) -> list[Topology]:
    repository = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("LATECOMER_SHARED_DATA") or repository.parent / "shared" / "data")
    path = folder / "topologies" / name
    if not path.is_file():
        told = f"{path} is not there; set LATECOMER_SHARED_DATA to the folder of the shared data"
        if os.environ.get("LATECOMER_TEST_ALL") == "1":
            pytest.fail(told)
        pytest.skip(told)
    return parse_jsonl(path.read_text(encoding="utf-8"), name)


def test_topology_zoo() -> None:
    networks = shared("topology_zoo.jsonl")
    assert len(networks) == 261
    assert sum(network.is_connected() for network in networks) == 243
    assert sum(len(network.nodes) for network in networks) == 9961
    assert sum(len(network.links) for network in networks) == 12162
    assert max(len(network.nodes) for network in networks if network.is_connected()) == 754
    for network in networks:
        network.check(connected=False)
        network.largest_component().check()
    assert sum(all(node.lat is not None for node in network.nodes) for network in networks) == 130


def test_distances_from_coordinates_agree_with_those_of_the_data() -> None:
    """GraphML brings coordinates, JSON Lines kilometres that somebody else computed from the same."""
    keys = '<key id="y" for="node" attr.name="Latitude"/><key id="x" for="node" attr.name="Longitude"/>'
    compared = 0
    for network in shared("topology_zoo.jsonl"):
        located = {node.id: node for node in network.nodes if node.lat is not None}
        links = [link for link in network.links if link.a in located and link.b in located]
        if not links:
            continue
        written = [
            f'<node id="{node.id}"><data key="y">{node.lat}</data><data key="x">{node.lon}</data></node>'
            for node in located.values()
        ] + [f'<edge source="{link.a}" target="{link.b}"/>' for link in links]
        read = parse_graphml(f"<graphml>{keys}<graph>{''.join(written)}</graph></graphml>", "f")
        for ours, theirs in zip(read.links, links, strict=True):
            # They took the radius of the Earth, the coordinates and the result rounded.
            assert ours.latency_us == pytest.approx(theirs.latency_us, rel=1e-4, abs=2)
            compared += 1
    assert compared == 10253


def test_abilene_across_the_united_states() -> None:
    abilene = pick(shared("sndlib.jsonl"), "abilene")
    abilene.check()
    by_label = {node.label: node.id for node in abilene.nodes}
    seattle, atlanta = by_label["STTLng"], by_label["ATLAM5"]
    assert abilene.hops_from(seattle)[atlanta] == 5
    # by Denver, Kansas City, Indianapolis and Atlanta: 1571.0, 743.8, 901.5, 590.0, 132.6 km
    assert abilene.latency_from(seattle)[atlanta] == 7855 + 3719 + 4508 + 2950 + 663


def test_sndlib() -> None:
    networks = shared("sndlib.jsonl")
    assert len(networks) == 26
    for network in networks:
        network.check()


def test_rocketfuel() -> None:
    networks = shared("rocketfuel.jsonl")
    assert {network.name: (len(network.nodes), len(network.links)) for network in networks} == {
        "AS1221": (108, 153),
        "AS1239": (315, 972),
        "AS1755": (87, 161),
        "AS3257": (161, 328),
        "AS3967": (79, 147),
        "AS6461": (141, 374),
    }
    parts = {network.name: len(network.largest_component().nodes) for network in networks}
    assert (parts["AS1221"], parts["AS6461"]) == (104, 138)
    assert [network.name for network in networks if not network.is_connected()] == ["AS1221", "AS6461"]
    assert min(link.latency_us for network in networks for link in network.links) == 1000
    assert max(link.latency_us for network in networks for link in network.links) == 64_000


def test_a_network_in_parts_is_refused_when_asked() -> None:
    telstra = pick(shared("rocketfuel.jsonl"), "AS1221")
    with pytest.raises(SettingsError, match=r"'AS1221' is not connected: '\d+' cannot reach '\d+' \("):
        telstra.check()
