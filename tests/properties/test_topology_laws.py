"""Laws of networks: counts, trees, distances against brute force, and hostile text."""

from __future__ import annotations

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.model.errors import SettingsError
from latecomer.model.topology import UNREACHABLE, Link, Node, Topology
from latecomer.model.topology_formats import parse_graphml, parse_jsonl, pick
from latecomer.model.topology_generators import (
    barabasi_albert,
    grid,
    hierarchy,
    line,
    random_connected,
    random_tree,
    ring,
    star,
    tree,
)

sizes = st.integers(1, 40)
seeds = st.integers(0, 2**32)
law = settings(deadline=None)  # two cores for everybody: a slow example is not a wrong one


@st.composite
def networks(draw: st.DrawFn) -> Topology:
    """Any small network that passes `check(connected=False)`, connected or not."""
    n = draw(st.integers(1, 9))
    pairs = [(a, b) for a in range(n) for b in range(n) if a < b]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=14)) if pairs else []
    turned = [pair if draw(st.booleans()) else pair[::-1] for pair in chosen]
    links = tuple(Link(f"n{a}", f"n{b}", draw(st.integers(0, 9))) for a, b in turned)
    order = draw(st.permutations(range(n)))
    root = draw(st.none() | st.sampled_from([f"n{number}" for number in order]))
    return Topology("net", tuple(Node(f"n{number}") for number in order), links, root)


def floyd_warshall(topology: Topology, *, hops: bool) -> list[list[int]]:
    far = 10**9
    ids = topology.ids()
    table = [[0 if a == b else far for b in ids] for a in ids]
    for link in topology.links:
        a, b = ids.index(link.a), ids.index(link.b)
        table[a][b] = table[b][a] = 1 if hops else link.latency_us
    for via in range(len(ids)):
        for a in range(len(ids)):
            for b in range(len(ids)):
                table[a][b] = min(table[a][b], table[a][via] + table[via][b])
    return [[UNREACHABLE if cell >= far else cell for cell in row] for row in table]


# --- distances and parts


@law
@given(networks())
def test_distances_are_those_of_brute_force(topology: Topology) -> None:
    ids = topology.ids()
    for expected, matrix, walk in (
        (floyd_warshall(topology, hops=True), topology.hop_matrix(), topology.hops_from),
        (floyd_warshall(topology, hops=False), topology.latency_matrix(), topology.latency_from),
    ):
        assert [list(row) for row in matrix] == expected
        for start, row in zip(ids, expected, strict=True):
            reached = walk(start)
            assert reached == {id: cell for id, cell in zip(ids, row, strict=True) if cell != UNREACHABLE}
            assert list(reached.values()) == sorted(reached.values())  # nearest first


@law
@given(networks())
def test_parts_are_what_can_be_reached(topology: Topology) -> None:
    parts = topology.components()
    assert sorted(id for part in parts for id in part) == sorted(topology.ids())
    for part in parts:
        assert all(sorted(topology.hops_from(id)) == sorted(part) for id in part)
    assert topology.is_connected() == (len(parts) == 1)
    largest = topology.largest_component()
    largest.check()
    assert len(largest.nodes) == max(map(len, parts))
    if topology.is_connected():
        topology.check()
        assert largest == topology
        assert topology.diameter_hops() == max(max(row) for row in floyd_warshall(topology, hops=True))


@law
@given(networks(), st.data())
def test_without_removes_one_broker_and_its_links(topology: Topology, data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(topology.ids()))
    left = topology.without(gone)
    degree = len(topology.neighbours()[gone])
    assert len(left.links) == len(topology.links) - degree
    assert left.ids() == tuple(id for id in topology.ids() if id != gone)
    assert left.root == (None if topology.root == gone else topology.root)
    if left.nodes:
        left.check(connected=False)


@law
@given(networks())
def test_neighbours_are_mutual(topology: Topology) -> None:
    neighbours = topology.neighbours()
    for id, row in neighbours.items():
        assert all((id, latency_us) in neighbours[other] for other, latency_us in row)
    assert sum(map(len, neighbours.values())) == 2 * len(topology.links)


@law
@given(networks())
def test_a_tree_loses_connection_with_any_link(topology: Topology) -> None:
    fragile = topology.is_connected() and not any(
        Topology("net", topology.nodes, tuple(kept for kept in topology.links if kept != link)).is_connected()
        for link in topology.links
    )
    assert topology.is_tree() == fragile


# --- generators


@law
@given(sizes, st.integers(1, 6), seeds)
def test_trees_are_trees(n: int, degree: int, seed: int) -> None:
    for made in (line(n), star(n), tree(n, degree), random_tree(n, random.Random(seed))):
        made.check()
        assert made.is_tree()
        assert made.ids() == tuple(f"b{number}" for number in range(1, n + 1))
    assert all(len(row) <= degree + 1 for row in tree(n, degree).neighbours().values())
    assert line(n).diameter_hops() == n - 1


@law
@given(st.integers(1, 5), st.integers(0, 3))
def test_hierarchies_are_complete(degree: int, depth: int) -> None:
    n = sum(degree**level for level in range(depth + 1))
    made = hierarchy(degree, n)
    made.check()
    assert made.is_tree()
    assert made.root is not None
    leaves = made.leaves()
    assert len(leaves) == degree**depth
    assert {made.hops_from(made.root)[leaf] for leaf in leaves} == {depth}


@law
@given(st.integers(1, 12), st.integers(1, 12))
def test_grids(width: int, height: int) -> None:
    made = grid(width, height)
    made.check()
    assert len(made.nodes) == width * height
    assert len(made.links) == (width - 1) * height + width * (height - 1)
    assert made.diameter_hops() == width + height - 2


@law
@given(st.integers(3, 40))
def test_rings(n: int) -> None:
    made = ring(n)
    made.check()
    assert len(made.links) == n
    assert made.diameter_hops() == n // 2


@law
@given(st.integers(1, 15), st.data(), seeds)
def test_random_networks_have_as_many_links_as_asked(n: int, data: st.DataObject, seed: int) -> None:
    extra_links = data.draw(st.integers(0, n * (n - 1) // 2 - (n - 1)))
    made = random_connected(n, extra_links, random.Random(seed))
    made.check()
    assert len(made.nodes) == n
    assert len(made.links) == n - 1 + extra_links


@law
@given(st.integers(2, 40), st.data(), seeds)
def test_preferential_attachment_counts(n: int, data: st.DataObject, seed: int) -> None:
    m = data.draw(st.integers(1, n - 1))
    made = barabasi_albert(n, m, random.Random(seed))
    made.check()
    assert len(made.nodes) == n
    assert len(made.links) == m * (n - m)


# --- formats


def as_json(topology: Topology) -> str:
    nodes = [{"id": node.id, "label": node.label} for node in topology.nodes]
    links = [{"source": link.a, "target": link.b, "latency_ms": link.latency_us / 1000} for link in topology.links]
    return json.dumps({"name": topology.name, "nodes": nodes, "links": links, "root": topology.root})


def as_graphml(topology: Topology) -> str:
    nodes = "\n".join(f'<node id="{node.id}"/>' for node in topology.nodes)
    links = "\n".join(f'<edge source="{link.a}" target="{link.b}"/>' for link in topology.links)
    key = '<key id="d1" for="node" attr.name="Latitude"/>'
    return f"<graphml>{key}\n<graph>\n{nodes}\n{links}\n</graph></graphml>"


@law
@given(networks())
def test_what_is_written_is_read(topology: Topology) -> None:
    assert pick(parse_jsonl(as_json(topology), "f"), "net") == topology
    read = parse_graphml(as_graphml(topology), "net.graphml")
    assert read.nodes == topology.nodes
    assert [(link.a, link.b) for link in read.links] == [(link.a, link.b) for link in topology.links]


def only_settings_errors(text: str) -> None:
    complaints: list[SettingsError] = []
    try:
        for topology in parse_jsonl(text, "f"):
            topology.check(connected=False)
    except SettingsError as error:
        complaints.append(error)
    try:
        parse_graphml(text, "f").check(connected=False)
    except SettingsError as error:
        complaints.append(error)
    assert complaints  # no text is both JSON and XML
    for complaint in complaints:
        assert complaint.source == "f"
        str(complaint).encode()  # an error that cannot be printed is no answer


@law
@given(st.text(st.characters()))  # surrogates included
def test_hostile_text(text: str) -> None:
    only_settings_errors(text)


@law
@given(st.binary())
def test_hostile_bytes(data: bytes) -> None:
    only_settings_errors(data.decode("utf-8", "surrogateescape"))
    only_settings_errors(data.decode("latin-1"))


json_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
json_values = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@st.composite
def nearly_json(draw: st.DrawFn) -> str:
    """A network in the right shape with some values that are not."""
    value = json_scalars | st.sampled_from([0, 1, "0", "a", -1, 1e308])
    node = st.fixed_dictionaries({}, optional=dict.fromkeys(("id", "label", "lat", "lon"), value))
    link = st.fixed_dictionaries({}, optional=dict.fromkeys(("source", "target", "latency_ms", "km"), value))
    network = {
        "name": draw(value),
        "nodes": draw(st.lists(node, max_size=4)),
        "links": draw(st.lists(link, max_size=4)),
    }
    if draw(st.booleans()):
        network[draw(st.sampled_from(["name", "nodes", "links", "root", "other"]))] = draw(json_values)
    return json.dumps(network)


@law
@given(nearly_json())
def test_hostile_json(text: str) -> None:
    only_settings_errors(text)


@law
@given(networks(), st.data())
def test_damaged_files(topology: Topology, data: st.DataObject) -> None:
    for whole in (as_json(topology), as_graphml(topology)):
        start = data.draw(st.integers(0, len(whole)))
        end = data.draw(st.integers(start, min(len(whole), start + 20)))
        scraps = ["", "<", ">", "&a;", "<!DOCTYPE a [<!ENTITY b 'c'>]>", "<data key='d1'>x</data>", "<graph>"]
        scrap = data.draw(st.text(st.characters(), max_size=4) | st.sampled_from(scraps))
        only_settings_errors(whole[:start] + scrap + whole[end:])
