"""The tables that check-ins become: what each column is.

Users, places and cells are names; an instant is UTC. A cell is called after its corner, counted in cells: with cells of
one degree, `40,-74` is what lies from 40° to 41° north and from 74° to 73° west.
"""

from __future__ import annotations

from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def _table(**columns: StringType | TimestampType | DoubleType | IntegerType | LongType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


_name, _time, _degrees, _int, _long = StringType(), TimestampType(), DoubleType(), IntegerType(), LongType()

ROWS = _table(
    file=_name,
    row=_name,  # as it was read
    user=_name,
    time=_time,
    lat=_degrees,
    lon=_degrees,
    place=_name,
    problem=_name,  # none: the row is good
)
QUARANTINE = _table(file=_name, reason=_name, row=_name)
CHECKINS = _table(user=_name, time=_time, lat=_degrees, lon=_degrees, place=_name, cell=_name)
STAYS = _table(
    user=_name,
    visit=_int,  # from 0, in the order of time
    cell=_name,
    arrived=_time,  # the first check-in of the visit
    seen=_time,  # its last
    left=_time,  # the first check-in in the next cell; none: the user was not seen elsewhere
    checkins=_long,
    linger_us=_long,  # from arrived to left
)
CELLS = _table(
    cell=_name,
    south=_degrees,
    west=_degrees,
    checkins=_long,
    visits=_long,
    users=_long,
    users_once=_long,  # who visited it only once
)
PAIRS = _table(user=_name, cell=_name, visits=_long, checkins=_long, first=_time, last=_time)
REPEATS = _table(visits=_long, pairs=_long)
LINGERS = _table(
    hours=_int,  # the visit lasted this many full hours
    visits=_long,
    visits_until=_long,  # that lasted no longer than these
)
TRANSITIONS = _table(origin=_name, target=_name, moves=_long, users=_long)
FRIENDS = _table(user=_name, friend=_name)
SUBSCRIPTIONS = _table(time=_time, user=_name, cell=_name, kind=_name)
DAYS = _table(day=_name, subscribed=_long, unsubscribed=_long)
GROUPS = _table(
    group=_int,
    users=_long,
    visits=_long,
    pairs=_long,
    pairs_seen_once=_long,
    pairs_of_one_checkin=_long,
    lingers=_long,  # visits that ended
    under_day=_long,
    over_week=_long,
)
