"""Clients that move between brokers, each as a short story: what they find at the next one."""

from __future__ import annotations

from msgspec.structs import replace

from latecomer.core.mobility.settings import HandOverSettings
from latecomer.messages.mqtt import (
    V311,
    Disconnect,
    Properties,
    Puback,
    Publish,
    Pubrec,
    Reason,
    Request,
    Subscribe,
    Will,
)
from latecomer.model.movement import BUCKETS, WEIGHT_ONE, Movement, indexed
from tests.simulation.town import AHEAD, SECOND_US, Town


def test_a_commuter_finds_everything_at_the_next_broker() -> None:
    town = Town()
    phone, sender = town.commuter()
    town.hang_up(phone)
    town.publish(sender, "1", "2", "3")
    phone = town.connect("b2")
    assert phone.connack.session_present
    assert phone.payloads == [b"1", b"2", b"3"]
    town.publish(sender, "4")
    assert phone.payloads[3:] == [b"4"], "and what is published from now on"
    assert town.owners() == ["b2"]
    assert all(town.core(broker).mobility.idle for broker in ("b1", "b2", "b3"))
    assert not town.world.nodes["b1"].disk.tables.get("queue", {}).get("phone")


def test_an_older_client_moves_as_well() -> None:
    town = Town()
    phone, sender = town.commuter(version=V311)
    town.hang_up(phone)
    town.publish(sender, "1")
    phone = town.connect("b2", version=V311)
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1"])


def test_what_was_sent_and_not_acknowledged_comes_again_under_its_packet_id() -> None:
    town = Town()
    phone, sender = town.commuter(qos=2)
    town.publish(sender, "1", "2", qos=2)
    first = [packet for packet in phone.inbox if isinstance(packet, Publish)]
    town.say(phone, Pubrec(first[0].packet_id))
    town.hang_up(phone)
    phone = town.connect("b2")
    [again] = [packet for packet in phone.inbox if isinstance(packet, Publish)]
    assert (again.payload, again.packet_id, again.dup) == (b"2", first[1].packet_id, True)
    kinds = [type(packet).__name__ for packet in phone.inbox]
    assert "Pubrel" in kinds, "the first one was received, and its packet id is still to be released"


def test_a_publication_of_qos_2_is_taken_once_although_its_client_moves() -> None:
    town = Town()
    listener, _ = town.commuter(client="listener", qos=2)
    phone = town.connect("b2")
    town.say(phone, Publish("a/b", b"once", 2, packet_id=9))
    town.hang_up(phone)
    phone = town.connect("b3")
    town.say(phone, Publish("a/b", b"once", 2, dup=True, packet_id=9))
    assert any(isinstance(packet, Pubrec) and packet.packet_id == 9 for packet in phone.inbox)
    assert listener.payloads == [b"once"]


def test_the_old_broker_dies_in_the_middle_and_nothing_is_lost() -> None:
    town = Town()
    phone, sender = town.commuter()
    town.hang_up(phone)
    town.publish(sender, "1", "2", "3")
    waiting = town.connect("b2", wait=0.012)  # it has asked b1
    town.world.crash("b1")
    town.run(8)
    assert waiting.connack.reason == Reason.SERVER_UNAVAILABLE
    assert "b1" in (waiting.connack.properties.reason_string or "")
    assert waiting.closed
    town.publish(sender, "4")
    town.world.start("b1")
    town.run(5)
    phone = town.connect("b2", wait=3)
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1", b"2", b"3", b"4"])


def test_an_origin_dies_when_the_new_broker_has_its_event_and_the_old_one_has_not() -> None:
    """The session is at b4, its client comes to b2, and b1 publishes: it takes one link to b2, and two by b5 to b4. If
    b1 and b5 die between, b2 has had the event, and lets go of it with the session. It must not take b1's second copy
    for one that the session was given."""
    for moment in range(10, 70, 2):  # thousandths of a second from the CONNECT to the publication
        town = Town(5, ring=True)
        phone = town.connect("b4")
        town.say(phone, Subscribe(1, (Request("a/#", 1),)))
        town.hang_up(phone, wait=5)
        sender = town.connect("b1", "sender", expiry_s=0, clean=True)
        waiting = town.connect("b2", words=(("previous-broker", "b4"),), wait=moment / 1000)
        town.say(sender, Publish("a/b", b"1", 1, packet_id=1), wait=0.006)
        town.world.crash("b1")
        town.world.crash("b5")
        town.run(0.2)
        town.world.start("b5")
        town.run(9)
        if waiting.closed or waiting.connack.reason:
            waiting = town.connect("b2", wait=7)
        town.world.start("b1")
        town.run(12)
        if waiting.closed or waiting.connack.reason:
            waiting = town.connect("b2", wait=7)
        assert waiting.connack.session_present, moment
        assert waiting.payloads == [b"1"], moment


def test_an_event_on_its_way_through_the_new_broker_is_waited_for_when_its_origin_dies() -> None:
    """The session is at b3. b2 passes b1's event on, but nothing gets through to b3 for a while, and b1 dies. The
    client comes to b2, which has had the event and would take b1's second copy for a repetition."""
    town = Town()
    phone = town.connect("b3")
    town.say(phone, Subscribe(1, (Request("a/#", 1),)))
    town.hang_up(phone)
    sender = town.connect("b1", "sender", expiry_s=0, clean=True)
    town.world.break_wire("b2", "b3", 3 * SECOND_US, silently=True)
    town.say(sender, Publish("a/b", b"1", 1, packet_id=1), wait=0.1)
    town.world.crash("b1")
    town.run(6)
    phone = town.connect("b2", wait=7)
    assert phone.connack.reason == Reason.SERVER_UNAVAILABLE, "b1 may have something for the session"
    town.world.start("b1")
    town.run(6)
    phone = town.connect("b2", wait=3)
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1"])


def test_an_event_that_only_the_new_broker_has_had_comes_when_its_origin_is_back() -> None:
    """The session is at b4. b1 sends an event to b2, for a client there, and by b5 to b4; nothing gets through to b4,
    and b1 dies. The session moves to b2 while b1 is away. For b2 the second copy is a repetition, for the session it is
    the first, also when it has moved once more, and b2 or b3 have started again."""
    for then in ("stays", "restarts", "moves", "moves and restarts"):
        town = Town(5, ring=True)
        phone = town.connect("b4")
        town.say(phone, Subscribe(1, (Request("a/#", 2),)))
        town.hang_up(phone, wait=5)
        resident = town.connect("b2", "resident", expiry_s=0, clean=True)
        town.say(resident, Subscribe(1, (Request("a/#", 2),)), wait=1)
        sender = town.connect("b1", "sender", expiry_s=0, clean=True)
        town.world.break_wire("b4", "b5", 3 * SECOND_US, silently=True)
        town.say(sender, Publish("a/b", b"1", 1, packet_id=1), wait=0.1)
        assert resident.payloads == [b"1"]
        town.world.crash("b1")
        town.run(8)
        phone = town.connect("b2", wait=3)
        assert (phone.connack.session_present, phone.payloads) == (True, []), then
        at = "b2"
        if "moves" in then:
            town.hang_up(phone)
            at = "b3"
            phone = town.connect("b3", wait=3)
            assert (phone.connack.session_present, phone.payloads) == (True, []), then
        if "restarts" in then:
            town.world.crash(at)
            town.run(1)
            town.world.start(at)
            town.run(8)
        town.world.start("b1")
        town.run(8)
        if "restarts" in then:
            phone = town.connect(at, wait=3)
        assert phone.payloads == [b"1"], then
        town.world.crash("b1")
        town.run(8)
        town.world.start("b1")
        town.run(8)
        assert (phone.payloads, resident.payloads) == ([b"1"], [b"1"]), then


def test_the_new_broker_dies_when_it_was_promised_the_session() -> None:
    for moment in range(10, 60, 4):  # thousandths of a second after the CONNECT
        town = Town()
        phone, sender = town.commuter()
        town.hang_up(phone)
        town.publish(sender, "1", "2", "3")
        town.connect("b2", wait=moment / 1000)
        town.world.crash("b2")
        town.run(8)
        town.world.start("b2")
        town.run(5)
        phone = town.connect("b3", wait=6)
        assert phone.connack.session_present, moment
        assert phone.payloads == [b"1", b"2", b"3"], moment
        assert town.owners() == ["b3"]


def test_the_new_broker_dies_before_others_know_that_it_has_the_session() -> None:
    for moment in range(10, 60):  # thousandths of a second after the CONNECT
        town = Town()
        phone, _ = town.commuter()
        town.hang_up(phone, wait=5)
        town.connect("b2", wait=moment / 1000)
        town.world.crash("b2")
        town.run(5)
        phone = town.connect("b1", wait=6)
        assert phone.connack.session_present or phone.connack.reason == Reason.SERVER_UNAVAILABLE, moment


def test_two_connections_one_id() -> None:
    town = Town()
    phone, sender = town.commuter()
    other = town.connect("b3")
    assert other.connack.session_present
    assert [packet.reason for packet in phone.inbox if isinstance(packet, Disconnect)] == [Reason.SESSION_TAKEN_OVER]
    assert phone.closed
    town.publish(sender, "1")
    assert other.payloads == [b"1"]


def test_an_older_connection_does_not_get_the_session_of_a_younger_one() -> None:
    """The client comes to b2, which hears from b1 late and only then asks for the session. It does not wait, and is
    back at b1."""
    town = Town()
    town.hang_up(town.commuter()[0])
    town.world.stall("b1", "b2", SECOND_US // 2)
    waiting = town.connect("b2", wait=0.2)
    phone = town.connect("b1", wait=1)
    assert phone.connack.session_present
    assert not phone.closed, "the connection at b1 is the younger one"
    assert waiting.connack.reason == Reason.SESSION_TAKEN_OVER
    assert waiting.closed
    assert town.owners() == ["b1"]


def test_another_user_gets_nothing() -> None:
    town = Town()
    phone, _ = town.commuter(user="ann")
    thief = town.connect("b3", user="bob")
    assert thief.connack.reason == Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert not phone.closed
    thief = town.connect("b2", user="bob", clean=True)
    assert thief.connack.reason == Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert town.owners() == ["b1"]
    thief = town.connect("b2", user="bob", clean=True, expiry_s=0)
    assert thief.connack.reason == Reason.SUCCESS, "it is served at once, and nobody was asked"
    [goodbye] = [packet for packet in thief.inbox if isinstance(packet, Disconnect)]
    assert goodbye.reason == Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert (thief.closed, phone.closed, town.owners()) == (True, False, ["b1"])


def test_a_clean_start_elsewhere_ends_the_session() -> None:
    town = Town()
    phone, _ = town.commuter()
    town.hang_up(phone)
    fresh = town.connect("b3", clean=True)
    assert not fresh.connack.session_present
    assert town.owners() == ["b3"]
    assert town.core("b3").sessions.by_client["phone"].subscriptions == {}


def test_a_will_does_not_fire_when_its_client_merely_moves() -> None:
    town = Town()
    listener = town.connect("b3", "listener")
    town.say(listener, Subscribe(1, (Request("will/#", 1),)))
    will = Will("will/phone", b"gone", 1, False, Properties(will_delay_s=3))
    phone = town.connect("b1", will=will)
    town.hang_up(phone, wait=1)
    phone = town.connect("b2", will=will)
    town.run(10)
    assert listener.payloads == []
    town.hang_up(phone, wait=5)
    assert listener.payloads == [b"gone"], "it has not come back in time"


def test_a_client_that_says_where_it_goes_is_expected_there() -> None:
    town = Town()
    phone, sender = town.commuter()
    town.say(phone, Disconnect(Reason.SUCCESS, Properties(user=(("next-broker", "b3"),))))
    assert town.owners() == ["b3"], "the session went ahead"
    town.publish(sender, "1")
    phone = town.connect("b3", wait=0.001)
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1"])


def test_a_wrong_guess_costs_time_and_nothing_else() -> None:
    town = Town()
    phone, sender = town.commuter()
    town.say(phone, Disconnect(Reason.SUCCESS, Properties(user=(("next-broker", "b3"),))))
    town.publish(sender, "1")
    phone = town.connect("b2")
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1"])
    assert town.owners() == ["b2"]


def habits(often: int = 10, **goes: str) -> Movement:
    """A model of clients that mostly go to one broker, so many times of ten."""
    places = tuple(sorted({*goes.values(), "b1", "b2", "b3"}))
    sure = (WEIGHT_ONE,) * BUCKETS
    model = Movement(places, 24, (3,), (sure,), True, {}, {})
    own = {client: {model.key(-1, -1, -1): (10, places.index(to), often)} for client, to in goes.items()}
    return indexed(replace(model, clients=own))


def test_a_client_with_a_habit_is_expected_where_it_goes() -> None:
    town = Town(hand_over=AHEAD)
    phone, sender = town.commuter()
    town.core("b1").mobility.guessing.movement = habits(phone="b3")
    town.hang_up(phone, wait=1)
    assert town.owners() == ["b1"], "it may be back at once"
    town.run(3)
    assert town.owners() == ["b3"]
    town.publish(sender, "1")
    phone = town.connect("b3", wait=0.001)
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1"])


def test_a_client_that_comes_back_in_time_is_not_sent_ahead() -> None:
    town = Town(hand_over=AHEAD)
    phone, _ = town.commuter()
    town.core("b1").mobility.guessing.movement = habits(phone="b3")
    town.hang_up(phone, wait=1)
    town.connect("b1", wait=5)
    assert town.owners() == ["b1"]


def test_wrong_guesses_make_a_broker_careful() -> None:
    town = Town(hand_over=AHEAD)
    phone, _ = town.commuter()
    for broker in ("b1", "b2"):
        town.core(broker).mobility.guessing.movement = habits(phone="b3")
    town.hang_up(phone, wait=4)
    assert town.owners() == ["b3"]
    phone = town.connect("b1")
    assert phone.connack.session_present
    session = town.core("b1").sessions.by_client["phone"]
    assert session.misses == 1
    guessing = town.core("b1").mobility.guessing
    guessing.movement = habits(8, phone="b3")  # eight times of ten: enough for the first guess, not for the second
    session.misses = 2
    town.hang_up(phone, wait=4)
    assert town.owners() == ["b1"]


def test_the_word_of_the_client_saves_the_question() -> None:
    town = Town()
    phone, _ = town.commuter()
    town.hang_up(phone)
    phone = town.connect("b2", words=(("previous-broker", "b1"),))
    assert phone.connack.session_present
    phone = town.connect("b3", words=(("previous-broker", "b1"),))
    assert phone.connack.session_present, "a wrong word is no harm"


def test_a_new_client_is_served_at_once_although_a_broker_is_away() -> None:
    town = Town(4)
    town.run(5)  # a broker that has just begun waits for the others
    town.world.crash("b4")
    town.run(5)
    fresh = town.connect("b1", "fresh", wait=0.5)
    assert fresh.connack.reason == Reason.SUCCESS
    assert not fresh.connack.session_present


def test_a_broker_that_is_killed_twice_is_remembered() -> None:
    town = Town()
    phone, sender = town.commuter()
    town.hang_up(phone)
    for _ in range(2):
        town.world.crash("b1")
        town.run(5)
        waiting = town.connect("b2", wait=6)
        assert waiting.connack.reason == Reason.SERVER_UNAVAILABLE
        assert "b1" in (waiting.connack.properties.reason_string or "")
        town.world.start("b1")
        town.run(5)
    town.publish(sender, "1")
    phone = town.connect("b2", wait=3)
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1"])


def remote_client(town: Town) -> str:
    """A client of b1 of which b5 alone remembers where its session is."""
    keepers = town.core("b1").mobility.directory.keepers
    client = next(name for name in map("phone{}".format, range(1000)) if keepers(name) == ["b5"])
    phone = town.connect("b1", client)
    town.say(phone, Subscribe(1, (Request("a/#", 1),)))
    town.hang_up(phone, wait=5)
    return client


def test_the_broker_that_was_asked_for_the_session_is_waited_for_when_it_dies() -> None:
    town = Town(5, copies=1)
    client = remote_client(town)
    waiting = town.connect("b2", client, wait=0.036)  # all have answered, and it has asked b1
    town.world.crash("b1")
    town.world.crash("b3")  # and nobody is left who knows
    town.run(8)
    assert waiting.connack.reason == Reason.SERVER_UNAVAILABLE
    assert "b1" in (waiting.connack.properties.reason_string or "")
    town.world.start("b1")
    town.world.start("b3")
    town.run(5)
    assert town.connect("b2", client, wait=3).connack.session_present


def test_a_broker_that_nobody_can_tell_anything_waits_a_while() -> None:
    town = Town(5, copies=1)
    client = remote_client(town)
    town.world.crash("b1")
    town.world.crash("b3")
    town.run(5)
    waiting, fresh = town.connect("b2", client, wait=0), town.connect("b2", "fresh", wait=2)
    assert not waiting.inbox
    town.world.start("b3")
    town.run(6)
    assert waiting.connack.reason == Reason.SERVER_UNAVAILABLE, "b5 knows that its session is at b1"
    assert "b1" in (waiting.connack.properties.reason_string or "")
    assert (fresh.connack.reason, fresh.connack.session_present) == (Reason.SUCCESS, False)


def test_a_new_client_of_a_broker_that_stays_alone_is_served_after_a_while() -> None:
    town = Town(5, copies=1)
    town.run(5)
    town.world.crash("b2")
    town.run(5)
    for name in map("fresh{}".format, range(5)):
        fresh = town.connect("b1", name, wait=6)
        assert (fresh.connack.reason, fresh.connack.session_present) == (Reason.SUCCESS, False)


def test_what_the_client_published_before_it_moved_stays_ahead() -> None:
    town = Town()
    listener, _ = town.commuter(client="listener")
    phone = town.connect("b3")
    town.say(phone, *(Publish("a/b", b"%d" % at, 1, packet_id=at) for at in range(1, 6)), wait=0)
    phone = town.connect("b2")
    town.say(phone, Publish("a/b", b"6", 1, packet_id=6))
    assert any(isinstance(packet, Puback) for packet in phone.inbox)
    assert listener.payloads == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_sessions_leave_one_after_the_other_if_no_more_may_leave_at_once() -> None:
    town = Town(hand_over=HandOverSettings(departures_max=1))
    names = ("one", "two", "three")
    for name in names:
        town.hang_up(town.connect("b1", name))
    lines = [town.connect("b3", name, wait=0) for name in names]
    most = 0
    for _ in range(100):
        town.run(0.01)
        most = max(most, len(town.core("b1").mobility.departures.leaving))
    assert most == 1
    assert [line.connack.session_present for line in lines] == [True, True, True]
    assert all(town.owners(name) == ["b3"] for name in names)


def test_a_client_whose_session_may_not_leave_in_time_tries_again_later() -> None:
    town = Town()
    phone, sender = town.commuter()
    town.hang_up(phone)
    town.publish(sender, "1")
    departures = town.core("b1").mobility.departures
    usual, departures.most = departures.most, 0
    waiting = town.connect("b2", wait=6)
    assert waiting.connack.reason == Reason.SERVER_BUSY
    assert waiting.connack.properties.reason_string == (
        "too many sessions are leaving b1 at the moment: try again later"
    )
    assert town.owners() == ["b1"]
    departures.most = usual
    phone = town.connect("b2")
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1"])
