"""Where the compiled planner is kept, also for users who can write nearly nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from latecomer.cli import compiled
from latecomer.cli.compiled import VARIABLE, compiled_before, find_cache

Patch = pytest.MonkeyPatch


@pytest.fixture
def places(tmp_path: Path, monkeypatch: Patch) -> Path:
    """`planner`, `home` and `tmp` below this folder; numba has been told nothing."""
    for name in ("planner", "home", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path


def closed(monkeypatch: Patch, *folders: Path) -> None:
    """Nothing below these can be written; root, who runs tests in containers, could."""
    real = compiled._writable
    monkeypatch.setattr(
        compiled, "_writable", lambda folder: not any(map(folder.is_relative_to, folders)) and real(folder)
    )


def test_beside_the_package_where_that_can_be_written(places: Path) -> None:
    find_cache(places / "planner")
    assert os.environ[VARIABLE] == ""


def test_what_the_user_says_stays(places: Path, monkeypatch: Patch) -> None:
    closed(monkeypatch, places)
    monkeypatch.setenv(VARIABLE, "/somewhere")
    find_cache(places / "planner")
    assert os.environ[VARIABLE] == "/somewhere"


def test_in_the_home_directory_else(places: Path, monkeypatch: Patch) -> None:
    closed(monkeypatch, places / "planner")
    find_cache(places / "planner")
    assert os.environ[VARIABLE] == str(places / "home" / "latecomer" / "compiled")


def test_in_a_temporary_folder_of_this_user_without_a_home(places: Path, monkeypatch: Patch) -> None:
    closed(monkeypatch, places / "planner", places / "home")
    find_cache(places / "planner")
    found = Path(os.environ[VARIABLE])
    assert found == places / "tmp" / f"latecomer-compiled-{os.getuid()}"
    assert found.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_to_is_not_used(places: Path, monkeypatch: Patch) -> None:
    """What is in it would be run."""
    closed(monkeypatch, places / "planner", places / "home")
    planted = places / "tmp" / f"latecomer-compiled-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    find_cache(places / "planner")
    found = Path(os.environ[VARIABLE])
    assert found.parent == planted.parent
    assert found != planted
    assert found.stat().st_mode & 0o777 == 0o700


def test_compiling_is_announced_only_where_it_will_be_done(places: Path) -> None:
    planner = places / "planner"
    source, cache = planner / "some_kernels.py", planner / "__pycache__"
    source.touch()
    os.utime(source, (100, 100))
    assert not compiled_before(planner)
    cache.mkdir()
    (cache / "some_kernels.kernel-1.nbi").touch()
    assert compiled_before(planner)
    source.touch()
    os.utime(cache / "some_kernels.kernel-1.nbi", (200, 200))
    assert not compiled_before(planner), "the source is newer"
