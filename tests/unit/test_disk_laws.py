"""The disk follows the simulated one: any writes, in any batches, with any number of openings in between."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from latecomer.core.effects import Drop, Put, Trim
from latecomer.runtime.disk import Disk, Durability
from latecomer.runtime.disk_rows import Batch
from latecomer.sim.disk import Disk as SimDisk

TYPES = {"a": int | str, "b": int | str}
tables = st.sampled_from(sorted(TYPES))
groups = st.sampled_from(["", "g", "g\0", "ü"])
numbers = st.integers(-3, 6) | st.sampled_from([2**63 - 1, -(2**63) + 1])
keys = numbers | st.sampled_from(["", "1", "x", "ü"])
writes = (
    st.builds(Put, tables, groups, keys, st.integers(-9, 9) | st.text(max_size=3))
    | st.builds(Drop, tables, groups, keys)
    | st.builds(Trim, tables, groups, numbers)
)


class DiskMachine(RuleBasedStateMachine):
    @initialize(durability=st.sampled_from([Durability.POWER, Durability.PROCESS]))
    def begin(self, durability: Durability) -> None:
        self.folder = TemporaryDirectory()
        self.durability = durability
        self.model = SimDisk()
        self.disk: Disk | None = self._open()

    def _open(self) -> Disk:
        return Disk.open(Path(self.folder.name) / "data", TYPES, self.durability)

    @precondition(lambda self: self.disk is not None)
    @rule(batch=st.lists(writes, max_size=8), wait=st.booleans())
    def write(self, batch: list[Put | Drop | Trim], wait: bool) -> None:
        assert self.disk is not None
        future = self.disk.write(batch)
        self.model.apply(batch)
        if wait:
            future.result()

    @precondition(lambda self: self.disk is not None)
    @rule()
    def reopen(self) -> None:
        assert self.disk is not None
        boot = self.disk.boot
        self.disk.close()
        self.disk = self._open()
        assert self.disk.boot > boot
        assert self.disk.problems == []
        assert self.disk.take() == {name: table for name, table in self.model.tables.items() if table}

    def teardown(self) -> None:
        if getattr(self, "disk", None) is not None:
            self.reopen()
            assert self.disk is not None
            self.disk.close()
            self.folder.cleanup()


TestDisk = DiskMachine.TestCase
TestDisk.settings = settings(max_examples=25, stateful_step_count=12)


def test_a_batch_forgets_what_was_overtaken() -> None:
    batch = Batch()
    batch.add([Put("a", "", 1, 1), Put("a", "", 2, 1), Put("a", "", 3, 1)], [b"\x01"] * 3)
    batch.add([Trim("a", "", 2), Drop("a", "", 2), Put("a", "", 3, 2)], [None, None, b"\x02"])
    ((statement, cells),) = batch.statements()
    assert statement.count("(?,") == 4
    assert cells[:12] == ["a", "", -(2**63), 1, None, None, "a", "", 2, 2, None, None]
    assert cells[12:17] == ["a", "", 3, None, b"\x02"]
    assert cells[18:] == [None] * 6
