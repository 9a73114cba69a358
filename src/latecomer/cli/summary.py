"""A run's result as tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from latecomer.sim.report import Result
from latecomer.sim.transcript import plain

BROKERS_SHOWN = 12
VIOLATIONS_SHOWN = 10


def print_summary(console: Console, result: Result) -> None:
    """Everything a run amounted to."""
    console.print(headline(result), highlight=False)
    console.print(outcome(result))
    console.print(messages(result))
    console.print(hops(result))
    console.print(sizes(result))
    if result.longest_queues:
        longest = ", ".join(f"{name} {size}" for name, size in result.longest_queues.items())
        console.print(f"  longest queues: {longest}", highlight=False, soft_wrap=True)
    if result.quiet_after_us >= 0:
        console.print(f"  quiet {result.quiet_after_us / 1e6:g} s after the end of the last fault", highlight=False)
    if result.digest:
        console.print(f"  digest: {result.digest}", highlight=False)


def headline(result: Result) -> Text:
    head = Text(plain(result.scenario), style="bold")
    virtual = f"{result.virtual_us / 1e6:g} s in {result.real_seconds:.1f} s"
    stopped = ", interrupted" if result.interrupted else ""
    head.append(f": {result.brokers} brokers, {result.links} links, seed {result.seed}, {virtual}{stopped}", "default")
    return head


def outcome(result: Result) -> Table:
    """What became of the publications; the rarer fates only where they occurred."""
    always = ("accepted", "delivered", "lost", "duplicates", "repeats")
    rare = tuple(word for word in ("refused", "dropped", "excused", "in_vain") if getattr(result, word))
    table = _table(*(word.replace("_", " ") for word in always + rare))
    bad = ("lost", "duplicates")
    cells = [
        Text(str(value), style="bold red" if word in bad and value else "")
        for word in always + rare
        for value in [getattr(result, word)]
    ]
    table.add_row(*cells)
    return table


def messages(result: Result) -> Table:
    """Once per link crossed."""
    table = _table("messages", "before time 0", "in the scenario", words=1)
    for name in dict.fromkeys((*result.messages, *result.messages_before)):
        table.add_row(name, _count(result.messages_before, name), _count(result.messages, name))
    table.add_row("all", str(sum(result.messages_before.values())), str(sum(result.messages.values())))
    return table


def hops(result: Result) -> Table:
    """How far publications and deliveries went."""
    distances = sorted(result.publications_by_hop.keys() | result.deliveries_by_hops.keys())
    table = _table("hop", *(str(hop) if hop >= 0 else "?" for hop in distances), words=1)
    table.add_row("publications crossing", *(_count(result.publications_by_hop, hop) for hop in distances))
    table.add_row("deliveries at", *(_count(result.deliveries_by_hops, hop) for hop in distances))
    return table


def sizes(result: Result) -> Table:
    """The tables of each broker, or of all together where there are many."""
    tables = result.tables
    if len(tables) <= BROKERS_SHOWN:
        table = _table("broker", *map(plain, tables), words=1)
        table.add_row("subscription entries", *(str(size.subscriptions) for size in tables.values()))
        table.add_row("routes", *(str(size.routes) for size in tables.values()))
        return table
    table = _table(f"{len(tables)} brokers", "smallest", "mean", "largest", words=1)
    for name, column in (
        ("subscription entries", [size.subscriptions for size in tables.values()]),
        ("routes", [size.routes for size in tables.values()]),
    ):
        table.add_row(name, str(min(column)), f"{mean(column):.1f}", str(max(column)))
    return table


def print_violations(console: Console, result: Result) -> None:
    for violation in result.violations[:VIOLATIONS_SHOWN]:
        console.print(Text(f"  {plain(str(violation))}", style="red"), soft_wrap=True)
    if len(result.violations) > VIOLATIONS_SHOWN:
        console.print(f"  and {len(result.violations) - VIOLATIONS_SHOWN} more", highlight=False)


def _count(counts: Mapping[str, int] | Mapping[int, int], key: str | int) -> str:
    return str(counts.get(key, 0) or "")  # type: ignore[arg-type]


def _table(*columns: str, words: int = 0) -> Table:
    """Numbers to the right; the first `words` columns are text."""
    table = Table(box=SIMPLE_HEAD, pad_edge=True)
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position < words else "right", overflow="fold")
    return table
