"""Tables 5 and 6: a log planned end to end, how its parts grow, and what a cluster would change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.table import Table

from bench.book import Book, Key, span, table
from bench.pipeline.logs import DEPTH, LogSize, network, write_log
from bench.pipeline.processes import Told, answer, child, step

DEMAND, PLAN = "demand", "plan"
STORES_PER, CAPACITY = 10, 50
"""A store for ten brokers, and fifty topics in each: five replicas per topic on the average."""
MEMORY = "4g"
LIMIT_S, LIMIT_GB = 1800, 12
PATIENCE_S = 4 * LIMIT_S
"""How long a plan may take that is not within the limit."""
SEARCH = "search"
PARTS = ("start of Spark", "demand", "problem", "votes", SEARCH, "bound", "others", "explanations", "plan file")
"""Of a plan. The search of `best` has its bound; `others` are the papers' algorithms, which stand beside every plan."""


def size_name(size: LogSize) -> str:
    return f"{size.requests:,} requests, N = T = {size.brokers:,}"


# --- measuring ---


def measure_demand(book: Book, folder: Path, sizes: Sequence[LogSize], cores: int) -> None:
    """How the first half grows with the log: cold, in a process of its own."""
    for size in sizes:
        name = size_name(size)
        place = write_log(folder, size)
        book.say(f"demand of {name}")
        _note_demand(book, size, place, child(["demand", str(place), str(cores)]))


def _note_demand(book: Book, size: LogSize, place: Path, told: Told) -> None:
    name = size_name(size)
    for part in ("start of Spark", "demand"):
        book.note((DEMAND, name, part), told.s(part))
        book.note((DEMAND, name, f"{part}, cpu"), told.steps[part].cpu_s)
    book.note((DEMAND, name, "peak"), told.steps["demand"].peak_bytes)
    book.note((DEMAND, name, "records"), told.answers["records"])
    book.note((DEMAND, name, "bytes"), sum(path.stat().st_size for path in place.glob("*.parquet")))


def measure_plan(book: Book, folder: Path, sizes: Sequence[LogSize], cores: int, algorithm: str) -> None:
    """From the log to the file of the plan, as `latecomer plan --from-log` does it."""
    for size in sizes:
        name = size_name(size)
        place = write_log(folder, size)
        book.say(f"{algorithm} for {name}")
        told = child(["plan", str(place), str(size.brokers), str(cores), algorithm], limit_s=PATIENCE_S)
        _note_demand(book, size, place, told)
        for part, one in told.steps.items():
            book.note((PLAN, name, part), one.seconds)
            book.note((PLAN, name, f"{part}, cpu"), one.cpu_s)
            book.note((PLAN, name, f"{part}, bytes"), one.peak_bytes)
        book.note((PLAN, name, "all"), told.seconds)
        book.note((PLAN, name, "peak"), told.peak_bytes)
        for key in ("hops", "gap", "before"):
            book.note((PLAN, name, key), told.answers[key])


# --- in the child ---


def demand_child(place: str, cores: str) -> None:
    from latecomer.pipeline.classes import Classes
    from latecomer.pipeline.log import find_log
    from latecomer.pipeline.measure import measure
    from latecomer.pipeline.session import SparkSettings, session

    with step("survey"):
        log = find_log(Path(place))
    with ExitStack() as stack:
        with step("start of Spark"):
            spark = stack.enter_context(session(SparkSettings(f"local[{cores}]", MEMORY, scratch=Path(place).parent)))
        with step("demand"):
            found = measure(spark, log, Classes(depth=DEPTH))
    answer(records=found.rows, topics=len(found.demand.topics))


def plan_child(place: str, brokers: str, cores: str, algorithm: str) -> None:
    """The steps of the verb, one after the other; Spark has ended before the planner begins."""
    from latecomer.cli.plan_log import LogOrder
    from latecomer.cli.plan_work import Order, make_plan
    from latecomer.model.evidence import evidence
    from latecomer.model.plan import PlanLimits, write_plan
    from latecomer.pipeline.classes import Classes
    from latecomer.pipeline.log import find_log
    from latecomer.pipeline.measure import measure
    from latecomer.pipeline.session import SparkSettings, session

    topology = network(int(brokers))
    with ExitStack() as stack:
        with step("start of Spark"):
            spark = stack.enter_context(session(SparkSettings(f"local[{cores}]", MEMORY, scratch=Path(place).parent)))
        with step("demand"):
            found = measure(spark, find_log(Path(place)), Classes(depth=DEPTH))
    told = evidence(found.demand, LogOrder(Path(place)).misplaced)
    assert not told.missing, f"{told.missing} requests are missing"
    limits = PlanLimits(stores=max(1, int(brokers) // STORES_PER), capacity=CAPACITY)
    parts = _Parts(algorithm)
    work = make_plan(Order(f"bench:{brokers}", topology, found.demand, limits), algorithm, parts)
    parts.end()
    with step("plan file"):
        written = write_plan(work.plan)
        Path(place, "plan.json").write_text(written)
    prediction = work.plan.prediction
    answer(records=found.rows, hops=prediction.hops_mean, gap=prediction.gap or 0.0)
    answer(before=found.distances.total.hops_mean)


class _Parts:
    """Hears what the planner is at."""

    def __init__(self, algorithm: str) -> None:
        self._names = {"distances": "problem", "votes": "votes", algorithm: SEARCH, "bound": "bound"}
        self._names["explanations"] = "explanations"
        self._open = ""
        self._context = step("")

    def __call__(self, what: str) -> None:
        # After the algorithm itself come the others, each by its own name, and the algorithm may be among them again.
        name = self._names.pop(what, "others")
        if name == self._open:
            return
        self.end()
        self._open, self._context = name, step(name)
        self._context.__enter__()

    def end(self) -> None:
        if self._open:
            self._context.__exit__(None, None, None)


# --- showing ---


def demand_table(book: Book, sizes: Iterable[LogSize]) -> Table:
    made = table(
        "5. from segments to demand, cold: time / processor time; every request leaves two records",
        ["log"],
        ["records", "on disk", "start of Spark", "demand", "records per processor second", "peak memory"],
    )
    for size in sizes:
        name = size_name(size)
        records, spent = book.get((DEMAND, name, "records")), book.get((DEMAND, name, "demand, cpu"))
        if not records or not spent:
            continue
        made.add_row(
            name,
            f"{records:,.0f}",
            f"{(book.get((DEMAND, name, 'bytes')) or 0) / 1e6:,.0f} MB",
            both(book, (DEMAND, name, "start of Spark")),
            both(book, (DEMAND, name, "demand")),
            f"{records / spent:,.0f}",
            gigabytes(book.get((DEMAND, name, "peak"))),
        )
    return made


def plan_table(book: Book, sizes: Sequence[LogSize], algorithm: str) -> Table:
    names = [size_name(size) for size in sizes]
    made = table(f"6. from the log to the plan ({algorithm}): time / processor time, peak memory", ["part"], names)
    measured = [part for part in PARTS if any(book.get((PLAN, name, part)) is not None for name in names)]
    for part in measured:
        made.add_row(
            algorithm if part == SEARCH else part,
            *(
                f"{both(book, (PLAN, name, part))}, [dim]{gigabytes(book.get((PLAN, name, f'{part}, bytes')))}[/]"
                for name in names
            ),
        )
    made.add_row("all, with imports", *(span(book.get((PLAN, name, "all"))) for name in names))
    made.add_row("peak memory", *(gigabytes(book.get((PLAN, name, "peak"))) for name in names))
    made.add_row("hops of a request before, measured", *(_two(book.get((PLAN, name, "before"))) for name in names))
    made.add_row("hops of a request planned", *(_two(book.get((PLAN, name, "hops"))) for name in names))
    made.add_row("above the bound", *(_share(book.get((PLAN, name, "gap"))) for name in names))
    made.add_row(f"within {LIMIT_S // 60} minutes and {LIMIT_GB} GB", *(_within(book, name) for name in names))
    return made


def both(book: Book, key: Key) -> str:
    """Time, and processor time, which Linux counts in hundredths of a second."""
    spent = book.get((key[0], key[1], f"{key[2]}, cpu"))
    return f"{span(book.get(key))} / {'< 10 ms' if spent == 0 else span(spent)}"


def gigabytes(value: float | None) -> str:
    return "–" if value is None else f"{value / 1e9:.2f} GB"


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2%}"


def _within(book: Book, name: str) -> str:
    seconds, peak = book.get((PLAN, name, "all")), book.get((PLAN, name, "peak"))
    if seconds is None or peak is None:
        return "–"
    return "yes" if seconds <= LIMIT_S and peak <= LIMIT_GB * 1e9 else "NO"
