"""The networks that are compared, and what their clients want."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from random import Random

import numpy as np

from latecomer.core.ring.places import fingers_of
from latecomer.core.routing import Forwarding, Hierarchy, Rendezvous, Routing
from latecomer.model.ids import BrokerId
from latecomer.model.positions import Positions, by_hash
from latecomer.model.ring import evenly
from latecomer.model.slots import key_of, point_of_slot, slot_of
from latecomer.model.topology import Link, Node, Topology
from latecomer.planner.overlay.problem import make_problem
from latecomer.planner.overlay.search import search

LATENCY_US = 1_000
MODE = 10
"""Topics that are wanted together."""
EACH = 5
"""Topics that every broker wants of its mode."""
Wishes = dict[BrokerId, tuple[str, ...]]
"""Per broker the topics that its client wants."""
Places = dict[BrokerId, int]


@dataclass(frozen=True, slots=True)
class Subject:
    """One of those that are compared."""

    name: str
    routing: Routing
    topology: Topology
    places: Places
    """Positions to be taken at the beginning; none: every broker stands at its hash, or there is no ring."""
    planned: Places
    """Positions by the planner for wishes that overlap, taken when those have been measured; none: there is no plan."""


def names(brokers: int) -> list[BrokerId]:
    return [f"b{number}" for number in range(1, brokers + 1)]


def topics_of(count: int) -> list[str]:
    return [f"t{number}" for number in range(count)]


# --- who wants what ---


def tenth(brokers: list[BrokerId], topics: list[str]) -> Wishes:
    """Every topic is wanted at a tenth of the brokers, and at two at least; which ones, chance says."""
    chance, wanted = Random(11), {broker: list[str]() for broker in brokers}
    for topic in topics:
        for broker in chance.sample(brokers, max(2, round(len(brokers) / 10))):
            wanted[broker].append(topic)
    return {broker: tuple(some) for broker, some in wanted.items()}


def in_modes(brokers: list[BrokerId], topics: list[str]) -> Wishes:
    """Every broker wants some topics of one mode, so that the wishes of brokers overlap much or not at all."""
    chance = Random(12)
    modes = [topics[start : start + MODE] for start in range(0, len(topics), MODE)]
    return {broker: tuple(chance.sample(chance.choice(modes), EACH)) for broker in brokers}


# --- positions ---


def even(brokers: list[BrokerId]) -> Places:
    """As far apart as they can be, in an order that chance says."""
    order = sorted(brokers)
    Random(13).shuffle(order)
    return dict(zip(order, evenly(len(order)).positions, strict=True))


def planned(brokers: list[BrokerId], topics: list[str], wishes: Wishes) -> Places:
    """The positions of the hashes, dealt out anew by the planner: relays and hops below the root count the same."""
    stand: Positions = by_hash(brokers)
    points = {topic: point_of_slot(slot_of(key_of(topic, 1), {})) for topic in topics}
    problem = make_problem(stand.ring(), brokers, wishes, dict.fromkeys(topics, 1.0), points=points)
    found = search(problem, np.array(stand.numbers()))
    return stand.rearranged(found.configuration.tolist()).positions


# --- links ---


def fingers(brokers: list[BrokerId], *places: Places) -> list[tuple[BrokerId, BrokerId]]:
    """The links that rings with these positions need."""
    found: dict[tuple[BrokerId, BrokerId], None] = {}
    for some in places:
        for broker in brokers:
            for finger in fingers_of(some, brokers, broker):
                found[min(broker, finger), max(broker, finger)] = None
    return list(found)


def _linked(name: str, brokers: list[BrokerId], pairs: Iterable[tuple[BrokerId, BrokerId]]) -> Topology:
    links = tuple(Link(a, b, latency_us=LATENCY_US) for a, b in pairs)
    return Topology(name, tuple(Node(broker) for broker in brokers), links)


MESH, FINGERS, CLIMBING = "one tree, full mesh", "one tree, finger links", "one tree, finger links, hierarchy"
EVEN, HASHED = "rendezvous, even ring", "rendezvous, hashed ring"
NAMES = (MESH, FINGERS, CLIMBING, EVEN, HASHED)


def subject(name: str, count: int, topic_count: int) -> Subject:
    """One of those that are compared, with so many brokers."""
    brokers, topics = names(count), topics_of(topic_count)
    if name == MESH:
        return Subject(name, Forwarding(), _linked("mesh", brokers, combinations(brokers, 2)), {}, {})
    if name == HASHED:
        plan = planned(brokers, topics, in_modes(brokers, topics))
        return Subject(name, Rendezvous(), _linked("two rings", brokers, fingers(brokers, {}, plan)), {}, plan)
    places = even(brokers)
    topology = _linked("fingers", brokers, fingers(brokers, places))
    routings: dict[str, Routing] = {FINGERS: Forwarding(), CLIMBING: Hierarchy(), EVEN: Rendezvous()}
    return Subject(name, routings[name], topology, places if name == EVEN else {}, {})
