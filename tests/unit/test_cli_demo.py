"""What `latecomer demo` and `latecomer traffic` show; the whole loop is in tests/pipeline/test_loop.py."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from random import Random
from types import SimpleNamespace

import msgspec
import pytest
from rich.console import Console
from rich.progress import Progress

from latecomer.cli.as_json import as_json
from latecomer.cli.demo import (
    BROKERS,
    DemoFigures,
    PhaseFigures,
    free_network,
    how_good,
    print_next,
    to_be_killed,
    when_joined,
)
from latecomer.cli.demo_commuters import Commuter, CommuterFigures, Received, figures, table_of
from latecomer.cli.demo_commuters import check as check_commuters
from latecomer.cli.demo_minds import MindFigures
from latecomer.cli.demo_minds import check as check_minds
from latecomer.cli.demo_progress import Act
from latecomer.cli.demo_traffic import DISTRICTS, Broken, Tally
from latecomer.cli.main import VERBS, run
from latecomer.cli.traffic import check
from latecomer.model.plan import Plan, Prediction
from latecomer.model.topology_generators import line
from latecomer.runtime.network_file import placed, shaped

Capture = pytest.CaptureFixture[str]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_clock_of_an_act_runs_also_after_a_full_bar() -> None:
    clock = Clock()
    bar = Progress(console=Console(file=StringIO()), get_time=clock)
    act = Act(bar)
    act("latecomers ask", 300, 300)
    clock.now = 10.0
    act("starting Spark", 0, 0)
    clock.now = 35.0
    (task,) = bar.tasks
    assert (task.description, task.finished, task.total) == ("starting Spark", False, None)
    assert task.elapsed == 25.0
    act("publishing", 1, 4)
    act("publishing", 2, 4)
    (task,) = bar.tasks
    assert (task.completed, task.total) == (2, 4)


@pytest.mark.parametrize(
    ("gap", "optimal", "told"),
    [
        (0.0, True, "proven to be the best there is"),
        (0.0, False, "proven to be the best there is"),
        (0.0001, False, "within 0.1% of the best"),
        (0.0131, False, "within 1.4% of the best"),
        (None, False, "the best that was found"),
    ],
)
def test_how_good_a_plan_is(gap: float | None, optimal: bool, told: str) -> None:
    assert how_good(Prediction("best", 1.0, 1.0, 1.0, gap=gap, optimal=optimal)) == told


@pytest.mark.parametrize("keep", [None, Path("some folder")])
def test_it_ends_with_three_commands_that_can_be_typed(keep: Path | None) -> None:
    said = StringIO()
    print_next(Console(file=said, width=200), keep)
    lines = said.getvalue().splitlines()
    assert sum(line.startswith("  latecomer ") for line in lines) == 3
    if keep is not None:
        assert "some folder" in lines[0]
        assert lines[0].endswith("report.html.")
        assert "'some folder'" in lines[-1], "a space needs quotes"


def test_a_folder_that_is_in_use_is_not_kept_in(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "something").touch()
    assert run(VERBS, ["demo", "--keep", str(tmp_path)]) == 2
    assert "is not an empty folder; name a new one" in capsys.readouterr().err


def test_traffic_needs_the_folder_of_a_network(tmp_path: Path, capsys: Capture) -> None:
    assert run(VERBS, ["traffic", "--network", str(tmp_path)]) == 2
    assert "is not the data folder of 'latecomer up'" in capsys.readouterr().err


def test_what_latecomers_lack_is_an_error() -> None:
    tally = Tally()
    tally.add([0, 1, 2], 3, 1)
    check(tally)
    tally.add([0, 2], 3, 1)
    with pytest.raises(Broken, match="of 5 events that latecomers asked for: 1 lost, 0 repeated, 0 out of order"):
        check(tally)


# -- commuters


@pytest.mark.parametrize(
    ("came", "owed", "lost", "repeated", "again", "disordered"),
    [
        ([(0, False), (1, False), (2, False)], 3, 0, 0, 0, 0),
        ([(4, False), (5, False)], 6, 0, 0, 0, 0),  # what was published before it subscribed is not owed
        ([(0, False), (2, False)], 3, 1, 0, 0, 0),
        ([(0, False), (1, False)], 4, 2, 0, 0, 0),  # the newest ones are missing
        ([(0, False), (1, False)], 1, 0, 0, 0, 0),  # one that was acknowledged later
        ([], 5, 5, 0, 0, 0),
        ([(0, False), (1, False), (1, False)], 2, 0, 1, 0, 0),
        ([(0, False), (1, False), (0, True), (1, True), (2, False)], 3, 0, 0, 2, 0),
        ([(0, True), (1, False)], 2, 0, 0, 0, 0),  # the first try was lost on the way to the client
        ([(0, False), (2, False), (1, False)], 3, 0, 0, 0, 1),
    ],
)
def test_what_a_commuter_gets_is_counted(
    came: list[tuple[int, bool]], owed: int, lost: int, repeated: int, again: int, disordered: int
) -> None:
    received = Received()
    for number, marked in came:
        received.note("city/north/air", number, marked=marked)
    assert received.lost({"city/north/air": owed}) == lost
    assert (received.messages, received.repeated, received.again) == (len(came), repeated, again)
    assert received.disordered == disordered


def test_districts_are_counted_apart() -> None:
    received = Received()
    received.note("city/north/air", 3, marked=False)
    received.note("city/south/air", 0, marked=False)
    assert (received.repeated, received.disordered) == (0, 0)
    assert received.lost({"city/north/air": 5, "city/south/air": 1, "city/river/air": 2}) == 1 + 0 + 2


FARED = CommuterFigures(
    client="commuter-qos-1",
    qos=1,
    moves=3,
    connack_median_ms=30.0,
    connack_worst_ms=50.0,
    messages=1200,
    lost=0,
    repeated=0,
    repeated_marked_dup=2,
    disordered=0,
    killed="b8",
    refusals=1,
    wait_s=6.2,
)


def test_the_figures_of_a_commuter() -> None:
    commuter = Commuter(placed(line(2)), "commuter-qos-1", 1, Random(1))
    commuter.waits_s = [0.05, 0.02, 0.03, 6.24]
    for number, marked in ((0, False), (0, True), (2, False)):
        commuter.received.note("city/north/air", number, marked=marked)
    found = figures(commuter, "b8", 1, {"city/north/air": 3})
    assert (found.moves, found.connack_median_ms, found.connack_worst_ms, found.wait_s) == (4, 30.0, 50.0, 6.2)
    assert (found.messages, found.lost, found.repeated, found.repeated_marked_dup) == (3, 1, 0, 1)
    with pytest.raises(Broken, match="commuter-qos-1 subscribed to: 1 lost, 0 repeated, 0 out of order"):
        check_commuters((found,))


@pytest.mark.parametrize("wrong", ["lost", "repeated", "disordered"])
def test_a_commuter_that_lacks_something_is_an_error(wrong: str) -> None:
    check_commuters((FARED,))
    with pytest.raises(Broken, match="commuter-qos-1"):
        check_commuters((FARED, msgspec.structs.replace(FARED, **{wrong: 1})))


def test_the_table_of_commuters() -> None:
    said = StringIO()
    Console(file=said, width=100).print(table_of((FARED, msgspec.structs.replace(FARED, qos=2, refusals=2))))
    lines = [" ".join(row.split()) for row in said.getvalue().splitlines()]
    for row in (
        "QoS 1 QoS 2",
        "moves 3 3",
        "CONNECT to CONNACK, median 30 ms 30 ms",
        "CONNECT to CONNACK, worst 50 ms 50 ms",
        "messages 1,200 1,200",
        "lost 0 0",
        "repeated 0 0",
        "repeated, marked DUP 2 2",
        "out of order 0 0",
        "b8 killed: told 0x88 once 2 times",
        "b8 killed: waited 6.2 s 6.2 s",
    ):
        assert row in lines


MOVED = MindFigures(
    events=900,
    lost=0,
    repeated=0,
    disordered=0,
    moved=5,
    seconds=0.2,
    relays_before=1.5,
    relays_after=1.0,
    hops_before=2.0,
    hops_after=2.1,
)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"lost": 1}, "1 events were lost"),
        ({"repeated": 2}, "2 events were repeated"),
        ({"disordered": 3}, "3 events were out of order"),
        ({"relays_after": 1.5}, "did not save relays"),
    ],
)
def test_brokers_that_follow_changed_minds_are_held_to_it(wrong: dict[str, float], told: str) -> None:
    check_minds(MOVED)
    with pytest.raises(Broken, match=told):
        check_minds(msgspec.structs.replace(MOVED, **wrong))


def test_the_figures_as_json() -> None:
    phase = PhaseFigures(
        stores=1, requests=300, events=9, lost=0, repeated=0, disordered=0, hops_mean=2.0, hops_error=0.1
    )
    all_of_them = DemoFigures(before=phase, predicted_hops_mean=1.0, after=phase, commuters=(FARED,), minds=MOVED)
    told = msgspec.json.decode(as_json(all_of_them))
    assert set(told) == {"before", "predicted_hops_mean", "after", "commuters", "minds"}
    assert told["commuters"][0] == msgspec.to_builtins(FARED)


@pytest.mark.parametrize(("stores", "killed"), [(("b1",), "b7"), (("b7",), "b8"), (("b7", "b8"), "b7")])
def test_who_is_killed_has_no_publisher_and_no_store_if_that_can_be(stores: tuple[str, ...], killed: str) -> None:
    network = placed(shaped("tree", BROKERS))
    assert killed not in [seat.id for seat in network.brokers[: len(DISTRICTS)]]
    plan = Plan("tree:8", (), "best", stores, {}, Prediction("best", 1.0, 1.0, 1.0))
    assert to_be_killed(network, plan) == killed


def test_the_demo_begins_when_its_brokers_have_found_one_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers listen before all links are up: a topology that was read then lacked a broker at which people asked."""
    network = free_network()
    whole = line(BROKERS)
    seen = [SimpleNamespace(topology=topology) for topology in (line(BROKERS - 1), whole)]
    monkeypatch.setattr("latecomer.cli.demo.read_live", lambda folder: seen.pop(0))
    assert when_joined(tmp_path, network).topology is whole
    assert not seen
    monkeypatch.setattr("latecomer.cli.demo.PATIENCE_S", 0.0)
    monkeypatch.setattr("latecomer.cli.demo.read_live", lambda folder: SimpleNamespace(topology=line(2)))
    with pytest.raises(Broken, match="only 2 of 8 brokers found one another"):
        when_joined(tmp_path, network)
