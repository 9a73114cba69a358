"""How the tests are divided among the worker processes of pytest-xdist, and in which order they run.

A file is not divided: what its tests share is set up once. Files that share something expensive stay together on one
worker: all that use Spark have one Java process, all that plan compile the planner's loops once, and other workers
find these in numba's cache. What takes longest begins first, so that no worker is left alone with it at the end.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

GROUPS = {
    "spark": ("tests/pipeline/",),
    "planner": ("tests/planner/", "tests/claims/"),
    "networks": ("tests/network/test_delivery.py", "tests/network/test_memory.py"),
}
"""Folders and files that stay together, by what they share."""

LONGEST = (
    "spark",
    "planner",
)
"""Groups and files in the order in which they begin; all others follow in the order in which they were found."""


def group(nodeid: str) -> str:
    """What a test is handed out with."""
    file = nodeid.partition("::")[0]
    return next((name for name, places in GROUPS.items() if file.startswith(places)), file)


def longest_first(items: list[pytest.Item]) -> None:
    """Sort by when their group begins; within a group everything stays as it was."""
    begin = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: begin.get(group(item.nodeid), len(begin)))


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out a group at a time, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
