"""Rendezvous routing beside one tree, on the same networks and with the same workload: brokers of the simulator.

python -m bench.overlay_routing [--quick] [--sizes 16,64,200] [--only NAME] [--json FILE] [--add FILE] [--markdown FILE]

Everything shown is a count or virtual time, and the same in every run; load on the machine changes nothing. Parts can
be measured at the same time (`--only`, `--json`) and shown together (`--add`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.book import BenchError, Book, markdown, table
from bench.frame import options_for, parsed, run, say_end, write_figures
from bench.overlay_routing.life import Life, Work
from bench.overlay_routing.networks import NAMES, in_modes, names, subject, tenth, topics_of

SIZES = (16, 64, 200)
TOPICS = 100
PLANNED = "rendezvous, planned ring"
"""As the hashed ring, after the planner's positions were applied to the running network."""
TENTH, MODES, CHANGE, LINK, SUCCESSOR, MEMORY = "tenth", "modes", "change", "link", "successor", "memory"


@dataclass(frozen=True, slots=True)
class Shown:
    """A table, of what is written in the book under these keys."""

    title: str
    columns: tuple[str, ...]
    keys: tuple[tuple[str, str], ...]
    """For every column, what is measured and which of its figures."""
    formats: tuple[str, ...]

    def made(self, book: Book, sizes: list[int]) -> Table:
        shown = table(self.title, ("brokers", "network and routing"), self.columns)
        for size in sizes:
            for name in (*NAMES, PLANNED):
                cells = list(self._cells(book, f"{size} {name}"))
                if any(cell != "–" for cell in cells):
                    shown.add_row(str(size), name, *cells)
        return shown

    def _cells(self, book: Book, row: str) -> Iterator[str]:
        for (measured, key), pattern in zip(self.keys, self.formats, strict=True):
            figure = book.get((measured, row, key))
            yield "–" if figure is None else pattern.format(figure)


_EVENTS = (
    ("messages", "wanted at", "relays", "mean hops", "sends of the busiest broker", "part of all"),
    ("messages", "wanted", "relays", "hops", "load", "busiest"),
    ("{:.1f}", "{:.1f}", "{:.1f}", "{:.2f}", "{:.2f}", "{:.1%}"),
)


def _of_events(title: str, measured: str) -> Shown:
    columns, keys, formats = _EVENTS
    return Shown(title, columns, tuple((measured, key) for key in keys), formats)


TABLES = (
    _of_events("One event, wanted at a tenth of the brokers", TENTH),
    _of_events("One event, where every broker wants 5 topics of one mode", MODES),
    Shown(
        "Frames in all the network",
        ("a subscription changes", "one across keys changes", "a link fails: filters", "trees", "link states"),
        ((CHANGE, "frames"), (CHANGE, "crossing"), (LINK, "tables"), (LINK, "trees"), (LINK, "news")),
        ("{:.1f}", "{:,.0f}", "{:,.0f}", "{:,.0f}", "{:,.0f}"),
    ),
    Shown(
        "The same, when the link to a successor on the ring fails",
        ("filters", "trees", "link states"),
        ((SUCCESSOR, "tables"), (SUCCESSOR, "trees"), (SUCCESSOR, "news")),
        ("{:,.0f}", "{:,.0f}", "{:,.0f}"),
    ),
    Shown(
        "A link fails: µs without a tree that is ready",
        ("until all have one", "mean of the brokers", "successor's link: until all have one", "mean of the brokers"),
        ((LINK, "stop"), (LINK, "each"), (SUCCESSOR, "stop"), (SUCCESSOR, "each")),
        ("{:,.0f}", "{:,.0f}", "{:,.0f}", "{:,.0f}"),
    ),
    Shown(
        "Memory of a broker's core, kB",
        ("all", "of it ring trees"),
        ((MEMORY, "core"), (MEMORY, "family")),
        ("{:,.0f}", "{:,.0f}"),
    ),
)


def work_for(size: int, quick: bool) -> Work:
    """Large networks do less of it, to end in minutes."""
    if quick:
        return Work(events=100, changes=10, failures=1)
    return Work(events=1_000, changes=100, failures=5) if size < 100 else Work(events=300, changes=50, failures=1)


def measure(book: Book, name: str, size: int, work: Work) -> None:
    """One network, all of its figures."""
    row, brokers, topics = f"{size} {name}", names(size), topics_of(TOPICS)

    def note(measured: str, figures: Mapping[str, float]) -> None:
        for key, figure in figures.items():
            book.note((measured, row, key), figure)

    book.say(f"{row}: start")
    given = subject(name, size, TOPICS)
    life = Life(given, topics, work)
    life.start()
    book.say(f"{row}: events")
    life.want(tenth(brokers, topics))
    note(TENTH, life.publish())
    note(CHANGE, life.change_minds())
    note(MEMORY, life.memory())
    book.say(f"{row}: other wishes")
    life.want(in_modes(brokers, topics))
    note(MODES, life.publish())
    if given.planned:
        book.say(f"{row}: other positions")
        row = f"{size} {PLANNED}"
        life.move(given.planned)
        note(MODES, life.publish())
    book.say(f"{row}: links that fail")
    links, successors = life.links()
    note(LINK, life.lose_links(links))
    note(SUCCESSOR, life.lose_links(successors))


def add(book: Book, path: Path) -> None:
    """Figures that an earlier run has written down."""
    try:
        for one in json.loads(path.read_text()):
            for figure in one["figures"]:
                book.note((one["table"], one["row"], one["column"]), figure)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BenchError(f"{path}: no figures of an earlier run ({error})") from None


def arguments() -> argparse.Namespace:
    about = "Rendezvous routing beside one tree."
    parser = options_for("overlay_routing", about, rounds=1, quick_rounds=1, quick="few events, small networks")
    parser.add_argument("--sizes", help=f"how many brokers ({','.join(map(str, SIZES))}; quick: {SIZES[0]})")
    parser.add_argument("--only", choices=NAMES, action="append", help="this network and routing (all); may come again")
    parser.add_argument(
        "--add", metavar="FILE", type=Path, action="append", default=[], help="show these too: of --json"
    )
    parser.add_argument("--markdown", metavar="FILE", type=argparse.FileType("w"), help="write the tables there")
    options = parsed(parser)
    said = options.sizes or (str(SIZES[0]) if options.quick else ",".join(map(str, SIZES)))
    try:
        options.sizes = [int(size) for size in said.split(",")]
    except ValueError:
        parser.error(f"--sizes: {said} are not numbers with commas")
    if min(options.sizes) < 3:
        parser.error("--sizes: a ring has at least 3 brokers")
    return options


def main() -> int:
    options = arguments()

    def bench(console: Console) -> int:
        book, ended = Book(console), 0
        try:
            for path in options.add:
                add(book, path)
            for size in options.sizes:
                for name in options.only or NAMES:
                    if (TENTH, f"{size} {name}", "messages") not in book.figures:
                        measure(book, name, size, work_for(size, options.quick))
        except KeyboardInterrupt:
            ended = 130
        except BenchError as error:
            console.print(f"[red]given up: {error}[/]")
            ended = 1
        shown = [one.made(book, options.sizes) for one in TABLES]
        for one in shown:
            console.print(one)
        if options.markdown:
            options.markdown.write("\n".join(markdown(one) for one in shown))
        if options.json:
            write_figures(book, options.json)
        say_end(console, book.began, interrupted=ended == 130)
        return ended

    return run(bench)
