"""The job of `latecomer checkins` in DuckDB: the same steps, each table computed once and kept."""

from __future__ import annotations

from typing import Any

import duckdb

from bench.pipeline.figures import DAY_US, GROUPS, HOUR_US, QUANTILES, WEEK_US

DAY_S = 86_400

ROWS = """
CREATE OR REPLACE TEMP VIEW rows_read AS
SELECT CAST("user" AS VARCHAR) AS "user", epoch_us(time) AS time, CAST(lat AS DOUBLE) AS lat,
       CAST(lon AS DOUBLE) AS lon, CAST(place AS VARCHAR) AS place,
       CASE WHEN "user" IS NULL OR CAST("user" AS VARCHAR) = '' THEN 'no user'
            WHEN time IS NULL THEN 'time cannot be read'
            WHEN epoch_us(time) < 0 OR epoch_us(time) > {latest_us} THEN 'time before 1970 or in the future'
            WHEN lat IS NULL OR lon IS NULL OR isnan(lat) OR isnan(lon) THEN 'coordinates cannot be read'
            WHEN abs(lat) > 90 OR abs(lon) > 180 THEN 'coordinates out of range'
            WHEN lat = 0 AND lon = 0 THEN 'coordinates 0, 0' END AS problem
FROM read_parquet('{checkins}/*.parquet')
"""
INSIDE = "lat BETWEEN -90 AND 90 AND lon BETWEEN -180 AND 180"
TALLY = f"""
SELECT count(*), count(*) FILTER (problem IS NOT NULL), count(*) FILTER (problem IS NULL AND NOT ({INSIDE}))
FROM rows_read
"""
TABLES = {
    "checkins": f"""
        SELECT *, CAST(floor(lat) AS BIGINT) || ',' || CAST(floor(lon) AS BIGINT) AS cell
        FROM (SELECT DISTINCT "user", time, lat, lon, place FROM rows_read WHERE problem IS NULL AND {INSIDE})
    """,
    "visits": """
        WITH moved AS (
            SELECT *, coalesce(cell != lag(cell) OVER w, true) AS moved FROM checkins
            WINDOW w AS (PARTITION BY "user" ORDER BY time, place, lat, lon)
        ), numbered AS (
            SELECT *, sum(moved::INT) OVER (
                PARTITION BY "user" ORDER BY time, place, lat, lon ROWS UNBOUNDED PRECEDING) - 1 AS visit FROM moved
        ), visits AS (
            SELECT "user", visit, min(cell) AS cell, min(time) AS arrived, max(time) AS seen, count(*) AS checkins
            FROM numbered GROUP BY "user", visit
        )
        SELECT *, lead(arrived) OVER w AS "left", lead(arrived) OVER w - arrived AS linger_us FROM visits
        WINDOW w AS (PARTITION BY "user" ORDER BY visit)
    """,
    "pairs": """
        SELECT "user", cell, count(*) AS visits, sum(checkins) AS checkins, min(arrived) AS first, max(seen) AS last
        FROM visits GROUP BY "user", cell
    """,
    "friends": """
        WITH given AS (
            SELECT CAST("user" AS VARCHAR) AS "user", CAST(friend AS VARCHAR) AS friend
            FROM read_parquet('{friends}/*.parquet')
        ), listed AS (
            SELECT * FROM given WHERE "user" IS NOT NULL AND friend IS NOT NULL AND "user" != '' AND friend != ''
        ), both_ways AS (
            SELECT DISTINCT "user", friend
            FROM (SELECT "user", friend FROM listed UNION ALL SELECT friend, "user" FROM listed) WHERE "user" != friend
        ), users AS (SELECT DISTINCT "user" FROM visits),
        seen AS (
            SELECT * FROM both_ways SEMI JOIN users USING ("user")
            WHERE friend IN (SELECT "user" FROM users)
        )
        SELECT "user", friend FROM seen
        QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY hash("user", friend), friend) <= 4
    """,
    "subscriptions": """
        WITH interest AS (
            SELECT "user", cell, arrived, "left" FROM visits
            UNION ALL
            SELECT f."user", v.cell, v.arrived, v."left" FROM friends f JOIN visits v ON v."user" = f.friend
        ), changes AS (
            SELECT "user", cell, arrived AS time, 1 AS change FROM interest
            UNION ALL
            SELECT "user", cell, "left", -1 FROM interest WHERE "left" IS NOT NULL
        ), net AS (
            SELECT "user", cell, time, sum(change) AS change FROM changes GROUP BY "user", cell, time
            HAVING sum(change) != 0
        ), counted AS (
            SELECT *, sum(change) OVER (PARTITION BY "user", cell ORDER BY time ROWS UNBOUNDED PRECEDING) AS here
            FROM net
        )
        SELECT time, "user", cell, CASE WHEN here = change THEN 'subscribed' ELSE 'unsubscribed' END AS kind
        FROM counted WHERE here = change OR here = 0
    """,
    "cells": """
        SELECT cell, sum(checkins) AS checkins, sum(visits) AS visits, count(*) AS users,
               count(*) FILTER (visits = 1) AS users_once,
               CAST(split_part(cell, ',', 1) AS DOUBLE) AS south, CAST(split_part(cell, ',', 2) AS DOUBLE) AS west
        FROM pairs GROUP BY cell
    """,
    "transitions": """
        WITH moves AS (
            SELECT "user", cell AS origin, lead(cell) OVER (PARTITION BY "user" ORDER BY visit) AS target FROM visits
        )
        SELECT origin, target, count(*) AS moves, count(DISTINCT "user") AS users FROM moves
        WHERE target IS NOT NULL GROUP BY origin, target
    """,
    "repeats": "SELECT visits, count(*) AS pairs FROM pairs GROUP BY visits",
    "hours": f"""
        SELECT hours, visits, sum(visits) OVER (ORDER BY hours) AS visits_until FROM (
            SELECT linger_us // {HOUR_US} AS hours, count(*) AS visits FROM visits
            WHERE linger_us IS NOT NULL GROUP BY hours)
    """,
    "days": """
        SELECT time // 86400000000 AS day, count(*) FILTER (kind = 'subscribed') AS subscribed,
               count(*) FILTER (kind = 'unsubscribed') AS unsubscribed
        FROM subscriptions GROUP BY day
    """,
    "groups": f"""
        WITH stayed AS (
            SELECT hash("user") % {GROUPS} AS grp, count(DISTINCT "user") AS users, count(*) AS visits,
                   count(linger_us) AS lingers, count(*) FILTER (linger_us < {DAY_US}) AS under_day,
                   count(*) FILTER (linger_us > {WEEK_US}) AS over_week
            FROM visits GROUP BY grp
        ), met AS (
            SELECT hash("user") % {GROUPS} AS grp, count(*) AS pairs, count(*) FILTER (visits = 1) AS pairs_seen_once
            FROM pairs GROUP BY grp
        )
        SELECT * FROM stayed JOIN met USING (grp)
    """,
}
VISIT_FIGURES = f"""
SELECT count(DISTINCT "user"), count(*), count(linger_us), count(*) FILTER (linger_us < {DAY_US}),
       count(*) FILTER (linger_us > {WEEK_US}), quantile_cont(linger_us, {list(QUANTILES)}) FROM visits
"""
PAIR_FIGURES = """
SELECT count(*), count(*) FILTER (visits = 1), count(*) FILTER (checkins = 1), count(DISTINCT cell) FROM pairs
"""


def opened(folder: str, memory: str, threads: int) -> duckdb.DuckDBPyConnection:
    """An engine in memory, with as much of it as Spark has, and a folder for what does not fit."""
    engine = duckdb.connect()
    for setting in (f"threads={threads}", f"memory_limit='{memory}'", f"temp_directory='{folder}'", "TimeZone='UTC'"):
        engine.execute(f"SET {setting}")
    engine.execute("SET preserve_insertion_order=false")
    return engine


def analyse(engine: duckdb.DuckDBPyConnection, checkins: str, friends: str, now_us: int) -> dict[str, Any]:
    """Carry out the job once."""
    engine.execute(ROWS.format(checkins=checkins, latest_us=now_us + DAY_S * 1_000_000))
    rows, bad, outside = _row(engine, TALLY)
    for name, query in TABLES.items():
        engine.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query.format(friends=friends)}")
    users, visits, lingers, under_day, over_week, quantiles = _row(engine, VISIT_FIGURES)
    pairs, once, one_checkin, cells = _row(engine, PAIR_FIGURES)
    counts = {name: _row(engine, f"SELECT count(*) FROM {name}")[0] for name in TABLES}
    subscribed, unsubscribed = _row(engine, "SELECT sum(subscribed), sum(unsubscribed) FROM days")
    small = {name: engine.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in ("repeats", "hours")}
    return {
        "rows_read": rows,
        "quarantined": bad,
        "outside": outside,
        "duplicates": rows - bad - outside - counts["checkins"],
        "checkins": counts["checkins"],
        "users": users,
        "cells": cells,
        "visits": visits,
        "moves": visits - users,
        "pairs": pairs,
        "pairs_seen_once": once,
        "pairs_of_one_checkin": one_checkin,
        "lingers": lingers,
        "linger_under_a_day": under_day,
        "linger_over_a_week": over_week,
        "transitions": counts["transitions"],
        "friends": counts["friends"],
        "subscribed": int(subscribed),
        "unsubscribed": int(unsubscribed),
        "quantiles_s": [one / 1_000_000 for one in quantiles],
        "repeats": [number for row in small["repeats"] for number in row],
        "hours": [int(number) for row in small["hours"] for number in row],
        "days": counts["days"],
        "groups": list(
            map(int, _row(engine, "SELECT sum(users), sum(visits), sum(pairs), sum(over_week) FROM groups"))
        ),
    }


def _row(engine: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    found = engine.execute(query).fetchone()
    assert found is not None
    return found
