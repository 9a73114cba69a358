"""Rings to measure with: brokers at their hashes, topics drawn uniformly or in modes of ten, as in the paper."""

from __future__ import annotations

from typing import Literal

import numpy as np

from latecomer.model.positions import by_hash
from latecomer.planner.overlay.problem import Configuration, OverlayProblem, make_problem

Pattern = Literal["uniform", "multimodal"]
MODE = 10
"""Topics of a mode; half of all where there are few."""


def instance(
    brokers: int, topics: int, each: int, seed: int = 1, pattern: Pattern = "uniform", delay_weight: float = 1.0
) -> tuple[OverlayProblem, Configuration]:
    """Every topic is published once; every broker wants `each` of them, or less where a mode has no more."""
    chance = np.random.default_rng(seed)
    names = [f"b{number}" for number in range(brokers)]
    stand = by_hash(names)
    wanted = {}
    for name in names:
        if pattern == "uniform":
            drawn = chance.choice(topics, min(each, topics), replace=False)
        else:
            mode = MODE if topics >= 4 * MODE else topics // 2
            drawn = mode * int(chance.integers(topics // mode)) + chance.choice(mode, min(each, mode), replace=False)
        wanted[name] = [f"t{topic}" for topic in drawn.tolist()]
    published = {f"t{topic}": 1.0 for topic in range(topics)}
    problem = make_problem(stand.ring(), names, wanted, published, delay_weight=delay_weight)
    return problem, np.array(stand.numbers())
