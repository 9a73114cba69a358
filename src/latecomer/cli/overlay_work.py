"""The ring of a running network, over the admin interfaces of its brokers; nothing is printed here."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from latecomer.cli.doors import Door, Refused, Silent, call
from latecomer.model.demand import Demand
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.positions import Positions
from latecomer.model.slots import key_of_filter, point_of_slot, slot_of
from latecomer.runtime.overlay_views import NO_RING, OverlayView

LOOK_SECONDS = 0.1
Tell = Callable[[str], None]


@dataclass(slots=True)
class Seen:
    """What brokers say about the ring, at one moment."""

    views: dict[BrokerId, OverlayView] = field(default_factory=dict)
    doors: dict[BrokerId, Door] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    """A sentence for each broker that did not answer."""

    @property
    def one(self) -> OverlayView:
        """The view of a broker whose family of trees is complete, if there is one."""
        return next((view for view in self.views.values() if view.ready), next(iter(self.views.values())))

    def counted(self) -> Counted:
        views = self.views.values()
        published = sum(sum(view.published.values()) for view in views)
        return Counted(
            published, sum(v.delivered for v in views), sum(v.hops for v in views), sum(v.relayed for v in views)
        )


class Counted(msgspec.Struct, frozen=True):
    """What brokers counted together."""

    published: int = 0
    delivered: int = 0
    hops: int = 0
    relayed: int = 0

    def since(self, before: Counted) -> Counted:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(before), strict=True)
        return Counted(*(after - old for after, old in pairs))

    @property
    def relays_each(self) -> float | None:
        """Relays of an event, on average."""
        return self.relayed / self.published if self.published else None

    @property
    def hops_each(self) -> float | None:
        """Links on the way to a broker that wants an event, on average."""
        return self.hops / self.delivered if self.delivered else None


def look(doors: Sequence[Door]) -> Seen:
    """Ask every broker."""
    seen = Seen()
    for door in doors:
        try:
            view = call(door, "overlay", OverlayView)
        except Silent as error:
            seen.silent.append(str(error))
            continue
        seen.views[view.broker], seen.doors[view.broker] = view, door
    if not seen.views:
        raise LatecomerError("; ".join(seen.silent[:3]))
    if not any(view.places for view in seen.views.values()):
        raise LatecomerError(NO_RING)
    return seen


def stand_of(seen: Seen) -> Positions:
    """Where brokers stand, with a topic for every slot that anybody publishes in or subscribes to."""
    views = list(seen.views.values())
    slots = sorted({slot for view in views for slot in (*view.published, *view.wanted)})
    points = {slot_name(slot): point_of_slot(slot) for slot in slots}
    return Positions({place.broker: place.position for place in seen.one.places}, topics=points)


def stand_at(view: OverlayView, topics: Sequence[str]) -> Positions:
    """Where brokers stand, with these topics, or filters inside one slot, at the points where events of theirs meet."""
    points = {}
    for topic in topics:
        key = key_of_filter(topic, view.levels)
        if key is None:
            told = f"{topic} crosses slots, so it has no one place on the ring; name classes by --depth or --classes"
            raise SettingsError("--from-log", f"{told} that tell its first {view.levels} levels")
        points[topic] = point_of_slot(slot_of(key, view.pins))
    return Positions({place.broker: place.position for place in view.places}, topics=points)


def slot_name(slot: int) -> str:
    return f"slot {slot}"


def demand_of(seen: Seen, stand: Positions) -> tuple[Demand, dict[BrokerId, list[str]]]:
    """Who publishes how often in which slot, and who wants it, by what brokers have counted since they began."""
    rates: dict[str, dict[BrokerId, float]] = {topic: {} for topic in stand.topics}
    wanted: dict[BrokerId, list[str]] = {}
    for broker, view in seen.views.items():
        for slot, count in view.published.items():
            rates[slot_name(slot)][broker] = count / max(view.seconds, 1.0)
        wanted[broker] = list(stand.topics) if view.wants_across else [slot_name(slot) for slot in view.wanted]
    window_s = min(view.seconds for view in seen.views.values())
    return Demand(tuple(stand.topics), {}, publications=rates, window_s=window_s), wanted


def propose(seen: Seen, places: Mapping[BrokerId, int], patience_s: float, tell: Tell) -> float:
    """Have these positions put in force; how many seconds it took until all brokers routed by them."""
    broker, door = next((b, d) for b, d in seen.doors.items() if seen.views[b].ready or len(seen.doors) == 1)
    before, began = seen.one.stamp, time.monotonic()
    call(door, "overlay", dict[str, str], body={"places": dict(places)})
    while time.monotonic() - began < patience_s:
        time.sleep(LOOK_SECONDS)
        now = look(list(seen.doors.values()))
        mine = now.views.get(broker)
        if mine is not None and mine.outcome.startswith("withdrawn"):
            raise Refused(f"the positions were not taken: {mine.outcome.removeprefix('withdrawn: ')}")
        if mine is not None and mine.waits_for:
            tell(f"waiting for {', '.join(mine.waits_for[:4])}")
        elif _in_force(now, before):
            return time.monotonic() - began
        else:
            tell("brokers adopt the new trees")
    raise LatecomerError(
        f"after {patience_s:g} s not all brokers use the new positions; 'latecomer overlay show' says where they are"
    )


def _in_force(now: Seen, before: str) -> bool:
    views = list(now.views.values())
    stamps, versions = {view.stamp for view in views}, {view.version for view in views}
    return len(stamps) == 1 and stamps != {before} and len(versions) == 1 and all(view.ready for view in views)
