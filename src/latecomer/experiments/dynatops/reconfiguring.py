"""Messages of the paper's reconfiguration protocol (§III-D4), counted on the overlay as it is.

Eq. 11 is their upper bound. Counted here: what each step sends when two or more brokers change places. INIT and
TREE_UPDATE have no answer in the paper, although the manager must know when a step is over; answers are counted apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from latecomer.experiments.dynatops.overlay import Configuration, Overlay, occupants

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ProtocolCount:
    """Messages by step."""

    init: int = 0
    """RCFG_INIT to every broker"""
    dht_update: int = 0
    """RCFG_DHT_UPDATE to movers, and RCFG_DHT_UPDATED back"""
    repair: int = 0
    """Movers look up their new fingers, hop by hop, and tell who has a finger to them"""
    tree_update: int = 0
    """RCFG_TREE_UPDATE to every broker"""
    tables: int = 0
    """Step 3.1: each mover's table to who takes its old place, hop by hop"""
    trees: int = 0
    """Step 3.2: leave and join requests to rendezvous points, and the tree messages back"""
    finish: int = 0
    """RCFG_FINISH to every broker"""
    answers: int = 0
    """Ours: every broker answers INIT and TREE_UPDATE"""

    @property
    def total(self) -> int:
        """As the paper has them, without the answers."""
        steps = (self.init, self.dht_update, self.repair, self.tree_update, self.tables, self.trees, self.finish)
        return sum(steps)


def hops(overlay: Overlay, start: int, target: int) -> int:
    """Of the key-based route."""
    made = 0
    while start != target:
        start = int(overlay.next_stop[start, target])
        made += 1
    return made


def fingers_of(overlay: Overlay, at: int) -> list[int]:
    """The places that are one hop away."""
    found: list[int] = sorted(set(overlay.next_stop[at].tolist()) - {at})
    return found


def finger_repair(overlay: Overlay, movers: Sequence[int]) -> int:
    """Each newcomer at one of these places asks its successor for every finger, and tells all whose finger it is."""
    count = len(overlay.next_stop)
    into = np.zeros(count, np.int64)
    for at in range(count):
        into[fingers_of(overlay, at)] += 1
    messages = 0
    for at in movers:
        successor = (at + 1) % count
        messages += sum(1 + hops(overlay, successor, finger) for finger in fingers_of(overlay, at))
        messages += int(into[at])
    return messages


def protocol_messages(
    overlay: Overlay, before: Configuration, after: Configuration, subscribed: Flags
) -> ProtocolCount:
    """`subscribed` [B, P]: who subscribes to what while it happens."""
    movers = np.flatnonzero(before != after)
    if not len(movers):
        return ProtocolCount()
    brokers, trees, was = len(before), overlay.trees, occupants(before)
    there = after[movers]
    wrong = subscribed[movers] ^ subscribed[was[there]]
    both_ways = (trees.up.astype(np.int64) + trees.depth)[trees.row]
    return ProtocolCount(
        init=brokers,
        dht_update=2 * len(movers),
        repair=finger_repair(overlay, there.tolist()),
        tree_update=brokers,
        tables=sum(hops(overlay, int(after[mover]), int(before[mover])) for mover in movers),
        trees=int((wrong * both_ways[:, there].T).sum()),
        finish=brokers,
        answers=2 * brokers,
    )
