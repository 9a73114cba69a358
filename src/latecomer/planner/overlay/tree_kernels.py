"""The trees that routes form (`model/ring`), as arrays by position, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from latecomer.planner.compiling import kernel

Ints = npt.NDArray[np.int64]


@kernel
def grow_trees(starts: Ints, steps: Ints, roots: Ints) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int16]]:
    """Parents [R, N], -1 at the root, and depths [R, N]. Fingers are in CSR form: `steps[starts[at] : starts[at + 1]]`.

    A broker's children are the fingers within its arc, and the arc of each ends where the next begins: every broker is
    met once, clockwise from the root.
    """
    count = len(starts) - 1
    parents = np.full((len(roots), count), -1, np.int32)
    depths = np.zeros((len(roots), count), np.int16)
    length = np.zeros(count, np.int64)
    for row in range(len(roots)):
        length[roots[row]] = count
        for step in range(count):
            at = roots[row] + step
            if at >= count:
                at -= count
            for k in range(starts[at], starts[at + 1]):
                if steps[k] >= length[at]:
                    break
                child = at + steps[k]
                if child >= count:
                    child -= count
                end = steps[k + 1] if k + 1 < starts[at + 1] else length[at]
                length[child] = min(end, length[at]) - steps[k]
                parents[row, child] = at
                depths[row, child] = depths[row, at] + 1
    return parents, depths
