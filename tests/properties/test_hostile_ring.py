"""A neighbour that says anything at all, where brokers route by rendezvous: in a ring of three, and without one.

As `test_hostile_neighbour`, with the frames that only such brokers understand.
"""

from __future__ import annotations

from typing import Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.core.effects import Deliver, Effect
from latecomer.core.inputs import ClientConnected, LinkDisconnected, LinkReceived, Published, Subscribed
from latecomer.core.ring.interest import RingInterest
from latecomer.core.routing import Rendezvous
from latecomer.messages.link import (
    Adopted,
    Complete,
    LinkMessage,
    LinkState,
    LinkStates,
    Neighbour,
    Publication,
    Settled,
)
from latecomer.messages.ring import (
    FILTERS_MAX,
    WORD_MAX,
    Flush,
    Flushed,
    FlushWanted,
    Round,
    Wants,
    WantsChange,
    size_of,
)
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.ids import EventId
from tests import strategies
from tests.properties.test_hostile_neighbour import (
    HERE,
    PEERS,
    Deed,
    Victim,
    brokers,
    deeds,
    nearly_right,
    of_stores,
    peers,
    small,
    some_filters,
    traffic,
    versions,
)
from tests.unit.hand import Hand, Wishes

pairs: Final = st.lists(brokers, min_size=2, max_size=2, unique=True)
roots: Final = st.lists(brokers, min_size=1, max_size=3, unique=True).map(tuple)
unique_filters: Final = some_filters.map(lambda few: tuple(dict.fromkeys(few)))
of_the_ring: Final[st.SearchStrategy[LinkMessage]] = st.one_of(
    st.builds(Round, versions, st.integers(1, 5)),
    st.builds(Settled, versions, st.booleans(), small),
    st.builds(Wants, brokers, small, small, unique_filters | st.just(())),
    st.builds(WantsChange, brokers, small, small, unique_filters, st.just(())),
    st.builds(WantsChange, brokers, small, small, st.just(()), unique_filters),
    st.builds(lambda ends, number, of: FlushWanted(ends[0], ends[1], number, of), pairs, small, roots),
    st.builds(lambda ends, number, of, up: Flush(ends[0], ends[1], number, of, up), pairs, small, roots, st.booleans()),
    st.builds(lambda ends, number, of: Flushed(ends[0], ends[1], number, of), pairs, small, roots),
)
said: Final = (
    st.lists(of_the_ring, min_size=1, max_size=6)
    | st.lists(traffic | of_stores | of_the_ring, min_size=1, max_size=6)
    | st.lists(nearly_right | of_the_ring | strategies.messages, min_size=1, max_size=6)
)


class RingVictim(Victim):
    """A broker with two neighbours that are linked, so that the three are a ring."""

    @property
    def interest(self) -> RingInterest:
        interest = self.broker.interest
        assert isinstance(interest, RingInterest)
        return interest

    def says(self, peer: str, frames: list[LinkMessage]) -> None:
        version = self.broker.membership.version
        present = [
            msgspec.structs.replace(frame, version=version)
            if isinstance(frame, Round | Settled) and frame.version == HERE
            else frame
            for frame in frames
        ]
        super().says(peer, present)

    def behaves(self, peer: str, boot: int) -> None:
        self.connects(peer, boot, resumes=False, received=0)
        if self.link(peer).greeted:
            self._seq += 10
            other = next(name for name in PEERS if name != peer)
            links = (Neighbour("a", 1, 1), Neighbour(other, self.link(other).known_boot or 1, 1))
            self.tell(LinkReceived(peer, [LinkStates((LinkState(peer, boot, self._seq, links),))]))
            self.settle()
        self.agree()

    def agree(self, wants: Wishes | None = None) -> list[Effect]:
        """Every connected neighbour adopts the broker's family and tells all its rounds."""
        tree, family = self.interest.tree, self.interest.family
        assert tree is not None
        assert family is not None
        effects: list[Effect] = []
        beside = [peer for peer in self.interest.beside if self.link(peer).greeted]
        for peer in beside:
            effects += self.hear(peer, Adopted(tree.version))
        for number in range(1, family.longest + 1):
            for peer in beside:
                effects += self.hear(peer, Round(tree.version, number))
        for peer in beside:
            if peer in self.interest.peers:
                effects += self.hear(peer, Complete(tree.version))
        return effects

    def check_memory(self) -> None:
        super().check_memory()
        if not hasattr(self, "broker"):
            return
        core, limits, words = self.broker, self.broker.settings, self.interest.words
        assert len(words.told) <= limits.brokers_max
        assert self.broker.id not in words.told
        for word in words.told.values():
            assert len(word.filters) <= FILTERS_MAX
            assert word.size == sum(map(size_of, word.filters)) <= WORD_MAX
        held = {(filter, broker) for broker, word in words.told.items() for filter in word.filters}
        assert {(filter, broker) for filter, of in words._holders.items() for broker in of} == held
        assert core.early is not None
        assert core.early.of.total() == len(core.early.waiting)
        assert max(core.early.of.values(), default=0) <= core.neighbours.waiting_max
        assert not (core.early.waiting and self.interest.ready), "nothing waits for a broker that is ready"
        assert self.interest.ready or not (core.flushes.coming or core.flushes.climbing)
        assert set(self.interest.beside) <= set(PEERS)


ring_deeds: Final[st.SearchStrategy[Deed]] = (
    st.builds(lambda peer, frames: lambda victim: victim.says(peer, frames), peers, said) | deeds
)
routings: Final = st.builds(Rendezvous, st.booleans(), st.sampled_from((1, 2)), st.just({}), st.none() | brokers)


def play(routing: Rendezvous, well: bool, story: list[Deed]) -> RingVictim:
    victim = RingVictim(routing)
    if well:
        victim.begins_well()
    for deed in story:
        deed(victim)
    return victim


def test_a_good_beginning_is_one() -> None:
    """From here hostile words reach every part."""
    victim = play(Rendezvous(), True, [])
    assert victim.interest.ready
    family = victim.interest.family
    assert family is not None
    assert family.ring
    assert sorted(victim.interest.beside) == list(PEERS)
    origin = next(peer for peer in PEERS if victim.interest.tree_of("t").next_hop("a", peer) == peer)
    effects = victim.tell(LinkReceived(origin, [Publication(Event(EventId(origin, 1, 1), "t"))]))
    assert sorted(effect.client for effect in effects if isinstance(effect, Deliver)) == ["x", "y"]


@given(routings, st.booleans(), st.lists(ring_deeds, max_size=25))
@settings(max_examples=200)
def test_whatever_a_neighbour_says_the_broker_stands(routing: Rendezvous, well: bool, story: list[Deed]) -> None:
    victim = play(routing, well, story)
    victim.wait(10_000_000)


@given(routings, st.booleans(), st.lists(ring_deeds, max_size=15))
@settings(max_examples=80)
def test_after_all_that_its_own_clients_are_served(routing: Rendezvous, well: bool, story: list[Deed]) -> None:
    """Once the bad neighbours have gone for good, the broker is alone and gives its own clients what they want."""
    victim = play(routing, well, story)
    for peer in PEERS:
        victim.tell(LinkDisconnected(peer))
    victim.wait(10_000_000)
    assert victim.interest.ready
    victim.client("z", ClientConnected("z", 9))
    victim.client("z", Subscribed("z", Filter("quite/new")))
    effects = victim.tell(Published("z", 1, "quite/new", reliable=False))
    assert "z" in [effect.client for effect in effects if isinstance(effect, Deliver)]


@given(st.booleans(), st.lists(ring_deeds, max_size=15))
@settings(max_examples=60)
def test_the_disk_it_leaves_behind_can_be_started_from(well: bool, story: list[Deed]) -> None:
    victim = play(Rendezvous(), well, story)
    reborn = Hand(*PEERS, boot=2, disk=victim.disk, routing=Rendezvous())
    assert reborn.broker.interest.ready
