"""Bad inputs 6, 8, 10 and 11: too many connections, subscriptions, retained messages, sessions."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.abuse.house import House, Probe, nothing_came, running, settled
from tests.conformance.codec import PUBACK, PUBLISH, V5, V311, Hello, P, Will
from tests.conformance.raw import Client

SETTINGS = {
    "limits": {
        "connections_per_address": 8,
        "retained_per_user": 20,
        "retained_bytes_per_user": 4000,
        "sessions_per_user": 30,
        "session_expiry_max_s": 3600,
    },
}
RATE, QUOTA, INVALID = 0x9F, 0x97, 0x8F
LASTING = ((P.SESSION_EXPIRY, 0xFFFF_FFFF),)


@pytest.mark.parametrize(("version", "reason"), [(V5, RATE), (V311, 3)])
def test_06_connections_per_address(house: House, version: int, reason: int) -> None:
    """The ninth from one address is refused, whatever it says, and another address is not concerned."""
    here = [house.knock(version, source="127.0.0.9") for _ in range(8)]
    assert not any(answer.reason for _, answer in here)
    with house.noticed("connection_rate_exceeded", "more than 8 from this address"):
        client, answer = house.knock(version, source="127.0.0.9")
        assert answer.reason == reason
        client.expect_closed()
    assert house.knock(version, source="127.0.0.10")[1].reason == 0
    here[0][0].disconnect()
    assert house.knock(version, source="127.0.0.9")[1].reason == 0


@pytest.fixture
def hurried(tmp_path: Path) -> Iterator[House]:
    with running(tmp_path, limits={"connection_rate": 5, "connections": 40}) as found:
        yield found


def test_06_connection_rate_and_number(hurried: House) -> None:
    """More connections in a second than are allowed, and then more at once than are allowed."""
    answers = [hurried.knock()[1].reason for _ in range(30)]
    assert answers[:5] == [0] * 5
    assert set(answers[5:]) == {0, RATE} or set(answers[5:]) == {RATE}
    assert hurried.refused("connection_rate_exceeded") == answers.count(RATE)
    while int(hurried.metrics()["latecomer_connections"]) < 40:
        hurried.raw()
    client = hurried.raw()
    client.send(Hello(client_id="one too many").encode())
    assert client.receive().reason == QUOTA
    settled(lambda: "more than 40 connections" in hurried.log, "the log says why")
    for _ in range(60):
        client = hurried.raw()
    client.expect_closed()  # there is not even room to say why


def test_06_more_connections_than_files(tmp_path: Path) -> None:
    """The system's limit on open files is the broker's as well: it never runs out of them."""
    with running(tmp_path, files=200) as house:
        probe = Probe(house)
        crowd = []
        for _ in range(400):
            with contextlib.suppress(OSError):
                crowd.append(socket.create_connection(("127.0.0.1", house.ports["mqtt"])))
        probe.round_trip()
        assert "the limit on open files allows" in house.log
        assert "too many open files" not in house.log.lower()
        for one in crowd:
            one.close()
        settled(lambda: house.knock()[1].reason == 0, "there is room again")
        probe.client.close()


def test_08_a_thousand_and_one_subscriptions(house: House) -> None:
    client, older = house.join(), house.join(V311)
    filters = [(f"f/{number}/+/#", 1) for number in range(1001)]
    with house.noticed("quota_exceeded", "quota_exceeded: 1 of 1001 subscriptions"):
        assert client.subscribe(*filters) == [1] * 1000 + [QUOTA]
    with house.noticed("quota_exceeded"):
        assert older.subscribe(*filters) == [1] * 1000 + [0x80]
    assert client.subscribe(filters[0]) == [1]  # one it has may be renewed
    assert client.unsubscribe("f/0/+/#") == [0]
    assert client.subscribe(filters[1000]) == [1]


def test_08_wildcards(house: House) -> None:
    client, older = house.join(), house.join(V311)
    nine = "/".join("+" * 9)
    with house.noticed("quota_exceeded"):
        assert client.subscribe((nine, 0), ("$share/g/" + nine, 0), (nine[2:] + "/#", 0)) == [QUOTA, QUOTA, 0]
    with house.noticed("quota_exceeded"):
        assert older.subscribe((nine, 0)) == [0x80]


def test_08_shared_subscriptions(house: House) -> None:
    """A name costs every broker, and a group every publication: what is granted is told to all, the rest refused."""
    client, older = house.join(), house.join(V311)
    with house.noticed("topic_filter_invalid"):
        assert client.subscribe((f"$share/{'x' * 65_000}/jobs", 1)) == [INVALID]
    with house.noticed("topic_filter_invalid"):
        assert older.subscribe((f"$share/{'x' * 257}/jobs", 1), (f"$share/{'x' * 256}/jobs", 1)) == [0x80, 1]
    with house.noticed("quota_exceeded"):
        wanted = [(f"$share/{number}/jobs", 1) for number in range(101)]
        assert client.subscribe(*wanted) == [1] * 100 + [QUOTA]
    assert client.unsubscribe("$share/7/jobs") == [0]
    assert client.subscribe(("$share/another/jobs", 1)) == [1]


def test_08_one_packet_with_a_hundred_thousand_filters(house: House) -> None:
    """Each is answered; the log has one line."""
    client = house.join()
    at = len(house.log)
    reasons = client.subscribe(*((f"{number:05x}", 0) for number in range(100_000)))
    assert reasons == [0] * 1000 + [QUOTA] * 99_000
    assert house.log[at:].count("\n") == 1


def test_08_one_packet_that_asks_a_thousand_times(house: House) -> None:
    """What is retained comes once for a packet, however often the packet asks: no amplification."""
    client = house.join()
    client.publish("kept", b"x" * 1000, retain=True)
    assert client.subscribe(*[("kept", 0)] * 1000) == [0] * 1000
    came = client.early + [found for found in client.leftovers() if found.kind == PUBLISH]
    assert [found.topic for found in came] == ["kept"]
    client.early.clear()
    client.publish("kept", b"", retain=True)


def test_10_retained_messages_of_a_user(house: House) -> None:
    """The twenty-first is refused; replacing and deleting still work, and make room."""
    client, reader = house.join(), house.join()
    for number in range(20):
        assert client.publish(f"r/{number}", b"x", retain=True) is not None
    with house.noticed("quota_exceeded", "too much is retained already"):
        client.send(client.publication("r/20", b"x", qos=1, retain=True))
        client.expect(PUBACK, reason=QUOTA)
    with house.noticed("quota_exceeded"):
        client.send(client.publication("r/20", b"x", retain=True))
        client.ping()
    with house.noticed("quota_exceeded"):
        assert house.knock(will=Will("r/20", b"x", retain=True))[1].reason == QUOTA
    reader.subscribe(("r/20", 0))
    nothing_came(reader)
    assert _reason(client, "r/3", b"other") == 0
    assert _reason(client, "r/3", b"") == 0
    assert _reason(client, "r/20", b"x") == 0
    for number in range(21):
        assert _reason(client, f"r/{number}", b"") == 0


def test_10_bytes_of_a_user(house: House) -> None:
    client = house.join()
    assert _reason(client, "b/0", b"x" * 3000) == 0
    assert _reason(client, "b/1", b"x" * 3000) == QUOTA
    assert _reason(client, "b/0", b"y" * 3900) == 0
    assert _reason(client, "b/0", b"") == 0
    assert _reason(client, "b/1", b"x" * 3000) == 0
    assert _reason(client, "b/1", b"") == 0


def test_10_retained_in_311(house: House) -> None:
    """3.1.1 cannot refuse a publication: what was not taken is not acknowledged, the connection ends."""
    client = house.join(V311)
    with house.noticed("quota_exceeded", times=2):
        client.send(client.publication("b/0", b"x" * 5000, qos=1, retain=True))
        client.expect_closed()
    reader = house.join()
    reader.subscribe(("b/0", 0))
    nothing_came(reader)


def test_10_what_has_expired_makes_room(house: House) -> None:
    client = house.join()
    brief = ((P.MESSAGE_EXPIRY, 1),)
    for number in range(20):
        assert _reason(client, f"e/{number}", b"x", brief) == 0
    settled(lambda: _reason(client, "e/later", b"x") == 0, "room was made")
    assert _reason(client, "e/later", b"") == 0


def test_11_sessions(house: House) -> None:
    """Sessions wait for their clients no longer than announced, and not in any number."""
    before = int(house.metrics()["latecomer_sessions"])
    names = [f"lasting{number}" for number in range(30 - before)]
    for name in names:
        client = house.join(client_id=name, properties=LASTING)
        assert client.connack.get(P.SESSION_EXPIRY) == 3600
        client.disconnect()
    with house.noticed("quota_exceeded", "too many sessions"):
        client, answer = house.knock(client_id="one more", properties=LASTING)
        assert answer.reason == QUOTA
        client.expect_closed()
    with house.noticed("quota_exceeded"):
        assert house.knock(V311, clean=False)[1].reason == 3
    assert house.knock(client_id=names[0], clean=False)[1].session_present
    for name in names[1:]:
        house.join(client_id=name).disconnect()


def _reason(client: Client, topic: str, payload: bytes, properties: tuple[tuple[int, int], ...] = ()) -> int:
    answer = client.publish(topic, payload, retain=True, properties=properties)
    assert answer is not None
    return 0 if answer.reason == 0x10 else answer.reason
