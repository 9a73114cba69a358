"""What an operator sees and does: the log at the level debug, `$SYS`, and the end of a session that somebody squats."""

from __future__ import annotations

import re
import time

import pytest

from latecomer.cli.doors import call, door_in
from latecomer.cli.main import VERBS, run
from latecomer.runtime.admin_views import ClientView
from tests.abuse.house import House, Probe, settled
from tests.conformance.codec import PUBLISH, V5, V311, P

SETTINGS = {"broker": {"log_level": "debug", "sys_interval_s": 0.2}, "store": {"topics": ["kept/#"]}}


def test_the_log_has_a_line_for_each_thing_a_client_does(house: House, probe: Probe) -> None:
    client = house.join(V311, client_id="talker")
    client.subscribe(("a/#", 1))
    client.unsubscribe("a/#")
    client.close()
    settled(lambda: "client talker disconnected: the connection broke" in house.log, "its leaving is logged")
    said = [line for line in house.log.splitlines() if "talker" in line]
    assert [re.sub(r".* DEBUG ", "", line) for line in said] == [
        "client talker connected: MQTT 3.1.1, tcp from 127.0.0.1, anonymous",
        "client talker subscribed to a/#",
        "client talker unsubscribed from a/#",
        "client talker disconnected: the connection broke",
    ]


def test_figures_as_mosquitto_names_them(house: House, probe: Probe) -> None:
    client = house.join(V5)
    assert client.subscribe(("$SYS/broker/#", 0)) == [0]
    found: dict[str, str] = {}
    wanted = ("version", "uptime", "clients/connected", "messages/received", "publish/messages/sent", "bytes/sent")
    while not all(f"$SYS/broker/{name}" in found for name in wanted) or found["$SYS/broker/messages/received"] == "0":
        packet = client.expect(PUBLISH)
        found[packet.topic] = packet.payload.decode()
    assert found["$SYS/broker/version"].startswith("latecomer version ")
    assert int(found["$SYS/broker/clients/connected"]) >= 1
    assert "$SYS/broker/load/messages/received/15min" in found


def test_a_session_is_ended_and_its_client_id_is_free(house: House, probe: Probe) -> None:
    squatter = house.join(V5, client_id="mine", clean=False, properties=((P.SESSION_EXPIRY, 3600),))
    data = str(house.folder / "data")
    assert run(VERBS, ["sessions", "end", "mine", "--network", data, "--reason", "not yours"]) == 0
    squatter.expect_end(0x98)
    owner = house.join(V5, client_id="mine", clean=False)
    assert not owner.connack.session_present
    assert run(VERBS, ["sessions", "end", "nobody", "--network", data]) == 1
    assert "the session of mine is ended by the operator: not yours" in house.log


def test_since_when_a_client_is_connected(house: House, probe: Probe) -> None:
    before_us = time.time_ns() // 1000
    house.join(V5, client_id="fresh")
    door = door_in(house.folder / "data")
    assert before_us - 1_000_000 < call(door, "client", ClientView, {"id": "fresh"}).since_us < before_us + 60_000_000


def test_reload_says_what_it_does_not_do(house: House, probe: Probe) -> None:
    door = door_in(house.folder / "data")
    assert call(door, "reload", dict[str, str], body={})["done"] == "users and rules are in force as their files say"
    file = house.folder / "broker.toml"
    before = file.read_text("utf-8")
    try:
        file.write_text(before + "[limits]\nsessions = 7\n", "utf-8")
        assert call(door, "reload", dict[str, str], body={})["done"].endswith("after a restart only: limits.sessions")
        file.write_text("[limits]\nsessions = 'many'\n", "utf-8")
        assert "the settings file cannot be used" in call(door, "reload", dict[str, str], body={})["done"]
    finally:
        file.write_text(before, "utf-8")


def test_a_store_of_a_running_broker_is_asked_for_where_it_can_be(
    house: House, probe: Probe, capsys: pytest.CaptureFixture[str]
) -> None:
    data = house.folder / "data"
    assert run(VERBS, ["store", "status", str(data)]) == 2
    assert f"ask it: latecomer stores --network {data}, or stop it first" in capsys.readouterr().err
