"""Moves: a topic class on its way from one broker's store to another's, as `latecomer apply` does it.

The new store is told to keep it, and the old one to stop when the new one answers and has had everything for as long as
the old one has. Whatever happens meanwhile, what the old one had is then in the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId, EventId, Instant
from latecomer.sim.disk import Disk
from latecomer.sim.sides import Observer
from latecomer.sim.store import matches
from latecomer.sim.world import World

LOOK_US = 50_000
LOOKS_MAX = 400


@dataclass(slots=True)
class Move:
    """One topic class, from one broker to another."""

    topics: str
    old: BrokerId
    new: BrokerId
    looks: int = LOOKS_MAX
    had: dict[EventId, Event] = field(default_factory=dict)
    """What the old store had of it when it was withdrawn there."""


@dataclass(slots=True)
class Moves(Observer):
    """The moves of one life; an observer of its world."""

    world: World
    random: Random
    assign: Callable[[BrokerId, tuple[str, ...]], None]
    violate: Callable[[str, str], None]
    moved: list[Move] = field(default_factory=list)
    """Those that have come to their end, and that nothing has made void since."""
    count: int = 0
    assigned_at: Instant = -1
    """When a store was last told to keep other topics."""

    def begin(self) -> None:
        nodes = self.world.nodes
        keepers = [id for id, node in nodes.items() if node.topics]
        if not keepers or len(nodes) < 2:
            return
        old = self.random.choice(keepers)
        new = self.random.choice([id for id in nodes if id != old])
        move = Move(self.random.choice(list(nodes[old].topics)), old, new)
        if move.topics not in nodes[new].topics:
            self.assign(new, (*nodes[new].topics, move.topics))
        self.world.at(self.world.now + LOOK_US, self._look, move)

    def _look(self, move: Move) -> None:
        """Withdraw, if the new store is as good as the old one; else look again later."""
        nodes, topics = self.world.nodes, move.topics
        if move.old not in nodes or move.new not in nodes:
            return  # it has left the network
        if topics not in nodes[move.old].topics or topics not in nodes[move.new].topics:
            return  # somebody else has decided otherwise
        had, has = self._since(move.old, topics), self._since(move.new, topics)
        if had is not None and has is not None and has <= had:
            wanted = Filter(topics)
            held = nodes[move.old].disk.store.events.values()
            move.had = {e.id: e for e in held if e.reliable and not e.expires_us and matches(wanted, e)}
            self.assign(move.old, tuple(name for name in nodes[move.old].topics if name != topics))
            self.moved.append(move)
            self.count += 1
            return
        move.looks -= 1
        if move.looks:
            self.world.at(self.world.now + LOOK_US, self._look, move)

    def _since(self, broker: BrokerId, topics: str) -> Instant | None:
        """From when on a store that answers has everything; None: it does not answer."""
        core = self.world.nodes[broker].core
        if core is None or topics not in core.advertisements.own:
            return None
        return core.history.directory.complete_since(broker, topics)

    def assigned(self, broker: BrokerId, topics: Sequence[str]) -> None:
        self.assigned_at = self.world.now
        self.moved = [move for move in self.moved if move.new != broker or move.topics in topics]

    def judge(self) -> None:
        """The network is quiet: what moved has arrived."""
        for move in self.moved:
            if self.world.nodes[move.new].core is None:
                continue  # some faults come late: it is asked when it is back
            since_us = self._since(move.new, move.topics)
            if since_us is None:
                self.violate("moved", f"{move.new} does not answer for {move.topics}, which came from {move.old}")
                continue
            has = {event.id for event in self.world.nodes[move.new].disk.store.events.values()}
            lacking = [id for id, event in move.had.items() if id not in has and event.published_us >= since_us]
            if lacking:
                told = f"{move.new} lacks {lacking[0]} of {move.topics} and {len(lacking) - 1} more"
                self.violate("moved", f"{told} that {move.old} had")

    # -- observer ----------------------------------------------------------------------------------------------------

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None:
        if not keeps_disk:
            self.moved = [move for move in self.moved if move.new != broker]
