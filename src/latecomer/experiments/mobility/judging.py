"""How the sentences of this paper are read, the same in all claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf

import msgspec

from latecomer.experiments.charts import Panel
from latecomer.experiments.claim import Axis, Column, Sweep, panel, scaled
from latecomer.experiments.grid import Setting, Table
from latecomer.experiments.mobility.algorithms.registry import DRAWN
from latecomer.experiments.mobility.wandering import LAST_HOP, Wandering
from latecomer.experiments.parts import fall
from latecomer.experiments.statistics import Estimate, ratio
from latecomer.experiments.verdict import TOLERANCE, Part, limited, ranged, shown

CLIENTS = (200, 400, 600, 800)
NOTHING = 5.0
"""Per cent of the multicast below which an overhead is "almost none"."""
MARGINAL = 10.0
"""Per cent by which what changes "marginally" may change."""
NEGLIGIBLE = 5.0
"""Per cent of the total within which an effect is "negligible"."""
FAR = 2.0
"""Times that what is "far above" is above at least."""
READ = (
    f"“About x”, “almost x” and “virtually x” are x give or take a fifth, “almost no overhead” is below {NOTHING:.0f} "
    f"% of the multicast, “marginally” is at most {MARGINAL:.0f} %, “equally” is within {MARGINAL:.0f} %, "
    f"“negligible” is within {NEGLIGIBLE:.0f} % of the total, “by far” is at least {FAR:.0f} times."
)


def populations(base: Wandering, quick: bool, **changed: object) -> Axis:
    """Over the number of subscribers."""
    counts = (CLIENTS[0], CLIENTS[-1]) if quick else CLIENTS
    points = {float(n): msgspec.structs.replace(base, clients=n, **changed) for n in counts}
    return Axis("number of subscribers", points)


def overhead_panel(table: Table, axis: Axis, measure: str = "overhead", title: str = "") -> Panel:
    return panel(table, axis, {name: f"{measure}_{name}" for name in DRAWN}, "message overhead ratio", title)


def both_panels(table: Table, axis: Axis, measure: str = "overhead") -> tuple[Panel, ...]:
    """As we count, and with the hop to the client counted as well."""
    return (
        overhead_panel(table, axis, measure, "hops between brokers"),
        overhead_panel(LastHop(table), axis, measure, "the hop to the client too"),
    )


class LastHop(Table):
    """The same measurements with the hop to the client counted, where that makes a difference."""

    def __init__(self, table: Table) -> None:
        super().__init__(table.rows)

    def values(self, setting: Setting, name: str) -> list[float]:
        rows = self.rows[setting]
        return [row.get(LAST_HOP + name, row[name]) for row in rows]


def also(parts: Sequence[Part]) -> list[Part]:
    """What was found with the hop to the client counted, for the reader."""
    return [shown(msgspec.structs.replace(part, paper=f"*with the hop to the client:* {part.paper}")) for part in parts]


def percent(table: Table, setting: Setting, name: str) -> Estimate:
    """A ratio, in per cent."""
    return scaled(table.mean(setting, name), 100)


def about(paper: str, point: Estimate, x: float, unit: str = " %") -> Part:
    return new(limited(paper, point, (1 - TOLERANCE) * x, (1 + TOLERANCE) * x, point.show(unit)))


def between(paper: str, points: Sequence[Estimate], low: float, high: float, unit: str = " %") -> Part:
    return new(ranged(paper, points, low, high, unit))


def rising(paper: str, table: Table, axis: Axis, measure: str, by: float = 1.0) -> Part:
    """From point to point, on the same seeds."""
    steps = [scaled(fall(table, after, before, measure), by) for before, after in pairwise(axis.settings())]
    part = ranged(paper, steps, 0, inf)
    first, last = (table.mean(setting, measure) for setting in (axis.settings()[0], axis.settings()[-1]))
    return new(msgspec.structs.replace(part, figure=f"from {first.show('', 2)} to {last.show('', 2)}"))


def changes(table: Table, before: Setting, after: Setting, measure: str) -> Estimate:
    """By how many per cent a measure is higher in another setting."""
    found = ratio(table.values(after, measure), table.values(before, measure))
    return Estimate(100 * found.mean - 100, 100 * found.half, found.runs)


def new(part: Part) -> Part:
    """There was no old rule when this paper was judged for the first time."""
    return msgspec.structs.replace(part, old=None)


# -- what is left out

OVERHEAD = (
    *(Column(name, "mean", f"overhead_{name}") for name in DRAWN),
    Column("standard, with the hop to the client", "mean", f"{LAST_HOP}overhead_standard"),
    Column("home-broker, with it", "mean", f"{LAST_HOP}overhead_home-broker"),
)


def sweep(
    parameter: str, told: str, chosen: str, options: Mapping[str, Wandering], columns: tuple[Column, ...] = OVERHEAD
) -> Sweep:
    return Sweep(parameter, told, chosen, options, columns)


def counted_sweep(base: Wandering, columns: tuple[Column, ...] = OVERHEAD) -> Sweep:
    told = "“message overhead”: whether a unicast message counts once, or once on every link that it passes."
    options = {
        "each hop": base,
        "once": msgspec.structs.replace(base, counted="messages"),
    }
    return sweep("what a unicast message counts", told, "each hop", options, columns)


def length_sweep(base: Wandering, columns: tuple[Column, ...] = OVERHEAD) -> Sweep:
    told = "“over the length of a simulation run”, and nothing on how long it is; all runs begin at 16:00."
    options = {
        f"until {int(16 + hours)}:{round(hours % 1 * 60):02}": msgspec.structs.replace(base, length_h=hours)
        for hours in (2.5, 3.5, 4.5, 6.0)
    }
    return sweep("length of a run", told, "until 19:30", options, columns)


def speed_sweep(base: Wandering, columns: tuple[Column, ...] = OVERHEAD) -> Sweep:
    told = (
        "links have a bandwidth, which is not given; ours gives the paper's tenth of the clients in transfer at once "
        "(M11)."
    )
    options = {f"{speed:g}/s": msgspec.structs.replace(base, speed=speed) for speed in (10.0, 15.0, 20.0, 30.0, 100.0)}
    return sweep("messages on a link", told, "20/s", options, columns)


def delay_sweep(base: Wandering, columns: tuple[Column, ...] = OVERHEAD) -> Sweep:
    told = "links have a latency, which is not given; it decides how long T2' of prefetching is."
    options = {f"{1000 * s:g} ms": msgspec.structs.replace(base, hop_s=s) for s in (0.005, 0.05, 0.5)}
    return sweep("latency of a link", told, "50 ms", options, columns)


def edge_sweep(base: Wandering, columns: tuple[Column, ...] = OVERHEAD) -> Sweep:
    told = (
        "100 km/h for 10 to 30 minutes are 17 to 50 km, and the city is 32 km wide: clients turn round at its edge "
        "(reflect), stop there (clamp), or come in on the other side (wrap)."
    )
    options = {
        "reflect": msgspec.structs.replace(base, edge="reflect"),
        "clamp": msgspec.structs.replace(base, edge="clamp"),
        "wrap": msgspec.structs.replace(base, edge="wrap"),
    }
    return sweep("edge of the city", told, "reflect", options, columns)


def publishers_sweep(base: Wandering, columns: tuple[Column, ...] = OVERHEAD) -> Sweep:
    told = "where publishers are is given for *commute* only."
    options = {
        "everywhere": base,
        "10 downtown brokers": msgspec.structs.replace(base, publishers="downtown"),
    }
    return sweep("publishers", told, "everywhere", options, columns)


def log_sweep(base: Wandering, columns: tuple[Column, ...] = OVERHEAD) -> Sweep:
    told = "“a log of recently received events”: whether also of those that were sent there because a client came."
    options = {
        "received by multicast": base,
        "transferred as well": msgspec.structs.replace(base, log_transferred=True),
    }
    return sweep("what is in a log", told, "received by multicast", options, columns)


def accuracy_sweep(base: Wandering) -> Sweep:
    told = (
        "“the prefetching results assume perfect prediction”, and several destinations are described but not "
        "evaluated. Here the first guess is right so often; where three are made, the second is right half as often "
        "when the first is wrong, the third a quarter as often."
    )
    names = ("standard", "prefetching", "prefetching to several")
    several = msgspec.structs.replace(base, algorithms=names, destinations=3)
    options = {f"{100 * a:.0f} %": msgspec.structs.replace(several, accuracy=a) for a in (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)}
    ahead = {"prefetching": "to one", "prefetching to several": "to three"}
    columns = (
        *(Column(f"{word}: overhead", "mean", f"overhead_{name}") for name, word in ahead.items()),
        *(
            Column(f"{word}: hops in all, below standard", "better", f"total_{name}", "total_standard")
            for name, word in ahead.items()
        ),
        *(
            Column(f"{word}: seconds until all is there", "mean", f"wait_{name}")
            for name, word in {"standard": "standard", **ahead}.items()
        ),
    )
    return sweep("accuracy of prediction", told, "100 %", options, columns)
