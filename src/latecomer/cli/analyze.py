"""`latecomer analyze`: what a network wrote down, as tables and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from latecomer.cli.as_json import print_json
from latecomer.cli.doors import NETWORK_FILE
from latecomer.cli.log_options import ClassesFile, Depth, Since, Until, classes_of, window_of
from latecomer.cli.plan_files import read_network_words
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
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.sim.durations import read_duration

OUT = Path("latecomer-analysis")
SECOND_US = 1_000_000


def analyze(
    log: Annotated[
        Path, typer.Argument(metavar="LOGDIR", help="A folder of segments, or the data folder of 'latecomer up'.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where tables, report and records go.")] = OUT,
    classes: ClassesFile = None,
    depth: Depth = None,
    since: Since = "",
    until: Until = "",
    period: Annotated[
        str, typer.Option(metavar="TIME", help="Length of a period, as 10s or 1h.", show_default="by length")
    ] = "",
    network: Annotated[
        str | None,
        typer.Option(metavar="URL|DIR|FILE", help="The network of the log: records of other brokers are not used."),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(metavar="FILE", help="File with the admin token.")] = None,
    max_bad: Annotated[
        float, typer.Option(metavar="SHARE", help="Stop if more of the rows or segments cannot be used.")
    ] = 0.05,
    json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON, and nothing else.")] = False,
    master: Master = MASTER,
    memory: Memory = MEMORY,
    conf: Conf = None,
) -> None:
    """Turn a network's event log into tables and a report: demand, popularity, distances, churn, movement."""
    check_first(master)
    with spark_libraries():
        from latecomer.pipeline.inputs import input_bytes
        from latecomer.pipeline.job import Wish
        from latecomer.pipeline.job import analyze as work
        from latecomer.pipeline.log import find_log, log_bytes, segment_names
        from latecomer.pipeline.output import BATCHES
    wish = Wish(
        classes_of(classes, depth),
        window_of(since, until),
        period_s=_seconds(period) if period else 0,
        brokers=_brokers(network, token_file),
        max_bad=max_bad,
    )
    wish.check()
    if not any(segment_names(log)) and not out.exists():
        find_log(log)  # says that there is no log, before Spark starts
    size = log_bytes(log) + (input_bytes([out / BATCHES]) or 0)  # of earlier runs
    with progress("starting Spark") as tell, opened(master, memory, conf, size) as spark:
        done = work(spark, log, out, wish, tell=tell)
    if json:
        print_json(done)
        return
    from latecomer.cli.analyze_tables import print_analysis

    print_analysis(Console(), done, out)


def _seconds(text: str) -> int:
    try:
        duration = read_duration(text)
    except ValueError as error:
        raise SettingsError("--period", str(error)) from None
    if duration < SECOND_US or duration % SECOND_US:
        raise SettingsError("--period", f"{text!r} is not a whole number of seconds; write 10s, 5m or 1h")
    return duration // SECOND_US


def _brokers(words: str | None, token_file: Path | None) -> tuple[BrokerId, ...] | None:
    if words is None:
        if token_file is not None:
            raise SettingsError("--token-file", "needs --network")
        return None
    if "://" in words:
        from latecomer.cli.live_network import read_live

        live = read_live(words, token_file)
        return tuple(sorted({*(node.id for node in live.topology.nodes), *live.absent}))
    # Who the brokers are is written down: the network need not run.
    file = Path(words, NETWORK_FILE)
    return tuple(sorted(node.id for node in read_network_words(str(file) if file.is_file() else words).nodes))
