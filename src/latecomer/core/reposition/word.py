"""The positions that a broker knows: the newest word it has heard, on disk before it is told on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.core.clients import Disk
from latecomer.core.effects import Put
from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.core.ring.places import position_in
from latecomer.messages.reposition import NO_STAMP, Place, Positions, PositionsKnown, Stamp
from latecomer.model.ids import BrokerId
from latecomer.model.record import Kind

NO_POSITIONS = Positions(NO_STAMP, ())


@dataclass(slots=True)
class PositionsWord:
    """What this broker knows of where everybody stands, and how the others hear of it."""

    broker: BrokerId
    orders: Orders
    neighbours: Neighbours
    brokers_max: int
    changed: Callable[[], None]
    """Called when other positions are in force."""
    known: Positions = NO_POSITIONS
    places: dict[BrokerId, int] = field(default_factory=dict)
    """Those of `known`."""
    _sent: dict[BrokerId, Stamp] = field(default_factory=dict)
    """Of the positions that each neighbour was told last in this link session."""
    _told: dict[BrokerId, None] = field(default_factory=dict)
    """Neighbours that know in this link session which positions we had at its start, or have."""

    @property
    def stamp(self) -> Stamp:
        return self.known.stamp

    def recover(self, disk: Disk) -> None:
        found = disk.get("positions", {}).get("", {}).get("")
        if found is not None:
            assert isinstance(found, Positions)
            self.known, self.places = found, dict(found.places)

    def position(self, broker: BrokerId) -> int:
        """Where a broker stands: at the hash of its name unless the word says otherwise."""
        return position_in(self.places, broker)

    def take(self, word: Positions, told_by: BrokerId = "") -> bool:
        """Put positions in force if they are newer than the present ones, and tell the neighbours."""
        if word.stamp <= self.stamp:
            return False
        self.known, self.places = word, dict(word.places)
        self.orders.writes.append(Put("positions", "", "", word))
        self.orders.note(Kind.POSITIONED, peer=word.stamp.by, count=len(word.places), detail=str(word.stamp))
        for peer in self.neighbours.up():
            if peer != told_by:
                self._tell(peer)
        self.changed()
        return True

    def _tell(self, peer: BrokerId) -> None:
        self._told[peer], self._sent[peer] = None, self.stamp
        self.neighbours.send(peer, self.known)

    def greet(self, peer: BrokerId) -> None:
        """A link session began."""
        self._told.pop(peer, None)
        self._sent.pop(peer, None)
        if self.stamp != NO_STAMP:
            self._say_stamp(peer)

    def _say_stamp(self, peer: BrokerId) -> None:
        self._told[peer] = None
        self.neighbours.send(peer, PositionsKnown(self.stamp))

    def on_known(self, peer: BrokerId, frame: PositionsKnown) -> None:
        if frame.stamp < self.stamp:
            self._tell(peer)
        elif frame.stamp > self.stamp and peer not in self._told:
            self._say_stamp(peer)

    def on_positions(self, peer: BrokerId, word: Positions) -> bool:
        """Whether it is news. Who tells older ones than ours may have told them before it heard of ours."""
        if self.too_many(peer, word.places):
            return False
        if word.stamp < self.stamp and self._sent.get(peer) != self.stamp:
            self._tell(peer)
        return self.take(word, peer)

    def too_many(self, peer: BrokerId, places: tuple[Place, ...]) -> bool:
        """Whether a neighbour tells of more brokers than there may be; then it is rejected."""
        if len(places) > self.brokers_max:
            told = f"it tells of {len(places)} positions, and core.brokers_max allows {self.brokers_max} brokers"
            self.neighbours.reject(peer, told)
        return len(places) > self.brokers_max
