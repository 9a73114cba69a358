"""Verbs that need more than a broker does say what to install."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from latecomer.cli.extras import EXTRAS, needed
from latecomer.model.errors import SettingsError

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.mark.parametrize(
    ("extra", "module", "sentence"),
    [
        (
            "plan",
            "numpy",
            "numpy is missing; run in the folder of the sources: pip install -e '.[plan]'",
        ),
        (
            "plan",
            "scipy.stats",
            "scipy is missing; run in the folder of the sources: pip install -e '.[plan]'",
        ),
        (
            "spark",
            "pyspark.sql",
            "pyspark is missing; run in the folder of the sources: pip install -e '.[spark]'",
        ),
        (
            "spark",
            "matplotlib",
            "matplotlib is missing; run in the folder of the sources: pip install -e '.[spark]'",
        ),
    ],
)
def test_what_is_not_installed_is_named(extra: str, module: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(sentence)), needed(extra):  # type: ignore[arg-type]
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)


@pytest.mark.parametrize("module", ["pyspark", "latecomer.nowhere", None])
def test_what_no_extra_would_bring_is_not_hidden(module: str | None) -> None:
    with pytest.raises(ModuleNotFoundError), needed("plan"):
        raise ModuleNotFoundError("No such module", name=module)


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_every_library_of_an_extra_is_known(extra: str) -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    libraries = {re.split(r"[^\w-]", line)[0] for line in project["optional-dependencies"][extra]} - {"latecomer"}
    modules = packages_distributions()
    assert libraries <= {library for name in EXTRAS[extra] for library in modules[name]}
