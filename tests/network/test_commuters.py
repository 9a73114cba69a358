"""The commuters of `latecomer demo` on real brokers, one of which is killed while it has their sessions."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
from paho.mqtt.client import Client, MQTTMessage

from latecomer.cli.demo_commuters import AWAY_S, STAY_S, Commuter, Commuters, check
from latecomer.cli.demo_traffic import People, topic_of
from latecomer.model.topology_generators import line
from tests.network.net import QUICK, network_of, running

MOVES = 4
SETTINGS = {**QUICK, "hand_over": {"patience_s": 1.0}}


def test_commuters_get_everything_although_their_broker_is_killed(tmp_path: Path) -> None:
    network = network_of(line(3), SETTINGS)
    publishers_at = msgspec.structs.replace(network, brokers=network.brokers[:2])
    victim = network.brokers[2].id
    with running(network, tmp_path) as supervisor:
        people, commuters = People(publishers_at, time.time_ns() // 1000), Commuters(network)
        seen = [qos_seen(commuter) for commuter in commuters.all]
        try:
            commuters.begin()
            people.begin(lambda done: None)
            time.sleep(MOVES * (AWAY_S + STAY_S))
            commuters.halt()
            commuters.lose_broker(victim, supervisor)
            owed = {topic_of(district): owed for district, owed in people.acknowledged.items()}
            found = commuters.finish(owed)
        finally:
            commuters.close()
            people.close()
    check(found)
    assert [one.qos for one in found] == [1, 2]
    for one in found:
        assert one.killed == victim
        assert one.moves >= 2
        assert one.messages > sum(owed.values()) / 2
    assert sum(one.refusals for one in found) >= 1
    assert seen == [{1}, {2}]


def qos_seen(commuter: Commuter) -> set[int]:
    """Of everything that comes to it."""
    seen: set[int] = set()
    counted = commuter.client.on_message
    assert counted is not None

    def came(client: Client, data: object, message: MQTTMessage) -> None:
        seen.add(message.qos)
        counted(client, data, message)

    commuter.client.on_message = came
    return seen
