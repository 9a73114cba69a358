"""What `latecomer watch` shows: a table that follows on a terminal, and a line for each batch anywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from latecomer.sim.transcript import plain

if TYPE_CHECKING:
    from latecomer.cli.watch_advice import Advice
    from latecomer.pipeline.watch_job import Glance

ROWS = 12
"""Topic classes that are shown."""


class Show(Protocol):
    """Somewhere to tell things."""

    def tell(self, text: str) -> None: ...

    def glance(self, found: Glance, advice: Advice | None) -> None: ...


@contextmanager
def shown(console: Console) -> Iterator[Show]:
    """As fits the console."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        yield _Table(live)


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._before: Glance | None = None
        self._said: tuple[str, ...] = ()

    def tell(self, text: str) -> None:
        self._console.print(f"{text}.", highlight=False, soft_wrap=True, markup=False)

    def glance(self, found: Glance, advice: Advice | None) -> None:
        if found.total.id >= 0:
            self.tell(line(found, self._before))
        said = advice.sentences if advice is not None else ()
        if said != self._said:
            for sentence in said:
                self._console.print(f"  {plain(sentence)}", highlight=False, soft_wrap=True, markup=False)
        self._before, self._said = found, said


class _Table:
    def __init__(self, live: Live) -> None:
        self._live = live

    def tell(self, text: str) -> None:
        self._live.update(Text(f"{text} …"))

    def glance(self, found: Glance, advice: Advice | None) -> None:
        self._live.update(view(found, advice))


def line(found: Glance, before: Glance | None = None) -> str:
    """One batch, or several that came together."""
    total, old = found.total, None if before is None else before.total
    if total.id < 0:
        return "; ".join(("no segment has been counted yet", closed(found)))
    segments = total.segments - (0 if old is None else old.segments)
    rows = total.rows - (0 if old is None else old.rows)
    requests = total.requests - (0 if old is None else old.requests)
    parts = [
        f"batch {total.id}: {segments:,} segments, {rows:,} rows, {requests:,} requests",
        f"in all {total.rows:,} rows, {total.requests:,} requests",
        closed(found),
        *bad(found),
    ]
    return "; ".join(parts)


def closed(found: Glance) -> str:
    """How far demand is known."""
    if found.span is None:
        return "no period is closed yet"
    until = datetime.fromtimestamp(found.span.until_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
    told = f"{found.span.count:,} periods closed, up to {until} UTC"
    return told if found.demand is None else f"{told}: {found.demand.total():,.3f} requests/s"


def bad(found: Glance) -> list[str]:
    """What could not be used."""
    total, parts = found.total, []
    if rows := sum(total.refused.values()):
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in total.refused.items())
        parts.append(f"{rows:,} rows in quarantine ({reasons})")
    if total.damaged:
        name, reason = next(iter(total.damaged.items()))
        parts.append(f"{len(total.damaged):,} segments in quarantine (the first is {plain(name)}: {plain(reason)})")
    if total.gone:
        parts.append(f"{total.gone:,} segments were gone before they could be read")
    if found.unclassified:
        parts.append(f"{found.unclassified:,} requests for topics of no class")
    return parts


def view(found: Glance, advice: Advice | None) -> RenderableType:
    parts: list[RenderableType] = [Text(line(found), style="bold")]
    if found.demand is not None:
        parts.append(demand_table(found))
    if advice is not None:
        style = "bold yellow" if advice.proposal is not None else ""
        parts += [Text(plain(sentence), style=style) for sentence in advice.sentences]
    return Group(*parts)


def demand_table(found: Glance) -> Table:
    assert found.demand is not None
    demand, total = found.demand, found.demand.total()
    table = Table(box=SIMPLE_HEAD)
    for position, column in enumerate(("topic class", "requests/s", "share", "brokers", "most at")):
        table.add_column(column, justify="right" if 0 < position < 4 else "left", overflow="fold")
    ordered = sorted(demand.topics, key=lambda topic: (-demand.rate(topic), topic))
    for topic in ordered[:ROWS]:
        row = {broker: rate for broker, rate in demand.rates.get(topic, {}).items() if rate > 0}
        most = max(row, key=lambda broker: (row[broker], broker), default="")
        share = f"{demand.rate(topic) / total:.1%}" if total else ""
        table.add_row(plain(topic), f"{demand.rate(topic):,.3f}", share, str(len(row)), plain(most))
    if len(ordered) > ROWS:
        table.add_row(f"and {len(ordered) - ROWS:,} more")
    return table
