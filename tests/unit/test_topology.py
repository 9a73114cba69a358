"""Networks by hand: distances that can be counted on paper, and every complaint with its words."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from latecomer.model import topology_formats
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
    walkthrough,
)


def network(ids: str, *links: Link, root: str | None = None) -> Topology:
    return Topology("net", tuple(Node(id) for id in ids.split()), links, root)


TWO_PARTS = network("a b c x y", Link("a", "b"), Link("c", "b"), Link("x", "y"), root="x")
DETOUR = network("a b c d", Link("a", "b", 900), Link("b", "c", 50), Link("a", "c", 100), Link("c", "d", 0))

# --- distances


def test_the_walkthrough_tree_is_the_papers() -> None:
    topology = walkthrough()
    assert topology.ids() == ("1", "2", "3", "4", "5", "6")
    assert [(link.a, link.b) for link in topology.links] == [
        ("1", "2"), ("2", "3"), ("3", "4"), ("3", "5"), ("5", "6"),
    ]  # fmt: skip
    assert topology.is_tree()
    assert topology.hops_from("1") == {"1": 0, "2": 1, "3": 2, "4": 3, "5": 3, "6": 4}
    assert topology.latency_from("4") == {"4": 0, "3": 1000, "2": 2000, "5": 2000, "1": 3000, "6": 3000}
    assert topology.diameter_hops() == 4
    assert topology.leaves() == ("1", "4", "6")


def test_neighbours_keep_link_order_and_latency() -> None:
    assert DETOUR.neighbours() == {
        "a": (("b", 900), ("c", 100)),
        "b": (("a", 900), ("c", 50)),
        "c": (("b", 50), ("a", 100), ("d", 0)),
        "d": (("c", 0),),
    }


def test_the_fastest_path_may_have_more_hops() -> None:
    assert DETOUR.hops_from("a")["b"] == 1
    assert DETOUR.latency_from("a") == {"a": 0, "c": 100, "d": 100, "b": 150}
    assert list(DETOUR.latency_from("a")) == ["a", "c", "d", "b"]


def test_matrices_follow_the_node_order_and_mark_what_cannot_be_reached() -> None:
    assert [list(row) for row in DETOUR.latency_matrix()] == [
        [0, 150, 100, 100],
        [150, 0, 50, 50],
        [100, 50, 0, 0],
        [100, 50, 0, 0],
    ]
    assert list(TWO_PARTS.hop_matrix()[0]) == [0, 1, 2, UNREACHABLE, UNREACHABLE]
    assert list(TWO_PARTS.latency_matrix()[3]) == [UNREACHABLE] * 3 + [0, 1000]


def test_distances_stop_at_the_border_of_a_part() -> None:
    assert TWO_PARTS.hops_from("x") == {"x": 0, "y": 1}
    assert TWO_PARTS.latency_from("c") == {"c": 0, "b": 1000, "a": 2000}


def test_distances_from_nowhere() -> None:
    with pytest.raises(SettingsError, match="has no broker 'z'"):
        DETOUR.hops_from("z")


# --- shape


def test_parts() -> None:
    assert TWO_PARTS.components() == [("a", "b", "c"), ("x", "y")]
    assert not TWO_PARTS.is_connected()
    assert not TWO_PARTS.is_tree()
    largest = TWO_PARTS.largest_component()
    assert largest.ids() == ("a", "b", "c")
    assert largest.root is None
    assert largest.is_tree()
    with pytest.raises(SettingsError, match="not connected"):
        TWO_PARTS.diameter_hops()


def test_the_first_of_equal_parts_is_the_largest() -> None:
    assert network("p q").largest_component().ids() == ("p",)


def test_nothing_is_neither_connected_nor_a_tree() -> None:
    nothing = network("")
    assert nothing.components() == []
    assert not nothing.is_connected()
    assert not nothing.is_tree()
    assert nothing.largest_component() == nothing


def test_a_cycle_is_not_a_tree() -> None:
    assert not ring(3).is_tree()
    # n - 1 links, but one of them closes a cycle and one broker stays outside
    assert not network("a b c d", Link("a", "b"), Link("b", "c"), Link("c", "a")).is_tree()


def test_without_a_broker() -> None:
    left = walkthrough().without("3")
    assert left.ids() == ("1", "2", "4", "5", "6")
    assert left.links == (Link("1", "2"), Link("5", "6"))
    assert left.components() == [("1", "2"), ("4",), ("5", "6")]
    assert star(3).without("b1").root is None
    assert star(3).without("b2").root == "b1"
    with pytest.raises(SettingsError, match="has no broker '7'"):
        walkthrough().without("7")


# --- what the operator did wrong


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (network(""), "network 'net' has no brokers"),
        (Topology("net", (Node(""),), ()), "network 'net' has a broker with an empty id"),
        (network("b a c a b b"), "network 'net' has duplicate broker ids: 'a', 'b'"),
        (network("a", root="r"), "network 'net' has an unknown root 'r'"),
        (network("a b", Link("a", "q")), "network 'net' has a link 'a' - 'q' to an unknown broker 'q'"),
        (network("a b", Link("b", "b")), "network 'net' has a link 'b' - 'b' from a broker to itself"),
        (network("a b", Link("a", "b"), Link("b", "a", 5)), "network 'net' has the link 'b' - 'a' twice"),
        (
            network("a b", Link("a", "b", -1)),
            "network 'net' has a link 'a' - 'b' with a negative latency of -1 us",
        ),
        (
            network("a b", Link("a", "b", 10**10)),
            "network 'net' has a link 'a' - 'b' with a latency above 3600000000 us (one hour)",
        ),
        (
            TWO_PARTS,
            "network 'net' is not connected: 'a' cannot reach 'x' (2 parts of 3 and 2 brokers)",
        ),
        (
            network("y a b", Link("a", "b")),
            "network 'net' is not connected: 'a' cannot reach 'y' (2 parts of 2 and 1 brokers)",
        ),
        (
            network("a b c d e f", Link("e", "f")),
            "network 'net' is not connected: 'e' cannot reach 'a' (5 parts, the largest of 2, 1, 1 brokers)",
        ),
    ],
)
def test_check_says_what_is_wrong(wrong: Topology, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        wrong.check()
    assert caught.value.key == "topology"
    assert caught.value.problem == words


def test_parts_are_fine_when_not_asked() -> None:
    TWO_PARTS.check(connected=False)


def test_many_duplicates_and_long_names_stay_one_short_sentence() -> None:
    ids = " ".join(f"{'x' * 500}{number}" for number in range(50))
    with pytest.raises(SettingsError, match="and 46 more") as caught:
        network(f"{ids} {ids}").check()
    assert len(str(caught.value)) < 500


# --- generators


def test_shapes_by_hand() -> None:
    def pairs(topology: Topology) -> str:
        return " ".join(f"{link.a}-{link.b}".replace("b", "") for link in topology.links)

    assert pairs(line(3)) == "1-2 2-3"
    assert pairs(ring(3)) == "1-2 2-3 3-1"
    assert pairs(star(4)) == "1-2 1-3 1-4"
    assert pairs(tree(6, 2)) == "1-2 1-3 2-4 2-5 3-6"
    assert pairs(grid(2, 2)) == "1-2 1-3 2-4 3-4"
    assert line(1).links == star(1).links == tree(1, 4).links == ()
    assert {link.latency_us for link in grid(3, 3, latency_us=7).links} == {7}


def test_the_mobility_papers_hierarchy() -> None:
    topology = hierarchy()
    topology.check()
    assert len(topology.nodes) == 85
    assert topology.is_tree()
    assert topology.root == "b1"
    assert topology.diameter_hops() == 6
    leaves = topology.leaves()
    assert leaves == tuple(f"b{number}" for number in range(22, 86))
    # From west to east: a parent's four children in a row, then the next parent's.
    parents = [topology.neighbours()[leaf][0][0] for leaf in leaves]
    assert parents == [f"b{number}" for number in range(6, 22) for _ in range(4)]
    assert topology.hops_from(leaves[0])[leaves[3]] == 2
    assert topology.hops_from(leaves[0])[leaves[15]] == 4
    assert topology.hops_from(leaves[0])[leaves[16]] == 6
    assert {topology.hops_from("b1")[leaf] for leaf in leaves} == {3}


def test_a_hierarchy_is_complete_or_refused() -> None:
    assert hierarchy(2, 7).leaves() == ("b4", "b5", "b6", "b7")
    assert hierarchy(4, 1).leaves() == ("b1",)
    assert hierarchy(1, 5).is_tree()
    with pytest.raises(SettingsError, match="degree 4 has 21 or 85 brokers, not 84"):
        hierarchy(4, 84)


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: random_tree(30, rng),
        lambda rng: random_connected(30, 20, rng),
        lambda rng: barabasi_albert(30, 3, rng),
    ],
)
def test_a_seed_is_a_network(make: Callable[[random.Random], Topology]) -> None:
    assert make(random.Random(5)) == make(random.Random(5))
    assert make(random.Random(5)) != make(random.Random(6))


def test_random_trees_are_even() -> None:
    """There are 16 labelled trees of four brokers; 1,600 draws give each about 100."""
    rng = random.Random(1)
    counts: dict[tuple[tuple[str, str], ...], int] = {}
    for _ in range(1600):
        drawn = tuple(sorted((link.a, link.b) for link in random_tree(4, rng).links))
        counts[drawn] = counts.get(drawn, 0) + 1
    assert len(counts) == 16
    assert 60 < min(counts.values()) <= max(counts.values()) < 140


def test_preferential_attachment_prefers() -> None:
    topology = barabasi_albert(500, 2, random.Random(3))
    degrees = sorted((len(row) for row in topology.neighbours().values()), reverse=True)
    assert degrees[0] > 20  # an even attachment ends far below: about 2 + 2 ln 500
    assert degrees[-1] >= 1


RNG = random.Random(0)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: line(0), "n"),
        (lambda: ring(2), "n"),
        (lambda: star(-1), "n"),
        (lambda: star(10**5000), "n"),
        (lambda: line("5"), "n"),  # type: ignore[arg-type]
        (lambda: line(True), "n"),
        (lambda: line(2.0), "n"),  # type: ignore[arg-type]
        (lambda: line(3, latency_us=-1), "latency_us"),
        (lambda: walkthrough(latency_us=-1), "latency_us"),
        (lambda: tree(3, 0), "degree"),
        (lambda: tree(0, 3), "n"),
        (lambda: hierarchy(0), "degree"),
        (lambda: hierarchy(brokers=0), "brokers"),
        (lambda: hierarchy(brokers=86), "brokers"),
        (lambda: grid(0, 1), "width"),
        (lambda: grid(1, 0), "height"),
        (lambda: grid(1000, 1000), "height"),
        (lambda: random_tree(0, RNG), "n"),
        (lambda: random_connected(4, 4, RNG), "extra_links"),
        (lambda: random_connected(4, -1, RNG), "extra_links"),
        (lambda: random_connected(100_000, 10**9, RNG), "extra_links"),
        (lambda: barabasi_albert(1, 1, RNG), "n"),
        (lambda: barabasi_albert(4, 4, RNG), "m"),
        (lambda: barabasi_albert(4, 0, RNG), "m"),
        (lambda: barabasi_albert(100_000, 50_000, RNG), "m"),
    ],
)
def test_a_wrong_argument_is_named(make: Callable[[], Topology], argument: str) -> None:
    with pytest.raises(SettingsError, match=r"must be|complete tree") as caught:
        make()
    assert caught.value.key == argument


# --- JSON Lines


def jsonl(*networks: dict[str, Any]) -> str:
    return "".join(json.dumps(one) + "\n" for one in networks)


def of(nodes: list[dict[str, Any]], links: list[dict[str, Any]], name: str = "net") -> dict[str, Any]:
    return {"name": name, "nodes": nodes, "links": links}


def test_jsonl_reads_nodes_links_and_latency() -> None:
    nodes: list[dict[str, Any]] = [
        {"id": 0, "label": "Oslo\u2028", "lat": 59.9, "lon": 10.7},
        {"id": "x"},
        {"id": 2, "lat": 1.0},
    ]
    links: list[dict[str, Any]] = [
        {"source": 0, "target": "x", "latency_ms": 2.5, "km": 9.0},
        {"source": "x", "target": 2, "km": 1079.4},
        {"source": 2, "target": 0, "km": 0.0},
    ]
    extra = {"connected": True, "demands": [[0, 2, 1.0]], "root": 2}
    text = json.dumps(of(nodes, links) | extra, ensure_ascii=False) + "\r\n\n"
    [topology] = parse_jsonl(text + jsonl(of([{"id": 1}], [], "second")), "f.jsonl")[:1]
    assert topology == Topology(
        "net",
        (Node("0", "Oslo\u2028", 59.9, 10.7), Node("x"), Node("2")),
        (Link("0", "x", 2500), Link("x", "2", 5397), Link("2", "0", 100)),
        root="2",
    )


def test_jsonl_without_distance_has_the_default_latency() -> None:
    text = jsonl(of([{"id": 0}, {"id": 1}], [{"source": 0, "target": 1, "km": None}]))
    assert parse_jsonl(text, "f")[0].links == (Link("0", "1", 1000),)


def test_jsonl_in_parts_is_read() -> None:
    [topology] = parse_jsonl(jsonl(of([{"id": 0}, {"id": 1}], [])), "f")
    assert not topology.is_connected()


GOOD = jsonl(of([{"id": 0}], []))


@pytest.mark.parametrize(
    ("line_two", "words"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ("nonsense", "malformed"),
        ('{"name": "n", "nodes": []}', "missing required field `links`"),
        ('{"name": "n", "nodes": [], "links": []}', "has no brokers"),
        ('{"name": "", "nodes": [{"id": 1}], "links": []}', "name"),
        ('{"name": "n", "nodes": [{"id": NaN}], "links": []}', "malformed"),
        ('{"name": "n", "nodes": [{"id": 1, "lat": 1e999, "lon": 0}], "links": []}', "lat"),
        ('{"name": "n", "nodes": [{"id": 1, "lat": 91, "lon": 0}], "links": []}', "lat"),
        ('{"name": "n", "nodes": [{"id": 1.5}], "links": []}', "id"),
        ('{"name": "n", "nodes": [{"id": "\\ud800"}], "links": []}', "surrogate"),
        ('{"name": "n", "nodes": [{"id": ' + "9" * 5000 + '}], "links": []}', "range"),
        ('{"name": "n", "nodes": [{"id": 1}, {"id": "1"}], "links": []}', "duplicate broker ids: '1'"),
        ('{"name": "n", "nodes": [{"id": 1}], "links": [{"source": 1, "target": 2}]}', "unknown broker '2'"),
        ('{"name": "n", "nodes": [{"id": 1}], "links": [{"source": 1, "target": 1}]}', "to itself"),
        (
            '{"name": "n", "nodes": [{"id": 1}], "links": [{"source": 1, "target": 1, "latency_ms": -1}]}',
            "latency_ms",
        ),
        ('{"name": "net", "nodes": [{"id": 1}], "links": []}', "'net' is already on line 1"),
        ('{"name": "n", "deep": ' + "[" * 100_000, "recursion"),
        ("\ud800", "not Unicode text"),
    ],
)
def test_jsonl_errors_name_the_file_and_the_line(line_two: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_jsonl(GOOD + line_two, "f.jsonl")
    assert str(caught.value).startswith("f.jsonl:2: topology: ")
    assert words in caught.value.problem


def test_of_a_key_given_twice_the_last_counts() -> None:
    [topology] = parse_jsonl('{"name": "a", "name": "b", "nodes": [{"id": 1, "id": 2}], "links": []}', "f")
    assert (topology.name, topology.ids()) == ("b", ("2",))


def test_too_much_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="f: topology: holds no network"):
        parse_jsonl(" \n\r\n", "f")
    monkeypatch.setattr(topology_formats, "MAX_TEXT_BYTES", 5)
    for text in ("      ", "ééé"):
        for parse in (parse_jsonl, parse_graphml):
            with pytest.raises(SettingsError, match="larger than"):
                parse(text, "f")


def test_pick() -> None:
    networks = [line(3), ring(3), Topology("Abilene", (Node("a"),), ())]
    assert pick(networks, "ring-3") is networks[1]
    with pytest.raises(SettingsError, match="did you mean 'Abilene'"):
        pick(networks, "abilene")
    with pytest.raises(SettingsError, match="none of 3 networks is named 'zzzz'; none is close"):
        pick(networks, "zzzz")
    with pytest.raises(SettingsError, match="2 networks are named 'line-3'"):
        pick([line(3), line(3)], "line-3")


# --- GraphML

ZOO = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d38" />
  <key attr.name="label" attr.type="string" for="node" id="d33" />
  <key attr.name="Longitude" attr.type="double" for="node" id="d32" />
  <key attr.name="Latitude" attr.type="double" for="node" id="d29" />
  <key attr.name="Network" attr.type="string" for="graph" id="d5" />
  <graph edgedefault="directed">
    <data key="d5">Some &amp; Net</data>
    <node id="0"><data key="d29">40.71427</data><data key="d32">-74.00597</data>
      <data key="d33">New York &lt;1&gt;</data></node>
    <node id="1"><data key="d29">41.85003</data><data key="d32">-87.65005</data></node>
    <node id="2"><data key="d33">Nowhere</data><data key="d29">1.0</data></node>
    <edge source="0" target="1"><data key="d38">1e10</data></edge>
    <edge source="1" target="0" />
    <edge source="0" target="1" />
    <edge source="2" target="2" />
    <edge source="2" target="1" />
  </graph>
</graphml>
"""


def test_graphml_of_the_zoo() -> None:
    assert parse_graphml(ZOO, "data/zoo/Some.graphml") == Topology(
        "Some",
        (
            Node("0", "New York <1>", 40.71427, -74.00597),
            Node("1", "", 41.85003, -87.65005),
            Node("2", "Nowhere"),
        ),
        (Link("0", "1", 5729), Link("2", "1", 1000)),  # 1,145.8 km, says the JSON of the Zoo
    )


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "no-such-encoding", "rot13", "idna"])
def test_graphml_text_is_text_whatever_encoding_it_claims(encoding: str) -> None:
    assert parse_graphml(ZOO.replace("utf-8", encoding), "f") == parse_graphml(ZOO, "f")


def test_graphml_links_may_come_before_their_brokers() -> None:
    text = '<graphml><graph><edge source="a" target="b"/><node id="b"/><node id="a"/></graph></graphml>'
    topology = parse_graphml(text, "")
    assert (topology.name, topology.ids(), topology.links) == ("graphml", ("b", "a"), (Link("a", "b"),))


LAT_KEY = '<graphml><key id="k" for="node" attr.name="Latitude"/>\n<graph><node id="a">'
BOMB = '<!DOCTYPE g [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>\n<graphml>&b;</graphml>'
THIEF = '<!DOCTYPE g [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n<graphml>&a;</graphml>'


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "no element found"),
        ("\n<graphml>\n<graph>", 3, "no element found"),
        ("<graphml>\n</graph>", 2, "mismatched tag"),
        ("<graphml>\n\x00", 2, "not XML"),
        ("<graphml>\n\ud800", 2, "not Unicode"),
        ("<html/>", 1, "not GraphML: the outermost element is 'html'"),
        ("<graphml>\n</graphml>", 2, "has no brokers"),
        ("<graphml>\n<key attr.name='label'/></graphml>", 2, "key without 'id'"),
        ("<graphml><graph>\n<node/></graph></graphml>", 2, "node without 'id'"),
        ("<graphml><graph>\n<node id='a'/>\n<node id='a'/></graph></graphml>", 3, "duplicate broker id 'a'"),
        ("<graphml><graph>\n<edge source='a'/></graph></graphml>", 2, "edge without 'target'"),
        (
            "<graphml><graph><node id='a'/>\n<edge source='a' target='b'/>\n\n</graph></graphml>",
            2,
            "a link 'a' - 'b' to an unknown broker 'b'",
        ),
        ("<graphml><graph/>\n<graph/></graphml>", 2, "more than one graph"),
        ("<graphml><graph><node id='a'>\n<graph/></node></graph></graphml>", 2, "more than one graph"),
        ("<graphml><graph>\n<hyperedge/></graph></graphml>", 2, "hyperedge"),
        ("<graphml>" + "\n<a>" * 1000, 101, "elements more than 100 deep"),
        (f"{LAT_KEY}<data key='k'>north</data></node></graph></graphml>", 2, "lat of broker 'a' is 'north'"),
        (f"{LAT_KEY}<data key='k'>nan</data></node></graph></graphml>", 2, "lat of broker 'a' is 'nan'"),
        (f"{LAT_KEY}<data key='k'>-90.1</data></node></graph></graphml>", 2, "not degrees"),
        (BOMB, 1, "refused: EntitiesForbidden"),
        (THIEF, 1, "refused: EntitiesForbidden"),
    ],
)
def test_graphml_errors_name_the_file_and_the_line(text: str, line: int, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_graphml(text, "f.graphml")
    assert str(caught.value).startswith(f"f.graphml:{line}: topology: ")
    assert words in caught.value.problem
