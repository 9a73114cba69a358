"""Chaos with stores: late subscribers ask for the past while stores come, go, move, die and fill one another.

Life is as in `mqtt_chaos`. Some brokers keep topics; publishers publish all the time; clients subscribe late and ask
for a stretch of the past, lose their connections in the middle of it, and come back. Then everything is healed, and
besides what `history_ledger` promises, tables must name the nearest stores, and replicas hold the same.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from latecomer.core.session.limits import NEVER_S, SessionLimits
from latecomer.core.settings import BrokerSettings
from latecomer.messages.mqtt import V5, V311, Disconnect
from latecomer.model.filters import parse_filter
from latecomer.model.history import Query
from latecomer.model.ids import BrokerId
from latecomer.model.topics import topic_covers
from latecomer.model.topology import Topology
from latecomer.sim.chaos import JITTERS, SECOND_US, Life
from latecomer.sim.clients import SimClients
from latecomer.sim.history_checkers import (
    Questions,
    check_advertisements,
    check_kept,
    check_remains,
    differences,
    nearest,
)
from latecomer.sim.history_ledger import HistoryLedger, PastWish, Stretch
from latecomer.sim.history_moves import Moves
from latecomer.sim.history_network import draw_network
from latecomer.sim.history_returns import Returns
from latecomer.sim.history_travels import Travels
from latecomer.sim.linking import with_links
from latecomer.sim.mqtt_checkers import MqttTables
from latecomer.sim.mqtt_clients import MqttClient, MqttClients, Publication
from latecomer.sim.mqtt_faults import ClientFaults
from latecomer.sim.store import SimStore
from latecomer.sim.transcript import Transcript
from latecomer.sim.world import World

LIVENESS_US = 240 * SECOND_US
"""Stores have more patience with one another than brokers have."""
CLAIM_US = 5 * SECOND_US
"""After this a new store says that it has everything."""
STEPS_MAX = 60_000
"""And within so many steps: whoever is busy for ever is not quiet either."""
REPLICAS_US = 60 * SECOND_US
"""Stores that keep the same hold the same after this."""

TOPICS = ("a", "a/b", "a/c", "b/x", "b/x/y", "c/1", "c/2")
CLASSES = ("#", "a/#", "a/#", "a/#", "a/+", "a/b", "b/#", "b/#", "+/x", "c/#", "c/1")
FAMILIES: dict[str, tuple[str, ...]] = {
    "a": ("a/#", "a/#", "a/#", "a/+", "a/b", "a", "a/# ? v > 4", "a/b ? v <= 6"),
    "b": ("b/#", "b/#", "b/x", "b/# ? v != 3"),
    "c": ("c/#", "c/+", "c/1"),
    "all": ("#", "+/#", "# ? v > 4", "+/x"),
}
"""Filters of different families have no topic in common, but for the last."""
STORE_FAULTS = ("store dies", "store is lost", "store is torn", "store is trimmed", "eclipse", "eclipse", "interrupt")
ROOM = 1000
"""An origin with less has no room for what stores are owed while they are away."""
RETURNING = 0.5
"""How many lives end with a store that returns and is asked at once."""
TRAVELLING = 0.9
"""How many lives of travellers end with readers that move while their history is replayed."""
MOVING = 3
"""In every so many lives, topic classes move from store to store as a plan wants it."""
PLAIN = "p"
"""Clients that speak the core's plain interface."""


def live_history(seed: int, transcript: Transcript | None = None, *, links: bool = False) -> Life:
    """Live one life. The same seed is the same life, byte for byte, in any process."""
    return with_links(HistoryChaos(seed, transcript), seed, links).run()


def live_travel(seed: int, transcript: Transcript | None = None, *, links: bool = False) -> Life:
    """The same life, but readers travel at its end."""
    return with_links(HistoryChaos(seed, transcript, travelling=True), seed, links).run()


class HistoryChaos(ClientFaults):
    """The run of one seed."""

    def __init__(
        self,
        seed: int,
        transcript: Transcript | None,
        new_store: Callable[[], SimStore] = SimStore,
        *,
        travelling: bool = False,
    ) -> None:
        self.transcript = transcript
        self.random = random = Random(seed)
        topology, settings = self._draw()
        jitter_us, jitter_shape = random.choice(JITTERS)
        self.world = World(
            topology,
            settings,
            random,
            jitter_us=jitter_us,
            jitter_shape=jitter_shape,
            disk_us=random.choice((0, 200, 4_000)),
            read_us=random.choice((0, 1_000, 1_000, 50_000)),
            limits=_draw_limits(random),
            new_store=new_store,
        )
        self.ledger = HistoryLedger(self.world)
        self.clients = MqttClients(self.world, self.ledger, transcript)
        self.ledger.resent, self.ledger.overtaken = self.clients.resent, self.clients.overtaken
        self.tables = MqttTables(self.world, self.clients, self.ledger)
        self.plain = SimClients(self.world, [])
        self.tables.clients = self.plain
        self.questions = Questions(self.world, self.ledger.violate, self.ledger.sources, self.ledger.burnt)
        self.moves = Moves(self.world, Random(f"{seed} moves"), self._assign, self.ledger.violate)
        self._movable = seed % MOVING == 1
        self._first = Random(f"{seed} first")
        # What was added to these lives later has its own chance and comes last, so that seeds live on as they did.
        self._late = Random(f"{seed} returns")
        self.returns = Returns(self.world, self._late, self.clients, self._say)
        self._travelling, self._latest = travelling, Random(f"{seed} travels")
        self.travels = Travels(self.world, self._latest, self.clients, self.ledger, self._say)
        self.world.observe(self.ledger, self.clients, self.moves, self.returns, self.questions)
        if transcript is not None:
            self.world.observe(transcript)
        self.brokers = list(topology.ids())
        text = f"{len(self.brokers)} brokers, {len(topology.links)} links, {settings.routing}, stores"
        self.life = Life(seed, text)
        self._joined = 0
        self._faults: dict[str, Callable[[], None]] = {
            "cut": self._cut,
            "snip": self._snip,
            "trip": self._trip,
            "flutter": self._flutter,
            "storm": self._storm,
            "blackout": self._blackout,
            "break": self._break,
            "blink": self._blink,
            "partition": self._partition,
            "crash": self._crash,
            "store dies": self._store_dies,
            "store is lost": self._store_is_lost,
            "store is torn": self._store_is_torn,
            "store is trimmed": self._store_is_trimmed,
            "eclipse": self._eclipse,
            "interrupt": self._interrupt,
            "lose disk": self._lose_disk,
            "pause": self._pause,
            "stall": self._stall,
            "deafen": self._deafen,
            "slow disk": self._slow_disk,
            "slow": self._slow,
        }

    def _draw(self) -> tuple[Topology, BrokerSettings]:
        return draw_network(self.random)

    # -- the life ----------------------------------------------------------------------------------------------------

    def run(self) -> Life:
        random, life, ledger = self.random, self.life, self.ledger
        if self._first.random() < 0.3:  # a network that has a store from the beginning
            self._assign(self._first.choice(self.brokers), (self._first.choice(CLASSES),))
        self.world.start_all()
        for broker in self.brokers:
            self.plain.join(f"{PLAIN}{broker}", broker)
        self._settle()
        for _ in range(random.randint(1, 4)):
            self._change_store()
        for _ in range(random.randint(1, 3)):
            self._join()
        if random.random() < 0.7:
            self._settle()
        if random.random() < 0.7:
            self.world.run(self.world.now + CLAIM_US)
        for _ in range(random.choice((1, 1, 2, 3))):
            if ledger.violations:
                break
            self._round()
            self._settle()
            if not ledger.violations:
                self._audit()
        if not ledger.violations and self._late.random() < RETURNING:
            self.returns.play(TOPICS)
            self._settle()
        if self._travelling and not ledger.violations and self._latest.random() < TRAVELLING:
            self.travels.play(TOPICS)
            self._settle()
        life.violations = ledger.violations
        life.accepted = ledger.accepted_count
        life.deliveries = ledger.deliveries
        life.excused = ledger.excused
        life.dropped = ledger.dropped
        life.refusals = self.clients.refusals
        life.frames = sum(self.world.counts.values())
        return life

    def _round(self) -> None:
        random, world = self.random, self.world
        span = random.randint(SECOND_US, 6 * SECOND_US)
        for _ in range(random.choice((10, 30, 50))):
            world.at(world.now + random.randrange(span), self._publish)
        for _ in range(random.choice((2, 4, 8))):
            world.at(world.now + random.randrange(span), self._join)
        for _ in range(random.choice((0, 4, 10))):
            world.at(world.now + random.randrange(span), self._change_mind)
        for _ in range(random.choice((0, 3, 10))):
            world.at(world.now + random.randrange(span), self._request)
        for _ in range(random.choice((0, 0, 1, 2, 4))):
            world.at(world.now + random.randrange(span), self._change_store)
        kinds = random.sample(list(self._faults), random.randint(1, 3))
        if random.random() < 0.7:
            kinds.append(random.choice(STORE_FAULTS))
        for _ in range(random.choice((0, 1, 2, 4, 8))):
            world.at(world.now + random.randrange(span), self._fault, random.choice(kinds))
        if self._movable:
            for _ in range(random.randint(1, 3)):
                world.at(world.now + random.randrange(span), self.moves.begin)
        world.run(world.now + span)

    def _settle(self) -> None:
        """Heal, and demand that the network becomes quiet, complete and right."""
        world = self.world
        self._say("every fault is taken back")
        world.heal()
        for client in self.clients.clients.values():
            self.clients.come_back(client)
        healed = world.now
        if self._quiet():
            self.life.quiet_after_us = max(self.life.quiet_after_us, world.now - healed)
            self._check()

    def _check(self) -> None:
        ledger, violate = self.ledger, self.ledger.violate
        self.tables.check_tables()
        check_advertisements(self.world, violate)
        check_remains(self.world, violate)
        ledger.judge()
        self.moves.judge()
        self.questions.judge()
        end = self.world.now + REPLICAS_US
        while (unequal := differences(self.world)) and self.world.now < end:
            self.world.run(self.world.now + SECOND_US)
        for difference in unequal:
            violate("replicas", difference)
        check_kept(self.world, ledger)

    def _quiet(self) -> bool:
        """Wait until nothing happens any more, but not for ever."""
        world, healed, steps = self.world, self.world.now, self.world.steps
        while not self.tables.quiet() or self.clients.pipes.coming():
            if world.now - healed >= LIVENESS_US or world.steps - steps >= STEPS_MAX:
                after_s = (world.now - healed) // SECOND_US
                self.ledger.violate(
                    "liveness", f"not quiet {after_s} s and {world.steps - steps} steps after the last fault"
                )
                return False
            world.run(world.now + 100_000)
        return True

    def _audit(self) -> None:
        """Whoever asks now, when all is quiet, is answered by the nearest store, with the word that it is complete."""
        random = self.random
        family = random.choice(list(FAMILIES))
        client = self._new_client(f"auditor{self._joined}")
        wish = self._wish(client, random.choice(FAMILIES[family]), Stretch(last=random.choice((0, 0, 5, 100))))
        wish.qos = random.choice((0, 1, 2))
        asked = self.world.nodes[client.broker].core
        before = asked.membership.version if asked is not None else ""
        self.clients.join(client)
        self.clients.subscribe(client, wish)
        if not self._quiet():
            return
        self._check()
        if not self.ledger.violations:
            self._check_audit(client, wish, before)

    def _check_audit(self, client: MqttClient, wish: PastWish, before: str) -> None:
        core = self.world.nodes[client.broker].core
        assert core is not None
        assert core.interest.tree is not None
        covering = [
            (hops, topics)
            for topics, (hops, _) in nearest(self.world, core.interest.tree, client.broker).items()
            if topic_covers(topics, wish.filter.topic)
        ]
        episode = self.ledger.episodes[client.id, wish.text][-1]
        marker, asked_at = episode.marker, episode.first_asked
        assert marker is not None, "that is what quiet means"
        if covering:
            hops, last = min(covering)[0], wish.stretch.last if wish.stretch is not None else 0
            if last and marker.events > last + self.ledger.published_since(asked_at, wish.filter):
                self.ledger.violate(
                    "audit", f"{client.id} at {client.broker}: {marker}; the last {last} were asked for"
                )
            excused = self.world.settings.outbox_max < ROOM and "missed" in marker.problem  # and says so
            changed_at = max(self.ledger.crashed_at, self.moves.assigned_at)  # some faults and moves come late
            near = marker.hops == hops or changed_at >= asked_at or core.membership.version != before
            # What live events were let go of for is asked for again, perhaps at another store that is as near.
            tree = core.interest.tree
            one = len(marker.stores) == 1 or all(tree.hops(client.broker, store) == hops for store in marker.stores)
            if not (marker.complete or excused) or not one or not near:
                self.ledger.violate("audit", f"{client.id} at {client.broker}: {marker}; a store is {hops} hops away")

    # -- what clients do ---------------------------------------------------------------------------------------------

    def _client(self) -> MqttClient:
        return self.random.choice(list(self.clients.clients.values()))

    def _join(self) -> None:
        """A client that comes late."""
        random = self.random
        client = self._new_client(f"c{self._joined}")
        self.clients.join(client)
        families = ["all"] if random.random() < 0.2 else random.sample(("a", "b", "c"), random.choice((0, 1, 1, 1, 2)))
        for family in families:
            past = self._stretch() if random.random() < 0.9 else None
            self.clients.subscribe(client, self._wish(client, random.choice(FAMILIES[family]), past))

    def _new_client(self, id: str) -> MqttClient:
        random = self.random
        self._joined += 1
        version = random.choice((V5, V5, V311))
        expiry_s = random.choice((0, 1, 3, NEVER_S, NEVER_S, NEVER_S, NEVER_S, NEVER_S))
        if version == V311 and expiry_s:
            expiry_s = NEVER_S
        think_us = random.choice((0, 0, 2_000, 50_000))
        return MqttClient(id, random.choice(self.brokers), version, expiry_s, think_us=think_us)

    def _stretch(self) -> Stretch:
        random, now = self.random, self.world.now
        last = random.choice((0, 0, 0, 0, 1, 3, 10, 50))
        if random.random() < 0.2:
            return Stretch(ago_us=random.choice((1, 2, 5, 60)) * SECOND_US, last=last)
        until_us = random.randint(max(1, now - 4 * SECOND_US), now + SECOND_US) if random.random() < 0.2 else 0
        since_us = random.choice((0, 0, random.randint(max(0, now - 5 * SECOND_US), now + 100_000)))
        return Stretch(since_us=since_us, until_us=max(until_us, since_us) if until_us else 0, last=last)

    def _wish(self, client: MqttClient, text: str, stretch: Stretch | None) -> PastWish:
        random, filter = self.random, parse_filter(text)
        options = () if stretch is None else stretch.options()
        if client.version == V5:  # there the content is in a property
            text = text.partition(" ? ")[0]
        if options and (client.version != V5 or random.random() < 0.3):
            text = f"$history/{','.join(f'{name}={value}' for name, value in options)}/{text}"
            options = ()
        return PastWish(text, filter, random.choice((0, 1, 2, 2)), past=options, stretch=stretch)

    def _publish(self) -> None:
        random, client = self.random, self._client()
        topic = random.choice(TOPICS)
        for _ in range(random.choice((1, 1, 1, 2, 6, 25))):
            client.published += 1
            publication = Publication(
                f"{client.id}:{client.published}",
                client.id,
                client.published,
                topic,
                random.choice((0, 1, 2, 2)),
                value=random.randrange(10),
                expiry_s=random.choice((1, 3, 600)) if client.version == V5 and random.random() < 0.05 else None,
            )
            self.clients.publish(client, publication)

    def _change_mind(self) -> None:
        random, client = self.random, self._client()
        wished = [text for text, wish in client.wishes.items() if not wish.leaving]
        if not client.online:
            self.clients.come_back(client)
        elif wished and random.random() < 0.3:
            self.clients.unsubscribe(client, random.choice(wished))
        else:
            self.clients.leave(client, Disconnect() if random.random() < 0.7 else None)

    def _request(self) -> None:
        """A client inside a broker asks."""
        stretch = self._stretch()
        since_us = max(0, self.world.now - stretch.ago_us) if stretch.ago_us else stretch.since_us
        filter = parse_filter(self.random.choice(FAMILIES[self.random.choice(list(FAMILIES))]))
        client = f"{PLAIN}{self.random.choice(self.brokers)}"
        request = self.plain.request(client, Query(filter, since_us, stretch.until_us, stretch.last))
        if request is not None:
            self.questions.asked(request)

    # -- what operators do ---------------------------------------------------------------------------------------------

    def _change_store(self) -> None:
        """A store comes, goes, keeps something else, or moves to another broker."""
        random, nodes = self.random, self.world.nodes
        keepers = [id for id in self.brokers if nodes[id].topics]
        dice = random.random()
        if not keepers or (dice < 0.4 and len(keepers) < 4):
            others = [id for id in self.brokers if id not in keepers]
            self._assign(random.choice(others or keepers), self._classes())
        elif dice < 0.6:
            self._assign(random.choice(keepers), ())
        elif dice < 0.8:
            self._assign(random.choice(keepers), self._classes())
        else:
            old, new = random.choice(keepers), random.choice(self.brokers)
            topics = nodes[old].topics
            self._assign(old, ())
            self._assign(new, topics)

    def _classes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.random.choice(CLASSES) for _ in range(self.random.choice((1, 1, 2, 3)))))

    def _assign(self, broker: BrokerId, topics: tuple[str, ...]) -> None:
        self._say(f"{broker} shall keep {', '.join(topics) or 'nothing'}")
        self.moves.assigned(broker, topics)
        self.world.assign(broker, topics)

    def _keeper(self) -> BrokerId | None:
        keepers = [id for id in self.brokers if self.world.nodes[id].topics]
        return self.random.choice(keepers) if keepers else None

    def _store_dies(self, *, keeps_disk: bool = True) -> None:
        broker, time = self._keeper(), self._time()
        if broker is not None:
            self._say(f"fault: the store {broker} dies{'' if keeps_disk else ' and its disk is lost'} for {time} us")
            self.world.crash(broker, keeps_disk=keeps_disk)
            self.world.at(self.world.now + time, self.world.start, broker)

    def _store_is_lost(self) -> None:
        self._store_dies(keeps_disk=False)

    def _store_is_torn(self) -> None:
        """A store dies in the middle of writing."""
        broker = self._keeper()
        if broker is not None:
            self._say(f"fault: the store {broker} dies while it writes")
            self.world.nodes[broker].disk_us = 50_000
            for _ in range(10):
                self.world.at(self.world.now + self.random.randrange(100_000), self._publish)
            self.world.at(self.world.now + self.random.randint(20_000, 150_000), self.world.crash, broker)
            self.world.at(self.world.now + 150_000 + self._time(), self.world.start, broker)

    def _eclipse(self) -> None:
        """A store is cut off for so long that others keep things for it; clients come just when it returns."""
        broker = self._keeper()
        if broker is None:
            return
        time = self.world.settings.hold_us + self.random.choice((300_000, SECOND_US))
        self._say(f"fault: the store {broker} is cut off for {time} us, and clients come")
        self.world.partition([broker], time)
        for _ in range(8):
            self.world.at(self.world.now + time - self.random.randrange(300_000), self._publish)
        for _ in range(4):
            self.world.at(self.world.now + time + self.random.randrange(400_000), self._join)

    def _interrupt(self, tries: int = 200) -> None:
        """A store dies in the middle of an answer; there are questions enough."""
        if tries == 200:
            for offset_us in (0, 1_000, 20_000, 100_000):
                self.world.at(self.world.now + offset_us, self._request)
            self.world.at(self.world.now, self._join)
        for id, node in self.world.nodes.items():
            if node.core is not None and any(stream.sent for stream in node.core.history.store.streams.values()):
                self._say(f"fault: the store {id} dies while it answers")
                self.world.crash(id)
                self.world.at(self.world.now + self._time(), self.world.start, id)
                return
        if tries:
            self.world.at(self.world.now + 5_000, self._interrupt, tries - 1)

    def _store_is_trimmed(self) -> None:
        broker = self._keeper()
        if broker is not None:
            before_us = max(0, self.world.now - self.random.randrange(5 * SECOND_US))
            self._say(f"fault: the store {broker} lets go of what is older than {before_us} us")
            self.ledger.learn(self.world.nodes[broker].disk)
            self.world.trim(broker, before_us)


def _draw_limits(random: Random) -> SessionLimits:
    return SessionLimits(
        receive_maximum=random.choice((1, 3, 20, 1024)),
        inflight=random.choice((1, 2, 10, 1024)),
        queue_messages=random.choice((10_000, 10_000, 4, 8, 30)),
    )
