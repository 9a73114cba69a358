"""How fast a store keeps and gives back, next to NATS JetStream and Mosquitto, in one run. README.md says how.

python -m bench.stores [--events 10000000] [--rounds 3] [--sections append,grow] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import tempfile
import time
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.book import BenchError, Book
from bench.frame import options_for, parsed, run, say_end, two_cores, words, write_figures
from bench.stores.appends import EngineAppends, ServerAppends
from bench.stores.events import MINUTE, PAYLOAD_BYTES, STEP_US, TOPICS, Past
from bench.stores.growth import Growth
from bench.stores.load import compile_load
from bench.stores.report import show
from bench.stores.servers import Contenders, JetStream, Latecomer, Mosquitto, Place, find, latecomer_program
from latecomer import __version__

SIZES = (100_000, 1_000_000, 10_000_000)
QUICK_EVENTS, QUICK_REPLAY = 200_000, 100_000
SECTIONS = ("append", "grow")
CONTENDERS = ("jetstream", "mosquitto", "engine", "latecomer")


def arguments() -> argparse.Namespace:
    about, quick = "The speed of stores side by side.", f"{QUICK_EVENTS:,} events at most"
    parser = options_for("stores", about, rounds=3, quick_rounds=1, quick=quick)
    parser.add_argument("--events", type=int, default=SIZES[-1], help=f"stored in the end ({SIZES[-1]:,})")
    parser.add_argument("--replay", type=int, default=1_000_000, help="events of a replay, the newest (1,000,000)")
    parser.add_argument("--seconds", type=float, help="how long a turn of appending lasts (1; quick: 0.2)")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="append: table 1; grow: the others (both)")
    parser.add_argument(
        "--only", default=",".join(CONTENDERS), help="of these; the engine is the store without a broker"
    )
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="on the disk to measure (that of temporary files)"
    )
    parser.add_argument("--nats", metavar="PROGRAM", help="the nats-server to measure (the one on the path)")
    parser.add_argument("--mosquitto", metavar="PROGRAM", help="the mosquitto to measure (the one on the path)")
    parser.add_argument("--latecomer", metavar="PROGRAM", help="the program whose verb `broker` is measured")
    options = parsed(parser, least_one=["replay"])
    options.seconds = options.seconds or (0.2 if options.quick else 1.0)
    if options.quick:
        options.events, options.replay = min(options.events, QUICK_EVENTS), min(options.replay, QUICK_REPLAY)
    if options.events < 2 * MINUTE or options.events % TOPICS:
        parser.error(f"--events must be at least {2 * MINUTE:,}, and a multiple of {TOPICS}")
    options.sections = words(parser, "sections", options.sections, SECTIONS)
    options.only = words(parser, "only", options.only, CONTENDERS)
    return options


def file_system(folder: Path) -> str:
    """Its type, by the longest mount point above the folder."""
    best, kind = "", "?"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, what, *_ = line.split()
        if folder.resolve().is_relative_to(point) and len(point) >= len(best):
            best, kind = point, what
    return kind


def chosen(options: argparse.Namespace) -> Contenders:
    only = options.only
    nats, mosquitto = options.nats or find("nats-server"), options.mosquitto or find("mosquitto")
    return Contenders(
        JetStream(nats) if nats and "jetstream" in only else None,
        Mosquitto(mosquitto) if mosquitto and "mosquitto" in only else None,
        Latecomer(options.latecomer or latecomer_program()) if "latecomer" in only else None,
        "engine" in only or "latecomer" in only,
    )


def conditions(console: Console, folder: Path, contenders: Contenders) -> None:
    """What must be known to read the tables."""
    jetstream, mosquitto = contenders.jetstream, contenders.mosquitto
    said = [
        f"{PAYLOAD_BYTES} bytes of payload, {TOPICS} topics in turn; {os.cpu_count()} cores, a server has one of them "
        f"and the load another; files on {file_system(folder)}; {platform.platform()}",
        f"Latecomer {__version__}, CPython {platform.python_version()}, SQLite {sqlite3.sqlite_version}: "
        "power = every commit is synced before it is acknowledged, process = in the page cache by then, none = maybe",
    ]
    if jetstream is not None:
        said.append(
            f"JetStream of nats-server {jetstream.version}, one replica: power = sync_interval: always, "
            "process = its default, which acknowledges before it syncs (every 2 minutes), none = storage in memory"
        )
    else:
        said.append("JetStream is left out, or nats-server is not installed")
    if mosquitto is not None:
        said.append(
            f"Mosquitto {mosquitto.version}, a session that is away with QoS 1: power = autosave after "
            "every change (the whole file, and it does not wait for it), "
            "none = its default, a file every 30 minutes; it has nothing between"
        )
    else:
        said.append("Mosquitto is left out, or is not installed")
    for line in said:
        console.print(line)


def bench(options: argparse.Namespace, console: Console) -> int:
    contenders = chosen(options)
    server_core, load_core = two_cores()
    if server_core is None:
        console.print("only one core: servers and load share it, and ratios mean little")
    sizes = [size for size in SIZES if size < options.events] + [options.events]
    book = Book(console)
    interrupted = False
    with tempfile.TemporaryDirectory(prefix="latecomer-bench-", dir=options.directory) as name:
        folder = Path(name)
        conditions(console, folder, contenders)
        load = compile_load(folder, load_core)
        place = Place(folder, server_core, load_core)
        past = Past(time.time_ns() // 1000 - (options.events + MINUTE) * STEP_US)
        try:
            if "append" in options.sections:
                if contenders.engine:
                    EngineAppends(place, options.seconds).run(book, options.rounds)
                ServerAppends(place, load, options.seconds, contenders).run(book, options.rounds)
            if "grow" in options.sections:
                Growth(book, place, load, past, sizes, options.rounds, options.replay, contenders, options.quick).run()
        except KeyboardInterrupt:
            interrupted = True
        except BenchError as error:
            console.print(f"[red]given up: {error}[/]")
    show(book, console, sizes, options.replay)
    say_end(console, book.began, interrupted=interrupted)
    if options.json:
        write_figures(book, options.json)
    return 130 if interrupted else 0


def main() -> int:
    return run(partial(bench, arguments()))
