"""What users want, and how it changes: the input of the model, the same for every system that is compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NOTHING = -1
"""In a slot that is empty, and as the place of users who have none."""
MOVE = -1
"""As the slot of a change: the user is now at another place."""


@dataclass(frozen=True, slots=True)
class Changes:
    """In the order of time. Successive rows of one user at one time are one change, with one decision on its home.

    A slot holds one subscription of a user: `what` replaces what was in it. A user that has a topic in two slots
    subscribes to it once.
    """

    time: Floats
    """[K] in steps from the start"""
    user: Ints
    slot: Ints
    """Which of the user's slots, or `MOVE`."""
    what: Ints
    """The topic that the slot holds from now on, or `NOTHING`; after `MOVE` the place where the user is."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Users, topics and publications."""

    brokers: int
    topics: int
    slots: Ints
    """[U, W] what users want at the start; `NOTHING` in empty slots"""
    where: Ints
    """[U] where they are at the start; `NOTHING` where places play no role"""
    changes: Changes
    published: Ints
    """[T, P] publications of each topic in each step; T is the length of the run"""

    @property
    def steps(self) -> int:
        return len(self.published)
