"""Promise P8: on a full disk nothing is acknowledged that is not kept, and service returns with the space."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.abuse.house import House, Probe, running, settled
from tests.conformance.codec import PUBACK, V311, P
from tests.conformance.raw import PATIENCE_S, Client

QUOTA = 0x97
LASTING = ((P.SESSION_EXPIRY, 600),)
SIZE = 20_000
"""Of a payload; its first bytes are its number."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", "size=12m,mode=0700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system needs the right to mount one")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def payload(number: int) -> bytes:
    return number.to_bytes(4) + bytes(SIZE)


def reason(client: Client, number: int) -> int:
    answer = client.publish("kept", payload(number))
    assert answer is not None
    return answer.reason


def test_full_and_nearly_full(tmp_path: Path, small_disk: Path) -> None:
    """Nearly full: what must be kept is refused, and said so. Full: what is under way is not acknowledged before it is
    safe. Both times everything goes on when there is room, without a restart."""
    limits = {"queue_messages": 100_000, "queue_bytes": 1 << 30}
    broker = {"data": small_disk / "data", "durability": "power"}
    with running(tmp_path, limits=limits, broker=broker) as house:
        probe = Probe(house)
        away, older = house.join(client_id="away", properties=LASTING), house.join(V311)
        away.subscribe(("kept", 1))
        away.disconnect()
        publisher = house.join()
        assert reason(publisher, 0) == 0
        with ballast(small_disk, leaves=200_000):
            settled(lambda: "the disk is nearly full" in house.log, "the broker notices")
            refused = house.refused("the disk is full")
            assert reason(publisher, 1) == QUOTA
            older.send(older.publication("kept", payload(1), qos=1))
            older.expect_closed()  # neither acknowledged nor taken
            assert house.refused("the disk is full") == refused + 2
            probe.round_trip()  # what needs no disk goes on
        settled(lambda: reason(publisher, 1) == 0, "there is room")
        with ballast(small_disk, leaves=10_000):
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


@contextlib.contextmanager
def ballast(folder: Path, leaves: int) -> Iterator[None]:
    """A file that leaves so many bytes of the disk."""
    found = os.statvfs(folder)
    path = folder / "ballast"
    path.write_bytes(bytes(found.f_bavail * found.f_frsize - leaves))
    yield
    path.unlink()


def read_back(house: House, last: int) -> None:
    """After a crash, everything that was acknowledged is there once, in order, and nothing else."""
    house.stop(kill=True)
    house.start()
    back = house.join(client_id="away", clean=False, properties=LASTING)
    assert back.connack.session_present
    got = [int.from_bytes(back.take().payload[:4]) for _ in range(last + 1)]
    assert got == list(range(last + 1))
    back.expect_nothing()
