"""Both paths deliver the same: a story told to a broker with the fast path and to one without it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.messages.mqtt import (
    NONE,
    V5,
    V311,
    Connack,
    Packet,
    Pingreq,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Request,
    Subscribe,
    Unsubscribe,
)
from latecomer.runtime import connection as connection_module
from latecomer.runtime.disk import Durability
from latecomer.wire.mqtt import encode
from tests.unit.fastpath_hand import Caller, House

CLIENTS = 4
TOPICS = ("a", "a/b", "a/c", "b", "long/" + "x" * 130)
FILTERS = ("#", "a/#", "+", "a/+", "a/b", "b", "long/#", "nobody")


@dataclass(frozen=True)
class Person:
    version: int
    durable: bool
    receive_maximum: int


@dataclass(frozen=True)
class Subscribes:
    who: int
    filter: str
    qos: int
    no_local: bool
    id: int


@dataclass(frozen=True)
class Unsubscribes:
    who: int
    filter: str


@dataclass(frozen=True)
class Publishes:
    """A burst, and where its bytes are cut."""

    who: int
    messages: tuple[tuple[str, int, bool, bool], ...]
    """Topic, QoS, retained, with properties."""
    cuts: tuple[int, ...]
    ping: bool


@dataclass(frozen=True)
class Acknowledges:
    """Some of what came, in some order."""

    who: int
    order: tuple[int, ...]


@dataclass(frozen=True)
class Reconnects:
    who: int


@dataclass(frozen=True)
class Commits:
    pass


Step = Subscribes | Unsubscribes | Publishes | Acknowledges | Reconnects | Commits

who = st.integers(0, CLIENTS - 1)
rarely = st.sampled_from([False] * 19 + [True])
messages = st.tuples(st.sampled_from(TOPICS), st.sampled_from([0, 0, 0, 1, 1, 1, 1, 2]), rarely, rarely)
bursts = st.builds(
    Publishes,
    who,
    st.lists(messages, min_size=3, max_size=10).map(tuple),
    st.lists(st.integers(1, 400), max_size=3).map(tuple),
    st.booleans(),
)
subscribes = st.builds(
    Subscribes, who, st.sampled_from(FILTERS), st.sampled_from([0, 1, 1, 2]), rarely, rarely.map(lambda yes: 7 * yes)
)
steps = st.one_of(
    bursts,
    bursts,
    bursts,
    subscribes,
    st.builds(Unsubscribes, who, st.sampled_from(FILTERS)),
    st.builds(Acknowledges, who, st.lists(st.integers(0, 50), max_size=8).map(tuple)),
    st.builds(Reconnects, who),
    st.just(Commits()),
)
stories = st.tuples(st.lists(subscribes, min_size=2, max_size=6), st.lists(steps, min_size=3, max_size=15)).map(
    lambda two: [*two[0], *two[1]]
)


def people(receive_maximum: st.SearchStrategy[int]) -> st.SearchStrategy[list[Person]]:
    person = st.builds(
        Person, st.sampled_from([V5, V311]), st.sampled_from([False, False, False, True]), receive_maximum
    )
    return st.lists(person, min_size=CLIENTS, max_size=CLIENTS)


@dataclass
class Role:
    """One client of the story: what it said and heard, on all its connections."""

    person: Person
    name: str
    caller: Caller
    packet_id: int = 0
    spoken: int = 0
    owed: list[Packet] = field(default_factory=list)
    """Deliveries it has not answered, and QoS 2 packets of its own that must be released."""
    open: dict[int, None] = field(default_factory=dict)
    """Packet ids of deliveries under way on this connection."""
    publications: list[Publish] = field(default_factory=list)
    answers: list[Packet] = field(default_factory=list)

    def hear(self) -> bool:
        """Take what came; whether there was anything."""
        packets = self.caller.listen()
        for packet in packets:
            if isinstance(packet, Publish):
                self.publications.append(packet)
                if packet.qos:
                    assert packet.packet_id not in self.open or packet.dup, "a packet id in use was used"
                    self.open[packet.packet_id] = None
                    self.owed.append(packet)
                    assert len(self.open) <= self.person.receive_maximum  # [MQTT-3.3.4-9]
            elif isinstance(packet, (Pubrec, Pubrel)):
                self.owed.append(packet)
                self.answers.append(packet)
            else:
                self.answers.append(packet)
        return bool(packets)

    def answer(self, packet: Packet) -> None:
        self.owed.remove(packet)
        if isinstance(packet, Pubrec):
            if packet.reason < 0x80:
                self.caller.say(Pubrel(packet.packet_id))
        elif isinstance(packet, Pubrel):
            self.open.pop(packet.packet_id, None)
            self.caller.say(Pubcomp(packet.packet_id))
        elif isinstance(packet, Publish) and packet.qos == 1:
            self.open.pop(packet.packet_id, None)
            self.caller.say(Puback(packet.packet_id))
        elif isinstance(packet, Publish):
            self.caller.say(Pubrec(packet.packet_id))


class Stage:
    """A broker and the roles, as the story goes on."""

    def __init__(self, persons: list[Person], *, fast: bool, patient: bool) -> None:
        durability = Durability.NONE if patient else Durability.POWER
        self.house = House(fast=fast, durability=durability, inflight=60_000 if patient else 4)
        self.roles: list[Role] = []
        for number, person in enumerate(persons):
            name = f"c{number}"
            self.roles.append(Role(person, name, self._connect(person, name)))
        self.house.commit()
        self.hear()

    def _connect(self, person: Person, name: str) -> Caller:
        properties = NONE
        if person.version == V5:
            properties = Properties(
                session_expiry_s=1000 if person.durable else None, receive_maximum=person.receive_maximum
            )
        return self.house.caller(name, person.version, clean_start=not person.durable, properties=properties)

    def hear(self) -> bool:
        return any(role.hear() for role in self.roles)

    async def settle(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        self.hear()

    async def play(self, step: Step) -> None:
        match step:
            case Subscribes():
                role = self.roles[step.who]
                v5 = role.person.version == V5
                properties = Properties(subscription_ids=(step.id,)) if v5 and step.id else NONE
                request = Request(step.filter, step.qos, step.no_local and v5)
                role.packet_id += 1
                role.caller.say(Subscribe(role.packet_id, (request,), properties))
            case Unsubscribes():
                role = self.roles[step.who]
                role.packet_id += 1
                role.caller.say(Unsubscribe(role.packet_id, (step.filter,)))
            case Publishes():
                await self._publish(step)
            case Acknowledges():
                role = self.roles[step.who]
                for choice in step.order:
                    if role.owed:
                        role.answer(role.owed[choice % len(role.owed)])
            case Reconnects():
                role = self.roles[step.who]
                role.caller.lose()
                role.owed.clear()
                role.open.clear()
                role.caller = self._connect(role.person, role.name)
            case Commits():
                self.house.disk.commit()
        await self.settle()

    async def _publish(self, step: Publishes) -> None:
        role = self.roles[step.who]
        data = b""
        for topic, qos, retain, extras in step.messages:
            role.spoken += 1
            if qos:
                role.packet_id += 1
            v5 = role.person.version == V5
            properties = Properties(content_type="x") if extras and v5 else NONE
            payload = f"{role.name} {role.spoken}".encode()
            packet = Publish(topic, payload, qos, retain, False, role.packet_id if qos else 0, properties)
            data += encode(packet, role.person.version)
        if step.ping:
            data += encode(Pingreq(), role.person.version)
        before = 0
        for cut in sorted(cut % len(data) for cut in step.cuts):
            role.caller.say_bytes(data[before:cut])
            before = cut
        role.caller.say_bytes(data[before:])

    async def end(self) -> None:
        """Everybody answers everything, until nothing more comes."""
        quiet = 0
        while quiet < 3:
            self.house.commit()
            await self.settle()
            quiet += 1
            for role in self.roles:
                while role.owed:
                    role.answer(role.owed[0])
                    quiet = 0
            if self.hear():
                quiet = 0
        for role in self.roles:
            connection, session = role.caller.connection, self.house.core.sessions.by_client[role.name]
            assert connection.session is session
            assert not connection.ranges
            assert not connection.waiters
            assert connection.waits_for is None
            assert not role.caller.transport.paused
            assert (connection.held, session.leased, session.leased_from) == (0, 0, 0)
            assert not session.inflight
            assert not session.queue
            assert not session.backlog
            assert session.queue_bytes == 0
        self.house.stop()


def told(persons: list[Person], story: list[Step], *, fast: bool, patient: bool) -> list[Role]:
    async def tell() -> list[Role]:
        stage = Stage(persons, fast=fast, patient=patient)
        for step in story:
            await stage.play(step)
        await stage.end()
        return stage.roles

    return asyncio.run(tell())


def by_publisher(role: Role) -> dict[tuple[bytes, bool], list[tuple[object, ...]]]:
    """What came from whom, but for the numbers that depend on what came in between. QoS 0 does not wait for the
    acknowledgements of what went before it [MQTT-3.3.4-10], and may so overtake it."""
    found: dict[tuple[bytes, bool], list[tuple[object, ...]]] = {}
    for packet in role.publications:
        key = (packet.payload.split()[0], packet.qos > 0)
        what = (packet.topic, packet.payload, packet.qos, packet.retain, packet.properties)
        found.setdefault(key, []).append(what)
    return found


@settings(max_examples=150)
@given(people(st.just(60_000)), stories)
def test_both_paths_say_the_same(persons: list[Person], story: list[Step]) -> None:
    """Packet by packet, with the same packet ids; answers and deliveries apart, for a run is answered as one."""
    quick = told(persons, story, fast=True, patient=True)
    plain = told(persons, story, fast=False, patient=True)
    for one, other in zip(quick, plain, strict=True):
        assert one.publications == other.publications
        assert one.answers == other.answers


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that holds publishers up is given a moment, not a quarter of a second."""
    monkeypatch.setattr(connection_module, "PATIENCE_S", 0.0)


@settings(max_examples=150)
@pytest.mark.usefixtures("impatient")
@given(st.data())
def test_both_paths_keep_the_same_promises_when_receivers_and_disk_are_slow(data: st.DataObject) -> None:
    """Small receive maxima and commits that take their time: each gets the same from each, in the same order."""
    persons = data.draw(people(st.integers(1, 4)))
    persons = [person if person.version == V5 else replace(person, receive_maximum=4) for person in persons]
    story = [step for step in data.draw(stories) if not isinstance(step, (Reconnects, Unsubscribes))]
    quick = told(persons, story, fast=True, patient=False)
    plain = told(persons, story, fast=False, patient=False)
    for one, other in zip(quick, plain, strict=True):
        assert one.answers[0] == other.answers[0]
        assert isinstance(one.answers[0], Connack)
        assert by_publisher(one) == by_publisher(other)
        assert sorted(map(repr, one.answers)) == sorted(map(repr, other.answers))
