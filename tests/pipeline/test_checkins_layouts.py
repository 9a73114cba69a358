"""Which of the known ways a file of check-ins is written in."""

from __future__ import annotations

import pytest

from latecomer.model.errors import SettingsError
from latecomer.pipeline.checkins_layouts import LAT, LON, OTHER, PLACE, TIME, USER, find_layout, name_columns

SNAP = "0\t2010-10-19T23:55:27Z\t30.2359091167\t-97.7951395833\t22847"
LINES = {
    "snap": SNAP,
    "foursquare": "470\t49bbd6\t4bf58d\tArts & Crafts Store\t40.71981\t-74.00258\t-240\tTue Apr 03 18:00:09 +0000 2012",
    "foursquare-global": "50756\t4f5e3a\tTue Apr 03 18:00:06 +0000 2012\t240",
    "foursquare-short": "0,0,1333447208.0",
    "tweets": "14\t220\t40.71\t-74.01\t2010-09-01 12:13:14\tgood morning, all\tplace-1",
}


@pytest.mark.parametrize("name", LINES)
def test_each_layout_is_found_by_its_lines(name: str) -> None:
    assert find_layout([LINES[name]], "auto", "file").name == name


def test_a_few_bad_lines_do_not_hide_the_layout() -> None:
    assert find_layout([SNAP, "58220\t\t\t\t", SNAP, "", "\ufeff" + SNAP], "auto", "file").name == "snap"


@pytest.mark.parametrize(
    ("heading", "separator", "columns"),
    [
        ("user,time,lat,lon,place", ",", (USER, TIME, LAT, LON, PLACE)),
        ('"Latitude";"Longitude";"UserId";"Timestamp"', ";", (LAT, LON, USER, TIME)),
        ("id | user_id | venue_id | latitude | longitude | created_at", "|", (OTHER, USER, PLACE, LAT, LON, TIME)),
        ("\ufeffuser_id\tutc_time\tvenue_id", "\t", (USER, TIME, PLACE)),
    ],
)
def test_a_heading_names_the_columns(heading: str, separator: str, columns: tuple[str, ...]) -> None:
    found = find_layout([heading, "anything"], "auto", "file")
    assert (found.name, found.separator, found.columns) == ("csv", separator, columns)


def test_what_is_not_enough_to_know_where_and_when() -> None:
    assert name_columns(["user", "lat", "lon"]) is None
    assert name_columns(["user", "time", "lat"]) is None
    assert name_columns(["time", "lat", "lon"]) is None


@pytest.mark.parametrize(
    ("lines", "format", "told"),
    [
        ([], "auto", "it is empty"),
        (["dear diary", "today"], "auto", "no known layout fits it; say --format"),
        ([SNAP, "x", "y"], "auto", "no known layout"),  # one in three is not enough
        ([SNAP], "csv", "no heading with user, time, lat and lon"),
    ],
)
def test_a_file_that_is_none_of_them(lines: list[str], format: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        find_layout(lines, format, "diary.txt")
    assert str(caught.value).startswith("diary.txt: ")


def test_the_user_knows_better() -> None:
    assert find_layout(["x", "y"], "snap", "file").name == "snap"
    assert find_layout(["1\t2\t1333447208"], "foursquare-short", "file").separator == "\t"
