"""Whether atheris is here, and whether it could be."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys

import pytest


def need_atheris() -> None:
    """Skip where atheris is missing; fail instead if everything shall be tested and this platform has it."""
    if importlib.util.find_spec("atheris") is not None:
        return
    everything = os.environ.get("LATECOMER_TEST_ALL", "") not in ("", "0")
    if everything and atheris_exists_for_this_platform():
        pytest.fail("needs atheris, which this platform has: make setup")
    pytest.skip("needs atheris")


def atheris_exists_for_this_platform() -> bool:
    """The marker of the dependency in pyproject.toml, as a question."""
    return (
        sys.platform == "linux"
        and platform.machine() == "x86_64"
        and sys.implementation.name == "cpython"
        and sys.version_info < (3, 14)
    )
