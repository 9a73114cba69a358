"""Clients that may come to several brokers: each of them has a copy of the session, and one of them needs it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from latecomer.core.mobility.settings import HandOverSettings
from latecomer.messages.hand_over import Rows, ShadowRows
from latecomer.messages.link import LinkMessage
from latecomer.messages.mqtt import Properties, Puback, Publish, Request, Subscribe, Will
from latecomer.model.ids import BrokerId, Instant
from latecomer.sim.sides import Observer
from tests.simulation.town import Line, Town

SEVERAL = HandOverSettings(algorithm="prefetching", destinations=3, guess_at_least=0.0)


def crowd(hand_over: HandOverSettings = SEVERAL) -> tuple[Town, Line, Line]:
    """Five brokers in a line. A client was at b2, b4 and b3, and is away from b3; b2 and b4 have a copy."""
    town = Town(5, hand_over)
    phone = town.connect("b2")
    town.say(phone, Subscribe(1, (Request("a/#", 1),)))
    sender = town.connect("b5", "sender", expiry_s=0, clean=True)
    for broker in ("b4", "b3"):
        town.hang_up(phone)
        phone = town.connect(broker)
    town.hang_up(phone)
    town.publish(sender, "1", "2")
    town.run(3)
    return town, phone, sender


def shadowed(town: Town) -> list[BrokerId]:
    return [id for id in town.world.nodes if town.core(id).mobility.shadows.complete("phone")]


def none_left(town: Town) -> bool:
    return not any(
        town.core(id).mobility.shadows.by_client or town.core(id).mobility.copies.by_client for id in town.world.nodes
    )


class Pages(Observer):
    """How many rows travel with each page of a hand-over."""

    def __init__(self, town: Town) -> None:
        self.rows: list[int] = []
        town.world.observe(self)

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        self.rows += [len(frame.rows) for frame in frames if isinstance(frame, Rows | ShadowRows)]


@pytest.mark.parametrize("broker", ["b2", "b4"])
def test_the_right_guess_among_several_needs_no_rows(broker: str) -> None:
    town, _, sender = crowd()
    assert (shadowed(town), town.owners()) == (["b2", "b4"], ["b3"])
    town.publish(sender, "3")
    pages = Pages(town)
    phone = town.connect(broker, wait=0.04)
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1", b"2", b"3"])
    assert pages.rows == [0], "the grant only"
    town.publish(sender, "4")
    assert phone.payloads[3:] == [b"4"]
    assert town.owners() == [broker]
    assert none_left(town)
    assert all(town.core(id).mobility.idle for id in town.world.nodes)
    assert town.core(broker).sessions.by_client["phone"].misses == 0


def test_a_copy_that_was_used_stands_on_disk() -> None:
    town, *_ = crowd()
    town.connect("b4")
    town.world.crash("b4")
    town.world.start("b4")
    town.run(5)
    phone = town.connect("b4", wait=3)
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1", b"2"])
    assert town.owners() == ["b4"]


@pytest.mark.parametrize("broker", ["b1", "b3", "b5"])
def test_the_wrong_guess_costs_the_copies_and_nothing_else(broker: str) -> None:
    town, _, sender = crowd()
    phone = town.connect(broker)
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1", b"2"])
    town.publish(sender, "3")
    assert phone.payloads[2:] == [b"3"]
    assert town.owners() == [broker]
    assert none_left(town)
    assert town.core(broker).sessions.by_client["phone"].misses == 1


def test_the_owner_stays_the_owner() -> None:
    """Will and expiry count as if there were no copies, and the session's end is the end of the copies."""
    town = Town(3, SEVERAL)
    listener = town.connect("b1", "listener")
    town.say(listener, Subscribe(1, (Request("will/#", 1),)))
    will = Will("will/phone", b"gone", 1, False, Properties(will_delay_s=6))
    for broker in ("b3", "b2"):
        phone = town.connect(broker, will=will, expiry_s=12)
    town.hang_up(phone, wait=4)
    assert shadowed(town) == ["b3"]
    assert listener.payloads == []
    town.run(4)
    assert listener.payloads == [b"gone"]
    town.run(5)
    assert town.owners() == []
    assert none_left(town)
    phone = town.connect("b3")
    assert not phone.connack.session_present


def test_a_will_that_was_published_at_the_owner_is_not_published_again() -> None:
    town = Town(3, SEVERAL)
    listener = town.connect("b1", "listener")
    town.say(listener, Subscribe(1, (Request("will/#", 1),)))
    will = Will("will/phone", b"gone", 1, False, Properties(will_delay_s=4))
    for broker in ("b3", "b2"):
        phone = town.connect(broker, will=will, expiry_s=3600)
    town.hang_up(phone, wait=6)
    assert (shadowed(town), listener.payloads) == (["b3"], [b"gone"])
    town.connect("b3")
    town.run(6)
    assert listener.payloads == [b"gone"]


def test_a_copy_of_an_earlier_stay_is_void() -> None:
    town, _, sender = crowd()
    phone = town.connect("b3")
    ids = [packet.packet_id for packet in phone.inbox if isinstance(packet, Publish)]
    assert none_left(town), "the client was connected: it may have settled what they hold"
    town.say(phone, *(Puback(id) for id in ids))
    town.hang_up(phone, wait=0.1)
    town.publish(sender, "3")
    phone = town.connect("b4")
    assert phone.payloads == [b"3"]


def test_a_copy_whose_deliveries_were_dropped_does_not_hold() -> None:
    town, _, sender = crowd()
    session = town.core("b3").sessions.by_client["phone"]
    deliveries = town.core("b3").sessions.deliveries
    deliveries.limits = replace(deliveries.limits, queue_messages=2)
    town.publish(sender, "3")
    assert len(session.queue) == 2
    pages = Pages(town)
    phone = town.connect("b4")
    assert phone.payloads == [b"2", b"3"], "as it was at the owner"
    assert sum(pages.rows) > 0


def test_a_broker_keeps_no_more_copies_than_it_may() -> None:
    town, *_ = crowd(replace(SEVERAL, shadows_max=1))
    other = town.connect("b2", "other")
    town.say(other, Subscribe(1, (Request("a/#", 1),)))
    for broker in ("b4", "b3"):
        town.hang_up(other)
        other = town.connect(broker, "other")
    town.hang_up(other, wait=4)
    for broker in ("b2", "b4"):
        assert list(town.core(broker).mobility.shadows.by_client) == ["phone"]
    other = town.connect("b4", "other")
    assert other.connack.session_present
    assert shadowed(town) == ["b2", "b4"], "those of others are not touched"


def test_a_copy_that_grows_too_large_is_let_go() -> None:
    town, _, sender = crowd()
    for broker in ("b2", "b4"):
        shadows = town.core(broker).mobility.shadows
        shadows.limits = replace(shadows.limits, queue_messages=4)
    town.publish(sender, "3", "4")
    assert shadowed(town) == ["b2", "b4"]
    town.publish(sender, "5")
    assert none_left(town)
    phone = town.connect("b4")
    assert phone.payloads == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("broker", ["b3", "b4"])
def test_another_tree_ends_the_copies(broker: str) -> None:
    town, _, sender = crowd()
    town.world.crash(broker)
    town.world.start(broker)
    town.run(5)
    assert none_left(town)
    town.publish(sender, "3")
    phone = town.connect("b4", wait=3)
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1", b"2", b"3"])


def test_a_clean_start_where_a_copy_is() -> None:
    town, _, sender = crowd()
    phone = town.connect("b4", clean=True)
    assert not phone.connack.session_present
    town.publish(sender, "3")
    assert phone.payloads == []
    assert town.owners() == ["b4"]
    assert none_left(town)


def test_a_brief_session_where_a_copy_is() -> None:
    town, _, sender = crowd()
    phone = town.connect("b4", clean=True, expiry_s=0)
    town.say(phone, Subscribe(1, (Request("a/#", 1),)))
    town.publish(sender, "3")
    assert phone.payloads == [b"3"]
    assert none_left(town)


def test_a_client_that_does_not_wait_leaves_no_copy_behind() -> None:
    """Found by seed 1794972604: the owner had counted on its copy being used."""
    for moment in range(2, 40, 3):  # thousandths of a second after the CONNECT
        town, _, sender = crowd()
        line = town.connect("b4", wait=moment / 1000)
        town.hang_up(line)
        town.publish(sender, "3")
        phone = town.connect("b2")
        assert (phone.connack.session_present, phone.payloads) == (True, [b"1", b"2", b"3"]), moment
        assert none_left(town), moment
        assert town.owners() == ["b2"]
