"""The claims of *mobility*: how their sentences are judged, a look at the figures, and the verb."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from latecomer.cli.main import run
from latecomer.cli.reproduce import reproduce
from latecomer.experiments.charts import Chart
from latecomer.experiments.claim import Claim
from latecomer.experiments.grid import Measures, Setting, Table
from latecomer.experiments.mobility import commute, pervasive, random
from latecomer.experiments.mobility.algorithms.registry import DRAWN
from latecomer.experiments.mobility.judging import LastHop, about, changes
from latecomer.experiments.mobility.wandering import LAST_HOP, Wandering
from latecomer.experiments.pages import write_page
from latecomer.experiments.papers import Outcome, chosen
from latecomer.experiments.statistics import Estimate

VERBS = [("reproduce", reproduce), ("other", lambda: None)]
SEEDS = 20


def claim(id: str) -> Claim:
    return chosen([id])[0]


def table(found: Claim, measured: Callable[[Setting], Measures]) -> Table:
    """As if this had been measured: with every seed nearly the same."""
    return Table(
        {
            setting: [
                {name: value * (1 + seed / 1e4) for name, value in measured(setting).items()} for seed in range(SEEDS)
            ]
            for setting in found.settings(quick=False)
        }
    )


def average(setting: Setting, standard: float, last_hop: float) -> Measures:
    """An overhead that grows with the number of clients."""
    assert isinstance(setting, Wandering)
    by = setting.clients / 800
    factors = {"standard": 1.0, "prefetching": 0.01, "logging": 0.8, "home-broker": 8.0}
    found = {f"overhead_{name}": by * standard * factor for name, factor in factors.items()}
    return found | {f"{LAST_HOP}overhead_{name}": by * last_hop * factor for name, factor in factors.items()}


def test_m1_is_reproduced_when_the_figures_are_the_papers() -> None:
    found = claim("M1")
    verdict = found.judge(table(found, lambda setting: average(setting, 0.8, 0.5)), quick=False)
    assert verdict.verdict == "reproduced"
    assert {part.word for part in verdict.judged()} == {"reproduced"}
    assert verdict.old is None


def test_m1_is_judged_as_we_count_also_where_counting_otherwise_is_nearer() -> None:
    found = claim("M1")
    verdict = found.judge(table(found, lambda setting: average(setting, 2.3, 0.8)), quick=False)
    assert verdict.verdict == "partly"
    size, *others = verdict.judged()
    assert (size.word, {part.word for part in others}) == ("not reproduced", {"reproduced"})
    aside = [part for part in verdict.parts if not part.judged]
    assert len(aside) == len(verdict.judged())
    assert aside[0].word == "reproduced"
    assert aside[0].paper.startswith("*with the hop to the client:*")


def test_a_speed_that_was_searched_for_reproduces_nothing() -> None:
    found = claim("M11")
    told = table(found, lambda setting: {"concurrent_standard": 10.0, "overhead_standard": 1.0})
    verdict = found.judge(told, quick=False)
    assert [part.word for part in verdict.judged()] == ["consistent, input fitted", "reproduced"]
    assert verdict.verdict == "consistent, input fitted"
    far = found.judge(
        table(found, lambda setting: {"concurrent_standard": 20.0, "overhead_standard": 1.0}), quick=False
    )
    assert far.judged()[0].word == "not reproduced"


def test_about_is_a_fifth() -> None:
    assert [about("x", Estimate(mean, 0.1, SEEDS), 100).word for mean in (79, 81, 119, 121)] == [
        "not reproduced",
        "reproduced",
        "reproduced",
        "not reproduced",
    ]


def test_changes_are_of_the_means_seed_by_seed() -> None:
    before, after = Wandering(clients=1), Wandering(clients=2)
    told = Table({before: [{"a": 1.0}, {"a": 3.0}], after: [{"a": 1.5}, {"a": 4.5}]})
    assert changes(told, before, after, "a").mean == pytest.approx(50.0)


def test_the_last_hop_is_looked_at_only_where_it_was_counted() -> None:
    setting = Wandering()
    told = LastHop(Table({setting: [{"overhead_x": 1.0, f"{LAST_HOP}overhead_x": 2.0, "migration_x": 3.0}]}))
    assert told.values(setting, "overhead_x") == [2.0]
    assert told.values(setting, "migration_x") == [3.0]


def test_m15_is_exact() -> None:
    verdict = claim("M15").judge(Table({}), quick=True)
    assert {part.word for part in verdict.parts} == {"reproduced"}


def test_every_claim_measures_what_it_judges_draws_and_sweeps() -> None:
    """One small seed of everything: no claim asks for a setting or a measure that is not there."""
    small: dict[Setting, Measures] = {}

    def measured(setting: Setting) -> list[Measures]:
        assert isinstance(setting, Wandering)
        few = msgspec.structs.replace(setting, clients=setting.clients // 20)
        if few not in small:
            small[few] = few.measure(0)
        return [small[few]] * SEEDS

    charts: list[Chart] = []
    for found in chosen(["mobility"]):
        quick = Table({setting: measured(setting) for setting in found.settings(quick=True)})
        assert found.judge(quick, quick=True).parts
        charts += found.charts(quick, quick=True)
        full = Table(dict.fromkeys(found.settings(quick=False), measured(commute.BASE)))
        parameters = [sweep.parameter for sweep in found.sweeps()]
        assert len(set(parameters)) == len(parameters), found.id
        for sweep in found.sweeps():
            assert sweep.chosen in sweep.options
            for setting in sweep.options.values():
                assert setting in full.rows
    assert [chart.name for chart in charts] == [f"mobility-fig{number}" for number in (3, 4, 6, 7, 8, 9, 5)]


def test_what_every_sweep_shows_is_measured() -> None:
    rows: dict[Setting, Measures] = {}
    for found in chosen(["mobility"]):
        for sweep in found.sweeps():
            setting = sweep.options[sweep.chosen]
            assert isinstance(setting, Wandering)
            if setting not in rows:
                rows[setting] = msgspec.structs.replace(setting, clients=4).measure(0)
            row = rows[setting]
            for column in sweep.columns:
                assert column.name in row, (found.id, sweep.parameter)
                assert not column.other or column.other in row


@pytest.mark.parametrize("base", [commute.BASE, random.BASE], ids=["commute", "random"])
def test_the_order_of_the_curves_is_the_papers(base: Wandering) -> None:
    row = base.measure(3)
    overhead = [row[f"overhead_{name}"] for name in ("prefetching", "logging", "standard", "home-broker")]
    assert overhead == sorted(overhead)
    few = msgspec.structs.replace(base, clients=200).measure(3)
    assert few["overhead_standard"] < row["overhead_standard"]


def test_in_pervasive_three_cost_the_same_and_most_is_migration() -> None:
    row = msgspec.structs.replace(pervasive.BASE, clients=100).measure(3)
    assert row["overhead_prefetching"] == pytest.approx(row["overhead_standard"], rel=0.1)
    assert row["overhead_logging"] == pytest.approx(row["overhead_standard"], rel=0.1)
    assert row["overhead_home-broker"] > 1.5 * row["overhead_standard"]
    assert 55 < row["migration_standard"] < row["migration_prefetching"] < 65


def test_the_verb_runs_quickly_draws_and_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--quick", "--seeds", "2", "--jobs", "1", "--json", "--out", str(tmp_path)]
    assert run(VERBS, ["reproduce", "M3", "M6", "M15", *options]) == 0
    verdicts = msgspec.json.decode(capsys.readouterr().out)
    assert [(row["id"], row["verdict"]) for row in verdicts] == [
        ("M3", "undecided"),
        ("M6", "undecided"),
        ("M15", "reproduced"),
    ]
    assert b"<svg" in (tmp_path / "mobility-fig8.svg").read_bytes()
    lines = (tmp_path / "measured.jsonl").read_bytes().count(b"\n")
    assert run(VERBS, ["reproduce", "M3", "M6", "M15", *options]) == 0
    assert (tmp_path / "measured.jsonl").read_bytes().count(b"\n") == lines, "nothing is measured twice"


def test_a_page_without_an_old_rule_does_not_speak_of_one(tmp_path: Path) -> None:
    found = claim("M15")
    nothing = Table({})
    outcome = Outcome(found, nothing, found.judge(nothing, quick=False), ())
    text = write_page("mobility", [outcome], tmp_path, 200).read_text(encoding="utf-8")
    assert "old rule" not in text
    assert "| M15 | ✔ reproduced | 6 of 6 | Table 1" in text
    assert "20 seeds a point" in text
    assert "**How it was counted.**" in text


def test_all_curves_of_the_paper_are_drawn() -> None:
    assert DRAWN == ("standard", "prefetching", "logging", "home-broker")
