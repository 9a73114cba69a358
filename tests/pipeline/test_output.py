"""Tables and runs: whole or not at all, one writer at a time, the same bytes for the same data."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.model.errors import SettingsError
from latecomer.pipeline import output
from latecomer.pipeline.output import OutputError, identity, opened, read_table, write_table


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_rows_are_the_same_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """In a folder whose name Spark would take for a pattern."""
    rows = [(n % 7, f"é{n}", None if n % 3 else n) for n in range(100)]
    folder = tmp_path / "a [b] {c,d}% *"
    for name, given in (("one", rows), ("two", rows[::-1])):
        table = spark.createDataFrame(given, "a int, b string, c long").repartition(3)
        write_table(table, folder / name, sort=["a", "b"])
    assert files(folder / "one") == files(folder / "two")
    assert list(files(folder / "one")) == ["part-00000.parquet"]
    assert sorted(tuple(row) for row in read_table(spark, folder / "one", folder / "two").collect()) == sorted(
        (rows + rows), key=lambda row: (row[0], row[1])
    )
    write_table(spark.createDataFrame([(5,)], "a int"), folder / "one", sort=["a"])
    assert [tuple(row) for row in read_table(spark, folder / "one").collect()] == [(5,)]
    with pytest.raises(OutputError, match="there is no such table; run the job that writes it first"):
        read_table(spark, folder / "three")


def test_a_run_is_seen_when_it_is_finished(tmp_path: Path) -> None:
    with opened(tmp_path) as out:
        with out.run("first") as run:
            run.text("report.html", "one")
            assert out.latest() is None
            assert not run.path.exists()
        assert out.latest() == run.path
        assert (tmp_path / "latest" / "report.html").read_text() == "one"
        with suppress(KeyboardInterrupt), out.run("second") as later:
            later.text("report.html", "two")
            raise KeyboardInterrupt
        assert out.latest() == run.path
        with out.run("first") as again:
            again.text("report.html", "three")
    assert (again.id, files(tmp_path / "latest")) == (run.id, {"report.html": b"three"})


def test_what_a_killed_job_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left, other = tmp_path / "runs" / "_1234", tmp_path / "mine" / "_file"
    for path in (left / "table", other):
        path.mkdir(parents=True)
    with opened(tmp_path):
        assert not left.exists()
    assert other.exists()


def test_old_runs_go(tmp_path: Path) -> None:
    with opened(tmp_path) as out:
        for number in range(output.RUNS_KEPT + 3):
            with out.run(number) as run:
                run.text("number", str(number))
            os.utime(run.path, ns=(number, number))
    assert sorted(int(path.read_text()) for path in tmp_path.glob("runs/*/number")) == [3, 4, 5, 6, 7]
    assert (tmp_path / "latest" / "number").read_text() == "7"


def test_ids_depend_on_what_went_in_and_on_nothing_else() -> None:
    assert identity({"a": 1, "b": [2]}, "x") == identity({"b": [2], "a": 1}, "x")
    assert identity({"a": 1}) != identity({"a": 2})


def test_two_jobs_at_once(tmp_path: Path) -> None:
    told = r"--out: .* is being written by another job; wait for it"
    with opened(tmp_path), pytest.raises(SettingsError, match=told), opened(tmp_path):
        pass
    with opened(tmp_path):
        pass


def test_a_job_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from latecomer.pipeline.output import opened\n"
        f"with opened(Path({str(tmp_path)!r})): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    with opened(tmp_path):
        pass


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told = r"--out: .*file: cannot be written: File exists; name another folder"
    with pytest.raises(SettingsError, match=told), opened(tmp_path / "file"):
        pass
