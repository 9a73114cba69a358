"""No effect that fails takes along the others: each kind is broken once, beside effects for other clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from latecomer.core.effects import (
    Accept,
    Answer,
    Attach,
    CarryOut,
    Close,
    Deliver,
    Disconnect,
    Effect,
    Lookup,
    Note,
    Persist,
    Put,
    Read,
    Refuse,
    Report,
    Send,
    Spread,
    Survey,
    Transmit,
)
from latecomer.core.inputs import CarriedOut, Found, Input, MqttLost, RulesChanged, Surveyed, Woken
from latecomer.messages.link import Alive, Run
from latecomer.messages.mqtt import V5, V311, Connack, Connect, Pingresp, Properties, Publish, Request, Subscribe
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from latecomer.model.ids import EventId
from latecomer.model.record import Kind, Record
from latecomer.runtime import alarms as alarms_module
from latecomer.runtime import driver as driver_module
from latecomer.runtime.disk import Durability
from latecomer.wire.mqtt import encode
from tests.unit.fastpath_hand import Caller, House

EVENT = Event(EventId("a", 1, 1), "t")


def fail(*_: object) -> None:
    raise RuntimeError("broken on purpose")


def record(detail: str) -> Record:
    return Record(0, "a", Kind.CONNECTED, "a.1#1", detail=detail)


@dataclass
class Stage:
    """A broker with a client whom something breaks for, another one, a neighbour, a store, an event log and operators;
    the core orders what it is told to."""

    house: House
    victim: Caller
    other: Caller
    sent: list[str] = field(default_factory=list)
    """Neighbours that got frames."""
    given_up: list[tuple[str, int]] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)
    facts: list[Input] = field(default_factory=list)
    """What the core was told by whoever made up for the failure."""
    orders: list[Effect] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)

    @classmethod
    def make(cls, durability: Durability) -> Stage:
        house = House(durability=durability)
        victim, other = house.caller("victim", V5), house.caller("other", V5)
        house.commit()
        victim.listen(), other.listen()
        stage = cls(house, victim, other)
        driver = house.driver
        driver.links = cast(Any, SimpleNamespace(send=stage.send, disconnect=stage.send, give_up=stage.give_up))
        driver.journal = cast(Any, SimpleNamespace(note=stage.note, dropped=0))
        driver.errands = cast(Any, SimpleNamespace(carry_out=stage.noop, report=stage.noop))
        driver._perform_table |= {Lookup: stage.noop, Survey: stage.noop}
        driver.failed = stage.failures.append
        cast(Any, house.core).step = stage.step
        return stage

    def noop(self, *_: object) -> None: ...

    def send(self, peer: str, *_: object) -> None:
        self.sent.append(peer)

    def give_up(self, peer: str, number: int) -> None:
        self.given_up.append((peer, number))

    def note(self, record: Record) -> None:
        self.noted.append(record.detail)

    def step(self, now: int, fact: Input) -> list[Effect]:
        if not isinstance(fact, RulesChanged):
            self.facts.append(fact)
            return []
        orders, self.orders = self.orders, []
        return orders

    def order(self, *effects: Effect) -> None:
        self.orders = list(effects)
        self.house.driver.tell(RulesChanged())
        self.house.commit()


@dataclass(frozen=True)
class Breakage:
    """How an effect is broken, and what must follow."""

    effect: Callable[[Stage], Effect]
    break_it: Callable[[Stage], object]
    made_up: Callable[[Stage], bool]


def victim_is_gone(stage: Stage) -> bool:
    """Its connection has ended, so its session resumes with the next one."""
    return stage.victim.transport.closed


def driver_of(stage: Stage) -> Any:
    return stage.house.driver


def break_write(stage: Stage) -> None:
    cast(Any, stage.victim.connection).write = fail


def break_attach(stage: Stage) -> None:
    connection = cast(Any, stage.victim.connection)
    connection.seeking, connection.attach = True, fail


def break_close(stage: Stage) -> None:
    transport = cast(Any, stage.victim.transport)
    transport.close = fail


def break_pause(stage: Stage) -> None:
    cast(Any, stage.victim.connection).pause = fail


def nothing(stage: Stage) -> bool:
    return True


QUERY = Query(Filter("t"), 0, 1)
BREAKAGES: dict[type, Breakage] = {
    Attach: Breakage(lambda s: Attach(s.victim.connection.id), break_attach, victim_is_gone),
    Transmit: Breakage(lambda s: Transmit(s.victim.connection.id, [Pingresp()]), break_write, victim_is_gone),
    Close: Breakage(lambda s: Close(s.victim.connection.id, "enough"), break_close, victim_is_gone),
    Read: Breakage(lambda s: Read(s.victim.connection.id, False), break_pause, victim_is_gone),
    Send: Breakage(
        lambda s: Send("b", 7, [Alive(0)]),
        lambda s: setattr(driver_of(s).links, "send", lambda peer, *_: fail() if peer == "b" else s.sent.append(peer)),
        lambda s: s.given_up == [("b", 7)],
    ),
    Disconnect: Breakage(
        lambda s: Disconnect("b", 7, "enough"),
        lambda s: setattr(driver_of(s).links, "disconnect", fail),
        lambda s: s.given_up == [("b", 7)],
    ),
    Spread: Breakage(
        lambda s: Spread("b", Run("b", "p", encode(Publish("t", b"1"), V311))),
        lambda s: setattr(driver_of(s).fastpath, "spread", fail),
        nothing,
    ),
    Lookup: Breakage(
        lambda s: Lookup(5, QUERY, 1, 1),
        lambda s: driver_of(s)._perform_table.pop(Lookup),
        lambda s: [(f.token, bool(f.problem)) for f in s.facts if isinstance(f, Found)] == [(5, True)],
    ),
    Survey: Breakage(
        lambda s: Survey(6, "t", 0, 1, 1),
        lambda s: driver_of(s)._perform_table.pop(Survey),
        lambda s: [(f.token, bool(f.problem)) for f in s.facts if isinstance(f, Surveyed)] == [(6, True)],
    ),
    CarryOut: Breakage(
        lambda s: CarryOut("c", 3, b""),
        lambda s: setattr(driver_of(s).errands, "carry_out", fail),
        lambda s: (
            [(f.broker, f.number, bool(f.problem)) for f in s.facts if isinstance(f, CarriedOut)] == [("c", 3, True)]
        ),
    ),
    Report: Breakage(lambda s: Report(9, b""), lambda s: setattr(driver_of(s).errands, "report", fail), nothing),
    Note: Breakage(
        lambda s: Note(record("lost")),
        lambda s: setattr(
            driver_of(s).journal, "note", lambda r: fail() if r.detail == "lost" else s.noted.append(r.detail)
        ),
        lambda s: driver_of(s).journal.dropped == 1,
    ),
    # Clients inside the process: this driver has none, so nobody can perform these.
    Deliver: Breakage(lambda s: Deliver("c", 1, 1, EVENT), nothing, nothing),
    Accept: Breakage(lambda s: Accept("c", 1, EVENT), nothing, nothing),
    Refuse: Breakage(lambda s: Refuse("c", 1, "no"), nothing, nothing),
    Answer: Breakage(lambda s: Answer("c", 1, ()), nothing, nothing),
}
STOPS = {Persist}
"""What must be safe and cannot be made safe stops the broker."""


def test_every_kind_of_effect_is_broken_here() -> None:
    assert set(get_args(Effect)) == set(BREAKAGES) | STOPS


@pytest.mark.parametrize("durability", [Durability.NONE, Durability.POWER])
@pytest.mark.parametrize("kind", list(BREAKAGES), ids=lambda kind: kind.__name__)
def test_an_effect_that_fails_does_not_take_along_the_others(kind: type, durability: Durability) -> None:
    async def story() -> None:
        stage = Stage.make(durability)
        driver, breakage = stage.house.driver, BREAKAGES[kind]
        assert driver.alarms.problem == ""
        breakage.break_it(stage)
        stage.order(
            Persist([Put("t", "", 1, 1)]),
            Transmit(stage.other.connection.id, [Publish("t", b"before")]),
            breakage.effect(stage),
            Transmit(stage.other.connection.id, [Publish("t", b"after")]),
            Send("z", 1, [Alive(0)]),
            Note(record("kept")),
        )
        assert [publish.payload for publish in stage.other.got()] == [b"before", b"after"]
        assert stage.sent == ["z"]
        assert stage.noted == ["kept"]
        assert breakage.made_up(stage)
        assert driver.counters.internal_errors == {kind.__name__.lower(): 1}
        assert kind.__name__.lower() in driver.alarms.problem
        assert stage.failures == []
        assert not stage.other.transport.closed
        stage.order(Transmit(stage.other.connection.id, [Publish("t", b"later")]))
        assert [publish.payload for publish in stage.other.got()] == [b"later"]
        stage.house.stop()

    asyncio.run(story())


def test_what_cannot_be_made_safe_stops_the_broker_and_nothing_of_it_happens() -> None:
    async def story() -> None:
        stage = Stage.make(Durability.POWER)
        cast(Any, stage.house.disk).submit = fail
        stage.order(Persist([Put("t", "", 1, 1)]), Transmit(stage.other.connection.id, [Publish("t", b"no")]))
        assert list(map(str, stage.failures)) == ["broken on purpose"]
        assert stage.other.got() == []
        stage.order(Transmit(stage.other.connection.id, [Publish("t", b"nor this")]))
        assert stage.other.got() == []
        stage.house.stop()

    asyncio.run(story())


@pytest.mark.parametrize("qos", [0, 1])
def test_a_receiver_that_cannot_be_written_to_does_not_hold_back_the_others(qos: int) -> None:
    """On the fast path, which writes without effects."""

    async def story() -> None:
        house = House()
        receivers = [house.caller(name, V311) for name in ("one", "two", "three")]
        for receiver in receivers:
            receiver.say(_subscribe(qos))
        publisher = house.caller("publisher", V311)
        publisher.listen()
        cast(Any, receivers[1].connection).write = fail
        publisher.say(Publish("t", b"first", qos, packet_id=qos), Publish("t", b"second", qos, packet_id=2 * qos))
        for receiver in (receivers[0], receivers[2]):
            assert [publish.payload for publish in receiver.got()] == [b"first", b"second"]
        assert len(publisher.listen()) == 2 * qos
        assert receivers[1].transport.closed
        assert not publisher.transport.closed
        assert house.driver.counters.internal_errors["write"] >= 1
        house.stop()

    asyncio.run(story())


def _subscribe(qos: int) -> Any:
    return Subscribe(1, (Request("t", qos),))


def test_a_timer_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core keeps time by it: without it there are no heartbeats."""
    monkeypatch.setattr(driver_module, "WAKE_AGAIN_S", 0.0)

    async def story() -> None:
        house = House()
        woken = asyncio.Event()
        tries: list[Input] = []

        def step(now: int, fact: Input) -> list[Effect]:
            if isinstance(fact, Woken):
                tries.append(fact)
                if len(tries) == 1:
                    fail()
                woken.set()
            return []

        cast(Any, house.core).step = step
        house.driver._wake()
        await asyncio.wait_for(woken.wait(), 60)
        assert house.driver.counters.internal_errors == {"step": 1}
        house.stop()

    asyncio.run(story())


def test_an_alarm_is_over_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        house = House()
        now = 100.0
        alarms = house.driver.alarms
        alarms.clock = lambda: now
        alarms.ring("send", RuntimeError("broken on purpose"))
        assert "the last one (send) 0 s ago" in alarms.problem
        now += alarms_module.CLEARS_S
        assert alarms.problem == ""
        assert house.driver.counters.internal_errors == {"send": 1}, "what happened stays counted"
        house.stop()

    asyncio.run(story())


class HalfClosed:
    """A transport that takes nothing behind its end, as asyncio's do."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.ended = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def write(self, data: bytes) -> None:
        if self.ended:
            raise RuntimeError("Cannot call write() after write_eof()")
        self.inner.write(data)


@pytest.mark.parametrize(("name", "most"), [("x", 1), ("x", 4), ("x", 5), ("x", 18), ("", 1), ("", 5), ("", 32)])
def test_a_client_that_takes_no_connack_gets_none_and_leaves_nothing_behind(name: str, most: int) -> None:
    """[MQTT-3.1.2-24] It cannot be told anything that is larger than it takes, so its connection ends; no session is
    made, and no other connection of the client id is taken over."""

    async def story() -> None:
        house = House(durability=Durability.POWER)
        before = house.caller("x", V5)
        house.commit()
        assert [type(packet) for packet in before.listen()] == [Connack]
        small = Caller(house, name, V5)
        transport = HalfClosed(small.transport)
        small.connection.transport = cast(Any, transport)
        cast(Any, small.connection).write = transport.write
        small.connection.data_received(_connect(name, most))
        house.commit()
        written = bytes(small.transport.written)
        assert transport.ended
        assert len(written) <= most
        if written:
            assert written[:1] == b"\x20"
            assert written[3] == 0x95  # Packet too large
        assert house.driver.counters.internal_errors == {}
        assert list(house.core.sessions.by_client) == ["x"]
        assert not before.transport.closed
        house.stop()

    asyncio.run(story())


def _connect(name: str, most: int) -> bytes:
    return encode(Connect(name, V5, properties=Properties(maximum_packet_size=most, session_expiry_s=60)), V5)


def test_facts_after_a_failed_one_are_taken() -> None:
    """A connection that is lost while the core fails for another one is still told."""

    async def story() -> None:
        stage = Stage.make(Durability.POWER)
        BREAKAGES[Transmit].break_it(stage)
        stage.order(Transmit(stage.victim.connection.id, [Pingresp()]))
        stage.victim.lose()
        assert [type(fact) for fact in stage.facts] == [MqttLost]
        stage.house.stop()

    asyncio.run(story())
