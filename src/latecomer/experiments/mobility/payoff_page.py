"""The page about real movements: what sending sessions ahead costs and saves there."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isinf
from pathlib import Path

from latecomer.experiments.mobility.payoff import DESTINATIONS, Line, Payoff

NAME = "mobility-movement"
COUNTS = {1: "one", 2: "two", 3: "three"}


def write_payoff(found: Sequence[Payoff], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{NAME}.md"
    file.write_text("\n".join(page(found)) + "\n", encoding="utf-8")
    return file


def page(found: Sequence[Payoff]) -> list[str]:
    return [
        "# When does it pay to send a session ahead?",
        "",
        "Beyond [the paper](mobility.md), which assumes perfect prediction: *prefetching* on real movements, "
        "predicted by the model of [`latecomer movement`](../guide/movement.md) on weeks that it has not learned "
        "from. Written by `latecomer reproduce mobility --data DIR --docs docs/papers`.",
        "",
        "Every place has a broker, in a tree made from where the places are. The hops of a move are counted by the "
        "walk that counts those of the paper: so many for the move, and so many for each event that the client "
        "missed. *Sent ahead to one*: the session moves when the client leaves, and once more if the guess was "
        "wrong. *To several*: the old broker keeps it, the others have it too, and all but one discard it.",
        "",
        *_table(found),
        "",
        *_waiting(found),
        "",
        *_answer(found),
    ]


def _table(found: Sequence[Payoff]) -> list[str]:
    lines = [
        "**Hops of a move**, n being the number of events missed; and the n from which on it is cheaper than "
        "*standard*. *Alone*: nobody else wants the same events, so that those for brokers that wait in vain count "
        "as well.",
        "",
        "| | standard | " + " | ".join(f"to {COUNTS[count]}" for count in DESTINATIONS) + " | to three, alone |",
        "|---" * (len(DESTINATIONS) + 3) + "|",
    ]
    for one in found:
        others = [one.ahead[count] for count in DESTINATIONS] + [one.ahead_alone[3]]
        cells = [_line(one.standard), *(f"{_line(other)}; {_from(other, one.standard)}" for other in others)]
        lines.append(f"| {one.title} | " + " | ".join(cells) + " |")
    return lines


def _waiting(found: Sequence[Payoff]) -> list[str]:
    lines = [
        "**Who waits.** The share of moves that find everything there when the client comes; all others wait for "
        "what they missed, as all do with *standard*. *Away* is the median time from the last sight at one place to "
        "the first at the next other one.",
        "",
        "| | moves asked | places | away | " + " | ".join(f"to {COUNTS[count]}" for count in DESTINATIONS) + " |",
        "|---" * (len(DESTINATIONS) + 4) + "|",
    ]
    for one in found:
        shares = " | ".join(f"{one.right[count]:.1f} %" for count in DESTINATIONS)
        lines.append(f"| {one.title} | {one.moves:,} | {one.places} | {_time(one.away_min)} | {shares} |")
    return lines


def _answer(found: Sequence[Payoff]) -> list[str]:
    few = [one.ahead[1].pays_from(one.standard) for one in found]
    many = [one.ahead[3].pays_from(one.standard) for one in found]
    alone = [one.ahead_alone[3].pays_from(one.standard) for one in found]
    saved = [100 - 100 * one.ahead[1].each / one.standard.each for one in found]
    saved_many = [100 - 100 * one.ahead[3].each / one.standard.each for one in found]
    return [
        "**When does it pay?** A guess costs one more migration when it is wrong, and saves the events when it is "
        f"right. Sent ahead to one destination it {_pays(few)}, and saves {_per_cent(saved)} of the hops that events "
        f"take. To three destinations it {_pays(many)}, and saves {_per_cent(saved_many)}, if others there want the "
        f"same events; if nobody does, it {_pays(alone)}, as each event then goes to all of them. For clients that "
        "miss a handful of events *standard* is the cheapest, and sending ahead only saves them the wait.",
    ]


def _line(line: Line) -> str:
    return f"{line.fixed:.1f} + {line.each:.2f} n"


def _from(line: Line, other: Line) -> str:
    found = line.pays_from(other)
    return "never" if isinf(found) else f"from {ceil(found)}"


def _pays(counts: Sequence[float]) -> str:
    """From how many missed events on, over all sets."""
    finite = sorted(ceil(count) for count in counts if not isinf(count))
    never = len(counts) - len(finite)
    if not finite:
        return "never pays"
    span = f"{finite[0]}" if finite[0] == finite[-1] else f"{finite[0]} to {finite[-1]}"
    told = f"pays from {span} missed events on"
    return f"{told} (never in {never} of {len(counts)} sets)" if never else told


def _per_cent(shares: Sequence[float]) -> str:
    low, high = round(min(shares)), round(max(shares))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _time(minutes: float) -> str:
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 72 * 60 else f"{minutes / 1440:.0f} days"
