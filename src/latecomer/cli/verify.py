"""`latecomer verify`: what an applied plan brought, measured from the event log, beside what it promised."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from latecomer.cli.apply import PlanFile, TokenFile, applied_file, measured_file, read_applied
from latecomer.cli.live_network import read_live
from latecomer.cli.log_options import Since, Until, window_of
from latecomer.cli.plan_files import read_plan_file, write_text
from latecomer.cli.spark_options import (
    MASTER,
    MEMORY,
    Conf,
    Master,
    Memory,
    check_first,
    opened,
    progress,
    spark_libraries,
)
from latecomer.cli.verify_work import REQUESTS_MIN, Counts, tree_of, verdict
from latecomer.model.applied import Applied, Verdict, plan_id, write_record
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.plan import Plan
from latecomer.model.topology import Topology
from latecomer.model.when import format_when
from latecomer.sim.transcript import plain

if TYPE_CHECKING:
    from latecomer.pipeline.job import Measured
    from latecomer.pipeline.log import Window

NO = 1


def verify(
    plan: PlanFile,
    log: Annotated[
        Path, typer.Option(metavar="LOGDIR", help="Event log: the data folder of 'latecomer up', or its segments.")
    ] = Path("latecomer-data"),
    network: Annotated[
        str | None,
        typer.Option(
            metavar="URL|DIR|FILE",
            help="The network whose tree requests take; else as it was when the plan was applied.",
        ),
    ] = None,
    token_file: TokenFile = None,
    since: Since = "",
    until: Until = "",
    confidence: Annotated[float, typer.Option(min=0.5, max=0.9999, help="Confidence of the interval.")] = 0.95,
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON, and nothing else.")] = False,
    master: Master = MASTER,
    memory: Memory = MEMORY,
    spark_conf: Conf = None,
) -> None:
    """Check whether an applied plan shortened distances as predicted (exit 1 if not)."""
    check_first(master)
    wanted = read_plan_file(plan, "PLAN")
    applied = read_applied(plan, wanted)
    tree = _tree(wanted, applied, network, token_file, plan)
    with spark_libraries():
        from latecomer.pipeline.log import find_log
    window = _window(applied, since, until, plan)
    found = find_log(log)
    with (
        progress("starting Spark", lines=True) as tell,
        opened(master, memory, spark_conf, found.within(window).bytes) as spark,
    ):
        from latecomer.pipeline.classes import named
        from latecomer.pipeline.job import measure

        tell(f"reading {len(found.segments):,} segments")
        measured = measure(spark, found, named(list(wanted.replicas)), window)
    counts, unserved = _counts(measured)
    ended = measured.window
    result = verdict(
        wanted, plan_id(wanted), tree, counts, unserved, ended.since_us, ended.until_us, confidence
    )  # fmt: skip
    write_text(measured_file(plan), "PLAN", write_record(result))
    if json:
        typer.echo(write_record(result), nl=False)
    else:
        show(Console(highlight=False, markup=False), result, measured_file(plan))
    if not result.holds:
        raise typer.Exit(NO)


def _tree(plan: Plan, applied: Applied | None, network: str | None, token_file: Path | None, file: Path) -> Topology:
    if network is not None:
        return read_live(network, token_file).topology
    if applied is None:
        told = f"there is no {applied_file(file).name} of this plan beside it, so how far stores are is not known"
        raise SettingsError("--network", f"{told}; name the network, or apply the plan with 'latecomer apply'")
    return tree_of(applied, plan)


def _window(applied: Applied | None, since: str, until: str, file: Path) -> Window:
    from latecomer.pipeline.log import Window

    if since:
        return window_of(since, until)
    if applied is None:
        raise SettingsError("--since", "it is not known since when the plan has been in force; say so, as in -1h")
    if not applied.ended_us:
        raise LatecomerError(f"the plan has not been applied to its end: run 'latecomer apply {file}' again")
    if not until:
        return Window(applied.ended_us)
    return Window(applied.ended_us, window_of("", until).until_us)


def _counts(measured: Measured) -> tuple[Counts, int]:
    counts = {
        topic: {broker: (sums.served, sums.hops_sum, sums.hops_squares) for broker, sums in row.items()}
        for topic, row in measured.distances.by_class.items()
    }
    unserved = sum(sums.unserved for row in measured.distances.by_class.values() for sums in row.values())
    return counts, unserved


def show(console: Console, result: Verdict, file: Path) -> None:
    table = Table(box=SIMPLE_HEAD)
    for column in ("", "requests", "mean hops", "±"):
        table.add_column(column, justify="right" if column else "left")
    rows = (
        ("predicted", result.predicted),
        ("expected of these requests", result.expected),
        ("measured", result.measured),
    )
    for name, reach in rows:
        error = f"{reach.error:.3f}" if reach.error else ""
        table.add_row(name, f"{reach.requests:,}" if reach.requests else "", f"{reach.hops_mean:.3f}", error)
    console.print(table)
    between = f"{result.low:.3f} to {result.high:.3f} ({result.confidence:.0%})"
    word = "lies within" if result.holds else "lies outside of"
    since = f"since {format_when(result.since_us)}"
    console.print(
        f"What was measured {since} {word} {between}: the prediction {'holds' if result.holds else 'does not hold'}.",
        soft_wrap=True,
    )
    if not result.holds:
        console.print(plain(_why(result)), soft_wrap=True)
    if result.measured.requests < REQUESTS_MIN:
        console.print(f"That is little evidence: fewer than {REQUESTS_MIN} requests.")
    if result.measured.unserved:
        console.print(f"{result.measured.unserved:,} requests were not answered by any store.")
    console.print(f"The verdict is in {file}.", soft_wrap=True)


def _why(result: Verdict) -> str:
    """Whether the network is not as planned, or the demand is not."""
    strayed = sorted(result.topics, key=lambda each: -abs(each.measured - each.expected) * each.requests)
    if strayed and abs(strayed[0].measured - strayed[0].expected) > 0.005:
        first = strayed[0]
        return (
            f"Requests did not go to the nearest planned stores: for {first.topic} {first.measured:.2f} hops in place"
            f" of {first.expected:.2f}. Is the network as it was planned ('latecomer apply')?"
        )
    return "Requests went to the nearest planned stores, but they come from elsewhere than before: plan anew."
