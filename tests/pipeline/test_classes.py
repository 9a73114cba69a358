"""Topic classes: which of them a topic or a request belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from latecomer.model.errors import SettingsError
from latecomer.model.topics import topic_matches, topic_overlaps
from latecomer.pipeline.classes import NONE, Classes, Index, class_of, named, own_class, read_classes, with_classes
from latecomer.pipeline.stages import tally
from latecomer.pipeline.stages.requests import topic_filter

level = st.sampled_from(["a", "b", "", "$x"])
topics = st.lists(level, min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(st.sampled_from(["a", "b", "", "+", "$x"]), max_size=3))
    end = draw(st.sampled_from([[], ["#"]]))
    return "/".join(levels + end) or "#"


@given(st.lists(filters(), unique=True, max_size=8), st.one_of(topics, filters()))
def test_the_index_finds_what_the_rule_says(classes: list[str], text: str) -> None:
    assert Index(classes).find(text) == tuple(name for name in classes if topic_overlaps(name, text))


@given(topics, st.integers(1, 4))
def test_every_topic_is_in_its_class_and_in_no_other(topic: str, depth: int) -> None:
    assert topic_matches(class_of(topic, depth), topic)
    others = [class_of(other, depth) for other in ("a", "a/b", "a/b/a", "b", "/a", "$x/a", "a//b")]
    for other in others:
        assert (other == class_of(topic, depth)) == topic_matches(other, topic)


@given(filters(), topics, st.integers(1, 4))
def test_a_request_that_names_one_class_asks_for_no_other(text: str, topic: str, depth: int) -> None:
    own = own_class(text, depth)
    if own and topic_matches(text, topic):
        assert class_of(topic, depth) == own


def test_examples() -> None:
    assert [class_of(topic, 2) for topic in ("a", "a/b", "a/b/c", "/a/b")] == ["a", "a/b/#", "a/b/#", "/a/#"]
    asked = ["a/b", "a/b/#", "a/b/+/c", "a", "a/#", "a/+", "+/b", "#", "a/b/c/#"]
    own = ["a/b/#", "a/b/#", "a/b/#", "a", NONE, NONE, NONE, NONE, "a/b/#"]
    assert [own_class(text, 2) for text in asked] == own


def test_files_and_what_is_wrong_with_them() -> None:
    assert read_classes("# ours\nsensors/#\n\n  city/+/air \n", "classes.txt").filters == ("sensors/#", "city/+/air")
    with pytest.raises(SettingsError, match=r"classes.txt:1: classes: '#' must be the last character"):
        read_classes("a/#/b\n", "classes.txt")
    with pytest.raises(SettingsError, match="'a' is named twice; name it once"):
        named(["a", "b", "a"])
    with pytest.raises(SettingsError, match="there is none; name topic filters, or use --depth"):
        named([])
    with pytest.raises(SettingsError, match="--depth: 99 levels; it must be from 1 to 16"):
        Classes(depth=99).check()
    assert named(["a/#", "b", "a/b"]).overlapping() == ("a/#", "a/b")
    assert named(["a/#", "b"]).overlapping() is None


# -- in SQL


def test_sql_says_the_same(spark: SparkSession) -> None:
    texts = [
        "a",
        "a/b",
        "a/b/c",
        "/",
        "/a",
        "a//b",
        "a/",
        "#",
        "+",
        "a/#",
        "a/+",
        "a/+/#",
        "a/b/#",
        "+/b/c",
        "$x/#",
        "é/ü",
    ]
    columns = [expression for n in (1, 2, 3) for expression in (tally.class_of(f.col("t"), n), tally.own_class("t", n))]
    rows = spark.createDataFrame([(text,) for text in texts], "t string").select("t", *columns).collect()
    for text, *found in rows:
        assert found == [name for n in (1, 2, 3) for name in (class_of(text, n), own_class(text, n))], text


def test_what_clients_write_around_a_topic_filter(spark: SparkSession) -> None:
    written = {
        "a/b": "a/b",
        "$history/since=-1h,last=3/a/#": "a/#",
        "$share/group/a/+": "a/+",
        "a/b ? price < 3": "a/b",
        "$history/last=1/a?x = 1\ny": "a",
        "$SYS/x": "$SYS/x",
    }
    table = spark.createDataFrame([(text,) for text in written], "filter string")
    assert [row[0] for row in table.select(topic_filter("filter")).collect()] == list(written.values())


def test_rows_once_for_each_class(spark: SparkSession) -> None:
    table = spark.createDataFrame([("a/b", 1), ("a/#", 2), ("c", 3), ("no/#/filter", 4), (None, 5)], "t string, n int")
    found = with_classes(table, "t", named(["a/b", "a/c", "#"])).collect()
    assert sorted((row["n"], row["class"], row["first"]) for row in found) == [
        (1, "#", False),
        (1, "a/b", True),
        (2, "#", False),
        (2, "a/b", True),
        (2, "a/c", False),
        (3, "#", True),
        (4, "", True),
        (5, "", True),
    ]
