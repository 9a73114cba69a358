"""Sessions with thousands of queued messages: nothing that happens to one of them is a long step or a large write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from latecomer.core.broker import Broker
from latecomer.core.effects import Effect, Persist, Send, Transmit
from latecomer.core.inputs import Input
from latecomer.core.mobility.arrival import CREDIT
from latecomer.core.mobility.rows import PAGE_ROWS
from latecomer.core.session.delivery import SLICE
from latecomer.core.session.erasing import PAGE_ROWS as ERASED_ROWS
from latecomer.messages.hand_over import Rows
from latecomer.messages.mqtt import Puback, Publish, Request, Subscribe
from tests.simulation.town import Line, Town

QUEUED = 5 * ERASED_ROWS
OTHER_ROWS = 50
"""Of the session itself, its subscriptions, and what else happens in a step."""
MOMENTS = 10_000
"""For so many milliseconds of the simulated network something is waited for."""


@dataclass
class Largest:
    """What the largest step of any broker did."""

    rows: int = 0
    packets: int = 0
    travelling: int = 0
    """Rows that left for another broker."""


@pytest.fixture
def largest(monkeypatch: pytest.MonkeyPatch) -> Largest:
    found, right = Largest(), Broker.step

    def step(self: Broker, now: int, input: Input) -> list[Effect]:
        effects = right(self, now, input)
        found.rows = max(found.rows, *(len(e.writes) for e in effects if isinstance(e, Persist)), 0)
        found.packets = max(found.packets, *(len(e.packets) for e in effects if isinstance(e, Transmit)), 0)
        frames = [frame for e in effects if isinstance(e, Send) for frame in e.frames]
        found.travelling = max(found.travelling, sum(len(f.rows) for f in frames if isinstance(f, Rows)))
        return effects

    monkeypatch.setattr(Broker, "step", step)
    return found


def texts(first: int, count: int) -> list[bytes]:
    return [str(number).encode() for number in range(first, first + count)]


def queue(town: Town, sender: Line, count: int = QUEUED, first: int = 0) -> None:
    """Publish so many messages, a few at a time."""
    for start in range(first, first + count, 100):
        packets = [Publish("a/b", text, 1, packet_id=1 + at) for at, text in enumerate(texts(start, 100))]
        town.say(sender, *packets, wait=0.1)


def away(town: Town) -> Line:
    """A client of b1 has gone, and has missed many messages; whoever publishes."""
    phone, sender = town.commuter()
    town.hang_up(phone)
    queue(town, sender)
    return sender


def everything(town: Town, line: Line) -> list[bytes]:
    """Acknowledge until nothing more comes."""
    done = 0
    while len(sent := [packet for packet in line.inbox if isinstance(packet, Publish)]) > done:
        assert len(sent) <= 2 * QUEUED, "the same comes again and again"
        for start in range(done, len(sent), 100):
            town.say(line, *(Puback(packet.packet_id) for packet in sent[start : start + 100]), wait=0.05)
        done = len(sent)
    return line.payloads


def wait_until(town: Town, holds: Callable[[], bool]) -> None:
    """Let the network live until something holds, a millisecond at a time."""
    for _ in range(MOMENTS):
        if holds():
            return
        town.run(0.001)
    pytest.fail(f"not within {MOMENTS} ms")


def left_behind(town: Town, broker: str) -> tuple[int, int]:
    """Rows of the client's queue on a disk, and whether they are being erased."""
    tables = town.world.nodes[broker].disk.tables
    return len(tables.get("queue", {}).get("phone", {})), len(tables.get("erasing", {}).get("", {}))


def test_a_large_session_moves_in_small_steps(largest: Largest) -> None:
    town = Town()
    away(town)
    largest.rows = largest.packets = largest.travelling = 0
    phone = town.connect("b2", wait=3)
    assert phone.connack.session_present
    assert everything(town, phone) == texts(0, QUEUED)
    assert largest.rows <= CREDIT * PAGE_ROWS + OTHER_ROWS < QUEUED
    assert 0 < largest.travelling <= CREDIT * PAGE_ROWS
    assert largest.packets <= SLICE + 1  # and the CONNACK
    town.run(1)
    assert left_behind(town, "b1") == left_behind(town, "b2") == (0, 0)


def test_a_client_that_does_not_wait_long_enough_gets_its_large_session_all_the_same() -> None:
    """It gives up when some of its rows have come. They go on coming, so that another try finds the session."""
    town = Town()
    away(town)
    phone = town.connect("b2", wait=0)
    wait_until(town, lambda: left_behind(town, "b2")[0] > 0)
    town.hang_up(phone, wait=0)
    town.run(3)
    assert not phone.inbox, "it was served before it gave up"
    assert (town.owners(), left_behind(town, "b1")) == (["b2"], (0, 0))
    phone = town.connect("b2", wait=0.1)
    assert phone.connack.session_present
    assert everything(town, phone) == texts(0, QUEUED)


def test_a_client_that_gives_up_and_goes_elsewhere_gets_its_large_session_there() -> None:
    town = Town()
    away(town)
    phone = town.connect("b2", wait=0)
    wait_until(town, lambda: left_behind(town, "b2")[0] > 0)
    town.hang_up(phone, wait=0)
    phone = town.connect("b3", wait=5)
    assert phone.connack.session_present
    assert everything(town, phone) == texts(0, QUEUED)
    assert (town.owners(), left_behind(town, "b2")) == (["b3"], (0, 0))


def test_a_large_session_is_resumed_in_small_steps(largest: Largest) -> None:
    town = Town()
    away(town)
    largest.rows = largest.packets = 0
    phone = town.connect("b1")
    assert len(phone.payloads) > SLICE, "only one slice was sent"
    assert everything(town, phone) == texts(0, QUEUED)
    assert largest.packets <= SLICE + 1
    assert largest.rows <= 100 + OTHER_ROWS


def test_a_large_session_ends_in_small_steps(largest: Largest) -> None:
    town = Town()
    away(town)
    largest.rows = 0
    phone = town.connect("b1", clean=True, wait=0)
    assert left_behind(town, "b1") == (QUEUED, 1), "it was erased at once"
    town.run(1)
    assert not phone.connack.session_present
    assert left_behind(town, "b1") == (0, 0)
    assert largest.rows <= OTHER_ROWS


def test_a_broker_that_dies_while_it_erases_goes_on_after_its_restart() -> None:
    town = Town()
    away(town)
    phone = town.connect("b2", wait=0)
    wait_until(town, lambda: 0 < left_behind(town, "b1")[0] < QUEUED)
    assert left_behind(town, "b1")[1] == 1
    town.world.crash("b1")
    town.world.start("b1")
    town.run(5)
    assert town.owners() == ["b2"]
    assert left_behind(town, "b1") == (0, 0)
    assert everything(town, phone) == texts(0, QUEUED)


def test_a_broker_that_dies_while_a_session_arrives_erases_what_came() -> None:
    town = Town()
    away(town)
    town.connect("b2", wait=0)
    wait_until(town, lambda: left_behind(town, "b2")[0] > ERASED_ROWS)
    town.world.crash("b2")
    town.world.start("b2")
    town.run(5)
    assert (town.owners(), left_behind(town, "b2")) == (["b1"], (0, 0))
    assert left_behind(town, "b1") == (QUEUED, 0)


def test_a_client_that_returns_at_once_waits_until_its_old_rows_are_gone() -> None:
    town = Town()
    sender = away(town)
    phone = town.connect("b2", wait=0)
    wait_until(town, lambda: left_behind(town, "b1")[1] > 0)
    town.hang_up(phone, wait=0)
    phone = town.connect("b1", wait=5)
    assert phone.connack.session_present
    queue(town, sender, 100, QUEUED)
    assert list(dict.fromkeys(everything(town, phone))) == texts(0, QUEUED + 100)
    assert (town.owners(), left_behind(town, "b1")) == (["b1"], (0, 0))


def test_what_a_new_session_is_owed_is_not_erased_with_the_old_one() -> None:
    town = Town()
    sender = away(town)
    phone = town.connect("b1", clean=True, wait=0)
    town.say(phone, Subscribe(1, (Request("a/#", 1),)), wait=0)
    town.hang_up(phone, wait=0)
    town.say(sender, Publish("a/b", b"new", 1, packet_id=1), wait=0)
    wait_until(town, lambda: left_behind(town, "b1")[0] <= QUEUED // 2)
    assert left_behind(town, "b1")[1] == 1, "all was erased before the new session had something"
    town.world.crash("b1")
    town.world.start("b1")
    town.run(3)
    assert left_behind(town, "b1") == (1, 0)
    assert town.connect("b1").payloads == [b"new"]
