"""Which clients would be better at which broker, from who subscribes to what; on Spark, as it grows with clients."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.subscriptions import Change, Subscription
from latecomer.pipeline.classes import NONE, Classes, with_classes
from latecomer.pipeline.log import ALWAYS, Log, read_segments
from latecomer.pipeline.log import Window as LogWindow
from latecomer.pipeline.measure import found_classes
from latecomer.pipeline.stages.homes import better_homes, both, broker_subscriptions, effective, flips, largest_loads
from latecomer.pipeline.stages.records import judged, sound, within
from latecomer.pipeline.stages.similarity import Form, similarities
from latecomer.pipeline.stages.subscriptions import changes as subscription_changes
from latecomer.pipeline.stages.tally import tally

HYSTERESIS = 0.2
MOST = 0.1


class HomesWish(msgspec.Struct, frozen=True):
    """How homes are judged."""

    form: Form = "cheap"
    own: bool = False
    """A client's own subscriptions count at its present broker, as the paper's text says."""
    load_weight: float | None = None
    """None: 0.2 times the brokers of the cluster."""
    hysteresis: float = HYSTERESIS
    most: float = MOST
    """Share of the clients that may move at once; those that gain most go first."""

    def check(self) -> None:
        if self.load_weight is not None and not (math.isfinite(self.load_weight) and self.load_weight >= 0):
            raise SettingsError("--load-weight", f"{self.load_weight}; it must not be negative")
        if not (math.isfinite(self.hysteresis) and self.hysteresis >= 0):
            raise SettingsError("--hysteresis", f"{self.hysteresis}; it must not be negative")
        if not 0 < self.most <= 1:
            raise SettingsError("--most", f"{self.most} is not a share above 0 and up to 1")


class HomeMove(msgspec.Struct, frozen=True):
    """A client that would be better elsewhere."""

    client: ClientId
    home: BrokerId
    broker: BrokerId
    similarity_before: float
    similarity_after: float
    gain: float


class HomesState(msgspec.Struct, frozen=True):
    """What homes amount to."""

    broker_subscriptions: int
    """Topics that brokers subscribe to, added up over brokers."""
    load_max: float
    """The largest load of a broker, in times the mean of its cluster."""
    changes: int | None = None
    """How often brokers' own subscriptions change in the changes of clients that were given."""


class HomesAdvice(msgspec.Struct, frozen=True):
    """Who should move, and what that brings."""

    clients: int
    brokers: int
    wished: int
    """Clients that would be better elsewhere, also those above the limit of moves."""
    moves: tuple[HomeMove, ...]
    before: HomesState
    after: HomesState
    joined: int
    """Subscriptions of brokers that the moves begin."""
    left: int
    """And those that they end."""
    client_changes: int | None = None


def advise(
    spark: SparkSession,
    held: DataFrame,
    clusters: Mapping[BrokerId, str],
    wish: HomesWish,
    changes: DataFrame | None = None,
) -> HomesAdvice:
    """`held`: (client, broker, topic); `changes`: (number, client, home, topic, began), from there on."""
    wish.check()
    members = spark.createDataFrame(pa.table({"broker": list(clusters), "cluster": list(clusters.values())}))
    with _persisted(held.distinct()) as now:
        better = better_homes(similarities(now, members, wish.form, own=wish.own), wish.load_weight, wish.hysteresis)
        found = sorted(
            (HomeMove(**row.asDict()) for row in better.collect()), key=lambda move: (-move.gain, move.client)
        )
        clients = now.select("client").distinct().count()
        moves = tuple(found[: max(1, math.floor(wish.most * clients))])
        names = {name: pa.array([getattr(move, name) for move in moves], pa.string()) for name in ("client", "broker")}
        twice = both(now, spark.createDataFrame(pa.table(names)))
        sums = broker_subscriptions(twice).collect()[0]
        loads = {row["moved"]: row["load"] for row in largest_loads(twice, members).collect()}
        told: int | None = None
        passed: dict[bool, int | None] = {False: None, True: None}
        if changes is not None:
            counts = flips(effective(changes, now), twice).collect()
            told = max((row["changes"] for row in counts), default=0)
            passed = {False: 0, True: 0} | {row["moved"]: row["flips"] for row in counts}
    return HomesAdvice(
        clients=clients,
        brokers=len(clusters),
        wished=len(found),
        moves=moves,
        before=HomesState(sums["before"], loads[False], passed[False]),
        after=HomesState(sums["after"], loads[True], passed[True]),
        joined=sums["joined"],
        left=sums["left"],
        client_changes=told,
    )


# -- where subscriptions come from


def held_of(spark: SparkSession, subscriptions: Sequence[Subscription]) -> DataFrame:
    columns = {name: pa.array([getattr(one, name) for one in subscriptions]) for name in Subscription.__struct_fields__}
    return spark.createDataFrame(pa.table(columns))


def changes_of(spark: SparkSession, changes: Sequence[Change]) -> DataFrame:
    kinds = {"client": pa.string(), "topic": pa.string(), "began": pa.bool_()}  # said, as there may be no changes
    columns = {name: pa.array([getattr(one, name) for one in changes], kind) for name, kind in kinds.items()}
    numbers = pa.array(range(len(changes)), pa.int64())
    homes = pa.nulls(len(changes), pa.string())  # who changes anything has a subscription, and so a home
    return spark.createDataFrame(pa.table({"number": numbers, "home": homes, **columns}))


class Logged(msgspec.Struct, frozen=True):
    """What the subscriptions of a log are for `advise`."""

    held: DataFrame
    changes: DataFrame
    brokers: tuple[BrokerId, ...]


def logged(
    spark: SparkSession, log: Log, classes: Classes, window: LogWindow | None = None, *, now_us: Instant | None = None
) -> Logged:
    """Subscriptions by class at the end of the window, at the broker where each client was last; and the changes in it,
    to be played again from there.
    """
    wanted = window or ALWAYS
    now = time.time_ns() // 1000 if now_us is None else now_us
    rows = within(judged(read_segments(spark, log.within(wanted)), now), wanted)
    if not classes.filters:
        classes = found_classes(tally(rows), classes.depth)
    changed = subscription_changes(sound(rows)).where("client != ''")
    names = with_classes(changed.select("filter").distinct(), "filter", classes).where(F.col("class") != NONE)
    told = changed.join(names.select("filter", "class"), "filter")
    numbered = told.select(F.col("at_us").alias("number"), "client", "broker", F.col("class").alias("topic"), "began")
    homes = numbered.groupBy("client").agg(F.max_by("broker", F.struct("number", "broker")).alias("broker"))
    last = numbered.groupBy("client", "topic").agg(F.max_by("began", F.struct("number", "began")).alias("stands"))
    brokers = tuple(row["broker"] for row in homes.select("broker").distinct().orderBy("broker").collect())
    if not brokers:
        raise LatecomerError(f"{log.folder}: nobody subscribed to anything in this window; name another")
    held = last.where("stands").join(homes, "client").select("client", "broker", "topic")
    changes = numbered.drop("broker").join(homes.withColumnRenamed("broker", "home"), "client")
    return Logged(held, changes, brokers)


@contextmanager
def _persisted(table: DataFrame) -> Iterator[DataFrame]:
    table = table.persist()
    try:
        yield table
    finally:
        table.unpersist()
