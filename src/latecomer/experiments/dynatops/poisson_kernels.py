"""Which topic replaces another, change by change, compiled."""

from __future__ import annotations

import numpy as np

from latecomer.experiments.dynatops.overlay_kernels import F64, I64
from latecomer.planner.compiling import kernel


@kernel
def replace_within(slots: I64, users: I64, places: I64, mode: I64, size: int, chance: F64) -> I64:
    """[K] topics of the user's own mode that the user does not have, each as likely; `slots` becomes the end."""
    found = np.empty(len(users), np.int64)
    for at in range(len(users)):
        held = slots[users[at]]
        first = mode[users[at]] * size
        rank = int(chance[at] * (size - len(held)))
        topic = first
        while True:
            if not (held == topic).any():
                if rank == 0:
                    break
                rank -= 1
            topic += 1
        held[places[at]] = topic
        found[at] = topic
    return found


@kernel
def replace_by_any(slots: I64, users: I64, places: I64, sums: F64, seed: int) -> I64:
    """[K] topics that the user does not have, as likely as their popularity, of which `sums` are the partial sums."""
    np.random.seed(seed)
    found = np.empty(len(users), np.int64)
    for at in range(len(users)):
        held = slots[users[at]]
        while True:
            topic = min(int(np.searchsorted(sums, np.random.random(), side="right")), len(sums) - 1)
            if not (held == topic).any():
                break
        held[places[at]] = topic
        found[at] = topic
    return found
