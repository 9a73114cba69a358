"""What is particular to asyncio: what waits while the client is on its way, and how iterators end."""

from __future__ import annotations

import asyncio

import pytest

from latecomer.client import GaveUp, Heard, Message, Patience, Refused
from latecomer.client.aio import Client
from latecomer.messages.mqtt import Publish, Reason, Subscribe, Will
from tests.client.server import FRESH, WELCOME, Server, free_address, refuse
from tests.client.talkers import LIMIT_S, profile

ONE = (*WELCOME, Publish("a", b"1", 1, packet_id=1))


async def reached(client: Client, connections: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while client.connections < connections:
            await asyncio.sleep(0.01)


def test_iterators_end_when_the_client_leaves() -> None:
    async def story(address: str) -> list[Heard]:
        got = []
        async with Client(address, profile()) as client:

            async def read() -> None:
                async for heard in client.messages:
                    got.append(heard)

            readers = [asyncio.create_task(read()) for _ in range(2)]
            while not got:
                await asyncio.sleep(0.01)
            await client.leave()
            await client.leave()
            await asyncio.gather(*readers)
        return got

    with Server(ONE) as here:
        (one,) = asyncio.run(asyncio.wait_for(story(here.address), LIMIT_S))
    assert isinstance(one, Message)
    assert one.payload == b"1"


def test_whatever_is_asked_on_the_way_waits_until_it_has_arrived() -> None:
    async def story(here: Server) -> None:
        async with Client(here.address, profile()) as client:
            here.answers = [*[refuse(Reason.SERVER_BUSY)] * 3, FRESH]
            here.cut()
            async with asyncio.timeout(LIMIT_S):
                while client._is_up():
                    await asyncio.sleep(0)
            asked = client.subscribe("a/#"), client.publish("b", "1"), client.publish("c", "0", qos=0)
            async with asyncio.timeout(LIMIT_S):
                await asyncio.gather(*asked)
            assert client.connections == 2

    with Server(WELCOME) as here:
        asyncio.run(story(here))
        assert sorted(each.topic for each in here.heard if isinstance(each, Publish)) == ["b", "c"]
        assert [each.requests[0].filter for each in here.heard if isinstance(each, Subscribe)] == ["a/#"]


def test_whoever_waits_is_told_that_there_is_no_way_on() -> None:
    patience = Patience(attempts_max=3, pause_s=0.0, pause_max_s=0.0)

    async def story(here: Server) -> None:
        async with Client(here.address, profile(patience=patience)) as client:
            here.answers = [refuse(Reason.NOT_AUTHORIZED)]
            here.cut()
            async with asyncio.timeout(LIMIT_S):
                with pytest.raises(Refused, match="not authorized"):
                    async for _ in client.messages:
                        pass
                for asked in (client.subscribe("a"), client.publish("b"), client.publish("c", qos=0)):
                    with pytest.raises(Refused, match="not authorized"):
                        await asked

    with Server(WELCOME) as here:
        asyncio.run(story(here))


def test_after_leaving_nothing_can_be_asked() -> None:
    async def story(here: Server) -> None:
        async with Client(here.address, profile()) as client:
            await client.leave()
            for asked in (client.subscribe("a"), client.publish("b"), client.publish("c", qos=0)):
                with pytest.raises(GaveUp, match="has left"):
                    await asked
            with pytest.raises(GaveUp, match="make another one"):
                await client.__aenter__()

    with Server(WELCOME) as here:
        asyncio.run(asyncio.wait_for(story(here), LIMIT_S))


def test_leaving_on_the_way() -> None:
    patience = Patience(attempts_max=1000, pause_s=0.01, pause_max_s=0.01)

    async def story(here: Server) -> None:
        async with Client([here.address, free_address()], profile(patience=patience)) as client:
            here.answers = [()]
            here.cut()
            async with asyncio.timeout(LIMIT_S):
                while client.course.journey.attempts < 3:
                    await asyncio.sleep(0.01)
        assert client.connections == 1

    with Server(WELCOME) as here:
        asyncio.run(asyncio.wait_for(story(here), LIMIT_S))


def test_nobody_has_to_wait_longer_than_they_want() -> None:
    """A connection that is not answered, and a subscription that is given up, leave nothing behind."""

    async def story(here: Server) -> None:
        async with Client(here.address, profile()) as client:
            client._up = False
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.subscribe("a"), 0.01)
            client._up = True
            await client.subscribe("a")
        nowhere = Client(free_address(), profile(patience=Patience(pause_s=9.0)))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(nowhere.__aenter__(), 0.05)

    with Server(WELCOME) as here:
        asyncio.run(asyncio.wait_for(story(here), LIMIT_S))


def test_who_it_is_stands_in_connect() -> None:
    who = profile(user="anna", password="secret", will=Will("gone", b"bye", 1, True), session_s=7, keep_alive_s=9)

    async def story(here: Server) -> None:
        async with Client(here.address, who):
            pass

    with Server(WELCOME) as here:
        asyncio.run(story(here))
        (connect,) = here.came
    assert (connect.user, connect.password, connect.keep_alive_s) == ("anna", b"secret", 9)
    assert connect.properties.session_expiry_s == 7
    assert connect.will is not None
    assert (connect.will.topic, connect.will.payload, connect.will.qos, connect.will.retain) == (
        "gone",
        b"bye",
        1,
        True,
    )
