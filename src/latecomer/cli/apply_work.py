"""Bringing a running network to a plan, step by step: fill, wait until it answers, withdraw.

The network itself is the state. Every step is an assignment that a broker keeps on its disk, and what is still to be
done is the difference between what brokers keep and what the plan says: whoever is interrupted begins again with
`survey`, and goes on.

A topic class is withdrawn from a broker only when all its planned stores answer for it, and each of them has had
everything for as long as the best store of all has. A class that is wider than those of the plan (`city/#`, where the
plan has `city/north/#`) counts as a store of each of them, and is withdrawn, if that is wished, after all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from latecomer.cli.doors import Refused, Silent
from latecomer.cli.live_network import Live
from latecomer.model.applied import Done, What
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.plan import Plan
from latecomer.model.topics import topic_covers, topic_overlaps
from latecomer.model.topology import quoted
from latecomer.runtime.amounts import show_size
from latecomer.runtime.settings_check import check_store_topics
from latecomer.runtime.store_views import ClassView, StoresView

ROOM_TIMES = 2
"""What a replica takes on a disk, in terms of its events."""
LOOK_SECONDS = 0.1
"""How often a store that is being filled is looked at, at first; later less often."""
LOOK_SECONDS_MAX = 2.0


class Step(msgspec.Struct, frozen=True):
    """Something that is still to be done at one broker."""

    what: What
    broker: BrokerId
    topics: tuple[str, ...]
    sources: tuple[BrokerId, ...] = ()
    """Who keeps these topics now, nearest first."""
    events: int = 0
    bytes: int = 0
    """About so much is to be copied."""


@dataclass(slots=True)
class Survey:
    """What brokers keep, by their own word."""

    stores: dict[BrokerId, StoresView]

    def topics(self, broker: BrokerId) -> tuple[str, ...]:
        return tuple(each.topics for each in self.classes(broker))

    def classes(self, broker: BrokerId) -> tuple[ClassView, ...]:
        view = self.stores.get(broker)
        return () if view is None or view.store is None else view.store.classes

    def named(self, broker: BrokerId, topic: str) -> ClassView | None:
        """A topic class of a broker, under exactly this name."""
        return next((each for each in self.classes(broker) if each.topics == topic), None)

    def since(self, topic: str) -> dict[BrokerId, int]:
        """Who answers for all of a topic class, also as a part of a wider one, and since when each has had everything
        of it; without those who have not."""
        found: dict[BrokerId, int] = {}
        for broker in self.stores:
            for each in self.classes(broker):
                if each.answering and each.complete_since_us and topic_covers(each.topics, topic):
                    found[broker] = min(each.complete_since_us, found.get(broker, each.complete_since_us))
        return found

    def size(self, broker: BrokerId, topic: str) -> tuple[int, int]:
        """How many events of a topic class a broker has, and their bytes."""
        return self.stores[broker].sizes.get(topic, (0, 0))

    def lacking(self, topic: str, stores: Iterable[BrokerId]) -> list[BrokerId]:
        """Which of these do not keep a topic class as well as the best of all."""
        best = min(self.since(topic).values(), default=0)
        return [store for store in stores if not _good(self.named(store, topic), best)]


def _good(found: ClassView | None, best: int) -> bool:
    if found is None or not found.answering:
        return False
    return not best or 0 < found.complete_since_us <= best


# -- looking


def check_plan(plan: Plan, source: str, live: Live) -> list[str]:
    """Whether a plan fits a network; returns what is odd, in sentences."""
    for topic in plan.replicas:
        try:
            check_store_topics((topic,), "")
        except SettingsError as error:
            raise SettingsError(
                f"replicas.{topic}",
                f"{quoted(topic)} is no topic filter, so no store can keep it: {error.problem}",
                source=source,
            ) from None
    here = frozenset(live.topology.ids())
    for store in plan.stores:
        if store in here:
            continue
        if store in live.absent:
            raise LatecomerError(
                f"{store} gets a store by the plan and is not there now: start it, then run this again"
            )
        where = f"{quoted(store)}, which is not in the network {quoted(live.name)}"
        told = f"the plan has a store at {where}: it is a plan for another network"
        raise SettingsError("stores", told, source=source)
    odd = []
    planned = frozenset(plan.brokers)
    if more := [broker for broker in live.topology.ids() if broker not in planned]:
        odd.append(f"The plan does not know {few(more)}: it was made for a smaller network.")
    if gone := [broker for broker in plan.brokers if broker not in here]:
        odd.append(f"The plan counts on {few(gone)}, not there now.")
    return odd


def survey(live: Live, plan: Plan, *, sizes: bool = False) -> Survey:
    """Ask everybody who keeps something, or is to."""
    keepers = [kept.broker for kept in live.kept]
    wanted = dict.fromkeys([*plan.stores, *keepers])
    present = frozenset(live.topology.ids())
    views = {}
    for broker in [broker for broker in wanted if broker in present]:
        mine = [kept.topics for kept in live.kept if kept.broker == broker]
        held = [topic for topic in plan.replicas if any(topic_covers(name, topic) for name in mine)]
        views[broker] = live.stores(broker, list(dict.fromkeys((*mine, *held))) if sizes else ())
    return Survey(views)


def steps_to(plan: Plan, live: Live, found: Survey, withdraw: Iterable[str], *, keep_old: bool) -> list[Step]:
    """What is to be done, fills first."""
    wanted: dict[BrokerId, list[str]] = {store: [] for store in plan.stores}
    for topic, stores in plan.replicas.items():
        for store in stores:
            wanted[store].append(topic)
    fills = [
        _fill(live, found, broker, tuple(topics))
        for broker in wanted
        if (topics := [topic for topic in wanted[broker] if found.lacking(topic, (broker,))])
    ]
    if keep_old:
        return fills
    gone = frozenset(withdraw)
    leaves = []
    for broker in found.stores:
        old = tuple(
            topic
            for topic in found.topics(broker)
            if topic in gone or (plan.replicas.get(topic) and broker not in plan.replicas[topic])
        )
        if old:
            leaves.append(Step("withdraw", broker, old))
    return fills + leaves


def _fill(live: Live, found: Survey, broker: BrokerId, topics: tuple[str, ...]) -> Step:
    hops = live.topology.hops_from(broker)
    sources: dict[BrokerId, None] = {}
    events = size = 0
    for topic in topics:
        kept = [store for store in found.since(topic) if store != broker]
        sources.update(dict.fromkeys(kept))
        largest = max((found.size(store, topic) for store in kept), default=(0, 0))
        events, size = events + largest[0], size + largest[1]
    near = sorted(sources, key=lambda source: (hops.get(source, len(hops)), source))
    return Step("fill", broker, topics, tuple(near), events, size)


def check_room(steps: Iterable[Step], found: Survey) -> None:
    """Whether what is to be copied fits."""
    for step in steps:
        room = found.stores[step.broker].room_bytes
        if step.what == "fill" and 0 <= room < ROOM_TIMES * step.bytes:
            raise LatecomerError(
                f"{step.broker} has room for {show_size(room)}, and {few(step.topics)} may take"
                f" {show_size(ROOM_TIMES * step.bytes)}: make room there or raise store.capacity,"
                " or plan with --capacity"
            )


def unplanned(plan: Plan, found: Survey, withdraw: Iterable[str]) -> list[str]:
    """Topics that are kept, and that the plan says nothing of."""
    gone = frozenset(withdraw)
    names = (topic for broker in found.stores for topic in found.topics(broker))
    return [name for name in dict.fromkeys(names) if not plan.replicas.get(name) and name not in gone]


def left_over(plan: Plan, found: Survey, topic: str) -> int:
    """Events of a class that nobody is asked for any more when only the stores of the plan are left."""
    kept = [broker for broker in found.stores if found.named(broker, topic) is not None]
    parts = [name for name, stores in plan.replicas.items() if stores and topic_covers(topic, name)]
    widest = [name for name in parts if not any(other != name and topic_covers(other, name) for other in parts)]
    return max(
        (found.size(broker, topic)[0] - sum(found.size(broker, name)[0] for name in widest) for broker in kept),
        default=0,
    )


def few(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if listed[3:] else "")


# -- doing


@dataclass(slots=True)
class Filling:
    """A fill under way."""

    step: Step
    begun_us: int
    moved_at: float
    """When something was last seen to happen."""
    events: int = -1
    problem: str = ""


@dataclass(slots=True)
class Work:
    """Takes the steps."""

    live: Live
    plan: Plan
    id: str
    parallel: int
    patience_s: float
    told: Callable[[str, BrokerId, tuple[str, ...], int, int], None]
    """Called with each piece of news: what, where, which topics, how many events of about how many."""
    done: list[Done] = field(default_factory=list)
    seen: dict[BrokerId, StoresView] = field(default_factory=dict)
    _look_s: float = LOOK_SECONDS
    _touched: dict[Step, list[str]] = field(default_factory=dict)

    def run(self, steps: Iterable[Step]) -> None:
        waiting = [step for step in steps if step.what == "fill"]
        leaving = [step for step in steps if step.what == "withdraw"]
        active: list[Filling] = []
        while waiting or active:
            while waiting and len(active) < self.parallel:
                active.append(self._begin(waiting.pop(0)))
            finished = [filling for filling in active if self._look(filling)]
            active = [filling for filling in active if filling not in finished]
            busy = [topic for step in (*waiting, *(f.step for f in active)) for topic in step.topics]
            if finished:
                leaving = [step for step in leaving if not self._leave(step, busy)]
                self._look_s = LOOK_SECONDS
            elif active:
                time.sleep(self._look_s)
                self._look_s = min(LOOK_SECONDS_MAX, self._look_s * 1.2)
        until = time.monotonic() + self.patience_s
        while leaving := [step for step in leaving if not self._leave(step, ())]:
            if time.monotonic() > until:
                raise LatecomerError(self._why_not(leaving[0]))
            time.sleep(LOOK_SECONDS_MAX)

    # -- filling

    def _begin(self, step: Step) -> Filling:
        self.told("fill", step.broker, step.topics, 0, step.events)
        filling = Filling(step, _now_us(), time.monotonic())
        self._assign(step.broker, lambda kept: (*kept, *(topic for topic in step.topics if topic not in kept)))
        return filling

    def _look(self, filling: Filling) -> bool:
        """Whether a fill has come to its end."""
        step = filling.step
        try:
            found = self._survey(step)
        except (Silent, Refused) as error:
            filling.problem = str(error)
            self._wait(filling)
            return False
        store = found.stores[step.broker].store
        lacking = [topic for topic in step.topics if found.lacking(topic, (step.broker,))]
        if not lacking:
            events = 0 if store is None else store.events
            self.done.append(Done("fill", step.broker, step.topics, filling.begun_us, _now_us(), events))
            self.told("filled", step.broker, step.topics, events, step.events)
            return True
        if store is None or any(topic not in found.topics(step.broker) for topic in step.topics):
            raise LatecomerError(
                f"somebody else has assigned other topics to {step.broker}; run this again when they are done"
            )
        if store.problem:
            raise LatecomerError(
                f"{step.broker} cannot be filled: {store.problem}; nothing that it was to take over was withdrawn"
            )
        if store.events + store.appended != filling.events:
            filling.events, filling.moved_at = store.events + store.appended, time.monotonic()
            self.told("filling", step.broker, step.topics, store.events, step.events)
        filling.problem = self._shortfall(found, step, lacking)
        self._wait(filling)
        return False

    def _wait(self, filling: Filling) -> None:
        if time.monotonic() - filling.moved_at > self.patience_s:
            step = filling.step
            told = f"{step.broker} is not filled with {few(step.topics)}"
            told += f", and nothing has happened for {self.patience_s:g} s"
            raise LatecomerError(
                f"{told}: {filling.problem}; nothing that it was to take over was withdrawn, run this again to go on"
            )

    @staticmethod
    def _shortfall(found: Survey, step: Step, lacking: list[str]) -> str:
        mine = found.named(step.broker, lacking[0])
        if mine is None or not mine.answering:
            return "it does not answer for it yet"
        since = mine.complete_since_us or 1 << 62
        better = [broker for broker, theirs in found.since(lacking[0]).items() if theirs < since]
        return (
            f"it does not reach back as far as {few(better)}; are its store.keep and store.capacity large enough?"
            " (--keep-old leaves the others as they are)"
        )

    def _survey(self, step: Step) -> Survey:
        """The broker of a step, and the stores it is compared with."""
        others = [store for topic in self._concerned(step) for store in self.plan.replicas[topic]]
        wanted = dict.fromkeys((step.broker, *step.sources, *others))
        views = {}
        for broker in wanted:
            try:
                views[broker] = self.live.stores(broker)
                self.seen[broker] = views[broker]
            except (Silent, Refused):
                if broker == step.broker or broker not in self.seen:
                    raise
                views[broker] = self.seen[broker]  # as it was: what it had then is still the measure
        return Survey(views)

    # -- withdrawing

    def _leave(self, step: Step, busy: Iterable[str]) -> bool:
        """Withdraw topics from a broker, if others can do without it."""
        if any(topic_overlaps(topic, other) for topic in step.topics for other in busy):
            return False
        try:
            if self._not_covered(step):
                return False
        except Silent:
            return False  # it is just being started again, or one of the others is
        begun_us = _now_us()
        gone = frozenset(step.topics)
        self.told("withdraw", step.broker, step.topics, 0, 0)
        view = self._assign(step.broker, lambda kept: tuple(topic for topic in kept if topic not in gone))
        events = 0 if view.store is None else view.store.events
        self.done.append(Done("withdraw", step.broker, step.topics, begun_us, _now_us(), events))
        return True

    def _not_covered(self, step: Step) -> list[str]:
        """Topics of a step whose planned stores are not all as good as the best."""
        planned = self._concerned(step)
        found = self._survey(step)
        return [topic for topic in planned if found.lacking(topic, self.plan.replicas[topic])]

    def _concerned(self, step: Step) -> list[str]:
        """The classes of the plan that a step touches."""
        if step not in self._touched:
            names = self.plan.replicas
            found = [name for name in names if any(topic_overlaps(topic, name) for topic in step.topics)]
            self._touched[step] = found
        return self._touched[step]

    def _why_not(self, step: Step) -> str:
        return (
            f"{few(step.topics)} stays at {step.broker}: the stores of the plan do not have all of"
            f" {few(self._not_covered(step))}; look at 'latecomer stores', and run this again"
        )

    def _assign(self, broker: BrokerId, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> StoresView:
        """Change what a broker keeps; one that is just being started again is waited for."""
        until = time.monotonic() + self.patience_s
        while True:
            try:
                before = Survey({broker: self.live.stores(broker)}).topics(broker)
                view = self.live.assign(broker, change(before), self.id)
                self.seen[broker] = view
                return view
            except Silent as error:
                if time.monotonic() > until:
                    raise LatecomerError(f"{error}; run this again when it is back") from None
                time.sleep(LOOK_SECONDS)


def _now_us() -> int:
    return time.time_ns() // 1000
