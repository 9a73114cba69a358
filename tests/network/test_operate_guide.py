"""The commands of docs/guide/operate.md and apply.md, run as they are written against brokers in the default folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from latecomer.model.topology_generators import line
from latecomer.runtime.network_file import placed
from latecomer.runtime.settings import Settings, loads
from tests.network.test_up import LONG_SECONDS, Shown, base

__all__ = ["base"]

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


def commands(page: str, start: str) -> list[str]:
    """The commands of a page that begin so, with the lines that they go on with."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", (GUIDE / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for kind, block in blocks if not kind for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith(start)]


@pytest.fixture
def started(base: int, tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A broker with nothing said but its port, and where it was started."""
    command = [sys.executable, "-m", "latecomer", "broker", "--port", str(base)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        shown = Shown(process)
        try:
            shown.wait(" is ready: ")
            yield tmp_path, base
        finally:
            process.terminate()
            process.wait(LONG_SECONDS)
            shown.thread.join()


@pytest.mark.needs("curl")
def test_the_commands_of_the_guide(started: tuple[Path, int]) -> None:
    folder, port = started
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    asked = [*commands("operate.md", "curl"), *commands("operate.md", "latecomer stores")]
    assert len(asked) >= 5
    for words in asked:
        here = words.replace(":3883", f":{port + 2000}")
        done = subprocess.run(
            ["sh", "-c", here], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, (here, done.stderr)
        unknown = "no client 'sensor-1' at this broker" if "sensor-1" in here else None
        assert unknown in done.stdout if unknown else 'problem":' not in done.stdout, (here, done.stdout)


def test_a_broker_on_a_port_has_its_admin_interface_at_a_known_one(started: tuple[Path, int]) -> None:
    folder, port = started
    address = folder / "latecomer-data" / "admin-address"
    assert address.read_text() == f"http://127.0.0.1:{port + 2000}\n"
    for verb in (
        ["stores", "--network", str(folder / "latecomer-data")],
        ["stores", "--admin", address.read_text().strip()],
    ):
        done = subprocess.run([sys.executable, "-m", "latecomer", *verb], cwd=folder, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (
            0,
            "no broker keeps any history; start one with --store 'sensors/#'\n",
        )


def test_one_scheme_for_a_broker_and_for_a_network() -> None:
    assert placed(line(1)).brokers[0].admin_port == Settings().admin_port == 3883
    assert loads("[[listeners]]\nport = 7000\n[[listeners]]\nport = 7001\n").admin_port == 9000
    assert loads("[[listeners]]\nport = 64000\n").admin_port == 62000
    assert loads("[[listeners]]\nport = 0\n").admin_port == 0
    assert loads("[admin]\nport = 4000\n").admin_port == 4000
