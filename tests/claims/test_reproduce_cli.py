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
from latecomer.experiments.statistics import Estimate
from latecomer.experiments.trials import Placing
from latecomer.experiments.verdict import better, ranged, stated, up_to, verdict

VERBS = [("reproduce", reproduce), ("other", lambda: None)]


def test_verdicts_as_json_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ["reproduce", "S1", "S2", "--quick", "--json", "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    verdicts = msgspec.json.decode(out)
    assert [(row["id"], row["verdict"]) for row in verdicts] == [("S1", "reproduced"), ("S2", "reproduced")]
    assert all({"figure", "interval", "paper"} <= row.keys() for row in verdicts)
    assert msgspec.json.decode((tmp_path / "out" / "verdicts.json").read_bytes()) == verdicts


def test_a_table_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ["reproduce", "S2", "--quick", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "S2" in out
    assert "reproduced" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["S99"], "claim: there is no 'S99'; choose from storing, planning"),
        (["--seeds", "1"], "--seeds: must be at least 2"),
        (["--jobs", "-1"], "--jobs: must not be negative"),
        (["--jobs", "2", "--master", "spark://here:7077"], "--jobs: spark://here:7077 has the cores it has"),
        (["--quick", "--docs", "pages"], "--docs: pages are made of full figures"),
        (["storing", "S1", "--docs", "pages"], "--docs: a page has all claims of a paper: say planning"),
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
    text = write_page("planning", outcomes, tmp_path, 20).read_text(encoding="utf-8")
    assert "| S1 | ✔ reproduced | 5 of 5 |" in text
    assert claims[0].sentence in text
    assert "20 seeds a point" in text


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


def test_words_follow_from_the_intervals() -> None:
    inside, outside = Estimate(10, 1, 20), Estimate(30, 2, 20)
    assert ranged("p", [inside, Estimate(25.5, 1, 20)], 5, 25).word == "reproduced"
    half = ranged("p", [inside, outside], 5, 25)
    assert (half.word, half.interval) == ("partly", (9, 32))
    assert "1 of 2 points" in half.figure
    assert ranged("p", [inside, outside, outside], 5, 25).word == "not reproduced"
    assert better("p", [inside, outside]).word == "reproduced"
    assert better("p", [inside, Estimate(-0.1, 1, 20)]).word == "partly"
    assert up_to("p", [inside, outside], 35).word == "reproduced"
    assert up_to("p", [inside, outside], 50).word == "not reproduced"
    good, bad = stated("p", True, "f", (0, 1)), stated("p", False, "f", (0, 1))
    assert verdict("S0", "s", [good, good]).verdict == "reproduced"
    assert verdict("S0", "s", [good, bad]).verdict == "partly"
    assert verdict("S0", "s", [bad]).verdict == "not reproduced"
