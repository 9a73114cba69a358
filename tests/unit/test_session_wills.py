"""Wills: when they are published, when they wait, and when they are never published."""

from __future__ import annotations

import pytest

from latecomer.messages.mqtt import Connack, Properties, Reason, Will
from tests.unit.mqtt_hand import SECOND_US, V5, V311, MqttHand, Rules, Wire

WILL = Will("w", b"gone")


def watched(*, access: Rules | None = None) -> tuple[MqttHand, Wire]:
    """A broker, and somebody who hears of every will, even if the broker dies."""
    hand = MqttHand(access=access)
    watcher = hand.durable("watcher")
    watcher.subscribe("w")
    return hand, watcher


def delayed(delay_s: int, payload: bytes = b"gone", qos: int = 0) -> Will:
    return Will("w", payload, qos, properties=Properties(will_delay_s=delay_s))


@pytest.mark.parametrize("version", [V5, V311])
def test_a_will_is_published_when_the_connection_breaks(version: int) -> None:
    """[MQTT-3.1.2-8]"""
    hand, watcher = watched()
    hand.client("s", version, will=WILL).lose()
    assert watcher.payloads() == [b"gone"]


@pytest.mark.parametrize("version", [V5, V311])
@pytest.mark.parametrize("durable", [True, False])
def test_a_will_is_never_published_after_a_proper_goodbye(version: int, durable: bool) -> None:
    """[MQTT-3.1.2-10, 3.14.4-3], not even by a broker that died and came back."""
    hand, watcher = watched()
    client = (hand.durable if durable else hand.client)("s", version, will=Will("w", b"gone", 1))
    client.disconnect()
    assert watcher.take() == []
    hand.restart()
    hand.wait(SECOND_US)
    assert hand.durable("watcher").take() == []
    assert hand.rows("session") == (2 if durable else 1)


def test_disconnect_may_ask_for_the_will() -> None:
    """Reason code 0x04"""
    hand, watcher = watched()
    hand.client("s", will=WILL).disconnect(Reason.DISCONNECT_WITH_WILL)
    assert watcher.payloads() == [b"gone"]
    hand.durable("s", will=WILL).disconnect(Reason.DISCONNECT_WITH_WILL)
    assert watcher.payloads() == [b"gone"]


def test_any_other_reason_keeps_the_will() -> None:
    """[MQTT-3.14.4-3] speaks of normal disconnection alone."""
    hand, watcher = watched()
    hand.client("s", will=WILL).disconnect(Reason.UNSPECIFIED_ERROR)
    assert watcher.payloads() == [b"gone"]


def test_a_will_waits_for_its_delay() -> None:
    """[MQTT-3.1.3-9]"""
    hand, watcher = watched()
    hand.durable("s", will=delayed(10)).lose()
    hand.wait(10 * SECOND_US - 1)
    assert watcher.take() == []
    hand.wait(1)
    assert watcher.payloads() == [b"gone"]
    hand.wait(100 * SECOND_US)
    assert watcher.take() == []


def test_a_will_that_waits_is_forgotten_when_the_client_comes_back() -> None:
    """[MQTT-3.1.3-9]"""
    hand, watcher = watched()
    hand.durable("s", will=delayed(10)).lose()
    hand.wait(9 * SECOND_US)
    back = hand.durable("s")
    hand.wait(100 * SECOND_US)
    assert watcher.take() == []
    back.lose()
    hand.wait(100 * SECOND_US)
    assert watcher.take() == []


def test_a_will_does_not_wait_longer_than_its_session() -> None:
    """[MQTT-3.1.3-9] whichever comes first"""
    hand, watcher = watched()
    hand.durable("s", will=delayed(100), session_expiry_s=5).lose()
    hand.wait(5 * SECOND_US)
    assert watcher.payloads() == [b"gone"]
    assert hand.rows("session") == 1


def test_a_clean_start_ends_the_session_and_lets_its_will_go() -> None:
    hand, watcher = watched()
    hand.durable("s", will=delayed(100)).lose()
    hand.client("s")
    assert watcher.payloads() == [b"gone"]


def test_a_will_without_a_session_to_wait_for_does_not_wait() -> None:
    hand, watcher = watched()
    hand.client("s", will=delayed(100)).lose()
    assert watcher.payloads() == [b"gone"]


@pytest.mark.parametrize(("delay_s", "clean_start", "published"), [(0, False, 1), (10, False, 0), (10, True, 1)])
def test_taking_over_is_a_connection_that_broke(delay_s: int, clean_start: bool, published: int) -> None:
    """§3.1.4: the will is published unless it waits and the session goes on."""
    hand, watcher = watched()
    hand.durable("s", will=delayed(delay_s, b"old"))
    new = hand.durable("s", clean_start=clean_start, will=delayed(delay_s, b"new"))
    assert watcher.payloads() == [b"old"] * published
    hand.wait(100 * SECOND_US)
    assert watcher.take() == []
    new.disconnect()
    hand.wait(100 * SECOND_US)
    assert watcher.take() == []


@pytest.mark.parametrize("first", ["a", "z"])
@pytest.mark.parametrize("durable", [True, False])
def test_the_wills_of_clients_that_the_broker_lost_by_dying(first: str, durable: bool) -> None:
    """§3.1.2.5: also if it is the server that fails. Nobody who subscribed misses it, whoever is found first."""
    hand, _ = watched()
    (hand.durable if durable else hand.client)(first, will=Will("w", b"gone", 1))
    hand.restart()
    watcher = hand.durable("watcher")
    assert [p.payload for p in watcher.settle()] == [b"gone"]
    hand.wait(SECOND_US)
    hand.restart()  # once, however often it dies
    hand.wait(SECOND_US)
    assert hand.durable("watcher").take() == []
    assert hand.rows("session") == (2 if durable else 1)


def test_a_delayed_will_survives_a_restart() -> None:
    hand, _ = watched()
    hand.durable("s", will=delayed(10, qos=1)).lose()
    hand.now += 4 * SECOND_US
    hand.restart()
    watcher = hand.durable("watcher")
    hand.wait(6 * SECOND_US - 1)
    assert watcher.take() == []
    hand.wait(1)
    assert watcher.payloads() == [b"gone"]


def test_a_will_that_must_not_be_published_is_refused_at_the_door() -> None:
    """Bad input 20"""
    rules = Rules()
    rules.no_publish.append("w")
    hand, watcher = watched(access=rules)
    wire = hand.dial("s")
    wire.connect(will=WILL)
    assert wire.one(Connack).reason == Reason.NOT_AUTHORIZED
    assert wire.closed
    assert watcher.take() == []


def test_rights_are_looked_at_again_when_the_will_is_due() -> None:
    """Bad inputs 19, 20"""
    rules = Rules()
    hand, watcher = watched(access=rules)
    s = hand.client("s", will=WILL)
    rules.no_publish.append("w")
    s.lose()
    assert watcher.take() == []


def test_a_will_has_properties_and_may_be_retained() -> None:
    """[MQTT-3.1.2-15] and §3.1.3.2"""
    hand, watcher = watched()
    properties = Properties(
        content_type="text/plain", response_topic="r", correlation_data=b"c", payload_format=1, user=(("a", "1"),)
    )
    hand.client("s", will=Will("w", b"gone", 2, True, properties)).lose()
    (packet,) = watcher.got()
    assert packet.qos == 2
    assert packet.properties == properties
    late = hand.client("late")
    late.subscribe("w")
    (packet,) = late.got()
    assert (packet.payload, packet.retain) == (b"gone", True)


def test_the_will_of_an_ephemeral_session_is_all_it_leaves_on_disk() -> None:
    hand, _ = watched()
    s = hand.client("s", will=WILL)
    s.subscribe("t")
    hand.client("p").publish("t", b"1", 1)
    assert hand.rows("session") == 2
    assert hand.rows("subscriptions") == 1
    assert hand.rows("queue") == 0
    s.lose()
    assert hand.rows("session") == 1
