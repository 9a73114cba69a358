"""The session: settings that are refused, and what one is told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from latecomer.cli.main import VERBS, run
from latecomer.cli.spark_options import opened
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.pipeline.inputs import check_inputs, input_bytes, nanosecond_columns
from latecomer.pipeline.reachable import addresses, check_reachable
from latecomer.pipeline.session import JAVA_OPTIONS, QUICK, SMALL_BYTES, STEADY, SparkSettings, cores, options, session


@pytest.mark.parametrize("master", ["", "local[0]", "http://here", "spark://", "local[two]", "local [2]"])
def test_a_master_that_is_none_is_named(master: str) -> None:
    with pytest.raises(SettingsError, match=r"--master.*local\[\*\]"):
        SparkSettings(master).check()


@pytest.mark.parametrize("memory", ["4", "g", "0g", "4GB", "-1g"])
def test_a_memory_that_is_none_is_named(memory: str) -> None:
    with pytest.raises(SettingsError, match=r"--memory.*900m"):
        SparkSettings(memory=memory).check()


@pytest.mark.parametrize("master", ["local", "local[3]", "local[*]", "spark://a:7077", "sc://a:15002", "yarn"])
def test_what_spark_knows_is_let_through(master: str) -> None:
    SparkSettings(master).check()


def test_cores_of_a_local_master() -> None:
    assert [cores("local"), cores("local[3]")] == [1, 3]
    assert cores("local[*]") >= 1


@pytest.mark.parametrize(
    ("size", "java", "adaptive"),
    [(0, QUICK, "false"), (SMALL_BYTES, QUICK, "false"), (SMALL_BYTES + 1, STEADY, "true"), (None, STEADY, "true")],
)
def test_java_is_run_by_size_of_input(tmp_path: Path, size: int | None, java: str, adaptive: str) -> None:
    told = options(SparkSettings("local[2]", input_bytes=size), tmp_path)
    assert (told[JAVA_OPTIONS], told["spark.sql.adaptive.enabled"]) == (java, adaptive)
    assert options(SparkSettings("spark://a:7077", input_bytes=size), tmp_path)["spark.sql.adaptive.enabled"] == "true"


def test_what_somebody_says_about_java_holds(tmp_path: Path) -> None:
    wanted = {JAVA_OPTIONS: "-XX:+UseZGC"}
    assert options(SparkSettings(conf=wanted, input_bytes=1), tmp_path)[JAVA_OPTIONS] == "-XX:+UseZGC"


def test_how_much_there_is_to_read(tmp_path: Path) -> None:
    (tmp_path / "folder" / "below").mkdir(parents=True)
    (tmp_path / "folder" / "below" / "a.parquet").write_bytes(b"12345")
    (tmp_path / "b.csv").write_bytes(b"123")
    assert input_bytes([tmp_path / "folder", str(tmp_path / "b.csv")]) == 8
    assert input_bytes([]) == 0
    assert input_bytes([tmp_path / "b.csv", "s3a://bucket/x"]) is None


def test_a_session_is_quiet_and_knows_no_other_time_zone(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.sql("SELECT CAST(TIMESTAMP'1970-01-01 00:00:01' AS BIGINT) AS second").first() == (1,)


# -- what is wrong is told before Spark starts, and in a sentence


@pytest.mark.parametrize(
    ("master", "found"),
    [
        ("local[*]", []),
        ("yarn", []),
        ("spark://a:7077,b", [("a", 7077), ("b", 7077)]),
        ("sc://a/;token=x", [("a", 15002)]),
        ("sc://[::1]:9", [("::1", 9)]),
        ("k8s://https://a:6443", [("a", 6443)]),
    ],
)
def test_addresses_of_masters(master: str, found: list[tuple[str, int]]) -> None:
    assert addresses(master) == found


@pytest.mark.parametrize("kind", ["spark", "sc"])
def test_a_master_where_nobody_listens_is_told_at_once(kind: str) -> None:
    with socket.socket() as taken:  # bound, but nobody accepts
        taken.bind(("127.0.0.1", 0))
        master = f"{kind}://127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(SettingsError, match=r"--master: .*cannot be reached \(.*connection refused\)"),
            session(SparkSettings(master)),
        ):
            pass


def test_a_master_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(address: tuple[str, int], timeout: float) -> None:
        assert timeout <= 5
        raise TimeoutError

    monkeypatch.setattr("latecomer.pipeline.reachable.socket.create_connection", silent)
    with pytest.raises(SettingsError, match="a:7077 does not answer within 5 s"):
        check_reachable("spark://a:7077,b:7077,c:7077")


def test_files_are_looked_at_before_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latecomer.pipeline.session.session", None)  # nobody may start one
    whole, cut = tmp_path / "whole.parquet", tmp_path / "cut.parquet"
    pq.write_table(pa.table({"user": [1], "at": pa.array([0], pa.timestamp("ns"))}), whole)
    cut.write_bytes(whole.read_bytes()[:-10])
    assert nanosecond_columns(str(whole)) == {"at"}
    check_inputs([str(whole), "s3a://bucket/x", f"{tmp_path}/*.csv"])
    check_inputs([str(cut)], here=False)
    for verb in ("checkins", "movement"):
        assert run(VERBS, [verb, str(tmp_path / "none.csv")]) == 2
        assert "none.csv: there is no such file" in capsys.readouterr().err
        assert run(VERBS, [verb, str(cut)]) == 2
        assert "cut.parquet: is not a whole Parquet file" in capsys.readouterr().err
    (tmp_path / "log").mkdir()
    assert run(VERBS, ["analyze", str(tmp_path / "log"), "--out", str(tmp_path / "out")]) == 2
    assert "there is no segment of an event log" in capsys.readouterr().err


def test_what_fails_inside_spark_is_one_sentence_with_the_reason(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Java process has ended when the sentence is read, as it has for a user."""

    @contextmanager
    def ending(_: SparkSettings) -> Iterator[SparkSession]:
        yield spark
        raise AssertionError("the failure must come through")

    monkeypatch.setattr("latecomer.pipeline.session.session", ending)
    broken = "raise_error('the file is cut')"
    with pytest.raises(LatecomerError, match=r"Spark failed: .*the file is cut") as told, opened() as found:
        found.sql(f"SELECT {broken}").collect()
    assert "\n" not in str(told.value)
    assert "stacktrace" not in str(told.value)
    with pytest.raises(LatecomerError, match=r"Spark failed: .*is not a Parquet file"), opened() as found:
        found.read.parquet(__file__).collect()


@pytest.mark.skipif(not os.environ.get("LATECOMER_TEST_ALL"), reason="starts a Spark of its own; LATECOMER_TEST_ALL=1")
def test_ctrl_c_is_one_line(tmp_path: Path) -> None:
    call = "from latecomer.cli.main import main; main()"
    words = ["synth", "--users=50000", "--months=3", f"--out={tmp_path / 'out'}", "--master=local[1]", "--memory=600m"]
    process = subprocess.Popen(
        [sys.executable, "-c", call, *words], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while process.poll() is None and not list(tmp_path.glob("out/**/*.parquet")):
        time.sleep(0.05)  # until workers write
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "latecomer: interrupted\n")
