"""`latecomer plan`: where stores go and who keeps what, with a proof of how good that is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from latecomer.cli.compiled import compiled_before
from latecomer.cli.extras import needed
from latecomer.cli.log_options import ClassesFile, Depth, Since, Until
from latecomer.cli.plan_files import LIVE, placed, read_demand_file, read_limits, read_network_words, write_text
from latecomer.cli.plan_log import LogOrder, measured
from latecomer.cli.plan_options import (
    AlgorithmName,
    Capacity,
    FromLog,
    Json,
    LimitsFile,
    LiveNetwork,
    MinReplicas,
    Misplaced,
    NetworkWords,
    Out,
    Plot,
    Replicas,
    SomeDemandFile,
    Stores,
    SurviveLoss,
    TokenFile,
)
from latecomer.cli.spark_options import MASTER, MEMORY, Conf, Master, Memory, opened
from latecomer.model.demand import Demand
from latecomer.model.errors import SettingsError
from latecomer.model.evidence import MISPLACED_MAX
from latecomer.model.plan import Distance, write_plan
from latecomer.model.toml_text import choose
from latecomer.model.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PICTURES = (".svg", ".png", ".pdf")


def plan(
    topology: NetworkWords = None,
    demand: SomeDemandFile = None,
    network: LiveNetwork = None,
    token_file: TokenFile = None,
    from_log: FromLog = None,
    classes: ClassesFile = None,
    depth: Depth = None,
    since: Since = "",
    until: Until = "",
    misplaced: Misplaced = MISPLACED_MAX,
    stores: Stores = None,
    capacity: Capacity = None,
    min_replicas: MinReplicas = None,
    replicas: Replicas = None,
    algorithm: AlgorithmName = "best",
    distance: Annotated[Distance, typer.Option(help="What is to be short.")] = "hops",
    limits: LimitsFile = None,
    survive_loss: SurviveLoss = False,
    out: Out = None,
    plot: Plot = None,
    json: Json = False,
    master: Master = MASTER,
    memory: Memory = MEMORY,
    conf: Conf = None,
) -> None:
    """Plan where stores go and which topics each keeps, and say how far that is from the best possible."""
    check_picture(plot)
    options = {"stores": stores, "capacity": capacity, "min_replicas": min_replicas, "survive_loss": survive_loss}
    options |= {"replica_rule": replicas}
    wishes = read_limits(limits, options)
    words, place = _network(topology, network, token_file)
    with libraries():
        from latecomer.cli.plan_votes import votes_from
        from latecomer.cli.plan_work import Order, known_algorithms, make_plan
        from latecomer.planner.explain import store_rows, topic_rows
    check_algorithm(algorithm, known_algorithms(), "--algorithm")
    votes = votes_from(master, memory, conf)
    with progress() as told:
        log = LogOrder(from_log, classes, depth, since, until, misplaced) if from_log is not None else None
        asked = _demand(demand, log, lambda: opened(master, memory, conf), told)
        try:
            work = make_plan(Order(words, place, asked, wishes, distance), algorithm, told, votes)
        except SettingsError as error:
            raise placed(error, demand or from_log, limits, options) from None
        if plot is not None:
            told("picture")
            with libraries():
                from latecomer.cli.plan_plot import draw
            draw(plot, place, work.plan, work.problem, work.placement)
    if out is not None:
        write_text(out, "--out", write_plan(work.plan))
    if json:
        sys.stdout.write(write_plan(work.plan))
        return
    from latecomer.cli.plan_tables import print_plan

    rows = store_rows(work.problem, work.placement), topic_rows(work.problem, work.placement)
    console = Console()
    print_plan(console, work.plan, work.problem, work.placement, rows)
    tell_written(console, out, plot)


def _network(topology: str | None, network: str | None, token_file: Path | None) -> tuple[str, Topology]:
    """How the network was named, and what it is."""
    if topology is not None and network is None:
        return topology, read_network_words(topology)
    if network is None or topology is not None:
        raise SettingsError("--topology", "name the network: either --topology, or --network for one that runs")
    words = f"{LIVE}{network}"
    return words, read_network_words(words, token_file)


def _demand(
    demand: Path | None,
    log: LogOrder | None,
    spark: Callable[[], AbstractContextManager[SparkSession]],
    told: Callable[[str], None],
) -> Demand:
    """From a file, or measured."""
    if demand is not None and log is None:
        return read_demand_file(demand)
    if log is None or demand is not None:
        raise SettingsError("--demand", "say who asks for what: either --demand, or --from-log to measure it")
    told("demand")
    return measured(log, spark)


def check_algorithm(name: str, known: Sequence[str], key: str, source: str | None = None) -> None:
    if name not in known:
        raise SettingsError(key, f"there is no {name[:40]!r}; {choose(name, known)}", source=source)


def check_picture(plot: Path | None) -> None:
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise SettingsError("--plot", f"{str(plot)!r} must end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}")


def tell_written(console: Console, out: Path | None, plot: Path | None) -> None:
    for what, file in (("plan", out), ("picture", plot)):
        if file is not None:
            console.print(f"The {what} is in {file}.", highlight=False, soft_wrap=True, markup=False)


def libraries() -> AbstractContextManager[None]:
    """What a plan needs and a broker does not."""
    return needed("plan")


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """What is being computed, on a terminal; nothing anywhere else."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    first = "" if compiled_before() else "[dim](the first plan on a machine compiles the planner: about a minute)"
    columns = (SpinnerColumn(), TextColumn("{task.description:<14}"), TimeElapsedColumn(), TextColumn(first))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda what: bar.update(task, description=what)
