"""`latecomer reproduce dynatops --checkins`: what is told before Spark starts, and how settings get their people."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.cli.main import VERBS, run
from latecomer.experiments.dynatops.location.reading import MANAGED, NOTIFIED
from latecomer.experiments.dynatops.location.recorded import People, with_people


def people(rows: int, columns: int) -> People:
    return People(
        rows=rows,
        columns=columns,
        south=40.55,
        west=-74.3,
        degrees=0.05,
        users=900,
        visits=14_000,
        checkins=29_000,
        hours=700,
        notified=5_000,
        filled=80,
        first="2012-04-03T18:00:00Z",
        last="2012-05-02T12:08:00Z",
        tables=("0/runs/a", "1/runs/b"),
    )


def test_a_setting_keeps_what_is_compared_and_gets_other_people() -> None:
    found = with_people(MANAGED, people(9, 13))
    assert (found.systems, found.sizes, found.load_weight) == (MANAGED.systems, MANAGED.sizes, MANAGED.load_weight)
    assert (found.ground.cells, found.users, found.runs(200)) == (117, 900, 2)
    assert found.every_h == NOTIFIED.every_h


@pytest.mark.parametrize(("rows", "columns", "side"), [(20, 60, 32), (8, 24, 16), (9, 13, 8)])
def test_geops_has_about_as_many_squares_as_there_are_cells(rows: int, columns: int, side: int) -> None:
    """32 for the paper's ground, 16 for the smaller one, as where people are made up."""
    found = with_people(NOTIFIED, people(rows, columns))
    assert (found.side, 2 ** len(found.branches)) == (side, side)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["D3", "--since", "2012-04-03"], "--since: it says which check-ins are looked at: name their files with"),
        (["D3", "--cell", "1"], "--cell: it says which check-ins are looked at"),
        (
            ["S1", "--checkins", "here.csv"],
            "--checkins: only D3, D4, D5, D6, D7, D10-location, D12 are about",
        ),
        (
            ["D3", "--checkins", "here.csv", "--jobs", "1"],
            "--checkins: check-ins are read on Spark: leave out --jobs",
        ),
        (["D3", "--checkins", "nowhere.csv"], "nowhere.csv: there is no such file"),
        (["D3", "--checkins", "here.csv", "--cell", "30"], "--cell: 1 × 2 cells are not from 50 to 2,000"),
        (["D3", "--checkins", "here.csv", "--box", "moon"], "--box: 'moon' is no box"),
        (["D3", "--checkins", "here.csv", "--since", "2013", "--until", "2012"], "--since: "),
        (["D3", "--checkins", "cut.parquet"], "cut.parquet: is not a whole Parquet file"),
    ],
)
def test_what_cannot_be_asked_of_checkins_is_told(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.csv").write_text("user,time,lat,lon\n")
    Path("cut.parquet").write_bytes(b"PAR1 and no more")
    assert run(VERBS, ["reproduce", *arguments]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
