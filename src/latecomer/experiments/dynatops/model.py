"""A system plays a workload: homes, trees, notifications and re-positioning over time; everything is counted.

The shared interface of both workloads and of all systems:

    tally = play(workload, system, seed)

- `Workload` (`workload.py`): users with slots, time-ordered changes, publications per step.
- `System`: an `Overlay` (`overlay.chord`, or a comparator's), `Homes` (static, by place, broker selection), clusters,
  delays, and `Repositioning` or None. Bayeux is another overlay with static homes; DYNATOPS(BS) has selection and no
  re-positioning, (BNR) re-positioning only, and BS+BNR both.
- `Tally`: sums over the run, with the measures of §IV-B as properties.
- A system without trees (TCO) watches: `watch(step, tables)` after every step.

Both walks are counted in the same run. A step is an hour in the Poisson model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import floor

import numpy as np

from latecomer.experiments.dynatops import notify_kernels as sums_of
from latecomer.experiments.dynatops.changes_kernels import (
    CHANGES,
    CORE,
    COUNTERS,
    HAND_OVERS,
    JOINS,
    LEAVES,
    PAPER,
    Rule,
    Tables,
    advance,
    arrive,
    plant,
)
from latecomer.experiments.dynatops.homes import POLICIES, SIMILARITIES, Homes
from latecomer.experiments.dynatops.notify_kernels import SUMS, last_hops, notify
from latecomer.experiments.dynatops.overlay import Configuration, Floats, Ints, Overlay
from latecomer.experiments.dynatops.reconfiguring import protocol_messages
from latecomer.experiments.dynatops.reposition import Monitor, Repositioning
from latecomer.experiments.dynatops.workload import Workload

ROUNDING = 1e-9
STATIC = Homes()
NOWHERE = np.zeros(0, np.int64)
Watch = Callable[[int, Tables], None]


@dataclass(frozen=True)
class System:
    """What hosts users and carries notifications."""

    overlay: Overlay
    start: Configuration
    """[B] where brokers stand when the run begins"""
    homes: Homes = STATIC
    clusters: Ints = field(default_factory=lambda: NOWHERE)
    """[B] the cluster of each broker; empty: all brokers are one"""
    home_at: Ints = field(default_factory=lambda: NOWHERE)
    """[Q] policy *place*: the broker in charge of each place; *selection*: the one whose cluster a user there joins"""
    cluster_at: Ints = field(default_factory=lambda: NOWHERE)
    """[Q] policy *selection*: the cluster in charge of each place; empty: a user stays in its first cluster"""
    repositioning: Repositioning | None = None
    delay: Floats | None = None
    """[B, B] of a hop between two brokers; None: 1"""
    access: Floats | None = None
    """[Q, B] between a user at a place and a broker; None: it does not count"""


@dataclass(slots=True)
class Tally:
    """What a run came to."""

    joins: int = 0
    leaves: int = 0
    changes: int = 0
    """Of users."""
    tree_messages: int = 0
    """Subscription management, as the paper walks"""
    core_tree_messages: int = 0
    """The same, as the core walks"""
    exchange: int = 0
    """Brokers told one another their subscriptions and loads"""
    reports: int = 0
    """Brokers told the manager what it monitors: one message each per T_free"""
    hand_overs: int = 0
    reconfigurations: int = 0
    movers: int = 0
    reconfiguration_formula: float = 0.0
    """Eq. 11, in messages"""
    reconfiguration_counted: int = 0
    """The messages of the protocol (`reconfiguring`)"""
    benefit: float = 0.0
    """What the planner expected to save, in messages (eq. 10)"""
    swaps: int = 0
    sums: Floats = field(default_factory=lambda: np.zeros(SUMS))
    """By the names in `notify_kernels`"""
    sent: Floats = field(default_factory=lambda: np.zeros(0))
    """[B] notifications that each broker sent down trees"""
    load: Floats = field(default_factory=lambda: np.zeros(0))
    """[B] subscriptions of each broker's users, mean over the measured steps"""
    topics: float = 0.0
    """Topics that a broker subscribes to, mean over brokers and the measured steps"""
    measured: int = 0
    """Steps whose notifications were counted"""

    @property
    def broker_changes(self) -> int:
        """Fig. 7a: how often a broker subscribed or unsubscribed."""
        return self.joins + self.leaves

    @property
    def management(self) -> int:
        """§IV-B: control messages to update trees and to update information in clusters."""
        return self.tree_messages + self.exchange

    @property
    def delay(self) -> float:
        """§IV-B: mean from publishers to subscribers (users)."""
        return float(self.sums[sums_of.DELAY_USERS] / self.sums[sums_of.USERS])

    @property
    def delay_to_brokers(self) -> float:
        """The same, each subscribing broker once."""
        return float(self.sums[sums_of.DELAY_BROKERS] / self.sums[sums_of.BROKERS])

    @property
    def delay_from_root(self) -> float:
        """§III-A: mean from the rendezvous point to subscribing brokers."""
        return float(self.sums[sums_of.DOWN_BROKERS] / self.sums[sums_of.BROKERS])

    @property
    def core_delay(self) -> float:
        return float(self.sums[sums_of.CORE_DELAY_USERS] / self.sums[sums_of.USERS])

    @property
    def internal(self) -> float:
        return float(self.sums[sums_of.INTERNAL] / self.sums[sums_of.EVENTS])

    @property
    def external(self) -> float:
        return float(self.sums[sums_of.EXTERNAL] / self.sums[sums_of.EVENTS])

    @property
    def climb(self) -> float:
        """Hops from the publisher to the rendezvous point."""
        return float(self.sums[sums_of.CLIMB] / self.sums[sums_of.EVENTS])

    @property
    def overhead(self) -> float:
        """§IV-B: messages per publication, from the publisher on."""
        return self.internal + self.external + self.climb

    @property
    def core_overhead(self) -> float:
        return float(self.sums[sums_of.CORE_MESSAGES] / self.sums[sums_of.EVENTS])

    @property
    def load_spread(self) -> float:
        """Standard deviation of the load next to its mean."""
        return float(self.load.std() / self.load.mean())

    @property
    def load_highest(self) -> float:
        """The busiest broker's load next to the mean."""
        return float(self.load.max() / self.load.mean())

    @property
    def sent_highest(self) -> float:
        """The same of the notifications sent."""
        return float(self.sent.max() / self.sent.mean()) if self.sent.any() else 0.0


def play(workload: Workload, system: System, seed: int, *, every: int = 1, watch: Watch | None = None) -> Tally:
    """The whole run; notifications are counted in every `every`-th step, with the subscriptions at its end."""
    tally, trees = Tally(), system.overlay.trees
    tables, rule = begin(workload, system, seed)
    lengths = system.overlay.lengths(tables.place, system.delay)
    monitor = None if system.repositioning is None else Monitor(system.repositioning, system.delay)
    tally.sent = np.zeros(workload.brokers)
    tally.load = np.zeros(workload.brokers)
    for step in range(workload.steps):
        tally.exchange += _pass(workload, system, tables, rule, step)
        if watch is not None:
            watch(step, tables)
        if (step + 1) % every == 0:
            published = workload.published[step]
            users = np.bincount(tables.home, minlength=workload.brokers) / len(tables.home)
            notify(trees, tables, lengths.down, lengths.up, lengths.edge, published, users, tally.sums, tally.sent)
            if system.access is not None:
                beyond = last_hops(tables, system.access, published)
                tally.sums[[sums_of.DELAY_USERS, sums_of.CORE_DELAY_USERS]] += beyond
            tally.load += tables.load
            tally.topics += float((tables.counts > 0).sum()) / workload.brokers
            tally.measured += 1
        if monitor is not None and (step + 1) % monitor.rule.every == 0:
            tally.reports += workload.brokers
            monitor.observe(workload.published[step + 1 - monitor.rule.every : step + 1].mean(axis=0))
            if step + 1 < workload.steps and _reposition(system, tables, monitor, tally):
                lengths = system.overlay.lengths(tables.place, system.delay)
    for name, number in (
        ("joins", JOINS),
        ("leaves", LEAVES),
        ("changes", CHANGES),
        ("tree_messages", PAPER),
        ("core_tree_messages", CORE),
        ("hand_overs", HAND_OVERS),
    ):
        setattr(tally, name, int(tables.counters[number]))
    tally.load /= max(1, tally.measured)
    tally.topics /= max(1, tally.measured)
    tally.swaps = 0 if monitor is None else monitor.swaps
    return tally


def begin(workload: Workload, system: System, seed: int) -> tuple[Tables, Rule]:
    """Users have arrived, nothing has changed yet."""
    random = np.random.default_rng([seed, 0xD1])
    brokers, users = workload.brokers, len(workload.slots)
    anywhere = random.integers(0, brokers, users)
    clusters = system.clusters if len(system.clusters) else np.zeros(brokers, np.int64)
    rule = Rule(
        policy=POLICIES.index(system.homes.policy),
        similarity=SIMILARITIES.index(system.homes.similarity),
        load_weight=system.homes.load_weight,
        cluster=clusters,
        first=np.concatenate([[0], np.cumsum(np.bincount(clusters))]).astype(np.int64),
        members=np.argsort(clusters, kind="stable").astype(np.int64),
        home_at=system.home_at,
        cluster_at=system.cluster_at,
    )
    tables = Tables(
        slots=workload.slots.copy(),
        where=workload.where.copy(),
        home=system.home_at[workload.where] if len(system.home_at) else anywhere,
        counts=np.zeros((brokers, workload.topics), np.int32),
        load=np.zeros(brokers, np.int64),
        known=np.zeros((brokers, workload.topics), np.bool_),
        known_load=np.zeros(brokers, np.int64),
        place=system.start.astype(np.int64).copy(),
        below=np.zeros((workload.topics, brokers), np.int32),
        counters=np.zeros(COUNTERS, np.int64),
        touched=np.zeros(brokers, np.bool_),
    )
    arrive(rule, tables, random.permutation(users))
    tell(tables)
    plant(system.overlay.trees, tables)
    return tables, rule


def tell(tables: Tables) -> None:
    """All brokers tell their clusters what they subscribe to and how loaded they are."""
    np.greater(tables.counts, 0, out=tables.known)
    tables.known_load[:] = tables.load


def exchange_messages(rule: Rule) -> int:
    """Each broker to each other of its cluster."""
    sizes = np.diff(rule.first)
    return int((sizes * (sizes - 1)).sum())


def _pass(workload: Workload, system: System, tables: Tables, rule: Rule, step: int) -> int:
    """The changes of one step, with the exchanges between them; messages of the exchanges."""
    changes, trees, messages = workload.changes, system.overlay.trees, 0
    selecting, period = system.homes.policy == "selection", system.homes.exchange
    first, last = (floor(time / period + ROUNDING) for time in (step, step + 1)) if selecting else (0, 0)
    ends = [*((period * number, True) for number in range(first + 1, last + 1)), (step + 1.0, False)]
    start = int(np.searchsorted(changes.time, step, side="left"))
    for end, telling in ends:
        stop = int(np.searchsorted(changes.time, end, side="left"))
        rows = (changes.user[start:stop], changes.slot[start:stop], changes.what[start:stop])
        advance(trees, rule, tables, rows, changes.time[start:stop])
        start = stop
        if telling:
            tell(tables)
            messages += exchange_messages(rule)
    return messages


def _reposition(system: System, tables: Tables, monitor: Monitor, tally: Tally) -> bool:
    """Whether brokers took other places."""
    subscribed = tables.counts > 0
    before = tables.place.copy()
    choice = monitor.decide(system.overlay, before, subscribed)
    if choice is None:
        return False
    tally.reconfigurations += 1
    tally.movers += choice.movers
    tally.benefit += choice.benefit
    tally.reconfiguration_formula += choice.price
    tally.reconfiguration_counted += protocol_messages(system.overlay, before, choice.configuration, subscribed).total
    tables.place[:] = choice.configuration
    plant(system.overlay.trees, tables)
    return True
