"""`latecomer plan`: what the operator reads, what a program reads, and one sentence for everything that goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from latecomer.cli.main import VERBS, run
from latecomer.cli.plan_files import read_network_words
from latecomer.cli.plan_work import known_algorithms
from latecomer.model.errors import SettingsError
from latecomer.model.plan import read_plan

Capture = pytest.CaptureFixture[str]

DEMAND = """\
topic,broker,rate
a,1,1
a,2,2
a,3,6
a,6,8
b,1,9
b,4,8
b,5,6
b,6,4
c,4,3
c,5,3
"""
"""17, 27 and 6 requests per second, as in the worked example of planning §5.4."""
SIZED = {
    "rates": {"a": {"1": 1, "2": 2, "3": 6, "6": 8}, "b": {"1": 9, "4": 8, "5": 6, "6": 4}, "c": {"4": 3, "5": 3}},
    "sizes": {"a": 2_000_000, "b": 3_000_000, "c": 1_500_000},
}


@pytest.fixture
def demand(tmp_path: Path) -> Path:
    file = tmp_path / "demand.csv"
    file.write_text(DEMAND)
    return file


@pytest.fixture
def sized(tmp_path: Path) -> Path:
    file = tmp_path / "sized.json"
    file.write_text(json.dumps(SIZED))
    return file


def plan(demand: Path, *arguments: str, topology: str = "walkthrough") -> int:
    return run(VERBS, ["plan", "--topology", topology, "--demand", str(demand), *arguments])


def paper(demand: Path, *arguments: str) -> int:
    return plan(demand, "--stores", "3", "--capacity", "2", "--min-replicas", "2", *arguments)


# --- what is printed ---


def test_a_plan_is_explained(demand: Path, capsys: Capture) -> None:
    assert paper(demand) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    lines = shown.out.splitlines()
    assert lines[0] == "walkthrough: 6 brokers, 3 topics, 50 requests/s; 3 stores by best"
    assert lines[-1] == "No plan with at most 3 stores of 2 topics and these replica counts costs less."
    first = [line.split()[0] for line in lines if line.strip()]
    for word in ("store", "topic", "algorithm", "rnd", "seq", "wrr", "grd_opt", "best", "lower"):
        assert word in first
    best = next(line.split() for line in lines if line.startswith("  best "))
    assert best == ["best", "3", "0.760", "38.00", "0.0", "%"]
    assert "  If 3 fails, the worst loss: mean distance 1.840 hops (now 0.760)." in lines


def test_every_algorithm_gives_a_plan_no_better_than_the_bound(demand: Path, capsys: Capture) -> None:
    for algorithm in known_algorithms():
        assert paper(demand, "--algorithm", algorithm, "--json") == 0
        found = read_plan(capsys.readouterr().out, "output")
        assert found.algorithm == found.prediction.algorithm == algorithm
        assert algorithm not in [other.algorithm for other in found.others]
        if algorithm == "grd_opt":
            assert (found.prediction.bound, found.prediction.gap) == (None, None)
        else:
            assert found.prediction.bound is not None
            assert found.prediction.bound <= found.prediction.cost
            assert len(found.stores) <= 3
            assert all(len(places) == 2 for places in found.replicas.values())


def test_the_plan_as_json_and_as_a_file_are_the_same(demand: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "plan.json"
    assert paper(demand, "--json", "--out", str(out)) == 0
    printed = capsys.readouterr().out
    assert printed == out.read_text()
    found = read_plan(printed, "output")
    assert found.topology == "walkthrough"
    assert (found.limits.stores, found.limits.capacity, found.limits.min_replicas) == (3, 2, 2)
    assert (found.prediction.optimal, found.prediction.gap, found.prediction.rate) == (True, 0.0, 50.0)
    assert found.demand is not None
    assert found.demand.rate("b") == 27.0
    assert [other.algorithm for other in found.others] == ["rnd", "seq", "wrr", "grd_opt"]
    assert list(tmp_path.glob("*.part")) == []


def test_the_same_plan_every_time(demand: Path, capsys: Capture) -> None:
    shown = []
    for _ in range(2):
        assert paper(demand, "--json") == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_each_refusal_names_the_limit_in_the_way(sized: Path, tmp_path: Path, capsys: Capture) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text(
        'stores = 2\ncapacity_bytes = "5MB"\nbarred = ["4"]\npinned_stores = ["2"]\n[pinned_topics]\nb = ["2"]\n'
    )
    assert plan(sized, "--limits", str(limits), "--algorithm", "wrr", "--json") == 0
    refusals = read_plan(capsys.readouterr().out, "output").refusals
    assert refusals
    for text in refusals:
        assert text.startswith("A copy of '")
        assert " would save " in text
    assert any(text.endswith(", but all 2 stores are used elsewhere.") for text in refusals)


def test_a_full_store_says_by_how_much(tmp_path: Path, capsys: Capture) -> None:
    """Both topics want to be at 2; only one fits, and the other goes next to it."""
    file = tmp_path / "demand.csv"
    file.write_text("topic,broker,rate\nx,2,9\ny,2,8\n")
    limits = tmp_path / "limits.toml"
    limits.write_text('stores = 2\ncapacity = 1\npinned_stores = ["2", "3"]\n[replicas]\nx = 1\ny = 1\n')
    assert plan(file, "--limits", str(limits)) == 0
    shown = capsys.readouterr().out
    assert "A copy of 'y' at 2 instead of 3 would save 8 requests·hops/s, but 2 is full by 1 topic." in shown


def test_latency_is_told_in_milliseconds(demand: Path, capsys: Capture) -> None:
    assert paper(demand, "--distance", "latency") == 0
    shown = capsys.readouterr().out
    assert "mean ms" in shown
    assert "0.760" in shown  # links of one millisecond each: as many as hops


def test_a_plan_may_be_made_for_the_loss_of_a_store(demand: Path, capsys: Capture) -> None:
    worst = []
    for option in ((), ("--survive-loss",)):
        assert plan(demand, "--stores", "4", "--capacity", "2", "--min-replicas", "2", *option, "--json") == 0
        found = read_plan(capsys.readouterr().out, "output").prediction
        assert found.loss_cost is not None
        worst.append((found.loss_unserved, found.loss_cost))
    assert worst[1] <= worst[0]
    assert worst[1][0] == 0.0


def test_who_survives_needs_two_replicas_of_everything(demand: Path, capsys: Capture) -> None:
    assert plan(demand, "--stores", "3", "--capacity", "2", "--survive-loss", "--json") == 0
    found = read_plan(capsys.readouterr().out, "output")
    assert all(len(places) == 2 for places in found.replicas.values())
    assert plan(demand, "--stores", "2", "--capacity", "2", "--survive-loss") == 2
    assert "2 more than the largest 2 stores hold" in capsys.readouterr().err


@pytest.mark.parametrize("order", ["hops,stores,balance", "stores,hops", "balance,hops", "worst-loss,stores"])
def test_objectives_in_a_stated_order(demand: Path, tmp_path: Path, capsys: Capture, order: str) -> None:
    first, *_ = order.split(",")
    limits = tmp_path / "limits.json"
    limits.write_text(json.dumps({"stores": 4, "capacity": 3, "objectives": order.split(",")}))
    assert plan(demand, "--limits", str(limits), "--json") == 0
    found = read_plan(capsys.readouterr().out, "output")
    limits.write_text(json.dumps({"stores": 4, "capacity": 3}))
    assert plan(demand, "--limits", str(limits), "--json") == 0
    usual = read_plan(capsys.readouterr().out, "output")
    if first == "hops":
        assert found.prediction.cost == usual.prediction.cost
    if "stores" in order:
        assert found.prediction.stores <= usual.prediction.stores
    assert all(found.replicas.values())


def test_the_bound_says_when_it_is_blind(demand: Path, tmp_path: Path, capsys: Capture) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text('stores = 3\ncapacity = 2\nmin_replicas = 2\nrequest_rate = 30.0\n[domains]\n5 = "x"\n6 = "x"\n')
    assert plan(demand, "--limits", str(limits), "--json") == 0
    found = read_plan(capsys.readouterr().out, "output")
    assert found.notes[-1].startswith("The bound knows nothing of request rates")
    assert all(not {"5", "6"} <= set(places) for places in found.replicas.values())


def test_names_from_outside_cannot_play_with_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "demand.json"
    file.write_text(json.dumps({"rates": {"[bold]x\x1b[31m": {"1": 1}, "y": {"4": 2}}}))
    assert plan(file, "--stores", "1") == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "[bold]x" in shown


# --- what cannot be done ---


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--stores", "1", "--capacity", "2"], "1 more than the largest 1 stores hold"),
        (["--stores", "9"], "9 stores are 3 more than the 6 brokers that may have one"),
        (["--stores", "2", "--min-replicas", "3"], "shall have 3 replicas, 1 more than there are stores"),
    ],
)
def test_what_cannot_be_says_which_limit_and_by_how_much(
    demand: Path, capsys: Capture, arguments: list[str], sentence: str
) -> None:
    assert plan(demand, *arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("latecomer: limits: ")
    assert sentence in shown.err
    assert shown.err.count("\n") == 1


def test_an_algorithm_that_finds_no_plan_says_that_it_was_the_one(tmp_path: Path, capsys: Capture) -> None:
    """Two stores of 14: 7, 7 and 6, 4, 2, 2. The walk takes 7 and 6 first, and one exchange does not help."""
    file, limits = tmp_path / "demand.json", tmp_path / "limits.json"
    asked = {"t0": {"4": 6}, "t1": {"3": 5}, "t2": {"3": 4}, "t3": {"3": 3}, "t4": {"2": 2}, "t5": {"6": 1}}
    sizes = dict(zip(asked, (7, 6, 7, 4, 2, 2), strict=True))
    file.write_text(json.dumps({"rates": asked, "sizes": sizes}))
    limits.write_text(json.dumps({"stores": 2, "capacity_bytes": 14, "replicas": dict.fromkeys(asked, 1)}))
    assert plan(file, "--limits", str(limits), "--algorithm", "wrr") == 2
    shown = capsys.readouterr().err
    assert shown.startswith("latecomer: limits: wrr found no plan within the limits: topic '")
    assert shown.endswith("; --algorithm best looks further\n")
    assert plan(file, "--limits", str(limits), "--algorithm", "best") == 0


def test_options_come_before_the_file_even_if_they_are_zero(demand: Path, tmp_path: Path, capsys: Capture) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("stores = 4\ncapacity = 2\nmin_replicas = 1\n")
    assert plan(demand, "--limits", str(limits), "--stores", "0", "--capacity", "3", "--json") == 0
    found = read_plan(capsys.readouterr().out, "output")
    assert (found.limits.stores, found.limits.capacity, found.limits.min_replicas) == (0, 3, 1)


def test_what_cannot_be_written_leaves_nothing(demand: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "folder.svg"
    folder.mkdir()
    for option in ("--out", "--plot"):
        assert paper(demand, option, str(folder)) == 2
        assert f"{option}: '{folder}' cannot be written: " in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demand.csv", "folder.svg"]


def test_help_names_every_algorithm(capsys: Capture) -> None:
    assert run(VERBS, ["plan", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in known_algorithms())


def test_publications_weigh_the_votes_if_asked(tmp_path: Path, capsys: Capture) -> None:
    """Two who ask alike; seen from where publications enter, the other end has all to gain."""
    file, limits = tmp_path / "demand.json", tmp_path / "limits.toml"
    file.write_text(json.dumps({"rates": {"a": {"1": 1, "6": 1}}, "publications": {"a": {"1": 5}}}))
    stores = []
    for entry in ("uniform", "published"):
        limits.write_text(f'stores = 1\nentry = "{entry}"\n')
        assert plan(file, "--limits", str(limits), "--algorithm", "wrr", "--json") == 0
        stores.append(read_plan(capsys.readouterr().out, "output").stores)
    assert stores[1] == ("6",)
    assert stores[0] != stores[1]


def test_many_reasons_are_not_a_page(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "demand.json"
    topics = [f"t{number}" for number in range(50)]
    rates = {topic: {"1": 1} for topic in topics}
    file.write_text(json.dumps({"rates": rates, "sizes": dict.fromkeys(topics, 100)}))
    assert plan(file, "--stores", "1", "--capacity", "10B") == 2
    shown = capsys.readouterr().err
    assert "(and 48 more reasons)" in shown
    assert len(shown) < 600


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--stores", "-1"], "--stores: -1 is not possible; it must be at least 0"),
        (["--capacity", "many"], "--capacity: 'many' is not a capacity; write topics, as in 5, or bytes, as in 20GB"),
        (["--capacity", "1MB"], "sizes: a capacity in bytes needs the size of every topic; 'a' has none"),
        (["--algorithm", "bset"], "--algorithm: there is no 'bset'; did you mean 'best'?"),
        (["--distance", "miles"], "--distance: 'miles' is not one of 'hops', 'latency'"),
        (["--replicas", "many"], "--replicas: 'many' is not one of 'free', 'weight'"),
        (["--replicas", "free"], "--replicas: free counts need a number of stores to share; give --stores"),
        (["--plot", "picture.gif"], "--plot: 'picture.gif' must end in .svg, .png or .pdf"),
        (["--limits", "nowhere.toml"], "--limits: 'nowhere.toml' cannot be read: No such file or directory"),
        (["--out", "."], "--out: '.' is a folder; name a file in it"),
        (["--out", "nowhere/plan.json"], "--out: 'nowhere/plan.json' cannot be written: No such file or directory"),
    ],
)
def test_wrong_options(demand: Path, capsys: Capture, arguments: list[str], sentence: str) -> None:
    assert plan(demand, *arguments) == 2
    shown = capsys.readouterr().err
    assert sentence in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "topics: demand without topics"),
        ("topic,broker,rate\n", "topics: demand without topics"),
        ("topic,broker,rate\na,1,-1\n", "rates.a.1: a rate of -1.0; it must be from 0"),
        ("topic,broker,rate\na,1,nan\n", "rates.a.1: a rate of nan; it must be from 0"),
        ("topic,broker,rate\na,1,fast\n", "demand: 'fast' is not a rate"),
        ("topic,broker,rate\na,1\n", "2 columns instead of topic,broker,rate"),
        ("topic,broker,rate\na,moon,1\n", "rates.a: there is no broker 'moon' in the network"),
        ('{"rates": {"a": {"moon": 1}}}', "rates.a: there is no broker 'moon' in the network"),
        ('{"rates": {"a": {"1": 1}', "demand: not a demand: "),
        ('{"rates": {"a": {"1": NaN}}}', "demand: not a demand: "),
        ('{"rates": {"a": {"1": 1}}, "size": {}}', "demand: not a demand: "),
        ('{"rates": {"a": {"1": 1e12}}}', "rates.a.1: a rate of 1000000000000.0"),
        ("\x00\x01", "demand"),
    ],
)
def test_bad_demand_is_one_sentence_with_the_file(tmp_path: Path, capsys: Capture, text: str, sentence: str) -> None:
    file = tmp_path / "demand.txt"
    file.write_text(text)
    assert plan(file, "--stores", "1") == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"latecomer: {file}:")
    assert sentence in shown
    assert shown.count("\n") == 1


def test_demand_that_is_no_text(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "demand.csv"
    file.write_bytes(b"\xff\xfe\x80")
    assert plan(file) == 2
    assert "is not UTF-8 text" in capsys.readouterr().err
    assert plan(tmp_path / "nowhere.csv") == 2
    assert "cannot be read: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("limits.toml", "store = 3\n", "limits.toml:1: store: a limits file has no such key; did you mean 'stores'?"),
        ("limits.toml", 'stores = "three"\n', "limits.toml:1: stores: must be a whole number, not text"),
        ("limits.toml", 'capacity_bytes = "lots"\n', "limits.toml:1: capacity_bytes: 'lots' is not a size"),
        ("limits.toml", "request_rate = nan\n", "limits.toml:1: request_rate: "),
        ("limits.toml", "request_rate = -1.0\n", "limits.toml: request_rate: -1.0 is not possible"),
        ("limits.toml", 'barred = ["moon"]\n', "limits.toml: barred: there is no broker 'moon' in the network"),
        ("limits.toml", "[replicas]\nzzz = 2\n", "limits.toml: replicas.zzz: there is no topic 'zzz' in the demand"),
        ("limits.toml", 'objectives = ["speed"]\n', "limits.toml:1: objectives"),
        ("limits.toml", 'objectives = ["hops", "hops"]\n', "limits.toml: objectives: an objective is named twice"),
        ("limits.toml", "stores = \n", "limits.toml:1: not TOML"),
        ("limits.json", '{"stores": ', "limits.json: limits: not limits: "),
        ("limits.json", '{"store": 3}', "limits.json: limits: not limits: "),
        ("limits.json", '{"capacities_bytes": {"1": "x"}}', "limits.json: capacities_bytes.1: "),
    ],
)
def test_bad_limits(demand: Path, tmp_path: Path, capsys: Capture, name: str, text: str, sentence: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert plan(demand, "--limits", str(file)) == 2
    shown = capsys.readouterr().err
    assert sentence in shown
    assert shown.count("\n") == 1


# --- networks ---


@pytest.mark.parametrize(
    ("words", "brokers", "links"),
    [
        ("walkthrough", 6, 5),
        ("tree:15", 15, 14),
        ("tree:15,3", 15, 14),
        ("tree:degree=3,brokers=13", 13, 12),
        ("grid:3,4", 12, 17),
        ("random:10,4,seed=7", 10, 13),
        ("hierarchy", 85, 84),
    ],
)
def test_networks_by_rule(words: str, brokers: int, links: int) -> None:
    network = read_network_words(words)
    assert (len(network.nodes), len(network.links)) == (brokers, links)
    assert read_network_words(words) == network


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("moon", "'moon' is neither a file (.jsonl, .graphml, .toml) nor a network by rule"),
        ("tree", "tree: missing required field 'brokers'"),
        ("tree:many", "tree: brokers must be a whole number, not 'many'"),
        ("tree:4,leaves=2", "tree: contains unknown field 'leaves'"),
        ("tree:4,2,1", "tree takes brokers and degree, so what is '1'?"),
        ("ring:2", "ring: n: must be from 3 to 100000, not 2"),
        ("line:90000", "90,000 brokers are more than the 20,000 that a plan can have"),
        ("nowhere.jsonl", "'nowhere.jsonl' cannot be read: No such file or directory"),
    ],
)
def test_wrong_networks(words: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_network_words(words)
    assert str(caught.value).startswith("--topology: ")
    assert sentence in str(caught.value)


def test_networks_from_files(demand: Path, tmp_path: Path, capsys: Capture) -> None:
    nodes = [{"id": str(i)} for i in range(1, 7)]
    links = [{"source": i, "target": i + 1} for i in range(1, 6)]
    lines = [{"name": name, "nodes": nodes, "links": links} for name in ("one", "two")]
    file = tmp_path / "some.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    assert plan(demand, "--stores", "2", topology=f"{file}:two") == 0
    assert f"{file}:two: 6 brokers" in capsys.readouterr().out.replace("\n", "")
    assert plan(demand, topology=str(file)) == 2
    assert f"holds 2 networks; say which, as in {file}:NAME" in capsys.readouterr().err
    assert plan(demand, topology=f"{file}:tow") == 2
    assert "did you mean 'two'" in capsys.readouterr().err
    seats = "".join(f'[[brokers]]\nid = "{i}"\n' for i in range(1, 7))
    pairs = "".join(f'[[links]]\na = "{i}"\nb = "{i + 1}"\n' for i in range(1, 6))
    network = tmp_path / "network.toml"
    network.write_text(seats + pairs)
    assert plan(demand, "--stores", "2", topology=str(network)) == 0


def test_a_network_in_parts_has_no_plan(demand: Path, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "parts.jsonl"
    file.write_text(json.dumps({"name": "parts", "nodes": [{"id": str(i)} for i in range(1, 7)], "links": []}))
    assert plan(demand, topology=str(file)) == 2
    assert "is not connected" in capsys.readouterr().err


# --- the process ---


def test_without_the_extra_a_sentence_says_what_to_install(demand: Path) -> None:
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('numpy', 'numba'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from latecomer.cli.main import main\n"
        "main()\n"
    )
    arguments = ["plan", "--topology", "walkthrough", "--demand", str(demand), "--stores", "2"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "latecomer: numpy is missing; run in the folder of the sources: pip install -e '.[plan]'\n"
    arguments = ["plan", "--help"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0


def test_ctrl_c_ends_with_a_sentence_and_leaves_no_file(tmp_path: Path) -> None:
    """Planning goes on until it is interrupted. An interrupt that comes while numba is called back by its compiler is
    lost, and whoever waits presses the keys again."""
    file = tmp_path / "demand.json"
    rates = {f"t{t}": {f"b{b}": 1 + (t * b) % 7 for b in range(1, 40)} for t in range(4)}
    file.write_text(json.dumps({"rates": rates}))
    out = tmp_path / "plan.json"
    words = [
        "plan",
        "--topology",
        "random:40,30",
        "--demand",
        str(file),
        "--stores",
        "5",
        "--capacity",
        "9",
        "--out",
        str(out),
    ]
    code = (
        "import sys, latecomer.cli.plan_work as work\n"
        "from latecomer.cli.main import main\n"
        "first = work.make_plan\n"
        "def telling(*given):\n"
        "    print('begun', flush=True)\n"
        "    while True: first(*given)\n"
        "work.make_plan = telling\n"
        "main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        err = None
        while err is None:
            os.kill(process.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "latecomer: interrupted\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demand.json"]
