"""The counts of `stages.checkin_figures`, added up: groups of users, repeats, linger times and their quantiles.

There are a few thousand of them, whatever the number of check-ins, so they are added up here and not on Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec

Row = dict[str, Any]
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
DAY_H = 24


class Sums(msgspec.Struct, frozen=True):
    """What visits and pairs came to."""

    groups: list[Row]
    """As GROUPS has it."""
    repeats: list[Row]
    """As REPEATS has it."""
    lingers: list[Row]
    """As LINGERS has it."""
    checkins: int
    first: str
    last: str

    def all_groups(self, name: str) -> int:
        return sum(group[name] for group in self.groups)


def summed(visits: Sequence[Row], pairs: Sequence[Row]) -> Sums:
    """From `visit_counts` and `pair_counts`; there must be some."""
    ended = [row for row in visits if row["hours"] is not None]
    by_visits = _added(pairs, "visits", ("pairs",))
    by_hours = _added(ended, "hours", ("visits",))
    until = accumulate(row["visits"] for row in by_hours)
    return Sums(
        groups=_groups(visits, ended, pairs),
        repeats=by_visits,
        lingers=[{**row, "visits_until": count} for row, count in zip(by_hours, until, strict=True)],
        checkins=sum(row["checkins"] for row in visits),
        first=min(row["first"] for row in visits),
        last=max(row["last"] for row in visits),
    )


def _groups(visits: Sequence[Row], ended: Sequence[Row], pairs: Sequence[Row]) -> list[Row]:
    once = [row for row in pairs if row["visits"] == 1]
    parts = (
        (visits, {"users": "users", "visits": "visits", "over_week": "over_week"}),
        (ended, {"visits": "lingers"}),
        ([row for row in ended if row["hours"] < DAY_H], {"visits": "under_day"}),
        (pairs, {"pairs": "pairs", "of_one_checkin": "pairs_of_one_checkin"}),
        (once, {"pairs": "pairs_seen_once"}),
    )
    names = [name for _, named in parts for name in named.values()]
    found = {group: dict.fromkeys(names, 0) for group in sorted({row["group"] for row in visits})}
    for rows, named in parts:
        for row in rows:
            for column, name in named.items():
                found[row["group"]][name] += row[column]
    return [{"group": group, **counts} for group, counts in found.items()]


def _added(rows: Iterable[Row], key: str, columns: Sequence[str]) -> list[Row]:
    found: dict[int, Row] = {}
    for row in rows:
        sums = found.setdefault(row[key], {key: row[key], **dict.fromkeys(columns, 0)})
        for column in columns:
            sums[column] += row[column]
    return [found[value] for value in sorted(found)]


def linger_quantiles(lingers: Sequence[Row], counted: Callable[[Collection[int]], Sequence[Row]]) -> dict[str, float]:
    """Quantiles of linger times in microseconds, each between the two nearest in proportion; none without visits.

    The hours tell in which of them the nearest two are, and only visits that lasted so long are counted one by one.
    """
    if not lingers:
        return {}
    places = {quantile: quantile * (lingers[-1]["visits_until"] - 1) for quantile in QUANTILES}
    wanted = {rank for place in places.values() for rank in (math.floor(place), math.ceil(place))}
    starts = {row["hours"]: row["visits_until"] - row["visits"] for row in lingers}
    hours = {row["hours"] for row in lingers if any(starts[row["hours"]] <= r < row["visits_until"] for r in wanted)}
    values = _at_ranks(wanted, starts, sorted(counted(hours), key=lambda row: int(row["linger_us"])))
    found = {}
    for quantile, place in places.items():
        below, above = math.floor(place), math.ceil(place)
        low, high = values[below], values[above]
        between = low if low == high else (above - place) * low + (place - below) * high
        found[f"p{quantile * 100:.0f}"] = float(between)
    return found


def _at_ranks(wanted: Collection[int], starts: dict[int, int], counted: Sequence[Row]) -> dict[int, int]:
    """The linger times at these places of the order, from those of the hours that they lie in."""
    from latecomer.pipeline.stages.checkin_figures import HOUR_US

    found: dict[int, int] = {}
    hour, rank = -1, 0
    ranks = sorted(wanted)
    for row in counted:
        if row["linger_us"] // HOUR_US != hour:
            hour = row["linger_us"] // HOUR_US
            rank = starts[hour]
        found |= {at: row["linger_us"] for at in ranks if rank <= at < rank + row["visits"]}
        rank += row["visits"]
    return found
