"""Libraries that only some verbs need, and a sentence where they are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from latecomer.cli.compiled import find_cache
from latecomer.model.errors import SettingsError

PLAN = ("highspy", "matplotlib", "numba", "numpy", "scipy")
SPARK = (*PLAN, "google", "grpc", "grpc_status", "pandas", "py4j", "pyspark", "zstandard")
HOW = "run in the folder of the sources:"
EXTRAS = {"plan": PLAN, "spark": SPARK}
"""By the names under which they are imported. Who has Spark has what plans need, too."""


@contextmanager
def needed(extra: Literal["plan", "spark"]) -> Iterator[None]:
    """For imports that work only where this extra is installed."""
    find_cache()
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRAS[extra]:
            raise
        raise SettingsError("", f"{name} is missing; {HOW} pip install -e '.[{extra}]'") from None
