"""The counted model of *mobility* against the broker core: one move, message by message and hop by hop.

The client names its old broker, as in the paper (§3.1), in the paper's hierarchy without covering. A broker of the core
tells its parent once what several below it want, so a subscription climbs as far as nobody has asked for the same: that
is what `reach` answers. What the core sends beyond the paper is not counted: it says that it has taken the session, is
told that this is known, and some brokers are told where the session is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from latecomer.core.inputs import MqttConnected, MqttLost, MqttReceived
from latecomer.core.routing import Hierarchy
from latecomer.core.settings import BrokerSettings
from latecomer.experiments.mobility.algorithms.standard import Standard
from latecomer.experiments.mobility.move import Absence, move
from latecomer.experiments.mobility.tree import tree_of
from latecomer.messages import link
from latecomer.messages.hand_over import Ask, Fetch, Rows, Seek, Standing
from latecomer.messages.link import LinkMessage
from latecomer.messages.mqtt import Connack, Connect, Packet, Properties, Publish, Request, Subscribe
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Record
from latecomer.model.topology_generators import hierarchy
from latecomer.sim.disk import Disk
from latecomer.sim.world import World

SECOND_US = 1_000_000
BROKERS = 21


class Counted:
    """A network, its clients by hand, and the hand-over frames on its links."""

    def __init__(self) -> None:
        topology = hierarchy(4, BROKERS, latency_us=1_000)
        self.ids = list(topology.ids())
        self.tree = tree_of(topology)
        root = self.ids[self.tree.depths.index(0)]
        routing = Hierarchy(root=root, covering=False, advertisements=False)
        self.world = World(topology, BrokerSettings(routing=routing), Random(1))
        self.world.sockets = self
        self.world.observe(self)
        self.inbox: dict[int, list[Packet]] = {}
        self.legs: Counter[str] = Counter()
        self.world.start_all()
        self.run(2)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + round(seconds * SECOND_US))

    # what the world tells
    def attached(self, connection: int) -> None: ...

    def transmitted(self, connection: int, packets: Sequence[Packet]) -> None:
        self.inbox[connection] += packets

    def closed(self, connection: int, problem: str) -> None: ...

    def read(self, connection: int, go_on: bool) -> None: ...

    def noted(self, record: Record) -> None: ...

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None: ...

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        for frame in frames:
            self.count(frame)

    def count(self, frame: LinkMessage) -> None:
        """One hop of the messages in a frame: a message is a row, a subscription or a control frame, never a page."""
        if isinstance(frame, Ask):
            self.legs["release" if frame.state else "ask"] += 1
        elif isinstance(frame, Standing):
            self.legs["row"] += len(frame.subscriptions)
        elif isinstance(frame, Rows):
            self.legs["event"] += len(frame.rows)
        elif isinstance(frame, link.Subscribe):
            self.legs["subscribe"] += len(frame.filters)
        elif isinstance(frame, link.Unsubscribe):
            self.legs["unsubscribe"] += len(frame.filters)
        elif isinstance(frame, Seek | Fetch):
            self.legs["more"] += 1

    # what clients do
    def connect(self, broker: int, client: str, words: tuple[tuple[str, str], ...] = ()) -> int:
        number = len(self.inbox) + 1
        self.inbox[number] = []
        packet = Connect(client, clean_start=False, properties=Properties(session_expiry_s=3600, user=words))
        self.world.tell(self.ids[broker], MqttConnected(number, packet))
        self.run(1)
        return number


@pytest.mark.parametrize(
    ("old", "new", "subscriptions", "stored"),
    [(20, 19, 1, 0), (20, 5, 3, 7), (5, 20, 2, 1), (0, 20, 1, 4), (7, 0, 4, 3), (6, 1, 2, 300)],
)
def test_a_move_costs_what_the_model_counts(old: int, new: int, subscriptions: int, stored: int) -> None:
    town = Counted()
    ids = town.ids
    phone = town.connect(old, "phone")
    requests = tuple(Request(f"t/{number}", 1) for number in range(subscriptions))
    town.world.tell(ids[old], MqttReceived(phone, [Subscribe(1, requests)]))
    sender = town.connect(12, "sender")
    town.world.tell(ids[old], MqttLost(phone))
    town.run(1)
    for number in range(stored):
        town.world.tell(ids[12], MqttReceived(sender, [Publish("t/0", b"x", 1, packet_id=number + 1)]))
    town.run(2)
    town.legs.clear()
    phone = town.connect(new, "phone", (("previous-broker", ids[old]),))
    town.run(2)
    [connack] = [packet for packet in town.inbox[phone] if isinstance(packet, Connack)]
    assert connack.session_present
    absence = Absence(old=old, new=new, subscriptions=subscriptions, stored=stored)
    counted: Counter[str] = Counter()

    def reach(broker: int, begins: bool) -> int:
        """Up to the first broker that has been told the same because of the other end of the move."""
        known = town.tree.ancestors(old if begins else new)
        climbed = next(steps for steps, above in enumerate(town.tree.ancestors(broker)) if above in known)
        return climbed * subscriptions

    for leg in move(town.tree, Standard(), absence, reach):
        counted[leg.kind] += leg.hops
    assert +town.legs == +counted
