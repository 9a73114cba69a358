"""The storing paper's simulation (§V): messages arrive, live for a while, and are asked for at rates of their own.

Publications of a topic arrive at rate λ and live for 1/μ on average, so a store holds λ/μ of them on average, whatever
the distribution of lifetimes (M/G/∞). Clients of broker i ask for topic t at rate r[t, i] and are served by the nearest
store; the mean hop distance of served requests is Σ r·d / Σ r, with d the hops to the nearest store along the tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec

from latecomer.model.filters import parse_filter
from latecomer.model.history import Query
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.sim.clients import SimClients, SimRequest
from latecomer.sim.scenario import Demand
from latecomer.sim.world import World


class Retrieved(msgspec.Struct, frozen=True):
    """What came of questions about the past."""

    requests: int
    unanswered: int
    """Whose broker died, or that had not ended when the run did."""
    incomplete: int
    events: int
    hops: int
    """All answers together, to the store that gave them."""
    by_store: dict[BrokerId, int]
    """Answers that each store had a part in."""

    @property
    def hops_mean(self) -> float:
        return self.hops / answered if (answered := self.requests - self.unanswered) else 0.0

    @property
    def events_mean(self) -> float:
        return self.events / answered if (answered := self.requests - self.unanswered) else 0.0


def retrieved(requests: Iterable[SimRequest]) -> Retrieved:
    """Add up what was asked and answered."""
    asked = list(requests)
    ended = [(request, request.outcome) for request in asked if request.outcome is not None]
    by_store: dict[BrokerId, int] = {}
    for _, outcome in ended:
        for store in outcome.stores:
            by_store[store] = by_store.get(store, 0) + 1
    return Retrieved(
        len(asked),
        len(asked) - len(ended),
        sum(not outcome.complete for _, outcome in ended),
        sum(len(request.events) for request, _ in ended),
        sum(outcome.hops for _, outcome in ended),
        dict(sorted(by_store.items())),
    )


def asker(broker: BrokerId) -> ClientId:
    """The client in whose name the demand of a broker is asked."""
    return f"asker-{broker}"


class Asking:
    """A demand with its chance: requests as a Poisson process."""

    def __init__(self, demand: Demand, random: Random) -> None:
        self.demand = demand
        self.random = random
        self._query = Query(parse_filter(demand.filter), last=demand.last)

    def begin(self, world: World, end_us: Instant, clients: SimClients) -> None:
        """Ask from now on; time 0 of the scenario is the world's present."""
        until = self.demand.until
        last = world.now + (end_us if until is None else until)
        self._next(world, world.now + self.demand.begin, last, clients)

    def _next(self, world: World, after: Instant, last: Instant, clients: SimClients) -> None:
        at = after + max(1, round(self.random.expovariate(self.demand.rate / 1e6)))
        if at <= last:
            world.at(at, self._ask, world, at, last, clients)

    def _ask(self, world: World, at: Instant, last: Instant, clients: SimClients) -> None:
        clients.request(asker(self.demand.broker), self._query)
        self._next(world, at, last, clients)
