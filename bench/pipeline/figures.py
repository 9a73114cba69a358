"""What the job over check-ins must find out, whoever does it; the columns are those of `checkins_job.Counts`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.book import BenchError

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
GROUPS = 20
DAY_US = 86_400_000_000
WEEK_US = 7 * DAY_US
HOUR_US = 3_600_000_000

COUNTS = (
    "rows_read",
    "quarantined",
    "outside",
    "duplicates",
    "checkins",
    "users",
    "cells",
    "visits",
    "moves",
    "pairs",
    "pairs_seen_once",
    "pairs_of_one_checkin",
    "lingers",
    "linger_under_a_day",
    "linger_over_a_week",
    "transitions",
    "friends",
    "subscribed",
    "unsubscribed",
)
TABLES = ("repeats", "hours", "days", "groups")
"""Rows of the small tables; groups of users are cut by another hash in each engine, so only their sums are compared."""


def check_same(found: Mapping[str, Mapping[str, Any]]) -> None:
    """All engines answer alike: every count, every quantile, every small table."""
    (first, wanted), *others = found.items()
    for name, answer in others:
        for key in (*COUNTS, *TABLES, "quantiles_s"):
            if _rounded(answer[key]) != _rounded(wanted[key]):
                raise BenchError(f"{name} says {key} = {answer[key]}, and {first} {wanted[key]}: not the same job")


def _rounded(value: Any) -> Any:
    return [round(one, 3) for one in value] if isinstance(value, list) else value
