"""What chance decides before any algorithm acts, the same for all: publications, movements, subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from latecomer.experiments.mobility.movements import LEAVES, Edge, Movements, Name, commute, downtown, pervade, wander
from latecomer.experiments.mobility.publications import (
    EVENTS,
    PUBLISHERS,
    SUBSCRIPTIONS,
    Publications,
    Wanted,
    publish,
)
from latecomer.experiments.mobility.transfers import ways
from latecomer.experiments.mobility.tree import FloatArray, IntArray, Tree, city

Publishers = Literal["given", "downtown"]
"""`given`: downtown in *commute*, which the paper says, and everywhere else where it says nothing."""


@dataclass(frozen=True, slots=True)
class Ground:
    tree: Tree
    length_s: float
    publications: Publications
    wanted: Wanted
    movements: Movements
    subscriptions: IntArray
    """Of the clients, one each."""
    next_left: FloatArray
    """For each move, when the same client leaves again."""
    guesses: IntArray
    """For each move, where the client is expected: a row of leaves."""
    links: IntArray
    """On the way between any two leaves."""

    def hops(self, a: IntArray, b: IntArray) -> IntArray:
        """Between leaves."""
        first = self.tree.leaves[0]
        found: IntArray = self.tree.hops[a + first, b + first]
        return found

    def of_moves(self) -> IntArray:
        """The subscription of each move's client."""
        return self.subscriptions[self.movements.client]


@cache
def _city_ways() -> IntArray:
    return ways(city())


def ground(
    scenario: Name,
    clients: int,
    seed: int,
    *,
    length_s: float,
    locality: int | None = None,
    edge: Edge = "reflect",
    gap_s: float = 1.0,
    accuracy: float = 1.0,
    destinations: int = 1,
    publishers: Publishers = "given",
) -> Ground:
    """Each part has its own source of chance, so that changing one leaves the others as they are."""
    tree = city()
    chances = [np.random.default_rng([seed, part]) for part in range(4)]
    first = tree.leaves[0]
    central = scenario == "commute" or publishers == "downtown"
    where = downtown(10) if central else np.arange(LEAVES)
    publications = publish(chances[0].choice(where, size=PUBLISHERS) + first, length_s, chances[0])
    movements = {
        "commute": lambda: commute(clients, chances[1]),
        "random": lambda: wander(clients, length_s, edge, chances[1]),
        "pervasive": lambda: pervade(clients, length_s, edge, gap_s, chances[1]),
    }[scenario]()
    subscriptions = _interests(scenario, clients, locality, chances[2])
    who = movements.client
    next_left = np.full(len(who), np.inf)
    next_left[:-1] = np.where(who[1:] == who[:-1], movements.left[1:], np.inf)
    guesses = _guesses(movements.new, accuracy, destinations, chances[3])
    return Ground(
        tree,
        length_s,
        publications,
        Wanted(publications),
        movements,
        subscriptions,
        next_left,
        guesses,
        _city_ways(),
    )


def _interests(scenario: Name, clients: int, locality: int | None, random: np.random.Generator) -> IntArray:
    """*commute*: any of the 40. Else one of the 27 that match exactly; with locality, so many per cent of the clients
    have the same one, and the others have others."""
    if scenario == "commute":
        return random.integers(SUBSCRIPTIONS, size=clients)
    drawn = random.integers(EVENTS, size=clients)
    if locality is None:
        return drawn
    common = int(random.integers(EVENTS))
    others = (common + random.integers(1, EVENTS, size=clients)) % EVENTS
    same = random.permutation(clients) < round(locality / 100 * clients)
    return np.where(same, common, others)


def _guesses(new: IntArray, accuracy: float, destinations: int, random: np.random.Generator) -> IntArray:
    """Different leaves, likeliest first: the first is right as often as the accuracy says, the second half as often
    if the first was not, and so on, which is near to what is found on real movements. The wrong ones are by chance."""
    if accuracy >= 1 and destinations == 1:
        return new[:, None]
    offsets = random.permuted(np.tile(np.arange(1, LEAVES), (len(new), 1)), axis=1)[:, :destinations]
    found: IntArray = (new[:, None] + offsets) % LEAVES
    missed = np.ones(len(new), dtype=np.bool_)
    for place in range(destinations):
        right = missed & (random.random(len(new)) < accuracy / 2**place)
        found[right, place] = new[right]
        missed &= ~right
    return found
