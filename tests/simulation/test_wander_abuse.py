"""Clients and neighbours that abuse hand-overs: they are refused with a sentence, and nobody else loses anything."""

from __future__ import annotations

from collections import Counter

from latecomer.core.mobility.settings import HandOverSettings
from latecomer.messages.hand_over import Ask, Attempt
from latecomer.messages.mqtt import Reason
from latecomer.model.record import Kind, Record
from latecomer.sim.sides import Observer
from tests.simulation.town import SECOND_US, Town

ARRIVALS_MAX = 20


class Records(Observer):
    """All records of a world."""

    def __init__(self) -> None:
        self.all: list[Record] = []

    def noted(self, record: Record) -> None:
        self.all.append(record)


def test_a_flood_of_connects_with_new_client_ids_is_refused_and_nothing_is_lost() -> None:
    town = Town(hand_over=HandOverSettings(arrivals_max=ARRIVALS_MAX))
    records = Records()
    town.world.observe(records)
    phone, sender = town.commuter()
    town.hang_up(phone)
    town.publish(sender, "1", "2")
    town.world.stall("b1", "b2", SECOND_US)  # each new id is looked for until b1 has answered
    flood = [town.connect("b2", f"bot{number}", wait=0) for number in range(200)]
    town.run(0.1)
    refused = [line for line in flood if line.inbox]
    assert Counter(line.connack.reason for line in refused) == {Reason.SERVER_BUSY: 200 - ARRIVALS_MAX}
    assert {line.connack.properties.reason_string for line in refused} == {
        "too many sessions are on their way here: try again later"
    }
    assert all(line.closed for line in refused)
    assert sum(record.kind is Kind.REFUSED for record in records.all) == len(refused), "each is in the event log"
    assert len(town.core("b2").mobility.arrivals.by_client) == ARRIVALS_MAX, "no more than the setting allows"
    early = town.connect("b2", wait=0.1)
    assert early.connack.reason == Reason.SERVER_BUSY, "it is refused as well, and its session stays where it is"
    assert town.owners() == ["b1"]
    town.publish(sender, "3")
    town.run(2)
    assert [line.connack.reason for line in flood if line not in refused] == [Reason.SUCCESS] * ARRIVALS_MAX
    phone = town.connect("b2")
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1", b"2", b"3"])
    assert all(town.core(broker).mobility.idle for broker in ("b1", "b2", "b3"))


def test_those_who_are_connected_are_served_during_a_flood() -> None:
    town = Town(hand_over=HandOverSettings(arrivals_max=ARRIVALS_MAX))
    phone, _ = town.commuter()
    neighbour = town.connect("b1", "neighbour")
    town.world.stall("b2", "b1", SECOND_US)
    for number in range(100):
        town.connect("b1", f"bot{number}", wait=0)
    town.publish(neighbour, "1", "2")
    assert phone.payloads == [b"1", b"2"]
    assert not phone.closed


def test_a_broker_cannot_ask_for_a_session_in_the_name_of_another() -> None:
    """Bad input 24: b1 sends b2 an Ask of b4, which is on the other side of b2."""
    town = Town(brokers=4)
    records = Records()
    town.world.observe(records)
    phone = town.connect("b2")
    town.hang_up(phone)
    ask = Ask("b4", "b2", Attempt("b4", 1, 1), "phone", "", 0, True, state=True)
    town.world.forge("b1", "b2", ask)
    town.run(0.05)
    [rejected] = [record for record in records.all if record.kind is Kind.REJECTED]
    assert (rejected.broker, rejected.peer) == ("b2", "b1")
    assert "bad route" in rejected.detail
    town.run(5)
    assert town.owners() == ["b2"], "nothing was given away"
    assert town.connect("b2").connack.session_present
