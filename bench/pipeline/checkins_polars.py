"""The job of `latecomer checkins` in Polars: lazy queries, each table computed once and kept."""

from __future__ import annotations

from typing import Any

import polars as pl

from bench.pipeline.figures import DAY_US, GROUPS, HOUR_US, QUANTILES, WEEK_US

DAY_S = 86_400
SAME = ("user", "time", "lat", "lon", "place")
ORDER = ("time", "place", "lat", "lon")


def analyse(checkins: str, friends: str, now_us: int) -> dict[str, Any]:
    """Carry out the job once."""
    rows = _rows(checkins, now_us)
    inside = pl.col("lat").is_between(-90, 90) & pl.col("lon").is_between(-180, 180)
    bad = pl.col("problem").is_not_null()
    tally = _done(rows.select(pl.len(), bad.sum().alias("bad"), (~bad & ~inside).sum().alias("outside"))).row(0)
    kept = _done(rows.filter(~bad & inside).select(SAME).unique().with_columns(_cell()))
    visits = _done(_visits(kept.lazy()))
    pairs = _done(_pairs(visits.lazy()))
    followed = _done(_friends(visits.lazy(), friends))
    events = _done(_subscriptions(visits.lazy(), followed.lazy()))
    cells = _done(_cells(pairs.lazy()))
    moves = _done(_transitions(visits.lazy()))
    repeats = _done(pairs.lazy().group_by("visits").agg(pl.len()).sort("visits"))
    hours = _done(_hours(visits.lazy()))
    days = _done(_days(events.lazy()))
    groups = _done(_groups(visits.lazy(), pairs.lazy()))
    linger = pl.col("linger_us")
    one = _done(
        visits.lazy().select(
            pl.col("user").n_unique(),
            linger.count().alias("lingers"),
            (linger < DAY_US).sum().alias("under"),
            (linger > WEEK_US).sum().alias("over"),
            *(linger.quantile(q, "linear").alias(f"q{q}") for q in QUANTILES),
        )
    ).row(0)
    return {
        "rows_read": tally[0],
        "quarantined": tally[1],
        "outside": tally[2],
        "duplicates": tally[0] - tally[1] - tally[2] - len(kept),
        "checkins": len(kept),
        "users": one[0],
        "cells": len(cells),
        "visits": len(visits),
        "moves": len(visits) - one[0],
        "pairs": len(pairs),
        "pairs_seen_once": int((pairs["visits"] == 1).sum()),
        "pairs_of_one_checkin": int((pairs["checkins"] == 1).sum()),
        "lingers": one[1],
        "linger_under_a_day": one[2],
        "linger_over_a_week": one[3],
        "transitions": len(moves),
        "friends": len(followed),
        "subscribed": int(days["subscribed"].sum()),
        "unsubscribed": int(days["unsubscribed"].sum()),
        "quantiles_s": [value / 1_000_000 for value in one[4:]],
        "repeats": [number for row in repeats.rows() for number in row],
        "hours": [number for row in hours.rows() for number in row],
        "days": len(days),
        "groups": [int(groups[name].sum()) for name in ("users", "visits", "pairs", "over_week")],
    }


def _done(query: pl.LazyFrame) -> pl.DataFrame:
    found = query.collect(engine="streaming")
    assert isinstance(found, pl.DataFrame)
    return found


def _rows(checkins: str, now_us: int) -> pl.LazyFrame:
    read = pl.scan_parquet(f"{checkins}/*.parquet").select(
        pl.col("user").cast(pl.String),
        pl.col("time").dt.epoch("us"),
        pl.col("lat").cast(pl.Float64),
        pl.col("lon").cast(pl.Float64),
        pl.col("place").cast(pl.String),
    )
    lat, lon, time = pl.col("lat"), pl.col("lon"), pl.col("time")
    unknown = lat.is_null() | lon.is_null() | lat.is_nan() | lon.is_nan()
    problem = (
        pl.when(pl.col("user").is_null() | (pl.col("user") == ""))
        .then(pl.lit("no user"))
        .when(time.is_null())
        .then(pl.lit("time cannot be read"))
        .when((time < 0) | (time > now_us + DAY_S * 1_000_000))
        .then(pl.lit("time before 1970 or in the future"))
        .when(unknown)
        .then(pl.lit("coordinates cannot be read"))
        .when((lat.abs() > 90) | (lon.abs() > 180))
        .then(pl.lit("coordinates out of range"))
        .when((lat == 0) & (lon == 0))
        .then(pl.lit("coordinates 0, 0"))
    )
    return read.with_columns(problem.alias("problem"))


def _cell() -> pl.Expr:
    south, west = (pl.col(name).floor().cast(pl.Int64).cast(pl.String) for name in ("lat", "lon"))
    return pl.concat_str(south, west, separator=",").alias("cell")


def _visits(checkins: pl.LazyFrame) -> pl.LazyFrame:
    """Sorted once, so that "before" is the row above."""
    moved = (pl.col("cell") != pl.col("cell").shift(1)) | (pl.col("user") != pl.col("user").shift(1))
    stay = moved.fill_null(value=True).cast(pl.Int64).cum_sum().alias("stay")
    found = (
        checkins.sort("user", *ORDER)
        .with_columns(stay)
        .group_by("user", "stay")
        .agg(
            pl.col("cell").min(),
            pl.col("time").min().alias("arrived"),
            pl.col("time").max().alias("seen"),
            pl.len().alias("checkins"),
        )
        .sort("stay")
    )
    following = pl.when(pl.col("user") == pl.col("user").shift(-1)).then(pl.col("arrived").shift(-1))
    return found.with_columns(following.alias("left")).with_columns(
        (pl.col("left") - pl.col("arrived")).alias("linger_us")
    )


def _pairs(visits: pl.LazyFrame) -> pl.LazyFrame:
    return visits.group_by("user", "cell").agg(
        pl.len().alias("visits"),
        pl.col("checkins").sum(),
        pl.col("arrived").min().alias("first"),
        pl.col("seen").max().alias("last"),
    )


def _friends(visits: pl.LazyFrame, friends: str) -> pl.LazyFrame:
    users = visits.select("user").unique()
    listed = pl.scan_parquet(f"{friends}/*.parquet").select(pl.col("user", "friend").cast(pl.String))
    good = listed.drop_nulls().filter((pl.col("user") != "") & (pl.col("friend") != ""))
    turned = good.select(pl.col("friend").alias("user"), pl.col("user").alias("friend"))
    both = pl.concat([good, turned]).filter(pl.col("user") != pl.col("friend")).unique()
    seen = both.join(users, on="user", how="semi").join(users, left_on="friend", right_on="user", how="semi")
    chance = pl.struct("user", "friend").hash().alias("chance")
    return (
        seen.with_columns(chance)
        .sort("user", "chance", "friend")
        .with_columns(pl.int_range(pl.len()).over("user").alias("rank"))
        .filter(pl.col("rank") < 4)
        .select("user", "friend")
    )


def _subscriptions(visits: pl.LazyFrame, friends: pl.LazyFrame) -> pl.LazyFrame:
    own = visits.select("user", "cell", "arrived", "left")
    theirs = friends.join(own, left_on="friend", right_on="user").select("user", "cell", "arrived", "left")
    interest = pl.concat([own, theirs])
    one = pl.lit(1, pl.Int64)
    came = interest.select("user", "cell", pl.col("arrived").alias("time"), one.alias("change"))
    gone = interest.filter(pl.col("left").is_not_null()).select(
        "user", "cell", pl.col("left").alias("time"), (-one).alias("change")
    )
    net = pl.concat([came, gone]).group_by("user", "cell", "time").agg(pl.col("change").sum())
    here = pl.col("change").cum_sum().over("user", "cell").alias("here")
    counted = net.filter(pl.col("change") != 0).sort("user", "cell", "time").with_columns(here)
    kind = pl.when(pl.col("here") == pl.col("change")).then(pl.lit("subscribed")).otherwise(pl.lit("unsubscribed"))
    told = counted.filter((pl.col("here") == pl.col("change")) | (pl.col("here") == 0))
    return told.select("time", "user", "cell", kind.alias("kind"))


def _cells(pairs: pl.LazyFrame) -> pl.LazyFrame:
    found = pairs.group_by("cell").agg(
        pl.col("checkins").sum(),
        pl.col("visits").sum(),
        pl.len().alias("users"),
        (pl.col("visits") == 1).sum().alias("users_once"),
    )
    corner = pl.col("cell").str.split(",")
    return found.with_columns(
        corner.list.get(0).cast(pl.Float64).alias("south"), corner.list.get(1).cast(pl.Float64).alias("west")
    )


def _transitions(visits: pl.LazyFrame) -> pl.LazyFrame:
    """Visits are in the order of user and time."""
    target = pl.when(pl.col("user") == pl.col("user").shift(-1)).then(pl.col("cell").shift(-1)).alias("target")
    moves = visits.select("user", pl.col("cell").alias("origin"), target).filter(pl.col("target").is_not_null())
    return moves.group_by("origin", "target").agg(pl.len().alias("moves"), pl.col("user").n_unique().alias("users"))


def _hours(visits: pl.LazyFrame) -> pl.LazyFrame:
    ended = visits.filter(pl.col("linger_us").is_not_null()).group_by((pl.col("linger_us") // HOUR_US).alias("hours"))
    return ended.agg(pl.len().alias("visits")).sort("hours").with_columns(pl.col("visits").cum_sum().alias("until"))


def _days(events: pl.LazyFrame) -> pl.LazyFrame:
    return events.group_by((pl.col("time") // DAY_US).alias("day")).agg(
        (pl.col("kind") == "subscribed").sum().alias("subscribed"),
        (pl.col("kind") == "unsubscribed").sum().alias("unsubscribed"),
    )


def _groups(visits: pl.LazyFrame, pairs: pl.LazyFrame) -> pl.LazyFrame:
    group = (pl.col("user").hash() % GROUPS).alias("group")
    linger = pl.col("linger_us")
    stayed = visits.group_by(group).agg(
        pl.col("user").n_unique().alias("users"),
        pl.len().alias("visits"),
        linger.count().alias("lingers"),
        (linger < DAY_US).sum().alias("under_day"),
        (linger > WEEK_US).sum().alias("over_week"),
    )
    met = pairs.group_by(group).agg(pl.len().alias("pairs"), (pl.col("visits") == 1).sum().alias("pairs_seen_once"))
    return stayed.join(met, on="group")
