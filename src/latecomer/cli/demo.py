"""`latecomer demo`: the whole loop on this machine, in about a minute.

Brokers as processes, people who publish and people who come late, the log of all that on Spark, a plan, the plan
applied while everything goes on, and the same people again. What is told is what happened: numbers are counted by those
who asked, distances by Spark in the log, and a promise that was not kept ends the demo with an error.
"""

from __future__ import annotations

import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from latecomer.cli.apply import carry_out
from latecomer.cli.apply_work import Work, steps_to, survey
from latecomer.cli.demo_progress import Told, progress
from latecomer.cli.demo_traffic import AT_FIRST, DISTRICTS, TOPICS, Broken, People, Tally
from latecomer.cli.live_network import Live, read_live
from latecomer.cli.plan import libraries
from latecomer.cli.spark_options import opened, spark_libraries
from latecomer.cli.traffic import check
from latecomer.model.applied import plan_id
from latecomer.model.errors import SettingsError
from latecomer.model.plan import Plan, PlanLimits, write_plan
from latecomer.runtime.network_file import Network, placed, shaped
from latecomer.runtime.supervisor import Supervisor, taken_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from latecomer.pipeline.measure import Measured

BROKERS = 8
REQUESTS = 300
LEVELS = 2
"""Of a topic, `city/north/air`, that make its class."""
STORES, CAPACITY = 3, 4
SEGMENT_S = 1.0
PATIENCE_S = 60.0
TRIES = 50
PORTS = (20_000, 28_000)
WARM_UP = "from latecomer.cli.plan_work import warm_up; warm_up()"

PLAN, ANALYSIS = "plan.json", "analysis"


def demo(
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep everything in this new folder: network, log, plan, tables, report."),
    ] = None,
) -> None:
    """Try everything in a minute: a network, traffic, its log on Spark, a plan, and what applying it brought."""
    with spark_libraries(), libraries():
        import latecomer.cli.plan_work
        import latecomer.pipeline.measure  # noqa: F401
    console = Console(highlight=False)
    with _folder(keep) as folder, progress(console) as told:
        Loop(folder, console, told, keep).run()
    print_next(console, keep)


class Loop:
    """The acts of the demo, and what is known after each."""

    def __init__(self, folder: Path, console: Console, told: Told, keep: Path | None = None) -> None:
        self.folder = folder
        self.console = console
        self.told = told
        self.keep = keep
        """Where somebody wants to look at everything afterwards."""
        self.network = free_network()
        self.since_us = 0
        """From when on the first store has everything."""

    def run(self) -> None:
        warming = subprocess.Popen([sys.executable, "-c", WARM_UP], stdout=subprocess.DEVNULL)
        supervisor = Supervisor(self.network, self.folder)
        try:
            self.told(f"starting {BROKERS} brokers", 0, 0)
            supervisor.start()
            live = self._meet()
            people = People(self.network, self.since_us)
            try:
                self._act(live, people, warming)
            finally:
                people.close()
        finally:
            warming.kill()
            warming.wait()
            supervisor.stop()

    def _act(self, live: Live, people: People, warming: subprocess.Popen[bytes]) -> None:
        from latecomer.pipeline.session import QUICK

        people.begin(lambda done: self.told("publishing", done, AT_FIRST))
        self.say(
            f"{len(DISTRICTS)} districts publish and go on publishing; [bold]{REQUESTS} latecomers[/] ask for all of a "
            f"district since the beginning, wherever they are."
        )
        before_us = _now_us()
        early = self._asked(people, "latecomers ask", 1)
        self.told("starting Spark", 0, 0)
        with opened("local[*]", "2g", [f"spark.driver.extraJavaOptions={QUICK}"]) as spark:
            self.told("reading the log on Spark", 0, 0)
            before = self._measured(spark, before_us, early)
            plan = self._plan(live, before, warming)
            self._apply(live, plan)
            after_us = _now_us()
            late = self._asked(people, "others ask", 2)
            self.told("reading the log on Spark", 0, 0)
            after = self._measured(spark, after_us, late)
            if self.keep is not None:
                self._report(spark)
        self._close(plan, (early, before), (late, after))

    # -- the acts ------------------------------------------------------------------------------------------------------

    def _meet(self) -> Live:
        live = read_live(str(self.folder))
        keeper = self.network.brokers[0].id
        store = live.stores(keeper).store
        assert store is not None
        self.since_us = store.complete_since_us
        ports = f"{self.network.brokers[0].port} to {self.network.brokers[-1].port}"
        self.say(
            f"[bold]{BROKERS} brokers[/] listen on 127.0.0.1, ports {ports}; any MQTT client may join. One of them, "
            f"{keeper}, keeps what is published: [bold]{TOPICS}[/]."
        )
        return live

    def _asked(self, people: People, what: str, seed: int) -> Tally:
        tally = people.ask(REQUESTS, seed, lambda done: self.told(what, done, REQUESTS))
        check(tally)
        self.say(
            f"They got {tally.events:,} events, each once and in order, from stores "
            f"[bold]{tally.hops / tally.requests:.2f} hops[/] away."
        )
        return tally

    def _measured(self, spark: SparkSession, since_us: int, tally: Tally) -> Measured:
        """The log from an instant on; the last segments come a moment later."""
        from latecomer.pipeline.classes import Classes
        from latecomer.pipeline.log import Window, find_log
        from latecomer.pipeline.measure import measure

        until = time.monotonic() + PATIENCE_S
        while True:
            found = measure(spark, find_log(self.folder), Classes(depth=LEVELS), Window(since_us, _now_us()))
            if found.distances.total.served >= tally.requests:
                return found
            if time.monotonic() > until:
                told = f"{found.distances.total.served} of {tally.requests} requests"
                raise Broken(f"the log knows of {told} after {PATIENCE_S:g} s")
            time.sleep(SEGMENT_S / 2)

    def _plan(self, live: Live, measured: Measured, warming: subprocess.Popen[bytes]) -> Plan:
        from latecomer.cli.plan_work import Order, make_plan

        if warming.poll() is None:
            self.told("compiling the planner (once on a machine)", 0, 0)
            warming.wait()
        self.told("planning", 0, 0)
        limits = PlanLimits(stores=STORES, capacity=CAPACITY)
        order = Order(f"live:{self.folder}", live.topology, measured.demand, limits)
        plan = make_plan(order, "best", lambda what: None).plan
        (self.folder / PLAN).write_text(write_plan(plan))
        stores = ", ".join(plan.stores)
        proof = (
            "proven to be the best" if plan.prediction.optimal else f"within {plan.prediction.gap or 0:.1%} of the best"
        )
        self.say(
            f"Spark counted who asked for what and where in {measured.rows:,} records. The plan, {proof}: stores at "
            f"[bold]{stores}[/], and the nearest [bold]{plan.prediction.hops_mean:.2f} hops[/] away."
        )
        return plan

    def _apply(self, live: Live, plan: Plan) -> None:
        found = survey(live, plan, sizes=True)
        steps = steps_to(plan, live, found, [TOPICS], keep_old=False)

        def tell(what: str, broker: str, topics: tuple[str, ...], events: int, expected: int) -> None:
            self.told(f"{what} {broker}", events, expected)

        work = Work(live, plan, plan_id(plan), 2, PATIENCE_S, tell)
        carry_out(self.folder / PLAN, work, steps, found)
        self.say(
            f"The plan was applied in {len(steps)} steps while everything went on: stores were filled, answered, and "
            f"only then was the old one withdrawn."
        )

    def _report(self, spark: SparkSession) -> None:
        from latecomer.pipeline.classes import Classes
        from latecomer.pipeline.job import Wish, analyze

        def tell(what: str) -> None:
            self.told(f"report: {what}", 0, 0)

        analyze(spark, self.folder, self.folder / ANALYSIS, Wish(Classes(depth=LEVELS)), tell=tell)

    def _close(self, plan: Plan, early: tuple[Tally, Measured], late: tuple[Tally, Measured]) -> None:
        before, after = early[1].distances.total, late[1].distances.total
        table = Table(box=SIMPLE_HEAD, title="The loop, closed", title_justify="left")
        for heading in ("", "before", "predicted", "after"):
            table.add_column(heading, justify="left" if not heading else "right")
        table.add_row(
            "hops to the store, mean",
            f"{before.hops_mean:.2f} ± {1.96 * before.hops_error:.2f}",
            f"{plan.prediction.hops_mean:.2f}",
            f"{after.hops_mean:.2f} ± {1.96 * after.hops_error:.2f}",
        )
        table.add_row("stores", "1", str(len(plan.stores)), str(len(plan.stores)))
        for name in ("requests", "events", "lost", "repeated"):
            table.add_row(name, f"{getattr(early[0], name):,}", "", f"{getattr(late[0], name):,}")
        self.console.print(table)
        if after.hops_mean >= before.hops_mean:
            raise Broken("the plan did not bring the stores nearer")

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=False, width=min(self.console.width, 110))


def free_network() -> Network:
    """Brokers in a tree, on ports that nobody uses; the first one keeps everything."""
    chance = random.Random()
    for _ in range(TRIES):
        network = placed(shaped("tree", BROKERS), chance.randrange(*PORTS))
        if taken_port(network) is None:
            first, *others = network.brokers
            seats = (msgspec.structs.replace(first, store=(TOPICS,)), *others)
            settings = {"event_log": {"segment_s": SEGMENT_S}}
            return msgspec.structs.replace(network, brokers=seats, settings=settings)
    raise Broken(f"no free ports were found for {BROKERS} brokers: end whatever uses those from {PORTS[0]} to 31000")


def print_next(console: Console, keep: Path | None) -> None:
    """Where things are, and three commands to go on with."""
    if keep is None:
        commands = (
            ("latecomer demo --keep demo", "the same, with everything to look at afterwards"),
            ("latecomer up --brokers 4 --store 'b2=sensors/#'", "a network of your own"),
            ("latecomer --help", "all verbs"),
        )
    else:
        console.print(
            f"Everything is in {keep}; the report is {keep / ANALYSIS / 'latest' / 'report.html'}.", soft_wrap=True
        )
        plan, folder = shlex.quote(str(keep / PLAN)), shlex.quote(str(keep))
        commands = (
            (f"latecomer verify {plan} --log {folder}", "whether the plan kept its promise, from the log"),
            (f"latecomer up --data {folder}", "the network again, on the same ports"),
            (f"latecomer traffic --network {folder}", "more traffic for it, in another terminal"),
        )
    console.print("What next:")
    width = max(len(command) for command, _ in commands)
    for command, what in commands:
        console.print(f"  {command:<{width}}   # {what}", soft_wrap=True, markup=False)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="latecomer-demo-") as folder:
            yield Path(folder)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise SettingsError("--keep", f"{keep} is not an empty folder; name a new one")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep.absolute()


def _now_us() -> int:
    return time.time_ns() // 1000
