"""A log that is watched while it grows: everything is counted once, whatever is in it and whenever it comes."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from latecomer.eventlog.errors import EventLogError
from latecomer.model.demand import read_demand
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.record import Kind, Record
from latecomer.pipeline.classes import Classes, named
from latecomer.pipeline.job import measure
from latecomer.pipeline.log import find_log
from latecomer.pipeline.stages.periods import Filter, Seen, Span, closed_span
from latecomer.pipeline.stages.rates import smoothed
from latecomer.pipeline.watch_job import Counter, Glance, Wish, await_folder, glance, name_of, watch
from latecomer.pipeline.watch_state import NONE_YET, State, taken
from tests.conftest import EVERYTHING
from tests.pipeline.watch_log import BEGIN_US, MINUTE_S, SECOND_US, asked, drawn, plain_count, state_count, write

MINUTE_US = MINUTE_S * SECOND_US
DEPTH = Classes(depth=2)


def wished(log: Path, classes: Classes = DEPTH) -> Wish:
    return Wish(log, classes, MINUTE_S, grace_us=MINUTE_US)


def counted(spark: SparkSession, path: Path, wish: Wish) -> Glance:
    """What a watch knows that counts what is there, and ends."""
    with taken(path, wish.options()) as state:
        return list(watch(spark, state, wish, once=True))[-1]


def hand_over(spark: SparkSession, state: State, wish: Wish, id: int, *files: Path) -> None:
    """A batch as Spark hands it over."""
    paths = spark.createDataFrame([(f"file:{file}",) for file in files], "path string")
    Counter(state, wish)(paths, id)


# -- which periods are closed


@pytest.mark.parametrize(
    ("last", "grace_s", "now", "closed"),
    [
        ({"b1": 130, "b2": 125}, 60, 1000, 2),  # all have written past the second minute
        ({"b1": 130, "b2": 100}, 60, 1000, 1),  # b2 has not, and is not late yet
        ({"b1": 190, "b2": 100}, 60, 1000, 2),  # b1 is a grace past it
        ({"b1": 4000, "b2": 100}, 60, 200, 2),  # a clock that is ahead closes nothing before its time
        ({"b1": 59, "b2": 59}, 60, 1000, 0),
    ],
)
def test_closed_periods(last: dict[str, int], grace_s: int, now: int, closed: int) -> None:
    seen = {name: Seen(1, BEGIN_US, BEGIN_US + at * SECOND_US) for name, at in last.items()}
    now_us = BEGIN_US + now * SECOND_US
    span = closed_span(seen, MINUTE_S, grace_us=grace_s * SECOND_US, now_us=now_us)
    assert (0 if span is None else span.count) == closed


def test_the_period_in_which_a_log_begins_is_not_whole() -> None:
    seen = {"b1": Seen(1, BEGIN_US + 1, BEGIN_US + 3 * MINUTE_US)}
    span = closed_span(seen, MINUTE_S, grace_us=0, now_us=BEGIN_US * 2)
    assert span == Span(BEGIN_US // MINUTE_US + 1, BEGIN_US // MINUTE_US + 2, MINUTE_S)


def test_weights_are_those_of_the_filter() -> None:
    span, counts = Span(100, 104, 1), [5, 0, 9, 2, 7]
    by_step = counts[0] * 1_000_000
    for count in counts[1:]:
        by_step = smoothed(by_step, count)
    weights = Filter(300).weights(span)
    assert sum(weights.values()) == pytest.approx(1)
    by_weight = sum(weight * counts[period - 100] for period, weight in weights.items())
    assert by_step / 1e6 == pytest.approx(by_weight, abs=1e-5)


# -- the stream


def test_whatever_order_it_comes_in(spark: SparkSession, tmp_path: Path) -> None:
    """Late segments and new brokers change nothing: the demand is the same to the last byte, and the counts exact."""
    log, chance = tmp_path / "log [1]", random.Random(4)
    pieces = {(broker, boot): drawn(chance, broker, 60, 300) for broker in ("b1", "b2", "b3") for boot in (1, 2)}
    wish, files = wished(log), {key: write(log, *key, records) for key, records in pieces.items()}
    with taken(tmp_path / "late", wish.options()) as late, taken(tmp_path / "whole", wish.options()) as whole:
        hand_over(spark, late, wish, 0, files["b1", 2], files["b2", 1])
        hand_over(spark, late, wish, 1, *(files[key] for key in (("b3", 1), ("b1", 1), ("b2", 2), ("b3", 2))))
        hand_over(spark, whole, wish, 0, *files.values())
        found = glance(spark, late, wish)
        assert glance(spark, whole, wish).demand == found.demand
    assert (found.total.segments, found.total.rows) == (6, 360)
    assert state_count(tmp_path / "late") == state_count(tmp_path / "whole") == plain_count(log)
    written = (tmp_path / "late" / "demand.json").read_bytes()
    assert written == (tmp_path / "whole" / "demand.json").read_bytes()
    assert read_demand(written.decode(), "demand.json") == found.demand


def test_bad_segments_and_rows_stop_nothing(spark: SparkSession, tmp_path: Path) -> None:
    log, state = tmp_path / "log", tmp_path / "state"
    good = write(log, "b1", 1, [asked("b1", "t/1/x", second) for second in range(200)])
    folder = good.parent
    (folder / "0-truncated.parquet").write_bytes(good.read_bytes()[:-100])
    (folder / "0-empty.parquet").write_bytes(b"")
    pq.write_table(pa.table({"x": [1, 2]}), folder / "0-foreign.parquet")
    (folder / "_hidden.parquet").write_bytes(b"being written")
    page = bytearray(write(log, "b1", 2, [asked("b1", "t/2/x", second) for second in range(200)]).read_bytes())
    page[20] ^= 0xFF
    (folder / "0-flipped.parquet").write_bytes(page)
    (log / "b1" / "store").mkdir()
    pq.write_table(pa.table({"x": [1]}), log / "b1" / "store" / "history.parquet")  # not of the log
    # Two rows of a broker whose clock is far ahead, in a file from the next century: neither hides the others.
    ahead_us = time.time_ns() // 1000 + 3 * 86_400 * SECOND_US
    ahead = write(
        log, "b2", 1, [Record(ahead_us, "b2", Kind.REQUESTED, filter="t/1/x")] * 2 + [asked("b2", "t/1/x", 1)]
    )
    os.utime(ahead, (4_000_000_000, 4_000_000_000))
    found = counted(spark, state, wished(log))
    write(log, "b3", 1, [asked("b3", "t/1/x", second) for second in range(200)])
    found = counted(spark, state, wished(log))

    assert found.total.refused == {"an instant more than a day ahead": 2}
    assert sorted(Path(name).name for name in found.total.damaged) == [
        "0-empty.parquet",
        "0-flipped.parquet",
        "0-foreign.parquet",
        "0-truncated.parquet",
    ]
    assert found.total.requests == 200 + 200 + 1 + 200
    assert found.span is not None
    assert found.span.count == 2
    rows = pq.read_table(state / "quarantine").to_pylist()
    assert len(rows) == 4 + 2
    assert {row["at_us"] for row in rows if row["reason"].startswith("an instant")} == {ahead_us}


def test_counts_are_those_of_a_whole_log(spark: SparkSession, tmp_path: Path) -> None:
    """Requests for several classes, as clients write them; publications; and what is of no class."""
    texts = ["t/1/x", "t/+/x", "#", "$history/last=3/t/2", "$share/g/t/1/#", "t ? price < 3", "a/#/b", "u/1"]
    records = [asked("b1", text, 20 + 7 * place) for place, text in enumerate(texts)]
    records += [Record(BEGIN_US + 1, "b1", Kind.PUBLISHED, topic="t/3/y", count=5)]
    records += [Record(BEGIN_US, "b1", Kind.CONNECTED), asked("b1", "-/none ? x < 1", 2)]
    records += [Record(BEGIN_US + 121 * SECOND_US, "b1", Kind.CONNECTED)]
    write(tmp_path / "log", "b1", 1, records)
    for classes in (DEPTH, named(["t/#", "t/1/#", "never/#"])) if EVERYTHING else (DEPTH,):
        wish = Wish(tmp_path / "log", classes, 120, permille=1000, grace_us=0)
        with taken(tmp_path / f"state{classes.depth}", wish.options()) as state:
            hand_over(spark, state, wish, 0, *wish.folder.glob("*/events/*.parquet"))
            found = glance(spark, state, wish)
        whole = measure(spark, find_log(wish.folder), classes)
        assert found.unclassified == whole.unclassified > 0
        assert found.demand is not None
        assert found.demand.topics == whole.demand.topics
        # All in one period, which has all the weight; only the last record is in the next.
        per_s = whole.window.seconds
        for ours, theirs in (
            (found.demand.rates, whole.demand.rates),
            (found.demand.publications, whole.demand.publications),
        ):
            counts = {name: round(row["b1"] * 120) for name, row in ours.items()}
            assert counts == {name: round(row["b1"] * per_s) for name, row in theirs.items()}
        assert found.demand.requests == whole.demand.requests


def test_a_batch_that_is_handed_over_again_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "log"
    wish = wished(log)
    file = write(log, "b1", 1, [asked("b1", "t/1/x", second) for second in range(100)])
    with taken(tmp_path / "state", wish.options()) as state:
        hand_over(spark, state, wish, 0, file)
        hand_over(spark, state, wish, 0, file)
        # Killed before the folder was in place: what is left is no batch.
        (tmp_path / "state" / "batches" / "_0000000001" / "counts").mkdir(parents=True)
        hand_over(spark, state, wish, 1, log / "b1" / "events" / "0-removed.parquet")
        total = state.total(state.folders())
    assert (total.requests, total.gone) == (100, 1)
    assert state_count(tmp_path / "state") == plain_count(log)


def test_folded_batches_say_the_same(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "log"
    wish, folders = wished(log), tmp_path / "state" / "batches"
    files = [write(log, "b1", boot, drawn(random.Random(boot), "b1", 40, 200)) for boot in range(4)]
    with taken(tmp_path / "state", wish.options()) as state:
        for id, file in enumerate(files[:3]):
            hand_over(spark, state, wish, id, file)
        before, counts = state.total(state.folders()), state_count(tmp_path / "state")
        state.fold(spark, at=3)
        assert [path.name for path in folders.iterdir()] == ["upto-0000000002"]
        assert (state.total(state.folders()), state_count(tmp_path / "state")) == (before, counts)
        # What was folded is not counted again, nor what a watch folded that was killed before it removed the rest.
        hand_over(spark, state, wish, 1, files[1])
        (folders / "upto-0000000002").rename(folders / "aside")
        hand_over(spark, state, wish, 2, files[2])
        (folders / "aside").rename(folders / "upto-0000000002")
        assert state.total(state.folders()) == before
        hand_over(spark, state, wish, 3, files[3])
        state.fold(spark, at=2)
    assert [path.name for path in folders.iterdir()] == ["upto-0000000003"]
    assert state_count(tmp_path / "state") == plain_count(log)


def test_nothing_closed_is_no_demand(spark: SparkSession, tmp_path: Path) -> None:
    wish = wished(tmp_path / "log")
    file = write(wish.folder, "b1", 1, [asked("b1", "t/1/x", second) for second in range(30)])
    with taken(tmp_path / "state", wish.options()) as state:
        hand_over(spark, state, wish, 0, file)
        found = glance(spark, state, wish)
    assert (found.span, found.demand, found.total.requests) == (None, None, 30)
    assert not (tmp_path / "state" / "demand.json").exists()


def test_a_stream_that_fails_says_why(spark: SparkSession, tmp_path: Path) -> None:
    wish, state = wished(tmp_path / "log"), tmp_path / "state"
    write(wish.folder, "b1", 1, [asked("b1", "t/1/x", second) for second in range(30)])
    with taken(state, wish.options()):
        (state / "batches").write_text("in the way")
    with pytest.raises(LatecomerError, match=r"the stream stopped: .*Not a directory.*; start it again"):
        counted(spark, state, wish)
    (state / "batches").unlink()
    assert counted(spark, state, wish).total.requests == 30  # the same batch, handed over again
    for file in (state / "checkpoint" / "offsets").iterdir():
        file.unlink() if file.name.endswith(".crc") else file.write_text("")
    with pytest.raises(LatecomerError, match=r"Spark does not go on: .*; start it again, .* name a new --state"):
        counted(spark, state, wish)


# -- the folders


def test_where_a_segment_can_be(tmp_path: Path) -> None:
    names = ("x.parquet", "events/x.parquet", "b1/events/x.parquet", "b1/data/events/x.parquet")
    assert [name_of(tmp_path, f"file:{tmp_path / name}") for name in names] == list(names)
    for name in ("b1/x.parquet", "b1/store/x.parquet", "a/b/c/events/x.parquet"):
        assert name_of(tmp_path, f"file:{tmp_path / name}") is None


def test_it_waits_for_the_log(tmp_path: Path) -> None:
    told: list[str] = []
    log = tmp_path / "log"
    assert not await_folder(log, lambda: True, told.append)
    assert told == [f"{log} does not exist yet; waiting for it"]
    maker = threading.Timer(0.2, log.mkdir)
    maker.start()
    assert await_folder(log, lambda: False, told.append)
    maker.join()
    (tmp_path / "file").write_text("")
    with pytest.raises(EventLogError, match="is not a folder"):
        await_folder(tmp_path / "file", lambda: False, told.append)


def test_one_watch_at_a_time(tmp_path: Path) -> None:
    options = wished(tmp_path / "log").options()
    with (
        taken(tmp_path / "state", options),
        pytest.raises(SettingsError, match="being written by another job"),
        taken(tmp_path / "state", options),
    ):
        pass
    with taken(tmp_path / "state", options) as state:
        assert state.total(state.folders()) == NONE_YET


def test_a_state_of_other_counts_is_refused(tmp_path: Path) -> None:
    options = wished(tmp_path / "log").options()
    with taken(tmp_path / "state", options):
        pass
    for change, told in (
        ({"period_s": 600}, "a --period of 60 s, not 600 s"),
        ({"log": "elsewhere"}, "not elsewhere"),
        ({"classes": Classes(depth=3)}, "topic classes by --depth 2, not by --depth 3"),
        ({"classes": named(["a/#"])}, "topic classes by --depth 2, not that are named"),
    ):
        other = msgspec.structs.replace(options, **change)
        with pytest.raises(SettingsError, match=told), taken(tmp_path / "state", other):
            pass
    (tmp_path / "tables" / "batches" / "batch=000001").mkdir(parents=True)
    with pytest.raises(SettingsError, match="something else than a watch"), taken(tmp_path / "tables", options):
        pass
    assert not (tmp_path / "tables" / "options.json").exists()
