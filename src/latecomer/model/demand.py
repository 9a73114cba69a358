"""Demand: who asks for the past of which topic, how often, and from where.

It is measured from the event log, drawn by an experiment or written by hand, and read by the planner. Rates are
requests per second for a topic at the broker where the requesting clients are. As a file it is JSON, or CSV with
the columns `topic,broker,rate`; whatever the file holds, the answer is a demand or a SettingsError that names the key.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.topology import quoted

KEY = "demand"
MAX_RATE = 1e9
"""Requests per second: more is a mistake in the units."""
MAX_SIZE_BYTES = 2**53
MAX_TOPICS = 1_000_000
COLUMNS = ("topic", "broker", "rate")


class Demand(msgspec.Struct, frozen=True):
    """Rates per topic and broker, with the evidence behind them."""

    topics: tuple[str, ...]
    """All topics, also those that nobody asks for; their order decides between equals."""
    rates: dict[str, dict[BrokerId, float]]
    """topic → broker → requests per second; what is not named is zero."""
    publications: dict[str, dict[BrokerId, float]] = {}
    """topic → broker → publications per second that enter there."""
    sizes: dict[str, int] = {}
    """topic → bytes that one replica takes."""
    window_s: float = 0
    """How long was measured; 0 when nobody measured."""
    requests: int = 0
    """How many requests were seen in the window."""

    def rate(self, topic: str) -> float:
        """Requests per second for a topic, from all brokers."""
        return math.fsum(self.rates.get(topic, {}).values())

    def total(self) -> float:
        """Requests per second for everything."""
        return math.fsum(self.rate(topic) for topic in self.topics)

    def total_publications(self) -> float:
        """Publications per second of everything."""
        return math.fsum(rate for row in self.publications.values() for rate in row.values())

    def check(self) -> None:
        """Raise a SettingsError that names the first thing wrong."""
        if not self.topics:
            raise SettingsError("topics", "demand without topics: name at least one")
        if len(self.topics) > MAX_TOPICS:
            raise SettingsError("topics", f"{len(self.topics):,} topics are more than the {MAX_TOPICS:,} of a plan")
        known: set[str] = set()
        for topic in self.topics:
            if not topic:
                raise SettingsError("topics", "a topic has an empty name")
            if topic in known:
                raise SettingsError("topics", f"the topic {quoted(topic)} is named twice")
            known.add(topic)
        _check_rates("rates", self.rates, known)
        _check_rates("publications", self.publications, known)
        for topic, size in self.sizes.items():
            key = f"sizes.{topic}"
            _check_known(key, topic, known)
            if not 0 < size <= MAX_SIZE_BYTES:
                raise SettingsError(key, f"a size of {size} bytes; it must be from 1 to {MAX_SIZE_BYTES}")
        if not (math.isfinite(self.window_s) and self.window_s >= 0):
            raise SettingsError("window_s", f"a window of {self.window_s} s; it must not be negative")
        if self.requests < 0:
            raise SettingsError("requests", f"{self.requests} requests; it must not be negative")


def _check_rates(key: str, rates: Mapping[str, Mapping[BrokerId, float]], known: set[str]) -> None:
    for topic, row in rates.items():
        _check_known(f"{key}.{topic}", topic, known)
        for broker, rate in row.items():
            if not (math.isfinite(rate) and 0 <= rate <= MAX_RATE):
                told = f"a rate of {rate}; it must be from 0 to {MAX_RATE:,.0f} per second"
                raise SettingsError(f"{key}.{topic}.{broker}", told)


def _check_known(key: str, topic: str, known: set[str]) -> None:
    if topic not in known:
        raise SettingsError(key, f"the topic {quoted(topic)} is not among the topics; add it there or leave it out")


# --- files ---


class _File(msgspec.Struct, forbid_unknown_fields=True):
    rates: dict[str, dict[BrokerId, float]]
    topics: tuple[str, ...] | None = None
    publications: dict[str, dict[BrokerId, float]] = {}
    sizes: dict[str, int] = {}
    window_s: float = 0
    requests: int = 0


def read_demand(text: str, source: str) -> Demand:
    """The demand in a file: JSON when it begins with a brace, CSV otherwise."""
    text = text.removeprefix("\ufeff")
    demand = _from_json(text, source) if text.lstrip().startswith("{") else _from_csv(text, source)
    try:
        demand.check()
    except SettingsError as error:
        raise error.at(error.key, source=source) from None
    return demand


def write_demand(demand: Demand) -> str:
    """The demand as a JSON file that `read_demand` reads."""
    return msgspec.json.format(msgspec.json.encode(demand), indent=2).decode() + "\n"


def _from_json(text: str, source: str) -> Demand:
    try:
        file = msgspec.json.decode(text, type=_File)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise SettingsError(KEY, f"not a demand: {error}", source=source) from None
    return Demand(
        topics=tuple(file.rates) if file.topics is None else file.topics,
        rates=file.rates,
        publications=file.publications,
        sizes=file.sizes,
        window_s=file.window_s,
        requests=file.requests,
    )


def _from_csv(text: str, source: str) -> Demand:
    rates: dict[str, dict[BrokerId, float]] = {}
    try:
        for line, (topic, broker, rate) in _rows(text, source):
            row = rates.setdefault(topic, {})
            if broker in row:
                told = f"the topic {quoted(topic)} has two rates at {quoted(broker)}; add them up to one"
                raise SettingsError(KEY, told, source=source, line=line)
            try:
                row[broker] = float(rate)
            except ValueError:
                told = f"{quoted(rate)} is not a rate; write requests per second, such as 2.5"
                raise SettingsError(KEY, told, source=source, line=line) from None
    except csv.Error as error:
        raise SettingsError(KEY, f"not a CSV file: {error}", source=source) from None
    return Demand(topics=tuple(rates), rates=rates)


def _rows(text: str, source: str) -> Iterable[tuple[int, list[str]]]:
    """The rows below the heading, each with its line."""
    reader = csv.reader(io.StringIO(text, newline=""))
    heading: tuple[str, ...] | None = None
    for cells in reader:
        if not cells:
            continue
        if heading is None:
            heading = tuple(cell.strip().lower() for cell in cells)
            if heading != COLUMNS:
                told = f"the first line must be {','.join(COLUMNS)}, not {quoted(','.join(cells))}"
                raise SettingsError(KEY, told, source=source, line=reader.line_num)
        elif len(cells) != len(COLUMNS):
            told = f"{len(cells)} columns instead of {','.join(COLUMNS)}"
            raise SettingsError(KEY, told, source=source, line=reader.line_num)
        else:
            yield reader.line_num, [cell.strip() for cell in cells]
