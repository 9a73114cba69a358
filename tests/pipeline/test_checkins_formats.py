"""Files of check-ins as rows: what is read, and what is refused with which reason."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from latecomer.model.errors import SettingsError
from latecomer.pipeline import checkins_formats as formats
from latecomer.pipeline.checkins_formats import instant, open_friends, open_rows
from latecomer.pipeline.schemas_checkins import ROWS

NOW_US = 1_700_000_000_000_000
AT = datetime(2012, 4, 3, 18, 0, 9)
GOOD = ("7", AT, 40.5, -73.5)
SNAP = "7\t2012-04-03T18:00:09Z\t40.5\t-73.5\tpark"
BAD = {
    "7\t2012-04-03T18:00:09Z\t40.5\t-73.5": formats.BAD_COUNT,
    "\t2012-04-03T18:00:09Z\t40.5\t-73.5\tpark": formats.BAD_USER,
    "7\tyesterday\t40.5\t-73.5\tpark": formats.BAD_TIME,
    "7\t2012-04-31T18:00:09Z\t40.5\t-73.5\tpark": formats.BAD_TIME,
    "7\t1969-12-31T23:59:59Z\t40.5\t-73.5\tpark": formats.FAR_TIME,
    "7\t2039-04-03T18:00:09Z\t40.5\t-73.5\tpark": formats.FAR_TIME,
    "7\t2012-04-03T18:00:09Z\tnorth\t-73.5\tpark": formats.BAD_COORDINATES,
    "7\t2012-04-03T18:00:09Z\tNaN\t-73.5\tpark": formats.BAD_COORDINATES,
    "7\t2012-04-03T18:00:09Z\t90.1\t-73.5\tpark": formats.FAR_COORDINATES,
    "7\t2012-04-03T18:00:09Z\t40.5\t-180.5\tpark": formats.FAR_COORDINATES,
    "7\t2012-04-03T18:00:09Z\t0.0\t0\tpark": formats.ZERO_COORDINATES,
    "58220\t\t\t\t": formats.BAD_TIME,
}


def write_all(folder: Path) -> list[Path]:
    """The same check-in in every format, with what may stand around it."""
    texts = {
        "snap.txt": f"\ufeff{SNAP}\r\n\n{SNAP}\n" + "\n".join(BAD) + "\n",
        "foursquare.txt": "7\tpark\tx\tPark\t40.5\t-73.5\t-240\tTue Apr 03 18:00:09 +0000 2012\n",
        "global.txt": "7\tpark\tTue Apr 03 18:00:09 +0000 2012\t-240\n7\tlost\tTue Apr 03 18:00:09 +0000 2012\t0\n",
        "short.txt": "7,park,1333476009.0\n",
        "quoted.csv": 'time,user,"lat",lon,place,text\n2012-04-03 18:00:09,7,40.5,-73.5,"park",'
        '"a ""big"", green one"\n2012-04-03 18:00:09,7,40.5\n',
        "table.csv": " user_id | venue_id | latitude | longitude | created_at \n---------+----------\n"
        " 7 | park | 40.5 | -73.5 | 2012-04-03 18:00:09\n(1 rows)\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    with gzip.open(folder / "snap.txt.gz", "wt") as file:
        file.write(SNAP + "\n")
    columns = {"uid": [7, None], "timestamp": [AT, AT], "lat": [40.5, 1.0], "lng": [-73.5, 1.0], "venue": ["park", "x"]}
    pq.write_table(pa.table(columns), folder / "table.parquet")
    pq.write_table(pa.table({**columns, "timestamp": [1333476009, 0]}), folder / "seconds.parquet")
    fine = pa.array([1333476009 * 10**9, 0], pa.timestamp("ns"))  # what pandas writes
    pq.write_table(pa.table({**columns, "timestamp": fine}), folder / "fine.parquet")
    (folder / "places").mkdir()
    (folder / "places" / "places.txt").write_text("park\t40.5\t-73.5\tPark\tUS\nnowhere\t?\t?\n", encoding="utf-8")
    return [
        *(folder / name for name in texts),
        *(folder / n for n in ("snap.txt.gz", "table.parquet", "seconds.parquet", "fine.parquet")),
    ]


def test_every_format_gives_the_same_check_in(spark: SparkSession, tmp_path: Path) -> None:
    files = write_all(tmp_path)
    places = str(tmp_path / "places" / "places.txt")
    rows = open_rows(spark, [str(file) for file in files], places=places, now_us=NOW_US)
    assert [(f.name, f.dataType) for f in rows.schema] == [(f.name, f.dataType) for f in ROWS]
    text = F.date_format("time", "yyyy-MM-dd HH:mm:ss").alias("text")
    found = rows.select("*", text).collect()
    good = [row for row in found if row.problem is None]
    assert {(row.user, row.text, row.lat, row.lon, row.place) for row in good} == {
        ("7", f"{AT}", 40.5, -73.5, "park"),
    }
    assert sorted(row.file for row in good) == sorted([file.name for file in files] + ["snap.txt"])
    bad = {(row.file, row.row): row.problem for row in found if row.problem is not None}
    assert bad == {
        **{("snap.txt", line): reason for line, reason in BAD.items()},
        ("global.txt", "7\tlost\tTue Apr 03 18:00:09 +0000 2012\t0"): formats.NO_COORDINATES,
        ("quoted.csv", "2012-04-03 18:00:09,7,40.5"): formats.BAD_COUNT,
        ("table.parquet", '{"timestamp":"2012-04-03T18:00:09.000","lat":1.0,"lng":1.0,"venue":"x"}'): formats.BAD_USER,
        ("fine.parquet", '{"timestamp":0,"lat":1.0,"lng":1.0,"venue":"x"}'): formats.BAD_USER,
        ("seconds.parquet", '{"timestamp":0,"lat":1.0,"lng":1.0,"venue":"x"}'): formats.BAD_USER,
    }


def test_a_time_is_read_only_if_it_is_one(spark: SparkSession) -> None:
    texts = {
        "2012-04-03T18:00:09Z": "2012-04-03 18:00:09.000",
        "2012-04-03 18:00:09.25": "2012-04-03 18:00:09.250",
        "2012-04-03T20:00:09+02:00": "2012-04-03 18:00:09.000",
        "2012-04-03T20:00": "2012-04-03 20:00:00.000",
        "1333476009": "2012-04-03 18:00:09.000",
        "1333476009125": "2012-04-03 18:00:09.125",
        "Wed Feb 29 01:02:03 -0100 2012": "2012-02-29 02:02:03.000",
        "Wed Foo 29 01:02:03 +0000 2012": None,
        "2012": None,
        "T18:00:09": None,
        "12": None,
        "": None,
    }
    frame = spark.createDataFrame([(text,) for text in texts], "text string")
    read = frame.select("text", F.date_format(instant(F.col("text")), "yyyy-MM-dd HH:mm:ss.SSS").alias("read"))
    assert {row.text: row.read for row in read.collect()} == texts


def test_friends_in_text_and_parquet(spark: SparkSession, tmp_path: Path) -> None:
    text = tmp_path / "edges.txt"
    text.write_text("# of somebody\nuser\tfriend\n1\t2\n3 4\nalone\n", encoding="utf-8")
    found = {(row.user, row.friend, row.problem) for row in open_friends(spark, str(text)).collect()}
    assert found == {("1", "2", None), ("3", "4", None), (None, None, formats.BAD_FRIENDS)}
    table = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"weight": [1, 1], "user_b": [2, None], "user_a": [1, 5]}), table)
    found = {(row.user, row.friend, row.problem) for row in open_friends(spark, str(table)).collect()}
    assert found == {("1", "2", None), ("5", None, formats.BAD_FRIENDS)}


def test_files_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    def opened(*files: Path, format: str = "auto") -> None:
        open_rows(spark, [str(file) for file in files], format=format, now_us=NOW_US)

    with pytest.raises(SettingsError, match=r"missing.txt: there is no such file"):
        opened(tmp_path / "missing.txt")
    with pytest.raises(SettingsError, match=r"--format: there is no 'xml'; choose from auto, snap"):
        opened(tmp_path / "missing.txt", format="xml")
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"empty.txt: it is empty"):
        opened(empty)
    short = tmp_path / "short.txt"
    short.write_text("7,park,1333476009.0\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"--places: .*short.txt names places without their coordinates"):
        opened(short)
    table = tmp_path / "table.parquet"
    pq.write_table(pa.table({"a": [1], "b": [2]}), table)
    with pytest.raises(SettingsError, match=r"table.parquet: its columns are a, b; needed are user, time, lat"):
        opened(table)
