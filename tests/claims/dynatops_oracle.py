"""The dynatops model once more, literally: dictionaries, sets and walks along the ring, no arrays.

Rendezvous routing is not in the broker core, so what the core would do is written out here as well: a table per broker
of which children want a topic, joins and leaves that change it hop by hop, and events that are sent along it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import numpy as np

from latecomer.experiments.dynatops.model import System
from latecomer.experiments.dynatops.workload import MOVE, NOTHING, Changes, Workload
from latecomer.model.ring import parent, route


@dataclass
class Oracle:
    """Plays a workload on a ring from given homes."""

    workload: Workload
    system: System
    home: list[int]
    slots: list[list[int]] = field(default_factory=list)
    where: list[int] = field(default_factory=list)
    known: list[set[int]] = field(default_factory=list)
    known_load: list[int] = field(default_factory=list)
    children: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    """(place, topic) → children that want it, as the core's tables have it"""
    own: set[tuple[int, int]] = field(default_factory=set)
    """(place, topic) that a broker subscribes to"""
    found: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        assert self.system.overlay.ring is not None
        self.fingers = self.system.overlay.ring.all_fingers()
        self.slots = self.workload.slots.tolist()
        self.where = self.workload.where.tolist()
        for broker in range(self.workload.brokers):
            for topic in self.subscribed(broker):
                self.core_join(self.place(broker), topic)
        self.tell()

    # -- state

    def place(self, broker: int) -> int:
        return int(self.system.start[broker])

    def broker(self, place: int) -> int:
        return next(b for b in range(self.workload.brokers) if self.place(b) == place)

    def wishes(self, user: int) -> set[int]:
        return {topic for topic in self.slots[user] if topic != NOTHING}

    def users(self, broker: int) -> list[int]:
        return [user for user, home in enumerate(self.home) if home == broker]

    def subscribed(self, broker: int) -> set[int]:
        return set().union(*(self.wishes(user) for user in self.users(broker)))

    def load(self, broker: int) -> int:
        return sum(len(self.wishes(user)) for user in self.users(broker))

    def root(self, topic: int) -> int:
        return int(self.system.overlay.roots[topic])

    def tell(self) -> None:
        self.known = [self.subscribed(broker) for broker in range(self.workload.brokers)]
        self.known_load = [self.load(broker) for broker in range(self.workload.brokers)]

    # -- joins and leaves

    def core_join(self, place: int, topic: int) -> int:
        """Messages."""
        had = bool(self.children[place, topic]) or (place, topic) in self.own
        self.own.add((place, topic))
        return 0 if had else self._ask(place, topic)

    def _ask(self, place: int, topic: int) -> int:
        above = parent(self.fingers, self.root(topic), place)
        if above is None:
            return 0
        had = bool(self.children[above, topic]) or (above, topic) in self.own
        self.children[above, topic].add(place)
        return 1 if had else 1 + self._ask(above, topic)

    def core_leave(self, place: int, topic: int) -> int:
        self.own.discard((place, topic))
        return self._withdraw(place, topic)

    def _withdraw(self, place: int, topic: int) -> int:
        if self.children[place, topic] or (place, topic) in self.own:
            return 0
        above = parent(self.fingers, self.root(topic), place)
        if above is None:
            return 0
        self.children[above, topic].discard(place)
        return 1 + self._withdraw(above, topic)

    def paper_messages(self, place: int, topic: int) -> int:
        """A request to the rendezvous point and a tree message back."""
        there = list(route(self.fingers, place, self.root(topic)))
        back = list(route(self.fingers, self.root(topic), place))
        return len(there) + len(back) - 2

    # -- changes

    def change(self, user: int, rows: list[tuple[int, int]]) -> None:
        home = self.home[user]
        before = {b: self.subscribed(b) for b in range(self.workload.brokers)}
        loads = {b: self.load(b) for b in before}
        others = set().union(*(self.wishes(other) for other in self.users(home) if other != user))
        for slot, what in rows:
            if slot == MOVE:
                self.where[user] = what
            else:
                self.slots[user][slot] = what
        self.found["changes"] += 1
        self.home[user] = self.choose(user, home, before, loads, others)
        self.found["hand_overs"] += self.home[user] != home
        for broker in before:
            for topic in self.subscribed(broker) - before[broker]:
                self.found["joins"] += 1
                self.found["tree_messages"] += self.paper_messages(self.place(broker), topic)
                self.found["core_tree_messages"] += self.core_join(self.place(broker), topic)
        for broker in before:
            for topic in before[broker] - self.subscribed(broker):
                self.found["leaves"] += 1
                self.found["tree_messages"] += self.paper_messages(self.place(broker), topic)
                self.found["core_tree_messages"] += self.core_leave(self.place(broker), topic)

    def choose(self, user: int, home: int, before: dict[int, set[int]], loads: dict[int, int], others: set[int]) -> int:
        homes, wanted = self.system.homes, self.wishes(user)
        if homes.policy == "static":
            return home
        if homes.policy == "place":
            return int(self.system.home_at[self.where[user]])
        clusters = self.system.clusters.tolist()
        cluster = clusters[home]
        if len(self.system.cluster_at):
            cluster = int(self.system.cluster_at[self.where[user]])
        if not wanted:
            return home
        members = [b for b in before if clusters[b] == cluster]
        load = {b: loads[b] if b == home else self.known_load[b] for b in members}
        total = sum(load.values())

        def utility(broker: int) -> float:
            if broker != home:
                same = len(wanted & self.known[broker])
            elif homes.similarity == "after":
                same = len(wanted)
            else:
                same = len(wanted & (others if homes.similarity == "others" else before[home]))
            return same / len(wanted) - (homes.load_weight * load[broker] / total if total else 0.0)

        return max(members, key=lambda b: (utility(b), b == home, -load[b], -b))

    # -- notifications

    def edge(self, one: int, other: int) -> float:
        if self.system.delay is None:
            return 1.0
        return float(self.system.delay[self.broker(one), self.broker(other)])

    def length(self, stops: list[int]) -> float:
        return sum(self.edge(a, b) for a, b in pairwise(stops))

    def deliver(self, place: int, topic: int) -> Iterator[tuple[int, int, float]]:
        """As the core walks, from the publisher's broker: (place, hops, delay) of every message."""
        waiting = [(place, -1, 0, 0.0)]
        while waiting:
            here, came, hops, delay = waiting.pop(0)
            if hops:
                yield here, hops, delay
            above = parent(self.fingers, self.root(topic), here)
            ways = self.children[here, topic] | (set() if above is None else {above})
            for there in ways - {came}:
                waiting.append((there, here, hops + 1, delay + self.edge(here, there)))

    def notify(self, step: int) -> None:
        users = len(self.home)
        for topic, events in enumerate(self.workload.published[step].tolist()):
            root = self.root(topic)
            brokers = [b for b in range(self.workload.brokers) if topic in self.subscribed(b)]
            wanting = {self.place(b) for b in brokers}
            ways = {b: list(route(self.fingers, root, self.place(b))) for b in brokers}
            edges = {(a, b) for stops in ways.values() for a, b in pairwise(stops)}
            followers = [user for user in range(users) if topic in self.wishes(user)]
            self.found["events"] += events
            self.found["internal"] += events * sum(b in wanting for _, b in edges)
            self.found["external"] += events * sum(b not in wanting for _, b in edges)
            for publisher in range(users):
                place = self.place(self.home[publisher])
                up = list(route(self.fingers, place, root))
                self.found["climb"] += events / users * (len(up) - 1)
                for user in followers:
                    down = self.length(ways[self.home[user]])
                    self.found["delay_users"] += events / users * (self.length(up) + down)
                arrived = {place: 0.0}
                for there, _, delay in self.deliver(place, topic):
                    assert there not in arrived, "an event came twice"
                    arrived[there] = delay
                self.found["core_messages"] += events / users * (len(arrived) - 1)
                for user in followers:
                    self.found["core_delay_users"] += events / users * arrived[self.place(self.home[user])]

    # -- the run

    def play(self) -> dict[str, float]:
        changes, homes = self.workload.changes, self.system.homes
        rows = list(
            zip(changes.time.tolist(), changes.user.tolist(), changes.slot.tolist(), changes.what.tolist(), strict=True)
        )
        told = 1
        for step in range(self.workload.steps):
            for (time, user), group in groupby([row for row in rows if step <= row[0] < step + 1], lambda r: r[:2]):
                while homes.policy == "selection" and told * homes.exchange <= time:
                    self.tell()
                    told += 1
                self.change(user, [(slot, what) for _, _, slot, what in group])
            while homes.policy == "selection" and told * homes.exchange <= step + 1 + 1e-9:
                self.tell()
                told += 1
            self.notify(step)
        self.found["exchanges"] = told - 1 if homes.policy == "selection" else 0
        return self.found


def small_workload(random: np.random.Generator, brokers: int, topics: int, users: int, steps: int) -> Workload:
    """Anything can happen: empty slots, a topic twice, moves, several changes at once."""
    count = 6 * steps
    time = np.sort(random.uniform(0, steps, count))
    time[1::3] = time[0::3][: len(time[1::3])]  # some of them at the same time
    time = np.sort(time)
    user = random.integers(0, users, count)
    user[1:][time[1:] == time[:-1]] = user[:-1][time[1:] == time[:-1]]
    slot = random.integers(MOVE, 3, count)
    what = np.where(slot == MOVE, random.integers(0, brokers, count), random.integers(NOTHING, topics, count))
    slots = random.integers(NOTHING, topics, (users, 3))
    published = random.poisson(2.0, (steps, topics))
    where = random.integers(0, brokers, users)
    return Workload(brokers, topics, slots, where, Changes(time, user, slot, what), published)
