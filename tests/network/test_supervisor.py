"""Processes of a network: whatever happens to one of them, the others and the user know what to make of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from latecomer.cli.main import VERBS, run
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.topology_generators import line, ring
from latecomer.runtime import settings
from latecomer.runtime import supervisor as module
from latecomer.runtime.network_file import Network, placed, read_network, shaped, toml, write_network
from latecomer.runtime.supervisor import Supervisor, settings_of, taken_port
from tests.network.net import network_of, running

PRETENDER = (sys.executable, str(Path(__file__).with_name("pretender.py")))
LIMIT_SECONDS = 60


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_SECONDS
    while not done():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def watch(supervisor: Supervisor, done: Callable[[], bool]) -> None:
    def look() -> bool:
        supervisor.watch()
        return done()

    until(look)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def pid_of(supervisor: Supervisor, broker: str) -> int:
    process = supervisor.children[broker].process
    assert process is not None
    return process.pid


@pytest.fixture
def network() -> Network:
    return network_of(line(3))


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def three(network: Network, tmp_path: Path, told: list[str]) -> Iterator[Supervisor]:
    with running(network, tmp_path, command=PRETENDER, tell=told.append) as supervisor:
        yield supervisor


def test_all_are_up_and_later_gone(network: Network, tmp_path: Path) -> None:
    with running(network, tmp_path, command=PRETENDER) as supervisor:
        pids = [pid_of(supervisor, seat.id) for seat in network.brokers]
        assert all(alive(pid) for pid in pids)
        taken = taken_port(network)
        assert taken is not None
        assert taken[1] == "port"
    assert not any(alive(pid) for pid in pids)
    assert taken_port(network) is None


def test_one_that_is_killed_comes_back(three: Supervisor, told: list[str]) -> None:
    old = pid_of(three, "b2")
    os.kill(old, signal.SIGKILL)
    watch(three, lambda: "b2 is back" in told)
    assert told == ["b2 was ended by SIGKILL; starting it again in 0.5 s", "b2 is back"]
    assert pid_of(three, "b2") != old


def test_each_time_a_little_later(three: Supervisor, told: list[str]) -> None:
    os.kill(pid_of(three, "b1"), signal.SIGKILL)
    watch(three, lambda: len(told) == 2)
    os.kill(pid_of(three, "b1"), signal.SIGKILL)
    watch(three, lambda: len(told) == 4)
    assert [line for line in told if "again" in line] == [
        "b1 was ended by SIGKILL; starting it again in 0.5 s",
        "b1 was ended by SIGKILL; starting it again in 1 s",
    ]


def test_without_restart_it_stays_down(network: Network, tmp_path: Path, told: list[str]) -> None:
    with running(network, tmp_path, command=PRETENDER, tell=told.append, restart=False) as supervisor:
        os.kill(pid_of(supervisor, "b3"), signal.SIGKILL)
        watch(supervisor, lambda: bool(told))
        supervisor.watch()
        assert told == ["b3 was ended by SIGKILL; it stays down"]
        assert supervisor.children["b3"].process is None


def test_one_whose_settings_are_wrong_is_not_tried_again(three: Supervisor, told: list[str]) -> None:
    (three.folder / "b1" / "refuse").touch()
    os.kill(pid_of(three, "b1"), signal.SIGKILL)
    watch(three, lambda: len(told) == 2)
    assert told[1] == "b1 ended with exit code 2: latecomer: limits.connections: must be more; it stays down"


def test_a_broker_that_cannot_start_stops_the_others(network: Network, tmp_path: Path) -> None:
    (tmp_path / "b2").mkdir()
    (tmp_path / "b2" / "refuse").touch()
    supervisor = Supervisor(network, tmp_path, command=PRETENDER)
    with pytest.raises(LatecomerError, match=r"^b2 ended with exit code 2: latecomer: limits.connections: must be"):
        supervisor.start()
    assert all(child.process is None for child in supervisor.children.values())
    assert taken_port(network) is None


def test_who_does_not_leave_is_made_to(network: Network, tmp_path: Path) -> None:
    (tmp_path / "b1").mkdir()
    (tmp_path / "b1" / "stay").touch()
    with running(network, tmp_path, command=PRETENDER) as supervisor:
        pid = pid_of(supervisor, "b1")
        supervisor.patience_seconds = 0.2
    assert not alive(pid)


def test_a_taken_port_is_named(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FREE_SECONDS", 0)
    seat = network.brokers[1]
    with socket.create_server((seat.host, seat.admin_port)):
        supervisor = Supervisor(network, tmp_path, command=PRETENDER)
        with pytest.raises(SettingsError, match=f"port {seat.admin_port} on 127.0.0.1 is taken, and b2 wants it"):
            supervisor.start()


def test_one_folder_has_one_supervisor(three: Supervisor, network: Network) -> None:
    with pytest.raises(SettingsError, match="in use by another"):
        Supervisor(network, three.folder, command=PRETENDER).start()


def test_a_rerun_keeps_the_secret_and_remembers_the_network(network: Network, tmp_path: Path) -> None:
    with running(network, tmp_path, command=PRETENDER):
        secret = (tmp_path / "secret").read_bytes()
        assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "b1" / "settings.toml").stat().st_mode & 0o777 == 0o600
    assert read_network(tmp_path / "network.toml") == network
    with running(network, tmp_path, command=PRETENDER):
        assert (tmp_path / "secret").read_bytes() == secret


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
def test_brokers_end_with_a_supervisor_that_was_killed(network: Network, tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(write_network(network), encoding="utf-8")
    program = (
        "import sys, time\nfrom pathlib import Path\n"
        "from latecomer.runtime.network_file import read_network\n"
        "from latecomer.runtime.supervisor import Supervisor\n"
        "folder = Path(sys.argv[1])\n"
        "it = Supervisor(read_network(folder / 'net.toml'), folder, command=sys.argv[2:])\n"
        "it.start()\n"
        "print(*(child.process.pid for child in it.children.values()), flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path), *PRETENDER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 3
        assert all(alive(pid) for pid in pids)
        parent.kill()
    until(lambda: not any(alive(pid) for pid in pids))


# -- the settings of a broker


def test_a_broker_knows_its_place(tmp_path: Path) -> None:
    network = placed(ring(3), 1883)
    network = Network(name="n", brokers=network.brokers, links=network.links, settings={"link": {"hold_s": 1.5}})
    told = settings_of(network, network.brokers[1], tmp_path, tmp_path / "secret")
    assert told["broker"] == {"id": "b2", "data": str(tmp_path / "data")}
    assert [listener["port"] for listener in told["listeners"]] == [1884, 4884]
    assert told["link"]["hold_s"] == 1.5
    assert told["link"]["port"] == 2884
    assert [(n["id"], n["port"]) for n in told["link"]["neighbours"]] == [("b1", 2883), ("b3", 2885)]
    assert told["admin"]["port"] == 3884


def test_settings_that_all_share_are_checked_before_anything_starts(tmp_path: Path) -> None:
    network = network_of(line(2), {"limits": {"conections": 5}})
    with pytest.raises(SettingsError, match=r"settings of b1:\d+: limits.conections: .*did you mean 'connections'"):
        Supervisor(network, tmp_path, command=PRETENDER).start()


# -- network.toml


def test_a_network_file_may_leave_ports_open(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(
        'base_port = 5000\n[[brokers]]\nid = "x"\n[[brokers]]\nid = "y"\nlink_port = 7777\n'
        '[[links]]\na = "x"\nb = "y"\ncost_us = 5\n[settings.limits]\nconnections = 7\n',
        encoding="utf-8",
    )
    network = read_network(file)
    assert [list(seat.ports().values()) for seat in network.brokers] == [
        [5000, 6000, 7000, 8000],
        [5001, 7777, 7001, 8001],
    ]
    assert [(other.id, cost_us) for other, cost_us in network.neighbours("x")] == [("y", 5)]
    assert network.settings == {"limits": {"connections": 7}}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[[brokers]]\nid = "x"\nprot = 1\n', r"network.toml:3: brokers.prot: .* did you mean 'port'"),
        ('[[brokers]]\nid = "../x"\n', r"brokers.id: '../x' must be letters"),
        ('[[brokers]]\nid = "x"\n[[brokers]]\nid = "y"\n', "links: network 'latecomer' is not connected"),
        ('[[brokers]]\nid = "x"\nport = 9\nlink_port = 9\n', "9 is port of x and link_port of x"),
        ('[[brokers]]\nid = "x"\n[[links]]\na = "x"\nb = "z"\n', "unknown broker 'z'"),
        ("brokers = []\n", "must be from 1 to 1000, not 0"),
        ("brokers = [\n", "not TOML"),
    ],
)
def test_what_is_wrong_with_a_network_file_is_told(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=complaint):
        read_network(file)


@pytest.mark.parametrize(
    ("shape", "links"), [("ring", 5), ("line", 4), ("star", 4), ("tree", 4), ("full", 10)]
)  # fmt: skip
def test_shapes(shape: str, links: int) -> None:
    topology = shaped(shape, 5)  # type: ignore[arg-type]
    topology.check()
    assert len(topology.links) == links
    for few in (1, 2):
        shaped(shape, few).check()  # type: ignore[arg-type]


def test_every_broker_of_the_written_network_has_readable_settings(tmp_path: Path) -> None:
    network = placed(shaped("full", 4))
    file = tmp_path / "network.toml"
    file.write_text(write_network(network), encoding="utf-8")
    assert read_network(file) == network
    for seat in network.brokers:
        text = toml(settings_of(network, seat, tmp_path, tmp_path / "secret"))
        told = settings.loads(text, "here", tmp_path, checked=False)  # the secret is not written yet
        assert told.broker.id == seat.id
        assert len(told.link.neighbours) == 3


# -- the command line


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["net.toml", "--brokers", "3"], "NETWORK.toml: says everything"),
        (["--topology", "x.jsonl", "--shape", "ring"], "--topology: says how many"),
        (["--name", "x"], "--name: needs --topology"),
        (["--brokers", "1001"], "--brokers: must be from 1 to 1000"),
        (["--base-port", "64000"], "--base-port: 64000 leaves no room"),
        (["nowhere.toml"], "nowhere.toml: No such file"),
        (["--topology", "nowhere.jsonl"], "nowhere.jsonl: No such file"),
    ],
)
def test_what_cannot_be_started(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ["up", *arguments]) == 2
    assert complaint in capsys.readouterr().err
