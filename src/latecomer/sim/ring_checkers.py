"""Tables of brokers that route by rendezvous, compared with what the ring's trees say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from latecomer.core.broker import Broker
from latecomer.core.index import strictly_covers
from latecomer.core.ring.interest import RingInterest
from latecomer.model.filters import Filter, filter_satisfiable
from latecomer.model.ids import BrokerId


def check_ring(
    core: Broker,
    cores: Mapping[BrokerId, Broker],
    wanted: Mapping[BrokerId, list[Filter]],
    violate: Callable[[str, str], None],
) -> None:
    """A broker holds for each child what is wanted below it in the tree of the filter's root, and knows the words of
    all others."""
    interest = core.interest
    assert isinstance(interest, RingInterest)
    family = interest.family
    assert family is not None
    below: dict[BrokerId, dict[Filter, None]] = {peer: {} for peer in family.beside[core.id]}
    for broker in cores:
        crossing = []
        for filter in filter_of(wanted[broker]):
            slot = interest.keys.slot_of_filter(filter.topic)
            if slot is None:
                crossing.append(filter)
                continue
            tree = family.tree(family.root_of(slot))
            if broker != core.id and (way := tree.next_hop(core.id, broker)) != tree.parent[core.id]:
                below[way][filter] = None
        if broker != core.id:
            word = interest.words.told.get(broker)
            heard = [] if word is None else list(word.filters)
            if sorted(map(str, heard)) != sorted(map(str, crossing)):
                violate("tables", f"{core.id} knows {heard} as the word of {broker}, should {crossing}")
    for peer, filters in below.items():
        told = list(filters)
        if interest.routing.covering:
            told = [f for f in told if not any(strictly_covers(other, f) for other in told)]
        expected, found = sorted(map(str, told)), sorted(map(str, interest.subscriptions.of(peer)))
        if found != expected:
            violate("tables", f"{core.id} holds {found} for {peer}, should hold {expected}")


def filter_of(filters: list[Filter]) -> list[Filter]:
    """Those of which anybody is told."""
    return [filter for filter in filters if filter_satisfiable(filter)]
