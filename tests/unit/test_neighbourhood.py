"""Neighbours that operators add and take away: what is kept beside the data, and which of two words counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.runtime.neighbourhood import FILE, Neighbourhood
from latecomer.runtime.settings import Neighbour, Settings, loads

LINK = '[[link.neighbours]]\nid = "b2"\nhost = "127.0.0.1"\n'


def settings(folder: Path, more: str = LINK, secret: str = 'secret = "a secret of some length"') -> Settings:
    return loads(f'[broker]\nid = "b1"\ndata = "{folder}"\n[link]\n{secret}\n{more}')


def test_what_is_added_survives_a_restart(tmp_path: Path) -> None:
    found = Neighbourhood(settings(tmp_path))
    found.add(Neighbour(id="b3", host="127.0.0.1", port=7, cost_us=5), "secret")
    again = Neighbourhood(settings(tmp_path))
    assert again.costs() == {"b2": 1000, "b3": 5}
    again.remove("b3")
    assert not (tmp_path / FILE).exists()
    assert Neighbourhood(settings(tmp_path)).costs() == {"b2": 1000}


def test_who_is_taken_away_stays_away_though_the_settings_name_it(tmp_path: Path) -> None:
    found = Neighbourhood(settings(tmp_path))
    found.remove("b2")
    assert Neighbourhood(settings(tmp_path)).costs() == {}
    assert Neighbourhood(settings(tmp_path, "")).changes.removed == (), "until they no longer do"
    assert Neighbourhood(settings(tmp_path)).costs() == {"b2": 1000}


def test_the_settings_win_over_what_was_added(tmp_path: Path) -> None:
    Neighbourhood(settings(tmp_path, "")).add(Neighbour(id="b2", host="127.0.0.1", port=9), "secret")
    found = Neighbourhood(settings(tmp_path))
    assert found.all()["b2"].port == 1884
    assert not (tmp_path / FILE).exists()
    with pytest.raises(SettingsError, match=r"link\.neighbours: b2 stands there otherwise"):
        found.add(Neighbour(id="b2", host="127.0.0.1", port=9), "secret")
    found.remove("b2")
    found.add(Neighbour(id="b2", host="127.0.0.1"), "secret")
    assert found.costs() == {"b2": 1000}


def test_what_cannot_work_is_refused_with_its_key(tmp_path: Path) -> None:
    found = Neighbourhood(settings(tmp_path))
    with pytest.raises(SettingsError, match="id: 'b1' is this broker itself"):
        found.add(Neighbour(id="b1"), "secret")
    with pytest.raises(SettingsError, match="id: must be printable"):
        found.add(Neighbour(id="b\n"), "secret")
    with pytest.raises(SettingsError, match=r"link\.secret_file: is missing"):
        found.add(Neighbour(id="b3"), "none")
    with pytest.raises(LatecomerError, match="'b3' is no neighbour of b1"):
        found.remove("b3")
    open_to_all = Neighbourhood(settings(tmp_path, "", "insecure = true"))
    with pytest.raises(SettingsError, match=r"host: '192\.0\.2\.1' is not a loopback address"):
        open_to_all.add(Neighbour(id="b3", host="192.0.2.1"), "none")
    open_to_all.add(Neighbour(id="b3", host="127.0.0.1"), "none")


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"neighbours\.json' cannot be read"):
        Neighbourhood(settings(tmp_path))


def test_a_disk_without_room_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    found = Neighbourhood(settings(tmp_path))
    monkeypatch.setattr("latecomer.runtime.neighbourhood.write_bytes", full)
    with pytest.raises(LatecomerError, match="no space left on device; make room"):
        found.add(Neighbour(id="b3", host="127.0.0.1"), "secret")
    assert found.costs() == {"b2": 1000}
