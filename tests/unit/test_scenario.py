"""Scenario files: what is right is understood, and every mistake is one sentence with the key and the line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from latecomer.core.routing import Hierarchy
from latecomer.model.errors import SettingsError
from latecomer.model.toml_lines import find_lines
from latecomer.model.toml_text import SIZE_MAX
from latecomer.sim.durations import read_duration, show_duration
from latecomer.sim.scenario import Crash, Publish
from latecomer.sim.scenario_check import Prepared, load, loads

ROOT = Path(__file__).parents[2]

GOOD = """\
name = "good"
duration = "5s"

[topology]
kind = "walkthrough"
latency = "2ms"

[routing]
kind = "forwarding"

[settings]
heartbeat = "250ms"
link_max = 100

[[client]]
id = "A"
broker = "6"
subscribe = [
  "a/#",
  'shop ? brand = "IBM" and price <= 1600',
]

[[client]]
id = "P"
broker = "1"

[[workload]]
publishers = ["P"]
topics = ["a/b", "a/c"]
rate = 5

[[step]]
at = "1s"
client = "P"
publish = { topic = "a/b", attributes = { x = 1 }, payload = "hello", count = 2 }

[[step]]
at = "2s"
client = "A"
leave = true

[[fault]]
at = "2s"
kind = "break"
link = ["3", "4"]
for = "1s"

[[fault]]
at = "3s"
kind = "crash"
broker = "6"
for = "1s"
"""


def read(text: str) -> Prepared:
    return loads(text, "s.toml", Path(__file__).parent)


def complaint(text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        read(text)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_a_scenario_says_what_it_says() -> None:
    prepared = read(GOOD)
    scenario = prepared.scenario
    assert (scenario.name, scenario.duration, prepared.topology.name) == ("good", 5_000_000, "walkthrough")
    assert {link.latency_us for link in prepared.topology.links} == {2000}
    assert (prepared.settings.heartbeat_us, prepared.settings.link_max) == (250_000, 100)
    assert scenario.step[0].publish == Publish(topic="a/b", attributes={"x": 1}, payload="hello", count=2)
    assert scenario.fault[1] == Crash(
        at=read_duration("3s"), broker="6", duration=read_duration("1s"), keeps_disk=True, silently=False
    )
    assert prepared.dead_at_the_end() == ()


def test_a_seed_can_be_replaced_and_the_name_is_the_files() -> None:
    prepared = loads('topology = {kind = "ring", brokers = 3}', "x", Path(), 99, name="ring")
    assert (prepared.scenario.seed, prepared.scenario.name) == (99, "ring")


def test_hierarchical_routing_takes_the_root_of_the_topology() -> None:
    prepared = read('[topology]\nkind = "hierarchy"\nbrokers = 21\n[routing]\nkind = "hierarchy"')
    assert prepared.settings.routing == Hierarchy(root="b1")


def test_a_random_network_follows_from_the_seed_or_from_its_own() -> None:
    text = 'seed = {}\n[topology]\nkind = "random"\nbrokers = 9\nextra_links = 3\n'
    assert read(text.format(1)).topology == read(text.format(1)).topology
    assert read(text.format(1)).topology != read(text.format(2)).topology
    text += "seed = 5\n"
    assert read(text.format(1)).topology == read(text.format(2)).topology


@pytest.mark.parametrize("file", sorted((ROOT / "scenarios").glob("*.toml")), ids=lambda file: file.name)
def test_the_examples_can_be_read(file: Path) -> None:
    assert load(file).topology.is_connected()


# -- one mistake each: what to replace, with what, and the sentence

MISTAKES = [
    ('"walkthrough"', '"walktrough"',
     "s.toml:5: topology.kind: there is no topology 'walktrough'; known are walkthrough, line, ring, star, tree, "
     "random_tree, grid, random, barabasi_albert, hierarchy, given, file (did you mean 'walkthrough'?)"),
    ('"forwarding"', '"flooding"',
     "s.toml:9: routing.kind: there is no routing strategy 'flooding'; known are forwarding, hierarchy, "
     "rendezvous (did you mean 'forwarding'?)"),
    ('kind = "forwarding"\n', "", "s.toml:8: routing.kind: is missing; known are forwarding, hierarchy, rendezvous"),
    ('kind = "forwarding"', 'kind = "forwarding"\nroot = "9"',
     "s.toml:10: routing.root: there is no broker '9'; known are 1, 2, 3, 4, 5, 6"),
    ('kind = "break"', 'kind = "brake"',
     "s.toml:44: fault.kind: there is no fault 'brake'; known are break, partition, crash, pause, slow, stall, deafen "
     "(did you mean 'break'?)"),
    ("heartbeat", "heartbeet",
     "s.toml:12: settings.heartbeet: brokers have no such setting; did you mean 'heartbeat'?"),
    ('"250ms"', '"3s"',
     "s.toml:12: settings.heartbeat: settings.hold_us, left as it is, must not be shorter than settings.heartbeat_us"),
    ('heartbeat = "250ms"', 'heartbeat_us = "250ms"',
     's.toml:12: settings.heartbeat_us: must be a whole number of microseconds; a duration goes by the name '
     'heartbeat = "250ms"'),
    ('heartbeat = "250ms"', 'heartbeat_us = 3\nheartbeat = "3us"',
     "s.toml:13: settings.heartbeat: is said twice, here and as 'heartbeat_us'"),
    ("link_max = 100", "link_max = 0", "s.toml:13: settings.link_max: must be at least 1, not 0"),
    ('"a/#"', '"a/#/b"',
     "s.toml:19: client.subscribe: '#' must be the last character of a topic filter at character 3 in 'a/#/b'"),
    ("price <= 1600", "price =< 1600", "s.toml:20: client.subscribe: expected a value, not '<' at character 27 in "
     "' brand = \"IBM\" and price =< 1600'"),
    ('id = "P"', 'id = "A"', "s.toml:24: client.id: there is already a client 'A'"),
    ('id = "P"', 'id = ""', "s.toml:24: client.id: a client needs a name of at least one character"),
    ('id = "P"', "id = 7", "s.toml:24: client.id: must be text, not a whole number"),
    ('broker = "1"', 'broker = "7"', "s.toml:25: client.broker: there is no broker '7'; known are 1, 2, 3, 4, 5, 6"),
    ('broker = "1"', 'borker = "1"', "s.toml:25: client.borker: [client] has no such key; did you mean 'broker'?"),
    ('broker = "1"\n', "", "s.toml:23: client.broker: is missing"),
    ('broker = "1"', 'broker = "1"\nadvertise = ["a"]',
     "s.toml:26: client.advertise: is of no use unless routing.advertisements = true"),
    ('publishers = ["P"]', 'publishers = ["Q"]',
     "s.toml:28: workload.publishers: there is no client 'Q'; known are A, P"),
    ('publishers = ["P"]', "publishers = 0", "s.toml:28: workload.publishers: must be from 1 to 1000000, not 0"),
    ('"a/c"', '"a/+"', "s.toml:29: workload.topics: a topic name must not contain the wildcard '+' at character 3 in "
     "'a/+'"),
    ("rate = 5", "rate = nan", "s.toml:30: workload.rate: must be above 0 and at most 1000000, not nan"),
    ("rate = 5", "rate = 5\ntiming = 'weekly'",
     "s.toml:31: workload.timing: there is no timing 'weekly'; known are poisson, steady"),
    ("rate = 5", "rate = 5\nuntil = '6s'", "s.toml:31: workload.until: 6s is after the end of the scenario at 5s"),
    ('at = "1s"', 'at = "-1s"', "s.toml:33: step.at: must not be negative, and '-1s' is"),
    ('at = "1s"', "at = -5", "s.toml:33: step.at: must not be negative, and -5 us is"),
    ('at = "1s"', 'at = "1 fortnight"',
     "s.toml:33: step.at: 'fortnight' is not a unit of time; write it with its unit, as in "
     '"250us", "5ms", "2s" or "1m"'),
    ('at = "1s"', 'at = "7s"', "s.toml:33: step.at: 7s is after the end of the scenario at 5s"),
    ("count = 2", "count = 0", "s.toml:35: step.publish.count: must be from 1 to 10000000, not 0"),
    ("count = 2", "cuont = 2", "s.toml:35: step.publish.cuont: [step.publish] has no such key; did you mean 'count'?"),
    ("leave = true", "leave = false", "s.toml:40: step.leave: can only be true; leave it out otherwise"),
    ("leave = true", "",
     "s.toml:37: step: needs exactly one of join, leave, come_back, subscribe, unsubscribe, advertise, unadvertise, "
     "publish, request, and this one has none of them"),
    ("leave = true", 'leave = true\njoin = "1"',
     "s.toml:37: step: needs exactly one of join, leave, come_back, subscribe, unsubscribe, advertise, unadvertise, "
     "publish, request, and this one has join and leave"),
    ('client = "A"', 'client = "B"', "s.toml:39: step.client: there is no client 'B'; known are A, P"),
    ('client = "A"\nleave = true', 'client = "A"\njoin = "1"', "s.toml:39: step.client: there is already a client 'A'"),
    ('link = ["3", "4"]', 'link = ["3", "6"]', "s.toml:45: fault.link: there is no link between '3' and '6'"),
    ('link = ["3", "4"]', 'link = ["3"]', "s.toml:45: fault.link: must be a list of 2, not of 1"),
    ('link = ["3", "4"]', 'side = ["3"]',
     "s.toml:45: fault.side: a fault of kind 'break' has no such key; known are kind, link, for, silently, at"),
    ('broker = "6"\nfor = "1s"', 'broker = "3"',
     "s.toml:48: fault: without '3' the network falls apart; say with 'for' when it comes back"),
    ('at = "3s"', 'at = "5001ms"', "s.toml:49: fault.at: 5001ms is after the end of the scenario at 5s"),
    ('duration = "5s"', "duration = 5.5",
     's.toml:2: duration: is not a duration; write it with its unit, as in "250us", "5ms", "2s" or "1m"'),
    ('duration = "5s"', "duration = 0", "s.toml:2: duration: must be longer than nothing"),
    ('duration = "5s"', 'durration = "5s"',
     "s.toml:2: durration: a scenario has no such key; did you mean 'duration'?"),
    ('duration = "5s"', "seed = 99999999999999999999", "s.toml:2: seed: the number does not fit into 64 bits"),
    ('name = "good"', 'name = "good', "s.toml:1: not TOML: illegal character '\\n'"),
    ('name = "good"', 'name = "good"\nname = "better"', "s.toml:2: not TOML: cannot overwrite a value"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "sentence"), MISTAKES, ids=lambda text: text[:40].replace("\n", " "))
def test_a_mistake_is_one_sentence_with_key_and_line(before: str, after: str, sentence: str) -> None:
    assert before in GOOD
    assert complaint(GOOD.replace(before, after, 1)) == sentence


TOPOLOGIES = [
    ('kind = "given"\nbrokers = ["1", "2", "1"]\nlinks = [["1", "2"]]',
     "s.toml:3: topology.brokers: network 'given' has duplicate broker ids: '1'"),
    ('kind = "given"\nbrokers = ["1", "2", "3"]\nlinks = [["1", "2"]]',
     "s.toml:1: topology: network 'given' is not connected: '1' cannot reach '3' (2 parts of 2 and 1 brokers)"),
    ('kind = "given"\nbrokers = ["1", "2"]\nlinks = [["1", "3"]]',
     "s.toml:4: topology.links: network 'given' has a link '1' - '3' to an unknown broker '3'"),
    ('kind = "line"\nbrokers = 0', "s.toml:3: topology.brokers: must be from 1 to 100000, not 0"),
    ('kind = "line"', "s.toml:1: topology.brokers: is missing"),
    ('kind = "barabasi_albert"\nbrokers = 5\nlinks_each = 9',
     "s.toml:4: topology.links_each: must be from 1 to 4, not 9"),
    ('kind = "line"\nbrokers = 2\nlatency = "2h"', "s.toml:4: topology.latency: must be from 0 to 3600000000, not "
     "7200000000"),
    ('kind = "file"\npath = "nowhere.jsonl"',
     "s.toml:3: topology.path: 'nowhere.jsonl' cannot be read: No such file or directory"),
    ('kind = "file"\npath = "test_scenario.py"',
     "s.toml:3: topology.path: 'test_scenario.py' ends neither in .jsonl nor in .graphml"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "sentence"), TOPOLOGIES, ids=lambda text: text[:40].replace("\n", " "))
def test_a_topology_that_cannot_be(table: str, sentence: str) -> None:
    assert complaint(f"[topology]\n{table}\n") == sentence


def test_a_topology_file_is_found_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "nets.jsonl").write_text(
        '{"name": "pair", "nodes": [{"id": 1}, {"id": 2}], "links": [{"source": 1, "target": 2}]}\n'
        '{"name": "parts", "nodes": [{"id": 1}, {"id": 2}], "links": []}\n'
    )
    scenario = tmp_path / "s.toml"
    text = '[topology]\nkind = "file"\npath = "nets.jsonl"\n'
    scenario.write_text(text + 'name = "pair"\n')
    assert load(scenario).topology.ids() == ("1", "2")
    for name, problem in (
        ("", "s.toml:1: topology.name: is missing, and 'nets.jsonl' holds 2 networks"),
        ('name = "pear"', "s.toml:4: topology.name: nets.jsonl: none of 2 networks is named 'pear'; did you mean "
         "'pair', 'parts'?"),
        ('name = "parts"', "s.toml:1: topology: network 'parts' is not connected: '1' cannot reach '2' (2 parts "
         "of 1 and 1 brokers)"),
    ):  # fmt: skip
        scenario.write_text(text + name + "\n")
        with pytest.raises(SettingsError) as caught:
            load(scenario)
        assert str(caught.value).removeprefix(f"{tmp_path}/") == problem
    (tmp_path / "nets.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match=r"topology\.path: 'nets\.jsonl' is not UTF-8 text"):
        load(scenario)


def test_a_client_that_joins_later_can_do_nothing_before() -> None:
    text = GOOD + '[[step]]\nat = "4s"\nclient = "L"\njoin = "2"\n[[step]]\nat = "3s"\nclient = "L"\nleave = true\n'
    assert complaint(text) == "s.toml:59: step.client: client 'L' joins only at 4s"


# -- files that cannot be read at all


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'name = "\xff"\n', ":1: not UTF-8 text"),
        (b"# ok\n" + b"#" * SIZE_MAX, ": larger than 256 KiB, which no scenario needs"),
        (b"", ": topology: is missing"),
    ],
)
def test_a_file_that_is_no_scenario(content: bytes, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        load(file)
    assert str(caught.value) == f"{file}{problem}"


def test_a_missing_file_and_a_directory(tmp_path: Path) -> None:
    for path, problem in ((tmp_path / "no.toml", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(SettingsError) as caught:
            load(path)
        assert str(caught.value) == f"{path}: cannot be read: {problem}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a." * 20_000 + "a = 1", "s.toml:1: a key has more than 8 parts"),
        ("[" + "a." * 20_000 + "a]", "s.toml:1: a key has more than 8 parts"),
        ("\nx = {" + "a." * 20_000 + "a = 1}", "s.toml:2: a key has more than 8 parts"),
        ("x = " + "[" * 100_000 + "]" * 100_000, "s.toml:1: brackets are nested more than 8 deep"),
        ("x = " + "{a = " * 50_000, "s.toml:1: brackets are nested more than 8 deep"),
        ("\nseed = " + "9" * 5000, "s.toml:2: a number has too many digits"),
        ('x = """' + '\\"' * 100_000, "s.toml:1: not TOML: unterminated string"),
        ("x = " + "[" * 8 + '"' * 3 + "\\", "s.toml:1: not TOML: unescaped '\\' in a string"),
    ],
    ids=["dotted key", "dotted table", "dotted inline", "brackets", "braces", "digits", "open string", "backslash"],
)
def test_hostile_text_is_refused_quickly(text: str, problem: str) -> None:
    begin = time.process_time()
    assert complaint(text) == problem
    assert time.process_time() - begin < 2


def test_lines_are_found_in_arrays_of_tables_strings_and_inline_tables() -> None:
    text = '''\
a = """
[not.a.table]
b = 1
"""
"quoted key" = 2 # [comment]
[[t]]
x = 1
[[t]]
x = [
  1,
  { y = 2,
    z = 3 },
]
[t.sub]
w = 4
'''
    lines = find_lines(text)
    expected = {("a",): 1, ("quoted key",): 5, ("t", 0): 6, ("t", 0, "x"): 7, ("t", 1): 8, ("t", 1, "x"): 9,
                ("t", 1, "x", 0): 10, ("t", 1, "x", 1): 11, ("t", 1, "x", 1, "z"): 12,
                ("t", 1, "sub", "w"): 15}  # fmt: skip
    assert {path: lines.find(path) for path in expected} == expected
    assert lines.find(("t", 1, "x", 1, "unknown")) == 11
    assert lines.find(("nowhere",)) is None


# -- durations


@pytest.mark.parametrize(
    ("written", "micros"),
    [("250us", 250), ("5ms", 5000), ("2s", 2_000_000), ("1m", 60_000_000), ("1.5 s", 1_500_000), (7, 7), ("0s", 0)],
)
def test_durations(written: str | int, micros: int) -> None:
    assert read_duration(written) == micros


@pytest.mark.parametrize(
    "written", ["", "2", "s", "1.0000001ms", "2 years", "9999999h", True, 2.5, None, "-0.5s", 10**30]
)
def test_what_is_no_duration(written: object) -> None:
    with pytest.raises(ValueError, match=r"duration|unit|negative|microseconds|year"):
        read_duration(written)


@pytest.mark.parametrize("micros", [0, 1, 999, 1000, 2500, 1_000_000, 1_500_000, 60_000_000, 3_600_000_000])
def test_durations_are_shown_as_they_are_read(micros: int) -> None:
    assert read_duration(show_duration(micros)) == micros
