"""What `latecomer checkins` prints: its counts, and the paper's beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from latecomer.pipeline.checkins_job import Analysis, Counts

PAPER = {
    "check-ins": "3 M",
    "users": "40 K",
    "visits": "450 K",
    "pairs of user and cell": "160 K",
    "seen once": "a third",
    "linger under a day": "half",
    "linger over a week": "a tenth",
}


def print_counts(console: Console, found: Analysis) -> None:
    counts = found.counts
    title = f"{counts.first} to {counts.last}"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("", "here", "dynatops"):
        table.add_column(name, justify="left" if not name else "right")
    for name, value in rows(counts):
        table.add_row(name, value, PAPER.get(name.strip(), ""))
    console.print(table)


def rows(counts: Counts) -> list[tuple[str, str]]:
    found = [("rows", f"{counts.rows_read:,}"), ("  quarantined", f"{counts.quarantined:,}")]
    found += [(f"    {reason}", f"{many:,}") for reason, many in counts.reasons.items()]
    for name, many in (("outside", counts.outside), ("duplicates", counts.duplicates), ("irregular", counts.irregular)):
        if many:
            found.append((f"  {name}", f"{many:,}"))
    quantiles = counts.linger_quantiles_s
    return [
        *found,
        ("check-ins", f"{counts.checkins:,}"),
        ("users", f"{counts.users:,}"),
        ("cells", f"{counts.cells:,}"),
        ("visits", f"{counts.visits:,}"),
        ("pairs of user and cell", f"{counts.pairs:,}"),
        ("  seen once", share(counts.pairs_seen_once, counts.pairs)),
        ("moves", f"{counts.moves:,}"),
        ("transitions", f"{counts.transitions:,}"),
        ("linger under a day", share(counts.linger_under_a_day, counts.lingers)),
        ("linger over a week", share(counts.linger_over_a_week, counts.lingers)),
        *((f"  {name}", duration(seconds)) for name, seconds in quantiles.items()),
        ("subscribed", f"{counts.subscribed:,}"),
        ("unsubscribed", f"{counts.unsubscribed:,}"),
    ]


def share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.1f} %)" if whole else "none"


def duration(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
