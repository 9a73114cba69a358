"""Users change what they want and where they are: homes, brokers' subscriptions and their trees, compiled.

`counts[b, p]` is how many users of broker b want topic p. When it leaves 0 the broker joins the tree of p, when it
comes back to 0 it leaves. Two walks say what that costs: *paper*, a request to the rendezvous point by a key-based
route and a tree message back; *core*, the reverse of the route from the rendezvous point, up to the first broker that
has the filter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from latecomer.experiments.dynatops.overlay_kernels import I64, Trees
from latecomer.planner.compiling import inner, kernel

I32 = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

NOTHING = -1
STATIC, PLACE, SELECTION = 0, 1, 2
ASKED, AFTER, OTHERS = 0, 1, 2

JOINS, LEAVES, PAPER, CORE, HAND_OVERS, CHANGES = 0, 1, 2, 3, 4, 5
COUNTERS = 6


class Rule(NamedTuple):
    """How homes are chosen."""

    policy: int
    similarity: int
    load_weight: float
    cluster: I64
    """[B] of each broker"""
    first: I64
    """[C + 1] the brokers of cluster c are `members[first[c] : first[c + 1]]`"""
    members: I64
    home_at: I64
    """[Q] the broker in charge of each place (policy *place*)"""
    cluster_at: I64
    """[Q] the cluster in charge of each place; empty: a user stays in its cluster (policy *selection*)"""


class Tables(NamedTuple):
    """What changes."""

    slots: I64
    """[U, W] topics that a user wants"""
    where: I64
    """[U] the place of a user"""
    home: I64
    """[U] its broker"""
    counts: I32
    """[B, P] users of a broker that want a topic"""
    load: I64
    """[B] subscriptions of a broker's users"""
    known: Flags
    """[B, P] what brokers subscribed to at the last exchange"""
    known_load: I64
    """[B]"""
    place: I64
    """[B] the configuration"""
    below: I32
    """[P, N] subscribing brokers at or below a place in the tree of a topic"""
    counters: I64
    touched: Flags
    """[B] brokers whose subscriptions changed, until somebody resets it"""


# --- trees ---


@inner
def _join(trees: Trees, tables: Tables, broker: int, topic: int) -> None:
    at, row = tables.place[broker], trees.row[topic]
    root = trees.root[row]
    tables.counters[JOINS] += 1
    tables.touched[broker] = True
    tables.counters[PAPER] += trees.up[row, at] + trees.depth[row, at]
    has = False
    while True:
        has = has or tables.below[topic, at] > 0
        tables.below[topic, at] += 1
        if at == root:
            return
        if not has:
            tables.counters[CORE] += 1
        at = trees.parent[row, at]


@inner
def _leave(trees: Trees, tables: Tables, broker: int, topic: int) -> None:
    at, row = tables.place[broker], trees.row[topic]
    root = trees.root[row]
    tables.counters[LEAVES] += 1
    tables.touched[broker] = True
    tables.counters[PAPER] += trees.up[row, at] + trees.depth[row, at]
    has = False
    while True:
        tables.below[topic, at] -= 1
        has = has or tables.below[topic, at] > 0
        if at == root:
            return
        if not has:
            tables.counters[CORE] += 1
        at = trees.parent[row, at]


@kernel
def plant(trees: Trees, tables: Tables) -> None:
    """All trees anew, after brokers were given other places."""
    tables.below[:] = 0
    for broker in range(len(tables.place)):
        for topic in range(tables.below.shape[0]):
            if tables.counts[broker, topic] > 0:
                at, row = tables.place[broker], trees.row[topic]
                tables.below[topic, at] += 1
                while at != trees.root[row]:
                    at = trees.parent[row, at]
                    tables.below[topic, at] += 1


# --- users ---


@inner
def _first_of(slots: I64, slot: int) -> bool:
    """Whether a slot holds a topic that no slot before it holds."""
    if slots[slot] == NOTHING:
        return False
    for before in range(slot):
        if slots[before] == slots[slot]:
            return False
    return True


@inner
def _holds(slots: I64, topic: int) -> bool:
    for other in slots:
        if other == topic:
            return True
    return False


@inner
def _distinct(slots: I64) -> int:
    found = 0
    for slot in range(len(slots)):
        if _first_of(slots, slot):
            found += 1
    return found


@inner
def _choose(rule: Rule, tables: Tables, home: int, cluster: int, had: I64, wanted: I64, live: bool) -> int:
    """The broker of the cluster with the highest utility; `home` is -1 for who comes for the first time."""
    topics = _distinct(wanted)
    if topics == 0:
        return home if home >= 0 else rule.members[rule.first[cluster]]
    total = 0
    for k in range(rule.first[cluster], rule.first[cluster + 1]):
        broker = rule.members[k]
        total += tables.load[broker] if live or broker == home else tables.known_load[broker]
    best, best_utility, best_load = -1, -np.inf, 0
    for k in range(rule.first[cluster], rule.first[cluster + 1]):
        broker = rule.members[k]
        load = tables.load[broker] if live or broker == home else tables.known_load[broker]
        same = 0
        for slot in range(len(wanted)):
            if not _first_of(wanted, slot):
                continue
            topic = wanted[slot]
            if broker == home:
                own = 1 if rule.similarity == OTHERS and _holds(had, topic) else 0
                same += rule.similarity == AFTER or tables.counts[broker, topic] > own
            elif live:
                same += tables.counts[broker, topic] > 0
            else:
                same += tables.known[broker, topic]
        utility = same / topics - (rule.load_weight * load / total if total else 0.0)
        better = utility > best_utility or (utility == best_utility and best != home and load < best_load)
        if better or (broker == home and utility == best_utility):
            best, best_utility, best_load = broker, utility, load
    return best


@inner
def _cluster(rule: Rule, tables: Tables, user: int) -> int:
    if len(rule.cluster_at):
        return int(rule.cluster_at[tables.where[user]])
    return int(rule.cluster[tables.home[user]])


@kernel
def arrive(rule: Rule, tables: Tables, users: I64) -> None:
    """Users come before the run begins, one by one, and all brokers know the state of all; no message is counted.

    With policy *static* `home` says where; with *selection* it says in which cluster, unless places do.
    """
    for user in users:
        wanted = tables.slots[user]
        if rule.policy == PLACE:
            tables.home[user] = rule.home_at[tables.where[user]]
        elif rule.policy == SELECTION:
            tables.home[user] = _choose(rule, tables, -1, _cluster(rule, tables, user), wanted, wanted, True)
        home = tables.home[user]
        for slot in range(len(wanted)):
            if _first_of(wanted, slot):
                tables.counts[home, wanted[slot]] += 1
                tables.load[home] += 1


@kernel
def advance(
    trees: Trees, rule: Rule, tables: Tables, rows: tuple[I64, I64, I64], times: npt.NDArray[np.float64]
) -> None:
    """Changes in the order of time: `rows` are users, slots and what they hold."""
    users, slots, what = rows
    had = np.empty(tables.slots.shape[1], np.int64)
    at = 0
    while at < len(users):
        user = users[at]
        time = times[at]
        wanted = tables.slots[user]
        had[:] = wanted
        while at < len(users) and users[at] == user and times[at] == time:
            if slots[at] >= 0:
                wanted[slots[at]] = what[at]
            else:
                tables.where[user] = what[at]
            at += 1
        tables.counters[CHANGES] += 1
        _settle(trees, rule, tables, user, had, wanted)


@inner
def _settle(trees: Trees, rule: Rule, tables: Tables, user: int, had: I64, wanted: I64) -> None:
    """Where the user goes with what it wants now; brokers join trees before others leave them."""
    home = tables.home[user]
    new = home
    if rule.policy == PLACE:
        new = rule.home_at[tables.where[user]]
    elif rule.policy == SELECTION:
        new = _choose(rule, tables, home, _cluster(rule, tables, user), had, wanted, False)
    moved = new != home
    if moved:
        tables.counters[HAND_OVERS] += 1
        tables.home[user] = new
    for slot in range(len(wanted)):
        if _first_of(wanted, slot) and (moved or not _holds(had, wanted[slot])):
            topic = wanted[slot]
            tables.counts[new, topic] += 1
            tables.load[new] += 1
            if tables.counts[new, topic] == 1:
                _join(trees, tables, new, topic)
    for slot in range(len(had)):
        if _first_of(had, slot) and (moved or not _holds(wanted, had[slot])):
            topic = had[slot]
            tables.counts[home, topic] -= 1
            tables.load[home] -= 1
            if tables.counts[home, topic] == 0:
                _leave(trees, tables, home, topic)
