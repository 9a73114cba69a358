"""Sessions from CONNECT to their end, packet by packet."""

from __future__ import annotations

import pytest

from latecomer.core.inputs import MqttFailed
from latecomer.core.session.limits import NEVER_S, SessionLimits
from latecomer.messages.mqtt import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Publish,
    Reason,
    Suback,
    Will,
)
from tests.unit.mqtt_hand import HOUR_S, SECOND_US, V5, V311, MqttHand, Rules, Wire


def refused(wire: Wire, **options: object) -> int:
    """The reason of a CONNACK that is followed by the end of the connection."""
    wire.connect(**options)  # type: ignore[arg-type]
    connack = wire.one(Connack)
    assert not connack.session_present  # [MQTT-3.2.2-6]
    assert wire.closed
    reason: int = connack.reason
    return reason


# -- which session ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V5, V311])
def test_a_session_is_resumed_with_its_subscriptions(version: int) -> None:
    """[MQTT-3.1.2-5, 3.2.2-3]"""
    hand = MqttHand()
    s = hand.durable("s", version)
    assert not s.connack.session_present
    s.subscribe("t")
    s.lose()
    s = hand.durable("s", version)
    assert s.connack.session_present
    hand.client("p").publish("t", b"1", 1)
    assert s.payloads() == [b"1"]


@pytest.mark.parametrize("version", [V5, V311])
def test_a_clean_start_discards_what_was_there(version: int) -> None:
    """[MQTT-3.1.2-4]; 3.1.1 [MQTT-3.1.2-6]. Nothing of it is left on disk."""
    hand = MqttHand()
    s = hand.durable("s", version)
    s.subscribe("t")
    s.lose()
    hand.client("p").publish("t", b"1", 1)
    s = hand.client("s", version)
    assert not s.connack.session_present
    hand.client("p").publish("t", b"2", 1)
    assert s.take() == []
    assert [hand.rows(table) for table in ("session", "subscriptions", "queue", "incoming")] == [0, 0, 0, 0]


def test_a_session_without_expiry_ends_with_its_connection() -> None:
    """[MQTT-3.1.2-23] Session Expiry Interval 0: nothing is kept."""
    hand = MqttHand()
    s = hand.client("s", clean_start=False)
    s.subscribe("t")
    s.lose()
    assert not hand.client("s", clean_start=False).connack.session_present
    assert hand.broker.clients.subscribers == {}


def test_a_session_ends_when_its_time_is_over() -> None:
    """[MQTT-3.1.2-23] and it is gone from the disk too."""
    hand = MqttHand()
    s = hand.durable("s", session_expiry_s=10)
    s.subscribe("t")
    s.lose()
    hand.wait(10 * SECOND_US - 1)
    assert "s" in hand.broker.sessions.by_client
    hand.wait(1)
    assert "s" not in hand.broker.sessions.by_client
    assert hand.rows("session") == hand.rows("subscriptions") == 0


def test_the_time_does_not_run_while_connected_and_starts_anew() -> None:
    hand = MqttHand()
    s = hand.durable("s", session_expiry_s=10)
    s.lose()
    hand.wait(9 * SECOND_US)
    s = hand.durable("s", session_expiry_s=10)
    hand.wait(100 * SECOND_US)
    assert s.closed is None
    assert "s" in hand.broker.sessions.by_client
    s.lose()
    hand.wait(9 * SECOND_US)
    assert hand.durable("s", session_expiry_s=10).connack.session_present


def test_the_time_goes_on_while_the_broker_is_down() -> None:
    hand = MqttHand()
    s = hand.durable("s", session_expiry_s=10)
    s.lose()
    hand.now += 11 * SECOND_US
    hand.restart()
    hand.wait(0)
    assert "s" not in hand.broker.sessions.by_client
    assert hand.rows("session") == 0


def test_a_client_that_was_connected_when_the_broker_died_has_just_gone() -> None:
    hand = MqttHand()
    hand.durable("s", session_expiry_s=10)
    hand.now += 100 * SECOND_US
    hand.restart()
    hand.wait(9 * SECOND_US)
    assert hand.durable("s", session_expiry_s=10).connack.session_present


def test_a_session_that_never_expires_asks_for_no_alarm() -> None:
    hand = MqttHand()
    hand.durable("s", session_expiry_s=NEVER_S).lose()
    assert hand.broker.sessions.due() is None


def test_the_expiry_is_capped_and_the_cap_announced() -> None:
    """[MQTT-3.2.2.3.2]"""
    hand = MqttHand(limits=SessionLimits(session_expiry_max_s=60))
    s = hand.durable("s")
    assert s.connack.properties.session_expiry_s == 60
    s.lose()
    hand.wait(60 * SECOND_US)
    assert "s" not in hand.broker.sessions.by_client


def test_disconnect_may_change_the_expiry() -> None:
    """§3.14.2.2.2"""
    hand = MqttHand()
    hand.durable("s").disconnect(session_expiry_s=5)
    hand.wait(5 * SECOND_US)
    assert "s" not in hand.broker.sessions.by_client
    hand.durable("s").disconnect(session_expiry_s=0)
    assert "s" not in hand.broker.sessions.by_client
    assert hand.rows("session") == 0


def test_disconnect_cannot_give_an_expiry_to_a_session_without() -> None:
    """[MQTT-3.14.2-2]"""
    hand = MqttHand()
    s = hand.client("s")
    s.disconnect(session_expiry_s=5)
    assert s.one(Disconnect).reason == Reason.PROTOCOL_ERROR
    assert s.closed


def test_a_session_that_gives_up_its_expiry_leaves_the_disk_at_once() -> None:
    """It ends with this connection, or with this process; what it has it keeps until then."""
    hand = MqttHand()
    s = hand.durable("s")
    s.subscribe("t")
    s.lose()
    hand.client("p").publish("t", b"1", 1)
    s = hand.client("s", clean_start=False)
    assert s.connack.session_present
    assert [hand.rows(table) for table in ("session", "subscriptions", "queue")] == [0, 0, 0]
    assert [p.payload for p in s.settle()] == [b"1"]
    assert hand.rows("queue") == 0


def test_alarms_of_the_past_do_not_gather() -> None:
    """Clients that come and go with a long expiry leave nothing behind but their session."""
    hand = MqttHand()
    for _ in range(1000):
        hand.durable("s", clean_start=True, session_expiry_s=NEVER_S - 1).lose()
    assert len(hand.broker.sessions.timers) < 100
    hand.wait(SECOND_US)
    assert "s" in hand.broker.sessions.by_client


# -- who -------------------------------------------------------------------------------------------------------------


def test_a_client_without_a_name_gets_one() -> None:
    """[MQTT-3.1.3-6, 3.1.3-7]; the client learns it [MQTT-3.2.2-16]."""
    hand = MqttHand()
    s = hand.client("", fresh_id="auto-1")
    assert s.connack.properties.assigned_client_id == "auto-1"
    assert hand.client("x").connack.properties.assigned_client_id is None


def test_a_nameless_client_of_311_must_ask_for_a_clean_session() -> None:
    """3.1.1 [MQTT-3.1.3-7, -8]"""
    hand = MqttHand()
    assert refused(hand.dial("", V311), clean_start=False) == Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert hand.client("", V311).connack.reason == 0


def test_the_client_id_of_another_user_is_not_taken_over() -> None:
    """Bad input 21"""
    hand = MqttHand()
    s = hand.durable("s", user="anna")
    assert refused(hand.dial("s"), user="bert") == Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert refused(hand.dial("s"), user="") == Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert s.closed is None
    s.lose()
    assert refused(hand.dial("s"), user="bert", clean_start=True) == Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert hand.durable("s", user="anna").connack.session_present


def test_client_ids_that_the_rules_or_the_size_forbid() -> None:
    rules = Rules()
    rules.no_client.append("evil")
    hand = MqttHand(access=rules)
    assert refused(hand.dial("evil")) == Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert refused(hand.dial("x" * 1025)) == Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert hand.client("x" * 1024).closed is None


def test_enhanced_authentication_is_refused() -> None:
    """[MQTT-4.12.0-1]"""
    wire = MqttHand().dial("s")
    assert refused(wire, authentication_method="SCRAM") == Reason.BAD_AUTHENTICATION_METHOD


def test_sessions_are_limited_per_user_and_in_all() -> None:
    """Bad input 11"""
    hand = MqttHand(limits=SessionLimits(sessions=3, sessions_per_user=2))
    one = hand.durable("1", user="u")
    hand.client("2", user="u")
    assert refused(hand.dial("3"), user="u") == Reason.QUOTA_EXCEEDED
    assert refused(hand.dial("3", V311), user="u") == Reason.QUOTA_EXCEEDED
    one.lose()
    assert hand.durable("1", user="u").connack.session_present  # who has a session needs no new one
    other = hand.client("3", user="v")
    assert refused(hand.dial("4"), user="v") == Reason.QUOTA_EXCEEDED
    other.disconnect()
    assert hand.client("4", user="v").closed is None


def test_keep_alive_is_the_servers_where_it_can_say_so() -> None:
    """[MQTT-3.2.2-21, -22]; bad input 6"""
    hand = MqttHand(limits=SessionLimits(keep_alive_max_s=60))
    for asked_s, told_s, kept_s in ((0, 60, 60), (61, 60, 60), (60, None, 60), (5, None, 5)):
        s = hand.client("s", keep_alive_s=asked_s)
        assert s.connack.properties.server_keep_alive_s == told_s
        assert hand.session("s").keep_alive_s == kept_s
    hand.client("s", V311, keep_alive_s=600)
    assert hand.session("s").keep_alive_s == 600
    strict = MqttHand(limits=SessionLimits(keep_alive_max_s=60, keep_alive_longer_for_311=False))
    assert refused(strict.dial("s", V311), keep_alive_s=0) == Reason.NOT_AUTHORIZED


def test_connack_announces_the_limits() -> None:
    limits = SessionLimits(receive_maximum=7, topic_alias_maximum=3, packet_bytes=999)
    properties = MqttHand(limits=limits).client("s").connack.properties
    assert properties.receive_maximum == 7
    assert properties.topic_alias_maximum == 3
    assert properties.maximum_packet_size == 999
    assert properties.user == (("durability", "none"),)
    assert MqttHand(limits=limits).client("s", V311).connack == Connack()


# -- take-over -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V5, V311])
def test_the_newer_connection_wins(version: int) -> None:
    """[MQTT-3.1.4-3]"""
    hand = MqttHand()
    old = hand.durable("s", version)
    old.subscribe("t")
    new = hand.durable("s", version)
    assert new.connack.session_present
    if version == V5:
        assert old.one(Disconnect).reason == Reason.SESSION_TAKEN_OVER
    else:
        assert old.take() == []
    assert old.closed
    assert hand.broker.sessions.by_connection.keys() == {new.id}
    old.send(Publish("t", b"ghost", 1, packet_id=1))  # facts about it are void now
    old.lose()
    assert new.take() == []
    assert new.closed is None


def test_a_session_that_ends_with_its_connection_ends_when_taken_over() -> None:
    hand = MqttHand()
    hand.client("s").subscribe("t")
    new = hand.durable("s")
    assert not new.connack.session_present
    hand.client("p").publish("t", b"1", 1)
    assert new.take() == []


# -- the rest of the packets -------------------------------------------------------------------------------------------


def test_pings_are_answered() -> None:
    """[MQTT-3.12.4-1]"""
    s = MqttHand().client("s")
    s.send(Pingreq())
    assert s.take() == [Pingresp()]


@pytest.mark.parametrize("packet", [Connect("s"), Connack(), Suback(1, (0,)), Pingresp(), Auth()])
@pytest.mark.parametrize("version", [V5, V311])
def test_packets_that_no_client_sends_now(packet: Connect | Connack | Suback | Pingresp | Auth, version: int) -> None:
    """[MQTT-3.1.0-2], bad input 2: a protocol error, and nothing behind it is looked at."""
    hand = MqttHand()
    hand.durable("other").subscribe("t")
    s = hand.client("s", version)
    s.send(packet, Publish("t", b"after", 1, packet_id=1))
    if version == V5:
        assert s.one(Disconnect).reason == Reason.PROTOCOL_ERROR
    else:
        assert s.take() == []
    assert s.closed
    assert len(hand.session("other").queue) == 0


def test_a_failure_that_the_driver_found_is_told() -> None:
    hand = MqttHand()
    s = hand.durable("s", will=Will("w", b"gone"))
    watcher = hand.client("watcher")
    watcher.subscribe("w")
    hand.tell(MqttFailed(s.id, Reason.MALFORMED_PACKET, "what is this?"))
    goodbye = s.one(Disconnect)
    assert (goodbye.reason, goodbye.properties.reason_string) == (Reason.MALFORMED_PACKET, "what is this?")
    assert watcher.payloads() == [b"gone"]
    hand.tell(MqttFailed(s.id, Reason.MALFORMED_PACKET, "again"))  # it is gone
    assert s.take() == []


def test_ephemeral_sessions_write_nothing() -> None:
    hand = MqttHand()
    hand.client("warm").publish("t", b"", 1)  # numbers of events are reserved in blocks
    s = hand.client("s")
    s.subscribe("t", "u/#")
    p = hand.client("p")
    writes: list[object] = []
    for qos in (0, 1, 2):
        p.publish("t", b"x", qos)
        writes += hand.writes
    for packet in s.got():
        s.ack(packet)
        writes += hand.writes
    s.unsubscribe("t")
    writes += hand.writes
    s.lose()
    assert writes + hand.writes == []
    assert hand.rows("session") + hand.rows("subscriptions") + hand.rows("queue") + hand.rows("incoming") == 0


def test_a_durable_session_stands_on_disk_before_its_connack() -> None:
    hand = MqttHand()
    wire = hand.dial("s")
    effects = wire.connect(clean_start=False, session_expiry_s=HOUR_S)
    names = [type(effect).__name__ for effect in effects if type(effect).__name__ != "Note"]
    assert names == ["Persist", "Attach", "Transmit"]
    assert len(hand.wrote("session")) == 1
