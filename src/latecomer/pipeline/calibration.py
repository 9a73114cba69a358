"""What check-ins are like, in a few hundred numbers: measured from real ones, and enough to make more of the same.

The built-in numbers are those of the Foursquare check-ins of three months in the US; docs/guide/checkins.md has the
commands that measure them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from math import asin, cos, radians, sin, sqrt
from typing import TYPE_CHECKING, Any

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.pipeline.stages import habits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUILT_IN = "calibration-foursquare-us.json"
CELLS_MOST = 1000
"""The cells that most people were in; a generator walks over all of them."""
SHAPE_MOST = 1000.0
"""Users who are this alike are all the same."""
DIGITS = 6


class Place(msgspec.Struct, frozen=True):
    """One cell."""

    row: int
    column: int
    """Its corner in the south and west, in cells."""
    users: int
    homes: int
    """Of users who checked in here more than anywhere else."""
    busy: int
    """Check-ins of those users, wherever."""
    places: int


class Calibration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How people check in and move. Distributions are given at `habits.KNOTS`."""

    source: str
    days: float
    """From the first check-in to the last."""
    users: int
    checkins: int
    cell: float
    """Degrees."""
    activity: tuple[float, ...]
    """Check-ins per user."""
    span: tuple[float, ...]
    """From a user's first check-in to the last, as a share of `days`."""
    week: tuple[float, ...]
    """Share of each local hour of the week, from Monday's first."""
    gaps: tuple[float, ...]
    """Between check-ins on the clock of activity, in means of the user."""
    moves_from_home: tuple[float, ...]
    moves_from_elsewhere: tuple[float, ...]
    """The chance that the next check-in is in another cell, by class of the gap: `habits.GAPS_H`."""
    mobility_shape: float
    """How alike users are: their chances are multiplied by a draw from the gamma distribution of this shape, mean 1."""
    discovery: tuple[float, ...]
    """The chance that a move leads to a cell that is new to the user, by the number that they know, from 1."""
    homing: float
    """The chance that who is not at home and goes to a cell that they know goes home."""
    nearness: tuple[float, ...]
    """By class of distance, `habits.DISTANCES_KM`: new cells chosen, against those if distance did not matter."""
    places: tuple[Place, ...]
    friends: tuple[float, ...] = ()
    """Per user; none: nobody has any."""

    def text(self) -> str:
        """As JSON, a line for every field."""
        values = ((name, msgspec.json.encode(getattr(self, name)).decode()) for name in self.__struct_fields__)
        return "{\n" + ",\n".join(f'  "{name}": {value}' for name, value in values) + "\n}\n"

    def check(self, source: str) -> Calibration:
        """Itself, or a SettingsError that says what does not fit."""
        sizes = {
            "activity": len(habits.KNOTS),
            "span": len(habits.KNOTS),
            "week": habits.HOURS,
            "gaps": len(habits.KNOTS),
            "moves_from_home": len(habits.GAPS_H) + 1,
            "moves_from_elsewhere": len(habits.GAPS_H) + 1,
            "nearness": len(habits.DISTANCES_KM) + 1,
        }
        for name, size in sizes.items():
            if len(getattr(self, name)) != size:
                raise SettingsError("--like", f"{name} must have {size} numbers: measure it again", source=source)
        if not self.places or not self.discovery or not sum(place.homes for place in self.places):
            raise SettingsError("--like", "it has no cells that anybody lives in: measure it again", source=source)
        return self


def built_in() -> Calibration:
    return read_calibration((files("latecomer.pipeline") / BUILT_IN).read_bytes(), BUILT_IN)


def read_calibration(text: bytes, source: str) -> Calibration:
    try:
        return msgspec.json.decode(text, type=Calibration).check(source)
    except msgspec.DecodeError as error:
        told = (
            f"this is no calibration ({error}); make one with: latecomer checkins FILE --calibration CALIBRATION.json"
        )
        raise SettingsError("--like", told, source=source) from None


def calibrated(
    checkins: DataFrame, visits: DataFrame, friendships: DataFrame | None, *, cell: float, days: float, source: str
) -> Calibration:
    """Measure it. What is collected is small: a row per hour, class, knot, or cell."""
    counts = {row["hour"]: row["checkins"] for row in habits.week(checkins).collect()}
    total = sum(counts.values())
    week = _rounded(counts.get(hour, 0) / total for hour in range(habits.HOURS))
    stepped = habits.steps(checkins, week).persist()
    living = habits.homes(visits).persist()
    try:
        chances = habits.moves_by_gap(stepped, living).persist()
        moves = {(row["home"], row["gap"]): row["moves"] / row["steps"] for row in chances.collect()}
        spread = habits.mobility(stepped, living, chances).collect()[0]
        chances.unpersist()
        gaps = habits.gaps(stepped).collect()[0]["knots"]
        places = _places(habits.places_of_cells(checkins, living))
        back = habits.returns(visits, living).collect()[0]
    finally:
        stepped.unpersist()
        living.unpersist()
    users = checkins.select("user").distinct().count()
    return Calibration(
        source=source,
        days=round(days, DIGITS),
        users=users,
        checkins=total,
        cell=cell,
        activity=_rounded(habits.activity(checkins).collect()[0]["knots"]),
        span=_rounded(habits.spans(checkins, days).collect()[0]["knots"] or [1.0] * len(habits.KNOTS)),
        week=week,
        gaps=_rounded(gaps or [1.0] * len(habits.KNOTS)),
        moves_from_home=_by_class(moves, True),
        moves_from_elsewhere=_by_class(moves, False),
        mobility_shape=_shape(spread["squares"] or 0.0, spread["excess"] or 0.0),
        discovery=_discovery(visits),
        homing=round(back["home"] / back["returns"], DIGITS) if back["returns"] else 1.0,
        nearness=_nearness(habits.discovery_distances(visits, cell).collect(), places, cell),
        places=places,
        friends=() if friendships is None else _rounded(habits.degrees(friendships).collect()[0]["knots"] or ()),
    )


def kilometres(a: Place, b: Place, cell: float) -> float:
    """Between the middles of two cells, along a great circle."""
    lat_a, lon_a, lat_b, lon_b = (radians((edge + 0.5) * cell) for edge in (a.row, a.column, b.row, b.column))
    half = sin((lat_b - lat_a) / 2) ** 2 + cos(lat_a) * cos(lat_b) * sin((lon_b - lon_a) / 2) ** 2
    return asin(sqrt(half)) * 2 * habits.EARTH_KM


def distance_class(far_km: float) -> int:
    return sum(far_km >= edge for edge in habits.DISTANCES_KM)


def _places(table: DataFrame) -> tuple[Place, ...]:
    most = table.orderBy("users", "cell", ascending=[False, True]).limit(CELLS_MOST).collect()
    found = [
        Place(row["row"], row["column"], row["users"], row["homes"], row["busy"], max(1, row["places"])) for row in most
    ]
    return tuple(sorted(found, key=lambda place: (place.row, place.column)))


def _by_class(moves: dict[tuple[bool, int], float], home: bool) -> tuple[float, ...]:
    """A class that nobody was in is as the one before."""
    found = [0.0]
    for gap in range(len(habits.GAPS_H) + 1):
        found.append(moves.get((home, gap), found[-1]))
    return _rounded(found[1:])


def _shape(squares: float, excess: float) -> float:
    """Of a gamma distribution with mean one: moves vary by mean²/shape beyond chance."""
    return round(min(SHAPE_MOST, squares / excess), DIGITS) if excess > 0 else SHAPE_MOST


def _discovery(visits: DataFrame) -> tuple[float, ...]:
    found = {row["known"]: row["new"] / row["moves"] for row in habits.discoveries(visits).collect()}
    chances = [1.0]
    for known in range(2, habits.KNOWN_MOST + 1):
        chances.append(found.get(known, chances[-1]))
    return _rounded(chances)


def _nearness(found: Sequence[Any], places: Sequence[Place], cell: float) -> tuple[float, ...]:
    classes = len(habits.DISTANCES_KM) + 1
    moves, expected = [0.0] * classes, [0.0] * classes
    leaving: dict[str, int] = {}
    for row in found:
        moves[row["distance"]] += row["moves"]
        leaving[row["origin"]] = leaving.get(row["origin"], 0) + row["moves"]
    everybody = sum(place.users for place in places)
    for origin in places:
        left = leaving.get(f"{origin.row},{origin.column}", 0)
        for target in places if left else ():
            if target != origin:
                share = left * target.users / max(1, everybody - origin.users)
                expected[distance_class(kilometres(origin, target, cell))] += share
    return _rounded(moved / hoped if hoped else 0.0 for moved, hoped in zip(moves, expected, strict=True))


def _rounded(values: Any) -> tuple[float, ...]:
    return tuple(round(float(value), DIGITS) for value in values)
