"""`latecomer reproduce`, and the pages it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from latecomer.cli.main import run
from latecomer.cli.reproduce import reproduce
from latecomer.experiments.claim import Column, Sweep
from latecomer.experiments.grid import Table
from latecomer.experiments.pages import sweep_lines, write_page
from latecomer.experiments.papers import Outcome, chosen
from latecomer.experiments.trials import Placing
from latecomer.experiments.verdict import exactly, shown, verdict

VERBS = [("reproduce", reproduce), ("other", lambda: None)]


def test_verdicts_as_json_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ["reproduce", "S1", "S2", "--quick", "--json", "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    verdicts = msgspec.json.decode(out)
    assert [(row["id"], row["verdict"]) for row in verdicts] == [
        ("S1", "consistent, input fitted"),
        ("S2", "reproduced"),
    ]
    assert all({"figure", "interval", "paper"} <= row.keys() for row in verdicts)
    assert msgspec.json.decode((tmp_path / "out" / "verdicts.json").read_bytes()) == verdicts


def test_few_seeds_decide_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The old rule called "less than 8 %" reproduced at 223 % ± 312 with the five seeds of --quick."""
    assert run(VERBS, ["reproduce", "S9", "--quick", "--jobs", "1", "--json", "--out", str(tmp_path)]) == 0
    (verdict,) = msgspec.json.decode(capsys.readouterr().out)
    words = {part["paper"]: (part["word"], part["old"]) for part in verdict["parts"]}
    assert words["< 8 % worse than a full re-plan"] == ("undecided", "reproduced")
    assert verdict["verdict"] == "undecided"


def test_only_the_claims_named_are_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["storing", "planning", "S1", "S2"]
    assert run(VERBS, ["reproduce", *named, "--quick", "--jobs", "1", "--json", "--out", str(tmp_path)]) == 0
    assert [row["id"] for row in msgspec.json.decode(capsys.readouterr().out)] == ["S1", "S2"]


def test_a_table_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ["reproduce", "S2", "--quick", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "S2" in out
    assert "✔ rounds" in out
    assert "(old rule:" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["S99"], "claim: there is no 'S99'; choose from storing, planning, dynatops, mobility"),
        (["--seeds", "1"], "--seeds: must be at least 2"),
        (["--jobs", "-1"], "--jobs: must not be negative"),
        (["--jobs", "2", "--master", "spark://here:7077"], "--jobs: spark://here:7077 has the cores it has"),
        (["--quick", "--docs", "pages"], "--docs: pages are made of full figures"),
        (["planning", "S1", "--docs", "pages"], "--docs: a page has all claims of a paper: say planning"),
        (["storing", "S1"], "claim: S1 is a claim of planning: leave out storing"),
    ],
)
def test_what_cannot_be_asked_is_told_in_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(VERBS, ["reproduce", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_without_the_libraries_it_says_how_to_get_them() -> None:
    program = "import sys; sys.modules['matplotlib'] = None; from latecomer.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", program, "reproduce", "S2"], capture_output=True, text=True)
    assert done.returncode == 2
    assert (
        done.stderr.strip()
        == "latecomer: matplotlib is missing; run in the folder of the sources: pip install -e '.[plan]'"
    )


def test_a_page_has_the_papers_sentence_beside_ours(tmp_path: Path) -> None:
    claims = chosen(["S1", "S2"])
    nothing = Table({})
    outcomes = [Outcome(claim, nothing, claim.judge(nothing, quick=False), ()) for claim in claims]
    text = write_page("planning", outcomes, tmp_path, 200).read_text(encoding="utf-8")
    assert "| S1 | ≈ consistent, input fitted | 4 of 5 | ✔ reproduced |" in text
    assert "| S2 | ✔ reproduced | 2 of 2 | ✔ reproduced |" in text
    assert claims[0].sentence in text
    assert "200 seeds a point" in text
    assert "have 20 seeds" in text


def test_a_sweep_is_a_table_with_our_choice_in_bold() -> None:
    small, large = Placing(brokers=10), Placing(brokers=20)
    table = Table({small: [{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 4.0}], large: [{"a": 3.0, "b": 4.0}] * 2})
    columns = (Column("shorter", "better", "a", "b"), Column("a", "mean", "a"), Column("times", "ratio", "b", "a"))
    sweep = Sweep("size", "nobody says.", "10", {"10": small, "20": large}, columns)
    assert sweep_lines(sweep, table)[2:] == [
        "| size | shorter | a | times |",
        "|---|---|---|---|",
        "| **10** | 50.0 % ± 0.0 | 1.50 ± 6.35 | 2.0 times ± 0.0 |",
        "| 20 | 25.0 % ± 0.0 | 3.00 ± 0.00 | 1.3 times ± 0.0 |",
        "",
    ]


def test_large_numbers_of_a_sweep_have_no_decimals() -> None:
    table = Table({Placing(): [{"a": 12_345.6}, {"a": 12_345.6}]})
    assert Column("a", "mean", "a").show(table, Placing()) == "12,346 ± 0"


def test_what_is_not_judged_does_not_count_on_a_page(tmp_path: Path) -> None:
    claim = chosen(["S2"])[0]
    found = verdict("S2", "p", [exactly("a", 1, 1), shown(exactly("b", 1, 2))])
    text = write_page("planning", [Outcome(claim, Table({}), found, ())], tmp_path, 200).read_text(encoding="utf-8")
    assert "| S2 | ✔ reproduced | 1 of 1 | ◐ partly | p |" in text
    assert "| b 1 | 2 | shown, not judged | ✘ not reproduced |" in text
