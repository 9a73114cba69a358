"""What is particular to threads and callbacks: what may be done in a callback, and what happens if it fails."""

from __future__ import annotations

import logging
import queue
import threading

import pytest

from latecomer.client import GaveUp, Heard, Message, Patience, Welcome
from latecomer.client.threaded import Client
from latecomer.messages.mqtt import Publish, Reason, Subscribe, Will
from tests.client.server import FRESH, WELCOME, Server, free_address, refuse
from tests.client.talkers import LIMIT_S, profile, until

TWO = (*WELCOME, Publish("a", b"1", 1, packet_id=1), Publish("a", b"2", 1, packet_id=2))


def test_callbacks_may_subscribe_publish_and_leave() -> None:
    left = threading.Event()

    def welcomed(welcome: Welcome) -> None:
        client.subscribe("news/#")
        client.publish("hello", "there")

    def heard(heard: Heard) -> None:
        client.leave(next_broker="b2")
        left.set()

    with Server(TWO) as here:
        client = Client(here.address, profile(), on_welcome=welcomed, on_heard=heard)
        client.start()
        assert left.wait(LIMIT_S)
        client.leave()
        until(lambda: not client._client.is_connected())
        assert [each.requests[0].filter for each in here.heard if isinstance(each, Subscribe)] in (["news/#"], [])


def test_what_a_callback_asks_for_is_said() -> None:
    def welcomed(welcome: Welcome) -> None:
        client.subscribe("news/#")
        client.publish("hello", "there")

    with Server(FRESH) as here:
        client = Client(here.address, profile(), on_welcome=welcomed)
        with client:
            until(lambda: len(here.heard) == 2)
            until(lambda: client.course.wanted.kept["news/#"].granted)


def test_a_callback_that_fails_is_logged_and_the_next_one_is_called(caplog: pytest.LogCaptureFixture) -> None:
    came: queue.Queue[bytes] = queue.Queue()

    def heard(heard: Heard) -> None:
        assert isinstance(heard, Message)
        came.put(heard.payload)
        raise ValueError("a mistake of the application")

    caplog.set_level(logging.ERROR, "latecomer.client")
    with Server(TWO) as here, Client(here.address, profile(), on_heard=heard) as client:
        assert [came.get(timeout=LIMIT_S) for _ in range(2)] == [b"1", b"2"]
        assert client.connections == 1
    assert "a mistake of the application" in caplog.text


def subscribe_again_and_again(client: Client) -> None:
    for number in range(10_000):
        client.subscribe(f"a/{number}")


def test_who_waits_for_a_subscription_is_told_that_there_is_no_way_on() -> None:
    patience = Patience(attempts_max=2, pause_s=0.0, pause_max_s=0.0)
    with Server(WELCOME, refuse(Reason.SERVER_BUSY)) as here:
        client = Client(here.address, profile(patience=patience))
        client.start()
        here.cut()
        with pytest.raises(GaveUp):
            subscribe_again_and_again(client)
        assert isinstance(client.over, GaveUp)
        client.leave()


def test_who_it_is_stands_in_connect_and_not_in_logs() -> None:
    who = profile(user="anna", password="secret", will=Will("gone", b"bye", 1, True), session_s=7, keep_alive_s=9)
    assert "secret" not in repr(who)
    with Server(WELCOME) as here, Client(here.address, who):
        (connect,) = here.came
    assert (connect.user, connect.password, connect.keep_alive_s) == ("anna", b"secret", 9)
    assert connect.properties.session_expiry_s == 7
    assert connect.will is not None
    assert (connect.will.topic, connect.will.payload, connect.will.qos, connect.will.retain) == (
        "gone",
        b"bye",
        1,
        True,
    )


def test_leaving_while_nobody_is_there() -> None:
    client = Client([free_address()], profile(patience=Patience(attempts_max=1000, pause_s=0.01, pause_max_s=0.01)))

    def leave() -> None:
        until(lambda: client.course.journey.attempts > 1)
        client.leave()

    leaving = threading.Thread(target=leave)
    leaving.start()
    with pytest.raises(GaveUp, match="has left"):
        client.start()
    leaving.join(LIMIT_S)
    with pytest.raises(GaveUp, match="make another one"):
        client.start()
