"""Chaos with re-homing: brokers send clients on to where others want the same, under faults.

Life is as in `wander_chaos`, with settings under which moves are frequent: updates of a second or less, a small gain,
short rests. Everything that is promised to clients that wander is promised here, and more (`homes_checkers`).
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from latecomer.core.homes.settings import HomesSettings
from latecomer.core.inputs import AddressesKnown
from latecomer.core.settings import BrokerSettings
from latecomer.messages.mqtt import V5
from latecomer.model.ids import BrokerId
from latecomer.model.record import Kind, Record
from latecomer.model.topology import Topology
from latecomer.sim.chaos import SECOND_US, Life
from latecomer.sim.homes_checkers import HomesLedger
from latecomer.sim.homes_clients import KIND, HomesClients, address_of
from latecomer.sim.ring_chaos import RingDraw
from latecomer.sim.sides import Observer
from latecomer.sim.transcript import Transcript
from latecomer.sim.wander_chaos import WanderChaos
from latecomer.sim.wander_checkers import WanderTables

RINGS = 0.3
"""How likely brokers route by rendezvous."""


def live_homes(seed: int, transcript: Transcript | None = None) -> Life:
    """Live one life. The same seed is the same life, byte for byte, in any process."""
    return HomesChaos(seed, transcript).run()


class HomesChaos(WanderChaos):
    """The run of one seed."""

    kind = "homes"
    clients: HomesClients
    ledger: HomesLedger

    def __init__(self, seed: int, transcript: Transcript | None) -> None:
        self.homes = Random(f"{seed} homes")
        self.ring = RingDraw(seed) if self.homes.random() < RINGS else None
        """Some networks route by rendezvous; what brokers tell one another here goes along the agreed tree all the
        same."""
        super().__init__(seed, transcript)
        self.world.observe(_Speaker(self))
        self._faults["close"] = self._close_doors

    def run(self) -> Life:
        if self.ring is not None:
            self.ring.disturb(self.world, self.brokers)
        return super().run()

    def _draw_topology(self) -> Topology:
        drawn = super()._draw_topology()
        return drawn if self.ring is None else self.ring.topology(drawn)

    def _people(self) -> None:
        self.ledger = HomesLedger(self.world)
        self.clients = HomesClients(self.world, self.ledger, self.transcript, self.homes)
        self.ledger.watch(self.clients)
        self.ledger.overtaken = self.clients.overtaken
        self.tables = WanderTables(self.world, self.clients, self.ledger)

    def _draw_settings(self, topology: Topology) -> BrokerSettings:
        draw, brokers = self.homes, topology.ids()
        cluster = tuple(draw.sample(brokers, draw.randint(1, len(brokers)))) if draw.random() < 0.3 else ()
        homes = HomesSettings(
            mode=draw.choice(("move", "move", "move", "move", "advise")),
            update_us=draw.choice((100_000, 200_000, 500_000)),
            settle_us=draw.choice((1_000, 20_000, 50_000)),
            gain=draw.choice((0.0, 0.05, 0.2)),
            rest_us=draw.choice((300_000, SECOND_US, 3 * SECOND_US)),
            share_max=draw.choice((0.01, 0.3, 1.0)),
            away_us=draw.choice((1, 2, 3)) * SECOND_US,
            cluster=cluster,
            nearest=draw.choice((1, 3, 10)),
            load_weight=draw.choice((None, None, 0.0, 3.0)),
            filters_max=draw.choice((2, 5, 16_384, 16_384)),
        )
        settings = replace(super()._draw_settings(topology), homes=homes)
        return settings if self.ring is None else self.ring.settings(settings)

    def _join(self, id: str) -> None:
        """More of them than elsewhere have wills that wait, and stay where they are by themselves."""
        super()._join(id)
        client = self.clients.clients[id]
        client.willing |= client.version == V5 and self.homes.random() < 0.3

    def _round(self) -> None:
        super()._round()
        self.ledger.check_bounds([node.core for node in self.world.nodes.values() if node.core is not None])

    def tell_addresses(self, broker: BrokerId, *, open: bool = True) -> None:
        self.world.tell(broker, AddressesKnown(((KIND, address_of(broker)),), open))

    def _close_doors(self) -> None:
        """A broker says for a while that it takes no new clients; its door stays open here."""
        broker, time = self.homes.choice(self.brokers), self._time()
        self._say(f"fault: {broker} takes no clients for {time} us")
        self.tell_addresses(broker, open=False)
        self.world.at(self.world.now + time, self.tell_addresses, broker)


class _Speaker(Observer):
    """Tells every broker where clients find it, as a driver does when it has started."""

    def __init__(self, chaos: HomesChaos) -> None:
        self.chaos = chaos

    def noted(self, record: Record) -> None:
        if record.kind is Kind.STARTED:
            world = self.chaos.world
            world.at(world.now, self.chaos.tell_addresses, record.broker)
