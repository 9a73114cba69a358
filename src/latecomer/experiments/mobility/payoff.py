"""When does it pay to send a session ahead? Moves that were predicted, counted by the walk that counts all others.

The hops of a move are linear in the number of events that the client missed: so much for the move itself, and so much
for each event. From both follows the number of events from which on sending ahead is cheaper than fetching.

Brokers stand in a tree made from where the places are: split north and south, then east and west, until at most four
are left; each place has a broker, and each part one above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

import msgspec

from latecomer.experiments.mobility.algorithms.algorithm import Algorithm
from latecomer.experiments.mobility.algorithms.prefetching import Prefetching
from latecomer.experiments.mobility.algorithms.standard import Standard
from latecomer.experiments.mobility.move import Absence, move, summed
from latecomer.experiments.mobility.tree import DEGREE, Tree, rooted

DESTINATIONS = (1, 2, 3)


class Predicted(NamedTuple):
    """A move, where it was expected to go, likeliest first, and how often it happened."""

    old: str
    new: str
    guesses: tuple[str, ...]
    times: int


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Mean hops of a move: `fixed` + `each` · events missed."""

    fixed: float
    each: float

    def pays_from(self, other: Line) -> float:
        """From how many events on this is cheaper than the other; infinite if never."""
        if self.fixed <= other.fixed:
            return 0.0 if self.each <= other.each else inf
        return (self.fixed - other.fixed) / (other.each - self.each) if self.each < other.each else inf


class Payoff(msgspec.Struct, frozen=True, kw_only=True):
    """One set of movements."""

    title: str
    moves: int
    places: int
    away_min: float
    """The median time from being seen at one place to being seen at the next, in minutes."""
    standard: Line
    ahead: dict[int, Line]
    """By number of destinations; unicast alone, as if the events were multicast there anyhow."""
    ahead_alone: dict[int, Line]
    """The same with the multicast to places that wait in vain, where nobody else wants the same events."""
    right: dict[int, float]
    """Per cent of the moves that find everything there."""


def geographic(places: Mapping[str, tuple[float, float]]) -> tuple[Tree, dict[str, int]]:
    """A tree of brokers over places with latitude and longitude; the numbers of their brokers."""
    parents = [0]
    numbers: dict[str, int] = {}

    def grow(broker: int, names: list[str]) -> None:
        if len(names) <= DEGREE:
            for name in names:
                numbers[name] = len(parents)
                parents.append(broker)
            return
        names = sorted(names, key=lambda name: (places[name][0], name))
        for half in (names[: len(names) // 2], names[len(names) // 2 :]):
            half = sorted(half, key=lambda name: (places[name][1], name))
            for part in (half[: len(half) // 2], half[len(half) // 2 :]):
                if part:
                    parents.append(broker)
                    grow(len(parents) - 1, part)

    grow(0, sorted(places))
    return rooted(parents), numbers


def payoff(
    title: str, moves: Sequence[Predicted], places: Mapping[str, tuple[float, float]], away_min: float
) -> Payoff:
    """Standard next to prefetching to one, two and three destinations."""
    tree, numbers = geographic(places)
    algorithms = {count: Prefetching(destinations=count) for count in DESTINATIONS}
    lines = {count: line(tree, numbers, algorithm, moves) for count, algorithm in algorithms.items()}
    total = sum(one.times for one in moves)
    right = {
        count: 100 * sum(one.times for one in moves if one.new in one.guesses[:count]) / total for count in DESTINATIONS
    }
    alone = {
        count: msgspec.structs.replace(found, each=found.each + in_vain(tree, numbers, moves, count))
        for count, found in lines.items()
    }
    return Payoff(
        title=title,
        moves=total,
        places=len(places),
        away_min=away_min,
        standard=line(tree, numbers, Standard(), moves),
        ahead=lines,
        ahead_alone=alone,
        right=right,
    )


def line(tree: Tree, numbers: Mapping[str, int], algorithm: Algorithm, moves: Sequence[Predicted]) -> Line:
    """From the same moves with no event missed, and with one. What is stored until sessions have arrived ahead is
    none of them: that takes less than a second."""
    sums = [0, 0]
    for one in moves:
        guesses = tuple(numbers[guess] for guess in one.guesses)
        for stored in (0, 1):
            absence = Absence(old=numbers[one.old], new=numbers[one.new], guesses=guesses, stored=stored)
            sums[stored] += one.times * summed(move(tree, algorithm, absence)).hops
    total = sum(one.times for one in moves)
    return Line(fixed=sums[0] / total, each=(sums[1] - sums[0]) / total)


def in_vain(tree: Tree, numbers: Mapping[str, int], moves: Sequence[Predicted], count: int) -> float:
    """Mean links over which an event travels only because sessions wait at several places."""
    if count == 1:
        return 0.0  # the session is at one place as before
    total = links = 0
    for one in moves:
        owner = set(tree.ancestors(numbers[one.old]))
        waiting = set().union(*(tree.ancestors(numbers[guess]) for guess in one.guesses[:count]))
        links += one.times * len(waiting - owner)
        total += one.times
    return links / total
