"""`latecomer apply`, on a network that is played by the test."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from latecomer.cli import apply_work
from latecomer.cli.doors import Refused, Silent
from latecomer.cli.live_network import Live
from latecomer.cli.main import VERBS, run
from latecomer.model.applied import Applied, plan_id, read_record
from latecomer.model.plan import Plan, Prediction, write_plan
from latecomer.model.topics import topic_covers
from latecomer.model.topology_generators import line
from latecomer.runtime.network_views import KeptView, MemberView, NetworkView
from latecomer.runtime.store_views import ClassView, StoresView, StoreView

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
SINCE = 1_000


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int(self.now * 1e9)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept()


@dataclass
class Played(Live):
    """A network of five in a line; a class that is assigned is filled after some looks at it."""

    stored: dict[str, dict[str, ClassView]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    looks: int = 2
    """So many, until a class is filled; -1: never."""
    silent: dict[str, int] = field(default_factory=dict)
    """Brokers that do not answer, and how often not."""
    trouble: dict[str, str] = field(default_factory=dict)
    late: int = 0
    """A class that is filled reaches back less far than others by this."""
    room: int = 10**9
    counts: dict[str, int] = field(default_factory=dict)
    _waiting: dict[tuple[str, str], int] = field(default_factory=dict)

    def look(self) -> NetworkView:
        self._tell()
        members = tuple(MemberView(broker, True) for broker in self.topology.ids())
        return NetworkView("b1", self.name, "v", True, "b1", members, (), self.kept)

    def _tell(self) -> None:
        self.kept = tuple(
            KeptView(broker, each.topics, each.complete_since_us, each.answering)
            for broker, row in self.stored.items()
            for each in row.values()
        )

    def keep(self, broker: str, *topics: str, since: int = SINCE) -> Played:
        row = self.stored.setdefault(broker, {})
        row.update({name: ClassView(name, since, (), True, since) for name in topics})
        self._tell()
        return self

    def stores(self, broker: str, sizes: Sequence[str] = ()) -> StoresView:
        if self.silent.get(broker):
            self.silent[broker] -= 1
            raise Silent(f"no broker answers at {broker}")
        row = self.stored.get(broker)
        for name in row or ():
            self._age(broker, name)
        problem = self.trouble.get(broker, "")
        store = None if row is None else StoreView(tuple(row.values()), events=len(row), problem=problem)
        return StoresView(broker, store, (), (), self.room, {name: (self.counts.get(name, 0), 100) for name in sizes})

    def _age(self, broker: str, name: str) -> None:
        left = self._waiting.get((broker, name), 0)
        if left > 0:
            self._waiting[broker, name] = left - 1
            if left == 1:
                best = [
                    each.complete_since_us
                    for row in self.stored.values()
                    for each in row.values()
                    if each.answering and topic_covers(each.topics, name)
                ]
                since = min(best, default=50_000) + self.late
                self.stored[broker][name] = ClassView(name, since, (), True, since)

    def assign(self, broker: str, topics: Sequence[str], plan: str = "") -> StoresView:
        before = self.stored.setdefault(broker, {})
        added = [name for name in topics if name not in before]
        gone = [name for name in before if name not in topics]
        self.done += [f"+{broker} {name}" for name in added] + [f"-{broker} {name}" for name in gone]
        for name in gone:
            del before[name]
        for name in added:
            before[name] = ClassView(name, 90_000, (), False, 90_000)
            self._waiting[broker, name] = self.looks
        return self.stores(broker)

    def filling(self) -> list[str]:
        return [broker for broker, row in self.stored.items() for each in row.values() if not each.answering]


@pytest.fixture
def clock(monkeypatch: Patch) -> Clock:
    made = Clock()
    monkeypatch.setattr(apply_work, "time", made)
    return made


@pytest.fixture
def played(monkeypatch: Patch, clock: Clock) -> Played:
    door = {"b1": object()}
    made = Played("net", "net", line(5), (), door)  # type: ignore[arg-type]
    monkeypatch.setattr("latecomer.cli.apply.read_live", lambda words, token_file: made)
    return made


def plan_of(replicas: dict[str, tuple[str, ...]], **rest: object) -> Plan:
    stores = tuple(dict.fromkeys(store for kept in replicas.values() for store in kept))
    brokers = tuple(f"b{number}" for number in range(1, 6))
    plan = Plan("line:5", brokers, "best", stores, replicas, Prediction("best", 1, 1, 1))
    return msgspec.structs.replace(plan, **rest)


def applying(tmp_path: Path, plan: Plan, *words: str) -> int:
    file = tmp_path / "plan.json"
    file.write_text(write_plan(plan))
    return run(VERBS, ["apply", str(file), *words])


def written(tmp_path: Path) -> Applied:
    return read_record((tmp_path / "plan.applied.json").read_text(), "", Applied)


# -- steps -------------------------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_be_done(tmp_path: Path, played: Played, capsys: Capture) -> None:
    played.keep("b1", "t/#")
    assert applying(tmp_path, plan_of({"t/#": ("b4",)})) == 0
    said = capsys.readouterr().out
    assert re.search(r"1 +fill +b4 +t/# +b1 +0 +100 B", said)
    assert re.search(r"2 +withdraw +b1 +t/#", said)
    assert "Nothing was changed. Add --yes to do this." in said
    assert played.done == []
    assert not (tmp_path / "plan.applied.json").exists()


def test_the_old_store_stays_until_every_new_one_answers(tmp_path: Path, played: Played) -> None:
    played.keep("b1", "t/#", "u/#").keep("b2", "u/#")
    plan = plan_of({"t/#": ("b3", "b4"), "u/#": ("b2", "b4")})
    assert applying(tmp_path, plan, "--yes") == 0
    assert played.done == ["+b3 t/#", "+b4 t/#", "+b4 u/#", "-b1 t/#", "-b1 u/#"]
    assert {broker: tuple(row) for broker, row in played.stored.items()} == {
        "b1": (),
        "b2": ("u/#",),
        "b3": ("t/#",),
        "b4": ("t/#", "u/#"),
    }
    applied = written(tmp_path)
    assert (applied.plan, applied.network) == (plan_id(plan), "net")
    assert applied.before["b1"] == ("t/#", "u/#")
    assert applied.after["b4"] == ("t/#", "u/#")
    assert [(step.what, step.broker) for step in applied.steps] == [("fill", "b3"), ("fill", "b4"), ("withdraw", "b1")]
    assert applied.links[0] == ("b1", "b2")


@pytest.mark.parametrize("parallel", [1, 2, 4])
def test_no_more_are_filled_at_a_time_than_wished(tmp_path: Path, played: Played, clock: Clock, parallel: int) -> None:
    played.keep("b1", "t/#")
    played.looks = 9
    most = [0]

    def look() -> None:
        most[0] = max(most[0], len(played.filling()))

    clock.slept = look
    words = ("--yes", "--parallel", str(parallel))
    assert applying(tmp_path, plan_of({"t/#": ("b2", "b3", "b4", "b5")}), *words) == 0
    assert most[0] == parallel


def test_nothing_to_do(tmp_path: Path, played: Played, capsys: Capture) -> None:
    played.keep("b4", "t/#")
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}), "--yes") == 0
    assert "There is nothing to do" in capsys.readouterr().out
    assert played.done == []
    assert written(tmp_path).steps == ()


def test_a_store_is_told_again_that_is_not_as_good_as_another(tmp_path: Path, played: Played) -> None:
    """Two that began at different times: the later one is compared with the other when it is told so."""
    played.keep("b1", "t/#").keep("b4", "t/#", since=SINCE + 1)
    found = apply_work.survey(played, plan := plan_of({"t/#": ("b1", "b4")}))
    [step] = apply_work.steps_to(plan, played, found, (), keep_old=False)
    assert (step.what, step.broker, step.sources) == ("fill", "b4", ("b1",))


def test_what_is_kept_elsewhere_may_stay(tmp_path: Path, played: Played) -> None:
    played.keep("b1", "t/#")
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}), "--yes", "--keep-old") == 0
    assert played.done == ["+b4 t/#"]


def test_what_the_plan_does_not_name_stays(tmp_path: Path, played: Played, capsys: Capture) -> None:
    played.keep("b1", "t/#", "logs/#")
    assert applying(tmp_path, plan_of({"t/#": ("b4",), "u/#": ()}), "--yes") == 0
    said = capsys.readouterr().out
    assert "The plan says nothing of logs/#: that stays where it is (--withdraw ends it)." in said
    assert "The plan keeps u/# nowhere" in said
    assert list(played.stored["b1"]) == ["logs/#"]


# -- wider classes -----------------------------------------------------------------------------------------------------

CITY = {"city/north/#": ("b3",), "city/south/#": ("b4", "b5")}


def test_a_wider_class_is_what_narrower_ones_are_filled_from(tmp_path: Path, played: Played, capsys: Capture) -> None:
    played.keep("b1", "city/#")
    played.counts = {"city/#": 30, "city/north/#": 10, "city/south/#": 15}
    assert applying(tmp_path, plan_of(CITY), "--yes", "--withdraw", "city/#") == 0
    said = capsys.readouterr().out
    assert "5 events of city/# are of no topic of the plan" in said
    assert re.search(r"fill +b3 +city/north/# +b1 +10", said)
    assert played.done == ["+b3 city/north/#", "+b4 city/south/#", "+b5 city/south/#", "-b1 city/#"]
    assert all(each.complete_since_us == SINCE for row in played.stored.values() for each in row.values())


def test_a_wider_class_waits_for_all_that_it_holds(tmp_path: Path, played: Played, clock: Clock) -> None:
    played.keep("b1", "city/#").keep("b3", "city/north/#").keep("b4", "city/south/#")
    played.keep("b5", "city/south/#", since=SINCE + 5)
    assert applying(tmp_path, plan_of(CITY), "--yes", "--withdraw", "city/#", "--patience", "5s") == 2
    assert played.done == [], "one of them does not reach back as far"


def test_what_the_plan_names_is_not_withdrawn_by_hand(tmp_path: Path, played: Played, capsys: Capture) -> None:
    assert applying(tmp_path, plan_of(CITY), "--withdraw", "city/north/#") == 2
    assert "'city/north/#' is a topic of the plan, which says where it is kept" in capsys.readouterr().err


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (
            plan_of({"t/#": ("b9",)}, brokers=("b9",)),
            r"'b9', which is not in the network 'net': it is a plan for another",
        ),
        (plan_of({"#/t": ("b4",)}), r"replicas.#/t: '#/t' is no topic filter, so no store can keep it: '#' must be"),
        (plan_of({"$SYS/#": ("b4",)}), "is no topic filter, so no store can keep it"),
        (plan_of({"t/#": ("b4",)}, version=9), "a plan of version 9; this program reads up to 1: use a newer one"),
    ],
)
def test_a_plan_that_does_not_fit(tmp_path: Path, played: Played, capsys: Capture, plan: Plan, sentence: str) -> None:
    assert applying(tmp_path, plan, "--yes") == 2
    assert re.search(sentence, capsys.readouterr().err)
    assert played.done == []


def test_a_plan_for_a_network_of_another_size(tmp_path: Path, played: Played, capsys: Capture) -> None:
    played.keep("b4", "t/#")
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}, brokers=("b4", "b7"))) == 0
    said = capsys.readouterr().out
    assert "The plan does not know b1, b2, b3 and 1 more: it was made for a smaller network." in said
    assert "The plan counts on b7, not there now." in said


def test_a_broker_that_is_away(tmp_path: Path, played: Played, capsys: Capture) -> None:
    played.absent = ("b9",)
    assert applying(tmp_path, plan_of({"t/#": ("b9",)}, brokers=("b9",)), "--yes") == 2
    assert "b9 gets a store by the plan and is not there now: start it" in capsys.readouterr().err


def test_a_network_that_is_only_described(tmp_path: Path, played: Played, capsys: Capture) -> None:
    played.doors = {}
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}), "--yes") == 2
    assert "is a network that is only described; name the address of a broker" in capsys.readouterr().err


def test_a_disk_that_is_too_small(tmp_path: Path, played: Played, capsys: Capture) -> None:
    played.keep("b1", "t/#")
    played.room = 150
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}), "--yes") == 2
    assert "b4 has room for 150 B, and t/# may take 200 B: make room there" in capsys.readouterr().err
    assert played.done == []


def test_a_store_that_is_not_filled(tmp_path: Path, played: Played, capsys: Capture) -> None:
    played.keep("b1", "t/#")
    played.looks = -1
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}), "--yes", "--patience", "5s") == 2
    said = capsys.readouterr().err
    assert "b4 is not filled with t/#, and nothing has happened for 5 s: it does not answer for it yet" in said
    assert "run this again to go on" in said
    assert played.done == ["+b4 t/#"]
    assert written(tmp_path).ended_us == 0


def test_a_store_that_keeps_less_does_not_take_the_place_of_one_that_keeps_more(
    tmp_path: Path, played: Played, capsys: Capture
) -> None:
    played.keep("b1", "t/#")
    played.late = 7
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}), "--yes", "--patience", "5s") == 2
    said = capsys.readouterr().err
    assert "it does not reach back as far as b1; are its store.keep and store.capacity large enough?" in said
    assert played.done == ["+b4 t/#"]


def test_a_store_that_is_full(tmp_path: Path, played: Played, capsys: Capture) -> None:
    played.keep("b1", "t/#")
    played.looks, played.trouble["b4"] = -1, "the store is full: no room"
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}), "--yes") == 2
    assert (
        "b4 cannot be filled: the store is full: no room; nothing that it was to take over" in capsys.readouterr().err
    )
    assert played.done == ["+b4 t/#"]


def test_brokers_that_are_started_again_are_waited_for(tmp_path: Path, played: Played, clock: Clock) -> None:
    played.keep("b1", "t/#")
    played.looks = 5
    sleeps = [0]

    def restart() -> None:
        sleeps[0] += 1
        if sleeps[0] == 2:
            played.silent = {"b4": 3, "b1": 4}

    clock.slept = restart
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}), "--yes") == 0
    assert played.done == ["+b4 t/#", "-b1 t/#"]


def test_a_broker_that_does_not_come_back(tmp_path: Path, played: Played, clock: Clock, capsys: Capture) -> None:
    played.keep("b1", "t/#")
    played.looks = 5
    clock.slept = lambda: played.silent.update(b4=1000)
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}), "--yes", "--patience", "9s") == 2
    assert "nothing has happened for 9 s: no broker answers at b4" in capsys.readouterr().err


def test_somebody_else_decides_otherwise(tmp_path: Path, played: Played, clock: Clock, capsys: Capture) -> None:
    played.keep("b1", "t/#")
    played.looks = 5
    clock.slept = lambda: played.stored["b4"].clear()
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}), "--yes") == 2
    assert "somebody else has assigned other topics to b4" in capsys.readouterr().err


def test_a_broker_that_refuses(tmp_path: Path, played: Played, monkeypatch: Patch, capsys: Capture) -> None:
    def refuse(*_: object) -> None:
        raise Refused("the broker at b4 refuses: store.directory: not a directory")

    monkeypatch.setattr(Played, "assign", refuse)
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}), "--yes") == 2
    assert "store.directory: not a directory" in capsys.readouterr().err


def test_who_is_interrupted_says_so_and_goes_on_later(
    tmp_path: Path, played: Played, clock: Clock, capsys: Capture
) -> None:
    played.keep("b1", "t/#", "u/#")
    played.looks = 20
    plan = plan_of({"t/#": ("b3",), "u/#": ("b4",)})
    whole = played.stored["b1"].copy()

    def interrupt() -> None:
        if "+b4 u/#" in played.done:
            raise KeyboardInterrupt

    clock.slept = interrupt
    assert applying(tmp_path, plan, "--yes", "--parallel", "1") == 130
    assert "1 of 3 steps were done, and stay; nothing is lost" in capsys.readouterr().err
    assert played.stored["b1"] == whole
    assert (written(tmp_path).ended_us, len(written(tmp_path).steps)) == (0, 1)

    clock.slept = lambda: None
    assert applying(tmp_path, plan, "--yes") == 0
    assert list(played.stored["b1"]) == []
    applied = written(tmp_path)
    assert applied.ended_us > 0
    assert applied.before["b1"] == ("t/#", "u/#"), "as it was before the first attempt"
    assert [(step.what, step.broker) for step in applied.steps] == [("fill", "b3"), ("fill", "b4"), ("withdraw", "b1")]


@pytest.mark.parametrize(("patience", "sentence"), [("0s", "must be at least 1s"), ("soon", "--patience")])
def test_patience_that_is_none(tmp_path: Path, played: Played, capsys: Capture, patience: str, sentence: str) -> None:
    assert applying(tmp_path, plan_of({"t/#": ("b4",)}), "--patience", patience) == 2
    assert sentence in capsys.readouterr().err
