"""Consistent hashing: a broker stands where its name hashes to, whatever it subscribes to (the start of DYNATOPS)."""

from __future__ import annotations

import numpy as np

from latecomer.experiments.dynatops.overlay import Configuration


def consistent_hashing(brokers: int, random: np.random.Generator) -> Configuration:
    """Which of the hashed positions is whose is chance."""
    return random.permutation(brokers).astype(np.int64)
