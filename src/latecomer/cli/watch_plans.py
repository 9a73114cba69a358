"""The plans that `latecomer watch` knows: the one that it was given, and those that it has proposed.

A proposal is a file of its own, `proposal-1.json`, `proposal-2.json` …, and is never changed or removed: somebody may
be applying it, and `latecomer verify` needs it as it was. `latecomer apply` writes beside a plan when it was applied;
the plan that was applied last is the one in force.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from latecomer.cli.apply import applied_file, read_applied
from latecomer.cli.plan_files import read_plan_file, write_text
from latecomer.model.errors import LatecomerError
from latecomer.model.plan import Plan, write_plan
from latecomer.model.when import format_when

NAME = re.compile(r"proposal-(\d+)\.json")


class InForce(msgspec.Struct, frozen=True):
    """The plan that a network is at, as far as files say."""

    file: Path
    plan: Plan
    since_us: int = 0
    """When it was applied to its end; 0: nothing says that it was."""
    coming: Path | None = None
    """A plan that is being applied, or whose application was interrupted."""

    def sentence(self) -> str:
        when = f", applied {format_when(self.since_us)[:19]} UTC" if self.since_us else ""
        told = f"The plan in force is {self.file}{when}."
        return told if self.coming is None else f"{told} {self.coming} is being applied."


class Plans(msgspec.Struct, frozen=True):
    """Where they are."""

    given: Path
    """The file of --plan."""
    folder: Path
    """Where proposals are written."""

    def proposals(self) -> list[tuple[int, Path]]:
        """By number."""
        names = [(path.name, path) for path in self.folder.glob("proposal-*.json")]
        return sorted((int(found[1]), path) for name, path in names if (found := NAME.fullmatch(name)))

    def propose(self, plan: Plan) -> Path:
        """Write a proposal under a name that none had before."""
        number = max((number for number, _ in self.proposals()), default=0) + 1
        file = self.folder / f"proposal-{number}.json"
        write_text(file, "--state", write_plan(plan))
        return file

    def in_force(self) -> InForce:
        """The one that was applied, or given, last; a LatecomerError if the one that was given cannot be read."""
        found = [InForce(self.given, read_plan_file(self.given), 0)]
        order = [_changed_us(self.given)]
        coming = None
        for file, plan, ended_us in self._applied(found[0].plan):
            if not ended_us:
                coming = file
                continue
            found.append(InForce(file, plan, ended_us))
            order.append(ended_us)
        newest = max(range(len(found)), key=lambda at: (order[at], found[at].since_us))
        return msgspec.structs.replace(found[newest], coming=coming)

    def _applied(self, given: Plan) -> Iterator[tuple[Path, Plan, int]]:
        """Plans with a record of `latecomer apply` beside them, and when that had ended."""
        plans = [(self.given, given)]
        for _, file in self.proposals():
            if applied_file(file).exists():
                with suppress(LatecomerError):  # not a plan: somebody else's file
                    plans.append((file, read_plan_file(file)))
        for file, plan in plans:
            with suppress(LatecomerError):  # a record that is just being written, or is of another plan
                record = read_applied(file, plan)
                if record is not None:
                    yield file, plan, record.ended_us

    def stamp(self) -> tuple[tuple[str, int], ...]:
        """Changes when one of the files does."""
        files = [self.given, applied_file(self.given), *self.folder.glob("proposal-*.json")]
        return tuple(sorted((str(file), _changed_us(file)) for file in files))


def _changed_us(file: Path) -> int:
    try:
        return os.stat(file).st_mtime_ns // 1000
    except OSError:
        return 0
