"""What is planned: networks, demand and limits by number, the same for everybody who takes part."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from latecomer.model.topology import Topology
from latecomer.model.topology_generators import barabasi_albert, random_tree
from latecomer.planner.distances import Distances, distances_of
from latecomer.planner.problem import RATE_UNIT, Problem

Kind: TypeAlias = Literal["tree", "mesh"]
KINDS: dict[Kind, Callable[[int, Random], Topology]] = {
    "tree": random_tree,
    "mesh": lambda brokers, random: barabasi_albert(brokers, 2, random),
}
"""`tree`: all labelled trees as likely, as in the papers; `mesh`: Barabási–Albert with two links for each newcomer."""
Ints = npt.NDArray[np.int64]

STORES = 40
MOST_REPLICAS = 20
SEED = 1


@lru_cache(maxsize=8)
def network(kind: Kind, brokers: int, seed: int = SEED) -> Topology:
    return KINDS[kind](brokers, Random(seed))


@lru_cache(maxsize=8)
def ways(kind: Kind, brokers: int, seed: int = SEED) -> Distances:
    return distances_of(network(kind, brokers, seed))


def demand(topics: int, brokers: int, seed: int = SEED) -> Ints:
    """Between 0 and 1 requests per second for each topic at each broker (*storing* §V)."""
    return np.random.default_rng(seed).integers(0, RATE_UNIT, (topics, brokers), endpoint=True)


def spread(topics: int, least: int = 1, most: int = MOST_REPLICAS) -> list[int]:
    """k[t], evenly from least to most."""
    return [least + (most - least) * topic // max(1, topics - 1) for topic in range(topics)]


def limited(found: Distances, topics: int) -> Problem:
    """The paper's problem: 40 stores with room for one and a half times what they keep, k from 1 to 20."""
    replicas = spread(topics)
    room = -(-3 * sum(replicas) // (2 * STORES))
    return Problem.small(found, demand(topics, len(found.distance)), STORES, room, replicas)


def unlimited(found: Distances, rates: Ints, replicas: list[int]) -> Problem:
    """Everybody may be a store and keep everything: every topic is a problem of its own."""
    return Problem.small(found, rates, len(found.distance), len(rates), replicas)


def small_like(found: Distances, brokers: int = 30) -> Distances:
    """A small network with arrays of the same types: what runs on it is compiled for the large one."""
    small = ways("mesh", brokers)
    return Distances(small.distance.astype(found.distance.dtype), small.toward.astype(found.toward.dtype))


def graph(topology: Topology) -> list[tuple[int, int, int]]:
    """As the naive transcription reads it: every link is one long."""
    place = {node.id: index for index, node in enumerate(topology.nodes)}
    return [(place[link.a], place[link.b], 1) for link in topology.links]
