"""*standard* (§3.1, after Cugola et al.): everything is fetched when the client arrives."""

from __future__ import annotations

from latecomer.experiments.mobility.algorithms.algorithm import Algorithm


class Standard(Algorithm, frozen=True, kw_only=True):
    pass
