"""The movement model of a running broker: read, read again, and kept when its file is spoilt."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from latecomer.model.errors import SettingsError
from latecomer.model.movement import BUCKETS, Movement, write_movement
from latecomer.runtime.predicting import ModelView, Predicting, load_model
from latecomer.runtime.settings import loads


def model(*places: str) -> bytes:
    return write_movement(Movement(places, 24, (7,), ((1,) * BUCKETS,), False, {}, {}))


def places(guessing: Any) -> tuple[str, ...] | None:
    return None if guessing.movement is None else guessing.movement.places


def test_a_model_is_read_and_read_again_when_its_file_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "clients.movement"
    guessing = cast(Any, SimpleNamespace(movement=None))
    predicting = Predicting(path, tmp_path, guessing)
    predicting.look()
    assert places(guessing) is None, "there is no such file yet"
    path.write_bytes(model("b1", "b2"))
    predicting.look()
    assert places(guessing) == ("b1", "b2")
    path.write_bytes(b"spoilt")
    predicting.look()
    assert places(guessing) == ("b1", "b2"), "what was in force stays in force"
    assert "stays in force" in caplog.text
    path.write_bytes(model("b3"))
    os.utime(path, ns=(1, 1))
    predicting.look()
    assert places(guessing) == ("b3",)


def test_without_a_model_nothing_is_looked_for(tmp_path: Path) -> None:
    guessing = cast(Any, SimpleNamespace(movement=None))
    predicting = Predicting(None, tmp_path, guessing)
    predicting.start()
    assert guessing.movement is None
    assert predicting.view("b1") == ModelView("b1")
    assert not predicting.remove()


def test_a_model_that_is_loaded_goes_before_the_settings_until_it_is_removed(tmp_path: Path) -> None:
    path, data = tmp_path / "clients.movement", tmp_path / "data"
    data.mkdir()
    path.write_bytes(model("b1", "b2"))
    guessing = cast(Any, SimpleNamespace(movement=None))
    predicting = Predicting(path, data, guessing)
    predicting.start()
    assert predicting.view("b1") == ModelView("b1", "settings", 2)
    with pytest.raises(SettingsError, match="is no movement model"):
        asyncio.run(predicting.load(b"spoilt"))
    assert places(guessing) == ("b1", "b2"), "what was in force stays in force"
    asyncio.run(predicting.load(model("b1", "b2", "b3")))
    assert predicting.view("b1") == ModelView("b1", "loaded", 3)
    path.write_bytes(model("b7"))
    predicting.look()
    assert places(guessing) == ("b1", "b2", "b3")
    restarted = Predicting(path, data, guessing)
    guessing.movement = None
    restarted.start()
    assert restarted.view("b1") == ModelView("b1", "loaded", 3)
    assert restarted.remove()
    assert places(guessing) == ("b7",)
    assert list(data.iterdir()) == []


def test_a_loaded_model_that_is_spoilt_is_no_reason_not_to_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "movement-model").write_bytes(b"spoilt")
    guessing = cast(Any, SimpleNamespace(movement=None))
    Predicting(None, tmp_path, guessing).start()
    assert guessing.movement is None
    assert "latecomer movement-model load FILE" in caplog.text


@pytest.mark.parametrize("content", [None, b"spoilt"])
def test_settings_with_a_model_that_cannot_be_used_are_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "clients.movement"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError):
        load_model(path)
    with pytest.raises(SettingsError):
        loads(f'[hand_over]\nmodel = "{path}"\n')
