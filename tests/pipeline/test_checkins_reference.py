"""The stages of the location model beside the same in plain Python, on few users, cells and instants that coincide."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import groupby
from random import Random
from statistics import quantiles
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.pipeline.checkins_sums import QUANTILES, Row, linger_quantiles, summed
from latecomer.pipeline.schemas_checkins import FRIENDS, PAIRS, ROWS, STAYS
from latecomer.pipeline.stages.cell_subscriptions import cell_subscriptions
from latecomer.pipeline.stages.checkin_figures import HOUR_US, cell_counts, linger_counts, pair_counts, visit_counts
from latecomer.pipeline.stages.checkins import Region, checkins, numbered
from latecomer.pipeline.stages.moves import cell_transitions
from latecomer.pipeline.stages.pairs import pairs
from latecomer.pipeline.stages.stays import stays

START = datetime(2012, 4, 3, tzinfo=UTC)
WEEK_H = 7 * 24
Visit = tuple[Any, ...]
"""As STAYS has it."""


def some_rows(seed: int) -> list[tuple[Any, ...]]:
    """As ROWS has it; some twice, some without a place, and many at the same time."""
    random = Random(seed)
    rows = []
    for _ in range(250):
        place = random.choice([None, "p", "q", "r"])
        time = START + timedelta(hours=random.randrange(30) * random.choice([1, 1, 24]))
        lat, lon = random.randrange(-1, 2) + 0.25 * random.randrange(2), random.choice([-0.5, 0.5])
        rows.append(("file", "row", f"u{random.randrange(6)}", time, lat, lon, place, None))
    return rows + random.sample(rows, 60)


def some_friends(seed: int) -> list[tuple[str, str]]:
    random = Random(seed)
    users = [f"u{number}" for number in range(6)]
    return [(user, friend) for user in users for friend in random.sample(users, 3) if friend != user]


def visits_of(rows: list[tuple[Any, ...]]) -> list[Visit]:
    """What STAYS says, in plain Python."""
    once = {(user, time, place, lat, lon) for _, _, user, time, lat, lon, place, _ in rows}
    found: list[Visit] = []
    for user, of_user in groupby(sorted(once, key=lambda row: (*row[:2], row[2] or "", *row[3:])), lambda row: row[0]):
        runs = [list(run) for _, run in groupby(of_user, lambda row: f"{int(row[3] // 1)},{int(row[4] // 1)}")]
        for number, run in enumerate(runs):
            cell = f"{int(run[0][3] // 1)},{int(run[0][4] // 1)}"
            left = runs[number + 1][0][1] if number + 1 < len(runs) else None
            linger_us = None if left is None else (left - run[0][1]) // timedelta(microseconds=1)
            found.append((user, number, cell, run[0][1], run[-1][1], left, len(run), linger_us))
    return found


def events_of(visits: list[Visit], friends: list[tuple[str, str]]) -> set[tuple[Any, ...]]:
    """A subscription is there while somebody is: counted up and down at every instant of each user and cell."""
    changes: dict[tuple[str, str], Counter[datetime]] = defaultdict(Counter)
    for user, friend in [*friends, *{(visit[0], visit[0]) for visit in visits}]:
        for who, _, cell, arrived, _, left, _, _ in visits:
            if who == friend:
                changes[user, cell][arrived] += 1
                if left is not None:
                    changes[user, cell][left] -= 1
    found = set()
    for (user, cell), counts in changes.items():
        here = 0
        for time in sorted(counts):
            before, here = here, here + counts[time]
            if (before == 0) != (here == 0):
                found.add((time, user, cell, "subscribed" if here else "unsubscribed"))
    return found


def collected(frame: Any) -> list[tuple[Any, ...]]:
    return [tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row) for row in frame.collect()]


@pytest.mark.parametrize("seed", [1, 2])
def test_visits_and_subscriptions_are_those_of_the_definition(spark: SparkSession, seed: int) -> None:
    rows, friends = some_rows(seed), some_friends(seed)
    read = spark.createDataFrame(rows, ROWS)
    wanted = visits_of(rows)
    visits = stays(checkins(read, Region()))
    assert visits.schema.fieldNames() == STAYS.fieldNames()
    assert sorted(collected(visits)) == sorted(wanted)
    unnamed = collected(stays(numbered(read, Region())))  # repetitions and all
    assert sorted(row[:2] + row[3:] for row in unnamed) == sorted(row[:2] + row[3:] for row in wanted)
    assert len({row[2] for row in unnamed}) == len({row[2] for row in wanted})
    events = collected(
        cell_subscriptions(spark.createDataFrame(wanted, STAYS), spark.createDataFrame(friends, FRIENDS))
    )
    assert len(events) == len(set(events))
    assert set(events) == events_of(wanted, friends)


def test_counts_are_those_of_the_tables(spark: SparkSession) -> None:
    wanted = visits_of(some_rows(3))
    visits = spark.createDataFrame(wanted, STAYS)
    met = pairs(visits)
    assert met.schema.fieldNames() == PAIRS.fieldNames()
    sums = summed(_rows(visit_counts(visits)), _rows(pair_counts(met)))
    lingers = [visit[7] for visit in wanted if visit[7] is not None]
    by_pair = Counter((visit[0], visit[2]) for visit in wanted)
    of_pair = Counter(dict.fromkeys(by_pair, 0))
    for visit in wanted:
        of_pair[visit[0], visit[2]] += visit[6]
    assert {name: sums.all_groups(name) for name in sums.groups[0] if name != "group"} == {
        "users": len({visit[0] for visit in wanted}),
        "visits": len(wanted),
        "over_week": sum(linger > WEEK_H * HOUR_US for linger in lingers),
        "lingers": len(lingers),
        "under_day": sum(linger < 24 * HOUR_US for linger in lingers),
        "pairs": len(by_pair),
        "pairs_of_one_checkin": sum(count == 1 for count in of_pair.values()),
        "pairs_seen_once": sum(count == 1 for count in by_pair.values()),
    }
    assert sums.checkins == sum(visit[6] for visit in wanted)
    assert (sums.first, sums.last) == tuple(
        f"{end:%Y-%m-%dT%H:%M:%SZ}" for end in (min(v[3] for v in wanted), max(v[4] for v in wanted))
    )
    repeats = Counter(by_pair.values())
    assert sums.repeats == [{"visits": visits, "pairs": repeats[visits]} for visits in sorted(repeats)]
    hours = Counter(linger // HOUR_US for linger in lingers)
    assert [(row["hours"], row["visits"]) for row in sums.lingers] == sorted(hours.items())
    assert sums.lingers[-1]["visits_until"] == len(lingers)
    moves = collected(cell_transitions(visits))
    assert cell_counts(visits).collect()[0].asDict() == {
        "cells": len({visit[2] for visit in wanted}),
        "transitions": len(moves),
    }
    assert sum(move[2] for move in moves) == len(lingers)
    counted = linger_quantiles(sums.lingers, lambda hours: _rows(linger_counts(visits, hours)))
    cuts = quantiles(lingers, n=100, method="inclusive")
    assert counted == {f"p{q * 100:.0f}": pytest.approx(cuts[round(q * 100) - 1]) for q in QUANTILES}


def _rows(frame: Any) -> list[Row]:
    found: list[Row] = frame.toArrow().to_pylist()
    return found


@given(st.lists(st.integers(0, 5 * HOUR_US) | st.sampled_from([0, HOUR_US - 1, HOUR_US]), min_size=2, max_size=60))
def test_quantiles_need_only_the_hours_that_they_lie_in(lingers: list[int]) -> None:
    until, table = 0, []
    for hour, many in sorted(Counter(linger // HOUR_US for linger in lingers).items()):
        until += many
        table.append({"hours": hour, "visits": many, "visits_until": until})

    def counted(hours: Any) -> list[Row]:
        chosen = Counter(linger for linger in lingers if linger // HOUR_US in hours)
        return [{"linger_us": linger, "visits": many} for linger, many in chosen.items()]

    cuts = quantiles(lingers, n=100, method="inclusive")
    found = linger_quantiles(table, counted)
    assert found == {f"p{q * 100:.0f}": pytest.approx(cuts[round(q * 100) - 1]) for q in QUANTILES}


def test_without_lingers_there_are_no_quantiles() -> None:
    assert linger_quantiles([], lambda _: []) == {}
