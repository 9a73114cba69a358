"""Stores, looked at from outside once the network is quiet: Advertisement Tables, replicas, and what is left over."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from latecomer.core.broker import Broker
from latecomer.core.table import SELF
from latecomer.core.tree import Tree
from latecomer.messages.link import LinkMessage, Request
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Key, Query, key_of
from latecomer.model.ids import NUMBER_MAX, BrokerId, EventId, Instant
from latecomer.model.topics import topic_covers
from latecomer.sim.clients import SimRequest
from latecomer.sim.history_ledger import HistoryLedger
from latecomer.sim.sides import Observer
from latecomer.sim.store import matches
from latecomer.sim.world import World

Violate = Callable[[str, str], None]


def distances(tree: Tree, start: BrokerId) -> dict[BrokerId, tuple[int, BrokerId]]:
    """Hops from a broker to every other along a tree, and the neighbour behind which it lies."""
    beside: dict[BrokerId, list[BrokerId]] = {broker: [] for broker in tree.parent}
    for child, parent in tree.parent.items():
        if parent is not None:
            beside[child].append(parent)
            beside[parent].append(child)
    found: dict[BrokerId, tuple[int, BrokerId]] = {start: (0, SELF)}
    todo = [start]
    for broker in todo:
        for other in beside[broker]:
            if other not in found:
                hops, way = found[broker]
                found[other] = (hops + 1, way or other)
                todo.append(other)
    return found


def nearest(world: World, tree: Tree, broker: BrokerId) -> dict[str, tuple[int, list[BrokerId]]]:
    """What an Advertisement Table should say: per topic class the hops to the nearest store, and all ways to one."""
    found: dict[str, tuple[int, list[BrokerId]]] = {}
    for other, (hops, way) in distances(tree, broker).items():
        for topics in world.nodes[other].topics:
            least, ways = found.get(topics, (hops, []))
            if hops < least:
                found[topics] = (hops, [way])
            elif hops == least:
                found[topics] = (hops, sorted({*ways, way}))
    return found


def offers(world: World, tree: Tree, broker: BrokerId, peer: BrokerId) -> tuple[dict[str, int], dict[str, int]]:
    """What a neighbour has to offer a broker: the nearest stores on its own side; and those that lie beyond the broker,
    as the neighbour sees them."""
    found: dict[str, int] = {}
    beyond: dict[str, int] = {}
    for other, (hops, way) in distances(tree, peer).items():
        side = beyond if way == broker else found
        for topics in world.nodes[other].topics:
            side[topics] = min(hops + 1, side.get(topics, hops + 1))
    return found, beyond


def check_advertisements(world: World, violate: Violate) -> None:
    """Each broker knows how far the nearest stores are and all ways there, and nothing else (*storing* §III)."""
    for id, core in _cores(world).items():
        tree = core.interest.tree
        assert tree is not None
        expected = nearest(world, tree, id)
        found = {name: (entry.hops, sorted(entry.ways)) for name, entry in core.advertisements.table.items()}
        if found != expected:
            violate("nearest", f"{id} sends requests to {found}, the nearest are {expected}")
        for peer in core.interest.peers:
            heard = core.advertisements.heard[peer]
            true, beyond = offers(world, tree, id, peer)
            closer = {topics: hops for topics, hops in true.items() if hops < beyond.get(topics, hops + 1)}
            if not closer.items() <= heard.items() <= true.items():
                violate("forwarded", f"{peer} has advertised {heard} to {id}, should {closer}, may {true}")


def differences(world: World) -> list[str]:
    """Stores that keep the same topics and do not hold the same of them."""
    found = []
    keepers = [(id, topics) for id, node in world.nodes.items() for topics in node.topics]
    for a, wide in keepers:
        for b, narrow in keepers:
            if a == b or not topic_covers(wide, narrow) or (wide == narrow and a > b):
                continue
            since_us = max(world.nodes[id].disk.store.kept_from_us for id in (a, b))
            has = {id: _held(world, id, narrow, since_us) for id in (a, b)}
            for one, other in ((a, b), (b, a)):
                lacking = [id for id in has[other] if id not in has[one]]
                if lacking:
                    found.append(f"{one} lacks {lacking[0]} of {narrow!r} and {len(lacking) - 1} more that {other} has")
    return found


def _held(world: World, broker: BrokerId, topics: str, since_us: int) -> dict[EventId, Event]:
    """What does not expire: of the rest, each store lets go when it gets round to it."""
    events = world.nodes[broker].disk.store.events.values()
    wanted = Filter(topics)
    return {e.id: e for e in events if e.published_us >= since_us and not e.expires_us and matches(wanted, e)}


def check_kept(world: World, ledger: HistoryLedger) -> None:
    """What a store would say is complete holds everything that publishers were told is taken. Some faults come late: a
    broker that is away may owe a store something, of which those who ask are told by others (`core.debts`)."""
    cores = _cores(world)
    if len(cores) < len(world.nodes) or any(core.membership.link_states.absent_since for core in cores.values()):
        return
    for id, core in cores.items():
        for name in core.advertisements.own:
            wanted = Filter(name)
            from_us, flaw = core.history.store.completeness(name, Query(wanted))
            if flaw:
                continue
            ledger.learn(world.nodes[id].disk)
            held = {event.id for event in world.nodes[id].disk.store.events.values()}
            for token, publication in ledger.publications.items():
                owed = token in ledger.accepted_at and publication.qos and publication.expiry_s is None
                if not owed or ledger.sent_at[token] < from_us or not ledger.matches(wanted, publication):
                    continue
                here = any(event in held for event in ledger.events.get(token, ()))
                if not here and not ledger.excuses(publication, ""):
                    ledger.violate("kept", f"{id} lacks {token} of {name!r}, and says that it has everything")


def check_remains(world: World, violate: Violate) -> None:
    """Nothing is left of what has ended."""
    for id, core in _cores(world).items():
        left = {
            "inquiries": len(core.history.retrieval.inquiries),
            "parts": len(core.history.retrieval.parts),
            "streams": len(core.history.store.streams),
            "requests that wait": len(core.history.store.waiting),
            "lookups": len(core.history.store.lookups),
            "surveys": len(core.history.replicas.surveys),
            "held events": _held_events(core),
        }
        for name, count in left.items():
            if count:
                violate("remains", f"{id} still has {count} {name}")


def _held_events(core: Broker) -> int:
    return sum(len(s.past.held) for s in core.sessions.by_client.values() if s.past is not None)


@dataclass(slots=True)
class Question:
    """What was asked in the core's plain language, and what stores held at that moment."""

    request: SimRequest
    held: dict[BrokerId, dict[EventId, Event]]
    whole: list[BrokerId]
    """The stores that kept all the topics that were asked for."""
    mortal: dict[BrokerId, list[Event]] = field(default_factory=dict)
    """What was asked for and expires, and was alive when each store began to answer: then it counts the last."""
    resumed: Key | None = None
    """The place behind which the last store was asked to go on."""

    def begun(self, store: BrokerId, events: Iterable[Event], now: Instant) -> None:
        """A store begins to answer. If it begins more than once, or others ask the same, the first time counts."""
        query = self.request.query
        end_us = query.until_us or NUMBER_MAX
        living = [event for event in events if now < event.expires_us and event.published_us <= end_us]
        self.mortal.setdefault(store, [event for event in living if matches(query.filter, event)])

    def before_another_went_on(self, event: Event, store: BrokerId) -> bool:
        """Whether an event stands before the place behind which a store went on, and one that may have begun lacked it:
        they may have been cut off from one another until then."""
        answered = self.request.events
        if self.resumed is None or key_of(event) > self.resumed:
            return False
        begun = [held for id, held in self.held.items() if id != store and answered and answered[0].id in held]
        return not begun or any(event.id not in held for held in begun)

    def before_the_last(self, event: Event) -> bool:
        """Whether an event stands before the last so many: some of these may have died before their turn came."""
        request, key = self.request, key_of(event)
        if not request.query.last or (request.events and key > key_of(request.events[0])):
            return False
        newer = {other.id for events in self.mortal.values() for other in events if self._died(other, key)}
        return len(request.events) + len(newer.difference(event.id for event in request.events)) >= request.query.last

    def _died(self, event: Event, behind: Key) -> bool:
        return key_of(event) > behind and event.expires_us <= self.request.ended_at


class Questions(Observer):
    """All questions of a life, until they are judged. It watches stores answer."""

    def __init__(self, world: World, violate: Violate, published: Container[str], burnt: Container[str]) -> None:
        self.world = world
        self.violate = violate
        self.published = published
        """Events that their brokers took. A store may have one that its broker lost in a crash: it is taken back."""
        self.burnt = burnt
        """Events that nobody need have, since a disk was lost."""
        self.questions: list[Question] = []
        self.answered = 0
        world.on_lookup = self.looked

    def asked(self, request: SimRequest) -> None:
        held, wanted = {}, request.query.filter
        for id, node in self.world.nodes.items():
            if node.core is not None and node.topics:
                events = node.disk.store.events.values()
                held[id] = {e.id: e for e in events if matches(wanted, e)}
        whole = [id for id in held if any(topic_covers(name, wanted.topic) for name in self.world.nodes[id].topics)]
        self.questions.append(Question(request, held, whole))

    def looked(self, broker: BrokerId, query: Query) -> None:
        """A store looks up a page of an answer; only with the first it is told how many of the last are wanted."""
        if query.last:
            for question in self.questions:
                if question.request.outcome is None and question.request.query == query:
                    question.begun(broker, self.world.nodes[broker].disk.store.events.values(), self.world.now)

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        """A broker asks for what stands behind what it was given already."""
        for frame in frames if self.questions else ():
            if isinstance(frame, Request) and frame.query.after is not None:
                for question in self.questions:
                    request, query = question.request, question.request.query
                    if (
                        request.client == frame.client
                        and request.outcome is None
                        and query.filter == frame.query.filter
                    ):
                        question.resumed = frame.query.after

    def judge(self) -> None:
        """Every question has an end; the answer is in order and no more than was asked for, and holds what the store
        that gave it held when it was asked."""
        for question in self.questions:
            request = question.request
            if request.void:
                continue
            if request.outcome is None:
                self.violate("end", f"{_asked(request)} has not ended")
                continue
            self.answered += 1
            self._check_answer(request)
            if request.query.last:
                self._check_count(request, question.held, question.whole)
            if request.outcome.complete and len(request.outcome.stores) == 1:
                self._check_complete(question)
        self.questions.clear()

    def _check_count(
        self, request: SimRequest, held: dict[BrokerId, dict[EventId, Event]], whole: list[BrokerId]
    ) -> None:
        """What reaches a store while it answers comes as well, and reaches each of them at another time: so the last
        are counted by what the one that answers had, or those who each keep a part. Which one began is not known, if
        another has gone on: that one goes on with all that stands behind, also with more than who began had."""
        assert request.outcome is not None
        enders = request.outcome.stores
        parts = [held.get(store, {}) for store in enders]
        olds = [held[id] for id in whole] or [{id: e for events in parts for id, e in events.items()}]
        if not whole and len(enders) == 1 and request.events:  # several are merged, and begin when all have ended
            begun = request.events[0].id
            olds += [events for id, events in held.items() if id not in enders and begun in events]
        if min(sum(event.id in old for event in request.events) for old in olds) > request.query.last:
            self.violate("range", f"{_asked(request)}: {len(request.events)} came")

    def _check_answer(self, request: SimRequest) -> None:
        query, keys = request.query, [key_of(event) for event in request.events]
        if any(first >= second for first, second in pairwise(keys)):
            self.violate("order", f"{_asked(request)}: the answer is not in order, or holds something twice")
        for event in request.events:
            inside = query.since_us <= event.published_us and (
                not query.until_us or event.published_us <= query.until_us
            )
            if not inside or not matches(query.filter, event):
                self.violate("range", f"{_asked(request)}: {event.id} was not asked for")

    def _check_complete(self, question: Question) -> None:
        request, query = question.request, question.request.query
        assert request.outcome is not None
        store = request.outcome.stores[0]
        got = {event.id for event in request.events}
        since_us = max(query.since_us, request.outcome.from_us)
        for id, event in question.held.get(store, {}).items():
            inside = since_us <= event.published_us and (not query.until_us or event.published_us <= query.until_us)
            owed = not event.expires_us and str(id) in self.published and str(id) not in self.burnt
            excused = question.before_the_last(event) or question.before_another_went_on(event, store)
            if inside and id not in got and owed and not excused:
                self.violate("lost", f"{_asked(request)}: {id} is not in the answer of {store}")


def _asked(request: SimRequest) -> str:
    query = request.query
    return f"{request.client}'s request {query.filter} {query.since_us}..{query.until_us} last {query.last}"


def _cores(world: World) -> dict[BrokerId, Broker]:
    return {id: node.core for id, node in world.nodes.items() if node.core is not None}
