"""How check-ins are written in the files that people have, and which of these a file is.

    snap              user ⇥ 2010-10-19T23:55:27Z ⇥ lat ⇥ lon ⇥ place              SNAP: Gowalla, Brightkite
    foursquare        user ⇥ place ⇥ … ⇥ … ⇥ lat ⇥ lon ⇥ … ⇥ Tue Apr 03 18:00:09 +0000 2012     New York, Tokyo
    foursquare-global user ⇥ place ⇥ Tue Apr 03 18:00:06 +0000 2012 ⇥ offset       world-wide; needs the places' file
    foursquare-short  user, place, 1333447208.0   (or with ⇥)                      needs the places' file
    tweets            user ⇥ tweet ⇥ lat ⇥ lon ⇥ 2010-09-01 12:13:14 ⇥ text ⇥ place
    csv               a heading with known names, then lines: , ; ⇥ or | between
    parquet           columns with known names

A guess is made from the first lines. A line counts for a layout if its columns are as many, the time looks like one and
the coordinates are numbers; more than half must, and the layout with the most is it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.model.toml_text import choose

USER, TIME, UNTIL, LAT, LON, PLACE, OTHER = "user", "time", "until", "lat", "lon", "place", ""
HEADINGS = {
    USER: ("user", "user_id", "userid", "uid", "user id"),
    TIME: ("time", "timestamp", "datetime", "utc_time", "utctimestamp", "utc time", "created_at", "checkin_time",
           "check-in_time", "date"),
    LAT: ("lat", "latitude"),
    LON: ("lon", "lng", "long", "longitude"),
    PLACE: ("place", "place_id", "placeid", "venue", "venue_id", "venueid", "location", "location_id", "locid", "poi",
            "poi_id"),
}  # fmt: skip
"""Names of columns, in lower case; the first that is there is taken."""
FRIEND_HEADINGS = (("user", "user_a", "user_id", "source", "from", "userid1", "u"),
                   ("friend", "user_b", "friend_id", "target", "to", "userid2", "v"))  # fmt: skip
SEPARATORS = ("\t", "|", ";", ",")
ISO = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?( ?(Z|UTC|[+-]\d{2}:?\d{2}))?)?$"
LONG_HAND = r"^\w{3} (\w{3}) (\d{2}) (\d{2}:\d{2}:\d{2}) ([+-]\d{4}) (\d{4})$"
SECONDS = r"^\d{9,10}(\.\d{1,9})?$"
MILLISECONDS = r"^\d{12,13}$"
_time = re.compile("|".join((ISO, LONG_HAND, SECONDS, MILLISECONDS)))
_number = re.compile(r"\s*-?\d+(\.\d*)?([eE][-+]?\d+)?\s*")
PARQUET = "parquet"
CSV = "csv"
AUTO = "auto"


class Layout(msgspec.Struct, frozen=True):
    """One way to write check-ins as lines of text."""

    name: str
    separator: str
    columns: tuple[str, ...]
    """What each column is; OTHER: nothing we need."""
    heading: str = ""
    """The line that is no check-in."""

    @property
    def quoted(self) -> bool:
        """Columns may be in quotation marks."""
        return bool(self.heading)

    def fits(self, line: str) -> bool:
        columns = split(line, self.separator, quoted=self.quoted)
        if len(columns) != len(self.columns):
            return False
        found = dict(zip(self.columns, columns, strict=True))
        numbers = all(_number.fullmatch(found[name]) for name in (LAT, LON) if name in found)
        return bool(found[USER].strip() and _time.search(found[TIME].strip()) and numbers)


KNOWN = (
    Layout("snap", "\t", (USER, TIME, LAT, LON, PLACE)),
    Layout("foursquare", "\t", (USER, PLACE, OTHER, OTHER, LAT, LON, OTHER, TIME)),
    Layout("foursquare-global", "\t", (USER, PLACE, TIME, OTHER)),
    Layout("foursquare-short", "\t", (USER, PLACE, TIME)),
    Layout("foursquare-short", ",", (USER, PLACE, TIME)),
    Layout("tweets", "\t", (USER, OTHER, LAT, LON, TIME, OTHER, PLACE)),
)
FORMATS = (AUTO, *dict.fromkeys(layout.name for layout in KNOWN), CSV, PARQUET)


def split(line: str, separator: str, *, quoted: bool) -> list[str]:
    """The columns of a line."""
    return next(csv.reader([line], delimiter=separator)) if quoted else line.split(separator)


def find_layout(lines: Sequence[str], format: str, source: str, names: Mapping[str, str] | None = None) -> Layout:
    """The layout of a file from its first lines, or a SettingsError that says what was looked for.

    `names` are columns that somebody named: what → its name in the heading.
    """
    lines = [line.lstrip("\ufeff") for line in lines if line.strip()]
    if not lines:
        raise SettingsError("", "it is empty: there is no check-in in it", source=source)
    if names:
        separator = max(SEPARATORS, key=lambda one: len(split(lines[0], one, quoted=True)))
        heading = [name.strip() for name in split(lines[0], separator, quoted=True)]
        return Layout(CSV, separator, chosen_columns(heading, names, source), lines[0])
    if format not in (AUTO, CSV):
        fitting = [layout for layout in KNOWN if layout.name == format]
    else:
        headed = read_heading(lines[0])
        if headed is not None:
            return headed
        fitting = [] if format == CSV else list(KNOWN)
    counts = [sum(layout.fits(line) for line in lines) for layout in fitting]
    if fitting and format != AUTO:
        return fitting[counts.index(max(counts))]  # the user knows better, and bad lines are quarantined
    if not counts or 2 * max(counts) <= len(lines):
        told = "it has no heading with user, time, lat and lon" if format == CSV else "no known layout fits it"
        choices = ", ".join(name for name in FORMATS if name != AUTO)
        raise SettingsError("", f"{told}; say --format ({choices}) or give it a heading", source=source)
    return fitting[counts.index(max(counts))]


def read_heading(line: str) -> Layout | None:
    """A CSV layout, if the line names the columns."""
    for separator in SEPARATORS:
        names = [name.strip() for name in split(line, separator, quoted=True)]
        columns = name_columns(names)
        if columns is not None:
            return Layout(CSV, separator, columns, line)
    return None


def name_columns(names: Sequence[str]) -> tuple[str, ...] | None:
    """What each named column is; none, if user and time and where are not all there."""
    lower = [name.lower() for name in names]
    columns = [OTHER] * len(names)
    for what, known in HEADINGS.items():
        at = next((lower.index(name) for name in known if name in lower), None)
        if at is not None:
            columns[at] = what
    where = (LAT in columns and LON in columns) or PLACE in columns
    return tuple(columns) if USER in columns and TIME in columns and where else None


OPTIONS = {USER: "--client", TIME: "--time", UNTIL: "--until", LAT: "--lat", LON: "--lon", PLACE: "--place"}


def chosen_columns(found: Sequence[str], names: Mapping[str, str], source: str) -> tuple[str, ...]:
    """What each column of a file is, of which some were named by the user; the others go by the usual names."""
    columns = [OTHER] * len(found)
    for what, name in names.items():
        if name not in found:
            raise SettingsError(OPTIONS[what], f"{source} has no column {name[:60]!r}; {choose(name, found)}")
        columns[list(found).index(name)] = what
    lower = [name.lower() for name in found]
    for what, known in HEADINGS.items():
        at = next((lower.index(name) for name in known if name in lower and not columns[lower.index(name)]), None)
        if what not in names and at is not None:
            columns[at] = what
    if PLACE in columns:
        needed: tuple[str, ...] = (USER, TIME)
    else:
        needed = (USER, TIME, LAT, LON)
    for what in needed:
        if what not in columns:
            told = f"{source} has no column {HEADINGS[what][0]!r}; {choose(what, found)}"
            raise SettingsError(OPTIONS[what], told)
    return tuple(columns)
