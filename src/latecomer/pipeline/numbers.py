"""Numbers and instants for people: as many digits as say something, and no powers of ten."""

from __future__ import annotations

from latecomer.model.when import format_when

DIGITS = 3


def rate(value: float) -> str:
    """Three digits that count: 0.0966, 12.3, 76,560."""
    if abs(value) >= 10**DIGITS:
        return f"{value:,.0f}"
    text = f"{float(f'{value:.{DIGITS}g}'):.12f}"
    return text.rstrip("0").rstrip(".")


def moment(us: int) -> str:
    """An instant to the second."""
    return f"{format_when(us)[:19].replace('T', ' ')} UTC"


def span(first_us: int, last_us: int) -> str:
    """From one to another; the day once, if it is the same."""
    first, last = moment(first_us), moment(last_us)
    same = first[:10] == last[:10]
    return f"{first.removesuffix(' UTC')} to {last[11:] if same else last}"
