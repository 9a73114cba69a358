"""The settings of the location claims, and how their sentences are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf

import msgspec

from latecomer.experiments.charts import Curve, Panel
from latecomer.experiments.claim import COUNTED
from latecomer.experiments.dynatops.location.located import (
    BAYEUX_NEAR,
    BAYEUX_PLACE,
    BAYEUX_STATIC,
    BNR,
    BOTH,
    BS,
    ON_CHORD,
    OTHERS,
    Located,
    of,
)
from latecomer.experiments.grid import Setting, Table
from latecomer.experiments.statistics import Estimate, ratio
from latecomer.experiments.verdict import Part, place, ranged

SIZES = (5, 10, 20, 50)
SHOWN_SEEDS = 20
"""Of what stands beside a verdict and is no part of it."""
SWEPT_SEEDS = 20
"""A sweep shows whether a choice matters; it decides nothing."""
C = 10
"""Where the paper does not say which: that of its Fig. 9."""
BAYEUX = (BAYEUX_STATIC, BAYEUX_PLACE, BAYEUX_NEAR)

REDUCED = Located(
    rows=8,
    columns=24,
    south=27.5,
    west=-125.0,
    degrees=2.5,
    side=16,
    branches=(2, 2, 2, 2),
    free_h=168,
    systems=OTHERS,
    sizes=SIZES,
)
MANAGED = msgspec.structs.replace(REDUCED, users=6_400, checkins=160_000, systems=(*OTHERS, *ON_CHORD, BS), every_h=93)
"""Figs 6a–c: as many users to a broker as in the paper."""
NOTIFIED = msgspec.structs.replace(REDUCED, users=1_300, checkins=32_500, systems=(*OTHERS, *ON_CHORD, BS, BNR, BOTH))
"""Figs 6d–f and 9: with fewer, a broker subscribes to as large a part of the topics as in the paper."""
UNWEIGHED = msgspec.structs.replace(NOTIFIED, systems=(BS, BOTH), load_weight=0.0, seeds=SHOWN_SEEDS)
"""The same with w_l = 0."""

GIVEN = (
    "The paper: 40 K Twitter users, 3 M check-ins in three months, 20 × 60 cells of a degree, a broker in each. Those "
    "check-ins are not published, and the real ones that are fill 80 such cells, so people are made up: `latecomer "
    "synth` with a *new spatial calibration* (*spread*: the people of a city live around it, weight (1 + d / 100 "
    "km)⁻³), checked against the real ones in all but where they are. Measured on 8 × 24 cells of 2.5 degrees, one "
    "broker and one topic each, over one month; GeoPS, our reconstruction, on 16 × 16. One run at the paper's size is "
    "in [dynatops-location](dynatops-location.md). "
)
MANAGED_GIVEN = GIVEN + (
    "6,400 users check in 160,000 times, 33 users to a broker as in the paper. T_update = 24 h, w_l = 0.2 · c."
)
NOTIFIED_GIVEN = GIVEN + (
    "1,300 users check in 32,500 times; each check-in is a publication in its cell, by any user. c = 10 where none is "
    "named, T_free = 168 h, w_d = 1 in units of the mean delay between two brokers, T_update = 24 h, w_l = 0.2 · c."
)


def name(measure: str, system: str, size: int | None = None) -> str:
    """Of a measure."""
    return f"{measure}:{system if size is None else of(system, size)}"


def below(table: Table, setting: Setting, measure: str, system: str, others: Sequence[str]) -> list[Estimate]:
    """By how many per cent a system is below others."""
    return [table.better(setting, f"{measure}:{system}", f"{measure}:{other}") for other in others]


def between(paper: str, points: Sequence[Estimate], low: float, high: float = inf, unit: str = " %") -> Part:
    return msgspec.structs.replace(ranged(paper, points, low, high, unit), old=None)


def steps(table: Table, setting: Setting, names: Sequence[str], sign: int) -> list[Estimate]:
    """From one measure to the next, per cent; with `sign` −1, how far it comes down."""
    found = [table.worse(setting, after, before) for before, after in pairwise(names)]
    return [Estimate(sign * step.mean, step.half, step.runs) for step in found]


def along(paper: str, table: Table, setting: Setting, names: Sequence[str], sign: int) -> Part:
    """A curve that comes down (`sign` −1) or goes up, from its first point to its last; partly, if it clearly turns."""
    whole = steps(table, setting, (names[0], names[-1]), sign)
    part = between(paper, whole, 0)
    turns = [step for step in steps(table, setting, names, sign) if place(step, 0, inf) == "outside"]
    first, last = (table.mean(setting, one).mean for one in (names[0], names[-1]))
    digits = 0 if first >= COUNTED else 2
    figure = f"from {first:,.{digits}f} to {last:,.{digits}f}: {whole[0].show(' %')}" + (
        ", not all the way" if turns else ""
    )
    word = "partly" if turns and part.word == "reproduced" else part.word
    return msgspec.structs.replace(part, word=word, figure=figure)


def across(table: Table, after: Setting, before: Setting, measure: str, was: str | None = None) -> Estimate:
    """By how many per cent a measure is higher in one setting than in another, seed by seed."""
    runs = min(len(table.rows[after]), len(table.rows[before]))
    found = ratio(table.values(after, measure)[:runs], table.values(before, was or measure)[:runs])
    return Estimate(100 * found.mean - 100, 100 * found.half, found.runs)


def sizes_panel(
    table: Table,
    setting: Located,
    measure: str,
    y: str,
    *,
    clustered: Sequence[str] = (),
    flat: Sequence[str] = (),
    more: Mapping[str, tuple[Setting, str]] | None = None,
    title: str = "",
) -> Panel:
    """Over the cluster size: systems that have clusters, those that have none, and curves of other settings."""
    sizes = setting.sizes
    xs = tuple(float(size) for size in sizes)
    curves = [
        Curve(system, xs, tuple(table.mean(setting, name(measure, system, size)) for size in sizes))
        for system in clustered
    ]
    curves += [
        Curve(label, xs, tuple(table.mean(other, name(measure, system, size)) for size in sizes))
        for label, (other, system) in (more or {}).items()
    ]
    curves += [Curve(system, xs, (table.mean(setting, name(measure, system)),) * len(xs)) for system in flat]
    return Panel(title, "cluster size c", y, tuple(curves))


def swept(base: Located, **changed: object) -> Located:
    """A point of a sweep."""
    return msgspec.structs.replace(base, seeds=SWEPT_SEEDS, **changed)


def load_beside(table: Table, setting: Located) -> str:
    """The spread of load of every system, as a sentence."""
    measures = table.rows[setting][0]
    systems = [key.partition(":")[2] for key in measures if key.startswith("load_spread:")]
    told = ", ".join(f"{system} {table.mean(setting, f'load_spread:{system}').mean:.2f}" for system in systems)
    return f"Load spread (standard deviation over mean of the brokers' subscriptions): {told}."
