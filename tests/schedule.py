"""How the tests are divided among the worker processes of pytest-xdist, and in which order they run.

A file is not divided, since what its tests share is set up once, unless they share nothing and take long. Files that
share something expensive stay together on one worker: all that use Spark have one Java process, all that plan compile
the planner's loops once, and other workers find these in numba's cache. What takes longest begins first, so that no
worker is left alone with it at the end.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

EVERYTHING = os.environ.get("LATECOMER_TEST_ALL", "") not in ("", "0")
"""Long tests run too, and hypothesis tries as many examples as each test says."""
EXAMPLES_PART, EXAMPLES_LEAST = 4, 20
"""Otherwise it tries a quarter of them, or twenty."""

GROUPS = {
    "spark": ("tests/pipeline/",),
    "planner": ("tests/planner/", "tests/claims/"),
    "networks": ("tests/network/test_delivery.py", "tests/network/test_memory.py"),
}
"""Folders and files that stay together, by what they share."""

DIVIDED = (
    "tests/simulation/test_seeds.py",
    "tests/simulation/test_mqtt_seeds.py",
    "tests/simulation/test_history_seeds.py",
    "tests/simulation/test_wander_seeds.py",
    "tests/simulation/test_mutants.py",
    "tests/simulation/test_mqtt_mutants.py",
    "tests/simulation/test_history_mutants.py",
    "tests/simulation/test_wander_mutants.py",
    "tests/simulation/test_found_seeds.py",
    "tests/simulation/test_engine_lives.py",
    "tests/simulation/test_topology_zoo.py",
)
"""Files whose tests share nothing: they are handed out one by one."""

LONGEST = (
    "spark",
    "planner",
    "networks",
    "tests/network/test_history.py",
    "tests/network/test_kill.py",
    "tests/network/test_wander_faults.py",
    "tests/network/test_apply.py",
    "tests/network/test_up.py",
    "tests/interop/test_libraries.py",
    "tests/interop/test_moves.py",
    "tests/properties/test_session.py",
    "tests/properties/test_seam.py",
    "tests/network/test_operate_guide.py",
    "tests/network/test_sessions.py",
    "tests/network/test_home_broker.py",
    "tests/network/test_commuters.py",
    "tests/network/test_wander.py",
    "tests/abuse/test_history_links.py",
    "tests/abuse/test_files.py",
    "tests/abuse/test_history.py",
    "tests/abuse/test_slow.py",
    "tests/unit/test_journal.py",
    "tests/unit/test_cli_simulate.py",
    "tests/unit/test_disk_kill.py",
)
"""Groups and files in the order in which they begin; all others follow in the order in which they were found, among
them the files that are divided: short pieces at the end keep all workers busy."""


def together(nodeid: str) -> str:
    """The file of a test, or the files that stay together of which it is one."""
    file = nodeid.partition("::")[0]
    return next((name for name, places in GROUPS.items() if file.startswith(places)), file)


def group(nodeid: str) -> str:
    """What a test is handed out with."""
    found = together(nodeid)
    return nodeid if found in DIVIDED else found


def longest_first(items: list[pytest.Item]) -> None:
    """Sort by when their group begins; within a group everything stays as it was."""
    begin = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: begin.get(together(item.nodeid), len(begin)))


def fewer_examples(items: list[pytest.Item]) -> None:
    """Let hypothesis try fewer examples than the tests say; they are others in every run."""
    seen = set()
    for item in items:
        function = getattr(item, "function", None)
        for owner, name in ((function, "_hypothesis_internal_use_settings"), (getattr(item, "cls", None), "settings")):
            said = getattr(owner, name, None)
            if isinstance(said, settings) and (id(owner), name) not in seen:
                seen.add((id(owner), name))
                fewer = max(said.max_examples // EXAMPLES_PART, EXAMPLES_LEAST)
                setattr(owner, name, settings(said, max_examples=min(said.max_examples, fewer)))


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out a group at a time, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
