"""`--plot`: a picture is made, it is the same every time, and brokers stand where they can be told apart."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from defusedxml.ElementTree import parse

from latecomer.cli.main import VERBS, run
from latecomer.cli.plan_plot import serving_regions
from latecomer.cli.plan_plot_layout import APART, layout
from latecomer.model.topology import Link, Node, Topology
from latecomer.model.topology_generators import grid, line, ring, star, tree
from latecomer.planner.legality import Placement
from latecomer.planner.problem import Problem

Capture = pytest.CaptureFixture[str]

LOCATED = [("London", 51.5, -0.1), ("Paris", 48.9, 2.4), ("Berlin", 52.5, 13.4), ("Rome", 41.9, 12.5)]


def places(topology: Topology) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return layout(topology, np.array(topology.hop_matrix()))


def europe(*, unknown: int = 0) -> Topology:
    nodes = [Node(name, name, lat, lon) for name, lat, lon in LOCATED] + [Node(f"x{i}") for i in range(unknown)]
    links = [Link(a.id, b.id) for a, b in pairwise(nodes)]
    return Topology("europe", tuple(nodes), tuple(links))


# --- where brokers stand ---


@pytest.mark.parametrize("network", [line(1), line(2), line(7), ring(9), star(12), tree(31, 2), grid(5, 4), europe()])
def test_no_two_brokers_cover_each_other(network: Topology) -> None:
    points = places(network)
    assert points.shape == (len(network.nodes), 2)
    assert np.isfinite(points).all()
    assert np.array_equal(points, places(network))
    least = min(APART, 0.6 / math.sqrt(len(points)))
    for i in range(len(points)):
        for j in range(i):
            assert math.dist(points[i], points[j]) > 0.9 * least


def test_neighbours_stand_nearer_than_strangers() -> None:
    points = places(line(7))
    steps = [math.dist(points[i], points[i + 1]) for i in range(6)]
    assert max(steps) < 0.5 * math.dist(points[0], points[6])


def test_a_map_has_the_north_on_top_and_the_east_to_the_right() -> None:
    london, paris, berlin, rome = places(europe())
    assert london[0] < paris[0] < berlin[0]
    assert rome[1] < paris[1] < berlin[1]


def test_who_has_no_coordinates_stands_among_its_nearest() -> None:
    points = places(europe(unknown=2))
    rome = points[3]
    assert math.dist(points[4], rome) < 0.2
    unlocated = places(europe(unknown=9))  # too few coordinates for a map
    assert np.isfinite(unlocated).all()


# --- who serves whom ---


def test_the_colour_is_that_of_who_serves_most() -> None:
    distance = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    problem = Problem.small(distance, [[0, 3, 1, 0], [0, 1, 3, 0]], 2, 2, 1)
    regions, shares = serving_regions(problem, Placement((0, 3), ((0,), (3,))))
    assert regions.tolist() == [-1, 0, 3, -1]
    assert shares.tolist() == [0.0, 0.75, 0.75, 0.0]


# --- the file ---


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    network = tmp_path / "net.jsonl"
    nodes = [{"id": name, "label": f"{name} $x$ \\frac", "lat": lat, "lon": lon} for name, lat, lon in LOCATED]
    links = [{"source": a[0], "target": b[0]} for a, b in pairwise(LOCATED)]
    network.write_text(json.dumps({"name": "a $net$ work_of^4", "nodes": nodes, "links": links}))
    demand = tmp_path / "demand.json"
    demand.write_text(json.dumps({"rates": {"x$_{": {"London": 3, "Rome": 1}, "y": {"Berlin": 2}}}))
    return ["plan", "--topology", str(network), "--demand", str(demand), "--stores", "2", "--capacity", "1"]


@pytest.mark.parametrize(("suffix", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_picture_is_made_by_its_suffix(arguments: list[str], tmp_path: Path, suffix: str, begins: bytes) -> None:
    files = [tmp_path / f"{name}.{suffix}" for name in ("one", "two")]
    for file in files:
        assert run(VERBS, [*arguments, "--plot", str(file)]) == 0
    assert files[0].read_bytes().startswith(begins)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert list(tmp_path.glob("*.part")) == []


def test_the_picture_names_stores_and_topics(arguments: list[str], tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "plan.svg"
    assert run(VERBS, [*arguments, "--plot", str(file)]) == 0
    assert f"The picture is in {file}." in capsys.readouterr().out.replace("\n", "")
    words = " ".join(element.text or "" for element in parse(file).iter() if element.tag.endswith("text"))
    for word in ("London", "Berlin", "a $net$ work_of^4", "2 stores by best", "area: demand, up to 3/s", "x$_{"):
        assert word in words


def test_a_folder_that_is_not_there(arguments: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert run(VERBS, [*arguments, "--plot", str(tmp_path / "no" / "plan.svg")]) == 2
    assert "--plot: " in (shown := capsys.readouterr().err)
    assert "cannot be written: No such file or directory" in shown
