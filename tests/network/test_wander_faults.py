"""Sessions that move while brokers are killed, clients give up, groups share and history is replayed."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from latecomer.model.topology_generators import line
from latecomer.runtime.network_file import with_stores
from latecomer.runtime.supervisor import Supervisor
from tests.network.history_kill import END
from tests.network.net import HOST, QUICK, answers, network_of, running
from tests.network.raw import CONNECT, KEEP_ALIVE_SECONDS, Publisher, packet, text
from tests.network.test_history import certain
from tests.network.wanderer import SETTLE_SECONDS, Wanderer, publish_all

QUEUE = 5000
SETTINGS = {**QUICK, "core": {"subscribe_wait": True, "subscribe_wait_max_us": 60_000_000}}
"""Whoever has a SUBACK is known everywhere."""
DELAYS_SECONDS = (0.01, 0.03, 0.1)
"""From the CONNECT to the kill."""

pytestmark = pytest.mark.long


def ports_of(supervisor: Supervisor) -> list[int]:
    return [seat.port for seat in supervisor.network.brokers]


def lived(story: Callable[[Supervisor], Coroutine[Any, Any, None]], folder: Path, stores: tuple[str, ...] = ()) -> None:
    """A story on b1 – b2 – b3; whoever is killed stays down until it is revived."""
    network = with_stores(network_of(line(3), SETTINGS), list(stores), {})
    with running(network, folder, restart=False) as supervisor:
        if stores:
            certain(supervisor)
        asyncio.run(story(supervisor))


async def started(publisher: Publisher) -> asyncio.Task[None]:
    task = asyncio.create_task(publisher.run())
    async with asyncio.timeout(SETTLE_SECONDS):
        while not publisher.connections:
            await asyncio.sleep(0.05)
    return task


async def subscribed(wanderer: Wanderer, port: int) -> None:
    wanderer.come(port)
    await asyncio.wait_for(wanderer.subscribed.wait(), SETTLE_SECONDS)


async def ended(publisher: Publisher, task: asyncio.Task[None], *wanderers: Wanderer) -> None:
    publisher.stop()
    task.cancel()
    await asyncio.gather(task, *(wanderer.leave() for wanderer in wanderers), return_exceptions=True)


@pytest.mark.parametrize("victim", ["b1", "b2"])
def test_a_broker_is_killed_in_the_middle_of_a_hand_over(victim: str, tmp_path: Path) -> None:
    """From b1, the old one, to b2, the new one: 5,000 messages of QoS 2 come once and in order, whoever dies."""

    async def story(supervisor: Supervisor) -> None:
        old, new, far = ports_of(supervisor)
        publisher = Publisher(far, "talker", "q/x", qos=2, window=500)
        task = await started(publisher)
        interrupted = 0
        for number, delay in enumerate(DELAYS_SECONDS):
            wanderer = Wanderer(old, f"phone-{number}", {"q/#": 2})
            await subscribed(wanderer, old)
            await wanderer.leave()
            publisher.acknowledged.clear()
            await publish_all(publisher, QUEUE)
            wanderer.come(new)
            await asyncio.sleep(delay)
            interrupted += wanderer.connections == 1
            supervisor.kill(victim)
            await asyncio.sleep(delay)
            supervisor.revive(victim, wait=False)
            await answers(supervisor, victim)
            await wanderer.has("q/x", publisher.acknowledged)
            assert wanderer.flaws("q/x") == (0, 0)
            assert wanderer.sessions_lost == 0
            await wanderer.leave()
        assert interrupted, "every hand-over was over before the kill"
        await ended(publisher, task)

    lived(story, tmp_path)


def test_a_broker_that_is_killed_again_is_waited_for(tmp_path: Path) -> None:
    """What waits at b1 survives two kills, and its client, which comes to b2 meanwhile, is not taken for a new one."""

    async def story(supervisor: Supervisor) -> None:
        old, new, far = ports_of(supervisor)
        publisher = Publisher(far, "talker", "q/x", qos=2, window=500)
        task = await started(publisher)
        wanderer = Wanderer(old, "phone", {"q/#": 2})
        await subscribed(wanderer, old)
        await wanderer.leave()
        await publish_all(publisher, 100)
        supervisor.kill("b1")
        supervisor.revive("b1", wait=False)
        await answers(supervisor, "b1")
        await asyncio.sleep(2)  # it is with the others again
        supervisor.kill("b1")
        wanderer.come(new)
        await asyncio.sleep(8)
        assert wanderer.connections == 1, "its session is at b1"
        supervisor.revive("b1", wait=False)
        await wanderer.has("q/x", publisher.acknowledged)
        assert wanderer.flaws("q/x") == (0, 0)
        assert wanderer.sessions_lost == 0
        await ended(publisher, task, wanderer)

    lived(story, tmp_path)


def test_clients_that_leave_while_they_wait_for_their_connack(tmp_path: Path) -> None:
    """The session stays where it is, or comes although nobody waits for it; in both cases nothing is lost."""

    async def story(supervisor: Supervisor) -> None:
        ports = ports_of(supervisor)
        publisher = Publisher(ports[2], "talker", "q/x", qos=2, window=100)
        task = await started(publisher)
        wanderer = Wanderer(ports[0], "phone", {"q/#": 2})
        await subscribed(wanderer, ports[0])
        await wanderer.leave()
        await publish_all(publisher, 500)
        for number in range(30):  # it hangs up sooner and later, everywhere
            await call("phone", ports[number % 3], 0.002 * number)
            await publish_all(publisher, 5)
        process = supervisor.children["b1"].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)  # a broker that does not answer, whoever has the session now
        try:
            await call("phone", ports[1], 0.5)
            await call("phone", ports[2], 0.5)
        finally:
            process.send_signal(signal.SIGCONT)
        await publish_all(publisher, 5)
        wanderer.come(ports[1])
        await wanderer.has("q/x", publisher.acknowledged)
        assert wanderer.flaws("q/x") == (0, 0)
        assert wanderer.sessions_lost == 0
        await ended(publisher, task, wanderer)

    lived(story, tmp_path)


async def call(name: str, port: int, seconds: float) -> None:
    """CONNECT, and hang up after so long, whatever the broker says."""
    _, writer = await asyncio.open_connection(HOST, port)
    writer.write(packet(CONNECT, text("MQTT") + bytes([4, 0]) + KEEP_ALIVE_SECONDS.to_bytes(2) + text(name)))
    await writer.drain()
    await asyncio.sleep(seconds)
    writer.transport.abort()


def test_a_member_of_a_group_moves(tmp_path: Path) -> None:
    """Whatever is published meanwhile comes to one of its two members."""

    async def story(supervisor: Supervisor) -> None:
        ports = ports_of(supervisor)
        publisher = Publisher(ports[2], "talker", "q/x", qos=2, window=100)
        task = await started(publisher)
        members = [Wanderer(port, f"member-{port}", {"$share/crew/q/#": 2}) for port in ports[:2]]
        for member in members:
            await subscribed(member, member.port)
        for number in range(1, 10):
            await publish_all(publisher, 100)
            moving = asyncio.create_task(publish_all(publisher, 100))
            members[0].move(ports[number % 3])
            await members[0].admitted(number + 1)
            await moving
        await publish_all(publisher, 100)
        wanted = publisher.acknowledged
        until = time.monotonic() + SETTLE_SECONDS
        while lost := [
            payload for payload in members[0].lacks("q/x", wanted) if members[1].lacks("q/x", {payload: None})
        ]:
            assert time.monotonic() < until, f"{len(lost)} of {len(wanted)} are missing, the first {lost[:3]}"
            await asyncio.sleep(0.1)
        counts = [member.got["q/x"].count for member in members]
        assert all(counts), "one of them got nothing"
        assert all(sum(count[payload] for count in counts) == 1 for payload in wanted), "QoS 2 came twice"
        assert all(member.sessions_lost == 0 for member in members)
        await ended(publisher, task, *members)

    lived(story, tmp_path)


def test_history_goes_on_at_the_other_broker(tmp_path: Path) -> None:
    """A replay is interrupted by a move, twice; everything comes once, in order, and its end is told once."""

    async def story(supervisor: Supervisor) -> None:
        ports = ports_of(supervisor)
        since = time.time()
        publisher = Publisher(ports[0], "talker", "t/x", qos=2, window=500)
        task = await started(publisher)
        await publish_all(publisher, 4000)
        late = Wanderer(ports[0], "late", {f"$history/since={since:.6f}/t/#": 2})
        late.come(ports[0])
        for turn, part in enumerate((500, 1500)):
            async with asyncio.timeout(SETTLE_SECONDS):
                while "t/x" not in late.got or len(late.got["t/x"].count) < part:
                    await asyncio.sleep(0.001)
            assert END not in late.got, "the replay was over before the move"
            late.move(ports[turn + 1])
            await publish_all(publisher, 200)
            await late.admitted(turn + 2)
        await publish_all(publisher, 200)
        await late.has("t/x", publisher.acknowledged)
        async with asyncio.timeout(SETTLE_SECONDS):
            while END not in late.got:
                await asyncio.sleep(0.05)
        assert late.flaws("t/x") == (0, 0)
        (end,) = late.got[END].count.values()
        assert end == 1
        assert b'"complete":true' in late.got[END].order[0].replace(b" ", b"")
        assert late.sessions_lost == 0
        await ended(publisher, task, late)

    lived(story, tmp_path, stores=("b2=t/#",))
