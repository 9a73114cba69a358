"""The operator ends a session: connected or away, with everything that belongs to it."""

from __future__ import annotations

import pytest

from latecomer.core.effects import Note
from latecomer.core.inputs import SessionEnded
from latecomer.messages.mqtt import Disconnect, Properties, Reason, Will
from tests.unit.hand import of
from tests.unit.mqtt_hand import V5, V311, MqttHand

END = SessionEnded("s", "lost property")


@pytest.mark.parametrize("version", [V5, V311])
@pytest.mark.parametrize("durable", [True, False])
def test_a_connected_client_is_told_and_leaves_nothing(version: int, durable: bool) -> None:
    hand = MqttHand()
    watcher = hand.client("watcher")
    watcher.subscribe("w")
    will = Will("w", b"gone", properties=Properties(will_delay_s=60 if durable else 0))
    client = (hand.durable if durable else hand.client)("s", version, will=will)
    client.subscribe("t")
    effects = hand.tell(END)
    assert client.closed == "administrative_action: lost property"
    told = [packet for packet in client.take() if isinstance(packet, Disconnect)]
    assert [packet.reason for packet in told] == ([Reason.ADMINISTRATIVE_ACTION] if version == V5 else [])
    assert watcher.payloads() == [b"gone"], "at once: a will does not outlive its session [MQTT-3.1.3-9]"
    assert "s" not in hand.broker.sessions.by_client
    assert (hand.rows("session"), hand.rows("subscriptions")) == (0, 0)
    details = [note.record.detail for note in of(effects, Note) if note.record.kind == "disconnected"]
    assert details[0] == "administrative_action: lost property"
    assert details[1:] == (["session ended: by the operator: lost property"] if durable else [])


def test_a_session_that_waits_for_its_client() -> None:
    hand = MqttHand()
    hand.durable("s", user="first").subscribe("t")
    hand.wires[1].lose()
    hand.client("p").publish("t", b"waiting", 1)
    assert hand.rows("queue") == 1
    hand.tell(END)
    assert (hand.rows("session"), hand.rows("subscriptions"), hand.rows("queue")) == (0, 0, 0)
    newcomer = hand.durable("s", user="second")
    assert (newcomer.connack.reason, newcomer.connack.session_present) == (0, False), "the client id is free again"
    hand.restart()
    assert hand.session("s").user == "second"


def test_a_session_that_is_not_there() -> None:
    hand = MqttHand()
    assert hand.tell(END) == []
