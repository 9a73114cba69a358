"""*prefetching* (§3.2.1): the session goes to where the client is expected, as soon as it has left."""

from __future__ import annotations

from latecomer.experiments.mobility.algorithms.algorithm import Algorithm


class Prefetching(Algorithm, frozen=True, kw_only=True):
    destinations: int = 1
    """To how many brokers at most; the paper describes several and evaluates one."""

    def departure(self, guesses: tuple[int, ...]) -> tuple[int, ...]:
        return guesses[: self.destinations]
