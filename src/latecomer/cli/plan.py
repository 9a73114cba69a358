"""`latecomer plan`: where stores go and who keeps what, with a proof of how good that is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from latecomer.cli.plan_files import placed, read_demand_file, read_limits, read_network_words, write_text
from latecomer.model.errors import SettingsError
from latecomer.model.plan import Distance, write_plan
from latecomer.model.toml_text import choose

PICTURES = (".svg", ".png", ".pdf")
EXTRA = ("numpy", "numba", "scipy", "highspy", "matplotlib")

NETWORK_HELP = (
    "zoo.jsonl:Abilene, net.graphml, network.toml, or a rule as in a scenario: "
    "tree:15,3, ring:8, random:brokers=30,extra_links=10,seed=4."
)
Network = Annotated[str, typer.Option(metavar="NETWORK", help=NETWORK_HELP)]
DemandFile = Annotated[
    Path, typer.Option(metavar="FILE", help="Who asks for what and how often: JSON, or CSV topic,broker,rate.")
]
Out = Annotated[Path | None, typer.Option(metavar="PLAN.json", help="Write the plan there.")]
Json = Annotated[bool, typer.Option("--json", help="Print the plan as JSON, and nothing else.")]
Plot = Annotated[Path | None, typer.Option(metavar="PICTURE", help="Draw the network with it: .svg, .png or .pdf.")]


def plan(
    topology: Network,
    demand: DemandFile,
    stores: Annotated[
        int | None, typer.Option(metavar="M", help="How many stores; else as few as hold everything.")
    ] = None,
    capacity: Annotated[
        str | None, typer.Option(metavar="L", help="Of each store: topics, as in 5, or bytes, as in 20GB.")
    ] = None,
    min_replicas: Annotated[
        int | None, typer.Option(metavar="K", help="Of the lightest topic; else all room is shared by weight.")
    ] = None,
    algorithm: Annotated[str, typer.Option(help="best, refine, wrr, seq, grd_opt, rnd.")] = "best",
    distance: Annotated[Distance, typer.Option(help="What is to be short.")] = "hops",
    limits: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="TOML or JSON: sizes, rates, domains, pins; see docs/reference/plan-file.md."
        ),
    ] = None,
    survive_loss: Annotated[
        bool, typer.Option("--survive-loss", help="The plan that is best after the loss of any one store.")
    ] = False,
    out: Out = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Plan where stores go and which topics each keeps, and say how far that is from the best possible."""
    check_picture(plot)
    options = {"stores": stores, "capacity": capacity, "min_replicas": min_replicas, "survive_loss": survive_loss}
    wishes = read_limits(limits, options)
    asked, network = read_demand_file(demand), read_network_words(topology)
    with libraries():
        from latecomer.cli.plan_work import Order, known_algorithms, make_plan
        from latecomer.planner.explain import store_rows, topic_rows
    check_algorithm(algorithm, known_algorithms(), "--algorithm")
    with progress() as told:
        try:
            work = make_plan(Order(topology, network, asked, wishes, distance), algorithm, told)
        except SettingsError as error:
            raise placed(error, demand, limits, options) from None
        if plot is not None:
            told("picture")
            with libraries():
                from latecomer.cli.plan_plot import draw
            draw(plot, network, work.plan, work.problem, work.placement)
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


@contextmanager
def libraries() -> Iterator[None]:
    """What a plan needs and a broker does not; a sentence when it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRA:
            raise
        raise SettingsError("", f"{name} is missing; install it with: pip install 'latecomer[plan]'") from None


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """What is being computed, on a terminal; nothing anywhere else."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    hint = TextColumn("[dim](the first plan on a machine compiles the planner: about a minute)")
    columns = (SpinnerColumn(), TextColumn("{task.description:<14}"), TimeElapsedColumn(), hint)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda what: bar.update(task, description=what)
