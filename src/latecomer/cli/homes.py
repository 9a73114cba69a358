"""`latecomer homes`: which clients would be better at which broker, by what they and others there subscribe to.

Without a command: in a running network, as its brokers say. `advise`: from files, or from an event log.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from latecomer.cli.as_json import print_json
from latecomer.cli.door_options import DATA, AdminUrl, AsJson, Config, Network, TokenFile
from latecomer.cli.doors import found_doors
from latecomer.cli.homes_live import asked, print_homes
from latecomer.cli.log_options import ClassesFile, Depth, Since, Until, classes_of, window_of
from latecomer.cli.overlay_tables import ROWS, plain_table, rest
from latecomer.cli.plan_files import read_text, write_text
from latecomer.cli.plan_tables import remark
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
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.subscriptions import (
    Change,
    Subscription,
    check_homes,
    read_changes,
    read_clusters,
    read_subscriptions,
)
from latecomer.sim.transcript import plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from latecomer.pipeline.homes_job import HomesAdvice

homes = typer.Typer(help="Say which clients would be better at which broker.", add_completion=False)

Similarity = Annotated[
    Literal["cheap", "full"],
    typer.Option(help="cheap: topics that the broker has; full: the mean over the clients there."),
]
Own = Annotated[
    Literal["without", "with"],
    typer.Option(help="with: a client's own subscriptions count at its broker, as the paper has it; then few move."),
]
COLUMNS = ("client", "home", "broker", "similarity_before", "similarity_after", "gain")


@homes.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    network: Network = DATA,
    config: Config = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Say which clients would be better at which broker.

    Without a command: clients, load and similarity of each running broker, and the moves that it proposes. Options of a
    command stand behind it.
    """
    if context.invoked_subcommand is not None:
        if as_json or config or admin or token_file or network != DATA:
            raise typer.BadParameter(f"put options behind the command: latecomer homes {context.invoked_subcommand} …")
        return
    views, silent = asked(found_doors(network, config or [], admin or [], token_file))
    if not views:
        raise LatecomerError("; ".join(silent[:3]))
    if as_json:
        print_json(views)
    else:
        print_homes(views)
    for sentence in silent:
        typer.echo(f"latecomer: {sentence}", err=True)


@homes.command("advise")
def advise_verb(
    subscriptions: Annotated[Path | None, typer.Option(metavar="FILE", help="CSV client,broker,topic.")] = None,
    changes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="CSV client,topic,change (+ or -), in order: what brokers make of them is counted."
        ),
    ] = None,
    from_log: Annotated[
        Path | None, typer.Option(metavar="LOGDIR", help="Instead: subscriptions and changes of this event log.")
    ] = None,
    classes: ClassesFile = None,
    depth: Depth = None,
    since: Since = "",
    until: Until = "",
    clusters: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV broker,cluster: clients move within one only; else all are one."),
    ] = None,
    similarity: Similarity = "cheap",
    own: Own = "without",
    load_weight: Annotated[
        float | None, typer.Option(metavar="W", help="Of a broker's load; else 0.2 times the brokers of the cluster.")
    ] = None,
    hysteresis: Annotated[float, typer.Option(metavar="GAIN", help="A move must gain more than this.")] = 0.2,
    most: Annotated[float, typer.Option(metavar="SHARE", help="Of the clients that move at once, at most.")] = 0.1,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all moves there, as CSV.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the advice as JSON, and nothing else.")] = False,
    master: Master = MASTER,
    memory: Memory = MEMORY,
    conf: Conf = None,
) -> None:
    """Say which clients would be better at which broker, and how brokers' subscriptions change less then.

    Advice only: nobody is moved.
    """
    check_first(master)
    with spark_libraries():
        from latecomer.pipeline.homes_job import HomesWish, advise, changes_of, held_of, logged
        from latecomer.pipeline.inputs import input_bytes
        from latecomer.pipeline.log import find_log
    wish = HomesWish(similarity, own == "with", load_weight, hysteresis, most)
    wish.check()
    if from_log is not None:
        _only(subscriptions, changes)
        named, window, log = classes_of(classes, depth), window_of(since, until), find_log(from_log)
        size: int | None = log.within(window).bytes
    else:
        held, changed = _files(subscriptions, changes)
        near = _clusters(clusters, [one.broker for one in held])
        size = input_bytes([file for file in (subscriptions, changes) if file is not None])

    def work(spark: SparkSession) -> HomesAdvice:
        if from_log is None:
            later: DataFrame | None = changes_of(spark, changed) if changed is not None else None
            return advise(spark, held_of(spark, held), near, wish, later)
        found = logged(spark, log, named, window)
        return advise(spark, found.held, _clusters(clusters, found.brokers), wish, found.changes)

    with progress("Spark"), opened(master, memory, conf, size) as spark:
        advice = work(spark)
    if out is not None:
        write_text(out, "--out", moves_csv(advice))
    if json:
        print_json(advice)
        return
    print_advice(Console(), advice, out)


def _only(subscriptions: Path | None, changes: Path | None) -> None:
    if subscriptions is not None or changes is not None:
        raise SettingsError("--from-log", "the log has both; leave out --subscriptions and --changes")


def _files(subscriptions: Path | None, changes: Path | None) -> tuple[list[Subscription], list[Change] | None]:
    if subscriptions is None:
        raise SettingsError(
            "--subscriptions", "say who subscribes to what: --subscriptions, or --from-log to measure it"
        )
    held = read_subscriptions(read_text(subscriptions, "--subscriptions"), str(subscriptions))
    check_homes(held, str(subscriptions))
    if changes is None:
        return held, None
    clients = frozenset(one.client for one in held)
    return held, read_changes(read_text(changes, "--changes"), str(changes), clients)


def _clusters(file: Path | None, brokers: list[BrokerId] | tuple[BrokerId, ...]) -> dict[BrokerId, str]:
    """Those of the file, or all in one."""
    names = list(dict.fromkeys(brokers))
    found = (
        dict.fromkeys(names, "all") if file is None else read_clusters(read_text(file, "--clusters"), str(file), names)
    )
    if len(found) < 2:
        told = f"only {plain(names[0])} has clients, so nobody can move; name other brokers with --clusters"
        raise SettingsError("--subscriptions", told)
    return found


def moves_csv(advice: HomesAdvice) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows([getattr(move, name) for name in COLUMNS] for move in advice.moves)
    return text.getvalue()


def print_advice(console: Console, advice: HomesAdvice, out: Path | None) -> None:
    head = f"{advice.clients:,} clients at {advice.brokers:,} brokers; {advice.wished:,} would be better elsewhere"
    console.print(f"{head}, {len(advice.moves):,} should move now", style="bold", highlight=False, soft_wrap=True)
    console.print(_states(advice))
    remark(console, f"The moves begin {advice.joined:,} subscriptions of brokers and end {advice.left:,}.")
    if advice.client_changes is not None:
        told = f"Clients change {advice.client_changes:,} subscriptions; the last row is how many of these changes"
        remark(console, f"{told} a broker passes on, as the first or the last of its clients.")
    if advice.moves:
        table = plain_table("client", "from", "to", "similarity", "there", "gain")
        for move in advice.moves[:ROWS]:
            shares = (move.similarity_before, move.similarity_after, move.gain)
            table.add_row(plain(move.client), plain(move.home), plain(move.broker), *(f"{one:.2f}" for one in shares))
        rest(table, len(advice.moves), "clients")
        console.print(table)
    if out is not None:
        console.print(f"The moves are in {out}.", highlight=False, soft_wrap=True, markup=False)


def _states(advice: HomesAdvice) -> Table:
    table = plain_table("", "before", "after")
    before, after = advice.before, advice.after
    table.add_row("subscriptions of brokers", f"{before.broker_subscriptions:,}", f"{after.broker_subscriptions:,}")
    table.add_row("largest load, in times the mean", f"{before.load_max:.2f}", f"{after.load_max:.2f}")
    if before.changes is not None and after.changes is not None:
        table.add_row("broker subscription changes", f"{before.changes:,}", f"{after.changes:,}")
    return table
