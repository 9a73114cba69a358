"""Demand and distances that Spark measures, against a count by hand."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.eventlog import read_records
from latecomer.model.demand import read_demand, write_demand
from latecomer.model.errors import LatecomerError
from latecomer.model.record import Kind, Record
from latecomer.model.topics import topic_overlaps
from latecomer.pipeline.classes import Classes, class_of, named, own_class
from latecomer.pipeline.job import Measured, Sums, measure, measured_demand, measured_distance
from latecomer.pipeline.log import Window, find_log
from tests.pipeline.logs import BEGIN_US, flip, page_byte, record, write_log

ASKED = {
    "a/x": "a/x",
    "a/#": "a/#",
    "$history/since=-1h/a/y": "a/y",
    "b ? n > 1": "b",
    "+/x": "+/x",
    "c/d/e": "c/d/e",
    "#": "#",
}
CLASSES = [named(["a/#", "b"]), named(["a/x", "#"]), Classes(depth=1), Classes(depth=2)]

entries = st.one_of(
    st.builds(
        lambda broker, text: (Kind.REQUESTED, broker, {"filter": text}),
        st.sampled_from(["b1", "b2", "b3"]),
        st.sampled_from(list(ASKED)),
    ),
    st.builds(
        lambda broker, text, hops: (
            Kind.RECALLED,
            broker,
            {"filter": text, "hops": hops, "peer": "" if hops < 0 else "b2", "detail": "complete" if hops else "no"},
        ),
        st.sampled_from(["b1", "b2"]),
        st.sampled_from(list(ASKED)),
        st.integers(-1, 9),
    ),
    st.builds(
        lambda topic, count: (Kind.PUBLISHED, "b3", {"topic": topic, "count": count}),
        st.sampled_from(["a/x", "a/y/z", "b", "q/r"]),
        st.integers(0, 5),
    ),
    st.just((Kind.STARTED, "b4", {})),
)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, 100), entries), min_size=20, max_size=120), st.sampled_from(CLASSES))
def test_a_count_by_hand(
    spark: SparkSession, drawn: list[tuple[int, tuple[Kind, str, dict[str, object]]]], classes: Classes
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        records = [record(at, broker, kind, **fields) for at, (kind, broker, fields) in drawn]
        write_log(folder, records[::2])
        write_log(folder, records[1::2], broker="b2")
        compare(measure(spark, find_log(folder), classes), list(read_records(folder)), classes)
    finally:
        shutil.rmtree(folder)


def compare(found: Measured, records: list[Record], classes: Classes) -> None:
    """With loops where Spark has joins."""
    instants = [one.at_us for one in records]
    seconds = (max(instants) + 1 - min(instants)) / 1e6
    asked = [(one.broker, ASKED[one.filter]) for one in records if one.kind == Kind.REQUESTED]
    ended = [one for one in records if one.kind == Kind.RECALLED]
    published = [one for one in records if one.kind == Kind.PUBLISHED]
    if classes.depth:
        names = {class_of(one.topic, classes.depth) for one in published}
        names |= {own_class(text, classes.depth) for _, text in asked}
        names |= {own_class(ASKED[one.filter], classes.depth) for one in ended}
        filters = tuple(sorted(names - {""}))
    else:
        filters = classes.filters
    counts = Counter((name, broker) for broker, text in asked for name in filters if topic_overlaps(name, text))
    rates = {
        name: row for name in filters if (row := {b: n / seconds for (c, b), n in sorted(counts.items()) if c == name})
    }
    assert (found.demand.topics, found.demand.rates) == (filters, rates)
    unclassified = sum(not any(topic_overlaps(name, text) for name in filters) for _, text in asked)
    assert (found.demand.requests, found.unclassified) == (len(asked) - unclassified, unclassified)
    times = Counter[str]()
    for one in published:
        times.update({name: max(1, one.count) for name in filters if topic_overlaps(name, one.topic)})
    assert found.demand.publications == {name: {"b3": times[name] / seconds} for name in filters if times[name]}
    total = [one for one in ended if any(topic_overlaps(name, ASKED[one.filter]) for name in filters)]
    assert found.distances.total == sums(total)
    for name in filters:
        mine = [one for one in ended if topic_overlaps(name, ASKED[one.filter])]
        assert found.distances.of_class(name) == sums(mine)
    assert found.rows == len(records)


def sums(records: list[Record]) -> Sums:
    far = [one.hops for one in records if one.hops >= 0]
    lacking = sum(one.detail != "complete" for one in records)
    return Sums(len(far), len(records) - len(far), lacking, sum(far), sum(n * n for n in far))


def test_windows_and_what_others_make_of_it(spark: SparkSession, tmp_path: Path) -> None:
    asked = [record(at, "b1", Kind.REQUESTED, filter="a") for at in range(10)]
    ended = [record(at, "b1", Kind.RECALLED, filter="a", peer="b2", hops=at % 2, detail="complete") for at in range(10)]
    write_log(tmp_path, asked + ended)
    log, window = find_log(tmp_path), Window(BEGIN_US + 2_000_000, BEGIN_US + 6_000_000)
    demand = measured_demand(spark, log, named(["a"]), window)
    assert (demand.rates, demand.window_s, demand.requests) == ({"a": {"b1": 1.0}}, 4.0, 4)
    assert read_demand(write_demand(demand), "x") == demand
    total = measured_distance(spark, log, named(["a"]), window).total
    assert (total.served, total.hops_mean) == (4, 0.5)
    assert total.hops_error == pytest.approx(0.5 / 3**0.5)
    with pytest.raises(LatecomerError, match="has no records in this window; name another, or wait"):
        measure(spark, log, named(["a"]), Window(5, 6))


def test_segments_that_are_damaged_or_gone_when_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    asked = [record(at, "b1", Kind.REQUESTED, filter="a") for at in range(10)]
    damaged, gone, good = (write_log(tmp_path, asked, boot=boot)[-1].name for boot in range(3))
    flip(tmp_path / damaged, page_byte(tmp_path / damaged))
    log = find_log(tmp_path)
    (tmp_path / gone).unlink()
    found = measure(spark, log, named(["a"]))
    assert (found.rows, found.demand.requests) == (10, 10)
    assert ([one.name for one in found.damaged], found.gone) == ([damaged], (gone,))
    (tmp_path / good).unlink()
    with pytest.raises(LatecomerError, match="has no records in this window"):
        measure(spark, log, named(["a"]))
