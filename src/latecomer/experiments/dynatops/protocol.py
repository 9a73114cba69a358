"""The paper's reconfiguration protocol (§III-D4, Fig. 4), message by message on a small ring.

Tables are those of Bayeux: at each place, per topic, the members whose way from the rendezvous point passes here. They
speak of places and not of brokers, so that who takes a place can take its table. A message that travels along a
key-based route is written down once for every hop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from latecomer.experiments.dynatops.overlay import Overlay
from latecomer.experiments.dynatops.reconfiguring import fingers_of

Table = dict[int, set[int]]
"""Topic → members."""
MANAGER = "manager"


@dataclass(slots=True)
class Protocol:
    """Brokers on a ring with their tables; `story` is what was sent."""

    overlay: Overlay
    at: dict[str, int]
    """The place of each broker."""
    wants: Mapping[str, frozenset[int]]
    tables: dict[int, Table] = field(default_factory=dict)
    """By place."""
    story: list[str] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    blocked: bool = False
    waiting: list[tuple[str, int, str]] = field(default_factory=list)
    """Publications that brokers hold back: by whom, topic, which."""
    received: list[tuple[str, str]] = field(default_factory=list)
    """Who got which publication."""

    def __post_init__(self) -> None:
        self.tables = self.proper()

    # -- trees

    def root(self, topic: int) -> int:
        return int(self.overlay.roots[topic])

    def route(self, start: int, target: int) -> list[int]:
        """Places from start to target, both included."""
        stops = [start]
        while stops[-1] != target:
            stops.append(int(self.overlay.next_stop[stops[-1], target]))
        return stops

    def proper(self) -> dict[int, Table]:
        """The tables that subscriptions and places call for."""
        tables: dict[int, Table] = {place: {} for place in self.at.values()}
        for broker, topics in self.wants.items():
            for topic in topics:
                for stop in self.route(self.root(topic), self.at[broker]):
                    tables[stop].setdefault(topic, set()).add(self.at[broker])
        return tables

    def tree(self, topic: int) -> list[str]:
        """A line per broker in the tree, as the tables have it."""
        lines: list[str] = []

        def line(place: int, depth: int) -> None:
            broker, members = self.name(place), self.tables[place].get(topic, set())
            what = "member" if place in members else "rendezvous point" if place == self.root(topic) else "relay"
            wrong = place in members and topic not in self.wants[broker]
            missing = place not in members and topic in self.wants[broker]
            note = ", does not subscribe" if wrong else ", subscribes but is no member" if missing else ""
            lines.append(f"    {'  ' * depth}{broker} at {place}: {what}{note}")
            for child in sorted({int(self.overlay.next_stop[place, member]) for member in members - {place}}):
                line(child, depth + 1)

        line(self.root(topic), 0)
        return lines

    def name(self, place: int) -> str:
        return next(broker for broker, where in self.at.items() if where == place)

    # -- messages

    def tell(self, sender: str, to: str, kind: str, told: str = "") -> None:
        self.sent[kind] += 1
        self.story.append(f"  {sender} → {to}: {kind}{' ' + told if told else ''}")

    def along(self, stops: list[int], kind: str, told: str) -> None:
        for one, other in pairwise(stops):
            self.tell(self.name(one), self.name(other), kind, told)

    def publish(self, broker: str, topic: int, event: str) -> None:
        """While a reconfiguration is under way the broker keeps it."""
        if self.blocked:
            self.waiting.append((broker, topic, event))
            self.story.append(f"  {broker} keeps {event}")
            return
        root = self.root(topic)
        self.along(self.route(self.at[broker], root), "PUBLISH", event)
        self._notify(root, topic, event)

    def _notify(self, place: int, topic: int, event: str) -> None:
        members = self.tables[place].get(topic, set())
        if place in members:
            self.received.append((self.name(place), event))
        for child in sorted({int(self.overlay.next_stop[place, member]) for member in members - {place}}):
            self.tell(self.name(place), self.name(child), "NOTIFY", event)
            self._notify(child, topic, event)

    # -- the protocol

    def reconfigure(self, after: Mapping[str, int], during: tuple[str, int, str] | None = None) -> None:
        """All steps; `during` is published while it goes on."""
        movers = [broker for broker in self.at if after[broker] != self.at[broker]]
        self._all("step 1", "RCFG_INIT")
        self.blocked = True
        if during is not None:
            self.publish(*during)
        self.story.append("step 2")
        before = dict(self.at)
        for broker in movers:
            self.tell(MANAGER, broker, "RCFG_DHT_UPDATE", f"to {after[broker]}")
        self.at = {broker: after[broker] for broker in self.at}
        for broker in movers:
            self._rejoin(broker)
        for broker in movers:
            self.tell(broker, MANAGER, "RCFG_DHT_UPDATED")
        self._all("step 3", "RCFG_TREE_UPDATE")
        self.story.append("step 3.1")
        for broker in movers:  # a table belongs to a place, so who takes the place has it now
            self.along(self.route(after[broker], before[broker]), "TABLE", f"of {before[broker]}")
        self.story.append("step 3.2")
        for broker in movers:
            self._repair(broker)
        self._all("step 4", "RCFG_FINISH")
        self.blocked = False
        held, self.waiting = self.waiting, []
        for publication in held:
            self.publish(*publication)

    def _all(self, step: str, kind: str) -> None:
        self.story.append(step)
        for broker in self.at:
            self.tell(MANAGER, broker, kind)

    def _rejoin(self, broker: str) -> None:
        """Fingers are looked up by way of the successor, and those whose finger the newcomer is are told."""
        place, count = self.at[broker], len(self.overlay.next_stop)
        messages = 0
        for finger in fingers_of(self.overlay, place):
            messages += len(self.route((place + 1) % count, finger))
        messages += sum(place in fingers_of(self.overlay, other) for other in range(count))
        self.sent["CHORD"] += messages
        self.story.append(f"  {broker} joins at {place}: {messages} messages of Chord")

    def _repair(self, broker: str) -> None:
        """What the table of the new place says of its occupant is made true."""
        place = self.at[broker]
        table = self.tables[place]
        held = {topic for topic, members in table.items() if place in members}
        for topic in sorted(held - self.wants[broker]):
            self._request(broker, topic, "LEAVE")
        for topic in sorted(self.wants[broker] - held):
            self._request(broker, topic, "JOIN")

    def _request(self, broker: str, topic: int, kind: str) -> None:
        """To the rendezvous point, and a tree message back that changes every table on its way."""
        place, root = self.at[broker], self.root(topic)
        self.along(self.route(place, root), kind, f"t{topic + 1}")
        down = self.route(root, place)
        self.along(down, "TREE", f"t{topic + 1}: {'with' if kind == 'JOIN' else 'without'} {place}")
        for stop in down:
            members = self.tables[stop].setdefault(topic, set())
            members.add(place) if kind == "JOIN" else members.discard(place)
            if not members:
                del self.tables[stop][topic]

    def placed(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """[B] the place of each broker, in their order."""
        return np.array(list(self.at.values()), np.int64)
