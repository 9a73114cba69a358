"""What a run amounted to: counted from outside while it happens, and put into one frozen value at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from latecomer.messages.link import LinkMessage, Publication
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.checkers import Violation
from latecomer.sim.disk import Disk
from latecomer.sim.storing import Retrieved
from latecomer.sim.transcript import message_name
from latecomer.sim.world import World


class TableSize(msgspec.Struct, frozen=True):
    """One broker's tables at the end."""

    subscriptions: int
    """Entries: one per filter and neighbour that holds it, own clients counting as one."""
    routes: int
    """Topics whose route is remembered."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A run, counted. Messages are counted once per link they cross; those before time 0 stand apart."""

    scenario: str
    seed: int
    brokers: int
    links: int
    accepted: int
    """Publications that a broker took: from here on a promise."""
    delivered: int
    lost: int
    """Promised and not delivered at the end."""
    duplicates: int
    repeats: int
    """Deliveries repeated after a lost connection and recognised by the client: not handed on."""
    refused: int
    dropped: int
    excused: int
    """Promises that ended because the client changed its mind, or a disk was lost."""
    in_vain: int
    """Steps that could not be taken: the client's broker was dead or stopped."""
    violations: tuple[Violation, ...]
    messages: dict[str, int]
    messages_before: dict[str, int]
    publications_by_hop: dict[int, int]
    """Publications crossing their first link, their second, and so on."""
    deliveries_by_hops: dict[int, int]
    tables: dict[BrokerId, TableSize]
    longest_queues: dict[str, int]
    events_kept: int
    """Events that brokers keep at the end for others that are away."""
    retrieved: Retrieved
    """What came of questions about the past."""
    virtual_us: Instant
    quiet_after_us: int
    """How long the network took to become quiet after the last fault was over; -1 if it did not."""
    real_seconds: float
    steps: int
    digest: str = ""
    interrupted: bool = False

    @property
    def good(self) -> bool:
        return not self.violations


class Tally:
    """Counts what the world does not count by itself. Observer of the world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.publications: Counter[int] = Counter()
        self.deliveries: Counter[int] = Counter()

    def noted(self, record: Record) -> None:
        if record.kind is Kind.DELIVERED:
            self.deliveries[record.hops] += 1

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        for frame in frames:
            if type(frame) is Publication:
                core = self.world.nodes[sender].core
                tree = core.interest.tree if core is not None else None
                hops = tree.hops(frame.event.id.origin, sender) if tree is not None else -1
                self.publications[hops + 1] += 1

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None:
        pass


def by_name(counts: Mapping[type, int], minus: Mapping[type, int] | None = None) -> dict[str, int]:
    """Message counts by name, most frequent first."""
    rest = {message_name(kind): count - (minus or {}).get(kind, 0) for kind, count in counts.items()}
    return {name: rest[name] for name in sorted(rest, key=lambda name: (-rest[name], name)) if rest[name]}


def table_sizes(world: World) -> dict[BrokerId, TableSize]:
    """Of the living brokers."""
    found = {}
    for id, node in world.nodes.items():
        if node.core is not None:
            entries = _entries(node.core.interest.subscriptions.holders.values())
            found[id] = TableSize(entries, len(node.core.routes.by_topic))
    return found


def _entries(holders: Iterable[Sequence[BrokerId]]) -> int:
    return sum(map(len, holders))


def events_kept(world: World) -> int:
    return sum(len(node.core.events.outbox.entries) for node in world.nodes.values() if node.core is not None)
