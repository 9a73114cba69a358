"""Check-ins → where everybody is and what they subscribe to, as the model takes it: arrays, no Spark.

A user has five slots: the own cell, and the cells of four friends. A visit changes the first slot of the visitor and
one slot of everybody who follows them. Decision: users are there from the start, in the cell of their first check-in;
so nobody arrives, and what is counted is change alone.

The stage of the pipeline (`pipeline/stages/location_changes`) makes the same rows from check-ins that are too many for
one array; both are held against each other in the tests.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from latecomer.experiments.dynatops.workload import MOVE, NOTHING, Changes, Workload

Ints = npt.NDArray[np.int64]

OWN = 0
"""The slot of the cell in which the user is."""
HOUR_S = 3600
"""A step."""


def friends_by_chance(users: int, followed: int, random: np.random.Generator) -> Ints:
    """[U, F] everybody with so many others, nobody twice: one from each arc of a ring of all others."""
    arcs = min(followed, users - 1)
    edges = np.arange(arcs + 1) * (users - 1) // max(1, arcs)
    drawn = 1 + random.integers(edges[:-1], edges[1:], (users, arcs))
    return (np.arange(users)[:, None] + drawn) % users


def rows_of(user: Ints, time_s: Ints, cell: Ints, friends: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Time, user, slot and cell of every change, in order, from check-ins in the order of user and time.

    Those of first visits have time −1.
    """
    new = np.ones(len(user), np.bool_)
    new[1:] = (user[1:] != user[:-1]) | (cell[1:] != cell[:-1])
    who, where, arrived = user[new], cell[new], time_s[new].copy()
    arrived[np.append(True, who[1:] != who[:-1])] = -1
    users, followed = friends.shape
    order = np.argsort(friends.ravel(), kind="stable")
    first = np.searchsorted(friends.ravel()[order], np.arange(users + 1))
    readers = np.diff(first)[who]
    visit = np.repeat(np.arange(len(who)), readers)
    pair = order[
        np.repeat(first[who], readers) + np.arange(len(visit)) - np.repeat(np.cumsum(readers) - readers, readers)
    ]
    times = np.concatenate([arrived, arrived, arrived[visit]])
    people = np.concatenate([who, who, pair // followed])
    slots = np.concatenate([np.full(len(who), MOVE), np.full(len(who), OWN), 1 + pair % followed])
    cells = np.concatenate([where, where, where[visit]])
    last = np.lexsort((slots, people, times))
    return times[last], people[last], slots[last], cells[last]


def published_by_hour(time_s: Ints, cell: Ints, start_s: int, cells: int) -> Ints:
    """[hours, cells] how many check-ins: each is a publication in its cell."""
    hour = (time_s - start_s) // HOUR_S
    return np.bincount(hour * cells + cell, minlength=(int(hour.max()) + 1) * cells).reshape(-1, cells)


def workload_of(
    rows: tuple[Ints, Ints, Ints, Ints], published: Ints, start_s: int, brokers: int, *, users: int, followed: int
) -> Workload:
    """What `rows_of` or the pipeline made, as the model takes it; times are hours from the start."""
    time_s, user, slot, cell = rows
    slots = np.full((users, 1 + followed), NOTHING, np.int64)
    where = np.full(users, NOTHING, np.int64)
    first = time_s < 0
    own = first & (slot == MOVE)
    where[user[own]] = cell[own]
    held = first & (slot != MOVE)
    slots[user[held], slot[held]] = cell[held]
    later = ~first & (time_s < start_s + HOUR_S * len(published))
    changes = Changes((time_s[later] - start_s) / HOUR_S, user[later], slot[later], cell[later])
    return Workload(brokers, brokers, slots, where, changes, published)


def read_workload(changes: Path, published: Path, brokers: int) -> Workload:
    """What the pipeline wrote."""
    import pyarrow.parquet as pq  # of the pipeline's extra

    table, hours = pq.read_table(changes), pq.read_table(published)
    names = ("time_s", "user", "slot", "cell")
    time_s, user, slot, cell = (table.column(name).to_numpy().astype(np.int64) for name in names)
    order = np.lexsort((slot, user, time_s))
    hour, place, count = (hours.column(name).to_numpy() for name in ("hour", "cell", "checkins"))
    start = int(hour.min())
    counted = np.zeros((int(hour.max()) - start + 1, brokers), np.int64)
    counted[hour - start, place] = count
    rows = (time_s[order], user[order], slot[order], cell[order])
    return workload_of(rows, counted, start * HOUR_S, brokers, users=int(user.max()) + 1, followed=int(slot.max()))
