"""One broker in the hand: facts in, orders out, no world around it. The test plays the neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from latecomer.core.broker import Broker
from latecomer.core.effects import Effect, Note, Persist, Send
from latecomer.core.inputs import (
    ClientConnected,
    Input,
    LinkConnected,
    LinkDisconnected,
    LinkReceived,
    Published,
    Started,
    Subscribed,
    Woken,
)
from latecomer.core.links import Link
from latecomer.core.settings import BrokerSettings
from latecomer.messages.link import (
    PROTOCOL,
    Adopted,
    AdvertisementsComplete,
    Complete,
    Hello,
    LinkMessage,
    LinkState,
    LinkStates,
    Neighbour,
    Publication,
    Subscribe,
)
from latecomer.model.event import Event, Value
from latecomer.model.filters import Filter, parse_filter
from latecomer.model.ids import BrokerId, EventId
from latecomer.model.record import Kind, Record
from latecomer.sim.disk import Disk

T = TypeVar("T")
COST_US = 1000
Wishes = Mapping[BrokerId, Sequence[str]]


def of(effects: Iterable[Effect], kind: type[T]) -> list[T]:
    """The orders of one kind."""
    return [effect for effect in effects if isinstance(effect, kind)]


def frames(effects: Iterable[Effect], peer: BrokerId) -> list[LinkMessage]:
    """What a neighbour is sent."""
    return [frame for send in of(effects, Send) if send.peer == peer for frame in send.frames]


def records(effects: Iterable[Effect], kind: Kind) -> list[Record]:
    return [note.record for note in of(effects, Note) if note.record.kind is kind]


def publications(effects: Iterable[Effect], peer: BrokerId) -> list[Publication]:
    return [frame for frame in frames(effects, peer) if isinstance(frame, Publication)]


def filters(*texts: str) -> tuple[Filter, ...]:
    return tuple(map(parse_filter, texts))


def event(origin: BrokerId, seq: int, topic: str = "t", *, epoch: int = 1, reliable: bool = True) -> Event:
    return Event(EventId(origin, epoch, seq), topic, "p", 0, reliable)


class Hand:
    """A started broker, its disk and its time. Neighbours `b`, `c`, … are what the test says they are."""

    def __init__(
        self, *neighbours: BrokerId, id: BrokerId = "a", boot: int = 1, disk: Disk | None = None, **settings: Any
    ) -> None:
        self.disk = disk or Disk()
        self.boot = boot
        self.now = 0
        self.broker = Broker(id, BrokerSettings(**settings), dict.fromkeys(neighbours, COST_US), boot, self.disk.tables)
        self._seq = 0
        self.first = self.tell(Started())

    # -- facts ---------------------------------------------------------------------------------------------------------

    def tell(self, fact: Input) -> list[Effect]:
        """One fact; its orders, with the writes done. Whatever is written comes first, in every step."""
        effects = self.broker.step(self.now, fact)
        assert not of(effects[1:], Persist)
        for persist in of(effects, Persist):
            self.disk.apply(persist.writes)
        return effects

    def wait(self, duration_us: int) -> list[Effect]:
        """Let time pass, waking the broker when it asked for it."""
        end, effects = self.now + duration_us, []
        while (due := self.broker.deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            effects += self.tell(Woken())
        self.now = end
        return effects

    def hear(self, peer: BrokerId, *said: LinkMessage) -> list[Effect]:
        return self.tell(LinkReceived(peer, said))

    def meet(
        self, peer: BrokerId, *, boot: int = 1, number: int = 1, knows: tuple[int, int] = (0, 0), received: int = 0
    ) -> list[Effect]:
        """Connect, and say hello as the neighbour would."""
        settings = self.broker.settings
        hello = Hello(settings.network, peer, PROTOCOL, boot, number, *knows, received, str(settings.routing))
        return self.tell(LinkConnected(peer)) + self.hear(peer, hello)

    def lose(self, peer: BrokerId) -> list[Effect]:
        return self.tell(LinkDisconnected(peer))

    def publish(
        self, topic: str = "t", *, reliable: bool = True, token: int = 1, attributes: dict[str, Value] | None = None
    ) -> list[Effect]:
        return self.tell(Published("p", token, topic, reliable, attributes or {}))

    def subscribe(self, client: str, *texts: str, online: bool = True) -> list[Effect]:
        effects = self.tell(ClientConnected(client)) if online else []
        for filter in filters(*texts):
            effects += self.tell(Subscribed(client, filter))
        return effects

    # -- networks ------------------------------------------------------------------------------------------------------

    def states(self, peer: BrokerId, *more: BrokerId, boot: int = 1) -> LinkStates:
        """What a neighbour says of itself: linked to us; and of brokers that are linked to nobody but it."""
        self._seq += 1
        own = Neighbour(self.broker.id, self.boot, COST_US)
        others = [Neighbour(other, 1, COST_US) for other in more]
        behind = [LinkState(other, 1, self._seq, (Neighbour(peer, boot, COST_US),)) for other in more]
        return LinkStates((LinkState(peer, boot, self._seq, (own, *others)), *behind))

    def settle(self) -> list[Effect]:
        """Long enough for a new tree, short enough for every heartbeat to stay away."""
        return self.wait(self.broker.settings.settle_us)

    def agree(self, wants: Wishes | None = None) -> list[Effect]:
        """Every connected neighbour adopts the broker's tree and completes its tables."""
        effects: list[Effect] = []
        tree = self.broker.interest.tree
        assert tree is not None
        for peer in self.broker.interest.peers:
            said: list[LinkMessage] = [Adopted(tree.version)]
            if self.broker.settings.routing.advertisements:
                said.append(AdvertisementsComplete(tree.version))
            if wants and peer in wants:
                said.append(Subscribe(filters(*wants[peer])))
            effects += self.hear(peer, *said, Complete(tree.version))
        return effects

    def join(self, *peers: BrokerId, boot: int = 1, wants: Wishes | None = None) -> list[Effect]:
        """These neighbours come, and with all that are there a tree becomes ready."""
        effects: list[Effect] = []
        for peer in peers:
            effects += self.meet(peer, boot=boot) + self.hear(peer, self.states(peer, boot=boot))
        effects += self.settle() + self.agree(wants)
        assert self.broker.interest.ready
        return effects

    def part(self, peer: BrokerId) -> list[Effect]:
        """A neighbour goes away for longer than a link is held, and a tree without it is adopted."""
        effects = self.lose(peer)
        settings = self.broker.settings
        effects += self.wait(settings.hold_us + settings.heartbeat_us) + self.settle()
        assert not self.link(peer).up
        return effects

    def link(self, peer: BrokerId) -> Link:
        return self.broker.neighbours.links[peer]

    def table(self, name: str, group: str = "") -> dict[int | str, object]:
        """What the disk holds."""
        return self.disk.tables.get(name, {}).get(group, {})
