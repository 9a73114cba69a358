"""Everything that happened since one looked last, kept as it was: for whoever tells a story about it."""

from __future__ import annotations

from collections.abc import Sequence

from latecomer.messages.link import LinkMessage, Publication
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.disk import Disk

Sent = tuple[Instant, BrokerId, BrokerId, LinkMessage]


class Trace:
    """Observer that keeps messages and records."""

    def __init__(self) -> None:
        self.messages: list[Sent] = []
        self.records: list[Record] = []

    def clear(self) -> None:
        self.messages.clear()
        self.records.clear()

    def of(self, *kinds: Kind) -> list[Record]:
        return [record for record in self.records if record.kind in kinds]

    def paths(self, event: str) -> list[list[BrokerId]]:
        """The ways a publication took, each from its origin to where it went no further."""
        after: dict[BrokerId, list[BrokerId]] = {}
        for _, sender, receiver, message in self.messages:
            if isinstance(message, Publication) and str(message.event.id) == event:
                after.setdefault(sender, [])
                if receiver not in after[sender]:
                    after[sender].append(receiver)
        arrived = {receiver: None for receivers in after.values() for receiver in receivers}
        found: list[list[BrokerId]] = []
        waiting = [[sender] for sender in after if sender not in arrived]
        for path in waiting:  # grows while it is walked
            further = [broker for broker in after.get(path[-1], ()) if broker not in path]
            waiting.extend([*path, broker] for broker in further)
            if not further:
                found.append(path)
        return found

    # -- observer

    def noted(self, record: Record) -> None:
        self.records.append(record)

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        self.messages.extend((now, sender, receiver, frame) for frame in frames)

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None:
        pass
