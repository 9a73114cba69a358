"""Flushes: what joins the agreed tree to the trees of events.

Whoever asks for a past, for a session or for what another store has, must not be answered before everything has arrived
that it will not get by itself. Where one tree carries all, links keep that order. Where events travel trees of their
own, who is asked has it made: it wants a *flush* from who asks, along each tree that matters. The flush comes behind
every subscription that who asks has told, and behind every event that was sent on those ways before. An event that
some broker on the way to who asks had passed before it knew the subscription went on ahead of the flush.

A flush lives in one tree: when the tree is lost, all who wait for it are asked again, or give up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from latecomer.core.interest import Interest
from latecomer.core.neighbours import Neighbours
from latecomer.core.passage import Passage
from latecomer.core.ring.keys import Keys
from latecomer.messages.ring import Flush, Flushed, FlushWanted
from latecomer.model.ids import BrokerId

BETWEEN = "of a flush between"


@dataclass(slots=True)
class _Wait:
    """A flush that is to come, or an answer to one."""

    of: BrokerId
    roots: dict[BrokerId, None]
    then: Callable[[], None]


@dataclass(slots=True)
class Flushes:
    """The flushes of one broker."""

    broker: BrokerId
    neighbours: Neighbours
    interest: Interest
    passage: Passage
    keys: Keys | None
    """None: brokers do not route by rendezvous, and there is nothing to flush."""
    number: int = 0
    coming: dict[int, _Wait] = field(default_factory=dict)
    """Those that were wanted of others."""
    climbing: dict[int, _Wait] = field(default_factory=dict)
    """Our own on their way to roots that answer."""

    # -- wanted of another broker --------------------------------------------------------------------------------------

    def behind(self, broker: BrokerId, then: Callable[[], None], *topics: str) -> None:
        """Go on when everything has come that went ahead of what another broker has asked; `topics`: topic filters, if
        nothing matters that one of them does not match."""
        family = self.interest.family
        if family is None or not family.ring or broker == self.broker:
            then()
            return
        roots = self._roots_for(topics)
        self.number += 1
        self.coming[self.number] = _Wait(broker, dict.fromkeys(roots), then)
        self.passage.send(broker, FlushWanted(self.broker, broker, self.number, roots))

    def _roots_for(self, topics: tuple[str, ...]) -> tuple[BrokerId, ...]:
        family = self.interest.family
        assert family is not None
        assert self.keys is not None
        for topic_filter in topics:
            if (slot := self.keys.slot_of_filter(topic_filter)) is not None:
                return (family.root_of(slot),)
        return family.roots()

    def on_wanted(self, peer: BrokerId, frame: FlushWanted) -> None:
        if self.passage.arrived(peer, frame.from_broker, frame.to, frame, BETWEEN):
            self._send(Flush(self.broker, frame.from_broker, frame.number, frame.roots))

    def _send(self, flush: Flush) -> None:
        """Send a flush on: one frame for each neighbour to which the ways part."""
        family, ways = self.interest.family, dict[BrokerId, list[BrokerId]]()
        assert family is not None
        for root in flush.roots:
            if root in family.agreed.parent:
                ways.setdefault(family.tree(root).next_hop(self.broker, flush.to), []).append(root)
        for peer, roots in ways.items():
            self.neighbours.send(peer, Flush(flush.from_broker, flush.to, flush.number, tuple(roots), flush.answered))

    def on_flush(self, peer: BrokerId, frame: Flush) -> None:
        if not self.interest.ready or not self._on_its_way(peer, frame):
            return
        if frame.to != self.broker:
            self._send(frame)
        elif frame.answered:
            answer = Flushed(self.broker, frame.from_broker, frame.number, frame.roots)
            self.passage.send(frame.from_broker, answer)
        elif (wait := self.coming.get(frame.number)) is not None and wait.of == frame.from_broker:
            self._arrived(self.coming, frame.number, frame.roots)

    def _on_its_way(self, peer: BrokerId, frame: Flush) -> bool:
        """Bad input 24: it comes from the side of who sent it, and goes on to another."""
        family = self.interest.family
        if family is None or peer not in family.beside[self.broker]:
            return False  # it comes late, from another family
        if frame.from_broker not in family.agreed.parent or frame.to not in family.agreed.parent:
            return False
        good = frame.from_broker != self.broker and all(
            root in family.agreed.parent
            and (tree := family.tree(root)).next_hop(self.broker, frame.from_broker) == peer
            and (frame.to == self.broker or tree.next_hop(self.broker, frame.to) != peer)
            for root in frame.roots
        )
        if not good:
            self.neighbours.reject(peer, f"bad route {BETWEEN} {frame.from_broker} and {frame.to}")
        return good

    def _arrived(self, waits: dict[int, _Wait], number: int, roots: Iterable[BrokerId]) -> None:
        wait = waits[number]
        for root in roots:
            wait.roots.pop(root, None)
        if not wait.roots:
            del waits[number]
            wait.then()

    # -- to roots ------------------------------------------------------------------------------------------------------

    def climb(self, slots: Iterable[int], then: Callable[[], None]) -> None:
        """Go on when the roots of these slots, and all on the way, know what this broker has told them."""
        family = self.interest.family
        if family is None or not family.ring:
            then()
            return
        roots = {root: None for slot in slots if (root := family.root_of(slot)) != self.broker}
        if not roots:
            then()
            return
        self.number += 1
        self.climbing[self.number] = _Wait("", roots, then)
        for root in list(roots):
            self._send(Flush(self.broker, root, self.number, (root,), answered=True))

    def on_flushed(self, peer: BrokerId, frame: Flushed) -> None:
        if self.passage.arrived(peer, frame.from_broker, frame.to, frame, BETWEEN) and frame.number in self.climbing:
            self._arrived(self.climbing, frame.number, (frame.from_broker,))

    def tree_lost(self) -> None:
        self.coming.clear()
        self.climbing.clear()
