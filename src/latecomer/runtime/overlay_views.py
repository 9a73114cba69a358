"""What operators are told about the ring: where brokers stand, what that costs, and what is proposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from latecomer.core.ring.interest import RingInterest
from latecomer.core.routing import Rendezvous
from latecomer.core.table import SELF
from latecomer.model.ids import BrokerId

if TYPE_CHECKING:
    from latecomer.core.broker import Broker

NO_RING = (
    "this network does not route by rendezvous, so brokers have no positions; "
    'set kind = "rendezvous" in [core.routing] of every broker'
)


class PlaceView(msgspec.Struct, frozen=True):
    """A broker on the ring."""

    broker: BrokerId
    position: int
    slots: int
    """So many slots have their root there."""
    fingers: tuple[BrokerId, ...]
    """To whom its routes lead first; empty: there is no ring."""
    agreed: bool
    """Whether the network has agreed on this position; otherwise it is the hash of the name."""


class OverlayView(msgspec.Struct, frozen=True):
    broker: BrokerId
    """Who says so."""
    routing: str
    levels: int
    """Of a topic, that make its key; 0: brokers do not route by rendezvous."""
    pins: dict[str, int]
    """key → its slot, for those that are not at their hash."""
    ready: bool
    """False: this broker has no family of trees that is complete."""
    ring: bool
    """False: some broker lacks the link to its successor, and everything travels the agreed tree."""
    version: str
    longest: int
    """Links on the longest way between a root and another broker."""
    stamp: str
    """Of the positions in force."""
    places: tuple[PlaceView, ...]
    """In the order of the ring."""
    proposing: bool
    """This broker has proposed positions, and waits for others."""
    waits_for: tuple[BrokerId, ...]
    preparing: str
    """The proposal for which this broker gets ready, or is; empty: none."""
    outcome: str
    """What came of the last proposal of this broker."""
    seconds: float
    """For so long it has counted."""
    published: dict[int, int]
    """Events of its own clients, by slot."""
    wanted: tuple[int, ...]
    """Slots to which its clients subscribe."""
    wants_across: int
    """Filters of its clients that cross slots."""
    delivered: int
    """Events of others that clients here wanted."""
    hops: int
    """Links that those had come along, added up."""
    relayed: int
    """Events of others that were only sent on."""


def overlay_view(core: Broker, seconds: float) -> OverlayView:
    interest, reposition, traffic = core.interest, core.reposition, core.events.traffic
    family, own, routing = interest.family, reposition.own, core.settings.routing
    published: dict[int, int] = {}
    wanted: dict[int, None] = {}
    across = 0
    if isinstance(interest, RingInterest):
        slots = [interest.keys.slot_of_filter(filter.topic) for filter in interest.subscriptions.of(SELF)]
        wanted = {slot: None for slot in slots if slot is not None}
        across = slots.count(None)
    if traffic is not None:
        published = dict(traffic.published)
    return OverlayView(
        core.id,
        str(routing),
        routing.levels if isinstance(routing, Rendezvous) else 0,
        routing.pins if isinstance(routing, Rendezvous) else {},
        interest.ready,
        family is not None and family.ring,
        "" if interest.tree is None else interest.tree.version,
        0 if family is None else family.longest,
        str(reposition.word.stamp),
        _places(core),
        own is not None,
        () if own is None else tuple(own.waits_for()),
        "" if reposition.proposal is None else str(reposition.proposal.stamp),
        reposition.outcome,
        seconds,
        published,
        tuple(sorted(wanted)),
        across,
        0 if traffic is None else traffic.delivered,
        0 if traffic is None else traffic.hops,
        0 if traffic is None else traffic.relayed,
    )


def _places(core: Broker) -> tuple[PlaceView, ...]:
    family, word = core.interest.family, core.reposition.word
    if family is None:
        return ()
    count, found = len(family.order), []
    slots = family.slots_of()
    for at, broker in enumerate(family.order):
        steps = family.fingers[at] if family.ring else ()
        fingers = tuple(family.order[(at + step) % count] for step in steps)
        found.append(PlaceView(broker, family.points[at], slots.get(broker, 0), fingers, broker in word.places))
    return tuple(found)
