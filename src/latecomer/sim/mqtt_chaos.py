"""Chaos with MQTT clients: sessions, QoS 1 and 2, wills, retained messages and shared subscriptions under faults.

Life is as in `chaos`: brokers start, clients join and subscribe, then come faults while clients publish and change
their minds, then everything is healed and the network must become quiet, complete and right. In addition connections
of clients break at any moment. Disks are kept: with its disk a broker loses its sessions, and nothing can be promised.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from random import Random

from msgspec.structs import replace

from latecomer.core.session.limits import NEVER_S, SessionLimits
from latecomer.core.settings import BrokerSettings
from latecomer.messages.mqtt import V5, V311, Disconnect, Properties, Reason
from latecomer.model import topology_generators as generators
from latecomer.model.filters import parse_filter
from latecomer.model.ids import BrokerId
from latecomer.model.topics import topic_matches
from latecomer.model.topology import Topology
from latecomer.sim.chaos import JITTERS, LIVENESS_US, SECOND_US, Life, draw_settings
from latecomer.sim.linking import with_links
from latecomer.sim.mqtt_checkers import Ledger, MqttTables, check_session_bounds
from latecomer.sim.mqtt_clients import MqttClient, MqttClients, Publication, Wish
from latecomer.sim.mqtt_faults import ClientFaults
from latecomer.sim.transcript import Transcript
from latecomer.sim.world import World

TOPICS = ("a", "a/b", "a/c", "b/x", "b/x/y")
RETAINED_TOPICS = ("r/1", "r/2", "r/2/x")
SHARED_TOPICS = ("s/1", "s/2")
FILTERS = ("a/#", "a/+", "a/b", "a", "b/#", "+/x", "b/+/y", "a/# ? v > 5", "r/#", "r/+", "r/2", "will/#", "will/+/+")
WORK = "$share/w/s/+"
"""The group of the workers, which exist in some lives."""
GROUPS = ("$share/g/s/#", "$share/g/s/1", "$share/h/s/+", "$share/h/s/#")


def live_mqtt(seed: int, transcript: Transcript | None = None, *, links: bool = False) -> Life:
    """Live one life. The same seed is the same life, byte for byte, in any process."""
    return with_links(MqttChaos(seed, transcript), seed, links).run()


class MqttChaos(ClientFaults):
    """The run of one seed."""

    kind = "mqtt"
    liveness_us = LIVENESS_US
    ledger: Ledger
    tables: MqttTables

    def __init__(self, seed: int, transcript: Transcript | None) -> None:
        self.transcript = transcript
        self.random = random = Random(seed)
        self.more = Random(f"{seed} more")
        """What was added later is drawn from here, so that the rest of a life stays as it was."""
        topology = self._draw_topology()
        settings = self._draw_settings(topology)
        if waits := self.more.random() < 0.3:
            wait_us = self.more.choice((300_000, 5 * SECOND_US, 60 * SECOND_US))
            settings = replace(settings, subscribe_wait=True, subscribe_wait_max_us=wait_us)
        jitter_us, jitter_shape = random.choice(JITTERS)
        self.world = World(
            topology,
            settings,
            random,
            jitter_us=jitter_us,
            jitter_shape=jitter_shape,
            disk_us=random.choice((0, 200, 4_000)),
            limits=self._draw_limits(),
        )
        self._people()
        if waits:
            self.clients.granted = self._granted
        self.world.observe(self.ledger, self.clients)
        if transcript is not None:
            self.world.observe(transcript)
        self.brokers = list(topology.ids())
        text = f"{len(self.brokers)} brokers, {len(topology.links)} links, {settings.routing}, {self.kind}"
        self.life = Life(seed, text)
        self._audits = 0
        self.workers: list[MqttClient] = []
        self.work_qos = 1
        self._faults: dict[str, Callable[[], None]] = {
            "cut": self._cut,
            "snip": self._snip,
            "trip": self._trip,
            "flutter": self._flutter,
            "storm": self._storm,
            "freeze": self._freeze,
            "blackout": self._blackout,
            "break": self._break,
            "blink": self._blink,
            "partition": self._partition,
            "crash": self._crash,
            "pause": self._pause,
            "stall": self._stall,
            "deafen": self._deafen,
            "slow disk": self._slow_disk,
            "slow": self._slow,
        }

    def _people(self) -> None:
        """The clients, and who watches over what they are promised."""
        self.ledger = Ledger(self.world)
        self.clients = MqttClients(self.world, self.ledger, self.transcript)
        self.ledger.stays.told = self.clients.pipes.told
        self.ledger.overtaken = self.clients.overtaken
        self.tables = MqttTables(self.world, self.clients, self.ledger)

    def _draw_topology(self) -> Topology:
        return _draw_topology(self.random)

    def _draw_settings(self, topology: Topology) -> BrokerSettings:
        return draw_settings(self.random, topology)

    def _draw_limits(self) -> SessionLimits:
        random = self.random
        return SessionLimits(
            receive_maximum=random.choice((1, 3, 20, 1024)),
            inflight=random.choice((1, 2, 10, 1024)),
            queue_messages=random.choice((10_000,) * 7 + (6,)),
        )

    # -- the life ----------------------------------------------------------------------------------------------------

    def run(self) -> Life:
        random, life, ledger = self.random, self.life, self.ledger
        self.world.start_all()
        for number in range(random.randint(3, 4 + len(self.brokers))):
            self._join(f"c{number}")
        self.workers = self._hire() if self.more.random() < 0.3 else []
        self._settle()
        for _ in range(random.choice((1, 1, 2, 3))):
            if ledger.violations:
                break
            self._round()
            self._settle()
        life.violations = ledger.violations
        life.accepted = ledger.accepted_count
        life.deliveries = ledger.deliveries
        life.excused = ledger.excused
        life.dropped = ledger.dropped
        life.refusals = self.clients.refusals
        life.frames = sum(self.world.counts.values())
        return life

    def _join(self, id: str) -> None:
        random = self.random
        version = random.choice((V5, V5, V311))
        expiry_s = random.choice((0, 1, 1, 3, NEVER_S, NEVER_S, NEVER_S, NEVER_S))
        if version == V311 and expiry_s:
            expiry_s = NEVER_S
        client = MqttClient(
            id,
            random.choice(self.brokers),
            version,
            expiry_s,
            willing=random.random() < 0.4,
            think_us=random.choice((0, 0, 2_000, 50_000)),
        )
        self.clients.join(client)
        for _ in range(random.choice((0, 1, 1, 2, 3))):
            self.clients.subscribe(client, self._wish(client, random.choice(FILTERS)))
        if random.random() < 0.4:
            self.clients.subscribe(client, self._wish(client, random.choice(GROUPS)))

    def _hire(self) -> list[MqttClient]:
        """A group whose members die with work in their hands, but for one."""
        self.work_qos = self.more.choice((1, 1, 2))
        workers = []
        for number, expiry_s in enumerate((NEVER_S, 0, self.more.choice((0, 1)))):
            client = MqttClient(f"w{number}", self.more.choice(self.brokers), V5, expiry_s)
            client.think_us = self.more.choice((0, 2_000, 20_000))
            self.clients.join(client)
            self.clients.subscribe(client, Wish(WORK, parse_filter("s/+"), self.work_qos, "w"))
            workers.append(client)
        return workers

    def _give_work(self, span: int) -> None:
        more, world = self.more, self.world
        for _ in range(more.choice((10, 30))):
            world.at(world.now + more.randrange(span), self._publish_work)
        for _ in range(more.choice((1, 3, 6))):
            world.at(world.now + more.randrange(span), self._drop_work, more.choice(self.workers[1:]))

    def _publish_work(self) -> None:
        client = self.more.choice(list(self.clients.clients.values()))
        for _ in range(self.more.choice((1, 3))):
            client.published += 1
            token, topic = f"{client.id}:{client.published}", self.more.choice(SHARED_TOPICS)
            self.clients.publish(client, Publication(token, client.id, client.published, topic, self.work_qos))

    def _drop_work(self, client: MqttClient) -> None:
        """A worker is gone, and comes back after a while or when everything is healed."""
        self.clients.leave(client, self.more.choice((None, Disconnect())))
        if self.more.random() < 0.7:
            self.world.at(self.world.now + self.more.randrange(2 * SECOND_US), self.clients.come_back, client)

    def _wish(self, client: MqttClient, text: str) -> Wish:
        random = self.random
        group, inner = "", text
        if text.startswith("$share/"):
            _, group, inner = text.split("/", 2)
        filter = parse_filter(inner)
        if client.version == V5:  # there the content is in a property
            text = text.partition(" ? ")[0]
        options = [random.random() < 0.3 for _ in range(2)]
        return Wish(
            text,
            filter,
            random.choice((0, 1, 2, 2)),
            group,
            no_local=options[0] and not group and client.version == V5,
            retain_as_published=options[1] and client.version == V5,
            retain_handling=random.choice((0, 0, 1, 2)) if client.version == V5 else 0,
            id=random.choice((0, 7)) if client.version == V5 else 0,
        )

    def _round(self) -> None:
        random, world = self.random, self.world
        span = random.randint(SECOND_US, 5 * SECOND_US)
        for _ in range(random.choice((10, 30, 60))):
            world.at(world.now + random.randrange(span), self._publish)
        for _ in range(random.choice((0, 4, 12))):
            world.at(world.now + random.randrange(span), self._change_mind)
        if self.workers:
            self._give_work(span)
        self._stir(span)
        kinds = random.sample(list(self._faults), random.randint(1, 4))
        for _ in range(random.randint(1, 8)):
            world.at(world.now + random.randrange(span), self._fault, random.choice(kinds))
        for _ in range(4):
            world.run(world.now + span // 4)
            check_session_bounds(world, self.ledger)

    def _stir(self, span: int) -> None:
        """What else happens in a round."""

    def _settle(self) -> None:
        """Heal, and demand that the network becomes quiet, complete and right."""
        world, ledger = self.world, self.ledger
        self._say("every fault is taken back")
        world.heal()
        for client in self.clients.clients.values():
            self.clients.come_back(client)
        healed = world.now
        if self._quiet():
            self.life.quiet_after_us = max(self.life.quiet_after_us, world.now - healed)
            self.tables.check_tables()
            self.tables.check_disk()
            ledger.check_retained()
            ledger.stays.check_wills()
        ledger.check_all_delivered()
        check_session_bounds(world, ledger)
        if not ledger.violations:
            self._audit()
        ledger.settle(self.clients)

    def _quiet(self) -> bool:
        """Wait until nothing happens any more, but not for ever."""
        world, end = self.world, self.world.now + self.liveness_us
        while not (self.tables.quiet() and self.ledger.outstanding() == 0):
            if world.now >= end:
                break
            world.run(world.now + 100_000)
        if not self.tables.quiet():
            self.ledger.violate("liveness", f"not quiet {self.liveness_us // SECOND_US} s after the last fault")
            return False
        return True

    def _audit(self) -> None:
        """A client that comes now gets what is retained, once, and nothing else."""
        self._audits += 1
        auditor = self._new_auditor(f"auditor{self._audits}")
        self.clients.join(auditor)
        self.clients.subscribe(auditor, Wish("r/#", parse_filter("r/#"), 2))
        if self._quiet():
            self.ledger.check_audit(auditor)
            self.clients.leave(auditor, Disconnect())
            end = self.world.now + self.liveness_us
            while auditor.id in self._sessions(auditor.broker) and self.world.now < end:
                self.world.run(self.world.now + 100_000)
            self._quiet()
        del self.clients.clients[auditor.id]

    def _new_auditor(self, id: str) -> MqttClient:
        return MqttClient(id, self.random.choice(self.brokers), expiry_s=0)

    def _sessions(self, broker: BrokerId) -> Container[str]:
        core = self.world.nodes[broker].core
        return () if core is None else core.sessions.by_client

    # -- what clients do ---------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        random, client = self.random, self._client()
        topic = random.choice(random.choice((TOPICS, TOPICS, RETAINED_TOPICS, SHARED_TOPICS)))
        retain = topic.startswith("r/")
        for _ in range(random.choice((1, 1, 1, 2, 6))):
            client.published += 1
            publication = Publication(
                f"{client.id}:{client.published}",
                client.id,
                client.published,
                topic,
                random.choice((0, 1, 1, 2, 2)),
                retain,
                random.randrange(10),
                deletes=retain and client.version == V5 and random.random() < 0.3,
                expiry_s=1 if not retain and client.version == V5 and random.random() < 0.05 else None,
            )
            self.clients.publish(client, publication)

    def _granted(self, client: MqttClient, wish: Wish) -> None:
        """The network has confirmed a subscription: what is published elsewhere this moment must come."""
        self.ledger.granted(client, wish)
        topics = [topic for topic in TOPICS if topic_matches(wish.filter.topic, topic)]
        if topics and self.more.random() < 0.7:
            publisher = self.more.choice(list(self.clients.clients.values()))
            publisher.published += 1
            token, topic = f"{publisher.id}:{publisher.published}", self.more.choice(topics)
            self.clients.publish(publisher, Publication(token, publisher.id, publisher.published, topic, 2, value=9))

    def _change_mind(self) -> None:
        random, client = self.random, self._client()
        dice = random.random()
        if dice < 0.35:
            self.clients.subscribe(client, self._wish(client, random.choice(FILTERS)))
        elif dice < 0.65:
            wished = [text for text, wish in client.wishes.items() if not wish.leaving]
            if wished:
                self.clients.unsubscribe(client, random.choice(wished))
        elif not client.online:
            self.clients.come_back(client)
        else:
            self.clients.leave(client, self._goodbye(client))

    def _goodbye(self, client: MqttClient) -> Disconnect | None:
        random = self.random
        if random.random() < 0.3:
            return None
        if client.version != V5:
            return Disconnect()
        reason = random.choice((Reason.SUCCESS, Reason.SUCCESS, Reason.DISCONNECT_WITH_WILL))
        if client.expiry_s not in (0, NEVER_S) and random.random() < 0.2:
            return Disconnect(reason, Properties(session_expiry_s=0))
        return Disconnect(reason)


def _draw_topology(random: Random) -> Topology:
    size = random.choice((2, 3, 3, 4, 5, 6))
    latency_us = random.choice((100, 1_000, 10_000))
    if size == 2 or random.random() < 0.3:
        return generators.line(size, latency_us=latency_us)
    if random.random() < 0.5:
        return generators.ring(size, latency_us=latency_us)
    return generators.random_tree(size, random, latency_us=latency_us)
