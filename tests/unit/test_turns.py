"""A client that says very much at once has its turn and no more: the disk and other clients come in between."""

from __future__ import annotations

import asyncio

from latecomer.core.inputs import Input, MqttReceived
from latecomer.messages.mqtt import V5, Connect, Puback, Publish
from latecomer.runtime.connection import Connection
from latecomer.runtime.disk import Durability
from latecomer.runtime.fastpath import TURN_PACKETS, TURNS_HELD_MAX
from tests.unit.fastpath_hand import Caller, House

COUNT = 10 * TURN_PACKETS + 7


def taken(house: House, sizes: list[int]) -> None:
    """From here on, note how many packets the core gets at a time."""
    right = house.driver.tell_from

    def tell_from(connection: Connection, fact: Input) -> None:
        if isinstance(fact, MqttReceived):
            sizes.append(len(fact.packets))
        right(connection, fact)

    house.driver.tell_from = tell_from  # type: ignore[method-assign]


def retained() -> list[Publish]:
    """Publications that only the core can take, and that must be safe before they are acknowledged."""
    return [Publish(f"t/{at}", b"x", 1, True, packet_id=at + 1) for at in range(COUNT)]


async def turn() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def test_the_core_takes_much_from_one_client_in_turns_and_in_order() -> None:
    async def story() -> None:
        house = House()
        caller = Caller(house, "p", V5)
        caller.say(Connect("p", V5, True, 0))
        sizes: list[int] = []
        taken(house, sizes)
        caller.say(*retained())
        assert sizes == [TURN_PACKETS]
        assert caller.transport.paused
        for _ in range(COUNT // TURN_PACKETS + 1):
            await turn()
        assert (sum(sizes), max(sizes)) == (COUNT, TURN_PACKETS)
        assert not caller.transport.paused
        answers = [packet.packet_id for packet in caller.listen() if isinstance(packet, Puback)]
        assert answers == list(range(1, COUNT + 1))

    asyncio.run(story())


def test_what_one_client_says_does_not_pile_up_before_the_disk() -> None:
    async def story() -> None:
        house = House(durability=Durability.PROCESS)
        caller = Caller(house, "p", V5)
        caller.say(Connect("p", V5, True, 0))
        house.commit()
        sizes: list[int] = []
        taken(house, sizes)
        caller.say(*retained())
        for _ in range(20):
            await turn()
        assert len(sizes) == TURNS_HELD_MAX, "the disk has written nothing, and the core took more"
        while sum(sizes) < COUNT:
            assert house.disk.commit(), "it waits for a disk that has nothing to write"
            await turn()
        house.commit()
        await turn()
        assert not caller.transport.paused
        assert len([packet for packet in caller.listen() if isinstance(packet, Puback)]) == COUNT

    asyncio.run(story())


def test_bytes_that_come_although_reading_is_paused_do_not_stop_a_client_for_ever() -> None:
    async def story() -> None:
        house = House()
        caller = Caller(house, "p", V5)
        caller.say(Connect("p", V5, True, 0))
        packets = retained()
        for start in range(0, 3 * TURN_PACKETS, TURN_PACKETS):  # a websocket hands over frame by frame
            caller.say(*packets[start : start + TURN_PACKETS])
        for _ in range(5):
            await turn()
        assert not caller.transport.paused
        assert len(caller.listen()) >= 3 * TURN_PACKETS

    asyncio.run(story())
