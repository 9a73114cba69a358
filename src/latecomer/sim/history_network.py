"""The networks of late subscribers and stores."""

from __future__ import annotations

from random import Random

import msgspec

from latecomer.core.settings import BrokerSettings
from latecomer.model import topology_generators as generators
from latecomer.model.topology import Topology
from latecomer.sim.chaos import SECOND_US, draw_settings


def draw_network(random: Random) -> tuple[Topology, BrokerSettings]:
    """Small networks, with stores that compare themselves often and answer in small pages."""
    topology = _draw_topology(random)
    settings = draw_settings(random, topology)
    replica_us = random.choice((1, 3, 10)) * SECOND_US
    response_events = random.choice((1, 3, 20, 256))
    return topology, msgspec.structs.replace(settings, replica_us=replica_us, response_events=response_events)


def _draw_topology(random: Random) -> Topology:
    size = random.choice((2, 3, 3, 4, 5, 6, 7))
    latency_us = random.choice((100, 1_000, 10_000))
    if size == 2 or random.random() < 0.3:
        return generators.line(size, latency_us=latency_us)
    if random.random() < 0.5:
        return generators.ring(size, latency_us=latency_us)
    return generators.random_tree(size, random, latency_us=latency_us)
