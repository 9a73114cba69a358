"""Which broker hosts a user: by chance for ever, by place, or the best of a cluster (broker selection, §III-B).

Decisions. A user sends its updated subscriptions to its broker and connects to the answer (algorithm 1), so the
brokers' subscriptions that decide are those before the change: at the present broker they contain what the user had
(`asked`). `after` takes the change first: then the present broker always scores 1, and only load moves anybody.
`others` asks whether somebody else holds the topic there. Load is the share of the cluster's subscriptions, so
w_l = 0.2 · c weighs an even load as w_l = 0.2 · |B| does with shares of all. Of equals the present broker is taken,
then the one with the least load, then the lowest number. The own broker's state is as it is now, that of the others
as of the last exchange.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Policy = Literal["static", "place", "selection"]
Similarity = Literal["asked", "after", "others"]
POLICIES: tuple[Policy, ...] = ("static", "place", "selection")
SIMILARITIES: tuple[Similarity, ...] = ("asked", "after", "others")


class Homes(msgspec.Struct, frozen=True):
    """A policy with its parameters."""

    policy: Policy = "static"
    similarity: Similarity = "asked"
    load_weight: float = 1.0
    """w_l, on the share of the cluster's load"""
    exchange: float = 1.0
    """T_update, in steps"""


def even_clusters(brokers: int, size: int) -> Ints:
    """[B] the cluster of each broker: runs of so many, the last perhaps smaller. For geography bring your own."""
    return np.arange(brokers, dtype=np.int64) // size
