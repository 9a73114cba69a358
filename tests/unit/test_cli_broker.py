"""`latecomer broker`, `up` and `store` with folders, addresses and options that cannot work: one sentence each."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.cli.main import VERBS, run
from latecomer.cli.up import changes, overview
from latecomer.model.errors import SettingsError
from latecomer.model.topology_generators import line, ring
from latecomer.runtime.network_file import placed, with_stores, write_network
from latecomer.runtime.settings import Settings, loads
from latecomer.runtime.settings_check import different
from latecomer.runtime.supervisor import Supervisor, taken_port

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A folder of `latecomer up`."""
    (tmp_path / "network.toml").write_text(write_network(placed(ring(6))), encoding="utf-8")
    return tmp_path


def test_a_data_folder_that_is_a_file(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").touch()
    assert run(VERBS, ["broker", "--data", str(tmp_path / "file"), "--port", "0"]) == 2
    assert capsys.readouterr().err == f"latecomer: broker.data: '{tmp_path}/file' is a file; name a directory\n"


def test_a_broker_does_not_move_into_the_folder_of_a_network(network: Path, capsys: Capture) -> None:
    assert run(VERBS, ["broker", "--data", str(network), "--port", "0"]) == 2
    assert "is the folder of a network of 'latecomer up'; name another one" in capsys.readouterr().err
    assert run(VERBS, ["store", "verify", str(network)]) == 2
    assert f"name the data folder of one broker, as {network}/b1/data" in capsys.readouterr().err


def test_a_network_does_not_move_into_the_folder_of_a_broker(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "broker.db").touch()
    with pytest.raises(SettingsError, match="is the data folder of a single broker; name another one"):
        Supervisor(placed(line(2)), tmp_path).start()
    assert [path.name for path in tmp_path.iterdir()] == ["broker.db"], "nothing was begun there"
    assert run(VERBS, ["store", "status", str(tmp_path)]) == 2
    assert "has no store" in capsys.readouterr().err


def test_a_network_that_is_changed_is_told(network: Path) -> None:
    before = network / "network.toml"
    assert changes(before, placed(ring(6))) == ""
    assert changes(before, placed(ring(6), 7000)) == "", "other ports are no other network"
    assert changes(before, placed(line(6))).endswith("from 6 brokers and 6 links to 6 brokers and 5 links")
    assert changes(before, placed(ring(4))).endswith("and 4 links; what b5 b6 kept stays in the folder")
    assert changes(network / "nothing", placed(ring(4))) == ""


def test_the_table_of_a_network_on_eighty_columns(capsys: Capture) -> None:
    from rich.console import Console

    chosen = with_stores(placed(ring(6)), ["b2=sensors/#"], {})
    Console(width=80, highlight=False).print(overview(chosen))
    assert "sensors/#" in capsys.readouterr().out


def test_an_address_that_is_elsewhere() -> None:
    with pytest.raises(SettingsError, match=r"--host: 192\.0\.2\.1 is not an address of this machine"):
        taken_port(placed(line(1), 7000, "192.0.2.1"))


def test_amounts_without_a_store_are_not_ignored_in_silence(capsys: Capture) -> None:
    assert run(VERBS, ["broker", "--keep", "7d", "--check"]) == 0
    assert "this broker keeps no topics" in capsys.readouterr().err
    assert run(VERBS, ["broker", "--keep", "7d", "--store", "a/#", "--check"]) == 0
    assert capsys.readouterr().err == ""


def test_which_settings_differ() -> None:
    other = loads("[limits]\nsessions = 5\n[[listeners]]\nport = 7\n[core]\nsettle_us = 1\n")
    assert different(Settings(), other) == ["listeners", "limits.sessions", "core"]
    assert different(other, other) == []
