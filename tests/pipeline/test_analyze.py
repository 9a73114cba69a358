"""`latecomer analyze`: from a log with everything in it to tables and a report, again and again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from latecomer.cli.analyze_tables import print_analysis
from latecomer.cli.main import CANNOT, VERBS, run
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.record import Kind, Record
from latecomer.pipeline import ingest as ingest_module
from latecomer.pipeline.classes import named
from latecomer.pipeline.ingest import Kept, batches_of, ingest, records_of
from latecomer.pipeline.job import Analysis, Wish, analyze
from latecomer.pipeline.log import Window
from latecomer.pipeline.output import Run, opened
from latecomer.pipeline.stages.rates import smoothed
from latecomer.pipeline.stages.records import judged, sound
from latecomer.pipeline.tables import Tables
from tests.pipeline.engine import shipped
from tests.pipeline.logs import BEGIN_US, flip, later_schema, page_byte, record, truncate, write_log
from tests.pipeline.test_output import files

NOW_US = BEGIN_US + 1000 * 1_000_000
SHOP = "shop/<script>alert(1)</script>"
WISH = Wish(named(["city/+", f"{SHOP}/#"]), brokers=("b1", "b2"), max_bad=0.5)


def first_part() -> list[Record]:
    """What broker b1 wrote."""
    found = [record(0, "b1", Kind.STARTED, count=1)]
    for n in range(12):
        found.append(record(n, "b1", Kind.REQUESTED, client="c", filter="$history/last=3/city/north"))
        found.append(record(n, "b1", Kind.RECALLED, filter="city/north", peer="b2", hops=2, detail="complete"))
    found.append(record(20, "b1", Kind.CONNECTED, client="wanderer"))
    found.append(record(21, "b1", Kind.SUBSCRIBED, client="wanderer", filter=f"{SHOP}/x"))
    found.append(record(22, "b1", Kind.DISCONNECTED, client="wanderer"))
    found.append(record(23, "b9", Kind.PUBLISHED, topic="city/north", count=7))  # a broker that there is not
    return found


def second_part() -> list[Record]:
    """What broker b2 wrote; its clock is wrong once."""
    found = [record(n, "b2", Kind.PUBLISHED, topic="city/north", count=n) for n in range(5)]
    found.append(record(30, "b2", Kind.CONNECTED, client="wanderer"))
    found.append(
        record(
            30, "b2", Kind.MOVED, client="wanderer", peer="b1", count=4, detail="standard, 6 frames, 900 bytes, 12 ms"
        )
    )
    found.append(record(31, "b2", Kind.REQUESTED, client="wanderer", filter="nowhere/#"))
    found.append(record(32, "b2", Kind.RECALLED, filter="nowhere/#", hops=-1, detail="no store"))
    found.append(record(10**8, "b2", Kind.PUBLISHED, topic="from/the/future"))
    return found


class Logs(NamedTuple):
    """One log, taken in twice by one output, and at once by another."""

    folder: Path
    done: Analysis
    kept: Kept
    """After the first of the two."""
    once: Kept
    damaged: list[str]


@pytest.fixture(scope="module")
def logs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Logs:
    folder = tmp_path_factory.mktemp("analyze")
    log, whole = folder / "net", folder / "whole"
    (one,) = write_log(log / "b1" / "data" / "events", first_part())
    torn, _ = write_log(log / "b1" / "data" / "events", first_part(), boot=1)[::-1]
    truncate(torn)
    later_schema(log / "b1" / "data" / "events" / "later.parquet", [record(40, "b1", Kind.STARTED, count=2)])
    with opened(folder / "twice") as out:
        kept = ingest(spark, out, log, max_bad=0.5, now_us=NOW_US)
    write_log(log / "b2" / "data" / "events", second_part())
    spoilt = write_log(log / "b2" / "data" / "events", second_part(), boot=1)[-1]
    flip(spoilt, page_byte(spoilt))
    shutil.copytree(log, whole)  # which keeps the instants at which files were written
    one.unlink()  # the broker keeps only so many
    with shipped(spark, always=True):
        done = analyze(spark, log, folder / "twice", WISH, now_us=NOW_US)
    with opened(folder / "once") as out:
        once = ingest(spark, out, whole, max_bad=0.5, now_us=NOW_US)
    damaged = sorted(path.relative_to(log).as_posix() for path in (torn, spoilt))
    return Logs(folder, done, kept, once, damaged)


def read(done: Analysis, table: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in pq.read_table(done.path / table).to_pylist()]


def followed(counts: list[int]) -> int:
    """The filter after so many periods."""
    value = counts[0] * 1_000_000
    for count in counts[1:]:
        value = smoothed(value, count)
    return value


def test_in_two_steps_or_in_one_every_byte_is_the_same(spark: SparkSession, logs: Logs) -> None:
    assert (logs.kept.new, logs.done.segments_new, logs.once.new) == (2, 1, 3)
    assert (logs.once.rows, logs.once.damaged) == (logs.done.summary.rows, logs.done.summary.segments_damaged)
    records = judged(records_of(spark, logs.folder / "once", logs.once), NOW_US, WISH.brokers)
    window, first = Window(BEGIN_US, BEGIN_US + 40_000_001), BEGIN_US // 1_000_000
    again = Run(logs.folder / "once", "again")
    Tables(spark, again, sound(records), WISH.classes, window, 1, lambda _: None).write_demand(first, first + 40, 2)
    again.finish()
    written = files(again.path)
    assert len(written) == 6
    assert written == {name: data for name, data in files(logs.done.path).items() if name in written}


def test_the_tables(logs: Logs) -> None:
    done, seconds = logs.done, 40.000001
    assert read(done, "demand") == [
        ("", "b2", 1, 1, 1 / seconds, followed([0] * 31 + [1] + [0] * 9)),
        ("city/+", "b1", 12, 12, 12 / seconds, followed([1] * 12 + [0] * 29)),
    ]
    assert read(done, "publications")[0][:3] == ("city/+", "b2", 1 + 1 + 2 + 3 + 4)
    assert read(done, "distances") == [("", "b2", 0, 1, 1, 0, 0), ("city/+", "b1", 12, 0, 0, 24, 48)]
    assert read(done, "transitions") == [("b1", "b2", 1, 1, 8_000_000)]
    assert read(done, "hand_overs") == [("b1", "b2", "standard", 1, 1, 4, 6, 900, 12.0, 12, [0] * 4 + [1] + [0] * 11)]
    assert 'aria-label="time of hand-overs by algorithm"' in (done.path / "report.html").read_text("utf-8")
    assert read(done, "subscriptions") == [(f"{SHOP}/#", "b1", 1, 1, 0)]
    assert [row[:2] for row in read(done, "brokers")] == [("b1", 29), ("b2", 9)]
    assert read(done, "popularity")[0][:4] == ("city/+", 12, 1.0, 1)
    periods = read(done, "timeline")
    assert sum(row[1] for row in periods) == 38  # type: ignore[misc]
    begins = [int(str(row[0])) for row in periods]
    assert begins == list(range(begins[0], begins[0] + 41_000_000, 1_000_000))
    assert any(row[1:] == (0,) * 7 for row in periods), "a second in which nothing happened is there, and is zero"


def test_nothing_is_lost(logs: Logs) -> None:
    """Every row of the segments that can be read is a record or in quarantine, whole; every other segment is named."""
    found = logs.done.summary
    quarantine = read(logs.done, "quarantine")
    reasons = sorted((row[1], row[3], row[7], row[12]) for row in quarantine if row[3] is not None)
    assert reasons == [
        ("an instant more than a day ahead", "b2", "from/the/future", 0),
        ("an unknown broker", "b9", "city/north", 7),
    ]
    assert found.quarantined_by_reason == {"an instant more than a day ahead": 1, "an unknown broker": 1}
    assert found.rows == len(first_part()) + 1 + len(second_part())
    assert sorted(str(row[0]) for row in quarantine if row[3] is None) == logs.damaged
    assert [one.name for one in found.segments_damaged] == logs.damaged
    assert (found.requests, found.unclassified, found.served, found.unserved) == (13, 1, 12, 1)


def test_the_report(logs: Logs) -> None:
    page = (logs.done.path / "report.html").read_text()
    for words in ("Demand", "Zipf", "12 requests were served from 2.0000 ± 0.0000", "an unknown broker", "1 times"):
        assert words in page
    assert "<script" not in page
    assert page.count("<svg") == 7
    told = json.loads((logs.done.path / "summary.json").read_text())
    assert told["requests"] == 13


def test_the_terminal(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    print_analysis(Console(width=120), logs.done, Path("out"))
    shown = capsys.readouterr().out
    assert "13 (0.325/s) for 2 topic classes" in shown
    assert "2.0000 ± 0.0000 hops (12 served, 1 not)" in shown
    assert "1 with an unknown broker" in shown
    assert "report out/latest/report.html" in shown


def test_a_rerun_reads_nothing_again(spark: SparkSession, logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_module, "read_segments", None)
    with opened(logs.folder / "once") as out:
        again = ingest(spark, out, logs.folder / "whole", max_bad=0.5, now_us=NOW_US)
    assert (again.new, again.damaged, again.rows) == (0, logs.done.summary.segments_damaged, logs.done.summary.rows)


def test_a_restored_segment_is_read_after_all(spark: SparkSession, logs: Logs) -> None:
    out, log = logs.folder / "copy", logs.folder / "restored"
    for source, target in ((logs.folder / "once", out), (logs.folder / "whole", log)):
        shutil.copytree(source, target, symlinks=True)
    spoilt = log / logs.damaged[-1]
    flip(spoilt, page_byte(spoilt))  # once more, and it is as it was
    with opened(out) as held:
        again = ingest(spark, held, log, max_bad=0.5, now_us=NOW_US)
    assert again.new == 1
    assert [one.name for one in again.damaged] == logs.damaged[:1]
    assert again.rows == logs.done.summary.rows + len(second_part())


def test_a_segment_that_goes_while_it_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = write_log(tmp_path / "log", first_part()), write_log(tmp_path / "log", second_part(), broker="b2")
    counts = ingest_module._counts

    def late(*given: Any) -> dict[str, int]:
        one[0].unlink(missing_ok=True)
        return counts(*given)

    monkeypatch.setattr(ingest_module, "_counts", late)
    with opened(tmp_path / "out") as out:
        kept = ingest(spark, out, tmp_path / "log", max_bad=0.5, now_us=NOW_US)
    assert (kept.gone, kept.new, kept.rows) == ((one[0].name,), 1, len(second_part()))
    assert len(two) == 2
    assert batches_of(tmp_path / "out").batches == kept.batches


def test_too_much_that_is_bad(spark: SparkSession, tmp_path: Path) -> None:
    """The job stops, takes nothing, and leaves what was bad to be looked at."""
    future = [record(10**8 + n, "b1", Kind.REQUESTED, filter="a") for n in range(3)]
    write_log(tmp_path / "log", future + first_part())
    told = r"3 of 32 rows cannot be used \(3 with an instant more than a day ahead\), more than the 5% of --max-bad"
    with pytest.raises(LatecomerError, match=told):
        analyze(spark, tmp_path / "log", tmp_path / "out", Wish(named(["a"])), now_us=NOW_US)
    assert pq.read_table(tmp_path / "out" / "refused" / "quarantine").num_rows == 3
    assert not batches_of(tmp_path / "out").batches
    assert not (tmp_path / "out" / "latest").exists()


# -- without Spark


def test_what_cannot_be_carried_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence each, and nothing is made."""
    no: Any = None
    (tmp_path / "empty").mkdir()
    for folder, told in (("empty", "there is no segment"), ("missing", "does not exist")):
        with pytest.raises(LatecomerError, match=told):
            analyze(no, tmp_path / folder, tmp_path / f"out-{folder}", Wish(named(["a"])))
    assert not (tmp_path / "out-missing").exists()
    write_log(tmp_path / "log", first_part())
    with opened(tmp_path / "out"), pytest.raises(SettingsError, match="being written by another job"):
        analyze(no, tmp_path / "log", tmp_path / "out", Wish(named(["a"])))
    for words in (["--max-bad", "7"], ["--period", "1ms"], ["--since", "yesterday"], ["--depth", "0"]):
        assert run(VERBS, ["analyze", str(tmp_path / "log"), *words]) == CANNOT
        assert words[0] in capsys.readouterr().err


def test_another_log_for_the_same_output(tmp_path: Path, spark: SparkSession) -> None:
    (file,) = write_log(tmp_path / "log", first_part())
    with opened(tmp_path / "out") as out:
        ingest(spark, out, tmp_path / "log", max_bad=0.5, now_us=NOW_US)
        file.unlink()
        write_log(tmp_path / "log", first_part() + second_part())
        with pytest.raises(SettingsError, match=r"--out: holds the records of another log, in which .* was different"):
            ingest(spark, out, tmp_path / "log", max_bad=0.5, now_us=NOW_US)


def test_the_verb(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The command line up to the job: what it is asked for."""
    asked: list[Any] = []

    @contextmanager
    def at_hand(*_: object) -> Iterator[SparkSession]:
        yield spark

    def job(spark: SparkSession, log: Path, out: Path, wish: Wish, **_: object) -> Analysis:
        asked.append((log, out, wish))
        raise LatecomerError("enough")

    monkeypatch.setattr("latecomer.cli.analyze.opened", at_hand)
    monkeypatch.setattr("latecomer.pipeline.job.analyze", job)
    monkeypatch.setattr("latecomer.pipeline.log.segment_names", lambda log: ["one"])
    (tmp_path / "classes").write_text("a/#\nb\n")
    words = ["--classes", str(tmp_path / "classes"), "--since", "100", "--until", "200", "--period", "1m"]
    assert run(VERBS, ["analyze", "log", "--out", "here", "--network", "tree:3", "--max-bad", "0.1", *words]) == CANNOT
    assert capsys.readouterr().err == "latecomer: enough\n"
    ((log, out, wish),) = asked
    assert (log, out, wish.period_s, wish.max_bad) == (Path("log"), Path("here"), 60, 0.1)
    assert (wish.classes.filters, len(wish.brokers)) == (("a/#", "b"), 3)
    assert (wish.window.since_us, wish.window.until_us) == (100_000_000, 200_000_000)
