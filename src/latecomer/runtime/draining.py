"""That an operator empties this broker is remembered in the data folder, so that a restart does not end it."""

from __future__ import annotations

import logging
from pathlib import Path

from latecomer.model.errors import LatecomerError
from latecomer.runtime.private_files import write_text

FILE = "draining"
TEXT = "New clients are refused while this file is here; 'latecomer drain BROKER --abort' removes it.\n"

log = logging.getLogger("latecomer")


def was_draining(data: Path) -> bool:
    """Whether the broker was being drained when it stopped."""
    draining = (data / FILE).exists()
    if draining:
        log.info("new clients are refused: this broker was being drained when it stopped")
    return draining


def remember_draining(data: Path, on: bool) -> None:
    """Write it down, or strike it out."""
    file = data / FILE
    try:
        if on:
            write_text(file, TEXT)
        else:
            file.unlink(missing_ok=True)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise LatecomerError(f"{str(file)!r} cannot be written: {problem}; make room and try again") from None
