"""`latecomer up` as its user meets it: a table, a network that mends itself, and a clean end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from latecomer.model.topology_generators import line
from latecomer.runtime.network_file import placed
from latecomer.runtime.supervisor import taken_port
from tests.network.net import WORKER
from tests.network.peer import LIMIT_SECONDS, Peer

LONG_SECONDS = 60


@pytest.fixture
def base() -> int:
    """With the ports 1000, 2000 and 3000 above it: where no other test looks for ports."""
    for port in range(5000 + 10 * WORKER, 5900, 300):
        if taken_port(placed(line(3), port)) is None:
            return port
    raise AssertionError("no ports are free")


class Shown:
    """What a process prints, as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.text = ""
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for words in self.process.stdout:
            self.text += words

    def wait(self, pattern: str) -> None:
        until = time.monotonic() + LONG_SECONDS
        while not re.search(pattern, self.text):
            assert time.monotonic() < until, self.text
            time.sleep(0.05)


@contextmanager
def up(*words: str) -> Iterator[Shown]:
    command = [sys.executable, "-m", "latecomer", "up", *words]
    environment = {**os.environ, "COLUMNS": "100", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        shown = Shown(process)
        try:
            yield shown
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(LONG_SECONDS)
            finally:
                process.kill()
                shown.thread.join()


def broker_pids(supervisor: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_network_comes_up_mends_itself_and_goes_on_where_it_was(base: int, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with up("--brokers", "3", "--shape", "line", "--base-port", str(base), "--data", data) as shown:
        shown.wait("Ctrl-C stops")
        assert [port for port in range(base, base + 3) if f"127.0.0.1:{port} " not in shown.text] == []
        with Peer(base) as first, Peer(base + 2) as last:
            last.subscribe("up/news", 1)
            last.ready(first)
            first.publish("up/news", "hello", 1, retain=True)
            assert last.payloads() == [b"hello"]
        os.kill(broker_pids(shown.process.pid)[1], signal.SIGKILL)
        shown.wait("b2 was ended by SIGKILL; starting it again in 0.5 s")
        shown.wait("b2 is back")
        with Peer(base) as first, Peer(base + 2) as last:
            last.subscribe("up/more")
            last.ready(first)
        shown.process.send_signal(signal.SIGINT)
        assert shown.process.wait(LONG_SECONDS) == 0
    assert taken_port(placed(line(3), base)) is None
    with up("--data", data) as shown:  # the same network without another word
        shown.wait("Ctrl-C stops")
        with Peer(base + 2) as late:
            late.subscribe("up/news", 1)
            assert late.payloads() == [b"hello"]
        shown.process.terminate()
        assert shown.process.wait(LONG_SECONDS) == 0


def test_a_taken_port_is_one_line(base: int, tmp_path: Path) -> None:
    with up("--brokers", "1", "--base-port", str(base), "--data", str(tmp_path / "one")) as first:
        first.wait("Ctrl-C stops")
        with up("--brokers", "1", "--base-port", str(base), "--data", str(tmp_path / "two")) as second:
            assert second.process.wait(LIMIT_SECONDS) == 2
            second.thread.join()
    assert second.text.endswith(
        f"latecomer: --base-port: port {base} on 127.0.0.1 is taken, and b1 wants it as its port\n"
    )
