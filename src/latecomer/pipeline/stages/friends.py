"""Who follows whom: four friends of every user, by chance that is the same in every run (dynatops V.A.1).

Without a list of friendships, every user follows others as in the paper, "randomly choose 4 other users as friends".
All users stand in a ring in the order of a hash. The ring without the user is cut into as many arcs as friends are
wanted, and one is drawn from each: nobody follows themselves, or anybody twice.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from latecomer.pipeline.schemas_checkins import FRIENDS

FOLLOWED = 4


def friends_by_chance(visits: DataFrame, *, followed: int = FOLLOWED, seed: int = 0) -> DataFrame:
    """Every user with `followed` others, or with all if there are fewer."""
    users = visits.select("user").distinct()
    ring = Window.orderBy(F.xxhash64(F.lit(seed), "user"), "user")
    seats = users.select("user", (F.row_number().over(ring) - 1).cast("long").alias("seat"))
    everyone = users.agg(F.count("*").alias("users"))
    arcs = seats.crossJoin(F.broadcast(everyone)).withColumn(
        "arc", F.explode(F.sequence(F.lit(0), F.lit(followed - 1)))
    )
    others = F.col("users") - 1
    start = F.expr(f"arc * (users - 1) div {followed}")
    length = F.expr(f"(arc + 1) * (users - 1) div {followed}") - start
    drawn = F.pmod(F.xxhash64(F.lit(seed), "user", "arc"), F.when(length > 0, length))
    followed_seat = F.pmod(F.col("seat") + 1 + start + drawn, others + 1)
    chosen = arcs.where(length > 0).select("user", followed_seat.alias("seat"))
    return chosen.join(seats.withColumnRenamed("user", "friend"), "seat").select(*FRIENDS.fieldNames())


def friends_of_list(visits: DataFrame, friendships: DataFrame, *, followed: int = FOLLOWED, seed: int = 0) -> DataFrame:
    """Every user with `followed` of those in the list, of either direction, who checked in too; or with all of them."""
    good = friendships.where(F.col("problem").isNull()).select("user", "friend")
    both = good.union(good.select("friend", "user")).where(F.col("user") != F.col("friend"))
    users = visits.select("user").distinct()
    friends = users.withColumnRenamed("user", "friend")
    # First by friend, then by user: nothing that follows has to be dealt out once more.
    seen = both.join(friends.hint("shuffle_hash"), "friend", "left_semi")
    seen = seen.join(users.hint("shuffle_hash"), "user", "left_semi").select("user", "friend").distinct()
    by_chance = Window.partitionBy("user").orderBy(F.xxhash64(F.lit(seed), "user", "friend"), "friend")
    ranked = seen.withColumn("rank", F.row_number().over(by_chance))
    return ranked.where(F.col("rank") <= followed).select(*FRIENDS.fieldNames())
