"""What positions are chosen for: a ring, what each broker subscribes to, and how often each topic is published.

All costs are whole numbers, so that sums do not depend on their order and ties are the same everywhere:
`cost = relay_weight · relays + delay_weight · hops`, times publications in parts of `unit`. `amount` turns a cost back
into messages, and C of DYNATOPS eq. 6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.ring import Ring, point_of
from latecomer.model.topology import quoted
from latecomer.planner.overlay.tree_kernels import grow_trees

Ints = npt.NDArray[np.int64]
Configuration = npt.NDArray[np.int64]
"""[B] per broker the number of its position, counted clockwise from the lowest: X of the paper."""

UNITS = (1_000_000, 1_000, 1)
"""Parts of a publication that are counted: the finest for which all costs fit 53 bits, and so a solver's numbers."""
LARGEST = 2**53
WEIGHT_PARTS = 1000
"""w_d is taken to this accuracy."""


@dataclass(frozen=True)
class OverlayProblem:
    """Brokers, topics and the ring, as arrays."""

    brokers: tuple[BrokerId, ...]
    topics: tuple[str, ...]
    ring: Ring
    roots: Ints
    """[P] the position that owns the topic: its rendezvous point."""
    counts: Ints
    """[P] publications in the period, in parts of `unit`: N_p."""
    first: Ints
    """[B + 1] broker b subscribes to the topics `wanted[first[b] : first[b + 1]]`."""
    wanted: Ints
    """Topics, ascending within each broker."""
    unit: int
    relay_weight: int
    delay_weight: int
    delays: Ints | None = None
    """[B, B] measured delay between two brokers, whole numbers; None: every hop is 1."""
    delay_parts: int = 1
    """How many of these numbers are one unit of delay."""

    @cached_property
    def fingers(self) -> tuple[Ints, Ints]:
        """[N + 1] where the fingers of a position begin, and where each of them leads."""
        fingers = self.ring.all_fingers()
        starts = np.zeros(len(fingers) + 1, np.int64)
        starts[1:] = np.cumsum([len(steps) for steps in fingers])
        ends = [(at + step) % len(fingers) for at, steps in enumerate(fingers) for step in steps]
        return starts, np.array(ends, np.int64)

    @cached_property
    def edges(self) -> npt.NDArray[np.int32]:
        """[R, N] the number of the finger by which the parent in a tree reaches a position; 0 at the root."""
        parents, _, _ = self.trees
        starts, ends = self.fingers
        number = np.zeros((len(starts) - 1, len(starts) - 1), np.int32)
        number[np.repeat(np.arange(len(starts) - 1), np.diff(starts)), ends] = np.arange(len(ends))
        found: npt.NDArray[np.int32] = number[parents, np.arange(len(starts) - 1)]
        return found

    @cached_property
    def trees(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int16], Ints]:
        """Parents and depths [R, N] of the trees of all roots, by position; and the row of each topic."""
        used, rows = np.unique(self.roots, return_inverse=True)
        starts, ends = self.fingers
        count = len(starts) - 1
        steps = (ends - np.repeat(np.arange(count), np.diff(starts))) % count
        parents, depths = grow_trees(starts, steps, used.astype(np.int64))
        return parents, depths, rows.astype(np.int64)

    @cached_property
    def by_topic(self) -> tuple[Ints, Ints]:
        """The same subscriptions by topic: [P + 1] and brokers, ascending within each topic."""
        brokers = np.repeat(np.arange(len(self.brokers)), np.diff(self.first))
        order = np.argsort(self.wanted, kind="stable")
        first = np.zeros(len(self.topics) + 1, np.int64)
        first[1:] = np.cumsum(np.bincount(self.wanted, minlength=len(self.topics)))
        return first, brokers[order]

    def matrix(self) -> npt.NDArray[np.bool_]:
        """[B, P] who subscribes to what."""
        found = np.zeros((len(self.brokers), len(self.topics)), np.bool_)
        found[np.repeat(np.arange(len(self.brokers)), np.diff(self.first)), self.wanted] = True
        return found

    def amount(self, cost: float) -> float:
        """A cost in messages of the period."""
        return cost / (self.unit * max(1, self.relay_weight))


def make_problem(
    ring: Ring,
    brokers: Sequence[BrokerId],
    subscriptions: Mapping[BrokerId, Sequence[str]],
    publications: Mapping[str, float],
    *,
    delay_weight: float = 1.0,
    points: Mapping[str, int] | None = None,
    delays: Ints | None = None,
    delay_parts: int = 1,
) -> OverlayProblem:
    """`publications`: topic → number in the period; `points`: where topics are that are not at their hash; `delays`:
    between brokers [B, B], in `delay_parts` of a unit, where a hop is not as long as any other; `delay_weight` is of
    a whole unit.
    """
    ring.check()
    if len(brokers) != len(ring.positions):
        raise SettingsError("ring", f"{len(brokers)} brokers for {len(ring.positions)} positions; one for each")
    topics = tuple(publications)
    number = {topic: at for at, topic in enumerate(topics)}
    _check_subscriptions(frozenset(brokers), subscriptions, number)
    sets = [sorted({number[topic] for topic in subscriptions.get(broker, ())}) for broker in brokers]
    first = np.zeros(len(sets) + 1, np.int64)
    first[1:] = np.cumsum([len(one) for one in sets])
    pinned = points or {}
    roots = [ring.owner(pinned[topic] if topic in pinned else point_of(topic, ring.bits)) for topic in topics]
    relays, hops = _weights(delay_weight, delay_parts)
    longest = len(brokers).bit_length() * (1 if delays is None else max(1, int(delays.max())))
    unit, counts = _counted(publications, len(brokers) * max(1, relays + hops * longest))
    return OverlayProblem(
        brokers=tuple(brokers),
        topics=topics,
        ring=ring,
        roots=np.array(roots, np.int64),
        counts=counts,
        first=first,
        wanted=np.array([topic for one in sets for topic in one], np.int64),
        unit=unit,
        relay_weight=relays,
        delay_weight=hops,
        delays=None if delays is None else delays.astype(np.int64),
        delay_parts=delay_parts,
    )


def _check_subscriptions(
    brokers: frozenset[BrokerId], subscriptions: Mapping[BrokerId, Sequence[str]], topics: Mapping[str, int]
) -> None:
    if not topics:
        raise SettingsError("demand", "the demand is empty: name at least one topic that is published")
    for broker, wanted in subscriptions.items():
        if broker not in brokers:
            raise SettingsError(
                "subscriptions", f"the broker {quoted(broker)} is not on the ring; add it or correct it"
            )
        for topic in wanted:
            if topic not in topics:
                told = f"the topic {quoted(topic)} of {quoted(broker)} has no publications; add it to the demand"
                raise SettingsError("subscriptions", told)


def _weights(delay_weight: float, delay_parts: int) -> tuple[int, int]:
    """w_d as whole weights of relays and parts of a delay; infinity: delay alone counts."""
    if delay_weight == math.inf:
        return 0, 1
    if not (math.isfinite(delay_weight) and delay_weight >= 0):
        raise SettingsError("delay_weight", f"{delay_weight}; it must not be negative")
    told = Fraction(delay_weight).limit_denominator(WEIGHT_PARTS) / delay_parts
    return told.denominator, told.numerator


def _counted(publications: Mapping[str, float], factor: int) -> tuple[int, Ints]:
    for topic, count in publications.items():
        if not (math.isfinite(count) and count >= 0):
            raise SettingsError("demand", f"{count} publications of {quoted(topic)}; it must not be negative")
    total = math.fsum(publications.values())
    if total == 0:
        raise SettingsError("demand", "the demand is empty: nothing is published, so every position is as good")
    for unit in UNITS:
        if total * unit * factor < LARGEST:
            return unit, np.array([round(count * unit) for count in publications.values()], np.int64)
    raise SettingsError("demand", f"{total:,.0f} publications in the period are too many to add up; shorten the period")
