"""What `latecomer movement` prints: how often each method was right, and what the model weighs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from latecomer.model.when import format_when

if TYPE_CHECKING:
    from latecomer.pipeline.movement_accuracy import Share
    from latecomer.pipeline.movement_job import Report, Task

ASKED = {"move": "The next other place", "next": "The next place, which may be the same"}
ORDERS = {1: "first order with hours", 2: "second order with hours"}


def print_report(console: Console, report: Report) -> None:
    first, last = (format_when(us)[:10] for us in (report.first_us, report.last_us))
    told = f"{report.visits:,} visits of {report.clients:,} clients to {report.places:,} places, {first} to {last}"
    console.print(told, highlight=False)
    for reason, count in report.refused.items():
        console.print(f"  {count:,} of {report.rows:,} rows cannot be used: {reason}", highlight=False, markup=False)
    for task in report.tasks:
        _print_task(console, task)


def _print_task(console: Console, task: Task) -> None:
    told = f"{ASKED[task.predicted]}: {task.learned:,} learned, {task.tested:,} asked of {task.clients:,} clients"
    table = Table(title=told, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("method")
    for name in ("top 1", "95 %", "top 3", "95 %", "the model is ahead by", "95 %"):
        table.add_column(name, justify="right")
    for one in task.methods:
        mark = " *" if one.method == ORDERS[task.order] else ""
        ahead = "" if mark else f"{100 * one.behind1.mean:.1f}"
        table.add_row(
            one.method + mark,
            percent(one.top1),
            interval(one.top1),
            percent(one.top3),
            interval(one.top3),
            ahead,
            "" if mark else interval(one.behind1),
        )
    console.print()
    console.print(table, highlight=False)
    if task.sizes:
        console.print()
        console.print(_sizes(task), highlight=False)


def _sizes(task: Task) -> Table:
    table = Table(title="The model as a file", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("contexts that gain")
    for name in ("contexts", "bytes", "top 1", "top 3"):
        table.add_column(name, justify="right")
    for one in task.sizes:
        name = "all" if one.keep_above is None else f"more than {one.keep_above:g}"
        accuracy = one.accuracy
        table.add_row(name, f"{one.contexts:,}", f"{one.bytes:,}", percent(accuracy.top1), percent(accuracy.top3))
    return table


def percent(share: Share) -> str:
    return f"{100 * share.mean:.1f} %"


def interval(share: Share) -> str:
    return f"{100 * share.low:.1f} – {100 * share.high:.1f}"
