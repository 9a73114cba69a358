"""Promise P8: on a full disk nothing is acknowledged that is not kept, and service returns with the space."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.abuse.house import House, Probe, ballast, running, settled, small_disk
from tests.conformance.codec import PUBACK, V311, P
from tests.conformance.raw import PATIENCE_S, Client

QUOTA = 0x97
LASTING = ((P.SESSION_EXPIRY, 600),)
SIZE = 20_000
"""Of a payload; its first bytes are its number."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 12) as folder:
        yield folder


def payload(number: int) -> bytes:
    return number.to_bytes(4) + bytes(SIZE)


def reason(client: Client, number: int) -> int:
    answer = client.publish("kept", payload(number))
    assert answer is not None
    return answer.reason


def test_full_and_nearly_full(tmp_path: Path, disk: Path) -> None:
    """Nearly full: what must be kept is refused, and said so. Full: what is under way is not acknowledged before it is
    safe. Both times everything goes on when there is room, without a restart."""
    limits = {"queue_messages": 100_000, "queue_bytes": 1 << 30}
    broker = {"data": disk / "data", "durability": "power"}
    with running(tmp_path, limits=limits, broker=broker) as house:
        probe = Probe(house)
        away, older = house.join(client_id="away", properties=LASTING), house.join(V311)
        away.subscribe(("kept", 1))
        away.disconnect()
        publisher = house.join()
        assert reason(publisher, 0) == 0
        with ballast(disk, leaves=200_000):
            settled(lambda: "the disk is nearly full" in house.log, "the broker notices")
            refused = house.refused("the disk is full")
            assert reason(publisher, 1) == QUOTA
            older.send(older.publication("kept", payload(1), qos=1))
            older.expect_closed()  # neither acknowledged nor taken
            assert house.refused("the disk is full") == refused + 2
            probe.round_trip()  # what needs no disk goes on
        settled(lambda: reason(publisher, 1) == 0, "there is room")
        with ballast(disk, leaves=10_000):
            publisher.send(publisher.publication("kept", payload(2), qos=1, packet_id=2))
            settled(lambda: "the disk is full" in house.log, "a commit finds no room")
            probe.round_trip()
            publisher.socket.settimeout(0.5)
            with pytest.raises(TimeoutError):
                publisher.read_more()  # it is not acknowledged, for it is not safe
            publisher.socket.settimeout(PATIENCE_S)
        publisher.expect(PUBACK, packet_id=2, reason=0)
        read_back(house, 2)
        probe.client.close()


def read_back(house: House, last: int) -> None:
    """After a crash, everything that was acknowledged is there once, in order, and nothing else."""
    house.stop(kill=True)
    house.start()
    back = house.join(client_id="away", clean=False, properties=LASTING)
    assert back.connack.session_present
    got = [int.from_bytes(back.take().payload[:4]) for _ in range(last + 1)]
    assert got == list(range(last + 1))
    back.expect_nothing()
