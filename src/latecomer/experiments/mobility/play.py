"""One algorithm on one ground: where subscriptions stand, what is sent, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from latecomer.experiments.mobility.algorithms.algorithm import Algorithm
from latecomer.experiments.mobility.ground import Ground
from latecomer.experiments.mobility.interest import Holdings, Logs, held, multicast_hops, wanted_at
from latecomer.experiments.mobility.move import Absence, Leg, Reach, Sums, arrival, departure, summed
from latecomer.experiments.mobility.movements import LEAVES
from latecomer.experiments.mobility.tables import Covering, Routing, advertised_hops
from latecomer.experiments.mobility.transfers import Fetches, Transfers, transfer
from latecomer.experiments.mobility.tree import FloatArray, IntArray

ROUND_TRIPS = 3
"""Ways between the two brokers until a subscription stands at the new one and has ended at the old one: step 2 there
and back, step 3."""
ROUNDS = 20
"""Most times that transfers and logs are asked in turn; two or three are enough."""
TOGETHER = 15
"""Bits of a number of events, where moves that cost the same are counted together."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the network is like; the same for all algorithms."""

    speed: float
    """Messages a second on a link, in each direction."""
    hop_s: float
    """Until a message has passed a link."""
    log_size: int
    log_transferred: bool = False
    """Whether a log also has what was sent to the broker because a client came."""
    routing: Routing = "plain"
    crowded: bool = True
    """Whether transfers share links; else each has the speed for itself."""


COLUMNS = Sums._fields


@dataclass(frozen=True, slots=True)
class Played:
    """What an algorithm cost."""

    multicast: IntArray
    """Hops of each publication."""
    departed: IntArray
    """A row of COLUMNS for each move: what is sent when the client leaves."""
    arrived: IntArray
    """The same for when it comes."""
    ahead: FloatArray
    """When what was sent at departure has arrived (the end of T2')."""
    ready: FloatArray
    """When the subscriptions stand at the new broker."""
    transfers: Transfers
    early: IntArray
    stored: IntArray
    logged: IntArray
    fetched: IntArray
    """The moves that fetch, by number."""


def play(ground: Ground, algorithm: Algorithm, conditions: Conditions) -> Played:
    plan = _Plan(ground, algorithm, conditions)
    holdings = plan.holdings()
    wanted = wanted_at(ground.publications, holdings, ground.subscriptions)
    climbs = conditions.routing != "advertisements"
    logs = Logs(ground.publications, wanted, ground.tree, conditions.log_size) if algorithm.outline() else None
    fetched = np.flatnonzero((plan.source != ground.movements.new) & (ground.movements.came < ground.length_s))
    counting = _Counting(plan, fetched, logs)
    transfers = counting.transferred()
    departed, arrived = plan.accounts(counting.stored, counting.logged)
    return Played(
        multicast_hops(ground.publications, wanted, ground.tree, climbs=climbs),
        departed,
        arrived,
        plan.ahead,
        plan.ready,
        transfers,
        plan.early,
        counting.stored,
        counting.logged,
        fetched,
    )


class _Plan:
    """Who holds a session when."""

    def __init__(self, ground: Ground, algorithm: Algorithm, conditions: Conditions) -> None:
        self.ground, self.algorithm, self.conditions = ground, algorithm, conditions
        moves = ground.movements
        self.attached = algorithm.arrival() == "attach"
        self.old = ground.movements.starts[moves.client] if self.attached else moves.old
        asked = tuple(range(ground.guesses.shape[1]))
        columns = list(algorithm.departure(asked))
        self.guesses = ground.guesses[:, columns]
        """Where the session goes when the client leaves; a column for each destination."""
        self.several = len(columns) > 1
        self.owner = self.guesses[:, 0] if len(columns) == 1 else self.old
        self.source = self._sources()
        delay = ROUND_TRIPS * conditions.hop_s
        self.ahead = moves.left.copy()
        """When what is sent at departure has arrived."""
        if columns:
            farthest = np.max([ground.hops(self.old, column) for column in self.guesses.T], axis=0)
            self.ahead = np.minimum(moves.left + delay * farthest, moves.came)
        self.ready = np.minimum(moves.came + delay * ground.hops(self.source, moves.new), ground.next_left)
        if self.attached:
            self.ready = moves.came
        subscriptions = ground.of_moves()
        self.early = ground.wanted.between(subscriptions, moves.left, self.ahead)

    def _sources(self) -> IntArray:
        """The broker from which the new one fetches."""
        moves = self.ground.movements
        if not self.several:
            return self.owner
        choices = np.concatenate([self.old[:, None], self.guesses], axis=1)
        far = np.array([self.ground.hops(column, moves.new) for column in choices.T]).T * LEAVES + choices
        found: IntArray = choices[np.arange(len(choices)), far.argmin(axis=1)]
        return found

    def holdings(self) -> Holdings:
        moves = self.ground.movements
        if self.attached:
            nothing = np.zeros(0, dtype=np.int64)
            return held(moves.starts, nothing, nothing, np.zeros(0))
        if self.several:
            found = held(moves.starts, moves.client, moves.new, self.ready)
            for column in self.guesses.T:
                found = found.and_also(Holdings(moves.client, column, self.ahead, self.ready))
            return found
        client, leaf, since = moves.client, moves.new, self.ready
        if self.guesses.shape[1]:
            client = np.concatenate([client, client])
            leaf = np.concatenate([self.owner, leaf])
            since = np.concatenate([self.ahead, since])
        return held(moves.starts, client, leaf, since)

    # -- what it costs

    def accounts(self, stored: IntArray, logged: IntArray) -> tuple[IntArray, IntArray]:
        """The sums of what every move sends at departure and at arrival."""
        if self.conditions.routing != "plain" or self.several:
            return self._one_by_one(stored, logged)
        moves = self.ground.movements
        ways = [(self.old, moves.new), (self.old, self.owner), (self.owner, moves.new)]
        key = np.zeros(len(self.old), dtype=np.int64)
        for a, b in ways:
            key = key * 7 + self.ground.hops(a, b)
        for number in (self.early, stored, logged):
            assert number.max(initial=0) < 1 << TOGETHER
            key = (key << TOGETHER) + number
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        sums = [self._account(move, int(stored[move]), int(logged[move]), None) for move in first.tolist()]
        departed = np.array([one for one, _ in sums], dtype=np.int64).reshape(-1, len(COLUMNS))
        arrived = np.array([other for _, other in sums], dtype=np.int64).reshape(-1, len(COLUMNS))
        return departed[inverse], arrived[inverse]

    def absence(self, move: int, stored: int, logged: int) -> Absence:
        first = self.ground.tree.leaves[0]
        return Absence(
            old=int(self.old[move]) + first,
            new=int(self.ground.movements.new[move]) + first,
            guesses=tuple(int(leaf) + first for leaf in self.guesses[move]),
            early=int(self.early[move]),
            stored=stored,
            logged=logged,
        )

    def _account(self, move: int, stored: int, logged: int, reach: Reach | None) -> tuple[list[int], list[int]]:
        absence, tree = self.absence(move, stored, logged), self.ground.tree
        return (
            list(summed(departure(tree, self.algorithm, absence, reach))),
            list(summed(arrival(tree, self.algorithm, absence, reach))),
        )

    def _one_by_one(self, stored: IntArray, logged: IntArray) -> tuple[IntArray, IntArray]:
        """In the order of time, as tables remember."""
        count = len(self.old)
        reaches = _reaches(self.ground, self.conditions.routing)
        departed, arrived = (np.zeros((count, len(COLUMNS)), dtype=np.int64) for _ in range(2))
        moves, tree = self.ground.movements, self.ground.tree
        times = np.concatenate([moves.left, moves.came])
        for turn in np.argsort(times, kind="stable").tolist():
            move, coming = turn % count, turn >= count
            reach = reaches(int(self.ground.subscriptions[moves.client[move]]))
            absence = self.absence(move, int(stored[move]), int(logged[move]))
            legs: list[Leg] = (arrival if coming else departure)(tree, self.algorithm, absence, reach)
            (arrived if coming else departed)[move] = summed(legs)
        return departed, arrived


def _reaches(ground: Ground, routing: Routing) -> Callable[[int], Reach | None]:
    """For a subscription, how far a broker's beginning or end to want it is heard."""
    tree, first = ground.tree, ground.tree.leaves[0]
    if routing == "plain":
        return lambda subscription: None
    if routing == "advertisements":
        hops = advertised_hops(tree, ground.publications)
        return lambda subscription: lambda broker, begins: int(hops[broker - first, subscription])
    tables = Covering(tree)
    for leaf, subscription in zip(ground.movements.starts.tolist(), ground.subscriptions.tolist(), strict=True):
        tables.begin(leaf + first, subscription)
    return lambda subscription: lambda broker, begins: (tables.begin if begins else tables.end)(broker, subscription)


class _Counting:
    """How many events each move sends, which may depend on when the transfers before it ended."""

    def __init__(self, plan: _Plan, fetched: IntArray, logs: Logs | None) -> None:
        self.plan, self.fetched, self.logs = plan, fetched, logs
        moves, wanted = plan.ground.movements, plan.ground.wanted
        self.subscriptions = plan.ground.of_moves()[fetched]
        self.left, self.ready, self.new = moves.left[fetched], plan.ready[fetched], moves.new[fetched]
        self.first = wanted.before(self.subscriptions, self.left)
        self.last = wanted.before(self.subscriptions, self.ready)
        count = len(plan.old)
        self.stored, self.logged = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)

    def transferred(self) -> Transfers:
        """Transfers decide since when clients have had nothing, that decides what logs spare, and that how long
        transfers take: so again, until it is all one."""
        plan, fetched = self.plan, self.fetched
        since = np.arange(len(fetched))
        for _ in range(ROUNDS):
            spared = self._spared(since)
            found = self._run(spared)
            if plan.attached or (found.since == since).all():
                break
            since = found.since
        first = self.first if plan.attached else self.first[found.since]
        self.stored[fetched] = self.last - first
        self.logged[fetched] = spared
        return found

    def _run(self, spared: IntArray) -> Transfers:
        plan = self.plan
        if not plan.conditions.crowded:
            return self._alone(spared)
        client = plan.ground.movements.client[self.fetched]
        source = plan.source[self.fetched]
        fetches = Fetches(client, self.left, self.ready, source, self.new, self.first, self.last)
        return transfer(fetches, spared, plan.ground.links, plan.conditions.speed, again=not plan.attached)

    def _spared(self, since: IntArray) -> IntArray:
        """How many of the events that each move misses are in the new broker's log."""
        if self.logs is None:
            return np.zeros(len(since), dtype=np.int64)
        if self.plan.conditions.log_transferred:
            return self._spared_in_turn(since)
        missed = self.last - self.first[since]
        owner = np.repeat(np.arange(len(missed)), missed)
        step = np.arange(len(owner)) - np.repeat(np.cumsum(missed) - missed, missed)
        numbers = self.plan.ground.wanted.flat[
            self.plan.ground.wanted.offsets[self.subscriptions[owner]] + self.first[since][owner] + step
        ]
        known = self.logs.known(numbers, self.new[owner], self.ready[owner])
        return np.bincount(owner, weights=known, minlength=len(missed)).astype(np.int64)

    def _spared_in_turn(self, since: IntArray) -> IntArray:
        """The same where a log depends on what was fetched before."""
        assert self.logs is not None
        self.logs.brought.clear()
        found = np.zeros(len(since), dtype=np.int64)
        for number in np.argsort(self.ready, kind="stable").tolist():
            numbers = self.plan.ground.wanted.numbers[int(self.subscriptions[number])]
            missed = numbers[self.first[since[number]] : self.last[number]]
            found[number] = self.logs.fetched(missed, int(self.new[number]), float(self.ready[number]))
        return found

    def _alone(self, spared: IntArray) -> Transfers:
        """Nobody waits for anybody: how long a transfer takes depends on it alone."""
        events = self.last - self.first - spared
        end = self.ready + events / self.plan.conditions.speed
        under_way = events > 0
        steps = np.concatenate([self.ready[under_way], end[under_way]])
        change = np.repeat([1, -1], int(under_way.sum()))
        most = int(np.cumsum(change[np.argsort(steps, kind="stable")]).max(initial=0))
        return Transfers(np.arange(len(events)), self.ready, end, most)
