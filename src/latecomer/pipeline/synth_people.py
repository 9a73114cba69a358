"""Made-up people who check in as real ones do: arrays in, arrays out, no Spark.

Theory of operation. Chance is a function: number × step × purpose × seed → [0, 1), by a hash. So what a user does
depends on nothing but the user, and a million users are the same whether they are made one by one, in batches or on a
cluster.

A user draws how often they check in, and gaps between the check-ins on the clock of activity (see stages/habits.py);
the gaps are stretched to fill the user's part of the time, and the clock is turned back to that of the wall. Then they
walk from check-in to check-in. The chance of having moved depends on the gap, is higher away from home, and differs
from user to user. Who moves discovers a new cell, the nearer and the more popular the likelier, or goes home, or
returns to one of their former visits: exploration and preferential return (Song et al., Nature Physics 2010).
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from latecomer.pipeline.calibration import Calibration
from latecomer.pipeline.stages import habits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

ACTIVITY, ROUNDING, MOBILITY, HOME, GAP, MOVE, NEW, WHERE, RETURN, HOMING, SPAN, PLACE, FRIENDS, FRIEND, SPOT = range(
    15
)
"""Purposes of chance."""
RETRIES = 3
CHANCE_MOST = 0.95
PLACES_MOST = 100_000
DAY_S = 86_400
GAMMA_KNOTS = 4096
GAP_UNITS = 1e6
INSIDE = 0.999
"""Of a cell: a place is not on its edge, also when rounded."""

_golden, _first, _second = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Orders(msgspec.Struct, frozen=True):
    """Who is to be made up."""

    users: int
    start_s: int
    """Seconds since 1970."""
    days: float
    scale: float = 1.0
    """Check-ins, against what the calibration has in the same time."""
    seed: int = 0


def chance(users: Ints, step: Ints | int, purpose: int, seed: int) -> Floats:
    """Numbers in [0, 1), by splitmix64 of what they are for."""
    word = _mixed(np.asarray(users, dtype=np.uint64) + _word(seed * 64 + purpose))
    word = _mixed(word + np.asarray(step, dtype=np.uint64))
    return (word >> np.uint64(11)).astype(np.float64) / 2.0**53


def _word(number: int) -> Words:
    return _mixed(np.array([number % 2**64], dtype=np.uint64))


def _mixed(word: Words) -> Words:
    word = word + _golden
    word = (word ^ (word >> np.uint64(30))) * _first
    word = (word ^ (word >> np.uint64(27))) * _second
    return word ^ (word >> np.uint64(31))


def rate(calibration: Calibration, orders: Orders) -> float:
    """By which check-ins in the time of the calibration are multiplied; straight lines between knots are put right."""
    real = calibration.checkins / calibration.users
    return real / _mean(np.array(calibration.activity)) * orders.days / calibration.days * orders.scale


def expected(calibration: Calibration, orders: Orders) -> float:
    """Check-ins per user: nobody has fewer than one."""
    return _mean(np.maximum(1.0, np.array(calibration.activity) * rate(calibration, orders)))


class People:
    """A calibration made ready for drawing from."""

    def __init__(self, calibration: Calibration, orders: Orders) -> None:
        self.orders = orders
        self._knots = np.array(habits.KNOTS)
        self._activity = np.array(calibration.activity)
        self._rate = rate(calibration, orders)
        self._span = np.array(calibration.span)
        self._homing = calibration.homing
        self._gaps = np.array(calibration.gaps)
        self._week = np.array([0.0, *accumulate(calibration.week)])
        self._week[-1] = 1.0
        self._moves = np.array([calibration.moves_from_elsewhere, calibration.moves_from_home])
        self._mobility = gamma_knots(calibration.mobility_shape)
        self._discovery = np.array(calibration.discovery)
        self._friends = np.array(calibration.friends)
        cells = calibration.places
        self._size = calibration.cell
        self._row = np.array([cell.row for cell in cells])
        self._column = np.array([cell.column for cell in cells])
        self._places = np.minimum(np.array([cell.places for cell in cells]), PLACES_MOST)
        self._homes = _cumulated(np.array([cell.homes for cell in cells], dtype=np.float64))
        mean = calibration.checkins / calibration.users
        self._busy = np.array([cell.busy / cell.homes / mean if cell.homes else 1.0 for cell in cells])
        self._pull = _pulls(calibration)

    def checkins(self, users: Ints) -> dict[str, npt.NDArray[Any]]:
        """All check-ins of these users, by user and time: user, time (seconds since 1970), lat, lon, place."""
        home = np.searchsorted(self._homes, self._chance(users, 0, HOME), side="right")
        count = self._counts(users, home)
        start = np.concatenate(([0], np.cumsum(count)))[:-1]
        owner = np.repeat(np.arange(len(users)), count)
        step = np.arange(len(owner)) - start[owner]
        time_s = self._times(users, count, start, owner, step, home)
        cell = self._walk(users, count, start, owner, step, home, time_s)
        rank = np.floor(self._places[cell] * self._chance(users[owner], step, PLACE) ** 2).astype(np.int64)
        place = cell * PLACES_MOST + rank
        lat = (self._row[cell] + INSIDE * self._chance(place, 0, SPOT)) * self._size
        lon = (self._column[cell] + INSIDE * self._chance(place, 1, SPOT)) * self._size
        return {
            "user": users[owner],
            "time": time_s,
            "lat": np.round(lat, 6),
            "lon": np.round(lon, 6),
            "place": place,
        }

    def friendships(self, users: Ints) -> dict[str, npt.NDArray[Any]]:
        """Half of everybody's friends, found by them; the other half finds them."""
        if not len(self._friends) or self.orders.users < 2:
            return {"user": np.zeros(0, np.int64), "friend": np.zeros(0, np.int64)}
        wanted = np.interp(self._chance(users, 0, FRIENDS), self._knots, self._friends) / 2
        count = np.floor(wanted + self._chance(users, 1, FRIENDS)).astype(np.int64)
        owner = np.repeat(np.arange(len(users)), count)
        step = np.arange(len(owner)) - np.concatenate(([0], np.cumsum(count)))[:-1][owner]
        others = self.orders.users - 1
        further = 1 + np.floor(self._chance(users[owner], step, FRIEND) * others).astype(np.int64)
        return {"user": users[owner], "friend": (users[owner] + further) % self.orders.users}

    def _chance(self, users: Ints, step: Ints | int, purpose: int) -> Floats:
        return chance(users, step, purpose, self.orders.seed)

    def _counts(self, users: Ints, home: Ints) -> Ints:
        """How often each checks in, at least once."""
        wanted = (
            np.interp(self._chance(users, 0, ACTIVITY), self._knots, self._activity) * self._rate * self._busy[home]
        )
        count: Ints = np.maximum(1, np.floor(wanted + self._chance(users, 0, ROUNDING))).astype(np.int64)
        return count

    def _times(self, users: Ints, count: Ints, start: Ints, owner: Ints, step: Ints, home: Ints) -> Ints:
        """When: gaps that fill the time on the clock of activity, by the wall; no two of a user at once."""
        passed = np.cumsum(self._gap(users[owner], step))  # of whole numbers: exact, whoever else is in the batch
        passed -= passed[start][owner]
        span = np.interp(self._chance(users, 0, SPAN), self._knots, self._span)
        begin = (1 - span) * self._chance(users, 1, SPAN)
        share = begin[owner] + (span / np.maximum(1, passed[start + count - 1]))[owner] * passed
        zone_s = np.floor(self._column[home] * self._size / habits.DEGREES_PER_HOUR + 0.5).astype(np.int64) * 3600
        shift_s = zone_s + habits.MONDAY_H * 3600
        first, last = (self._weeks(self.orders.start_s + shift_s + s) for s in (0, int(self.orders.days * DAY_S)))
        busy = first[owner] + share * (last - first)[owner]
        week = np.floor(busy)
        hour = np.interp(busy - week, self._week, np.arange(habits.HOURS + 1))
        local_s = np.floor((week * habits.HOURS + hour) * 3600).astype(np.int64)
        at = local_s - shift_s[owner]
        ahead = owner * (1 << 40) - step  # at least a second after the one before
        apart: Ints = np.maximum.accumulate(at + ahead) - ahead
        return apart

    def _gap(self, users: Ints, step: Ints) -> Ints:
        drawn = np.interp(self._chance(users, step, GAP), self._knots, self._gaps)
        units: Ints = np.floor(drawn * GAP_UNITS).astype(np.int64) + 1
        return units

    def _weeks(self, local_s: Ints) -> Floats:
        """Weeks on the clock of activity."""
        week, second = np.divmod(local_s, habits.WEEK_S)
        weeks: Floats = week + np.interp(second / 3600, np.arange(habits.HOURS + 1), self._week)
        return weeks

    def _walk(self, users: Ints, count: Ints, start: Ints, owner: Ints, step: Ints, home: Ints, time_s: Ints) -> Ints:
        """In which cell each check-in is, for all users at once, one check-in after the other."""
        gap_h = np.diff(time_s, prepend=0) / 3600
        kind = np.searchsorted(np.array(habits.GAPS_H), gap_h, side="right")
        lucky = self._chance(users[owner], step, MOVE)
        mobile = np.interp(self._chance(users, 0, MOBILITY), np.linspace(0, 1, GAMMA_KNOTS), self._mobility)
        walk = _Walk(self, users, home, start, len(owner))
        order = np.argsort(-count, kind="stable")
        waiting = np.searchsorted(-count[order], -np.arange(int(count.max()) + 1), side="left")
        walk.cell[start] = home
        for at in range(1, int(count.max())):
            who = order[: waiting[at]]  # who checks in more often than this
            index = start[who] + at
            here = walk.here[who]
            risk = self._moves[(here == home[who]).astype(np.int64), kind[index]] * mobile[who]
            moving = who[lucky[index] < np.minimum(risk, CHANCE_MOST)]
            if len(moving):
                walk.move(moving, at)
            walk.cell[index] = walk.here[who]
        return walk.cell


class _Walk:
    """Where everybody is and was."""

    def __init__(self, people: People, users: Ints, home: Ints, start: Ints, size: int) -> None:
        self._people, self._users, self._home, self._start = people, users, home, start
        self.cell = np.zeros(size, np.int64)
        self.here = home.copy()
        self._visits = np.ones(len(users), np.int64)
        self._visited = np.zeros(size, np.int64)  # the cells of a user's visits, from where the user's check-ins start
        self._visited[start] = home
        self._known = np.zeros((len(users), len(people._row)), np.bool_)
        self._known[np.arange(len(users)), home] = True
        self._cells_known = np.ones(len(users), np.int64)

    def move(self, who: Ints, at: int) -> None:
        people, users = self._people, self._users[who]
        known = np.minimum(self._cells_known[who], len(people._discovery))
        new = people._chance(users, at, NEW) < people._discovery[known - 1]
        target = np.full(len(who), -1)
        target[new] = self._discovered(who[new], at)
        back = target < 0
        target[back] = self._returned(who[back], at)
        stuck = target == self.here[who]
        target[stuck] = self._discovered(who[stuck], at)
        gone, target = who[target >= 0], target[target >= 0]
        self._cells_known[gone] += ~self._known[gone, target]
        self._known[gone, target] = True
        self._visited[self._start[gone] + self._visits[gone]] = target
        self._visits[gone] += 1
        self.here[gone] = target

    def _discovered(self, who: Ints, at: int) -> Ints:
        """A cell that is new to each; -1 if there is none."""
        people = self._people
        pull = np.cumsum(np.where(self._known[who], 0.0, people._pull[self.here[who]]), axis=1)
        wanted = people._chance(self._users[who], at, WHERE) * pull[:, -1]
        found = np.minimum((pull <= wanted[:, None]).sum(axis=1), pull.shape[1] - 1)
        return np.where(pull[:, -1] > 0, found, -1)

    def _returned(self, who: Ints, at: int) -> Ints:
        """Home, or the cell of a former visit that is not here."""
        people = self._people
        found = self._home[who]
        away = found != self.here[who]
        open_ = ~(away & (people._chance(self._users[who], at, HOMING) < people._homing))
        for retry in range(RETRIES):
            past = self._visits[who] - 1
            which = np.floor(people._chance(self._users[who], at * RETRIES + retry, RETURN) * past).astype(np.int64)
            cell = self._visited[self._start[who] + which]
            take = open_ & (cell != self.here[who])
            found = np.where(take, cell, found)
            open_ &= ~take
        return found


def _pulls(calibration: Calibration) -> Floats:
    """[cells, cells] how likely a new cell is from another: its visitors, and how near it is; never the same."""
    size = calibration.cell
    lat, lon = (
        np.radians((np.array(edges) + 0.5) * size)
        for edges in zip(*((cell.row, cell.column) for cell in calibration.places), strict=True)
    )
    across = np.cos(lat)[:, None] * np.cos(lat) * np.sin((lon[:, None] - lon) / 2) ** 2
    far_km = 2 * habits.EARTH_KM * np.arcsin(np.sqrt(np.sin((lat[:, None] - lat) / 2) ** 2 + across))
    nearness = np.array(calibration.nearness)[np.searchsorted(np.array(habits.DISTANCES_KM), far_km, side="right")]
    pull: Floats = nearness * np.array([cell.users for cell in calibration.places], dtype=np.float64)
    np.fill_diagonal(pull, 0.0)
    return pull


def gamma_knots(shape: float) -> Floats:
    """The gamma distribution of mean one at evenly spaced knots, by integrating its density."""
    top = 1 + 12 / np.sqrt(shape) + 12 / shape
    # In the logarithm, as a density of small shape is infinite at zero.
    log_x = np.linspace(np.log(top) - 60 / min(shape, 1.0), np.log(top), 200_001)
    log_density = shape * log_x - shape * np.exp(log_x)
    density = np.exp(log_density - log_density.max())
    total = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    return np.exp(np.interp(np.linspace(0, 1, GAMMA_KNOTS), total / total[-1], log_x))


def _mean(values: Floats) -> float:
    """Of a distribution that is given at the knots."""
    return float(np.sum(np.diff(np.array(habits.KNOTS)) * (values[1:] + values[:-1]) / 2))


def _cumulated(weights: Floats) -> Floats:
    total = np.cumsum(weights)
    shares: Floats = total / total[-1]
    return shares
