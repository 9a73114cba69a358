"""What a configuration costs (DYNATOPS eqs 1 to 9): messages of subscribers and of relays, hops, and per broker.

Decision: the rendezvous point is never a relay, also when it does not subscribe: appendix B takes it as the one
forwarding broker that is there anyway. A subscription at the rendezvous point costs no message and no hop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latecomer.planner.overlay.problem import Configuration, Ints, OverlayProblem
from latecomer.planner.overlay.state import case_of, state_of
from latecomer.planner.overlay.state_kernels import RELAY, SUBSCRIBER, Case, State
from latecomer.planner.overlay.weigh_kernels import burdens, total_cost


@dataclass(frozen=True, slots=True)
class OverlayCost:
    """Sums over all topics, weighed by publications, in parts of `problem.unit`; `cost` and `brokers` as weighed."""

    external: int
    """Messages to relays, who do not subscribe: accO_ext."""
    internal: int
    """Messages to brokers that subscribe."""
    delay: int
    """Hops, or measured delays, from the rendezvous point to every subscriber: accD."""
    cost: int
    """relay_weight · external + delay_weight · delay."""
    brokers: Ints
    """[B] what each broker adds to the cost: C_b."""
    relays: Ints
    """[P] relays in the tree of each topic, not weighed."""
    longest: int
    """Hops to the farthest subscriber of any topic."""


def cost_of(problem: OverlayProblem, configuration: Configuration) -> OverlayCost:
    """The cost in all its parts."""
    case = case_of(problem)
    return cost_of_state(problem, case, state_of(case, configuration))


def cost_of_state(problem: OverlayProblem, case: Case, state: State) -> OverlayCost:
    _, depths, rows = problem.trees
    relays = (state.role == RELAY).sum(axis=1)
    subscribed = state.role == SUBSCRIBER
    messages = subscribed.sum(axis=1) - subscribed[np.arange(len(rows)), problem.roots]
    hops = np.where(subscribed, depths[rows], 0)
    external = int((relays * problem.counts).sum())
    cost = total_cost(case, state)
    if problem.delays is None:
        delay = int((hops.sum(axis=1, dtype=np.int64) * problem.counts).sum())
    else:
        delay = int((state.flow * problem.delays[state.who[case.origin], state.who[case.ends]]).sum())
    brokers = np.zeros(len(state.who), np.int64)
    burdens(case, state, brokers)
    return OverlayCost(
        external=external,
        internal=int((messages * problem.counts).sum()),
        delay=delay,
        cost=cost,
        brokers=brokers[state.place],
        relays=relays,
        longest=int(hops.max(initial=0)),
    )


def total_of(problem: OverlayProblem, configuration: Configuration) -> int:
    """Only the sum, C of eq. 6."""
    case = case_of(problem)
    return total_cost(case, state_of(case, configuration))
