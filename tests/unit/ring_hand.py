"""One broker in the hand that routes by rendezvous, on a ring of four that have all links."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from latecomer.core.effects import Effect
from latecomer.core.ring.family import Family, family_of
from latecomer.core.ring.interest import RingInterest
from latecomer.core.routing import Rendezvous
from latecomer.messages.link import Adopted, Complete, LinkState, LinkStates, Neighbour
from latecomer.messages.reposition import Place, Positions, Stamp
from latecomer.messages.ring import Round
from latecomer.model.ids import BrokerId
from latecomer.model.ring import BITS
from latecomer.model.slots import SLOTS
from tests.unit.hand import COST_US, Hand

QUARTER = (1 << BITS) // 4
PINS = {"ka": 0, "kb": SLOTS // 4, "kc": SLOTS // 2, "kd": 3 * SLOTS // 4}
"""With brokers a, b, c and d in this order, each is the root of one key."""


def standing(order: Sequence[BrokerId]) -> tuple[Place, ...]:
    """Brokers a quarter of the ring apart."""
    return tuple((broker, number * QUARTER) for number, broker in enumerate(order))


def mesh(brokers: Sequence[BrokerId], seq: int = 1, without: Sequence[tuple[BrokerId, BrokerId]] = ()) -> LinkStates:
    """What brokers tell that have links to all the others, or nearly all."""
    beside: dict[BrokerId, list[Neighbour]] = {broker: [] for broker in brokers}
    for a, b in combinations(brokers, 2):
        if (a, b) not in without:
            beside[a].append(Neighbour(b, 1, COST_US))
            beside[b].append(Neighbour(a, 1, COST_US))
    return LinkStates(tuple(LinkState(broker, 1, seq, tuple(links)) for broker, links in beside.items()))


def family_on(
    order: Sequence[BrokerId], root: BrokerId | None = None, without: Sequence[tuple[BrokerId, BrokerId]] = ()
) -> Family:
    """The family of brokers that stand in this order, with `root` at the top of the agreed tree."""
    states = mesh(sorted(order), without=without).states
    word = Positions(Stamp(1, "z", 1), standing(order))
    return family_of(f"{order} {root} {without}", states, root, word)


class RingHand(Hand):
    """Broker `a`. The root of the agreed tree is b, so that c and d are neighbours in the ring's trees alone."""

    def __init__(self, **settings: Any) -> None:
        routing = Rendezvous(pins=PINS, root="b", covering=settings.pop("covering", True))
        super().__init__("b", "c", "d", routing=routing, **settings)
        for peer in "bcd":
            self.meet(peer)
        self.hear("b", LinkStates(mesh("abcd").states[1:]), Positions(Stamp(1, "b", 1), standing("abcd")))
        self.adopted = self.settle()

    @property
    def interest(self) -> RingInterest:
        interest = self.broker.interest
        assert isinstance(interest, RingInterest)
        return interest

    @property
    def family(self) -> Family:
        family = self.interest.family
        assert family is not None
        return family

    @property
    def version(self) -> str:
        return self.family.agreed.version

    def waves(self) -> list[Effect]:
        """All adopt the family, and the wave of the agreed tree runs."""
        effects: list[Effect] = []
        for peer in "bcd":
            effects += self.hear(peer, Adopted(self.version))
        for peer in self.interest.peers:
            effects += self.hear(peer, Complete(self.version))
        return effects

    def rounds(self, first: int = 1) -> list[Effect]:
        """From the first of these on, all rounds come."""
        effects: list[Effect] = []
        for number in range(first, self.family.longest + 1):
            for peer in "bcd":
                effects += self.hear(peer, Round(self.version, number))
        return effects

    def gets_ready(self) -> RingHand:
        self.waves()
        self.rounds()
        assert self.interest.ready
        return self

    def stand(self, order: Sequence[BrokerId], epoch: int) -> list[Effect]:
        """Brokers stand elsewhere: another family is adopted."""
        effects = self.hear("b", Positions(Stamp(epoch, "b", 1), standing(order))) + self.settle()
        assert self.family.order == list(order)
        return effects
