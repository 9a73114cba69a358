"""Plan: which brokers get a store, which topics each keeps, what that should cost, and what it takes to get there.

The planner makes it, people read it, and a network is changed to it. It carries the limits it was made under and the
prediction it was made with, so that the measured result can be put beside it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from latecomer.model.demand import Demand
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.topology import quoted

KEY = "plan"
PLAN_VERSION = 1
"""Of the format; a reader refuses what is newer."""

Distance: TypeAlias = Literal["hops", "latency"]
"""What is counted between brokers: links, or microseconds along the fastest path."""
Objective: TypeAlias = Literal["hops", "worst-loss", "moves", "stores", "balance"]
ReplicaRule: TypeAlias = Literal["", "free", "weight"]
"""Who decides how many replicas a topic gets: the search, or its weight by the rule of planning §6."""


class PlanLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the operator wants and cannot have; zero means "no limit" unless a line says otherwise."""

    stores: int = 0
    """M, how many brokers get a store; 0: as few as hold all replicas."""
    capacity: int = 0
    """L, topics per store."""
    capacity_bytes: int = 0
    """Bytes per store, instead of `capacity`; topics then need sizes."""
    capacities_bytes: dict[BrokerId, int] = {}
    """Bytes for the stores that differ from `capacity_bytes`."""
    min_replicas: int = 0
    """The least number of replicas of a topic; 0: one."""
    replica_rule: ReplicaRule = ""
    """"free": the search chooses the counts; "weight": they follow from the weights. Empty: see `rule`."""
    replicas: dict[str, int] = {}
    """Replicas of the topics for which no rule shall decide."""
    request_rate: float = 0
    """Requests per second for which a store may be the nearest."""
    request_rates: dict[BrokerId, float] = {}
    """The same for the stores that differ."""
    domains: dict[BrokerId, str] = {}
    """Failure domains: no two replicas of a topic in one. Who is not named is alone."""
    pinned_stores: tuple[BrokerId, ...] = ()
    """Brokers that get a store whatever the votes say."""
    pinned_topics: dict[str, tuple[BrokerId, ...]] = {}
    """Replicas that are where they are; their brokers get a store."""
    barred: tuple[BrokerId, ...] = ()
    """Brokers that never get a store."""
    survive_loss: bool = False
    """Look for the plan that is best after the loss of any one store."""
    objectives: tuple[Objective, ...] = ("hops",)
    """What counts, most important first."""
    entry: Literal["uniform", "published"] = "uniform"
    """Where publications are taken to enter when votes are counted: everywhere alike, or as the demand says."""

    def rule(self) -> Literal["free", "weight"]:
        """The counts are free where only the stores are limited; otherwise they follow from the weights."""
        if self.replica_rule:
            return self.replica_rule
        return "free" if self.stores and not self.min_replicas else "weight"


class Prediction(msgspec.Struct, frozen=True):
    """What a plan is expected to cost."""

    algorithm: str
    cost: float
    """ONT: requests times distance per second (planning §5.4)."""
    rate: float
    """Requests per second."""
    hops_mean: float
    """Mean distance between a request and its store: cost / rate."""
    stores: int = 0
    """Brokers with at least one replica."""
    bound: float | None = None
    """No plan within the limits, and with these replica counts unless they were free, can cost less; None when not
    computed."""
    gap: float | None = None
    """(cost − bound) / bound, 0.013 for "at most 1.3 % more than the best plan"."""
    optimal: bool = False
    """The cost is the bound: no such plan costs less."""
    loss_store: BrokerId | None = None
    """The store whose loss costs most."""
    loss_cost: float | None = None
    """Cost after that loss."""
    loss_unserved: float | None = None
    """Requests per second that nobody can answer after that loss."""
    loss_bound: float | None = None
    """No plan within the limits can cost less after its worst loss; None when not computed."""


class Move(msgspec.Struct, frozen=True):
    """A replica that has to be copied; `source` is the nearest that has it, None when the topic has none yet."""

    topic: str
    source: BrokerId | None
    target: BrokerId
    bytes: int = 0


class Plan(msgspec.Struct, frozen=True):
    """Stores, replicas and what they promise."""

    topology: str
    """As the operator named it, so that the network is found again."""
    brokers: tuple[BrokerId, ...]
    algorithm: str
    stores: tuple[BrokerId, ...]
    """In order of choice."""
    replicas: dict[str, tuple[BrokerId, ...]]
    """topic → its stores, in order of choice."""
    prediction: Prediction
    version: int = PLAN_VERSION
    distance: Distance = "hops"
    limits: PlanLimits = PlanLimits()
    others: tuple[Prediction, ...] = ()
    """The same demand under other algorithms."""
    refusals: tuple[str, ...] = ()
    """What was asked for and could not be had, each with the constraint in its way."""
    notes: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()
    demand: Demand | None = None
    """What it was made for, to see later how far the demand has drifted."""

    def check(self) -> None:
        """Raise a SettingsError that names the first thing wrong."""
        if self.version > PLAN_VERSION:
            told = f"a plan of version {self.version}; this program reads up to {PLAN_VERSION}: use a newer one"
            raise SettingsError("version", told)
        known = frozenset(self.brokers)  # asked, never walked
        stores = frozenset(self.stores)
        if len(known) != len(self.brokers):
            raise SettingsError("brokers", "a broker is named twice")
        if len(stores) != len(self.stores):
            raise SettingsError("stores", "a store is named twice")
        for store in self.stores:
            if store not in known:
                raise SettingsError("stores", f"the store {quoted(store)} is not among the brokers of the plan")
        for topic, kept in self.replicas.items():
            if len(frozenset(kept)) != len(kept):
                raise SettingsError(f"replicas.{topic}", "a store is named twice")
            for store in kept:
                if store not in stores:
                    raise SettingsError(f"replicas.{topic}", f"{quoted(store)} is not among the stores of the plan")
        if self.demand is not None:
            self.demand.check()


def read_plan(text: str, source: str) -> Plan:
    """The plan in a file, checked in itself; whether it fits a network is for whoever applies it."""
    try:
        plan = msgspec.json.decode(text, type=Plan)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise SettingsError(KEY, f"not a plan: {error}", source=source) from None
    try:
        plan.check()
    except SettingsError as error:
        raise error.at(error.key, source=source) from None
    return plan


def write_plan(plan: Plan) -> str:
    """The plan as a JSON file that `read_plan` reads."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2).decode() + "\n"
