"""What `latecomer demo` and `latecomer traffic` show; the whole loop is in tests/pipeline/test_loop.py."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from latecomer.cli.demo import print_next
from latecomer.cli.demo_progress import Act
from latecomer.cli.demo_traffic import Broken, Tally
from latecomer.cli.main import VERBS, run
from latecomer.cli.traffic import check

Capture = pytest.CaptureFixture[str]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_clock_of_an_act_runs_also_after_a_full_bar() -> None:
    clock = Clock()
    bar = Progress(console=Console(file=StringIO()), get_time=clock)
    act = Act(bar)
    act("latecomers ask", 300, 300)
    clock.now = 10.0
    act("starting Spark", 0, 0)
    clock.now = 35.0
    (task,) = bar.tasks
    assert (task.description, task.finished, task.total) == ("starting Spark", False, None)
    assert task.elapsed == 25.0
    act("publishing", 1, 4)
    act("publishing", 2, 4)
    (task,) = bar.tasks
    assert (task.completed, task.total) == (2, 4)


@pytest.mark.parametrize("keep", [None, Path("some folder")])
def test_it_ends_with_three_commands_that_can_be_typed(keep: Path | None) -> None:
    said = StringIO()
    print_next(Console(file=said, width=200), keep)
    lines = said.getvalue().splitlines()
    assert sum(line.startswith("  latecomer ") for line in lines) == 3
    if keep is not None:
        assert "some folder" in lines[0]
        assert lines[0].endswith("report.html.")
        assert "'some folder'" in lines[-1], "a space needs quotes"


def test_a_folder_that_is_in_use_is_not_kept_in(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "something").touch()
    assert run(VERBS, ["demo", "--keep", str(tmp_path)]) == 2
    assert "is not an empty folder; name a new one" in capsys.readouterr().err


def test_traffic_needs_the_folder_of_a_network(tmp_path: Path, capsys: Capture) -> None:
    assert run(VERBS, ["traffic", "--network", str(tmp_path)]) == 2
    assert "is not the data folder of 'latecomer up'" in capsys.readouterr().err


def test_what_latecomers_lack_is_an_error() -> None:
    tally = Tally()
    tally.add([0, 1, 2], 3, 1)
    check(tally)
    tally.add([0, 2], 3, 1)
    with pytest.raises(Broken, match="of 5 events that latecomers asked for: 1 lost, 0 repeated, 0 out of order"):
        check(tally)
