"""The fast path, example by example: what it serves itself, and what it leaves to the core."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from latecomer.core.inputs import RulesChanged
from latecomer.messages.link import Run
from latecomer.messages.mqtt import (
    V5,
    V311,
    Connack,
    Disconnect,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Reason,
    Request,
    Subscribe,
)
from latecomer.runtime import connection as connection_module
from latecomer.runtime.disk import Durability
from latecomer.runtime.plans import SLOW
from latecomer.wire.mqtt import encode
from tests.unit.fastpath_hand import Caller, House


def in_a_loop(story: Callable[[], None]) -> Callable[[], None]:
    async def told() -> None:
        story()

    def test() -> None:
        asyncio.run(told())

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


def subscriber(house: House, name: str = "s", version: int = V311, *, qos: int = 1, **options: object) -> Caller:
    caller = house.caller(name, version, **options)
    caller.say(Subscribe(1, (Request("t/#", qos),)))
    house.commit()
    caller.listen()
    return caller


def publisher(house: House, version: int = V311) -> Caller:
    caller = house.caller("p", version)
    house.commit()
    caller.listen()
    return caller


def payloads(caller: Caller) -> list[bytes]:
    """Everything that ever came."""
    return [packet.payload for packet in caller.heard if isinstance(packet, Publish)]


def many(count: int, qos: int = 1, first: int = 1) -> list[Publish]:
    return [Publish("t/a", b"%d" % id, qos, packet_id=id if qos else 0) for id in range(first, first + count)]


@in_a_loop
def test_nothing_reaches_the_core_that_it_need_not_see() -> None:
    house = House()
    s, p = subscriber(house), publisher(house)
    steps = house.core.orders.step
    p.say(*many(5), *many(5, 0), Pingreq())
    assert [packet.payload for packet in s.got()] == [b"%d" % n for n in (1, 2, 3, 4, 5, 1, 2, 3, 4, 5)]
    assert p.listen() == [*(Puback(id) for id in range(1, 6)), Pingresp()]
    s.say(*(Puback(id) for id in range(1, 6)))
    assert house.core.orders.step == steps
    assert house.core.sessions.by_client["s"].leased == 0


@in_a_loop
def test_a_run_is_never_larger_than_what_a_receiver_takes() -> None:
    """[MQTT-3.3.4-9], also if nothing is under way; the publisher waits for the acknowledgements."""
    house = House()
    s, p = subscriber(house, version=V5, properties=Properties(receive_maximum=3)), publisher(house)
    p.say(*many(5))
    assert [packet.packet_id for packet in s.got()] == [1, 2, 3]
    assert [packet.packet_id for packet in p.listen() if isinstance(packet, Puback)] == [1, 2, 3]
    assert p.transport.paused
    s.say(Puback(1), Puback(2), Puback(3))
    p.connection._go_on()
    assert [packet.packet_id for packet in s.got()] == [4, 5]
    assert not p.transport.paused


def test_a_receiver_that_makes_no_progress_does_not_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is served by the core, which queues for it alone."""
    monkeypatch.setattr(connection_module, "PATIENCE_S", 0.0)

    async def story() -> None:
        house = House(inflight=2)
        slow, other, p = subscriber(house, "slow"), subscriber(house, "other"), publisher(house)
        p.say(*many(6))
        other.say(*(Puback(packet.packet_id) for packet in other.got()))
        for _ in range(10):
            await asyncio.sleep(0)
        while packets := other.got():
            other.say(*(Puback(packet.packet_id) for packet in packets))
        assert [packet.payload for packet in other.heard if isinstance(packet, Publish)] == [
            b"%d" % n for n in range(1, 7)
        ]
        assert len(p.listen()) == 6
        while packets := slow.got():
            assert len(packets) <= 2
            slow.say(*(Puback(packet.packet_id) for packet in packets))
        assert [packet.payload for packet in slow.heard if isinstance(packet, Publish)] == [
            b"%d" % n for n in range(1, 7)
        ]
        house.stop()

    asyncio.run(story())


@in_a_loop
def test_what_stands_before_a_malformed_packet_is_served_within_the_limits() -> None:
    house = House()
    s, p = subscriber(house, version=V5, properties=Properties(receive_maximum=3)), publisher(house, V5)
    p.say(*many(1))
    p.say_bytes(b"".join(encode(packet, V5) for packet in many(3, first=2)) + b"\x30\xff\xff\xff\xff")
    assert [packet.payload for packet in s.got()] == [b"1", b"2", b"3"]
    last = p.listen()[-1]
    assert isinstance(last, Disconnect)
    assert last.reason == Reason.MALFORMED_PACKET
    s.say(Puback(1), Puback(2), Puback(3))
    assert [packet.payload for packet in s.got()] == [b"4"]


@in_a_loop
def test_nothing_comes_before_the_connack() -> None:
    """[MQTT-3.2.0-1]: while the session is on its way to the disk, others do not write to its connection."""
    house = House(durability=Durability.POWER)
    p = publisher(house)
    options: dict[str, Any] = {"clean_start": False, "properties": Properties(session_expiry_s=100)}
    s = subscriber(house, version=V5, qos=0, **options)
    s.lose()
    house.commit()
    s = house.caller("s", V5, **options)
    p.say(*many(2, 0))
    house.core.step(house.now, RulesChanged())
    assert s.listen() == []
    house.commit()
    packets = s.listen()
    assert isinstance(packets[0], Connack)
    assert [packet.payload for packet in packets[1:] if isinstance(packet, Publish)] == [b"1", b"2"]


@in_a_loop
def test_a_publisher_does_not_overtake_itself() -> None:
    """What follows a publication that waits for the disk waits behind it."""
    house = House(durability=Durability.POWER)
    s, p = subscriber(house, qos=2), publisher(house)
    durable = subscriber(house, "d", V5, properties=Properties(session_expiry_s=100))
    p.say(*many(1, 1))
    p.say(*many(2, 0), Pingreq())
    assert s.listen() == p.listen() == durable.listen() == []
    house.commit()
    assert [packet.payload for packet in s.got()] == [b"1", b"1", b"2"]
    assert p.listen() == [Puback(1), Pingresp()]
    assert p.connection.held == 0


@in_a_loop
def test_nobody_who_wants_it_is_told_to_those_who_understand() -> None:
    """As the core says it: NO_MATCHING_SUBSCRIBERS for MQTT 5."""
    house = House()
    new, old = house.caller("new", V5), house.caller("old", V311)
    for caller in (new, old):
        caller.listen()
        caller.say(*many(2))
    assert new.listen() == [Puback(id, Reason.NO_MATCHING_SUBSCRIBERS) for id in (1, 2)]
    assert old.listen() == [Puback(1), Puback(2)]


@pytest.mark.parametrize("wrong", [Pubrec, Pubcomp])
def test_an_acknowledgement_of_the_wrong_kind_is_the_end(wrong: type[Pubrec] | type[Pubcomp]) -> None:
    """0x82, as the core has it."""

    async def story() -> None:
        house = House()
        s, p = subscriber(house, version=V5), publisher(house)
        p.say(*many(2))
        s.got()
        s.say(wrong(2))
        (goodbye,) = s.listen()
        assert isinstance(goodbye, Disconnect)
        assert goodbye.reason == Reason.PROTOCOL_ERROR

    asyncio.run(story())


@in_a_loop
def test_acknowledgements_in_any_order_and_in_pieces() -> None:
    house = House()
    s, p = subscriber(house), publisher(house)
    p.say(*many(8))
    session = house.core.sessions.by_client["s"]
    assert session.leased == 8
    s.say(Puback(3), Puback(8), Puback(1))
    assert (session.leased, session.leased_from) == (5, 2)
    assert list(s.connection.ranges) == [(2, 2), (4, 7)]
    data = b"".join(encode(Puback(id), V311) for id in (2, 4, 5, 6, 7))
    for at in range(0, len(data), 3):
        s.say_bytes(data[at : at + 3])
    assert (session.leased, session.leased_from) == (0, 0)
    assert not s.connection.ranges
    s.say(Puback(3))  # nothing is known of it any more
    assert session.leased == 0


@in_a_loop
def test_packet_ids_that_are_in_use_are_not_used_again() -> None:
    """[MQTT-2.2.1-4]: neither after 65,535 deliveries nor because the core has the id."""
    house = House(inflight=65_535)
    s, p = subscriber(house), publisher(house)
    session = house.core.sessions.by_client["s"]
    p.say(*many(1))
    session.number = 65_533
    p.say(*many(2))
    assert [packet.packet_id for packet in s.got()] == [1, 65_534, 65_535]
    p.say(*many(1))
    assert s.got() == []
    assert p.transport.paused
    s.say(Puback(1))
    p.connection._go_on()
    assert [packet.packet_id for packet in s.got()] == [1]


@in_a_loop
def test_ids_of_the_core_and_of_the_fast_path_are_one_sequence() -> None:
    house = House()
    s, p = subscriber(house, qos=2), publisher(house)
    p.say(*many(2), Publish("t/a", b"two", 2, packet_id=9), Pubrel(9), *many(2, first=3))
    assert [packet.packet_id for packet in s.got()] == [1, 2, 3, 4, 5]
    s.say(Puback(5), Pubrec(3), Puback(1), Pubcomp(3), Puback(4), Puback(2))
    session = house.core.sessions.by_client["s"]
    assert session.leased == 0
    assert session.inflight == {}
    assert session.queue == {}


@in_a_loop
def test_a_plan_is_void_when_anything_changed_that_it_was_made_from() -> None:
    house = House()
    s, p = subscriber(house), publisher(house)
    p.say(*many(1, 0))
    late = subscriber(house, "late")
    p.say(*many(1, 0))
    s.lose()
    p.say(*many(1, 0))
    assert len(s.got()) == 2
    assert len(late.got()) == 2


@in_a_loop
def test_what_a_broken_neighbour_sends_is_not_handed_to_clients() -> None:
    house = House()
    s = subscriber(house, qos=0)
    good = encode(Publish("t/a", b"1"), V311)
    for bad in (
        b"\x30\x00",
        b"\x30\x01\x00",
        b"\x30\x03\x00\x09t",
        b"\x30\x80\x80\x80\x80",
        b"\x32\x02\x00\x00",
        b"\x30",
    ):
        assert house.driver.fastpath.spread("b", Run("b", "p", good + bad + good)) == []
        assert [packet.payload for packet in s.got()] == [b"1"]


@in_a_loop
def test_topics_for_the_core() -> None:
    house = House()
    subscriber(house)
    plan = house.driver.fastpath.plans.anybodys
    assert plan(b"t/a") is not SLOW
    for topic in (b"", b"$SYS/x", b"t/+", b"t/\xff", b"t/\0", b"x/" * 200):
        assert plan(topic) is SLOW, topic


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("versions", [(V311, V311), (V5, V311), (V311, V5)])
def test_both_paths_count_the_same(fast: bool, versions: tuple[int, int]) -> None:
    """What operators read off is what happened, whichever way it went."""

    async def story() -> None:
        house = House(fast=fast)
        s, plain, p = subscriber(house, "s", versions[0], qos=2), subscriber(house, "z", qos=0), publisher(house)
        counters = house.driver.counters
        before = counters.bytes_in, counters.bytes_out
        said = [*many(3), *many(2, 0), *many(1, 1, 9), Publish("t/a", b"x", 2, packet_id=20)]
        p.say(*said)
        house.commit()
        assert counters.publish_received == [2, 4, 1]
        assert counters.publish_delivered == [2 + 7, 4, 1]
        sent = [(s, versions[0]), (plain, V311), (p, V311)]
        out = sum(len(encode(packet, version)) for caller, version in sent for packet in caller.listen())
        assert counters.bytes_out - before[1] == out
        assert counters.bytes_in - before[0] == sum(len(encode(packet, V311)) for packet in said)

    asyncio.run(story())
