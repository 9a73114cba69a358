"""Lives in which clients and operators act at the very moment at which a hand-over is in a state that does not last.

Left to themselves most states of a hand-over are over within a round trip, and whatever else may happen in them hardly
ever does. Here somebody waits for the n-th frame of some kind about a client, or for a lost tree, and then acts, as any
client or operator may: at either of the two brokers, or elsewhere. What is done then is nothing that lives do not know
otherwise, but for operators who end sessions and take promises back.

Drawn from random numbers of their own, so that lives without such moments are what they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from latecomer.core.inputs import MoveWanted, ReleaseWanted, SessionEnded
from latecomer.core.session.limits import SessionLimits
from latecomer.core.settings import BrokerSettings
from latecomer.messages.hand_over import Ask, Here, Rows, Taken
from latecomer.messages.link import LinkMessage
from latecomer.messages.mqtt import V5, Disconnect
from latecomer.model.ids import BrokerId, ClientId
from latecomer.model.record import Kind, Record
from latecomer.model.topics import topic_matches
from latecomer.sim.mqtt_chaos import TOPICS
from latecomer.sim.mqtt_clients import MqttClient, Publication
from latecomer.sim.sides import Observer
from latecomer.sim.wander_clients import WanderClients, Wanderer
from latecomer.sim.world import World

LIVES = 0.35
"""How likely a life is one of these."""
LAPSES = 0.5
"""How likely somebody acts when a tree is lost in which a session was on its way."""
DELAYS_US = (0, 0, 100, 1_000, 5_000, 20_000)
AWAY_US = (600_000, 2_500_000, 6_000_000)
"""How long a broker is away that goes at such a moment."""
FLOOD = 16
"""Publications of a flood: more than some queues take."""
FLOODS_MAX, SLOW_FLOODS_MAX = 800, 120
"""Publications of all floods of a round, and where each origin has one event under way at a time: more could not be
worked off in the time in which a network must become quiet."""

GRANT, GIVEN_BACK, WITH_DIGEST, OF_TWO = "grant", "taken no", "ask with a digest", "here of two"
"""Frames that have the name of another one for its type."""


class Recipe(NamedTuple):
    """What is done at which moment."""

    frame: str
    act: str
    place: str
    """Where: at the broker the frame comes `from`, at that which it goes `to`, or at `any`."""


RECIPES = (
    *(Recipe("Standing", "flood", "to"),) * 4,
    *(Recipe("Ask", "flood", "from"),) * 2,
    *(Recipe(WITH_DIGEST, "flood", "from"),) * 3,
    *(Recipe("Rows", "flood", "to"),) * 3,
    *(Recipe("Standing", "begin anew", "to"),) * 2,
    *(Recipe("Standing", "begin briefly", "any"),) * 3,
    *(Recipe("Rows", "begin briefly", "any"),) * 2,
    *(Recipe("Attached", "bring", "from"),) * 4,
    *(Recipe("End", "move", "to"),) * 3,
    *(Recipe("End", "move and cut", "to"),) * 3,
    *(Recipe(GRANT, "go and begin anew", "to"),) * 6,
    *(Recipe(GRANT, "go and release", "to"),) * 4,
    *(Recipe(GIVEN_BACK, "release", "to"),) * 2,
    *(Recipe("Here", "end", "from"),) * 2,
    *(Recipe(frame, "end", place) for frame in ("Standing", "Rows", GRANT) for place in ("from", "to")),
    *(Recipe("Ask", act, "any") for act in ("come", "begin anew", "move", "leave")),
    *(Recipe("Standing", act, "any") for act in ("come", "begin anew", "move", "leave")),
    *(Recipe("Rows", act, "any") for act in ("come", "begin anew", "move", "leave")),
    *(Recipe(GRANT, act, "any") for act in ("come", "begin anew", "move", "leave")),
    *(Recipe("Attached", act, "any") for act in ("come", "begin anew", "move", "end")),
)
OFTEN = {
    OF_TWO: (0.5, (Recipe(OF_TWO, "move", "from"), Recipe(OF_TWO, "move and cut", "from"))),
    "Attached": (0.8, (Recipe("Attached", "crowd", "from"),)),
    "Standing": (0.15, (Recipe("Standing", "flood", "to"),)),
}
"""Moments of which nobody waits for the n-th: how likely each is used."""
AT_LAPSES = ("begin anew", "begin anew", "begin anew", "come", "move", "end", "end", "elsewhere")
"""What is done where a session was on its way in a tree that is lost."""


@dataclass(slots=True)
class _Moment:
    """Waits for the n-th frame of a kind."""

    recipe: Recipe
    count: int


@dataclass(slots=True)
class Moments(Observer):
    """All moments of a life; an observer of its world."""

    random: Random
    world: World
    clients: WanderClients
    say: Callable[[str], None]
    part: Callable[[ClientId], None]
    """Nothing is promised about a client until the network is whole."""
    ended: Callable[[ClientId], None]
    """An operator ends its session."""
    released: Callable[[ClientId], None]
    """An operator takes the promise of its session back."""
    go: Callable[[BrokerId, int], None]
    """A broker goes away for a while."""
    armed: list[_Moment] = field(default_factory=list)
    left: int = 0
    """So much may still be published in floods of this round."""
    crowds: dict[ClientId, ClientId] = field(default_factory=dict)
    """Clients on their way to the home of a visitor, which publishes what they want at each step of that way."""
    came: Counter[Recipe] = field(default_factory=Counter)

    def arm(self) -> None:
        """A round of a life begins."""
        slow = self.world.settings.link_max <= len(self.world.nodes)
        self.left = SLOW_FLOODS_MAX if slow else FLOODS_MAX
        for _ in range(self.random.choice((8, 16, 30))):
            self.armed.append(_Moment(self.random.choice(RECIPES), self.random.choice((1, 1, 2, 3, 5, 8))))

    def disarm(self) -> None:
        self.armed.clear()
        self.crowds.clear()

    # -- what is waited for ------------------------------------------------------------------------------------------

    def sent(self, now: int, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        if not self.clients.hasty:
            return
        for frame in frames:
            id = str(getattr(frame, "client", ""))
            if id not in self.clients.clients or getattr(frame, "from_broker", "") != sender:
                continue  # on the first link of its way
            names = _names(frame)
            if id in self.crowds and names[0] in ("Ask", "Standing", "Rows"):
                self.world.at(now, self._flood, self.clients.clients[id], [self.crowds[id]])
            likely, recipes = OFTEN.get(names[-1], (0.0, ()))
            if recipes and self.random.random() < likely:
                self._comes(self.random.choice(recipes), id, frame)
            for moment in [moment for moment in self.armed if moment.recipe.frame in names]:
                moment.count -= 1
                if not moment.count:
                    self.armed.remove(moment)
                    self._comes(moment.recipe, id, frame)

    def _comes(self, recipe: Recipe, id: ClientId, frame: LinkMessage) -> None:
        ends = {"from": str(getattr(frame, "from_broker", "")), "to": str(getattr(frame, "to", ""))}
        place = ends.get(recipe.place) or self.random.choice(self.clients.brokers)
        delay_us = self.random.choice(DELAYS_US)
        self.came[recipe] += 1
        self.say(f"moment: {recipe.act} at {place} for {id}, {delay_us} us after {recipe.frame}")
        self.world.at(self.world.now + delay_us, self._act, recipe.act, id, place, (ends["from"], ends["to"]))

    def noted(self, record: Record) -> None:
        if record.kind is Kind.TREE_ADOPTED and self.clients.hasty:
            self.world.at(self.world.now, self._lapsed, record.broker)
        elif record.kind is Kind.TREE_READY and self.clients.hasty:
            self.world.at(self.world.now, self._two, record.broker)

    def _lapsed(self, broker: BrokerId) -> None:
        core, random = self.world.nodes[broker].core, self.random
        if core is None:
            return
        for id in list(core.mobility.departures.lapsing):
            if id not in self.clients.clients:
                continue
            if (having := self._having(id, broker)) and random.random() < 0.8:
                # It is told to end when the tree is there, and may end when everything from before has arrived.
                self._flood(self.clients.clients[id], self._served_at(random.choice((broker, having)), id))
            elif random.random() < LAPSES:
                act, delay_us = random.choice(AT_LAPSES), random.choice(DELAYS_US)
                self.say(f"moment: {act} at {broker} for {id}, {delay_us} us after its tree was lost")
                place = random.choice(self.clients.brokers) if act == "elsewhere" else broker
                self.world.at(self.world.now + delay_us, self._act, act, id, place, (broker, place))

    def _two(self, broker: BrokerId) -> None:
        """Of two sessions of a client one may be on its way when it is told to end, or when it may at last."""
        core = self.world.nodes[broker].core
        for session in () if core is None else list(core.sessions.by_client.values()):
            id, having = session.client, self._having(session.client, broker)
            if having and not session.connection and id in self.clients.clients and self.random.random() < 0.5:
                act = self.random.choice(("move", "move and cut"))
                self.say(f"moment: {act} at {broker} for {id}, which has another session, in a new tree")
                self._act(act, id, broker, (broker, having))

    def _having(self, id: ClientId, broker: BrokerId) -> BrokerId:
        """Another broker that has a session of a client; empty: none."""
        cores = {other: node.core for other, node in self.world.nodes.items() if other != broker}
        return next((other for other, core in cores.items() if core and id in core.sessions.by_client), "")

    # -- what is done ------------------------------------------------------------------------------------------------

    def _act(self, act: str, id: ClientId, place: BrokerId, ends: tuple[BrokerId, BrokerId]) -> None:
        """`ends`: the brokers between which the frame goes."""
        client = self.clients.clients.get(id)
        if not self.clients.hasty or not isinstance(client, Wanderer):
            return  # nothing goes wrong any more when everything is healed
        if act in ("come", "elsewhere"):
            self._come(client, place)
        elif act == "begin anew":
            self._begin_anew(client, place)
        elif act == "begin briefly":
            self._begin_briefly(client, place)
        elif act == "leave":
            self.clients.leave(client, self.random.choice((None, Disconnect())))
            self.world.at(self.world.now + self.random.choice(DELAYS_US), self.clients.come_back, client)
        elif act == "flood":
            self._flood(client, self._served_at(place, id))
        elif act == "crowd":
            self._crowd(client, place)
        elif act in ("move", "move and cut"):
            self._move(client, place, self._near(place, ends), cut=act == "move and cut")
        elif act == "bring":
            self._move(client, place, ends[1])
        elif act == "end":
            self._end(client, place)
        elif act == "release":
            self._release(id, place)
        else:
            self._goes(act, client, place, ends)

    def _goes(self, act: str, client: Wanderer, place: BrokerId, ends: tuple[BrokerId, BrokerId]) -> None:
        """The new broker goes away, and the old one does not know whether it has taken the session."""
        self.go(place, self.random.choice(AWAY_US))
        wait_us = self.random.choice((5_000, 100_000, 500_000))
        then = "release" if act == "go and release" else "begin anew"
        self.world.at(self.world.now + wait_us, self._act, then, client.id, ends[0], ends)

    def _come(self, client: Wanderer, place: BrokerId) -> None:
        client.bound_for = place
        self.clients.hop(client)

    def _begin_anew(self, client: Wanderer, place: BrokerId) -> None:
        """An older client would get a session that ends with its connection."""
        if client.durable and client.version == V5 and not client.watched:
            client.fresh = True
            self._come(client, place)

    def _begin_briefly(self, client: Wanderer, place: BrokerId) -> None:
        """A session that ends with its connection is served at once, wherever the last one is. If that cannot be told
        so before the client is back, it is given either of two."""
        if client.durable and client.version != V5 and not client.watched:
            self.part(client.id)
            client.fresh = True
            self._come(client, place)

    def _served_at(self, place: BrokerId, id: ClientId) -> list[ClientId]:
        """Other clients whose sessions are at a broker and connected: only those through a tunnel, or all."""
        core = self.world.nodes[place].core
        sessions = () if core is None else core.sessions.by_client.values()
        connected = [session for session in sessions if session.connection and session.client != id]
        visitors = [session.client for session in connected if session.connection < 0]
        return visitors if visitors and self.random.random() < 0.7 else [session.client for session in connected]

    def _flood(self, client: MqttClient, publishers: Sequence[ClientId]) -> None:
        """They publish, as fast as they may, what the session of another one wants, which is about to come."""
        topics = _topics_of(client) if self.clients.hasty else []
        for id in publishers if topics else ():
            publisher = self.clients.clients.get(id)
            if publisher is None or len(publisher.waiting) > FLOOD or self.left <= 0:
                continue
            self.left -= FLOOD // min(len(publishers), 4)
            for _ in range(FLOOD // min(len(publishers), 4)):
                publisher.published += 1
                token, topic = f"{id}:{publisher.published}", self.random.choice(topics)
                qos = self.random.choice((1, 1, 2))
                self.clients.publish(publisher, Publication(token, id, publisher.published, topic, qos, value=9))

    def _crowd(self, visitor: Wanderer, home: BrokerId) -> None:
        """Another client comes to the home of a visitor, which publishes what that one wants."""
        core = self.world.nodes[home].core
        there = {} if core is None else core.sessions.by_client
        others = [
            other
            for other in self.clients.clients.values()
            if isinstance(other, Wanderer) and other.id not in there and other.hand_over != "home-broker"
            if other is not visitor and other.durable and _topics_of(other)
        ]
        if others:
            random, now = self.random, self.world.now
            other, wait_us = random.choice(others), random.choice((0, 5_000, 30_000, 100_000))
            if random.random() < 0.5:  # much waits for its turn there, and the other one for that
                self._flood(other, [visitor.id])
                self._flood(visitor, [other.id])  # it is granted its session when these are done
            self.world.at(now + wait_us, self._act, "come", other.id, home, (home, home))
            self.crowds[other.id] = visitor.id

    # -- operators ---------------------------------------------------------------------------------------------------

    def _tell(self, place: BrokerId, wanted: MoveWanted | SessionEnded | ReleaseWanted) -> None:
        if self.world.nodes[place].core is not None:
            self.world.tell(place, wanted)

    def _move(self, client: Wanderer, place: BrokerId, to: BrokerId, *, cut: bool = False) -> None:
        """An operator wants a session elsewhere; a link of its broker may break when it is on its way."""
        client.bound_for = to
        self._tell(place, MoveWanted(client.id, to))
        if cut and (peers := list(self.world.nodes[place].neighbours)):  # operators may have taken the last one away
            peer = self.random.choice(peers)
            after_us, time_us = self.random.choice((500, 5_000, 25_000)), self.random.choice((10_000, 400_000))
            self.world.at(self.world.now + after_us, self.world.break_wire, place, peer, time_us)

    def _near(self, place: BrokerId, ends: tuple[BrokerId, BrokerId]) -> BrokerId:
        """A broker to which a session is on its way soon, perhaps before the answer to a frame is here."""
        near = [peer for peer in self.world.nodes[place].neighbours if peer not in ends]
        return self.random.choice(near if near and self.random.random() < 0.7 else self.clients.brokers)

    def _end(self, client: Wanderer, place: BrokerId) -> None:
        """An operator ends a session."""
        core = self.world.nodes[place].core
        if core is not None and client.id in core.sessions.by_client and client.durable:
            self.ended(client.id)
            self._tell(place, SessionEnded(client.id, "moved by a moment"))

    def _release(self, id: ClientId, place: BrokerId) -> None:
        """An operator takes a promise back, having made sure that the other broker neither has the session nor can take
        it any more."""
        core = self.world.nodes[place].core
        promise = None if core is None else core.mobility.departures.promises.get(id)
        if promise is None:
            return
        node = self.world.nodes[promise.attempt.broker]
        if node.core is not None:
            arrivals = node.core.mobility.arrivals
            may_have = promise.attempt in arrivals.taken or arrivals.of(promise.attempt, id) is not None
        else:
            may_have = str(promise.attempt) in node.disk.tables.get("taken", {}).get("", {})
        if not may_have:
            self.released(id)
            self._tell(place, ReleaseWanted(id))


class MomentLives:
    """What is drawn for one life."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"{seed} moments")
        self.on = self.random.random() < LIVES
        self._short = self.on and self.random.random() < 0.6
        self.goes_on = self.on and self.random.random() < 0.4
        """Clients that say nothing do not wait for brokers that are away."""
        self.homely = self.on and self.random.random() < 0.6
        """Some sessions stay at home."""

    def strands(self) -> int:
        """How many clients go on elsewhere while their brokers are away, beside those of all lives."""
        return self.random.choice((0, 2, 4)) if self.on else 0

    def settings(self, settings: BrokerSettings, brokers: int) -> BrokerSettings:
        """One event of each origin at a time: much waits for its turn when trees change, and sessions for that."""
        slow = self.on and self.random.random() < 0.4
        return replace(settings, link_max=brokers) if slow else settings

    def limits(self, limits: SessionLimits) -> SessionLimits:
        """Queues that a flood fills, and publishers that need not wait for answers."""
        if not self._short:
            return limits
        return replace(
            limits, queue_messages=self.random.choice((4, 4, 6, 12)), receive_maximum=self.random.choice((20, 1024))
        )


def _topics_of(client: MqttClient) -> list[str]:
    """What a client wants, not in a group."""
    filters = [wish.filter.topic for wish in client.wishes.values() if not wish.group]
    return [topic for topic in TOPICS if any(topic_matches(filter, topic) for filter in filters)]


def _names(frame: LinkMessage) -> tuple[str, ...]:
    name = type(frame).__name__
    if isinstance(frame, Rows) and frame.grant is not None:
        return (name, GRANT)
    if isinstance(frame, Taken) and not frame.yes:
        return (name, GIVEN_BACK)
    if isinstance(frame, Ask) and frame.digest:
        return (name, WITH_DIGEST)
    if isinstance(frame, Here) and frame.ends:
        return (name, OF_TWO)
    return (name,)
