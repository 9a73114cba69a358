"""Chaos with clients that wander: their sessions follow them from broker to broker under faults.

Life is as in `mqtt_chaos`, but at each CONNECT a client may choose another broker. Besides the faults there, something
goes wrong just before or after a certain frame of a hand-over (`wander_fuses`), and clients come to several brokers at
once. When everything is healed, everybody is connected somewhere, each session is at one broker, and nothing is under
way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from msgspec.structs import replace

from latecomer.core.mobility import rows
from latecomer.core.mobility.settings import HandOverSettings, OwnerAway
from latecomer.core.session import delivery, erasing, given
from latecomer.core.session.limits import NEVER_S, SessionLimits
from latecomer.core.settings import BrokerSettings
from latecomer.messages.mqtt import V5, V311, Disconnect, Reason
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.topology import Topology
from latecomer.sim.chaos import SECOND_US, Life
from latecomer.sim.linking import with_links
from latecomer.sim.mqtt_chaos import FILTERS, GROUPS, TOPICS, MqttChaos
from latecomer.sim.mqtt_clients import MqttClient, Publication
from latecomer.sim.transcript import Transcript
from latecomer.sim.wander_ahead import FRAMES, Ahead
from latecomer.sim.wander_checkers import WanderLedger, WanderTables
from latecomer.sim.wander_clients import WanderClients, Wanderer
from latecomer.sim.wander_coverage import Coverage, Step
from latecomer.sim.wander_device import Device
from latecomer.sim.wander_fuses import OF_ABSENT_OWNERS, Fuses
from latecomer.sim.wander_moments import MomentLives, Moments

OTHERS = ("", "standard", "logging")
"""What clients ask for that do not want their sessions to stay at home."""
SHARES = 0.3
"""How likely a client joins a shared group."""
UNLUCKY = 0.6
"""How likely a life has fuses on the frames of absent owners."""
COMPARING_US = 2 * SECOND_US
"""So long after its return an owner may be told that its session is to end."""


def live_wander(
    seed: int, transcript: Transcript | None = None, steps: Counter[Step] | None = None, *, links: bool = False
) -> Life:
    """Live one life. The same seed is the same life, byte for byte, in any process. `steps` counts what happened in
    which state of the hand-over."""
    chaos = with_links(WanderChaos(seed, transcript), seed, links, settlers=False)
    if steps is not None:
        chaos.world.observe(Coverage(chaos.world, steps))
    return chaos.run()


class WanderChaos(MqttChaos):
    """The run of one seed. Without `moving` every client stays at the broker where it began."""

    kind = "wander"
    liveness_us = 40 * SECOND_US
    clients: WanderClients
    ledger: WanderLedger
    tables: WanderTables

    def __init__(self, seed: int, transcript: Transcript | None, *, moving: bool = True) -> None:
        self._apart = Random(f"{seed} owner away")
        self._owner_away: OwnerAway = self._apart.choice(("hold", "go-on"))
        self._moment_lives = MomentLives(seed)
        if self._moment_lives.goes_on:
            self._owner_away = "go-on"
        self._given_max = self._apart.choice((given.GIVEN_MAX, given.GIVEN_MAX, 3))
        self._mishaps = Random(f"{seed} leftovers mishap")
        self._unlucky = self._mishaps.random() < UNLUCKY
        """Something goes wrong at the frames of clients that go on while their owners are away."""
        self._pages = Random(f"{seed} leftovers page")
        """Drawn apart, so that lives in which no page of leftovers is sent at the end are what they were."""
        self._goes_on_until = 0
        """When a fuse is on what is said about an absent owner: so long nothing is healed."""
        self.tunnels = Random(f"{seed} tunnel")
        self.device = Device(seed)
        self._ahead = Ahead(seed)
        super().__init__(seed, transcript)
        self.clients.moving, self.clients.device = moving, self.device
        self._restless = self.random.choice((0.3, 0.6, 0.9))
        self._eager = self.random.random() < 0.5
        """Clients move just when trees change."""
        self._page_rows = self.random.choice((1, 2, rows.PAGE_ROWS))
        self.fuses = Fuses(self.world, self._strike_client, self._tree_ready, self._say, self._strikes_until)
        self.world.observe(self.fuses)
        self._faults["fuse"] = self.fuses.arm
        told = (self.ledger.stays.part, self.ledger.operator_ended, self.ledger.stays.released)
        self.moments = Moments(self._moment_lives.random, self.world, self.clients, self._say, *told, self._goes_away)
        if self._moment_lives.on and moving:
            self.world.observe(self.moments)

    def _people(self) -> None:
        self.ledger = WanderLedger(self.world)
        self.clients = WanderClients(self.world, self.ledger, self.transcript)
        self.ledger.watch(self.clients)
        self.ledger.overtaken = self.clients.overtaken
        self.tables = WanderTables(self.world, self.clients, self.ledger)

    def _draw_settings(self, topology: Topology) -> BrokerSettings:
        random = self.random
        settings = replace(
            super()._draw_settings(topology),
            hand_over=HandOverSettings(
                copies=random.choice((1, 3)),
                patience_us=random.choice((SECOND_US, 2 * SECOND_US, 5 * SECOND_US)),
                owner_away=self._owner_away,
            ),
        )
        settings = replace(settings, hand_over=self.device.draw(settings.hand_over))
        settings = replace(settings, hand_over=self._draw_tunnels(settings.hand_over))
        settings = replace(settings, hand_over=self._ahead.settings(settings.hand_over))
        if random.random() < 0.25:  # one event of each origin at a time
            settings = replace(settings, link_max=len(topology.nodes))
        if random.random() < 0.4:  # brokers are soon found to be away, and events kept for them
            settings = replace(settings, heartbeat_us=100_000, hold_us=300_000)
        return self._moment_lives.settings(settings, len(topology.nodes))

    def _draw_tunnels(self, hand_over: HandOverSettings) -> HandOverSettings:
        """Sessions that stay at home: everybody's, unless a client wants something else; or only some."""
        draw = self.tunnels
        self._homely = draw.choice((0.0, 0.0, 0.3, 0.7))
        """How likely a client asks for it."""
        if self._moment_lives.homely:
            self._homely = 0.6
            self.device.brings = True
        if self._homely and draw.random() < 0.4:
            hand_over = replace(hand_over, algorithm="home-broker")
        narrow = draw.choice((1, 1_000, hand_over.tunnel_bytes))
        return hand_over if self._moment_lives.homely else replace(hand_over, tunnel_bytes=narrow)

    def _draw_limits(self) -> SessionLimits:
        random, limits = self.random, super()._draw_limits()
        return self._moment_lives.limits(replace(limits, queue_messages=random.choice((10_000,) * 5 + (4, 12))))

    # -- the life ----------------------------------------------------------------------------------------------------

    def run(self) -> Life:
        usual = rows.PAGE_ROWS, erasing.PAGE_ROWS, delivery.SLICE, given.GIVEN_MAX
        if self._page_rows != rows.PAGE_ROWS:
            rows.PAGE_ROWS = erasing.PAGE_ROWS = delivery.SLICE = self._page_rows
        given.GIVEN_MAX = self._given_max
        try:
            return super().run()
        finally:
            rows.PAGE_ROWS, erasing.PAGE_ROWS, delivery.SLICE, given.GIVEN_MAX = usual

    def _hire(self) -> list[MqttClient]:
        return []  # workers are a shared group

    def _join(self, id: str) -> None:
        random = self.random
        version = random.choice((V5, V5, V311))
        expiry_s = random.choice((0, 1, 3, 8, NEVER_S, NEVER_S, NEVER_S, NEVER_S, NEVER_S, NEVER_S))
        if version == V311 and expiry_s:
            expiry_s = NEVER_S
        client = Wanderer(
            id,
            random.choice(self.brokers),
            version,
            expiry_s,
            willing=random.random() < 0.4,
            think_us=random.choice((0, 0, 2_000, 50_000)),
            restless=random.choice((0.0, self._restless, self._restless)),
            owner_away=self._apart.choice(("", "", "hold", "go-on")),
        )
        if version == V5 and self._homely:
            client.hand_over = "home-broker" if self.tunnels.random() < self._homely else self.tunnels.choice(OTHERS)
        self.clients.join(client)
        for _ in range(random.choice((0, 1, 1, 2, 3))):
            self.clients.subscribe(client, self._wish(client, random.choice(FILTERS)))
        if random.random() < SHARES:
            self.clients.subscribe(client, self._wish(client, random.choice(GROUPS)))

    def _round(self) -> None:
        super()._round()
        self.world.run(max(self.world.now, self._goes_on_until))

    def _stir(self, span: int) -> None:
        random, world = self.random, self.world
        self.clients.hasty, self.clients.whole_since = True, None
        self._stroll_about(span)
        if self._moment_lives.on:
            self.moments.arm()
        if self._ahead.calm:
            return
        for _ in range(random.choice((4, 12, 30))):
            world.at(world.now + random.randrange(span), self._move)
        for _ in range(random.choice((0, 0, 3, 6))):
            world.at(world.now + random.randrange(span), self._commute)
        for _ in range(random.choice((0, 2, 4))):
            world.at(world.now + random.randrange(span), self._hesitate)
        for _ in range(random.choice((0, 2, 4))):
            world.at(world.now + random.randrange(span), self._direct)
        for _ in range(random.choice((0, 0, 2))):
            world.at(world.now + random.randrange(span), self._intrude)
        for _ in range(random.choice((0, 1, 3))):
            world.at(world.now + random.randrange(span), self._fault, "fuse")
        for _ in range(self._apart.choice((0, 0, 1, 2))):
            world.at(world.now + self._apart.randrange(span), self._strand)
        for _ in range(self._moment_lives.strands()):
            world.at(world.now + self._apart.randrange(span), self._go_on)

    def _stroll_about(self, span: int) -> None:
        world, ahead = self.world, self._ahead.random
        for _ in range(self._ahead.strolls()):
            world.at(world.now + ahead.randrange(span), self._stroll)
        for _ in range(self._ahead.fuses()):
            world.at(world.now + ahead.randrange(span), self.fuses.arm, FRAMES)

    def _settle(self) -> None:
        self.clients.healed()
        self.fuses.disarm()
        self.moments.disarm()
        # Most brokers that were away meet the new owners of their sessions only when everything is healed.
        self.fuses.arm_page(self._pages)
        super()._settle()
        self.fuses.disarm()

    def _quiet(self) -> bool:
        quiet = super()._quiet()
        if quiet:
            self.ledger.late.check(list(self.clients.clients.values()))
        if quiet and self._renew():
            quiet = super()._quiet()
        if not quiet:
            self.ledger.violate("liveness", self.tables.unquiet())
        self.ledger.whole()
        return quiet

    def _renew(self) -> bool:
        """Clients that may have been given either of two sessions do not know what they are subscribed to, and begin
        anew; whether there are any."""
        renewed = [client for id, client in self.clients.clients.items() if id in self.ledger.stays.split]
        for client in renewed:
            assert isinstance(client, Wanderer)
            self.clients.renew(client)
        return bool(renewed)

    def _new_auditor(self, id: str) -> MqttClient:
        return Wanderer(id, self.random.choice(self.brokers), expiry_s=0, restless=0.0)

    # -- what clients do ---------------------------------------------------------------------------------------------

    def _wanderer(self) -> Wanderer:
        client = self._client()
        assert isinstance(client, Wanderer)
        return client

    def _move(self) -> None:
        """A client goes elsewhere: with a goodbye, without one, or while its connection is still open."""
        random, client = self.random, self._wanderer()
        dice = random.random()
        if dice < 0.45:
            self.clients.leave(client, self._goodbye(client))
            wait_us = random.choice((0, 2_000, 50_000, 400_000, 1_500_000))
            self.world.at(self.world.now + wait_us, self.clients.come_back, client)
        elif dice < 0.6 and client.pipe is not None:
            self.clients.pipes.break_(client.pipe)
        elif dice < 0.85:
            self.clients.hop(client)
        else:
            self.clients.hop_twice(client)

    def _stroll(self) -> None:
        """A client is away so long that its session goes ahead."""
        away = [client for client in self.clients.clients.values() if client.connected and client.durable]
        if away and self.clients.moving:
            self._ahead.teach(self.world)
            client = self._ahead.random.choice(away)
            self.clients.leave(client, None)
            self.world.at(self.world.now + self._ahead.away_us(), self._stroll_ends, client)

    def _stroll_ends(self, client: MqttClient) -> None:
        """It comes back, often to where a copy of its session is."""
        assert isinstance(client, Wanderer)
        client.bound_for = client.bound_for or self._ahead.place_of(self.world, client.id)
        self.clients.come_back(client)

    def _commute(self) -> None:
        """A client publishes, and goes on publishing elsewhere at once."""
        random, client = self.random, self._wanderer()
        topic, qos = random.choice(TOPICS), random.choice((1, 2, 2))
        for _ in range(random.choice((3, 10))):
            client.published += 1
            token = f"{client.id}:{client.published}"
            self.clients.publish(client, Publication(token, client.id, client.published, topic, qos, value=9))
        self.world.at(self.world.now + random.choice((1_000, 10_000, 60_000)), self.clients.hop, client)

    def _strikes_until(self, end: Instant) -> None:
        """A fuse has burnt down. If everything else is healed, the network is whole when its fault is over."""
        if self.clients.whole_since is not None:
            self.clients.whole_since = end

    def _tree_ready(self, broker: BrokerId) -> None:
        """A broker has another tree: events are sent again in it, and its clients leave for another just then."""
        if self._eager and self.clients.hasty and self.random.random() < 0.5:
            self.world.at(self.world.now + self.random.choice((0, 1_000, 5_000, 20_000)), self._leave, broker)

    def _leave(self, broker: BrokerId) -> None:
        for client in self.clients.clients.values():
            assert isinstance(client, Wanderer)
            if client.welcomed_by == broker and self.random.random() < 0.4:
                client.hurried = True
                self.clients.hop(client)

    def _strand(self) -> None:
        """A client leaves, its broker goes away, things are published, and the client comes elsewhere: before its
        broker is back, or just then."""
        self._strand_one(self._apart.choice(list(self.clients.clients.values())), self._publish, (2, 6))

    def _go_on(self) -> None:
        """The same, with somebody who does not wait for that broker; it has to catch up with much when it is back."""
        clients = [client for client in self.clients.clients.values() if client.connected and self._goes_on(client)]
        if clients:
            client = self._apart.choice(clients)
            self._strand_one(client, partial(self._publish_much, client.broker), (5, 10))

    def _publish_much(self, broker: BrokerId) -> None:
        """At the broker that is away, and elsewhere: both have to catch up."""
        random = self._apart
        there = [client for client in self.clients.clients.values() if client.broker == broker]
        for client in (self._client(), random.choice(there) if there else self._client()):
            for _ in range(2):
                client.published += 1
                token, qos = f"{client.id}:{client.published}", random.choice((1, 2))
                topic = random.choice(TOPICS)
                self.clients.publish(client, Publication(token, client.id, client.published, topic, qos, value=9))

    def _goes_on(self, client: MqttClient) -> bool:
        assert isinstance(client, Wanderer)
        return (client.owner_away or self._owner_away) == "go-on"

    def _strand_one(self, client: MqttClient, publish: Callable[[], None], times: tuple[int, int]) -> None:
        random, world = self._apart, self.world
        assert isinstance(client, Wanderer)
        if not client.connected or client.expiry_s != NEVER_S or not self.clients.hasty:
            return
        broker, gone_us = client.broker, random.choice((2_500_000, 4_000_000, 6_000_000))
        self._say(f"{client.id} leaves {broker}, which goes away for {gone_us} us")
        self.clients.leave(client, None)
        for at_us in sorted(random.randrange(gone_us) for _ in range(random.choice(times))):
            world.at(world.now + at_us, self._while_hasty, publish)
        away_us = random.choice((0, 50_000, 500_000))
        strike = random.choice((self._cut_off, self._kill))
        world.at(world.now + away_us, self._while_hasty, strike, broker, gone_us)
        if self._goes_on(client) and self._unlucky:
            for frame in OF_ABSENT_OWNERS:
                self.fuses.arm([frame], self._mishaps)
            self._goes_on_until = world.now + away_us + gone_us + COMPARING_US
        client.hurried = True
        back_us = away_us + random.choice((1_000_000, gone_us // 2, gone_us - 200_000, gone_us + 100_000))
        world.at(world.now + back_us, self.clients.come_back, client)

    def _while_hasty(self, what: Callable[..., None], *arguments: object) -> None:
        """Nothing goes wrong any more when everything is healed."""
        if self.clients.hasty:
            what(*arguments)

    def _cut_off(self, broker: BrokerId, time_us: int) -> None:
        self.world.partition([broker], time_us)

    def _kill(self, broker: BrokerId, time_us: int) -> None:
        self.world.crash(broker)
        self.world.at(self.world.now + time_us, self.world.start, broker)

    def _goes_away(self, broker: BrokerId, time_us: int) -> None:
        if self._moment_lives.random.random() < 0.5:
            self._cut_off(broker, time_us)
        elif self.world.nodes[broker].core is not None:
            self._kill(broker, time_us)

    def _hesitate(self) -> None:
        """A client comes back elsewhere just before, or after, its will or its session would have been due."""
        random, client = self.random, self._wanderer()
        if client.version == V5 and client.connected:
            due_s = random.choice((1, 2, *((client.expiry_s,) if 0 < client.expiry_s < 10 else ())))
            self.clients.leave(client, Disconnect(Reason.DISCONNECT_WITH_WILL))
            client.hurried = True
            wait_us = due_s * SECOND_US - random.choice((-5_000, 1_000, 10_000, 30_000, 80_000))
            self.world.at(self.world.now + wait_us, self.clients.come_back, client)

    def _direct(self) -> None:
        """An operator moves a session, while its client is there or away."""
        random = self.random
        if not self.clients.moving:
            return
        brief = [c for c in self.clients.clients.values() if c.connected and 0 < c.expiry_s < 10]
        if brief and random.random() < 0.5:  # it comes back when its session is about to end, or has
            client = random.choice(brief)
            assert isinstance(client, Wanderer)
            self.clients.leave(client, Disconnect(Reason.DISCONNECT_WITH_WILL))
            wait_us = client.expiry_s * SECOND_US + random.choice((-200_000, 100_000, 200_000))
            self.world.at(self.world.now + wait_us, self.clients.come_back, client)
            after_us = random.choice((300_000, 700_000))
            self.world.at(self.world.now + after_us, self.clients.direct, client, random.choice(self.brokers))
        else:
            self.clients.direct(self._wanderer(), random.choice(self.brokers))

    def _goodbye(self, client: MqttClient) -> Disconnect | None:
        """As anybody; but some say where they go."""
        goodbye = super()._goodbye(client)
        if goodbye is None or client.version != V5 or not self.clients.moving or self.random.random() < 0.6:
            return goodbye
        assert isinstance(client, Wanderer)
        client.bound_for = self.random.choice(self.brokers)
        word = self.random.choice((client.bound_for, client.bound_for, *self.brokers, "nowhere"))
        return replace(goodbye, properties=replace(goodbye.properties, user=(("next-broker", word),)))

    def _intrude(self) -> None:
        self.clients.intrude(self._wanderer())

    def _strike_client(self, strike: str, id: str) -> None:
        """A fuse strikes a client: it comes anew elsewhere, or loses its connection."""
        client = self.clients.clients.get(id) or self._client()
        assert isinstance(client, Wanderer)
        if strike == "hop":
            self.clients.hop(client)
        elif client.pipe is not None:
            self.clients.pipes.break_(client.pipe)
