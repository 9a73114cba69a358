"""What all tests share: how hypothesis searches, what a machine may lack, which tests are long, and who runs what."""

from __future__ import annotations

import os
import shutil
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.schedule import EVERYTHING as EVERYTHING  # tests take it from here
from tests.schedule import ByGroup, fewer_examples, longest_first

# A shell starts what runs in the background with SIGINT ignored, and whoever is started from there inherits that. The
# tests are the terminal of what they start: Ctrl-C must reach it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start hundreds of processes. Where Python may not keep what it compiled, each of them compiles the package anew,
# which takes half of its start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A busy machine is not a failing test: no deadline, no complaint about slow draws.
settings.register_profile("here", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
# The same examples in every run: a change is judged by what it changed, not by luck.
settings.register_profile("everything", settings.get_profile("here"), derandomize=True)
settings.load_profile("everything" if EVERYTHING or os.environ.get("CI") else "here")


@pytest.hookimpl(trylast=True)  # after pytest has put together what shares a fixture
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    longest_first(items)
    if not EVERYTHING:
        fewer_examples(items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByGroup | None:
    return ByGroup(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not EVERYTHING and item.get_closest_marker("long"):
        pytest.skip("long: runs with LATECOMER_TEST_ALL=1")
    for marker in item.iter_markers("needs"):
        for program in marker.args:
            if shutil.which(program) is None:
                (pytest.fail if EVERYTHING else pytest.skip)(f"needs the program {program}")
