"""Clients that move between brokers with recent logs, and clients that bring their subscriptions: what travels."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from latecomer.core.mobility.settings import HandOverSettings
from latecomer.core.session.limits import Anything
from latecomer.messages.hand_over import Ask, Rows, Standing, Want
from latecomer.messages.link import LinkMessage
from latecomer.messages.mqtt import Connack, Properties, Publish, Reason, Request, Subscribe, Unsubscribe
from latecomer.model.record import Kind, Record
from latecomer.sim.sides import Observer
from tests.simulation.town import STANDARD, Line, Town

LOGGING = HandOverSettings(algorithm="logging")
SAME = ("subscription", "1 a/#")


class Watcher(Observer):
    """Sees the frames of hand-overs as they leave the brokers between which they go, and records."""

    def __init__(self, town: Town) -> None:
        self.frames: list[LinkMessage] = []
        self.records: list[Record] = []
        town.world.observe(self)

    def sent(self, now: int, sender: str, receiver: str, frames: Sequence[LinkMessage]) -> None:
        self.frames += [frame for frame in frames if getattr(frame, "from_broker", "") == sender]

    def noted(self, record: Record) -> None:
        self.records.append(record)

    def of(self, kind: type) -> list[LinkMessage]:
        return [frame for frame in self.frames if type(frame) is kind]

    @property
    def asks(self) -> list[tuple[bool, bool]]:
        """Of each `ask`: for the state, and with a digest."""
        return [(frame.state, bool(frame.digest)) for frame in self.frames if isinstance(frame, Ask)]

    @property
    def travelled(self) -> int:
        return sum(row.table == "queue" for frame in self.frames if isinstance(frame, Rows) for row in frame.rows)

    @property
    def moved(self) -> list[str]:
        """Algorithm and bytes, of each move."""
        return [record.detail for record in self.records if record.kind is Kind.MOVED]


def bytes_of(detail: str) -> int:
    return int(detail.split(", ")[2].removesuffix(" bytes"))


def away(town: Town, *texts: str, qos: int = 1) -> tuple[Line, Watcher]:
    """A client that subscribed at b1, and for which this was published at b3 while it is away."""
    phone, sender = town.commuter(qos)
    town.hang_up(phone)
    town.publish(sender, *texts, qos=qos)
    return sender, Watcher(town)


# -- the recent log ----------------------------------------------------------------------------------------------------


def test_what_the_new_broker_has_had_does_not_travel() -> None:
    """b2 lies between b3, where it was published, and b1, where it waits: it has carried everything."""
    texts = [f"{number} {'x' * 1000}" for number in range(20)]
    bytes_by = {}
    for settings in (STANDARD, LOGGING):
        town = Town(hand_over=settings)
        sender, watcher = away(town, *texts)
        phone = town.connect("b2")
        assert (phone.connack.session_present, phone.payloads) == (True, [text.encode() for text in texts])
        town.publish(sender, "and on")
        assert phone.payloads[20:] == [b"and on"]
        assert town.owners() == ["b2"]
        assert watcher.travelled == (0 if settings is LOGGING else 20)
        assert town.core("b2").mobility.arrivals.rows_built == (20 if settings is LOGGING else 0)
        [detail] = watcher.moved
        assert detail.startswith(f"{settings.algorithm}, ")
        bytes_by[settings.algorithm] = bytes_of(detail)
    assert bytes_by["logging"] < 300 < 20_000 < bytes_by["standard"]


def test_what_the_log_has_forgotten_travels() -> None:
    town = Town(hand_over=replace(LOGGING, recent_events=2))
    _, watcher = away(town, "1", "2", "3", "4", "5")
    phone = town.connect("b2")
    assert phone.payloads == [b"1", b"2", b"3", b"4", b"5"]
    assert watcher.travelled == 3
    assert [frame.lacking for frame in watcher.of(Want) if isinstance(frame, Want)] == [(1, 2, 3)]


def test_the_log_is_bounded_in_bytes() -> None:
    town = Town(hand_over=replace(LOGGING, recent_bytes=1500))
    _, watcher = away(town, *(f"{number}{'x' * 600}" for number in range(4)))
    log = town.core("b2").events.recent
    assert log is not None
    assert (len(log.events), 0 < log.bytes <= 1500) == (2, True)
    phone = town.connect("b2")
    assert [payload[:1] for payload in phone.payloads] == [b"0", b"1", b"2", b"3"]
    assert watcher.travelled == 2


def test_a_broker_that_was_not_on_the_way_is_sent_everything() -> None:
    town = Town(hand_over=LOGGING)
    phone = town.connect("b1")
    town.say(phone, Subscribe(1, (Request("a/#", 1),)))
    sender = town.connect("b1", "sender", expiry_s=0, clean=True)
    town.hang_up(phone)
    town.publish(sender, "1", "2")
    watcher = Watcher(town)
    phone = town.connect("b3")
    assert (phone.payloads, watcher.travelled) == ([b"1", b"2"], 2)
    town.hang_up(phone)
    town.publish(sender, "3")
    phone = town.connect("b1")
    assert phone.payloads == [b"1", b"2", b"3"], "and is not acknowledged"
    assert watcher.travelled == 2, "b1 published all of it, and remembers that"


def test_deliveries_are_built_as_they_were_at_the_old_broker() -> None:
    """QoS, identifiers and retain as published follow from the subscriptions."""
    found = []
    for settings in (STANDARD, LOGGING):
        town = Town(hand_over=settings)
        phone = town.connect("b1")
        town.say(phone, Subscribe(1, (Request("a/+", 1, retain_as_published=True),), Properties(subscription_ids=(7,))))
        town.say(phone, Subscribe(2, (Request("a/c", 2),), Properties(user=(("filter", "v > 3"),))))
        sender = town.connect("b3", "sender", expiry_s=0, clean=True)
        town.hang_up(phone)
        for at, (topic, value) in enumerate((("a/b", 1), ("a/c", 1), ("a/c", 9)), 1):
            packet = Publish(topic, b'{"v": %d}' % value, 2, retain=True, packet_id=at)
            town.say(sender, packet)
        watcher = Watcher(town)
        phone = town.connect("b2")
        found.append([replace(packet, dup=False) for packet in phone.inbox if isinstance(packet, Publish)])
        assert watcher.travelled == (3 if settings is STANDARD else 0)
    assert found[0] == found[1]
    assert [(packet.qos, packet.properties.subscription_ids) for packet in found[1]] == [
        (1, (7,)),
        (1, (7,)),
        (2, (7,)),
    ]


def test_a_message_that_expires_keeps_the_time_it_has_left() -> None:
    town = Town(hand_over=LOGGING)
    phone, sender = town.commuter()
    town.hang_up(phone)
    packets = [
        Publish("a/b", b"brief", 1, packet_id=1, properties=Properties(message_expiry_s=8)),
        Publish("a/b", b"long", 1, packet_id=2, properties=Properties(message_expiry_s=100)),
        Publish("a/b", b"for ever", 1, packet_id=3),
    ]
    town.say(sender, *packets)
    town.run(10)
    watcher = Watcher(town)
    phone = town.connect("b2")
    left = {packet.payload: packet.properties.message_expiry_s for packet in phone.inbox if isinstance(packet, Publish)}
    assert list(left) == [b"long", b"for ever"]
    assert left[b"for ever"] is None
    assert 85 <= (left[b"long"] or 0) <= 90
    assert watcher.travelled == 0


def test_a_client_may_ask_for_another_algorithm_than_the_brokers() -> None:
    town = Town(hand_over=LOGGING)
    _, watcher = away(town, "1", "2")
    phone = town.connect("b2", words=(("hand-over", "standard"),))
    assert (phone.payloads, watcher.travelled) == ([b"1", b"2"], 2)
    assert watcher.moved[0].startswith("standard, ")
    town = Town(hand_over=STANDARD)
    _, watcher = away(town, "1", "2")
    phone = town.connect("b2", words=(("hand-over", "logging"),))
    assert (phone.payloads, watcher.travelled) == ([b"1", b"2"], 2)
    assert watcher.moved[0].startswith("standard, "), "a broker without a log"
    assert town.core("b2").events.recent is None


def test_what_was_sent_and_not_acknowledged_is_built_too_and_comes_again_as_a_duplicate() -> None:
    town = Town(hand_over=LOGGING)
    phone, sender = town.commuter(qos=2)
    town.publish(sender, "1", "2", qos=2)
    first = [packet for packet in phone.inbox if isinstance(packet, Publish)]
    town.hang_up(phone)
    watcher = Watcher(town)
    phone = town.connect("b2")
    again = [packet for packet in phone.inbox if isinstance(packet, Publish)]
    assert again == [replace(packet, dup=True) for packet in first]
    assert watcher.travelled == 0


def test_shared_deliveries_travel_whole() -> None:
    town = Town(hand_over=LOGGING)
    phone = town.connect("b1")
    town.say(phone, Subscribe(1, (Request("$share/team/s/#", 1), Request("a/#", 1))))
    sender = town.connect("b3", "sender", expiry_s=0, clean=True)
    town.hang_up(phone)
    town.publish(sender, "for the team", topic="s/1")
    town.publish(sender, "for the phone")
    watcher = Watcher(town)
    phone = town.connect("b2")
    assert (phone.payloads, watcher.travelled) == ([b"for the team", b"for the phone"], 1)


# -- subscriptions on the device ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [STANDARD, LOGGING])
def test_a_client_that_brings_its_subscriptions_saves_a_question(settings: HandOverSettings) -> None:
    town = Town(hand_over=settings)
    sender, watcher = away(town, "1", "2")
    phone = town.connect("b2", words=(SAME, ("previous-broker", "b1")))
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1", b"2"])
    assert watcher.asks == [(True, True)]
    assert [frame.known for frame in watcher.of(Standing) if isinstance(frame, Standing)] == [True]
    town.publish(sender, "3")
    assert phone.payloads[2:] == [b"3"]
    assert town.owners() == ["b2"]
    session = town.core("b2").sessions.by_client["phone"]
    assert (list(session.subscriptions), session.expiry_s, session.version) == (["a/#"], 3600, 5)
    assert watcher.travelled == (0 if settings is LOGGING else 2)


@pytest.mark.parametrize("settings", [STANDARD, LOGGING])
def test_what_a_client_brings_is_of_no_use_if_its_session_stays_at_home(settings: HandOverSettings) -> None:
    town = Town(hand_over=settings)
    sender, watcher = away(town, "1", "2")
    phone = town.connect("b2", words=(SAME, ("hand-over", "home-broker")))
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1", b"2"])
    assert town.owners() == ["b1"]
    assert watcher.asks == [(False, False)]
    town.publish(sender, "3")
    assert phone.payloads[2:] == [b"3"]


@pytest.mark.parametrize("said", ["1 other/#", "0 a/#", "1,no-local a/#", "1,retain-as-published a/#", "1,id=4 a/#"])
def test_wrong_subscriptions_on_the_device_are_replaced_by_those_of_the_session(said: str) -> None:
    town = Town()
    sender, watcher = away(town, "1")
    phone = town.connect("b2", words=(("subscription", said),))
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1"])
    assert watcher.asks == [(True, True), (True, False)]
    town.publish(sender, "2")
    town.publish(sender, "unwanted", topic="other/1")
    assert phone.payloads == [b"1", b"2"]
    session, disk = town.core("b2").sessions.by_client["phone"], town.world.nodes["b2"].disk.tables
    assert session.subscriptions == dict(disk["subscriptions"]["phone"])
    assert [(each.text, each.qos, each.no_local, each.id) for each in session.subscriptions.values()] == [
        ("a/#", 1, False, 0)
    ]
    assert "phone" not in disk.get("arriving", {}).get("", {})


def test_all_options_of_a_subscription_can_be_brought_in_any_order() -> None:
    town = Town()
    phone = town.connect("b1")
    town.say(phone, Subscribe(1, (Request("a/b c", 2, no_local=True, retain_handling=1),)))
    town.say(phone, Subscribe(2, (Request("a/+", 1, retain_as_published=True),), Properties(subscription_ids=(9,))))
    town.say(phone, Subscribe(4, (Request("v/#", 1),), Properties(user=(("filter", "v > 3 and w = 'x'"),))))
    town.say(phone, Subscribe(5, (Request("$share/team/s/#", 1), Request("gone", 1))))
    town.say(phone, Unsubscribe(6, ("gone",)))
    town.hang_up(phone)
    watcher = Watcher(town)
    words = [
        "1 $share/team/s/#",
        "1,content v/# ? v > 3 and w = 'x'",
        "1,id=9,retain-as-published a/+",
        "2,retain-handling=1,no-local a/b c",
    ]
    phone = town.connect("b3", words=tuple(("subscription", word) for word in words))
    assert phone.connack.session_present
    assert watcher.asks == [(True, True)]
    session = town.core("b3").sessions.by_client["phone"]
    assert sorted(session.subscriptions) == ["$share/team/s/#", "a/+", "a/b c", "v/#"]
    assert session.shared == 1


def test_a_new_client_gets_no_subscriptions_by_its_connect() -> None:
    """Session present 0 tells it to subscribe; nothing is subscribed to behind its back."""
    town = Town()
    phone = town.connect("b2", words=(SAME,))
    assert (phone.connack.reason, phone.connack.session_present) == (Reason.SUCCESS, False)
    assert town.core("b2").sessions.by_client["phone"].subscriptions == {}
    assert not town.core("b2").clients.subscribers
    town.hang_up(phone)
    phone = town.connect("b3", clean=True, words=(SAME,))
    assert town.core("b3").sessions.by_client["phone"].subscriptions == {}, "nor does one that begins anew"


def test_a_session_that_is_there_does_not_change_by_a_connect() -> None:
    town = Town()
    phone, _ = town.commuter()
    town.hang_up(phone)
    phone = town.connect("b1", words=(("subscription", "1 other/#"),))
    assert phone.connack.session_present
    assert list(town.core("b1").sessions.by_client["phone"].subscriptions) == ["a/#"]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("a/#", "must be written as QoS, options and filter"),
        ("", "must be written as QoS, options and filter"),
        ("3 a/#", "must be written as QoS, options and filter"),
        ("1", "must be written as QoS, options and filter"),
        ("1,no-local,no-local a/#", "must be written as QoS, options and filter"),
        ("1,sometimes a/#", "'sometimes' is no option"),
        ("1,id=0 a/#", "'id=0' is no option"),
        ("1,id=268435456 a/#", "is no option"),
        ("1,id=1,id=2 a/#", "a subscription has one id"),
        ("1 a/#/b", "a/#/b"),
        ("1,content a/#", "must end in a content filter"),
        ("1,content a/# ? v >", "v >"),
        ("1,no-local $share/team/a", "No Local on a shared subscription"),
        ("1 $share/team", "a shared subscription is written $share/name/filter"),
        ("1 " + "a/" * 200, "levels"),
    ],
)
def test_a_subscription_that_cannot_be_read_is_refused_with_a_sentence(said: str, sentence: str) -> None:
    town = Town()
    for broker in ("b1", "b2"):  # also where the session is: a mistake shows everywhere
        phone = town.connect(broker, words=(("subscription", said),))
        assert phone.connack.reason == Reason.IMPLEMENTATION_SPECIFIC_ERROR
        problem = phone.connack.properties.reason_string or ""
        assert problem.startswith("user property subscription, ")
        assert sentence in problem
        assert phone.closed


def test_no_more_subscriptions_can_be_brought_than_a_client_may_have() -> None:
    town = Town()
    limits = town.core("b1").sessions.limits
    for word, most in (("1 a/%d", limits.subscriptions_per_client), ("1 $share/g/%d", limits.groups_per_client)):
        words = tuple(("subscription", word % number) for number in range(most + 1))
        phone = town.connect("b1", words=words)
        assert phone.connack.reason == Reason.IMPLEMENTATION_SPECIFIC_ERROR
        assert f"a client has at most {most}" in (phone.connack.properties.reason_string or "")
        assert town.connect("b1", f"other {word}", words=words[:-1]).connack.reason == Reason.SUCCESS


class NotThis(Anything):
    """Nobody may subscribe to one filter."""

    open_to_all = False

    def __init__(self, topic_filter: str) -> None:
        self.topic_filter = topic_filter

    def may_subscribe(self, user: str, client: str, topic_filter: str) -> bool:
        return topic_filter != self.topic_filter


def test_the_rules_of_the_new_broker_are_applied_to_what_a_client_brings() -> None:
    """It does not subscribe for a moment to what the client may not have; and of what comes with the session, it takes
    back what its own rules do not allow."""
    town = Town()
    _, watcher = away(town, "1")
    sessions = town.core("b2").sessions
    sessions.access = sessions.subscribing.access = NotThis("a/#")
    phone = town.connect("b2", words=(SAME,))
    assert watcher.asks == [(False, False), (True, False)]
    assert phone.connack.session_present
    assert sessions.by_client["phone"].subscriptions == {}


def test_the_state_is_not_asked_for_before_own_events_have_left() -> None:
    """With a window of one event, what b2's own publishers sent is still waiting when the client comes: then it goes
    the ordinary way, and nothing is lost."""
    town = Town()
    phone, _ = town.commuter()
    town.hang_up(phone)
    town.core("b2").events.window = 1
    local = town.connect("b2", "local", expiry_s=0, clean=True)
    watcher = Watcher(town)
    town.say(local, *(Publish("a/b", b"%d" % at, 1, packet_id=at + 1) for at in range(9)), wait=0)
    phone = town.connect("b2", words=(SAME, ("previous-broker", "b1")))
    assert watcher.asks == [(False, False), (True, False)]
    assert phone.payloads == [b"%d" % at for at in range(9)]


def test_a_wrong_word_about_the_last_broker_does_not_make_the_subscriptions_useless() -> None:
    town = Town()
    _, watcher = away(town, "1")
    phone = town.connect("b2", words=(SAME, ("previous-broker", "b3")))
    assert (phone.connack.session_present, phone.payloads) == (True, [b"1"])
    assert watcher.asks == [(True, True), (True, True)]


def test_the_old_broker_dies_when_it_is_asked_and_nothing_is_lost() -> None:
    for moment in range(4, 40, 4):  # thousandths of a second after the CONNECT
        town = Town(hand_over=LOGGING)
        sender, _ = away(town, "1", "2")
        waiting = town.connect("b2", words=(SAME, ("previous-broker", "b1")), wait=moment / 1000)
        town.world.crash("b1")
        town.run(3)
        town.publish(sender, "3")
        town.world.start("b1")
        town.run(8)
        if not any(isinstance(packet, Connack) and packet.session_present for packet in waiting.inbox):
            waiting = town.connect("b2", words=(SAME, ("previous-broker", "b1")), wait=3)
        assert waiting.payloads == [b"1", b"2", b"3"], moment
        assert town.owners() == ["b2"]
        assert town.core("b2").mobility.idle
