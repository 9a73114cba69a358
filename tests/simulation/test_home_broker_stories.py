"""Clients whose sessions stay at home (*mobility* §3: home-broker), each as a short story."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from latecomer.core.inputs import MoveWanted, MqttFailed, MqttReceived
from latecomer.core.mobility.settings import HandOverSettings, OwnerAway
from latecomer.messages.mqtt import (
    V5,
    V311,
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
    Suback,
    Subscribe,
    Will,
)
from tests.simulation.town import SECOND_US, Line, Town

HOME = HandOverSettings(algorithm="home-broker")
WORD = (("hand-over", "home-broker"),)


def tunnels(town: Town) -> list[tuple[str, str, str]]:
    """Client, home and the broker where it is; seen alike from both ends."""
    cores = {id: node.core for id, node in town.world.nodes.items() if node.core is not None}
    home = [(t.client, id, t.peer) for id, core in cores.items() for t in core.mobility.remote.by_number.values()]
    away = [(v.client, v.peer, id) for id, core in cores.items() for v in core.mobility.visits.by_connection.values()]
    assert sorted(home) == sorted(away)
    return home


def goodbyes(line: Line) -> list[int]:
    return [packet.reason for packet in line.inbox if isinstance(packet, Disconnect)]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", [V5, V311])
def test_a_visitor_publishes_and_receives_through_the_broker_where_it_is(qos: int, version: int) -> None:
    town = Town(hand_over=HOME)
    phone, sender = town.commuter(qos=2, version=version)
    town.hang_up(phone)
    listener = town.connect("b3", "listener")
    town.say(listener, Subscribe(1, (Request("up/#", 2),)))
    phone = town.connect("b2", version=version)
    assert phone.connack.session_present
    assert (town.owners(), tunnels(town)) == (["b1"], [("phone", "b1", "b2")])
    town.publish(sender, "1", "2", qos=qos)
    assert phone.payloads == [b"1", b"2"]
    town.say(phone, Publish("up/phone", b"3", qos, packet_id=7 if qos else 0))
    assert listener.payloads == [b"3"]
    answers = [packet for packet in phone.inbox if isinstance(packet, Puback | Pubrec)]
    assert [answer.packet_id for answer in answers] == ([7] if qos else [])
    if qos == 2:
        town.say(phone, Pubrel(7))
        assert Pubcomp(7) in phone.inbox
    town.say(phone, Subscribe(9, (Request("more/#", 1),)))
    assert any(isinstance(packet, Suback) and packet.packet_id == 9 for packet in phone.inbox)
    assert set(town.core("b1").sessions.by_client["phone"].subscriptions) == {"a/#", "more/#"}


def test_what_waited_at_home_is_sent_through_the_tunnel_and_again_until_it_is_settled() -> None:
    town = Town(hand_over=HOME)
    phone, sender = town.commuter(qos=2)
    town.hang_up(phone)
    town.publish(sender, "1", "2", qos=2)
    phone = town.connect("b2")
    first, second = (packet for packet in phone.inbox if isinstance(packet, Publish))
    town.say(phone, Pubrec(first.packet_id))
    town.hang_up(phone)
    phone = town.connect("b3")
    [again] = (packet for packet in phone.inbox if isinstance(packet, Publish))
    assert (again.payload, again.packet_id, again.dup) == (b"2", second.packet_id, True)
    town.say(phone, Pubcomp(first.packet_id), Pubrec(second.packet_id))
    town.say(phone, Pubcomp(second.packet_id))
    assert not town.core("b1").sessions.by_client["phone"].queue


def test_a_publication_of_qos_2_is_taken_once_although_its_client_moves() -> None:
    town = Town(hand_over=HOME)
    listener, _ = town.commuter(client="listener", qos=2)
    phone = town.connect("b2")
    phone = town.connect("b3")
    town.say(phone, Publish("a/b", b"once", 2, packet_id=9))
    town.hang_up(phone)
    phone = town.connect("b1")
    town.say(phone, Publish("a/b", b"once", 2, dup=True, packet_id=9))
    assert any(isinstance(packet, Pubrec) for packet in phone.inbox)
    assert listener.payloads == [b"once"]
    assert town.owners() == ["b2"]


def test_a_client_may_choose_for_itself() -> None:
    town = Town()
    phone, sender = town.commuter(words=WORD)
    phone = town.connect("b2", words=WORD)
    assert tunnels(town) == [("phone", "b1", "b2")]
    town.publish(sender, "1")
    assert phone.payloads == [b"1"]
    phone = town.connect("b3")
    assert (town.owners(), tunnels(town)) == (["b3"], []), "without the word the session follows, as everybody's here"


def test_the_client_is_asked_to_connect_again_when_the_tree_changes() -> None:
    town = Town(4, hand_over=HOME)
    phone, sender = town.commuter()
    phone = town.connect("b2")
    town.world.crash("b4")
    town.run(5)
    assert (goodbyes(phone), phone.closed) == ([Reason.SERVER_BUSY], True)
    assert tunnels(town) == []
    town.publish(sender, "1", "2")
    phone = town.connect("b2")
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1", b"2"])


def test_home_dies_and_nothing_is_lost() -> None:
    town = Town(hand_over=HOME)
    phone, sender = town.commuter()
    phone = town.connect("b2")
    town.publish(sender, "1")
    town.world.crash("b1")
    town.run(5)
    assert phone.closed
    town.publish(sender, "2")
    waiting = town.connect("b2", wait=8)
    assert waiting.connack.reason == Reason.SERVER_UNAVAILABLE
    assert "b1" in (waiting.connack.properties.reason_string or "")
    town.world.start("b1")
    town.run(5)
    phone = town.connect("b2")
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1", b"2"])


def test_the_broker_of_the_client_dies_and_the_client_goes_elsewhere() -> None:
    town = Town(4, hand_over=HOME)
    phone, sender = town.commuter()
    town.connect("b4")
    town.world.crash("b4")
    town.run(5)
    assert not town.core("b1").sessions.by_client["phone"].connection, "home sees a broken connection"
    town.publish(sender, "1")
    phone = town.connect("b2")
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1"])


def test_two_connections_one_id() -> None:
    town = Town(hand_over=HOME)
    phone, sender = town.commuter()
    second = town.connect("b2")
    assert (goodbyes(phone), phone.closed) == ([Reason.SESSION_TAKEN_OVER], True)
    third = town.connect("b3")
    assert (goodbyes(second), second.closed) == ([Reason.SESSION_TAKEN_OVER], True)
    fourth = town.connect("b3")
    assert (goodbyes(third), third.closed) == ([Reason.SESSION_TAKEN_OVER], True)
    home = town.connect("b1")
    assert (goodbyes(fourth), fourth.closed) == ([Reason.SESSION_TAKEN_OVER], True)
    town.publish(sender, "1")
    assert home.payloads == [b"1"]
    assert tunnels(town) == []


def test_two_connections_to_one_broker_while_home_is_asked() -> None:
    town = Town(hand_over=HOME)
    town.commuter()
    first = town.connect("b3", wait=0.02, will=Will("a/will", b"first", 1))
    second = town.connect("b3", will=Will("a/will", b"second", 1))
    assert first.connack.reason == Reason.SESSION_TAKEN_OVER
    assert second.connack.session_present
    will = town.core("b1").sessions.by_client["phone"].will
    assert will is not None
    assert will.payload == b"second", "home knows the CONNECT of the connection that stays"


@pytest.mark.parametrize("owner_away", ["hold", "go-on"])
def test_a_client_that_connects_twice_does_not_get_a_session_that_its_home_has_promised(owner_away: OwnerAway) -> None:
    """The session moves from b1 to b2, which is cut off before it can say that it has it. To b1 its client comes
    twice: only b2 knows whose the session is."""
    town = Town(hand_over=replace(HOME, owner_away=owner_away))
    phone, sender = town.commuter(qos=2)
    town.hang_up(phone)
    town.publish(sender, "1", qos=2)
    town.world.tell("b1", MoveWanted("phone", "b2"))
    while "phone" not in town.core("b2").sessions.by_client:
        town.run(0.001)
    assert "phone" in town.core("b1").mobility.departures.promises
    town.world.partition(["b2"], 20 * SECOND_US)
    phone = town.connect("b2", wait=5)
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1"])
    first = town.connect("b1", wait=0.2)
    second = town.connect("b1", wait=6)
    assert first.connack.reason == Reason.SESSION_TAKEN_OVER
    assert (second.connack.reason, second.payloads) == (Reason.SERVER_UNAVAILABLE, [])
    town.run(15)
    assert town.owners() == ["b2"]
    assert town.connect("b1").connack.session_present
    assert tunnels(town) == [("phone", "b2", "b1")]


def test_another_user_gets_nothing() -> None:
    town = Town(hand_over=HOME)
    phone, _ = town.commuter(user="ann")
    thief = town.connect("b2", user="bob")
    assert thief.connack.reason == Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert not phone.closed


def test_a_will_fires_when_its_client_dies_and_not_when_it_moves_on() -> None:
    town = Town(hand_over=HOME)
    listener = town.connect("b3", "listener")
    town.say(listener, Subscribe(1, (Request("will/#", 1),)))
    will = Will("will/phone", b"gone", 1, False, Properties(will_delay_s=3))
    phone = town.connect("b1", will=will)
    town.hang_up(phone)
    phone = town.connect("b2", will=will)
    town.hang_up(phone)
    phone = town.connect("b3", will=will)
    town.run(10)
    assert listener.payloads == []
    town.hang_up(phone, wait=5)
    assert listener.payloads == [b"gone"]


def test_a_will_comes_again_if_home_dies_between_connect_and_connack() -> None:
    """What is not promised: for home the tunnel was a connection, and the CONNECT that it is asked about again is
    another one, with a will of its own."""
    town = Town(hand_over=HOME)
    listener = town.connect("b3", "listener", expiry_s=0)
    town.say(listener, Subscribe(1, (Request("will/#", 2),)))
    town.hang_up(town.connect("b1"))
    phone = town.connect("b2", will=Will("will/phone", b"gone", 2, False), wait=0)
    while not town.core("b1").mobility.remote.by_number:
        town.run(0.001)
    assert not phone.inbox
    town.world.crash("b1")
    town.run(0.1)
    town.world.start("b1")
    town.run(4)
    assert phone.connack.session_present
    assert not phone.closed
    assert listener.payloads == [b"gone"]
    town.hang_up(phone)
    assert listener.payloads == [b"gone"] * 2


def test_a_will_waits_although_the_broker_that_was_promised_the_session_starts_again() -> None:
    """The phone loses its tunnel from b2 to b1 with its tree, and asks b3 for its session, by *standard*. b3 starts
    again on the way, and the phone is back at b2 in time."""
    promised = 0
    for moment in range(10, 60, 2):  # thousandths of a second after the CONNECT at b3
        town = Town(4, hand_over=HOME)
        listener = town.connect("b1", "listener", expiry_s=0)
        town.say(listener, Subscribe(1, (Request("will/#", 1),)))
        town.hang_up(town.connect("b1"))
        phone = town.connect("b2", will=Will("will/phone", b"gone", 1, False))
        assert tunnels(town) == [("phone", "b1", "b2")]
        town.world.crash("b4")
        while not phone.closed:
            town.run(0.01)
        town.run(0.2)
        town.connect("b3", words=(("hand-over", "standard"),), wait=moment / 1000)
        town.world.crash("b3")
        promised += "phone" in town.core("b1").mobility.departures.promises
        town.run(0.1)
        town.world.start("b3")
        town.run(2)
        phone = town.connect("b2", wait=2)
        assert phone.connack.session_present, moment
        town.run(10)
        assert listener.payloads == [], moment
    assert promised


def test_a_visitor_says_goodbye_and_its_will_is_forgotten() -> None:
    town = Town(hand_over=HOME)
    listener = town.connect("b3", "listener")
    town.say(listener, Subscribe(1, (Request("will/#", 1),)))
    town.connect("b1")
    phone = town.connect("b2", will=Will("will/phone", b"gone", 1))
    town.say(phone, Disconnect(), wait=0)
    town.hang_up(phone, wait=5)
    assert listener.payloads == []
    assert tunnels(town) == []
    assert not town.core("b1").sessions.by_client["phone"].connection


def test_keep_alive_is_the_business_of_the_broker_where_the_client_is() -> None:
    town = Town(hand_over=HOME)
    town.connect("b1")
    phone = town.connect("b2")
    town.say(phone, Pingreq(), wait=0)
    assert Pingresp() in phone.inbox
    visit = town.core("b2").mobility.visits.by_connection[phone.number]
    assert visit.keep_alive_s == 60
    town.world.tell("b2", MqttFailed(phone.number, Reason.KEEP_ALIVE_TIMEOUT, "silence"))
    town.run(1)
    assert (goodbyes(phone), phone.closed) == ([Reason.KEEP_ALIVE_TIMEOUT], True)
    assert not town.core("b1").sessions.by_client["phone"].connection


def test_a_protocol_error_of_a_visitor_is_answered_by_home() -> None:
    town = Town(hand_over=HOME)
    town.connect("b1")
    phone = town.connect("b2")
    town.say(phone, Publish("", b"", 0, properties=Properties(topic_alias=5)))
    assert (goodbyes(phone), phone.closed) == ([Reason.PROTOCOL_ERROR], True)
    assert tunnels(town) == []


def test_a_slow_visitor_does_not_fill_the_memory_of_anybody() -> None:
    town = Town(hand_over=replace(HOME, tunnel_bytes=2_000))
    phone, sender = town.commuter()
    phone = town.connect("b2")
    visit = town.core("b2").mobility.visits.by_connection[phone.number]
    visit.choked = True  # its socket takes no more
    for at in range(40):
        town.publish(sender, f"{at}")
    sent = len(phone.payloads)
    assert sent < 20
    session = town.core("b1").sessions.by_client["phone"]
    assert (session.choked, len(session.queue)) == (True, 40)
    visit.choked = False
    town.world.tell("b2", MqttReceived(phone.number, ()))
    town.run(2)
    assert phone.payloads == [b"%d" % at for at in range(40)]


def test_a_fast_visitor_is_not_read_from_while_its_tunnel_is_full() -> None:
    town = Town(hand_over=replace(HOME, tunnel_bytes=2_000))
    listener, _ = town.commuter(client="listener")
    town.connect("b1")
    phone = town.connect("b2")
    reads: list[bool] = []
    town.read = lambda connection, go_on: reads.append(go_on)  # type: ignore[method-assign]
    town.say(phone, *(Publish("a/b", b"%d" % at, 1, packet_id=at) for at in range(1, 41)), wait=0)
    assert reads == [False]
    town.run(2)
    assert reads == [False, True]
    assert listener.payloads == [b"%d" % at for at in range(1, 41)]


def test_a_session_stays_although_its_client_says_where_it_goes_but_an_operator_can_move_it() -> None:
    town = Town(hand_over=HOME)
    phone, sender = town.commuter()
    phone = town.connect("b2")
    town.say(phone, Disconnect(Reason.SUCCESS, Properties(user=(("next-broker", "b3"),))))
    assert town.owners() == ["b1"]
    phone = town.connect("b2")
    town.world.tell("b1", MoveWanted("phone", "b3"))
    town.run(2)
    assert (goodbyes(phone), town.owners(), tunnels(town)) == ([Reason.USE_ANOTHER_SERVER], ["b3"], [])
    town.publish(sender, "1")
    phone = town.connect("b2")
    assert (phone.payloads, tunnels(town)) == ([b"1"], [("phone", "b3", "b2")])


def test_a_clean_start_at_another_broker_ends_the_session_and_the_visit() -> None:
    town = Town(hand_over=HOME)
    town.commuter()
    phone = town.connect("b2")
    fresh = town.connect("b3", clean=True)
    assert not fresh.connack.session_present
    assert (goodbyes(phone), phone.closed) == ([Reason.SESSION_TAKEN_OVER], True)
    assert (town.owners(), tunnels(town)) == (["b3"], [])
