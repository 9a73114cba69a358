"""What was meant for a member of a shared group that is gone goes to another member [MQTT-4.8.2]."""

from __future__ import annotations

from typing import Any

from latecomer.core.session.limits import Anything, SessionLimits
from latecomer.core.settings import BrokerSettings
from latecomer.messages.link import Publication, Sharing, SharingChange
from latecomer.messages.mqtt import Publish, Pubrec, Reason, Request, Suback, Subscribe
from latecomer.model.record import Kind
from tests.unit.hand import frames, records
from tests.unit.mqtt_hand import SECOND_US, MqttHand, Net, Wire, pair

WORK = "$share/g/t"


def publish(wire: Wire, count: int, qos: int = 1) -> None:
    for number in range(count):
        wire.publish("t", b"%d" % number, qos)
    wire.take()


def line(**options: Any) -> tuple[Net, MqttHand, MqttHand, MqttHand]:
    a, b, c = (
        MqttHand("b", id="a", **options),
        MqttHand("a", "c", id="b", **options),
        MqttHand("b", id="c", **options),
    )
    net = Net(a, b, c)
    net.link("a", "b")
    net.link("b", "c")
    return net, a, b, c


# -- one broker --------------------------------------------------------------------------------------------------------


def test_what_a_member_did_not_acknowledge_goes_to_another_when_its_session_ends() -> None:
    hand = MqttHand()
    gone, stays = hand.client("gone"), hand.client("stays")
    gone.subscribe(WORK, qos=1)
    stays.subscribe(WORK, qos=1)
    publish(hand.client("p"), 6)
    done = gone.got()
    assert len(done) == 3
    gone.ack(done[0])
    gone.lose()
    assert len(stays.got()) == 3 + 2


def test_a_session_that_lasts_keeps_its_work_until_it_ends() -> None:
    """The specification lets a server wait for the client; a client that merely changes cells gets nothing twice."""
    hand = MqttHand()
    gone, stays = hand.durable("gone", session_expiry_s=60), hand.client("stays")
    gone.subscribe(WORK, qos=1)
    stays.subscribe(WORK, qos=1)
    publish(hand.client("p"), 4)
    gone.lose()
    assert len(stays.settle()) == 2
    hand.wait(59 * SECOND_US)
    assert stays.settle() == []
    hand.wait(2 * SECOND_US)
    assert len(stays.settle()) == 2


def test_qos_2_that_was_sent_goes_to_nobody_else() -> None:
    """[MQTT-4.8.2-5]; what was not sent yet does."""
    hand = MqttHand()
    gone, stays = hand.client("gone", receive_maximum=1), hand.client("stays", receive_maximum=1)
    gone.subscribe(WORK, qos=2)
    stays.subscribe(WORK, qos=2)
    publish(hand.client("p"), 6, 2)
    assert len(gone.got()) == 1
    gone.lose()
    assert len(stays.settle()) == 3 + 2


def test_what_was_refused_goes_to_nobody_else() -> None:
    """[MQTT-4.8.2-6]"""
    hand = MqttHand()
    refuses, other = hand.client("refuses"), hand.client("other")
    refuses.subscribe(WORK, qos=2)
    publish(hand.client("p"), 1, 2)
    other.subscribe(WORK, qos=2)
    (packet,) = refuses.got()
    refuses.send(Pubrec(packet.packet_id, Reason.UNSPECIFIED_ERROR))
    refuses.lose()
    assert other.got() == []


def test_work_of_members_that_died_with_their_broker() -> None:
    """It is on disk as long as somebody of the group would be there after a crash, and not otherwise."""
    hand = MqttHand()
    gone = hand.client("gone")
    gone.subscribe(WORK, qos=1)
    p = hand.client("p")
    publish(p, 1)
    assert hand.rows("queue") == 0
    hand.durable("lasting").subscribe(WORK, qos=1)
    hand.restart()  # all but one session ended: the group goes on
    assert hand.rows("queue") == 0
    gone = hand.client("gone")
    gone.subscribe(WORK, qos=1)
    publish(hand.client("p"), 3)  # to who is connected
    assert len(gone.got()) == 3
    assert hand.rows("queue") == 3
    hand.restart()
    assert sorted(hand.durable("lasting").payloads()) == [b"0", b"1", b"2"]


def test_a_member_who_may_not_have_it_does_not_stand_in_the_way() -> None:
    class OnlyRight(Anything):
        open_to_all = False

        def may_receive(self, user: str, client: str, topic: str) -> bool:
            return client != "left"

    hand = MqttHand(access=OnlyRight())
    left, right = hand.client("left"), hand.client("right")
    for member in (left, right):
        member.subscribe(WORK, qos=1)
    publish(hand.client("p"), 2)
    assert [len(left.settle()), len(right.settle())] == [0, 2]


# -- between brokers ---------------------------------------------------------------------------------------------------


def test_the_other_member_may_be_at_another_broker() -> None:
    net, a, _, c = line()
    gone, stays, plain = c.client("gone"), a.client("stays"), a.client("plain")
    for member in (gone, stays):
        member.subscribe(WORK, qos=1)
    plain.subscribe("t", qos=1)
    net.quiet()
    publish(a.client("p"), 6)
    net.quiet(100_000)
    assert len(gone.got()) == 3
    effects = gone.lose()
    assert len(records(effects, Kind.HANDED_ON)) == 3
    net.quiet()
    assert sorted(packet.payload for packet in stays.settle()) == [b"%d" % number for number in range(6)]
    assert len(plain.settle()) == 6, "who subscribed alone gets each message once"
    for hand in (a, c):
        assert not hand.broker.events.outbox.entries
        assert hand.rows("outbox") == hand.rows("parked") == hand.rows("queue") == 0


def test_what_was_chosen_before_the_news_came() -> None:
    """The origin still believes that the other broker has members; that one sends it on, although nobody there
    subscribes any more."""
    net, a, _, c = line()
    gone, stays = c.client("gone"), a.client("stays")
    for member in (gone, stays):
        member.subscribe(WORK, qos=2)
    net.quiet()
    gone.lose()
    publish(a.client("p"), 4, 2)
    net.quiet()
    assert sorted(packet.payload for packet in stays.settle()) == [b"0", b"1", b"2", b"3"]


def test_work_waits_for_a_broker_that_is_away_and_goes_to_one_that_is_there() -> None:
    net, a, b, c = line()
    gone, there, lasting = b.client("gone"), a.client("there"), c.durable("lasting")
    for member in (gone, lasting):
        member.subscribe(WORK, qos=1)
    net.quiet()
    net.unlink("b", "c")
    net.unlink("a", "b")
    for hand in (a, b, c):
        hand.wait(10 * SECOND_US)
    publish(b.client("p"), 2)
    assert len(gone.got()) == 2
    assert len(records(gone.lose(), Kind.HANDED_ON)) == 2, "for the member at c"
    there.subscribe(WORK, qos=1)
    net.link("a", "b")
    net.quiet(3 * SECOND_US)
    assert len(there.settle()) == 2
    kept = b.broker.events.outbox.entries.values()
    assert not any(entry.event.groups_only for entry in kept), "what else is kept for c is the publication itself"


def test_a_chosen_broker_that_is_forgotten() -> None:
    settings = BrokerSettings(forget_us=20 * SECOND_US)
    net, a, b = pair(settings=settings)
    b.durable("there").subscribe(WORK, qos=1)
    net.quiet()
    net.unlink("a", "b")
    a.wait(5 * SECOND_US)
    publish(a.client("p"), 2)  # nobody else is a member
    here = a.client("here")
    here.subscribe(WORK, qos=1)
    a.wait(5 * SECOND_US)
    assert here.settle() == []
    a.wait(20 * SECOND_US)
    assert [packet.payload for packet in here.settle()] == [b"0", b"1"]


# -- telling of groups -------------------------------------------------------------------------------------------------


def test_a_change_is_told_as_a_difference() -> None:
    hand = MqttHand("b")
    hand.join("b")
    s = hand.client("s")
    for number in range(50):
        s.subscribe(f"$share/g{number}/t")
    hand.wait(SECOND_US)
    other = hand.client("other")
    other.subscribe("$share/g7/t")
    said = frames(hand.wait(SECOND_US), "b")
    (change,) = [frame for frame in said if isinstance(frame, Sharing | SharingChange)]
    assert isinstance(change, SharingChange)
    assert [(group, count) for group, _, count in change.entries] == [("g7", 2)]


def test_changes_survive_a_restart_of_those_who_heard_them() -> None:
    net, a, b = pair()
    members = [b.client("1"), b.client("2")]
    for member in members:
        member.subscribe(WORK, f"$share/h{member.client}/t")
    net.quiet()
    members[0].lose()
    net.quiet()
    before = {broker: dict(word.counts) for broker, word in a.broker.shares.told.items()}
    assert {group for group, _ in before["b"]} == {"g", "h2"}
    a.restart()
    assert {broker: word.counts for broker, word in a.broker.shares.told.items()} == before
    assert a.broker.shares.told_size == sum(word.size for word in a.broker.shares.told.values()) > 0


def test_long_names_of_groups_are_not_in_every_event() -> None:
    net, a, b = pair(limits=SessionLimits(group_name_bytes=256))
    long = "x" * 256
    member = b.client("m")
    member.subscribe(f"$share/{long}/t", qos=1)
    net.quiet()
    effects = a.client("p").publish("t", b"1", 1)
    (sent,) = [frame for frame in frames(effects, "b") if isinstance(frame, Publication)]
    assert sum(len(part) for choice in sent.event.shares for part in choice) < 50
    net.quiet()
    assert [packet.payload for packet in member.settle()] == [b"1"]


def test_names_and_numbers_of_groups_are_limited() -> None:
    hand = MqttHand(limits=SessionLimits(group_name_bytes=8, groups_per_client=2))
    s = hand.client("s")

    def asked(name: str) -> int:
        return s.subscribe(Request(f"$share/{name}/t", 1)).reasons[0]

    assert asked("x" * 9) == Reason.TOPIC_FILTER_INVALID
    assert asked("ö" * 5) == Reason.TOPIC_FILTER_INVALID, "bytes count"
    assert asked("x" * 8) == Reason.GRANTED_QOS_1
    assert asked("b") == Reason.GRANTED_QOS_1
    assert asked("c") == Reason.QUOTA_EXCEEDED
    assert asked("b") == Reason.GRANTED_QOS_1, "it has that one"
    s.unsubscribe("$share/b/t")
    s.take()
    assert asked("c") == Reason.GRANTED_QOS_1
    assert len(hand.broker.shares.groups) == 2


# -- SUBACKs that wait -------------------------------------------------------------------------------------------------

WAITS = BrokerSettings(subscribe_wait=True, subscribe_wait_max_us=3 * SECOND_US)


def ask(wire: Wire, topic: str) -> None:
    wire.send(Subscribe(wire.next_id(), (Request(topic, 1),)))


def test_a_suback_waits_until_everybody_knows() -> None:
    net, a, b, c = line(settings=WAITS)
    s, p = a.client("s"), c.client("p")
    ask(s, "t")
    assert s.take() == []
    while not any(isinstance(packet, Suback) for packet in s.take()):
        assert net.carry(), "nothing is on its way, and there is no SUBACK"
    p.publish("t", b"now", 1)
    net.quiet()
    assert [packet.payload for packet in s.settle()] == [b"now"]
    assert not b.broker.fences._owed
    assert not a.broker.sessions.subscribing.subacks._counts


def test_a_group_is_known_as_well() -> None:
    """The filter is known of another subscriber, so only the group is news."""
    net, a, _, c = line(settings=WAITS)
    other, s, p = a.client("other"), a.client("s"), c.client("p")
    ask(other, "t")
    net.quiet()
    ask(s, WORK)
    while not any(isinstance(packet, Suback) for packet in s.take()):
        assert net.carry(), "nothing is on its way, and there is no SUBACK"
    p.publish("t", b"now", 1)
    net.quiet()
    assert [packet.payload for packet in s.settle()] == [b"now"]


def test_many_subscriptions_share_a_wave() -> None:
    _, a, _, _ = line(settings=WAITS)
    s = a.client("s")
    for number in range(20):
        ask(s, f"t/{number}")
    assert a.broker.fences.wave == 1
    assert a.broker.fences.asked


def test_a_suback_does_not_wait_for_ever() -> None:
    net, a, _, _ = line(settings=WAITS)
    s, old = a.client("s"), a.client("old", 4)
    net.hands["b"].sent.clear()
    ask(s, "t")
    ask(old, "t")
    a.wait(2 * SECOND_US)
    assert s.take() == []
    a.wait(2 * SECOND_US)
    (late,) = [packet for packet in s.take() if isinstance(packet, Suback)]
    assert late.reasons == (Reason.GRANTED_QOS_1,)
    assert "not confirmed" in (late.properties.reason_string or "")
    assert [type(packet) for packet in old.take()] == [Suback]


def test_a_single_broker_answers_at_once() -> None:
    s = MqttHand(settings=WAITS).client("s")
    assert s.subscribe("t").properties.reason_string is None


def test_a_tree_that_changes_begins_the_wave_again() -> None:
    net, a, b, c = line(settings=WAITS)
    s = a.client("s")
    ask(s, "t")
    ask(s, "u")  # of the next wave
    net.unlink("b", "c")
    for hand in (a, b, c):
        hand.wait(100_000)
    assert s.take() == []
    net.link("b", "c")
    net.quiet(2 * SECOND_US)
    answers = [packet for packet in s.take() if isinstance(packet, Suback)]
    assert [packet.properties.reason_string for packet in answers] == [None, None]


def test_a_refusal_waits_for_nobody() -> None:
    _, a, _, _ = line(settings=WAITS)
    s = a.client("s")
    ask(s, "$share//t")
    (answer,) = s.take()
    assert isinstance(answer, Suback)
    assert answer.reasons == (Reason.TOPIC_FILTER_INVALID,)


def test_messages_may_come_before_the_suback() -> None:
    """§3.8.4 allows it; what is retained does not wait."""
    _, a, _, _ = line(settings=WAITS)
    a.client("p").publish("t", b"kept", 1, retain=True)
    s = a.client("s")
    ask(s, "t")
    assert [type(packet) for packet in s.take()] == [Publish]
