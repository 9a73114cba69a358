"""A neighbour that says hello properly and then anything at all: the broker answers with orders, never by breaking.

What arrives has passed `wire`, so it is well-formed; it need not make sense. Half of what is said here is arbitrary,
half is nearly right, which goes further: present trees, brokers that exist, small numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.core.effects import (
    Accept,
    Answer,
    CarryOut,
    Deliver,
    Disconnect,
    Effect,
    Lookup,
    Note,
    Persist,
    Put,
    Refuse,
    Send,
    Spread,
    Survey,
)
from latecomer.core.events import FLEETING_MAX
from latecomer.core.inputs import (
    Advertised,
    ClientConnected,
    ClientDisconnected,
    Confirmed,
    Found,
    Input,
    LinkConnected,
    LinkDisconnected,
    LinkReceived,
    Published,
    Requested,
    StoreAssigned,
    StoreBlocked,
    StoreTrimmed,
    Subscribed,
    Surveyed,
    Unadvertised,
    Unsubscribed,
    Woken,
)
from latecomer.core.inquiry import WINDOW
from latecomer.core.routing import Forwarding, Hierarchy, Routing
from latecomer.core.store import CREDIT_MAX, LOOKUPS_MAX, REPLICA, STREAMS_MAX
from latecomer.messages.homes import Addresses, Profile, ProfileWanted
from latecomer.messages.link import (
    PROTOCOL,
    Adopted,
    Advertise,
    AdvertisementsComplete,
    Alive,
    Compare,
    Compared,
    Complete,
    Confirm,
    Credit,
    Done,
    Errand,
    ErrandAnswer,
    Fence,
    Fenced,
    Hello,
    Keeping,
    LinkMessage,
    LinkState,
    LinkStates,
    Neighbour,
    Publication,
    Request,
    RequestId,
    Response,
    ResponseEnd,
    Retained,
    RetainedSummary,
    Run,
    Settled,
    Sharing,
    SharingChange,
    StoreAdvertise,
    StoreWithdraw,
    Subscribe,
    Summary,
    Unadvertise,
    Unsubscribe,
    Void,
)
from latecomer.messages.reposition import NO_STAMP, Positions, PositionsKnown, Prepared, Proposal, Stamp, Withdrawn
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Key, Query, Slice
from latecomer.model.ids import NUMBER_MAX, EventId
from latecomer.wire.link import HEADER, decode_body, encode
from tests import strategies
from tests.strategies_homes import amounts, places
from tests.strategies_reposition import places_of
from tests.unit.hand import Hand

PEERS: Final = ("b", "c")
WAKES_MAX: Final = 3
"""At one instant: a deadline may turn out to have been served already, but not again and again."""
HERE: Final = "@"
"""Stands for the name of the tree that the broker uses when the message arrives."""

brokers: Final = st.sampled_from(("a", "b", "c", "d", "e"))
small: Final = st.integers(0, 4)
versions: Final = st.sampled_from((HERE, HERE, HERE, "another tree"))
some_filters: Final = st.lists(st.sampled_from(("#", "t", "t/+", "u", "$s/#")).map(Filter), min_size=1, max_size=3).map(
    tuple
)
topics: Final = st.sampled_from(("t", "t/1", "u", "$s/x"))
some_events: Final = st.builds(
    Event, st.builds(EventId, brokers, small, small), topics, st.just("p"), small, st.booleans()
)
some_retained: Final = st.builds(
    Event, st.builds(EventId, brokers, small, small), topics, st.just("p"), small | st.just(2**63 - 1), st.booleans(),
    payload=st.sampled_from((b"", b"x")), retain=st.booleans(),
)  # fmt: skip
some_groups: Final = st.tuples(st.sampled_from("gh"), st.sampled_from(("#", "t")).map(Filter), st.integers(1, 10**6))
some_states: Final = st.builds(
    LinkState, brokers, small, small, st.lists(st.builds(Neighbour, brokers, small, small), max_size=3).map(tuple)
)
some_stamps: Final = st.builds(Stamp, st.integers(1, 3) | st.just(NUMBER_MAX), brokers, small)
some_places: Final = st.dictionaries(brokers, small, max_size=4).map(places_of)
classes: Final = st.sampled_from(("#", "t", "t/+", "t/#"))
paths: Final = st.lists(brokers, min_size=1, max_size=4, unique=True).map(tuple)
asked: Final = st.builds(RequestId, brokers | st.just("a"), st.just(1), small)
keys: Final = st.builds(Key, small, brokers, small, small)
queries: Final = st.builds(
    lambda filter, last, after: Query(filter, 0, 0, 0 if after else last, after),
    classes.map(Filter), small, st.none() | keys,
)  # fmt: skip
instants: Final = st.sampled_from((0, 1, 10_000_000, 3_600_000_000, NUMBER_MAX - 1, NUMBER_MAX))
slices: Final = st.lists(st.builds(Slice, instants, small, small), max_size=4).map(tuple)
answered: Final = st.builds(
    lambda id, path, store, events, left, next: Response(id, path, store, tuple(events), (left,) * len(events), next),
    asked, paths | st.just(("a",)), brokers, st.lists(some_events, max_size=3), small, st.none() | keys,
)  # fmt: skip
of_stores: Final[st.SearchStrategy[LinkMessage]] = st.one_of(
    st.builds(StoreAdvertise, st.lists(st.tuples(classes, st.integers(1, 6)), max_size=3).map(tuple)),
    st.builds(StoreWithdraw, st.lists(classes, max_size=3).map(tuple)),
    st.builds(Settled, versions),
    st.builds(
        Request, asked, paths, classes, queries, st.just(""), st.sampled_from(("x", REPLICA)),
        small | st.just(NUMBER_MAX), st.just("") | brokers,
    ),
    answered,
    st.builds(
        ResponseEnd, asked, paths | st.just(("a",)), brokers, small, small, st.just(""), st.booleans()
    ),
    st.builds(Credit, asked, brokers, small | st.just(NUMBER_MAX)),
    st.builds(Keeping, brokers, small, small, st.lists(classes, max_size=2).map(tuple), instants, st.booleans()),
    st.builds(
        Compare, brokers, brokers, small, classes, instants, instants,
        st.sampled_from((1, 10_000_000, 3_600_000_000, NUMBER_MAX)),
    ),
    st.builds(Compared, brokers | st.just("a"), brokers, small, slices),
    st.builds(Addresses, brokers, small, small, st.lists(places, max_size=20).map(tuple), st.booleans()),
    st.builds(ProfileWanted, brokers, brokers | st.just("a"), small, small),
    st.builds(Profile, brokers, brokers | st.just("a"), *(6 * (small,)), amounts, amounts),
    st.builds(Errand, brokers, brokers | st.just("a"), small, st.binary(max_size=4)),
    st.builds(ErrandAnswer, brokers, brokers | st.just("a"), small, st.binary(max_size=4)),
)  # fmt: skip
nearly_right: Final[st.SearchStrategy[LinkMessage]] = st.one_of(
    of_stores,
    of_stores,
    st.builds(Alive, small),
    st.builds(LinkStates, st.lists(some_states, max_size=3).map(tuple)),
    st.builds(Summary, st.lists(st.tuples(brokers, small, small), max_size=3).map(tuple)),
    st.builds(Adopted, versions),
    st.builds(Subscribe, some_filters),
    st.builds(Unsubscribe, some_filters),
    st.builds(Advertise, some_filters, small),
    st.builds(Unadvertise, some_filters, small),
    st.builds(Confirm, small),
    st.builds(Fence, versions, small),
    st.builds(Fenced, small),
    st.builds(AdvertisementsComplete, versions),
    st.builds(Complete, versions),
    st.builds(Publication, some_events, st.lists(brokers, max_size=2).map(tuple), st.booleans()),
    st.builds(Done, brokers, small, st.lists(small, max_size=4).map(tuple)),
    st.builds(RetainedSummary, small, st.booleans()),
    st.builds(Retained, st.lists(some_retained, max_size=3).map(tuple), st.lists(small, max_size=3).map(tuple)),
    st.builds(Sharing, brokers, small, small, st.lists(some_groups, max_size=3).map(tuple)),
    st.builds(SharingChange, brokers, small, small, st.lists(some_groups, max_size=3).map(tuple)),
    st.builds(Run, brokers, st.just("p"), st.binary(max_size=20)),
    st.builds(Positions, some_stamps, some_places),
    st.builds(PositionsKnown, some_stamps),
    st.builds(Proposal, some_stamps, some_stamps | st.just(NO_STAMP), some_places),
    st.builds(Prepared, brokers, brokers | st.just("a"), some_stamps, st.sampled_from(("", "no"))),
    st.builds(Withdrawn, some_stamps),
    st.just(Void()),
)
traffic: Final[st.SearchStrategy[LinkMessage]] = st.one_of(
    st.builds(Publication, some_events, st.just(()) | st.lists(brokers, max_size=2).map(tuple), st.booleans()),
    st.builds(Publication, some_retained, st.just(()), st.just(True)),
    st.builds(Done, brokers, small, st.lists(small, max_size=4).map(tuple)),
    st.builds(Subscribe, some_filters),
)
said: Final = (
    st.lists(traffic, min_size=1, max_size=6)
    | st.lists(traffic | of_stores, min_size=1, max_size=6)
    | st.lists(traffic | nearly_right | strategies.messages, min_size=1, max_size=6)
)

# -- what happens ------------------------------------------------------------------------------------------------------

Deed = Callable[["Victim"], None]


class Victim(Hand):
    """A broker with two neighbours, and everything it orders looked at."""

    def __init__(self, routing: Routing) -> None:
        self.connections: dict[str, int] = {}
        self.wakes: Counter[int] = Counter()
        self.wants: list[Lookup | Survey] = []
        super().__init__(
            *PEERS, routing=routing, outbox_max=6, mailbox_max=5, routes_max=3, link_max=9, forget_us=5_000_000,
            brokers_max=6, filters_max=4,
        )  # fmt: skip

    def tell(self, fact: Input) -> list[Effect]:
        connected = {peer: link.connected for peer, link in self.links().items()}
        if isinstance(fact, LinkConnected):
            connected[fact.peer] = True
        effects = super().tell(fact)
        for position, effect in enumerate(effects):
            self.check(effect, position, effects, connected)
        if isinstance(fact, Woken):
            self.wakes[self.now] += 1
            assert self.wakes[self.now] <= WAKES_MAX, "a broker that always wants to be woken at once never sleeps"
        self.check_memory()
        return effects

    def links(self) -> dict[str, Any]:
        return dict(self.broker.neighbours.links) if hasattr(self, "broker") else {}

    def check(self, effect: Effect, position: int, effects: list[Effect], connected: dict[str, bool]) -> None:
        """One order, as its driver would have to carry it out."""
        if isinstance(effect, Persist):
            assert position == 0
            assert effect.writes
        elif isinstance(effect, Send):
            assert connected[effect.peer], "nothing is sent where there is no connection"
            assert effect.frames
            for frame in effect.frames:
                decode_body(encode(frame)[HEADER:])  # what is sent can be written, and an honest neighbour reads it
        elif isinstance(effect, Disconnect):
            assert connected[effect.peer]
            assert effect.reason
            connected[effect.peer] = False
        elif isinstance(effect, Deliver):
            assert effect.connection == self.connections[effect.client] != 0
        elif isinstance(effect, Accept):
            assert isinstance(effects[0], Persist)
            assert Put("outbox", "", effect.event.id.seq, effect.event) in effects[0].writes
        elif isinstance(effect, Spread):
            assert effect.peer in self.broker.interest.peers
        elif isinstance(effect, Lookup | Survey):
            span = effect.query if isinstance(effect, Lookup) else effect
            assert max(span.since_us, span.until_us) <= NUMBER_MAX, "a number that no database has"
            assert self.assigned, "a broker without a store has nothing to look at"
            self.wants.append(effect)
        elif isinstance(effect, CarryOut):
            tree = self.broker.interest.tree
            assert tree is not None
            assert effect.broker in tree.parent, "an errand of nobody"
        else:
            assert isinstance(effect, Refuse | Note | Answer)

    def check_memory(self) -> None:
        """Nothing that a neighbour or a client says makes these longer than they may be."""
        if not hasattr(self, "broker"):
            return
        core, limits = self.broker, self.broker.settings
        assert len(core.events.outbox.entries) <= limits.outbox_max
        assert len(core.events.outbox.under_way) <= core.events.window
        assert len(core.events.fleeting) <= FLEETING_MAX
        assert len(core.routes.by_topic) <= limits.routes_max
        assert all(len(box.waiting) <= limits.mailbox_max for box in core.clients.mailboxes.values())
        assert list(core.neighbours.links) == list(PEERS), "a neighbour is what the operator said, nobody else"
        assert set(core.interest.peers) <= set(PEERS)
        assert sum(core.events.carrying.values()) == core.events.carried
        assert all(count <= 2 * limits.link_max for count in core.events.carrying.values())
        for told in core.interest.links.values():
            assert max(len(told.subscriptions), len(told.advertisements)) <= limits.filters_max
        assert len(core.membership.link_states.states) <= limits.brokers_max
        assert len(core.shares.told) <= limits.brokers_max
        assert len(core.reposition.word.places) <= limits.brokers_max
        assert all(event.published_us < 2**62 for event in core.retained.events.values())
        assert set(core.clients.mailboxes) <= set(self.connections)
        self.check_history()

    def check_history(self) -> None:
        core, limits = self.broker, self.broker.settings
        store, retrieval = core.history.store, core.history.retrieval
        for heard in core.advertisements.heard.values():
            assert len(heard) <= limits.filters_max
        assert len(core.history.directory.words) <= limits.brokers_max
        assert len(store.streams) + len(store.waiting) <= STREAMS_MAX
        assert store.under_way <= LOOKUPS_MAX
        assert all(stream.credit <= stream.sent + CREDIT_MAX for stream in store.streams.values())
        assert core.interest.ready or not (store.streams or retrieval.parts)
        for inquiry in retrieval.inquiries.values():
            assert all(len(part.responses) <= WINDOW for part in inquiry.parts)
        assert all(inquiry.number in retrieval.inquiries for inquiry in retrieval.parts.values())

    # -- deeds ---------------------------------------------------------------------------------------------------------

    def says(self, peer: str, frames: list[LinkMessage]) -> None:
        version = self.broker.membership.version
        present: list[LinkMessage] = [
            type(frame)(version)
            if isinstance(frame, Adopted | Complete | AdvertisementsComplete | Settled) and frame.version == HERE
            else frame
            for frame in frames
        ]
        self.tell(LinkReceived(peer, present))

    def connects(self, peer: str, boot: int, resumes: bool, received: int) -> None:
        link = self.link(peer)
        knows = (link.boot, link.number) if resumes else (0, 0)
        life = (link.known_boot, link.known_number) if resumes and link.up else (boot, 1)
        routing = str(self.broker.settings.routing)
        self.tell(LinkConnected(peer))
        hello = Hello("latecomer", peer, PROTOCOL, *life, *knows, min(link.sent, received), routing)
        self.tell(LinkReceived(peer, [hello]))

    def behaves(self, peer: str, boot: int) -> None:
        """Does, for once, what a good neighbour does, so that a tree becomes ready."""
        self.connects(peer, boot, resumes=False, received=0)
        if self.link(peer).greeted:
            self._seq += 10
            own = Neighbour("a", 1, 1)
            self.tell(LinkReceived(peer, [LinkStates((LinkState(peer, boot, self._seq, (own,)),))]))
            self.settle()
        self.agree()

    def begins_well(self) -> None:
        """A ready tree of three, clients that listen, neighbours that want everything."""
        for peer in PEERS:
            self.behaves(peer, 1)
        for name in ("x", "y"):
            self.client(name, ClientConnected(name, 1))
            self.client(name, Subscribed(name, Filter("#" if name == "x" else "t")))
        for peer in PEERS:
            self.says(peer, [Subscribe((Filter("#"),)), Settled(HERE)])

    @property
    def assigned(self) -> bool:
        return bool(self.broker.history.store.rows)

    def looks(self) -> None:
        """The store answers what it was asked, the newest first."""
        while self.wants:
            want = self.wants.pop()
            if isinstance(want, Lookup):
                now = 0 if want.expired else self.now
                page = self.disk.store.read(want.query, now, want.events_max, want.bytes_max)
                self.tell(Found(want.token, page))
            else:
                slices = self.disk.store.survey(want.topics, want.since_us, want.until_us, want.width_us)
                self.tell(Surveyed(want.token, slices))

    def client(self, name: str, fact: Input) -> None:
        if isinstance(fact, ClientConnected):
            self.connections[name] = fact.connection
        else:
            self.connections.setdefault(name, 0)
        if isinstance(fact, ClientDisconnected):
            self.connections[name] = 0
        self.tell(fact)


names: Final = st.sampled_from(("x", "y"))
one_filter: Final = some_filters.map(lambda few: few[0])
client_facts: Final = st.one_of(
    st.builds(ClientConnected, names, st.integers(1, 3)),
    st.builds(ClientDisconnected, names),
    st.builds(Subscribed, names, one_filter),
    st.builds(Unsubscribed, names, one_filter),
    st.builds(Advertised, names, one_filter),
    st.builds(Unadvertised, names, one_filter),
    st.builds(Published, names, small, topics, st.booleans()),
    st.builds(Confirmed, names, small),
)
store_facts: Final[st.SearchStrategy[Input]] = st.one_of(
    st.builds(StoreAssigned, st.lists(classes, max_size=2, unique=True).map(tuple), small),
    st.builds(StoreTrimmed, small),
    st.builds(StoreBlocked, st.booleans(), small),
    st.builds(Requested, names, small, queries),
)
peers: Final = st.sampled_from(PEERS)
deeds: Final[st.SearchStrategy[Deed]] = st.one_of(
    st.builds(lambda peer, frames: lambda victim: victim.says(peer, frames), peers, said),
    st.builds(lambda peer, frames: lambda victim: victim.says(peer, frames), peers, said),
    st.builds(
        lambda peer, boot, resumes, received: lambda victim: victim.connects(peer, boot, resumes, received),
        peers, st.integers(1, 4), st.booleans(), st.integers(0, 20),
    ),
    st.builds(lambda peer, boot: lambda victim: victim.behaves(peer, boot), peers, st.integers(1, 4)),
    st.builds(lambda peer: lambda victim: victim.tell(LinkDisconnected(peer)), peers),
    st.builds(lambda us: lambda victim: victim.wait(us), st.sampled_from((1_000, 25_000, 600_000, 3_000_000))),
    st.builds(lambda fact: lambda victim: victim.client(fact.client, fact), client_facts),
    st.builds(lambda fact: lambda victim: victim.tell(fact), store_facts),
    st.just(lambda victim: victim.looks()),
)  # fmt: skip
routings: Final = st.builds(
    lambda kind, covering, advertisements: kind(covering=covering, advertisements=advertisements),
    st.sampled_from((Forwarding, Hierarchy)),
    st.booleans(),
    st.booleans(),
)


def play(routing: Routing, well: bool, story: list[Deed]) -> Victim:
    victim = Victim(routing)
    if well:
        victim.begins_well()
        victim.tell(StoreAssigned(("t/#",)))
    for deed in story:
        deed(victim)
    return victim


def test_a_good_beginning_is_one() -> None:
    """From here hostile words reach every part: without a ready tree hardly any does."""
    victim = play(Forwarding(), True, [])
    assert victim.broker.interest.ready
    assert victim.broker.interest.peers == list(PEERS)
    effects = victim.tell(LinkReceived("b", [Publication(Event(EventId("b", 1, 1), "t"))]))
    assert sorted(effect.client for effect in effects if isinstance(effect, Deliver)) == ["x", "y"]
    assert [effect.peer for effect in effects if isinstance(effect, Send)] == ["c"]


@given(routings, st.booleans(), st.lists(deeds, max_size=25))
@settings(max_examples=300)
def test_whatever_a_neighbour_says_the_broker_stands(routing: Routing, well: bool, story: list[Deed]) -> None:
    victim = play(routing, well, story)
    victim.wait(10_000_000)


@given(routings, st.booleans(), st.lists(deeds, max_size=15))
@settings(max_examples=100)
def test_after_all_that_its_own_clients_are_served(routing: Routing, well: bool, story: list[Deed]) -> None:
    """Once the bad neighbours have gone for good, the broker is alone and gives its own clients what they want."""
    victim = play(routing, well, story)
    for peer in PEERS:
        victim.tell(LinkDisconnected(peer))
    victim.wait(10_000_000)
    assert victim.broker.interest.ready
    victim.client("z", ClientConnected("z", 9))
    victim.client("z", Subscribed("z", Filter("quite/new")))
    effects = victim.tell(Published("z", 1, "quite/new", reliable=False))
    assert "z" in [effect.client for effect in effects if isinstance(effect, Deliver)]


@given(st.booleans(), st.lists(deeds, max_size=20))
@settings(max_examples=100)
def test_the_disk_it_leaves_behind_can_be_started_from(well: bool, story: list[Deed]) -> None:
    victim = play(Forwarding(), well, story)
    reborn = Hand(*PEERS, boot=2, disk=victim.disk)
    assert reborn.broker.interest.ready
    assert reborn.broker.events.epoch == 1
    waiting = {name: len(box.waiting) for name, box in victim.broker.clients.mailboxes.items() if box.waiting}
    assert {name: len(box.waiting) for name, box in reborn.broker.clients.mailboxes.items() if box.waiting} == waiting
