"""Records → sessions: when which client was connected where."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from latecomer.model.record import Kind

CONNECTED, DISCONNECTED = Kind.CONNECTED.value, Kind.DISCONNECTED.value


def sessions(records: DataFrame) -> DataFrame:
    """One row for every connection.

    It ends when the broker noted its end; when the client connected there again, if it did not (the broker was killed);
    or it is open at the end of the log, and `end_us` is null. At one instant the end of a connection comes before the
    beginning of the next: a client that takes over its own session.
    """
    changes = records.where(f.col("kind").isin(CONNECTED, DISCONNECTED) & (f.col("client") != ""))
    order = Window.partitionBy("client", "broker").orderBy("at_us", f.desc("kind"), "cause")
    following = changes.select(
        "client",
        "broker",
        "kind",
        f.col("at_us").alias("begin_us"),
        f.lead("at_us").over(order).alias("end_us"),
        f.lead("kind").over(order).alias("next_kind"),
    )
    ended = f.when(f.col("next_kind").isNull(), "open").when(f.col("next_kind") == CONNECTED, "reconnected")
    return following.where(f.col("kind") == CONNECTED).select(
        "client", "broker", "begin_us", "end_us", ended.otherwise(DISCONNECTED).alias("ended")
    )
