"""1,200 brokers, 1,200 cells, 40,000 users, 3 million check-ins: made up and turned into changes on Spark, then played.

    python -m bench.location --out DIR [--quick] [--checkins TABLE]

`--checkins` takes a table of real check-ins (`latecomer checkins … --box paper --out`) instead of made-up ones.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.frame import conditions
from latecomer.experiments.charts import Chart, Curve, Panel, draw
from latecomer.experiments.dynatops.location.ground import Ground
from latecomer.experiments.dynatops.location.located import (
    BOTH,
    BS,
    ON_CHORD,
    OTHERS,
    Located,
    Stage,
    measured,
)
from latecomer.experiments.dynatops.location.spread import spread_calibration
from latecomer.experiments.dynatops.location.visits import read_workload
from latecomer.experiments.grid import Measures
from latecomer.experiments.statistics import Estimate
from latecomer.pipeline.calibration import built_in
from latecomer.pipeline.location_job import Made, Order, location_model
from latecomer.pipeline.session import SparkSettings, session
from latecomer.pipeline.stages.location_changes import Cells
from latecomer.pipeline.synth_job import synthesize

FULL = Located(
    users=40_000, months=3, checkins=3_000_000, free_h=1104, every_h=49, systems=(*OTHERS, *ON_CHORD, BS), sizes=(10,)
)
"""T_free is half of the time: one reconfiguration of 1,200 brokers."""
QUICK = msgspec.structs.replace(
    FULL, rows=10, columns=30, south=28.0, degrees=2.0, side=16, branches=(2, 2, 2, 2), users=1_000, months=1,
    checkins=25_000, free_h=336,
)  # fmt: skip
MOVED = (BOTH,)
SHOWN = ("management", "hand_overs", "load_spread", "topics", "delay", "overhead", "internal", "external", "climb",
         "reconfigurations", "movers")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.location", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where tables, figure and numbers go")
    parser.add_argument("--checkins", type=Path, help="a table of real check-ins instead of made-up ones")
    parser.add_argument("--quick", action="store_true", help="a small ground and few people: to see whether it runs")
    parser.add_argument("--memory", default="2g", help="of Spark")
    options = parser.parse_args()
    setting = QUICK if options.quick else FULL
    took: dict[str, float] = {}
    print(conditions())
    made, spark_mb = _tables(setting, options.out, options.checkins, options.memory, took)
    print(f"{made.users:,} users, {made.visits:,} visits, {made.checkins:,} check-ins")
    with _timed(took, "read"):
        workload = read_workload(made.changes, made.published, setting.ground.cells)
    found: Measures = {}
    stage = Stage(setting, 0, workload)
    for system in (*setting.systems, *MOVED):
        with _timed(took, system):
            sizes = setting.sizes[:1] if system in MOVED else setting.sizes
            found |= measured(stage, (system,), sizes)
        _note(options.out, took, found)
    with _timed(took, "figure"):
        draw(_chart(found), options.out)
    own_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    _note(options.out, took, found, own_mb=own_mb, spark_mb=spark_mb)
    for line in _table(found):
        print(line)
    print(f"{sum(took.values()) / 60:.1f} minutes in all; {own_mb:,.0f} MB here, {spark_mb:,.0f} MB of Spark")
    return 0


def _note(out: Path, took: dict[str, float], found: Measures, **more: float) -> None:
    """Write down what there is; a run that is cut short has not been for nothing."""
    numbers = {"seconds": took, **more, "measures": found}
    (out / "location.json").write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


def _tables(setting: Located, out: Path, real: Path | None, memory: str, took: dict[str, float]) -> tuple[Made, float]:
    """Check-ins made up, cells, visits, friends and changes: on Spark."""
    ground: Ground = setting.ground
    cells = Cells(ground.rows, ground.columns, ground.south, ground.west, ground.height, ground.width)
    with _timed(took, "Spark starts"):
        context = session(SparkSettings("local[2]", memory))
        spark = context.__enter__()
    try:
        table = real
        if table is None:
            with _timed(took, "check-ins"):
                calibration = spread_calibration(built_in(), ground)
                synth = synthesize(
                    spark, calibration, out / "synth", users=setting.users, months=setting.months, start="2010-08-01",
                    checkins=setting.checkins,
                )  # fmt: skip
                table = Path(synth.path) / "checkins"
        with _timed(took, "changes"):
            made = location_model(spark, Order(checkins=str(table), cells=cells), out / "location")
        return made, sum(_peak_mb(child) for child in _children(os.getpid()))
    finally:
        context.__exit__(None, None, None)


@contextmanager
def _timed(took: dict[str, float], step: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    took[step] = time.perf_counter() - began
    print(f"{step}: {took[step]:.0f} s", flush=True)


def _children(pid: int) -> Iterator[int]:
    """All processes below."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _children(child)


def _peak_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def _systems(found: Measures) -> list[str]:
    return [key.partition(":")[2] for key in found if key.startswith("delay:")]


def _table(found: Measures) -> list[str]:
    lines = [f"| system | {' | '.join(SHOWN)} |", "|---" + "|---:" * len(SHOWN) + "|"]
    for system in _systems(found):
        values = (found[f"{measure}:{system}"] for measure in SHOWN)
        lines.append(f"| {system} | {' | '.join(f'{v:,.0f}' if v >= 100 else f'{v:.2f}' for v in values)} |")
    return lines


def _chart(found: Measures) -> Chart:
    systems = _systems(found)
    panels = tuple(
        Panel(
            "",
            "system",
            y,
            tuple(
                Curve(system, (float(at),), (Estimate(found[f"{measure}:{system}"], 0.0, 1),))
                for at, system in enumerate(systems)
            ),
        )
        for measure, y in (("delay", "mean delay"), ("overhead", "messages per publication"))
    )
    return Chart("dynatops-location-full", "Figs 6d, 6e at the paper's size, one run", panels)
