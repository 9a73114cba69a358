"""`latecomer overlay plan`: figure 2 of DYNATOPS for an operator, and a sentence for everything that goes wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from defusedxml.ElementTree import parse

from latecomer.cli.main import VERBS, run
from latecomer.model.positions import read_positions

Capture = pytest.CaptureFixture[str]

RING = {
    "bits": 3,
    "positions": {"A": 0, "B": 1, "E": 2, "C": 3, "G": 4, "D": 5, "H": 6, "F": 7},
    "topics": {"t1": 1, "t2": 4},
}
DEMAND = "topic,broker,rate\nt1,A,0.5\nt1,B,0.5\nt2,C,1\n"
SUBSCRIPTIONS = "broker,topic\nA,t1\nB,t1\nE,t1\nG,t1\nC,t2\nD,t2\nH,t2\nF,t2\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ring.json").write_text(json.dumps(RING))
    (tmp_path / "demand.csv").write_text(DEMAND)
    (tmp_path / "subscriptions.csv").write_text(SUBSCRIPTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def plan(*arguments: str) -> int:
    files = ["--demand", "demand.csv", "--subscriptions", "subscriptions.csv"]
    return run(VERBS, ["overlay", "plan", *files, *arguments])


def test_figure_2_as_an_operator_sees_it(here: Path, capsys: Capture) -> None:
    assert plan("--ring", "ring.json", "--out", "positions.json", "--plot", "ring.svg") == 0
    told = capsys.readouterr().out
    assert "8 brokers, 2 topics, 3,600 s; best" in told
    assert "Moving 4 brokers costs 68 messages once (eq. 11 of the paper) and saves 39,600 in the period" in told
    assert "No positions cost less than 25,200" in told
    rows = {words[0]: words for line in told.splitlines() if (words := line.split())}
    assert rows["before"][1:] == ["18,000", "25,200", "46,800", "64,800", "3", "0"]
    assert rows["after"][1:] == ["0", "21,600", "25,200", "25,200", "-61.1", "%", "2", "4"]
    assert rows["t1"][1:] == ["3,600", "4", "3", "0", "1.50", "0.75"]
    found = read_positions((here / "positions.json").read_text(), "positions.json")
    t1 = {found.positions[broker] for broker in "ABEG"}
    assert t1 == {1, 2, 3, 5}
    assert found.topics == RING["topics"]
    parse(here / "ring.svg")


def test_positions_that_were_planned_are_kept(here: Path, capsys: Capture) -> None:
    assert plan("--ring", "ring.json", "--out", "positions.json") == 0
    capsys.readouterr()
    assert plan("--ring", "positions.json", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["plan"]["moves"] == []
    assert told["plan"]["gain"] == 0
    assert told["positions"] == json.loads((here / "positions.json").read_text())


def test_a_short_period_does_not_pay(here: Path, capsys: Capture) -> None:
    assert plan("--ring", "ring.json", "--period", "1s") == 0
    told = capsys.readouterr().out
    assert "Staying is best: no other positions save more in the period than getting there costs." in told
    assert "broker  from" not in told


def test_the_greedy_of_the_paper(here: Path, capsys: Capture) -> None:
    assert plan("--ring", "ring.json", "--algorithm", "dynatops-greedy", "--json") == 0
    told = json.loads(capsys.readouterr().out)["plan"]
    rows = {row["name"]: row for row in told["rows"]}
    assert rows["after"] == rows["dynatops-greedy"] | {"name": "after"}
    assert told["bound_is"] == "optimum"
    assert told["bound"] == rows["least cost"]["cost"]


def test_without_a_ring_brokers_are_at_their_hashes(here: Path, capsys: Capture) -> None:
    assert plan("--json", "--delay-weight", "inf") == 0
    told = json.loads(capsys.readouterr().out)
    assert sorted(told["positions"]["positions"]) == list("ABCDEFGH")
    rows = {row["name"]: row for row in told["plan"]["rows"]}
    assert rows["before"] == rows["consistent hashing"] | {"name": "before"}
    assert rows["least cost"]["cost"] == rows["fewest hops"]["delay"] == told["plan"]["bound"]
    (here / "subscriptions.csv").write_text("client,broker,topic\nc,b1,t1\nd,b30,t2\n")
    (here / "demand.csv").write_text("topic,broker,rate\nt1,b2,1\nt2,b3,1\n")
    assert plan("--brokers", "30") == 0
    assert "30 brokers, 2 topics" in capsys.readouterr().out


def test_measured_delays_instead_of_hops(here: Path, capsys: Capture) -> None:
    """All delays 1 ms: the costs are those of hops. A slow broker among them is moved where little passes it."""
    brokers = list(RING["positions"])  # type: ignore[call-overload]
    pairs = [(a, b) for at, a in enumerate(brokers) for b in brokers[at + 1 :]]

    def delays(slow: str) -> str:
        rows = (f"{a},{b},{40.5 if slow in (a, b) else 1}" for a, b in pairs)
        return "\n".join(["from,to,ms", *rows, ""])

    assert plan("--ring", "ring.json", "--json") == 0
    hops = {row["name"]: row for row in json.loads(capsys.readouterr().out)["plan"]["rows"]}
    (here / "delays.csv").write_text(delays("nobody"))
    assert plan("--ring", "ring.json", "--delays", "delays.csv", "--json") == 0
    told = json.loads(capsys.readouterr().out)["plan"]
    assert (told["delay_in"], told["bound_is"]) == ("ms", "none")
    rows = {row["name"]: row for row in told["rows"]}
    assert {name: rows[name]["cost"] for name in ("before", "after")} == {
        name: hops[name]["cost"] for name in ("before", "after")
    }
    (here / "delays.csv").write_text(delays("B"))  # B is at t1's rendezvous point, so that everything of t1 passes it
    assert plan("--ring", "ring.json", "--delays", "delays.csv", "--out", "positions.json") == 0
    said = capsys.readouterr().out
    assert "delay,\n" not in said
    assert "ms" in said
    assert "is not known" in said
    assert read_positions((here / "positions.json").read_text(), "positions.json").positions["B"] != 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("from,to,ms\nA,B,x\n", "delays.csv:2: delays: 'x' is not a delay; write milliseconds"),
        ("from,to,ms\nA,B,-1\n", "delays.csv:2: delays: '-1' is not a delay"),
        ("from,to,ms\nA,X,1\n", "delays.csv:2: delays: the broker 'X' is not on the ring"),
        ("from,to,ms\nA,B,1\n", "delays.csv: delays: no delay between 'A' and 'E'; add it"),
        ("a,b\n", "the first line must be from,to,ms"),
    ],
)
def test_delays_that_cannot_be_read(text: str, told: str, here: Path, capsys: Capture) -> None:
    (here / "delays.csv").write_text(text)
    assert plan("--ring", "ring.json", "--delays", "delays.csv") == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "text", "arguments", "told"),
    [
        ("subscriptions.csv", "broker,topic\nX,t1\n", ("--ring", "ring.json"),
         "--subscriptions: the broker 'X' is not on the ring; add it or correct it"),
        ("demand.csv", "topic,broker,rate\nt1,X,1\nt2,A,1\n", ("--ring", "ring.json"),
         "--demand: the broker 'X' of 't1' is not on the ring"),
        ("demand.csv", "topic,broker,rate\n", (), "demand.csv: topics: demand without topics"),
        ("demand.csv", "topic,broker,rate\nt1,A,0\nt2,A,0\n", ("--ring", "ring.json"),
         "--demand: the demand is empty: nothing is published"),
        ("subscriptions.csv", "broker,topic\nA,t3\n", ("--ring", "ring.json"),
         "--subscriptions: the topic 't3' of 'A' has no publications; add it to the demand"),
        ("ring.json", '{"positions": {"A": 5, "B": 5}}', ("--ring", "ring.json"),
         "ring.json: positions: 'A' and 'B' are both at 5; give each broker its own"),
        ("ring.json", '{"positions": {"A": 5}}', ("--ring", "ring.json"),
         "ring.json: positions: a ring of 1: there is nothing to arrange"),
        ("ring.json", '{"positions": {"A": 9, "B": 1}, "bits": 3}', ("--ring", "ring.json"),
         "ring.json: positions: 9 is not on a ring of 3 bits; positions are from 0 to 7"),
        ("ring.json", '{"positions": {"A": 1, "B": 2}, "topics": {"t1": -1}}', ("--ring", "ring.json"),
         "ring.json: topics.t1: -1 is not on a ring of 32 bits"),
        ("ring.json", "[]", ("--ring", "ring.json"), "ring.json: ring: not a ring"),
        ("ring.json", "", ("--ring", "ring.json"), "ring.json: ring: not a ring: Input data was truncated"),
        ("ring.json", '{"positions": {}}', ("--ring", "ring.json"), "positions: a ring of 0: there is nothing to"),
        ("ring.json", '{"positions": {"A": 1, "A": 2, "B": 3}}', ("--ring", "ring.json"),
         "ring.json: ring: 'A' is named twice; name it once"),
        ("ring.json", '{"positions": {"A": 0, "B": 1}, "bits": 0}', ("--ring", "ring.json"),
         "ring.json: bits: 0 bits; a ring has from 1 to 62"),
        ("ring.json", json.dumps(RING | {"topics": {"t9": 1}}), ("--ring", "ring.json"),
         "--ring: the topic 't9' has a point on the ring, but no publications"),
        ("subscriptions.csv", "broker,topic\nA\n", (), "subscriptions.csv:2: 1 columns"),
        ("subscriptions.csv", "who,what\n", (), "the first line must be client,broker,topic or broker,topic"),
        ("subscriptions.csv", "broker,topic\n", (), "nobody subscribes to anything"),
        ("subscriptions.csv", "broker,topic\n,t1\n", (), "subscriptions.csv:2: the broker is empty"),
        ("subscriptions.csv", "broker,topic\nA,t1\n", ("--brokers", "1"), "--brokers: a ring of 1"),
        ("subscriptions.csv", "broker,topic\nA,t1\n", ("--brokers", "4"), "the broker 'A' of 't1' is not on the ring"),
        ("demand.csv", DEMAND, ("--ring", "ring.json", "--brokers", "4"), "name one of them"),
        ("demand.csv", DEMAND, ("--ring", "nowhere.json"), "--ring: 'nowhere.json' cannot be read"),
        ("demand.csv", DEMAND, ("--period", "0s"), "--period: must be longer than nothing"),
        ("demand.csv", DEMAND, ("--period", "soon"), "--period: 'soon' is not a duration"),
        ("demand.csv", DEMAND, ("--delay-weight", "-1"), "--delay-weight: -1.0; it must not be negative"),
        ("demand.csv", DEMAND, ("--delay-weight", "nan"), "--delay-weight: nan; it must not be negative"),
        ("demand.csv", DEMAND, ("--delay-weight", "1e300"), "--delay-weight: 1e+300 is more than 1,000,000; write inf"),
        ("demand.csv", DEMAND, ("--plot", "ring.txt"), "--plot: 'ring.txt' must end in"),
        ("demand.csv", DEMAND, ("--from-log", "log"), "leave out --demand and --subscriptions"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_is_told_in_a_sentence(
    file: str, text: str, arguments: tuple[str, ...], told: str, here: Path, capsys: Capture
) -> None:
    (here / file).write_text(text)
    assert plan(*arguments) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_one_broker_alone_has_no_ring(here: Path, capsys: Capture) -> None:
    (here / "demand.csv").write_text("topic,broker,rate\nt1,A,1\n")
    (here / "subscriptions.csv").write_text("broker,topic\nA,t1\n")
    assert plan() == 2
    assert "a ring of 1: there is nothing to arrange; name more brokers" in capsys.readouterr().err


def test_nothing_named(here: Path, capsys: Capture) -> None:
    assert run(VERBS, ["overlay", "plan"]) == 2
    assert "--demand: say how often topics are published" in capsys.readouterr().err
    assert run(VERBS, ["overlay", "plan", "--demand", "demand.csv"]) == 2
    assert "--subscriptions: say who wants what" in capsys.readouterr().err


def test_the_guide_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(root / "examples")
    monkeypatch.setenv("COLUMNS", "80")
    text = (root / "docs" / "guide" / "overlay.md").read_text(encoding="utf-8")
    command, _, shown = text.partition("$ latecomer ")[2].partition("```")[0].partition("\n")
    assert run(VERBS, command.split()) == 0
    said = capsys.readouterr().out
    assert [line.strip() for line in said.splitlines() if line.strip()] == [
        line.strip() for line in shown.splitlines() if line.strip()
    ]
