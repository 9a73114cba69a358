"""The movement model of a broker: loaded by an operator while it runs, or read from the file in its settings.

A model that was loaded is kept in the data folder. It takes the place of `hand_over.model`, after a restart as well,
until it is removed.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Literal

import msgspec

from latecomer.core.mobility.guessing import Guessing
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.movement import Movement, read_movement
from latecomer.runtime.private_files import write_bytes

log = logging.getLogger("latecomer")

FILE = "movement-model"
MODEL_MAX = 64 * 2**20
"""Bytes of a model that is loaded."""


class ModelView(msgspec.Struct, frozen=True):
    """Which movement model is in force."""

    broker: str
    source: Literal["", "loaded", "settings"] = ""
    """Empty: there is none, and clients are predicted by where they were before."""
    places: int = 0
    clients: int = 0
    contexts: int = 0


def load_model(path: Path) -> Movement:
    """The model in a file that `latecomer movement --model` wrote."""
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = f"{path} cannot be read: {(error.strerror or str(error)).lower()}"
        raise SettingsError("hand_over.model", problem) from None
    return read_movement(data, str(path))


class Predicting:
    """Keeps the model of a running broker as an operator or its file says."""

    def __init__(self, path: Path | None, data: Path, guessing: Guessing) -> None:
        self.path = path
        self.kept = data / FILE
        self.guessing = guessing
        self.loaded = False
        """An operator's model is in force."""
        self._stamp: tuple[int, int] | None = None

    def start(self) -> None:
        """Find the model that was in force; one that cannot be used is no reason not to start."""
        if self.kept.exists():
            try:
                self._put(load_model(self.kept), loaded=True)
                return
            except LatecomerError as error:
                log.error("%s; load it again with: latecomer movement-model load FILE", error)
        self.look()

    def look(self) -> None:
        """Read the file of the settings if it has changed; one that cannot be used leaves the model in force that
        was."""
        if self.path is None or self.loaded:
            return
        try:
            found = self.path.stat()
        except OSError:
            found = None
        stamp = None if found is None else (found.st_mtime_ns, found.st_size)
        if stamp is None or stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._put(load_model(self.path), loaded=False)
        except LatecomerError as error:
            log.error("%s; the movement model that was in force stays in force", error)

    async def load(self, data: bytes) -> None:
        """Use a model from now on. Large ones take seconds to check and to write, so that is done beside the loop."""
        movement = await asyncio.to_thread(read_movement, data, "FILE")
        try:
            await asyncio.to_thread(write_bytes, self.kept, data)
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            raise LatecomerError(f"{str(self.kept)!r} cannot be written: {problem}; make room and try again") from None
        self._put(movement, loaded=True)

    def remove(self) -> bool:
        """Go back to the model of the settings, or to none; False: none was loaded."""
        if not self.loaded:
            return False
        self.kept.unlink(missing_ok=True)
        self.loaded, self._stamp, self.guessing.movement = False, None, None
        log.info("the movement model that an operator had loaded is removed")
        self.look()
        return True

    def view(self, broker: str) -> ModelView:
        movement = self.guessing.movement
        if movement is None:
            return ModelView(broker)
        source: Literal["loaded", "settings"] = "loaded" if self.loaded else "settings"
        return ModelView(broker, source, len(movement.places), len(movement.clients), movement.contexts())

    def _put(self, movement: Movement, *, loaded: bool) -> None:
        self.guessing.movement, self.loaded = movement, loaded
        where = "that an operator has loaded" if loaded else f"in {self.path}"
        log.info("the movement model %s is in force: it knows %d places", where, len(movement.places))
