"""What must hold of positions, whatever happens: watched from outside, like everything else that is promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from latecomer.core.broker import Broker
from latecomer.core.reposition.states import Managing, Moving
from latecomer.messages.link import LinkMessage
from latecomer.messages.reposition import NO_STAMP, Place, Positions, Proposal, Stamp
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.checkers import Promises
from latecomer.sim.disk import Disk
from latecomer.sim.sides import Observer
from latecomer.sim.world import World


def kept(disk: Disk) -> Positions | None:
    """The positions that a disk holds."""
    found = disk.tables.get("positions", {}).get("", {}).get("")
    assert found is None or isinstance(found, Positions)
    return found


@dataclass(slots=True)
class PositionsChecker(Observer):
    """One stamp has one content; who tells of positions has them on its disk; nobody goes back to older ones; and who
    puts a proposal in force has had no others since it made it."""

    world: World
    promises: Promises
    contents: dict[Stamp, tuple[Place, ...]] = field(default_factory=dict)
    bases: dict[Stamp, Stamp] = field(default_factory=dict)
    """What each proposal was computed from."""
    latest: dict[BrokerId, str] = field(default_factory=dict)
    """The stamp of the positions that each broker took last."""
    stamps: dict[str, Stamp] = field(default_factory=dict)
    in_force: int = 0
    withdrawn: int = 0

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        for frame in frames:
            if isinstance(frame, Proposal | Positions):
                self._check_content(sender, frame)
            if isinstance(frame, Proposal):
                self.bases[frame.stamp] = frame.base
            elif isinstance(frame, Positions):
                disk = kept(self.world.nodes[sender].disk)
                if disk is None or disk.stamp < frame.stamp:
                    self.promises.violate("durability", f"{sender} tells of positions {frame.stamp} before its disk")

    def _check_content(self, sender: BrokerId, frame: Proposal | Positions) -> None:
        self.stamps[str(frame.stamp)] = frame.stamp
        if self.contents.setdefault(frame.stamp, frame.places) != frame.places:
            self.promises.violate("positions", f"{sender} tells of other positions with the stamp {frame.stamp}")

    def noted(self, record: Record) -> None:
        if record.kind is Kind.POSITIONED:
            self._took(record)
        elif record.kind is Kind.WITHDRAWN:
            self.withdrawn += 1

    def _took(self, record: Record) -> None:
        broker = record.broker
        before = self._stamp(self.latest.get(broker, str(NO_STAMP)))
        self.latest[broker] = record.detail
        stamp = self.stamps.get(record.detail)
        if stamp is None:
            return  # nobody else has heard of it: the broker is alone
        if stamp <= before:
            self.promises.violate("positions", f"{broker} goes from positions {before} back to {stamp}")
        if record.peer == broker and stamp.boot == self.world.nodes[broker].boot and stamp in self.bases:
            self.in_force += 1
            if self.bases[stamp] != before:
                told = f"{broker} puts {stamp} in force, computed from {self.bases[stamp]}, and has {before}"
                self.promises.violate("positions", told)

    def _stamp(self, text: str) -> Stamp:
        return self.stamps.get(text, NO_STAMP)

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None:
        found = kept(disk) if keeps_disk else None
        self.latest[broker] = str(NO_STAMP if found is None else found.stamp)

    def quiet(self, cores: Sequence[Broker]) -> bool:
        """Whether no proposal is under way."""
        return all(
            core.reposition.managing is Managing.RESTING and core.reposition.moving is Moving.IDLE for core in cores
        )

    def check(self, cores: Sequence[Broker]) -> None:
        """Everybody has the same positions, on disk, and they are the newest of all disks."""
        newest = max((core.reposition.word.stamp for core in cores), default=NO_STAMP)
        for core in cores:
            word, disk = core.reposition.word, kept(self.world.nodes[core.id].disk)
            if word.stamp != newest or word.places != dict(self.contents.get(newest, word.known.places)):
                self.promises.violate("positions", f"{core.id} has positions {word.stamp}, others have {newest}")
            if (NO_STAMP if disk is None else disk.stamp) != word.stamp:
                self.promises.violate("durability", f"{core.id} has positions {word.stamp} that are not on its disk")
