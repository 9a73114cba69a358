"""The tables, one per section, and what must be known to read them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.book import Book, Key, table
from bench.stores.appends import BATCHES, ENGINE, LOADS, SERVER, engine_row, row
from bench.stores.events import KINDS
from bench.stores.growth import FOOTPRINT, LATENCY, NEWEST, REPLAY, at
from bench.stores.servers import DURABILITIES

FAULT_LETTERS = 48


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(book: Book, key: Key) -> str:
    if key in book.faults:
        return f"[dim]{book.faults[key][:FAULT_LETTERS]}[/]"
    value = book.get(key)
    if value is None:
        return "–"
    figures = book.figures[key]
    spread = f" [dim]±{(max(figures) - min(figures)) / 2 / value:.0%}[/]" if len(figures) > 1 and value else ""
    return f"{figure(value)}{'*' if book.load_bound.get(key) else ''}{spread}"


def ratio(book: Book, ours: Key, theirs: Key) -> str:
    value = book.ratio(ours, theirs)
    return "–" if value is None else f"{value:.2f}"


def append_tables(book: Book) -> list[Table]:
    engine = table(
        "1a. events appended per second, without a server", ["durability, load"], ["bare file", "Latecomer", "ratio"]
    )
    for durability in DURABILITIES:
        for batch in BATCHES:
            name = engine_row(durability, batch)
            theirs, ours = (ENGINE, name, "file"), (ENGINE, name, "latecomer")
            engine.add_row(name, cell(book, theirs), cell(book, ours), ratio(book, ours, theirs))
    columns = ("jetstream", "mosquitto", "latecomer")
    names = ("JetStream", "Mosquitto", "Latecomer")
    server = table(
        "1b. events published, kept and acknowledged per second, one publisher; CPU: of the server, per event",
        ["durability, load"],
        [*names, "ratio to\nJetStream", "ratio to\nMosquitto", *(f"CPU µs\n{name}" for name in names)],
    )
    for durability in DURABILITIES:
        for load in LOADS:
            keys = {column: (SERVER, row(durability, load), column) for column in columns}
            ratios = [ratio(book, keys["latecomer"], keys[peer]) for peer in columns[:2]]
            used = [cell(book, (SERVER, row(durability, load), f"{column} cpu")) for column in columns]
            server.add_row(row(durability, load), *(cell(book, key) for key in keys.values()), *ratios, *used)
    return [engine, server]


def replay_table(book: Book, count: int) -> Table:
    made = table(
        f"2. replay of the last {count:,} events to one client, or of as many as come in 30 s",
        [""],
        ["events/s", "ratio to the peer", "CPU µs per event"],
    )
    pull, queue = "jetstream, pull", "mosquitto, queue of a session, QoS 1"
    peers = {
        pull: "", "jetstream, push": "", "latecomer, engine alone": pull,
        "latecomer, local, QoS 0": pull, "latecomer, local, QoS 1": pull,
        "latecomer, one hop away, QoS 0": pull, "latecomer, one hop away, QoS 1": pull,
        queue: "", "latecomer, queue of a session, QoS 1": queue,
    }  # fmt: skip
    for name, peer in peers.items():
        key = (REPLAY, name, "events/s")
        beside = ratio(book, key, (REPLAY, peer, "events/s")) if peer else ""
        made.add_row(name, cell(book, key), beside, cell(book, (REPLAY, name, "cpu")))
    return made


def growth(book: Book, name: str, sizes: Sequence[int], column: str) -> str:
    first, last = (book.get((LATENCY, at(name, size), column)) for size in (sizes[0], sizes[-1]))
    return "–" if first is None or last is None or len(sizes) < 2 else f"×{last / first:.2f}"


def latency_table(book: Book, sizes: Sequence[int]) -> Table:
    made = table(
        "3. milliseconds from question to last event, p50 / p99; growth: p50 of the largest store to the smallest",
        ["question"],
        ["stored", "JetStream", "Latecomer", "ratio p50", "ratio p99", "engine alone", "one hop away"],
    )
    for kind in KINDS:
        for size in sizes:
            name = at(kind.name, size)

            def both(column: str, name: str = name) -> str:
                p50, p99 = ((LATENCY, name, f"{column} {share}") for share in ("p50", "p99"))
                if p50 in book.faults:
                    return cell(book, p50)
                middle, high = book.get(p50), book.get(p99)
                return "–" if middle is None or high is None else f"{figure(middle)} / {figure(high)}"

            ratios = [
                ratio(book, (LATENCY, name, f"latecomer {share}"), (LATENCY, name, f"jetstream {share}"))
                for share in ("p50", "p99")
            ]
            engine = cell(book, (LATENCY, name, "engine p50"))
            title = kind.title if size == sizes[0] else ""
            made.add_row(title, f"{size:,}", both("jetstream"), both("latecomer"), *ratios, engine, both("hop"))
        grown = [growth(book, kind.name, sizes, f"{column} p50") for column in ("jetstream", "latecomer", "engine")]
        made.add_row("", "growth", grown[0], grown[1], "", "", grown[2], "", style="dim", end_section=True)
    return made


def newest_table(book: Book) -> Table:
    columns = ("jetstream", "mosquitto", "latecomer")
    made = table(
        "3b. milliseconds to the newest event of each of 100 topics: last per subject, or retained messages",
        [""],
        ["JetStream", "Mosquitto", "Latecomer", "ratio to\nJetStream", "ratio to\nMosquitto"],
    )
    for share in ("p50", "p99"):
        keys = {column: (NEWEST, "newest", f"{column} {share}") for column in columns}
        ratios = [ratio(book, keys["latecomer"], keys[peer]) for peer in columns[:2]]
        made.add_row(share, *(cell(book, key) for key in keys.values()), *ratios)
    return made


def footprint_table(book: Book, sizes: Sequence[int]) -> Table:
    made = table("4. files, starts, memory", [""], ["stored", "JetStream", "Latecomer", "ratio"])
    rows = {
        "fill": "filled, events per second",
        "bytes": "bytes on disk per event",
        "open": "s to open the store, without a server",
        "restart": "s from the start of the process to the first answer",
        "after kill -9": "the same after kill -9",
        "memory": "MiB resident after questions and replay",
    }
    for name, title in rows.items():
        for size in sizes:
            theirs, ours = (FOOTPRINT, at(name, size), "jetstream"), (FOOTPRINT, at(name, size), "latecomer")
            what = title if size == sizes[0] else ""
            made.add_row(what, f"{size:,}", cell(book, theirs), cell(book, ours), ratio(book, ours, theirs))
    for name, title in (("start empty", "s to start with an empty store"), ("memory empty", "MiB resident then")):
        made.add_row(title, "0", "–", cell(book, (FOOTPRINT, at(name, 0), "latecomer")), "–")
    return made


def show(book: Book, console: Console, sizes: Sequence[int], replayed: int) -> None:
    tables = [*append_tables(book), replay_table(book, min(replayed, sizes[-1])), latency_table(book, sizes)]
    for made in [*tables, newest_table(book), footprint_table(book, sizes)]:
        console.print(made)
    if any(book.load_bound.values()):
        console.print("* the load generator was busy all the time: the server may be faster than the figure says")
