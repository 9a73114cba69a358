"""`latecomer demo`: the whole loop on this machine, in a minute or two.

Brokers as processes, people who publish and people who come late, the log of all that on Spark, a plan, the plan
applied while everything goes on, and the same people again. What is told is what happened: numbers are counted by those
who asked, distances by Spark in the log, and a promise that was not kept ends the demo with an error.

All the while two commuters go from broker to broker. Behind everything that is measured, the broker that has their
sessions is killed. Last, on a ring of brokers, everybody changes their mind, and the brokers follow.
"""

from __future__ import annotations

import math
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
from latecomer.cli.as_json import print_json
from latecomer.cli.demo_commuters import CommuterFigures, Commuters, table_of
from latecomer.cli.demo_commuters import check as check_commuters
from latecomer.cli.demo_minds import MindFigures, change_minds
from latecomer.cli.demo_minds import check as check_minds
from latecomer.cli.demo_minds import table_of as minds_table
from latecomer.cli.demo_progress import Told, progress
from latecomer.cli.demo_traffic import AT_FIRST, DISTRICTS, TOPICS, Broken, People, Tally, topic_of
from latecomer.cli.live_network import Live, read_live
from latecomer.cli.plan import libraries
from latecomer.cli.spark_options import opened, spark_libraries
from latecomer.cli.traffic import check
from latecomer.model.applied import plan_id
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.plan import Plan, PlanLimits, Prediction, write_plan
from latecomer.runtime.network_file import Network, placed, shaped, with_routing
from latecomer.runtime.supervisor import Supervisor, taken_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from latecomer.pipeline.measure import Measured

BROKERS = 8
RING_BROKERS = 8
REQUESTS = 300
LEVELS = 2
"""Of a topic, `city/north/air`, that make its class."""
STORES, CAPACITY = 3, 4
SEGMENT_S = 1.0
PATIENCE_S = 60.0
TRIES = 50
PORTS = (20_000, 28_000)
WARM_UP = "from latecomer.cli import demo_minds, plan_work; plan_work.warm_up(); demo_minds.warm_up()"

PLAN, ANALYSIS, RING = "plan.json", "analysis", "ring"


def demo(
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep everything in this new folder: network, log, plan, tables, report."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the figures as JSON, and what happens to standard error.")
    ] = False,
) -> None:
    """Try everything in a minute: a network, traffic, its log on Spark, a plan, and what applying it brought.

    Two clients move from broker to broker meanwhile, and a broker that has their sessions is killed. Last, brokers on a
    ring follow subscribers who change their minds.
    """
    with spark_libraries(), libraries():
        import latecomer.cli.plan_work
        import latecomer.pipeline.measure  # noqa: F401
    console = Console(highlight=False, stderr=json)
    with _folder(keep) as folder, progress(console) as told:
        figures = Loop(folder, console, told, keep).run()
    print_next(console, keep)
    if json:
        print_json(figures)


class PhaseFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How latecomers fared, before the plan or after it."""

    stores: int
    requests: int
    events: int
    lost: int
    repeated: int
    disordered: int
    hops_mean: float
    hops_error: float
    """Standard error of the mean."""


class DemoFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    before: PhaseFigures
    predicted_hops_mean: float
    after: PhaseFigures
    commuters: tuple[CommuterFigures, ...]
    minds: MindFigures


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

    def run(self) -> DemoFigures:
        warming = subprocess.Popen([sys.executable, "-c", WARM_UP], stdout=subprocess.DEVNULL)
        try:
            before, plan, after, commuters = self._loop(warming)
            minds = self._change_minds(warming)
        finally:
            warming.kill()
            warming.wait()
        predicted = plan.prediction.hops_mean
        return DemoFigures(before=before, predicted_hops_mean=predicted, after=after, commuters=commuters, minds=minds)

    def _loop(
        self, warming: subprocess.Popen[bytes]
    ) -> tuple[PhaseFigures, Plan, PhaseFigures, tuple[CommuterFigures, ...]]:
        supervisor = Supervisor(self.network, self.folder)
        try:
            self.told(f"starting {BROKERS} brokers", 0, 0)
            supervisor.start()
            live = self._meet()
            people = People(self.network, self.since_us)
            commuters = Commuters(self.network)
            try:
                commuters.begin()
                before, plan, after = self._act(live, people, warming)
                return before, plan, after, self._lose_broker(commuters, people, plan, supervisor)
            finally:
                commuters.close()
                people.close()
        finally:
            supervisor.stop()

    def _act(
        self, live: Live, people: People, warming: subprocess.Popen[bytes]
    ) -> tuple[PhaseFigures, Plan, PhaseFigures]:
        from latecomer.pipeline.session import QUICK

        people.begin(lambda done: self.told("publishing", done, AT_FIRST))
        self.say(
            f"{len(DISTRICTS)} districts publish and go on publishing; [bold]{REQUESTS} latecomers[/] ask for all of a "
            f"district since the beginning, wherever they are. [bold]Two commuters[/] subscribe to everything and go "
            f"to another broker every second; their sessions follow them."
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
        return phase_figures(early, before, 1), plan, phase_figures(late, after, len(plan.stores))

    # -- the acts ------------------------------------------------------------------------------------------------------

    def _meet(self) -> Live:
        live = when_joined(self.folder, self.network)
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
            begun = time.monotonic()  # a look may take longer than patience where a machine is busy
            found = measure(spark, find_log(self.folder), Classes(depth=LEVELS), Window(since_us, _now_us()))
            if found.distances.total.served >= tally.requests:
                return found
            if begun > until:
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
        self.say(
            f"Spark counted who asked for what and where in {measured.rows:,} records. "
            f"The plan, {how_good(plan.prediction)}: stores at [bold]{stores}[/], "
            f"and the nearest [bold]{plan.prediction.hops_mean:.2f} hops[/] away."
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

    def _lose_broker(
        self, commuters: Commuters, people: People, plan: Plan, supervisor: Supervisor
    ) -> tuple[CommuterFigures, ...]:
        """Nothing is measured any more, so that a broker may go."""
        self.told("commuters come to rest", 0, 0)
        commuters.halt()
        victim = to_be_killed(self.network, plan)
        self.told(f"{victim} is killed", 0, 0)
        commuters.lose_broker(victim, supervisor)
        self.told("commuters catch up", 0, 0)
        found = commuters.finish({topic_of(district): owed for district, owed in people.acknowledged.items()})
        refusals = sum(one.refusals for one in found)
        self.say(
            f"At last {victim}, which had both commuters' sessions, was [bold]killed with SIGKILL[/] while they were "
            f"away. At other brokers they were told {refusals} times to try again (0x88), and when {victim} was back "
            f"they got what they had missed."
        )
        self.console.print(table_of(found))
        check_commuters(found)
        return found

    def _change_minds(self, warming: subprocess.Popen[bytes]) -> MindFigures:
        if warming.poll() is None:
            self.told("compiling the planner of rings (once on a machine)", 0, 0)
            warming.wait()
        found = change_minds(free_ring(), self.folder / RING, self.told)
        self.say(
            f"Last, [bold]{RING_BROKERS} brokers on a ring[/], whose subscribers all changed their minds. By what was "
            f"counted then, {found.moved} of them were to stand elsewhere; {found.seconds:.1f} s later they did, while "
            f"everybody went on publishing."
        )
        self.console.print(minds_table(found))
        check_minds(found)
        return found

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


def free_ring() -> Network:
    """Brokers that route by rendezvous, on ports that nobody uses."""
    chance = random.Random()
    for _ in range(TRIES):
        network = with_routing(placed(shaped("full", RING_BROKERS), chance.randrange(*PORTS)), "rendezvous")
        if taken_port(network) is None:  # its log would be read together with that of the other brokers
            settings = {**network.settings, "event_log": {"enabled": False}}
            return msgspec.structs.replace(network, settings=settings)
    raise Broken(f"no free ports were found for {RING_BROKERS} brokers: end whatever uses those from {PORTS[0]}")


def when_joined(folder: Path, network: Network) -> Live:
    """The network when its brokers have found one another: each of them listens before all links are up."""
    end = time.monotonic() + PATIENCE_S
    while True:
        live = read_live(str(folder))
        if len(live.topology.nodes) == len(network.brokers) and len(live.topology.links) == len(network.links):
            return live
        if time.monotonic() > end:
            told = f"only {len(live.topology.nodes)} of {len(network.brokers)} brokers found one another"
            raise Broken(f"{told} within {PATIENCE_S:g} s: is this machine very busy? See broker.log in {folder}")
        time.sleep(0.1)


def to_be_killed(network: Network, plan: Plan) -> BrokerId:
    """A broker without publishers, which would only wait for it, and preferably without a store."""
    free = [seat.id for seat in network.brokers[len(DISTRICTS) :]]
    return min(free, key=lambda broker: broker in plan.stores)


def phase_figures(tally: Tally, measured: Measured, stores: int) -> PhaseFigures:
    total = measured.distances.total
    return PhaseFigures(
        stores=stores,
        requests=tally.requests,
        events=tally.events,
        lost=tally.lost,
        repeated=tally.repeated,
        disordered=tally.disordered,
        hops_mean=total.hops_mean,
        hops_error=total.hops_error,
    )


def how_good(prediction: Prediction) -> str:
    """How far a plan is from the best one, rounded up: what is not proven is not said."""
    if prediction.optimal or prediction.gap == 0:
        return "proven to be the best there is"
    if prediction.gap is None:
        return "the best that was found"
    return f"within {math.ceil(prediction.gap * 1000) / 1000:.1%} of the best"


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
