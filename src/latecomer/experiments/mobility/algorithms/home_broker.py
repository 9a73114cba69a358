"""*home-broker* (§3.2.3): the session stays at home, and every event is sent on from there."""

from __future__ import annotations

from typing import Literal

from latecomer.experiments.mobility.algorithms.algorithm import Algorithm


class HomeBroker(Algorithm, frozen=True, kw_only=True):
    def arrival(self) -> Literal["fetch", "attach"]:
        return "attach"
