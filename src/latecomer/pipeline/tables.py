"""The tables of one analysis, each written once and read by those that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.pipeline.classes import Classes
from latecomer.pipeline.log import Window
from latecomer.pipeline.output import Run, read_table
from latecomer.pipeline.stages.demand import demand
from latecomer.pipeline.stages.distances import answers, distances, hops
from latecomer.pipeline.stages.hand_overs import hand_overs
from latecomer.pipeline.stages.publications import publication_rates
from latecomer.pipeline.stages.rates import counts_of, filtered, periods_of, rates
from latecomer.pipeline.stages.records import brokers_seen
from latecomer.pipeline.stages.sessions import sessions
from latecomer.pipeline.stages.subscriptions import changes, matrix, subscriptions
from latecomer.pipeline.stages.timeline import timeline
from latecomer.pipeline.stages.transitions import transitions
from latecomer.pipeline.stages.visits import visits
from latecomer.pipeline.stages.zipf import popularity

PERIODS_MAX = 100_000
SPREAD_FILES = 4
"""Of tables with a row for each client."""
PLACE = ("class", "broker")


@dataclass(slots=True)
class Tables:
    """What is known when they are computed."""

    spark: SparkSession
    run: Run
    records: DataFrame
    classes: Classes
    window: Window
    period_s: int
    tell: Callable[[str], None]

    def write_all(self, brokers: Collection[BrokerId] | None) -> None:
        """In the order in which they follow from one another; `brokers` are all there are, if that is known."""
        first, last = periods_of(self.window.since_us, self.window.until_us - 1, self.period_s)
        if last - first >= PERIODS_MAX:
            told = f"{self.period_s} s make {last - first + 1:,} periods of this log, more than {PERIODS_MAX:,}"
            raise SettingsError("--period", f"{told}; take longer ones, or a shorter window")
        seen = self._write("brokers", brokers_seen(self.records), ("broker",))
        self._write("timeline", timeline(self.records, self.period_s, first, last), ("begin_us",))
        self.write_demand(first, last, seen.count() if brokers is None else len(brokers))
        self.write_clients()

    def write_demand(self, first: int, last: int, brokers: int) -> None:
        """What is asked for and published, from the first to the last period; by how many brokers there are."""
        both = self._write("rates", rates(self.records, self.classes, self.period_s), (*PLACE, "begin_us"))
        followed = filtered(counts_of(both, "requests", self.period_s), first, last)
        found = self._write("demand", demand(followed, self.window), PLACE)
        self._write("popularity", popularity(found, self.classes.filters, brokers), ("popularity_rank",))
        followed = filtered(counts_of(both, "publications", self.period_s), first, last)
        self._write("publications", publication_rates(followed, self.window), PLACE)
        answered = answers(self.records)
        self._write("distances", distances(answered, self.classes), PLACE)
        self._write("hops", hops(answered), ("broker", "hops"))

    def write_clients(self) -> None:
        """Who subscribes, and who moves."""
        changed = changes(self.records)
        self._write("subscriptions", subscriptions(changed, self.classes), PLACE)
        self._write("matrix", matrix(changed), ("client", "broker", "filter"), SPREAD_FILES)
        stays = self._write(
            "sessions", sessions(self.records), ("client", "begin_us", "broker", "end_us"), SPREAD_FILES
        )
        stays = self._write("visits", visits(stays), ("client", "visit"), SPREAD_FILES)
        self._write("transitions", transitions(stays), ("from_broker", "to_broker"))
        self._write("hand_overs", hand_overs(self.records), ("from_broker", "to_broker", "algorithm"))

    def _write(self, name: str, table: DataFrame, sort: tuple[str, ...], files: int = 1) -> DataFrame:
        self.tell(name)
        path = self.run.write(table, name, sort=sort, files=files)
        return read_table(self.spark, path, schema=table.schema)
