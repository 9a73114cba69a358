"""`latecomer stores`: who keeps what, how much of it, and for whom."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from latecomer.cli.doors import ask, found_doors
from latecomer.core.class_row import ALWAYS
from latecomer.model.errors import LatecomerError
from latecomer.model.ids import BrokerId
from latecomer.runtime.amounts import show_size
from latecomer.runtime.store_views import OtherStoreView, StoresView, StoreView
from latecomer.sim.transcript import plain

COLUMNS = ("store", "topics", "events", "size", "oldest", "newest", "complete for", "served", "mean hops")
WIDE = 200
"""Columns of a table that nobody looks at on a terminal."""


def stores(
    network: Annotated[
        Path, typer.Option(metavar="DIR", help="The data folder of 'latecomer up', or of one broker.")
    ] = Path("latecomer-data"),
    config: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="The settings of a broker instead; may be repeated.")
    ] = None,
    admin: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="An admin interface instead; may be repeated.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the admin token.", show_default="admin-token in DIR")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything that the brokers say, as JSON.")] = False,
) -> None:
    """Show who keeps the history of which topics, how complete it is, and who asked for it."""
    doors = found_doors(network, config or [], admin or [], token_file)
    answers: list[StoresView] = []
    silent: list[str] = []
    for door in doors:
        try:
            answers.append(ask(door))
        except LatecomerError as error:
            silent.append(str(error))
    if not answers:
        raise LatecomerError("; ".join(silent[:3]) + (f"; and {len(silent) - 3} more" if silent[3:] else ""))
    if as_json:
        typer.echo(json.dumps([msgspec.to_builtins(answer) for answer in answers], ensure_ascii=False, indent=2))
    else:
        show(answers, time.time_ns() // 1000)
    for sentence in silent:
        typer.echo(f"latecomer: {plain(sentence)}", err=True)


# -- what they said


def show(answers: Sequence[StoresView], now_us: int) -> None:
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDE)
    rows = list(rows_of(answers, now_us))
    if not rows:
        console.print("no broker keeps any history; start one with --store 'sensors/#'")
        return
    table = Table(box=SIMPLE_HEAD)
    for column in COLUMNS:
        words = column in ("store", "topics")
        table.add_column(column, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    for row in rows:
        table.add_row(*map(plain, row))
    console.print(table)
    for sentence in remarks(answers):
        console.print(plain(sentence), soft_wrap=True)


def rows_of(answers: Sequence[StoresView], now_us: int) -> Iterator[tuple[str, ...]]:
    """One for each store; of those that were not asked, or did not answer, what the others know."""
    own = {answer.broker: answer.store for answer in answers if answer.store is not None}
    others = _others(answers)
    for broker in sorted({*own, *others}):
        store = own.get(broker)
        yield _row(broker, store, now_us) if store is not None else _rumour(others[broker], now_us)


def remarks(answers: Sequence[StoresView]) -> Iterator[str]:
    """What is not as it should be, one sentence each."""
    for answer in answers:
        store = answer.store
        if store is not None and store.problem:
            yield f"{answer.broker}: {store.problem}"
        if store is not None and not store.classes:
            yield f"{answer.broker}: no topics are assigned; old events are deleted after store.keep"
        if store is not None and store.filling:
            names = " ".join(each.topics for each in store.classes if not each.answering)
            yield f"{answer.broker}: {names} is filled from other stores, and answered for when it has what they have"
    for broker in sorted(_others(answers)):
        yield f"{broker}: it was not asked, or did not answer; this is what the others know of it"


def _others(answers: Sequence[StoresView]) -> dict[BrokerId, OtherStoreView]:
    asked = [answer.broker for answer in answers]
    return {other.broker: other for answer in answers for other in answer.others if other.broker not in asked}


def _row(broker: BrokerId, store: StoreView, now_us: int) -> tuple[str, ...]:
    topics = " ".join(each.topics for each in store.classes)
    size = show_size(store.bytes) + (f" + {show_size(store.cold_bytes)} cold" if store.cold_events else "")
    since = _complete_for(store.complete_since_us, now_us) if store.classes else ""
    hops = f"{store.hops_mean:.2f}" if store.requests_served else ""
    oldest, newest = age(store.oldest_us, now_us), age(store.newest_us, now_us)
    count = str(store.events + store.cold_events)
    return broker, topics, count, size, oldest, newest, since, str(store.requests_served), hops


def _rumour(other: OtherStoreView, now_us: int) -> tuple[str, ...]:
    since = _complete_for(other.complete_since_us, now_us)
    return other.broker, " ".join(other.topics), "?", "?", "?", "?", since, "?", "?"


def _complete_for(since_us: int, now_us: int) -> str:
    return "always" if since_us == ALWAYS else age(since_us, now_us) or "incomplete"


def age(us: int, now_us: int) -> str:
    """How long ago that was, to two places or so; empty: there is no such instant."""
    if not us:
        return ""
    seconds = max(0, now_us - us) / 1e6
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
