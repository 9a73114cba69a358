"""How every verb prints its result with `--json`."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import Any

import msgspec


def as_json(value: Any) -> str:
    """Indented JSON with a line end; a path is written as text."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=_text)).decode() + "\n"


def print_json(value: Any) -> None:
    """Write it to standard output."""
    sys.stdout.write(as_json(value))


def _text(value: Any) -> str:
    if isinstance(value, PurePath):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no form in JSON")
