"""Votes on Spark: the local ones to the last bit, and only where that is sooner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import SparkSession

from latecomer.model.errors import SettingsError
from latecomer.pipeline import planning
from latecomer.pipeline.planning import Blocks, Packed, blocks_for, kernel_s, parallelism, pays, votes_by_size, votes_on
from latecomer.planner.greedy import Access, votes
from latecomer.planner.problem import Problem
from tests.planner.instances import instance


def problem(seed: int = 5) -> Problem:
    """Brokers that nobody may use, origins that do not count, ties."""
    return instance(seed, most_brokers=40, most_topics=12).problem


def large() -> Problem:
    """As far as its size is looked at."""
    given = problem()
    return replace(given, replicas=np.full(4_000_000, 20), entry=np.ones(len(given.brokers), np.int64))


@pytest.mark.parametrize(("access", "tasks", "seed"), [("path", 1, 5), ("path", 9, 8), ("nearest", 5, 13)])
def test_spark_counts_the_votes_that_the_planner_counts(
    spark: SparkSession, access: Access, tasks: int, seed: int
) -> None:
    given = problem(seed)
    expected = votes(given, access)
    assert expected.any()
    assert np.array_equal(votes_on(spark, given, access, tasks=tasks), expected)


def test_seeds_that_were_chosen_have_what_they_were_chosen_for() -> None:
    given = [problem(seed) for seed in (5, 8, 13)]
    assert any(not one.open.all() for one in given)
    assert any((one.entry == 0).any() for one in given)
    assert all(len(one.topics) > 3 and len(one.brokers) > 10 for one in given)


def test_topics_are_cut_before_origins() -> None:
    given = problem()
    topics, brokers = given.rates.shape
    assert blocks_for(given, 2) == Blocks(2, 1)
    assert blocks_for(given, 3 * topics) == Blocks(topics, 3)
    assert blocks_for(given, 10**6) == Blocks(topics, brokers)


def test_arrays_travel_whole() -> None:
    for array in (np.arange(12, dtype=np.uint8).reshape(3, 4), np.zeros((0, 5), np.int64), np.array([True, False])):
        back = Packed.of(array).array()
        assert back.dtype == array.dtype
        assert np.array_equal(back, array)


def test_cores_decide_and_so_does_the_size() -> None:
    small, big = problem(), large()
    assert kernel_s(small) < 0.1 < 10 < kernel_s(big)
    assert not pays(small, 2, 1000)
    assert pays(big, 2, 16)
    assert not pays(big, 2, 2), "as many cores as here, and Spark's own cost on top"


def test_a_session_is_opened_only_for_much_work(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    @contextmanager
    def opening() -> Iterator[SparkSession]:
        opened.append(1)
        yield spark

    given = problem()
    expected = votes(given)
    assert np.array_equal(votes_by_size(1, opening)(given), expected)
    assert not opened
    monkeypatch.setattr(planning, "START_S", 0.0)
    monkeypatch.setattr(planning, "votes", None)  # nobody counts here now
    monkeypatch.setattr(planning, "pays", lambda problem, here, there, fixed_s=0.0: there > here)
    assert parallelism(spark) == 2
    assert np.array_equal(votes_by_size(1, opening)(given), expected)
    assert opened == [1]
    monkeypatch.setattr(planning, "votes", votes)
    assert np.array_equal(votes_by_size(2, opening)(given), expected), "no more cores there than here"


def test_the_plan_is_the_same_with_another_counter_of_votes() -> None:
    pytest.importorskip("highspy")
    from latecomer.cli.plan_votes import votes_from

    assert votes_from("local[*]", "1g", None) is votes
    with pytest.raises(SettingsError, match="--master"):
        votes_from("http://here", "1g", None)
    assert votes_from("spark://127.0.0.1:1", "1g", None)(problem()).any(), "a small plan asks no cluster"
