"""`latecomer sub`: one line per message, whatever is in its topic."""

from __future__ import annotations

import pytest
from paho.mqtt.client import MQTTMessage

from latecomer.cli.history_output import text_line
from latecomer.cli.sub import Printer
from latecomer.client.journey import GONE_FOR_GOOD
from latecomer.messages.mqtt import Reason


def message(topic: str) -> MQTTMessage:
    found = MQTTMessage(topic=topic.encode())
    found.payload = b"34.5"
    return found


@pytest.mark.parametrize(
    ("topic", "shown"),
    [("a/b é", "a/b é"), ("a\nb 99", "a\\nb 99"), ("a\r\x1b[2Jb", "a\\r\\x1b[2Jb"), ("a\u2028b", "a\\u2028b")],
)
def test_a_topic_cannot_split_a_line(topic: str, shown: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Printer("verbose")(message(topic))
    assert capfdbinary.readouterr().out == f"{shown} 34.5\n".encode()
    assert text_line(message(topic), "2026", "e") == f"2026 {shown} 34.5\n".encode()


def test_a_client_that_an_operator_disconnects_comes_back() -> None:
    assert Reason.ADMINISTRATIVE_ACTION not in GONE_FOR_GOOD
    assert Reason.SESSION_TAKEN_OVER in GONE_FOR_GOOD
