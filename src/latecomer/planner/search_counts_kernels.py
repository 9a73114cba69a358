"""Free counts: a topic gets one replica more where others give up one of theirs, if that lowers the objective."""

from __future__ import annotations

import numpy as np

from latecomer.planner.compiling import inner, kernel
from latecomer.planner.search_state_kernels import (
    I64,
    Case,
    State,
    bearable,
    carry_out,
    extra,
    note,
    price,
    spare,
    welcome,
)


@inner
def trade(case: Case, state: State) -> bool:
    """The best of all replicas more at a store, with the cheapest given up there until it fits."""
    if not case.free:
        return False
    price(case, state, bool(np.int64(0)))
    topics, none = case.replicas.size, int(np.int64(-1))
    best, number = int(np.int64(0)), int(np.int64(0))
    changes, trial = np.zeros((topics + 1, 3), np.int64), np.zeros((topics + 1, 3), np.int64)
    falls = np.empty(topics, np.int64)
    for c in range(case.usable.size):
        if not state.store[c]:
            continue
        spared = _spared(case, state, c, trial[1:], falls)
        for t in range(topics):
            gain = state.shift[c, state.first[t + 1] - 1] if state.slot[t, c] < 0 else 0
            if gain >= best or not welcome(case, state, t, c):
                continue
            note(trial[0], t, none, c)
            length, room = 1, case.capacity[c] - state.load[c]
            moves = extra(case, state, t, none, c)
            while room < case.size[t] and length <= spared:
                u, s = trial[length, 0], trial[length, 1]
                gain += falls[length - 1]
                room += case.size[u]
                moves += extra(case, state, u, s, none)
                length += 1
            if room < case.size[t] or gain >= best or state.sums[1] + moves > case.budget:
                continue
            if bearable(case, state, trial, length):
                best, number = gain, length
                changes[:length] = trial[:length]
    if number == 0:
        return False
    carry_out(case, state, changes, number)
    return True


@inner
def _spared(case: Case, state: State, c: int, trial: I64, falls: I64) -> int:
    """What store c can give up, the cheapest first: how many; changes and prices are written down."""
    number = 0
    for t in range(case.replicas.size):
        if state.slot[t, c] < 0 or not spare(case, state, t, c):
            continue
        fall = state.fall[state.first[t] + state.slot[t, c]]
        at = number
        while at > 0 and falls[at - 1] > fall:
            falls[at] = falls[at - 1]
            trial[at] = trial[at - 1]
            at -= 1
        falls[at] = fall
        note(trial[at], t, state.slot[t, c], int(np.int64(-1)))
        number += 1
    return number


@kernel
def prune(case: Case, state: State) -> None:
    """Give up the replicas that save nothing."""
    changes = np.zeros((1, 3), np.int64)
    for t in range(case.replicas.size):
        s = 0
        while s < state.held[t]:
            useless = state.fall[state.first[t] + s] == 0 and spare(case, state, t, state.where[t, s])
            note(changes[0], t, s, int(np.int64(-1)))
            if useless and bearable(case, state, changes, len(changes)):
                carry_out(case, state, changes, len(changes))
            else:
                s += 1
