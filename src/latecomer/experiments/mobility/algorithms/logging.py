"""*logging* (§3.2.2): every broker keeps a log of recent events, and what is in the new broker's does not travel."""

from __future__ import annotations

from latecomer.experiments.mobility.algorithms.algorithm import Algorithm


class Logging(Algorithm, frozen=True, kw_only=True):
    def outline(self) -> bool:
        return True
