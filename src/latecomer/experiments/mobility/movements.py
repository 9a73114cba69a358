"""Who is where and when: the paper's three scenarios (mobility §5.2.2 to §5.2.4).

A move is a client that leaves one leaf and comes to the same or another one. Leaves are numbers from 0 in the west to
63 in the east; times are seconds since the beginning of the run, which is 16:00.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from latecomer.experiments.mobility.tree import CITY_KM, FloatArray, IntArray

LEAVES = 64
CELL_KM = CITY_KM / LEAVES
MINUTE_S = 60.0
HOUR_S = 3600.0
START_H = 16
"""The clock at the beginning of a run."""
SPEEDS_KMH = (5.0, 50.0, 100.0)

Edge = Literal["reflect", "clamp", "wrap"]
Name = Literal["commute", "random", "pervasive"]


@dataclass(frozen=True, slots=True)
class Movements:
    """Moves in the order of clients, and of each client in the order of time."""

    starts: IntArray
    """The first leaf of each client, where it is connected at the beginning."""
    client: IntArray
    old: IntArray
    new: IntArray
    left: FloatArray
    came: FloatArray


def downtown(count: int) -> IntArray:
    """The leaves in the middle of the city."""
    first = (LEAVES - count) // 2
    return np.arange(first, first + count)


def commute(clients: int, random: np.random.Generator) -> Movements:
    """Home from work: once for each client."""
    starts = random.choice(downtown(20), size=clients)
    left = random.uniform(0, 2 * HOUR_S, size=clients)
    near = random.permutation(clients) < round(0.4 * clients)
    inner = downtown(30)
    outer = np.setdiff1d(np.arange(LEAVES), inner)
    new = np.where(near, random.choice(inner, size=clients), random.choice(outer, size=clients))
    minutes = np.where(near, random.uniform(15, 45, size=clients), random.uniform(45, 90, size=clients))
    return Movements(starts, np.arange(clients), starts, new, left, left + MINUTE_S * minutes)


@dataclass(frozen=True, slots=True)
class _Trips:
    """Clients that alternate between staying and travelling, 10 to 30 minutes each; places in cells, unfolded."""

    client: IntArray
    since: FloatArray
    until: FloatArray
    start: FloatArray
    end: FloatArray
    first: FloatArray


def _trips(clients: int, length_s: float, random: np.random.Generator) -> _Trips:
    rounds = int(np.ceil(length_s / (20 * MINUTE_S))) + 1  # a stay and a trip take at least 20 minutes
    stays = random.uniform(10 * MINUTE_S, 30 * MINUTE_S, size=(clients, rounds))
    trips = random.uniform(10 * MINUTE_S, 30 * MINUTE_S, size=(clients, rounds))
    speeds = random.choice(SPEEDS_KMH, size=(clients, rounds)) * random.choice((-1.0, 1.0), size=(clients, rounds))
    cells = speeds / HOUR_S / CELL_KM * trips
    begin = random.uniform(0, LEAVES, size=clients)
    until = np.cumsum(stays + trips, axis=1)
    end = begin[:, None] + np.cumsum(cells, axis=1)
    who = np.repeat(np.arange(clients), rounds)
    since, until, start, end = (array.ravel() for array in (until - trips, until, end - cells, end))
    kept = since < length_s
    return _Trips(who[kept], since[kept], until[kept], start[kept], end[kept], begin)


def folded(cells: FloatArray, edge: Edge) -> IntArray:
    """The leaf at an unfolded place: at the edge of the city clients turn round, or come in on the other side."""
    numbers = np.floor(cells).astype(np.int64)
    if edge == "wrap":
        return numbers % LEAVES
    numbers = numbers % (2 * LEAVES)
    return np.where(numbers < LEAVES, numbers, 2 * LEAVES - 1 - numbers)


def _clamped(trips: _Trips) -> _Trips:
    """Clients stop at the edge."""
    start, end = trips.start.copy(), trips.end.copy()
    inside = np.nextafter(float(LEAVES), 0.0)
    place = dict(enumerate(trips.first.tolist()))
    for row, client in enumerate(trips.client.tolist()):
        step = trips.end[row] - trips.start[row]
        start[row] = place[client]
        end[row] = place[client] = min(max(place[client] + step, 0.0), inside)
    return _Trips(trips.client, trips.since, trips.until, start, end, trips.first)


def wander(clients: int, length_s: float, edge: Edge, random: np.random.Generator) -> Movements:
    """*random*: disconnected while travelling."""
    trips = _trips(clients, length_s, random)
    if edge == "clamp":
        trips = _clamped(trips)
    old, new = folded(trips.start, edge), folded(trips.end, edge)
    return Movements(folded(trips.first, edge), trips.client, old, new, trips.since, trips.until)


def pervade(clients: int, length_s: float, edge: Edge, gap_s: float, random: np.random.Generator) -> Movements:
    """*pervasive*: the same trips, connected to every broker that is passed; `gap_s` from one to the next."""
    trips = _trips(clients, length_s, random)
    if edge == "clamp":
        trips = _clamped(trips)
    first, last = np.floor(trips.start).astype(np.int64), np.floor(trips.end).astype(np.int64)
    passed = np.abs(last - first)
    row = np.repeat(np.arange(len(first)), passed)
    step = np.arange(len(row)) - np.repeat(np.cumsum(passed) - passed, passed)
    east = np.sign(last - first)[row]
    cell = first[row] + east * step
    border = np.where(east > 0, cell + 1, cell).astype(np.float64)
    share = (border - trips.start[row]) / (trips.end - trips.start)[row]
    left = trips.since[row] + share * (trips.until - trips.since)[row]
    old, new = folded(cell.astype(np.float64), edge), folded((cell + east).astype(np.float64), edge)
    kept = (old != new) & (left < length_s)
    who, left = trips.client[row][kept], left[kept]
    came = left + gap_s
    came[:-1] = np.where(who[1:] == who[:-1], np.minimum(came[:-1], left[1:]), came[:-1])
    return Movements(folded(trips.first, edge), who, old[kept], new[kept], left, came)
