"""The report page of an analysis: one HTML file with its pictures inside, the same bytes for the same log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from latecomer.pipeline import report_plots as plots
from latecomer.pipeline.classes import NONE
from latecomer.pipeline.numbers import rate, span
from latecomer.pipeline.stages.zipf import Fit
from latecomer.pipeline.summary import Place, Summary, read

ROWS = 20
"""Of a table in the page; the Parquet tables have all."""

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem; }
table { border-collapse: collapse; margin: .5rem 0; } th, td { padding: .15rem .8rem; text-align: right; }
th { border-bottom: 1px solid #999; font-weight: 600; } td:first-child, th:first-child { text-align: left; }
td { font-variant-numeric: tabular-nums; overflow-wrap: break-word; } .words { text-align: left; }
.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; }
.bad { color: #a00; } .quiet { color: #666; }
"""


def report_page(place: Place, summary: Summary) -> str:
    """All of it, as text."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Latecomer: analysis of an event log</title>',
        '<meta name="viewport" content="width=device-width">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<style>{STYLE}</style></head><body>",
        *_head(summary),
        *_demand(place, summary),
        *_popularity(place, summary),
        *_distance(place, summary),
        *_subscriptions(place, summary),
        *_movement(place, summary),
        *_quarantine(summary),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _head(summary: Summary) -> Iterable[str]:
    yield "<h1>What the network wrote down</h1>"
    when = span(summary.since_us, summary.until_us)
    yield f"<p>{when}, {summary.window_s:,.1f} s in periods of {summary.period_s:,} s. Run {summary.run}.</p>"
    yield table(
        ("", "count"),
        [
            ("segments read", summary.segments),
            ("segments damaged", len(summary.segments_damaged)),
            ("rows", summary.rows),
            ("rows in quarantine", summary.quarantined),
            ("brokers", summary.brokers),
            ("topic classes", summary.classes),
            ("requests", summary.requests),
            ("requests for topics of no class", summary.unclassified),
            ("publications", summary.publications),
        ],
    )
    if summary.overlapping:
        a, b = summary.overlapping
        yield (f'<p class="bad">The classes {escape(a)} and {escape(b)} share topics: they count in both.</p>')


def _demand(place: Place, summary: Summary) -> Iterable[str]:
    yield "<h2>Demand</h2>"
    demand = _pairs(read(place("demand"), "class", "broker", "requests"))
    if not demand:
        yield '<p class="quiet">Nobody asked for the past.</p>'
    else:
        yield plots.heat_map(demand, "requests")
        rows = sorted(demand, key=lambda row: (-row[2], row[0], row[1]))
        shown = [(name, broker, count, rate(count / summary.window_s)) for name, broker, count in rows[:ROWS]]
        yield table(("topic class", "broker", "requests", "per second"), shown, len(rows), "demand")
    yield "<h2>Through time</h2>"
    yield f'<p class="quiet">Events per second, in periods of {summary.period_s:,} s.</p>'
    yield plots.through_time(read(place("timeline")).to_pydict(), summary.period_s)


def _popularity(place: Place, summary: Summary) -> Iterable[str]:
    yield "<h2>Popularity and locality</h2>"
    yield f"<p>Popularity: {_fitted(summary.popularity)} Locality: {_fitted(summary.locality)}</p>"
    found = read(place("popularity")).to_pydict()
    if any(found["requests"]):
        yield plots.zipf(found, summary.popularity, summary.locality)
    rows = [
        (name, count, f"{share:.4f}", asking, f"{part:.4f}")
        for name, count, share, asking, part in zip(
            *(found[key] for key in ("class", "requests", "popularity", "brokers", "locality")), strict=True
        )
    ]
    yield table(
        ("topic class", "requests", "popularity", "brokers that ask", "locality"), rows[:ROWS], len(rows), "popularity"
    )


def _distance(place: Place, summary: Summary) -> Iterable[str]:
    yield "<h2>Distance of served requests</h2>"
    if summary.hops_mean is None:
        yield f'<p class="quiet">No request was served; {summary.unserved:,} were not.</p>'
        return
    error = "" if summary.hops_error is None else f" ± {summary.hops_error:.4f} (standard error)"
    yield (
        f"<p>{summary.served:,} requests were served from {summary.hops_mean:.4f}{error} hops on average; "
        f"{summary.unserved:,} were not served, and {summary.incomplete:,} did not get all they asked for.</p>"
    )
    yield plots.hop_bars(read(place("hops"), "hops", "requests").to_pydict())
    sums: dict[str, list[int]] = {}
    for row in read(place("distances")).to_pylist():
        told = sums.setdefault(row["class"], [0, 0, 0])
        for at, key in enumerate(("served", "unserved", "hops_sum")):
            told[at] += row[key]
    rows = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    shown = [
        (name or "(no class)", served, unserved, f"{far / served:.4f}" if served else "")
        for name, (served, unserved, far) in rows[:ROWS]
    ]
    yield table(("topic class", "served", "not served", "mean hops"), shown, len(rows), "distances")


def _subscriptions(place: Place, summary: Summary) -> Iterable[str]:
    yield "<h2>Subscriptions</h2>"
    yield (
        f"<p>{summary.subscribed:,} began and {summary.unsubscribed:,} ended: "
        f"{rate(summary.churn_per_hour)} of these changes per hour.</p>"
    )
    sums: dict[str, list[int]] = {}
    for row in read(place("subscriptions")).to_pylist():
        told = sums.setdefault(row["class"], [0, 0, 0])
        for at, key in enumerate(("subscribers", "subscribed", "unsubscribed")):
            told[at] += row[key]
    rows = sorted(sums.items(), key=lambda item: (-item[1][1] - item[1][2], item[0]))
    if rows:
        yield plots.churn([(name or "(no class)", began, ended) for name, (_, began, ended) in rows])
        shown = [(name or "(no class)", *told) for name, told in rows[:ROWS]]
        yield table(("topic class", "subscribers at the end", "began", "ended"), shown, len(rows), "subscriptions")


def _movement(place: Place, summary: Summary) -> Iterable[str]:
    yield "<h2>Movement between brokers</h2>"
    yield (
        f"<p>{summary.sessions:,} sessions in {summary.visits:,} visits; clients moved to another broker "
        f"{summary.moves:,} times.</p>"
    )
    moves = _pairs(read(place("transitions"), "from_broker", "to_broker", "moves"))
    if moves:
        yield plots.heat_map(moves, "moves", ("to", "from"))
        rows = sorted(moves, key=lambda row: (-row[2], row[0], row[1]))
        yield table(("from", "to", "times"), rows[:ROWS], len(rows), "transitions")
    yield from _hand_overs(place)


def _hand_overs(place: Place) -> Iterable[str]:
    """Sessions that moved with their clients, or by an operator's wish."""
    found = sorted(read(place("hand_overs")).to_pylist(), key=lambda row: (-row["sessions"], row["from_broker"]))
    if not found:
        return
    yield f"<p>{sum(row['sessions'] for row in found):,} sessions were handed over from broker to broker.</p>"
    times: dict[str, list[int]] = {}
    for row in sorted(found, key=lambda row: row["algorithm"]):
        if any(row["ms_counts"]):
            before = times.get(row["algorithm"], [0] * len(row["ms_counts"]))
            times[row["algorithm"]] = [a + b for a, b in zip(before, row["ms_counts"], strict=True)]
    if times:
        yield plots.hand_over_times(times)
    shown = [
        (
            row["from_broker"],
            row["to_broker"],
            row["algorithm"],
            row["sessions"],
            row["deliveries"],
            "" if row["frames"] is None else f"{row['frames'] / row['sessions']:.1f}",
            "" if row["bytes"] is None else f"{row['bytes'] / row['sessions']:,.0f}",
            "" if row["ms_mean"] is None else f"{row['ms_mean']:.1f}",
            "" if row["ms_max"] is None else row["ms_max"],
        )
        for row in found[:ROWS]
    ]
    heads = (
        "from",
        "to",
        "algorithm",
        "sessions",
        "waiting messages",
        "frames each",
        "bytes each",
        "mean ms",
        "longest ms",
    )
    yield table(heads, shown, len(found), "hand_overs")


def _quarantine(summary: Summary) -> Iterable[str]:
    yield "<h2>Quarantine</h2>"
    if not summary.quarantined and not summary.segments_damaged:
        yield '<p class="quiet">Every row could be used.</p>'
        return
    reasons = sorted(summary.quarantined_by_reason.items(), key=lambda item: (-item[1], item[0]))
    if reasons:
        yield table(("rows with", "count"), reasons)
    if summary.segments_damaged:
        lines = [(one.name, one.reason) for one in summary.segments_damaged]
        yield table(("segment", "why"), lines[:ROWS], len(lines))
    yield "<p>All of them are in the table quarantine, whole.</p>"


# -- words


def table(heading: Sequence[str], rows: Sequence[Sequence[object]], of: int = 0, name: str = "") -> str:
    """Texts are from outside: none of them is HTML. `name` is the Parquet table that has all of the `of` rows."""
    sides = [' class="words"' if any(_is_words(row[at]) for row in rows) else "" for at in range(len(heading))]
    head = "".join(f"<th{side}>{escape(text)}</th>" for text, side in zip(heading, sides, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f"<td{side}>{_cell(cell)}</td>" for cell, side in zip(row, sides, strict=True)) + "</tr>"
        for row in rows
    )
    where = f' in the table <a href="{name}/">{name}</a>' if name else ""
    more = f'<p class="quiet">and {of - len(rows):,} more{where}</p>' if of > len(rows) else ""
    return f'<div class="wide"><table><tr>{head}</tr>\n{body}</table></div>{more}'


def _is_words(value: object) -> bool:
    return isinstance(value, str) and not value.replace(",", "").replace(".", "").isdigit() and value != ""


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else escape(plots.shown(str(value)))


def _fitted(found: Fit | None) -> str:
    if found is None:
        return "too little was seen for Zipf's law."
    return (
        f"Zipf's law with exponent {found.exponent:.3f} ± {found.error:.3f} "
        f"({found.ranks:,} classes, {found.events:,} seen)."
    )


def _pairs(found: Any) -> list[tuple[str, str, int]]:
    """Class, broker, count; without what belongs to no class."""
    return [
        (a, b, count)
        for a, b, count in zip(*(c.to_pylist() for c in found.columns), strict=True)
        if a != NONE and count
    ]
