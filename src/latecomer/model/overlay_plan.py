"""A plan of positions on the ring: what it brings, what it costs, who moves, and what it is compared with."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from latecomer.model.ids import BrokerId

OverlayAlgorithm: TypeAlias = Literal["best", "dynatops-greedy"]
BoundKind: TypeAlias = Literal["optimum", "assignment", "none"]
"""What a bound is: the cost of the best positions, the fewest hops without relays, or nothing."""


DelayUnit: TypeAlias = Literal["hops", "ms"]


class Row(msgspec.Struct, frozen=True):
    """What one configuration costs in the period."""

    name: str
    external: float
    """Messages to relays."""
    internal: float
    """Messages to brokers that subscribe."""
    delay: float
    """From the rendezvous point to every subscriber, in `delay_in` of the plan."""
    cost: float
    """External messages and delay as weighed: C."""
    longest: int
    movers: int


class Move(msgspec.Struct, frozen=True):
    """A broker that changes its position."""

    broker: BrokerId
    before: int
    after: int
    cost_before: float
    cost_after: float


class TopicChange(msgspec.Struct, frozen=True):
    """What a topic's tree was and becomes."""

    topic: str
    publications: float
    subscribers: int
    relays_before: int
    relays_after: int
    hops_before: float
    hops_after: float


class OverlayPlan(msgspec.Struct, frozen=True):
    """Positions, and everything that explains them."""

    algorithm: OverlayAlgorithm
    brokers: int
    topics: int
    delay_in: DelayUnit
    rows: tuple[Row, ...]
    """`before` and `after` first, then what others would do."""
    bound: float
    """No configuration costs less."""
    bound_is: BoundKind
    gap: float | None
    """How far the least cost that was found is above the bound."""
    benefit: float
    price: float
    gain: float
    worth_computing: bool
    """The paper's first test: the present cost is above β times the highest cost of a reconfiguration."""
    moves: tuple[Move, ...]
    changes: tuple[TopicChange, ...]
    """The topics with the most publications times relays first."""
