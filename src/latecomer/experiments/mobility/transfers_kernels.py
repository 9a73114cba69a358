"""Transfers that share links, compiled: from one beginning or end to the next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NONE = -1
DONE = 1e-6
"""Messages that are left of a transfer that is over."""


@njit(cache=True, nogil=True)
def run(
    client: Ints,
    left: Floats,
    ready: Floats,
    before_left: Ints,
    before_ready: Ints,
    spared: Ints,
    again: bool,
    links: Ints,
    nobody: int,
    speed: float,
) -> tuple[Ints, Floats, Floats, int]:
    """For each move, in the order of `ready`: the move since whose departure the client has had nothing, when its
    transfer begins and ends; and the most transfers at once.

    A move sends the publications before `ready` that are not before its client left, but for those that are spared;
    `again`: what was sent to a client that left before it had everything is sent again with the rest.
    """
    count = len(client)
    due = before_ready - spared
    since = np.arange(count)
    begin, end = np.full(count, np.inf), np.full(count, np.inf)
    rest, rate = np.zeros(count), np.zeros(count)
    active, over = np.zeros(count, np.int64), np.zeros(count, np.int64)
    running, most, now = 0, 0, 0.0
    last = np.full(client.max() + 1 if count else 1, NONE)
    behind = np.full(count, NONE)
    crowd = np.zeros(nobody + 1, np.int64)
    following = 0
    while following < count or running:
        until = ready[following] if following < count else np.inf
        step = _rates(active, running, links, nobody, crowd, speed, rest, rate)
        ends = now + step <= until and running > 0
        passed = step if ends else until - now
        for at in range(running):
            rest[active[at]] -= rate[at] * passed
        now = now + step if ends else until
        if ends:
            kept = _ended(active, running, rest, over)
            ended, running = running - kept, kept
            for at in range(ended):
                end[over[at]] = now
            for at in range(ended):  # what waited for it can begin, and may have nothing to send
                move = behind[over[at]]
                while move != NONE:
                    running = _start(move, now, since, before_left, due, again, begin, end, rest, active, running)
                    move = behind[move] if end[move] == now else NONE
        else:
            move = following
            following += 1
            previous = last[client[move]]
            last[client[move]] = move
            if previous != NONE and end[previous] > left[move]:
                since[move] = since[previous]
            if previous != NONE and end[previous] > now:
                behind[previous] = move
            else:
                running = _start(move, now, since, before_left, due, again, begin, end, rest, active, running)
        most = max(most, running)
    return since, begin, end, most


@njit(cache=True, nogil=True)
def _rates(
    active: Ints, running: int, links: Ints, nobody: int, crowd: Ints, speed: float, rest: Floats, rate: Floats
) -> float:
    """How fast each transfer is, and how long it takes until one ends."""
    crowd[:] = 0
    for at in range(running):
        for link in links[active[at]]:
            if link != nobody:
                crowd[link] += 1
    step = np.inf
    for at in range(running):
        worst = 1
        for link in links[active[at]]:
            if link != nobody:
                worst = max(worst, crowd[link])
        rate[at] = speed / worst
        step = min(step, rest[active[at]] / rate[at])
    return step


@njit(cache=True, nogil=True)
def _ended(active: Ints, running: int, rest: Floats, over: Ints) -> int:
    """Take those that are over out of the active ones, into `over`; returns how many stay."""
    kept = ended = 0
    for at in range(running):
        move = active[at]
        if rest[move] > DONE:
            active[kept] = move
            kept += 1
        else:
            over[ended] = move
            ended += 1
    return kept


@njit(cache=True, nogil=True)
def _start(
    move: int,
    now: float,
    since: Ints,
    before_left: Ints,
    due: Ints,
    again: bool,
    begin: Floats,
    end: Floats,
    rest: Floats,
    active: Ints,
    running: int,
) -> int:
    """Begin a transfer; what has nothing to send ends at once. Returns how many are running."""
    begin[move] = now
    events = due[move] - before_left[since[move] if again else move]
    if events <= 0:
        end[move] = now
        return running
    rest[move] = events
    active[running] = move
    return running + 1
