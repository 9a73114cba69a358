"""When it pays to send a session ahead: counted by hand on a tree of eight places."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from latecomer.cli.main import run
from latecomer.cli.reproduce import reproduce
from latecomer.experiments.mobility.payoff import Line, Predicted, geographic, in_vain, payoff
from latecomer.experiments.mobility.payoff_page import page, write_payoff

VERBS = [("reproduce", reproduce), ("other", lambda: None)]
PLACES = {
    f"{corner}{number}": (lat + number / 10, lon + number / 10)
    for corner, (lat, lon) in {"sw": (0.0, 0.0), "se": (0.0, 9.0), "nw": (9.0, 0.0), "ne": (9.0, 9.0)}.items()
    for number in (1, 2)
}
"""Two in each corner: brokers with the same one above them are 2 hops apart, all others 4."""


def test_brokers_stand_in_a_tree_made_from_where_places_are() -> None:
    tree, numbers = geographic(PLACES)
    assert sorted(numbers) == sorted(PLACES)
    assert set(numbers.values()) == set(tree.leaves)
    assert {tree.depths[number] for number in numbers.values()} == {2}
    near, far = (int(tree.hops[numbers[a], numbers[b]]) for a, b in (("nw1", "nw2"), ("sw1", "ne1")))
    assert (near, far) == (2, 4)
    few, numbers = geographic({"a": (0.0, 0.0), "b": (1.0, 0.0)})
    assert few.parents == (0, 0, 0)
    assert numbers == {"a": 1, "b": 2}


def test_many_places_make_a_tree_of_degree_four() -> None:
    places = {f"{a},{b}": (float(a), float(b)) for a in range(10) for b in range(10)}
    tree, numbers = geographic(places)
    assert len(numbers) == 100
    children = [tree.parents.count(broker) for broker in range(len(tree.parents))]
    assert max(children[1:]) <= 4
    assert max(tree.depths) <= 5
    assert tree.hops[numbers["0,0"], numbers["0,1"]] < tree.hops[numbers["0,0"], numbers["9,9"]]


def test_a_guess_pays_from_so_many_events_on() -> None:
    """Two moves of 4 hops, one guessed rightly. Standard: 4 + 4 + 4 + 2 + 2 hops, and 4 an event. A wrong guess costs
    all of that twice, and its events travel as far; so each event costs 2 on average."""
    moves = [Predicted("sw1", "ne1", ("ne1",), 1), Predicted("sw1", "ne1", ("nw1",), 1)]
    found = payoff("two", moves, PLACES, 30.0)
    assert found.standard == Line(fixed=16.0, each=4.0)
    assert found.ahead[1] == Line(fixed=24.0, each=2.0)
    assert found.ahead[1].pays_from(found.standard) == 4.0
    assert found.right[1] == 50.0
    assert found.moves == 2


def test_lines_that_never_meet() -> None:
    assert Line(fixed=2, each=1).pays_from(Line(fixed=1, each=1)) == inf
    assert Line(fixed=1, each=1).pays_from(Line(fixed=1, each=1)) == 0.0
    assert Line(fixed=1, each=2).pays_from(Line(fixed=1, each=1)) == inf
    assert Line(fixed=3, each=1).pays_from(Line(fixed=1, each=2)) == 2.0


def test_brokers_that_wait_in_vain_cost_the_multicast_something() -> None:
    tree, numbers = geographic(PLACES)
    moves = [Predicted("sw1", "ne1", ("ne1", "nw1"), 3)]
    assert in_vain(tree, numbers, moves, 1) == 0.0
    assert in_vain(tree, numbers, moves, 2) == 4.0, "two leaves and the brokers above them"


def test_the_page_answers_the_question(tmp_path: Path) -> None:
    moves = [Predicted("sw1", "ne1", ("ne1", "nw1", "se1"), 60), Predicted("sw1", "ne1", ("nw1", "ne1", "se1"), 40)]
    found = payoff("Eight places", moves, PLACES, 30.0)
    text = write_payoff([found], tmp_path).read_text(encoding="utf-8")
    assert text == "\n".join(page([found])) + "\n"
    assert "| Eight places | 100 | 8 | 30 min | 60.0 % | 100.0 % | 100.0 % |" in text
    assert "When does it pay?" in text


def test_what_never_pays_is_said_so() -> None:
    moves = [Predicted("sw1", "ne1", ("nw1", "se1", "sw2"), 1)]
    text = "\n".join(page([payoff("All wrong", moves, PLACES, 5000.0)]))
    assert "Sent ahead to one destination it never pays" in text
    assert "| 3 days |" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["S1", "--data", "."], "--data: real movements belong to the paper mobility"),
        (["M15", "--jobs", "1", "--data", "."], "--data: movements are learned on Spark: leave out --jobs 1"),
        (["M15", "--data", "nowhere"], "--data: nowhere has none of foursquare_us_checkins.parquet"),
    ],
)
def test_what_cannot_be_asked_of_movements_is_told(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(VERBS, ["reproduce", *arguments]) == 2
    assert sentence in capsys.readouterr().err
