"""The Poisson model of §IV-A2: 100 hours, 50,000 users with 5 subscriptions each, 100 brokers, 1,000 topics."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from latecomer.experiments.dynatops.poisson_kernels import replace_by_any, replace_within
from latecomer.experiments.dynatops.workload import NOTHING, Changes, Workload

Ints = npt.NDArray[np.int64]
Pattern = Literal["uniform", "zipf", "multimodal"]
Change = Literal["same mode", "any topic", "new mode"]
"""What replaces a topic: one of the user's mode; any; or all five are replaced by topics of another mode."""


class Poisson(msgspec.Struct, frozen=True):
    """What the paper gives, and what it leaves out (`change`, `sigma`, `publications`)."""

    pattern: Pattern = "multimodal"
    rate: float = 0.1
    """Changes per user and hour"""
    change: Change = "same mode"
    sigma: float = 1.0
    publications: float = 100.0
    """Per topic and hour, on average"""
    popular: bool = False
    """Publications go with the popularity of a topic, and not all alike"""
    hours: int = 100
    users: int = 50_000
    brokers: int = 100
    topics: int = 1000
    modes: int = 100
    wanted: int = 5

    def workload(self, seed: int) -> Workload:
        random = np.random.default_rng([seed, 0xD0])
        weights = self.weights()
        mode = random.integers(0, self.modes, self.users)
        slots = self.first_wishes(mode, weights, random)
        events = int(random.poisson(self.rate * self.users * self.hours))
        time = np.sort(random.uniform(0, self.hours, events))
        user = random.integers(0, self.users, events)
        changes = self.changes(slots, mode, weights, time, user, random)
        share = weights / weights.mean() if self.popular else np.ones(self.topics)
        published = random.poisson(self.publications * share, (self.hours, self.topics))
        nowhere = np.full(self.users, NOTHING, np.int64)
        return Workload(self.brokers, self.topics, slots, nowhere, changes, published)

    def weights(self) -> npt.NDArray[np.float64]:
        """[P] how likely a topic is: all alike, or (i + 1)^-σ."""
        if self.pattern != "zipf":
            return np.full(self.topics, 1 / self.topics)
        found = np.arange(2, self.topics + 2, dtype=np.float64) ** -self.sigma
        weights: npt.NDArray[np.float64] = found / found.sum()
        return weights

    def first_wishes(self, mode: Ints, weights: npt.NDArray[np.float64], random: np.random.Generator) -> Ints:
        """[U, W] different topics for each user."""
        if self.pattern == "multimodal":
            return self._of_modes(mode, random)
        slots = np.full((self.users, self.wanted), NOTHING, np.int64)
        for slot in range(self.wanted):
            left = np.arange(self.users)
            while len(left):
                drawn = random.choice(self.topics, len(left), p=weights)
                taken = (slots[left] == drawn[:, None]).any(axis=1)
                slots[left[~taken], slot] = drawn[~taken]
                left = left[taken]
        return slots

    def _of_modes(self, mode: Ints, random: np.random.Generator) -> Ints:
        """[K, W] different topics out of each mode."""
        size = self.topics // self.modes
        order = np.argsort(random.random((len(mode), size)), axis=1)[:, : self.wanted]
        slots: Ints = mode[:, None] * size + order
        return slots

    def changes(
        self,
        start: Ints,
        mode: Ints,
        weights: npt.NDArray[np.float64],
        time: npt.NDArray[np.float64],
        user: Ints,
        random: np.random.Generator,
    ) -> Changes:
        """One slot of the user gets a topic that the user does not have; or all of them, of a new mode."""
        if self.pattern == "multimodal" and self.change == "new mode":
            fresh = self._of_modes(random.integers(0, self.modes, len(time)), random)
            slots = np.tile(np.arange(self.wanted), len(time))
            return Changes(np.repeat(time, self.wanted), np.repeat(user, self.wanted), slots, fresh.reshape(-1))
        slot = random.integers(0, self.wanted, len(time))
        now, size = start.copy(), self.topics // self.modes
        if self.pattern == "multimodal" and self.change == "same mode":
            what = replace_within(now, user, slot, mode, size, random.random(len(time)))
        else:
            what = replace_by_any(now, user, slot, np.cumsum(weights), int(random.integers(0, 2**31)))
        return Changes(time, user, slot, what)
