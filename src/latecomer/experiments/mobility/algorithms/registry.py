"""All algorithms by the names that figures and settings use."""

from __future__ import annotations

from latecomer.experiments.mobility.algorithms.algorithm import Algorithm
from latecomer.experiments.mobility.algorithms.home_broker import HomeBroker
from latecomer.experiments.mobility.algorithms.logging import Logging
from latecomer.experiments.mobility.algorithms.prefetching import Prefetching
from latecomer.experiments.mobility.algorithms.standard import Standard

ALGORITHMS: dict[str, Algorithm] = {
    "standard": Standard(),
    "prefetching": Prefetching(),
    "logging": Logging(),
    "home-broker": HomeBroker(),
    "prefetching to several": Prefetching(destinations=3),
    "standard on device": Standard(on_device=True),
    "prefetching on device": Prefetching(on_device=True),
    "logging on device": Logging(on_device=True),
}
DRAWN = ("standard", "prefetching", "logging", "home-broker")
"""The curves of the paper's figures."""
