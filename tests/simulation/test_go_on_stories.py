"""Clients that do not wait for their broker, each as a short story: what they have at once, and what comes late."""

from __future__ import annotations

import pytest

from latecomer.core.mobility import rows
from latecomer.core.mobility.particulars import ENTRY_BYTES_MAX
from latecomer.core.mobility.settings import HandOverSettings
from latecomer.core.session import given
from latecomer.messages.mqtt import (
    V311,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Reason,
    Request,
    Subscribe,
    Unsubscribe,
)
from tests.simulation.town import SECOND_US, Line, Town

GO_ON = HandOverSettings(owner_away="go-on")
WORD = (("owner-away", "go-on"),)


def publish(town: Town, sender: Line, *texts: str, qos: int = 1) -> None:
    town.publish(sender, *texts, qos=qos)
    if qos == 2:
        town.say(sender, *(Pubrel(at) for at in range(1, len(texts) + 1)))


def words(line: Line) -> dict[str, str]:
    return dict(line.connack.properties.user)


def late(line: Line) -> list[bytes]:
    """What came with the mark."""
    return [packet.payload for packet in line.inbox if isinstance(packet, Publish) and marked(packet)]


def marked(packet: Publish) -> bool:
    return any(name == "late" for name, _ in packet.properties.user)


def acknowledge(town: Town, line: Line) -> None:
    """The client says of everything that it has it."""
    for packet in list(line.inbox):
        if isinstance(packet, Publish) and packet.qos == 1:
            town.say(line, Puback(packet.packet_id), wait=0.01)
        elif isinstance(packet, Publish) and packet.qos == 2:
            town.say(line, Pubrec(packet.packet_id), Pubcomp(packet.packet_id), wait=0.01)


def stranded(town: Town, qos: int = 1, **terms: object) -> tuple[Line, Line]:
    """A commuter that left b1 with "1" and "2" waiting there, before b1 died; "3" is published after that. The client
    is at b2."""
    phone, sender = town.commuter(qos, **terms)
    town.hang_up(phone)
    publish(town, sender, "1", "2", qos=qos)
    town.run(5)
    town.world.crash("b1")
    town.run(6)
    publish(town, sender, "3", qos=qos)
    return town.connect("b2", wait=3, **terms), sender  # type: ignore[arg-type]


def quiet(town: Town) -> bool:
    cores = [town.core(broker) for broker in town.world.nodes]
    return all(core.mobility.idle and not core.mobility.leftovers.kept for core in cores)


def traces(town: Town, *tables: str) -> dict[str, object]:
    """What stands on the disks in some tables."""
    found: dict[str, object] = {}
    for id, node in town.world.nodes.items():
        for table in tables:
            scopes = {scope: rows for scope, rows in node.disk.tables.get(table, {}).items() if rows}
            if scopes:
                found[f"{id} {table}"] = scopes
    return found


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("page_rows", [1, 256])
def test_a_commuter_whose_broker_is_away_for_long_goes_on(
    qos: int, page_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PAGE_ROWS", page_rows)
    town = Town(hand_over=GO_ON)
    phone, sender = stranded(town, qos)
    assert (phone.connack.reason, phone.connack.session_present) == (Reason.SUCCESS, False)
    assert (words(phone)["session"], words(phone)["owner-away"]) == ("restored", "b1")
    publish(town, sender, "4", "5", qos=qos)
    assert phone.payloads == [b"4", b"5"], "it is subscribed, without a word"
    town.world.start("b1")
    town.run(6)
    assert phone.payloads == [b"4", b"5", b"1", b"2", b"3"], "the rest has come, each once"
    assert late(phone) == [b"1", b"2", b"3"]
    assert town.owners() == ["b2"]
    assert quiet(town)
    assert not traces(town, "leftover", "leftovers", "given", "late", "unsure")


def test_the_client_may_say_so_itself() -> None:
    town = Town()
    phone, _ = stranded(town)
    assert not any(packet for packet in phone.inbox), "the broker's word is to wait"
    phone = town.connect("b2", words=WORD, wait=3)
    assert (phone.connack.session_present, words(phone)["session"]) == (False, "restored")
    held = town.connect("b3", "phone", words=(("owner-away", "hold"),), wait=1)
    assert held.connack.session_present, "it is at b2 now"


def cut_off(town: Town, qos: int, *, keeps_disk: bool = True) -> Line:
    """A client whose session at b2 has "1" and "2" from b1, and that goes on at b3, which was cut off: b1 keeps both
    for b3 too. b1 dies, and with it its disk unless `keeps_disk`. Then b2 and b3 meet."""
    phone = town.connect("b2")
    town.say(phone, Subscribe(1, (Request("a/#", qos),)))
    town.hang_up(phone)
    sender = town.connect("b1", "sender", expiry_s=0, clean=True)
    town.world.break_wire("b2", "b3", 20 * SECOND_US)
    town.run(6)
    publish(town, sender, "1", "2", qos=qos)
    town.world.crash("b1", keeps_disk=keeps_disk)
    town.world.crash("b2")
    town.run(6)
    phone = town.connect("b3", wait=3)
    assert words(phone)["session"] == "restored"
    town.run(6)
    town.world.start("b2")
    town.run(6)
    return phone


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("page_rows", [1, 256])
def test_a_row_of_qos_2_waits_for_its_origin_which_may_send_it_as_well(
    qos: int, page_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PAGE_ROWS", page_rows)
    town = Town(hand_over=GO_ON)
    phone = cut_off(town, qos)
    assert late(phone) == ([b"1", b"2"] if qos == 1 else [])
    town.world.start("b1")
    town.run(6)
    assert sorted(set(phone.payloads)) == [b"1", b"2"]
    assert qos == 1 or phone.payloads == [b"1", b"2"], "QoS 2 comes once"
    assert quiet(town)
    assert not traces(town, "leftover", "leftovers", "given", "late", "unsure")


def test_a_row_of_qos_2_whose_origin_is_forgotten_comes() -> None:
    town = Town(hand_over=GO_ON)
    phone = cut_off(town, 2, keeps_disk=False)
    assert not phone.payloads
    town.run(town.core("b3").settings.forget_us / SECOND_US)
    assert late(phone) == [b"1", b"2"]
    assert not traces(town, "leftover", "leftovers", "given", "late", "unsure")


def test_an_older_client_goes_on_as_well() -> None:
    town = Town(hand_over=GO_ON)
    phone, sender = stranded(town, version=V311)
    publish(town, sender, "4")
    town.world.start("b1")
    town.run(6)
    assert phone.payloads == [b"4", b"1", b"2", b"3"]


def test_what_was_sent_with_qos_2_and_not_acknowledged_does_not_come_again() -> None:
    town = Town(hand_over=GO_ON)
    phone, sender = town.commuter(2)
    publish(town, sender, "1", qos=2)
    assert phone.payloads == [b"1"]
    town.hang_up(phone)
    publish(town, sender, "2", qos=2)
    town.world.crash("b1")
    town.run(6)
    phone = town.connect("b2", wait=3)
    town.world.start("b1")
    town.run(6)
    assert phone.payloads == [b"2"], "1 may have been received"


def test_leftovers_are_for_the_subscriptions_of_today() -> None:
    town = Town(hand_over=GO_ON)
    phone, _ = stranded(town)
    town.say(phone, Unsubscribe(2, ("a/#",)))
    town.world.start("b1")
    town.run(6)
    assert phone.payloads == []
    assert quiet(town)


def test_a_clean_start_discards_them() -> None:
    town = Town(hand_over=GO_ON)
    phone, _ = stranded(town)
    town.hang_up(phone)
    phone = town.connect("b2", clean=True)
    town.say(phone, Subscribe(1, (Request("a/#", 1),)))
    town.world.start("b1")
    town.run(6)
    assert phone.payloads == []
    assert town.owners() == ["b2"]
    assert quiet(town)


def test_nobody_knew_it_and_it_turns_up() -> None:
    town = Town(4)
    phone, sender = town.commuter()
    town.hang_up(phone)
    publish(town, sender, "1")
    for broker in town.world.nodes:  # nobody remembers it
        if broker != "b1":
            town.core(broker).mobility.directory.drop("phone")
    town.world.crash("b1")
    town.run(8)
    phone = town.connect("b2", wait=3)
    assert (phone.connack.reason, phone.connack.session_present) == (Reason.SUCCESS, False)
    assert "session" not in words(phone)
    town.say(phone, Subscribe(1, (Request("a/#", 1),)))
    town.world.start("b1")
    town.run(6)
    assert (phone.payloads, late(phone)) == ([b"1"], [b"1"])


@pytest.mark.parametrize("victim", ["b1", "b2"])
@pytest.mark.parametrize("qos", [1, 2])
def test_either_broker_dies_while_they_come(victim: str, qos: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PAGE_ROWS", 1)
    for moment in range(600, 900, 12):  # thousandths of a second after b1 is back
        town = Town(hand_over=GO_ON)
        phone, _ = stranded(town, qos)
        town.hang_up(phone, wait=0.1)
        town.world.start("b1")
        town.run(moment / 1000)
        town.world.crash(victim)
        town.run(3)
        town.world.start(victim)
        town.run(12)
        phone = town.connect("b3", wait=3)
        assert phone.connack.session_present, moment
        assert sorted(phone.payloads) == [b"1", b"2", b"3"], moment
        assert quiet(town), moment


def test_the_session_moves_on_before_they_have_come() -> None:
    town = Town(4, hand_over=GO_ON)
    phone, sender = stranded(town)
    publish(town, sender, "4")
    acknowledge(town, phone)
    phone = town.connect("b4", wait=2)
    assert phone.connack.session_present
    town.world.start("b1")
    town.run(6)
    assert phone.payloads == [b"1", b"2", b"3"], "4 was given at b2, and b4 knows"
    assert town.owners() == ["b4"]


def test_the_session_goes_back_to_the_broker_that_has_them() -> None:
    for moment in range(500, 1200, 25):
        town = Town(hand_over=GO_ON)
        phone, sender = stranded(town)
        publish(town, sender, "4")
        acknowledge(town, phone)
        town.hang_up(phone, wait=0.1)
        town.world.start("b1")
        town.run(moment / 1000)
        phone = town.connect("b1", wait=8)
        assert sorted(set(phone.payloads)) in ([b"1", b"2", b"3"], [b"1", b"2", b"3", b"4"]), moment
        assert town.owners() == ["b1"], moment
        assert quiet(town), moment


def test_with_a_short_memory_qos_1_repeats_and_qos_2_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "GIVEN_MAX", 2)
    for qos, found in ((1, [b"1", b"2", b"3", b"4", b"5", b"6"]), (2, [])):
        town = Town(hand_over=GO_ON)
        phone, sender = stranded(town, qos)
        publish(town, sender, "4", "5", "6", qos=qos)
        assert phone.payloads == [b"4", b"5", b"6"]
        town.world.start("b1")
        town.run(6)
        assert phone.payloads[3:] == found


def test_what_is_forgotten_while_the_session_moves_is_forgotten_at_its_new_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """b2 has told b3 that it knows everything that the session was given, and then has to forget the oldest."""
    monkeypatch.setattr(given, "GIVEN_MAX", 2)
    town = Town(hand_over=GO_ON)
    _, sender = stranded(town, 2)
    publish(town, sender, "4", "5", qos=2)
    other = town.connect("b2", "other", expiry_s=0, clean=True)
    phone = town.connect("b3", wait=0)
    while "phone" not in town.core("b2").mobility.departures.leaving:
        town.run(0.001)
    publish(town, other, "6", qos=2)
    assert phone.connack.session_present
    assert phone.payloads == [b"4", b"5", b"6"]
    town.world.start("b1")
    town.run(6)
    assert phone.payloads == [b"4", b"5", b"6"], "b1 has 4 as well, and it would come again"
    assert quiet(town)


def burn(town: Town, broker: str) -> None:
    town.world.crash(broker, keeps_disk=False)


def test_a_client_that_does_not_go_on_finds_nothing_of_a_burnt_session() -> None:
    """It is told of a new session, and expects no subscriptions in it [MQTT-3.2.2-3]."""
    town = Town()
    phone, sender = town.commuter()
    town.hang_up(phone)
    burn(town, "b1")
    town.run(6)
    town.world.start("b1")
    town.run(6)
    phone = town.connect("b2", wait=3)
    assert (phone.connack.reason, phone.connack.session_present) == (Reason.SUCCESS, False)
    assert "session" not in words(phone)
    publish(town, sender, "2")
    assert phone.payloads == []


def test_a_burnt_disk() -> None:
    town = Town(hand_over=GO_ON)
    phone, sender = town.commuter()
    town.hang_up(phone)
    publish(town, sender, "1")
    burn(town, "b1")
    town.run(6)
    town.world.start("b1")
    town.run(6)
    phone = town.connect("b2", wait=3)
    assert (phone.connack.reason, phone.connack.session_present) == (Reason.SUCCESS, False)
    assert (words(phone)["session"], words(phone)["owner-lost"]) == ("restored", "b1")
    publish(town, sender, "2")
    assert phone.payloads == [b"2"], "it is subscribed, and what waited at b1 is gone"
    assert quiet(town)


def test_a_broker_that_is_forgotten() -> None:
    town = Town(hand_over=GO_ON)
    phone, sender = town.commuter()
    town.hang_up(phone)
    town.hang_up(town.connect("b1", expiry_s=100_000))  # longer than brokers are remembered
    town.world.crash("b1")
    town.run(6)
    forget_us = town.core("b2").settings.forget_us
    town.run(forget_us / 1_000_000)
    phone = town.connect("b2", wait=3)
    assert (words(phone)["session"], words(phone)["owner-lost"]) == ("restored", "b1")
    publish(town, sender, "2")
    assert phone.payloads == [b"2"]


def test_a_session_that_ended_is_not_restored() -> None:
    town = Town(hand_over=GO_ON)
    phone, _ = town.commuter()
    town.hang_up(phone)
    phone = town.connect("b1", clean=True, expiry_s=0)
    town.hang_up(phone)
    burn(town, "b1")
    town.run(6)
    town.world.start("b1")
    town.run(6)
    phone = town.connect("b2", wait=3)
    assert "session" not in words(phone)
    assert town.core("b2").sessions.by_client["phone"].subscriptions == {}


def test_subscriptions_are_told_again_when_they_change() -> None:
    town = Town(hand_over=GO_ON)
    phone, _ = town.commuter()
    town.say(phone, Subscribe(2, (Request("b/#", 2), Request("$share/g/c/+", 1))))
    town.say(phone, Unsubscribe(3, ("a/#",)))
    town.world.crash("b1")
    town.run(6)
    phone = town.connect("b3", wait=3)
    restored = town.core("b3").sessions.by_client["phone"].subscriptions
    assert {text: each.qos for text, each in restored.items()} == {"b/#": 2, "$share/g/c/+": 1}


def test_too_many_subscriptions_are_not_told() -> None:
    town = Town(hand_over=GO_ON)
    phone, _ = town.commuter()
    long = "x" * 100
    requests = tuple(Request(f"{long}/{at}", 1) for at in range(ENTRY_BYTES_MAX // 100))
    town.say(phone, Subscribe(2, requests))
    assert town.core("b1").mobility.directory.untold >= 1
    town.world.crash("b1")
    town.run(6)
    phone = town.connect("b3", wait=3)
    assert "session" not in words(phone)
    assert words(phone)["owner-away"] == "b1"


def test_another_user_does_not_go_on() -> None:
    town = Town(hand_over=GO_ON)
    phone, _ = town.commuter(user="ann")
    town.hang_up(phone)
    town.world.crash("b1")
    town.run(6)
    thief = town.connect("b2", user="bob", wait=3)
    assert thief.connack.reason == Reason.CLIENT_IDENTIFIER_NOT_VALID
    phone = town.connect("b2", user="ann", wait=3)
    assert phone.connack.reason == Reason.SUCCESS
