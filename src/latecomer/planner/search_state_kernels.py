"""What a local search knows of a placement, and how it is kept true when a replica changes place.

Per topic and broker the three nearest replicas are known, so the price of any exchange "slot s of topic t goes to
candidate c" costs one pass over the brokers for all slots at once (FastPAM, Schubert and Rousseeuw 2019). The
objective of a topic is Σ rate·(first·d1 + second·d2): hops alone, or with the second nearest what is left after a loss.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from latecomer.planner.compiling import inner, kernel

I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

UNLIMITED = np.iinfo(np.int64).max


class Case(NamedTuple):
    """What stays the same during a search."""

    toward: npt.NDArray[Any]
    """[c, b]: distance from broker b to candidate c."""
    rates: I64
    size: I64
    capacity: I64
    replicas: I64
    """[t] the most replicas that a topic may have."""
    least: I64
    """[t] the fewest; the same where counts are fixed."""
    free: bool
    """Some counts are not fixed."""
    usable: Flags
    """May become a store."""
    domain: I64
    limit: I64
    """Request rate a store may serve; at most `UNLIMITED`."""
    limited: bool
    kept_store: Flags
    kept: Flags
    """[t, c]: the operator pinned this replica."""
    before: Flags
    """[t, c]: the replica exists already, so it costs no move."""
    budget: int
    """How many replicas may be where none was before."""
    stores: int
    first: int
    second: int
    lost: int
    """Distance to a replica that does not exist."""


class State(NamedTuple):
    """A placement and what follows from it."""

    where: I64
    """[t, s]: broker of replica slot s."""
    held: I64
    """[t]: how many slots are in use."""
    slot: I64
    """[t, c]: the slot at c, or −1."""
    load: I64
    store: Flags
    crowd: I64
    """[t, domain]: replicas of t in the domain."""
    one: I64
    two: I64
    """[t, b]: slots of the nearest and second nearest replica, or −1."""
    d1: npt.NDArray[Any]
    d2: npt.NDArray[Any]
    d3: npt.NDArray[Any]
    first: I64
    """[t + 1]: where the slots of t begin among those of all topics; after the last slot one place is for none."""
    shift: I64
    """[c, first[t] + s]: change of the objective when slot s of topic t goes to c; in the last place, when t has one
    more replica at c."""
    fall: I64
    """[first[t] + s]: change of the objective when slot s of topic t is given up; kept only where counts are free."""
    stale: I64
    """[t]: 0 all prices hold, 1 those of stores, 2 none."""
    swap: I64
    """[t]: the best swap with a later topic: its price, the slot, the other topic and its slot."""
    touched: Flags
    """[t]: it moved since all `swap` were true."""
    served: I64
    """[t, c]: request rate; kept only where rates are limited."""
    sums: I64
    """Objective, replicas that were not there before, stores."""


@inner
def locate(case: Case, state: State, t: int) -> None:
    """Find the three nearest replicas of topic t anew; ties go to the lower broker."""
    brokers = case.rates.shape[1]
    old = new = 0
    for b in range(brokers):
        old += case.rates[t, b] * (case.first * state.d1[t, b] + case.second * state.d2[t, b])
        x1 = x2 = x3 = case.lost
        s1 = s2 = -1
        i1 = i2 = -1
        for s in range(state.held[t]):
            i = state.where[t, s]
            d = case.toward[i, b]
            if d < x1 or (d == x1 and i < i1):
                x3, x2, s2, i2 = x2, x1, s1, i1
                x1, s1, i1 = d, s, i
            elif d < x2 or (d == x2 and i < i2):
                x3 = x2
                x2, s2, i2 = d, s, i
            elif d < x3:
                x3 = d
        state.one[t, b], state.two[t, b] = s1, s2
        state.d1[t, b], state.d2[t, b], state.d3[t, b] = x1, x2, x3
        new += case.rates[t, b] * (case.first * x1 + case.second * x2)
    state.sums[0] += new - old
    if case.free:
        _price_falls(case, state, t)
    state.stale[t] = 2
    state.touched[t] = True
    if case.limited:
        for b in range(brokers):
            state.served[t, b] = 0
        for b in range(brokers):
            if state.one[t, b] >= 0:
                state.served[t, state.where[t, state.one[t, b]]] += case.rates[t, b]


@inner
def _price_falls(case: Case, state: State, t: int) -> None:
    row = state.fall[state.first[t] : state.first[t + 1]]
    row[:] = 0
    for b in range(case.rates.shape[1]):
        rate = case.rates[t, b]
        if rate == 0 or state.one[t, b] < 0:
            continue
        later = case.second * (state.d3[t, b] - state.d2[t, b])
        row[state.one[t, b]] += rate * (case.first * (state.d2[t, b] - state.d1[t, b]) + later)
        if state.two[t, b] >= 0:
            row[state.two[t, b]] += rate * later


@inner
def price_one(case: Case, state: State, t: int, c: int) -> int:
    """Fill the prices at c of all slots of t; returns what adding c, with nothing taken away, would change."""
    count = state.held[t]
    row = state.shift[c, state.first[t] : state.first[t + 1]]
    for s in range(count):
        row[s] = 0
    first, second = case.first, case.second
    common = 0
    for b in range(case.rates.shape[1]):
        rate = case.rates[t, b]
        if rate == 0:
            continue
        d = case.toward[c, b]
        x1, x2 = state.d1[t, b], state.d2[t, b]
        if second == 0:
            # Without a branch that nobody can foretell; who has no replica is nearer to c than to none, and adds 0.
            common += rate * min(d - x1, 0)
            row[state.one[t, b]] += rate * max(min(d, x2) - x1, 0)
            continue
        x3 = state.d3[t, b]
        now = first * x1 + second * x2
        if d < x1:
            keep = first * d + second * x1
            gone1, gone2 = first * d + second * x2, keep
        elif d < x2:
            keep = first * x1 + second * d
            gone1, gone2 = first * d + second * x2, keep
        else:
            keep = now
            gone1, gone2 = first * x2 + second * min(d, x3), first * x1 + second * min(d, x3)
        common += rate * (keep - now)
        if state.one[t, b] >= 0:
            row[state.one[t, b]] += rate * (gone1 - keep)
        if state.two[t, b] >= 0:
            row[state.two[t, b]] += rate * (gone2 - keep)
    if second == 0:
        common *= first
        for s in range(count):
            row[s] *= first
    for s in range(count):
        row[s] += common
    row[row.size - 1] = common
    return common


@inner
def price(case: Case, state: State, everywhere: bool) -> None:
    """Make prices true that are not: those of exchanges into stores, or into every usable broker."""
    wanted = 0 if everywhere else 1
    topics = np.flatnonzero(state.stale > wanted)
    for n in range(topics.size):
        _price_topic(case, state, topics[n], everywhere)
    for t in topics:
        state.stale[t] = wanted


@inner
def _price_topic(case: Case, state: State, t: int, everywhere: bool) -> None:
    for c in range(case.usable.size):
        if state.slot[t, c] < 0 and (state.store[c] or (everywhere and case.usable[c])):
            price_one(case, state, t, c)


@inner
def open_store(case: Case, state: State, c: int) -> None:
    """c is a store from now on; prices known for stores only do not cover it."""
    state.store[c] = True
    state.sums[2] += 1
    for t in range(case.replicas.size):
        if state.stale[t] == 1:
            state.stale[t] = 2


@inner
def put(case: Case, state: State, t: int, s: int, c: int) -> None:
    """Slot s of topic t goes to c. `locate` must follow; loads, domains and moves are right at once."""
    i = state.where[t, s]
    state.where[t, s] = c
    state.slot[t, i], state.slot[t, c] = -1, s
    state.load[i] -= case.size[t]
    state.load[c] += case.size[t]
    state.crowd[t, case.domain[i]] -= 1
    state.crowd[t, case.domain[c]] += 1
    state.sums[1] += int(not case.before[t, c]) - int(not case.before[t, i])


@inner
def add(case: Case, state: State, t: int, c: int) -> None:
    """One more replica of topic t, at c. `locate` must follow."""
    s = state.held[t]
    state.where[t, s] = c
    state.slot[t, c] = s
    state.held[t] += 1
    state.load[c] += case.size[t]
    state.crowd[t, case.domain[c]] += 1
    state.sums[1] += int(not case.before[t, c])


@inner
def give_up(case: Case, state: State, t: int, s: int) -> None:
    """Topic t has no replica in slot s any more; the last one takes the slot. `locate` must follow."""
    i, last = state.where[t, s], state.held[t] - 1
    state.where[t, s] = state.where[t, last]
    state.slot[t, state.where[t, last]] = s
    state.slot[t, i] = -1
    state.held[t] = last
    state.load[i] -= case.size[t]
    state.crowd[t, case.domain[i]] -= 1
    state.sums[1] -= int(not case.before[t, i])


@inner
def note(change: I64, t: int, s: int, c: int) -> None:
    """Slot s of topic t goes to c. A slot of −1 is a replica more, a broker of −1 one less."""
    change[0], change[1], change[2] = t, s, c


@inner
def carry_out(case: Case, state: State, changes: I64, number: int) -> None:
    """Do the `changes`, one per topic; their prices are stale then."""
    for n in range(number):
        t, s, c = changes[n, 0], changes[n, 1], changes[n, 2]
        if c >= 0 and not state.store[c]:
            open_store(case, state, c)
        if s < 0:
            add(case, state, t, c)
        elif c < 0:
            give_up(case, state, t, s)
        else:
            put(case, state, t, s, c)
        locate(case, state, t)


@inner
def allowed(case: Case, state: State, t: int, s: int, c: int) -> bool:
    """Pins, domains and doubles let slot s go to c; room and rates are asked elsewhere."""
    i = state.where[t, s]
    if case.kept[t, i] or state.slot[t, c] >= 0:
        return False
    return bool(state.crowd[t, case.domain[c]] - int(case.domain[c] == case.domain[i]) <= 0)


@inner
def extra(case: Case, state: State, t: int, s: int, c: int) -> int:
    """How many moves more the change costs."""
    there = int(not case.before[t, c]) if c >= 0 else 0
    return there - (int(not case.before[t, state.where[t, s]]) if s >= 0 else 0)


@inner
def spare(case: Case, state: State, t: int, i: int) -> bool:
    """Topic t may give up its replica at i."""
    return bool(state.held[t] > case.least[t] and not case.kept[t, i])


@inner
def welcome(case: Case, state: State, t: int, c: int) -> bool:
    """Counts, doubles and domains let topic t have one more replica, at c; room and rates are asked elsewhere."""
    return bool(state.held[t] < case.replicas[t] and state.slot[t, c] < 0 and state.crowd[t, case.domain[c]] == 0)


@inner
def bearable(case: Case, state: State, changes: I64, number: int) -> bool:
    """After `changes` (topic, slot, candidate; one per topic) no store serves more than its limit, or more than now."""
    if not case.limited:
        return True
    rise = np.zeros(case.usable.size, np.int64)
    for n in range(number):
        t, slot = changes[n, 0], changes[n, 1]
        for b in range(case.rates.shape[1]):
            if state.one[t, b] >= 0:
                rise[state.where[t, state.one[t, b]]] -= case.rates[t, b]
            best = changes[n, 2]
            for s in range(state.held[t]):
                i = state.where[t, s]
                if s == slot:
                    continue
                nearer = case.toward[i, b] - case.toward[best, b] if best >= 0 else -1
                if nearer < 0 or (nearer == 0 and i < best):
                    best = i
            rise[best] += case.rates[t, b]
    for c in range(rise.size):
        if rise[c] > 0:
            for t in range(case.replicas.size):
                rise[c] += state.served[t, c]
            if rise[c] > case.limit[c]:
                return False
    return True


@kernel
def begin(case: Case, state: State, stores: I64, starts: I64, places: I64) -> None:
    """Put a placement into an empty state: the replicas of topic t are at places[starts[t] : starts[t + 1]]."""
    for c in stores:
        if not state.store[c]:
            open_store(case, state, c)
    for t in range(case.replicas.size):
        for c in places[starts[t] : starts[t + 1]]:
            if not state.store[c]:
                open_store(case, state, c)
            add(case, state, t, c)
        locate(case, state, t)
