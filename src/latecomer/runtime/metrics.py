"""Counters for Prometheus: plain numbers on the hot path, text when somebody asks.

Counting costs an addition to a field; names, help and escaping come with `render`, which runs when `/metrics` is read.
A counter begins with 0 at every start of the broker and only grows; what goes up and down is a gauge, and is read off
the broker at that moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_LATEST

COMMIT_BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""From a quiet disk to one that stalls."""
LAG_BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

GAUGES: Mapping[str, str] = {
    "uptime_seconds": "Since this broker was started.",
    "connections": "Clients that are connected now.",
    "handshakes": "Connections that are in a TLS or WebSocket handshake now.",
    "sessions": "Sessions of clients, connected or not.",
    "sessions_arriving": "Sessions that are looked for, or on their way here from other brokers.",
    "sessions_leaving": "Sessions on their way to other brokers.",
    "sessions_promised": "Sessions that were sent to other brokers which have not confirmed that they have them.",
    "visitors": "Clients that are connected here while their sessions stay at other brokers.",
    "tunnels": "Sessions here whose clients are connected to other brokers.",
    "shadows": "Copies of other brokers' sessions that are kept here because their clients may come.",
    "homes_proposals": "Clients that would be better at other brokers.",
    "homes_peers": "Brokers to which clients may be sent and that say what their clients want.",
    "homes_load": "Share of the subscriptions of this broker and these, in times the mean.",
    "homes_similarity": "Mean share of a client's topic filters that others at this broker have.",
    "draining": "1 if the operator drains this broker and new clients are refused, otherwise 0.",
    "subscriptions": "Subscriptions of this broker's clients.",
    "retained_messages": "Retained messages that this broker keeps.",
    "retained_bytes": "Bytes of their payloads.",
    "queue_messages": "Messages that wait for this broker's clients.",
    "queue_bytes": "Bytes of messages that wait for this broker's clients.",
    "outbox_messages": "Events of this broker's publishers that somebody still lacks.",
    "links_up": "Neighbours with a session.",
    "tree_members": "Brokers in the tree that is in use.",
    "tree_ready": "1 if events are forwarded in the newest tree, otherwise 0.",
    "journal_waiting_records": "Records of the event log that are in memory only.",
    "store_events": "Events that this broker's store keeps.",
    "store_bytes": "Bytes that they take on disk.",
    "store_oldest_seconds": "How long ago the oldest of them was published.",
    "journal_failing": "1 if the event log cannot be written at the moment, otherwise 0.",
}
"""What goes up and down, without the prefix: everything that `render` may be given."""


@dataclass(slots=True)
class Histogram:
    """How often a duration was at most so long; `counts` has one place more than `bounds`, for the longer ones."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    sum_s: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum_s += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """As Prometheus wants it: each bucket has the shorter ones in it."""
        total = 0
        found: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            found.append((bound, total))
        return found


@dataclass(slots=True)
class LinkCounters:
    """Of one neighbour."""

    frames_in: int = 0
    frames_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(slots=True)
class StoreCounters:
    """Of this broker's store."""

    appended: int = 0
    refused: int = 0
    requests: int = 0
    hops: int = 0
    replayed: int = 0


@dataclass(slots=True)
class Counters:
    """What has happened since the start. Lists have a place for each quality of service."""

    connections_opened: int = 0
    connections_closed: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    connects: int = 0
    """CONNECT packets that could be read."""
    others_in: int = 0
    """Packets of clients that are neither PUBLISH nor CONNECT."""
    others_out: int = 0
    """Packets for clients that are no PUBLISH."""
    publish_received: list[int] = field(default_factory=lambda: [0, 0, 0])
    publish_delivered: list[int] = field(default_factory=lambda: [0, 0, 0])
    dropped: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    internal_errors: dict[str, int] = field(default_factory=dict)
    """By what went wrong; see `alarms`."""
    links: dict[str, LinkCounters] = field(default_factory=dict)
    commits: Histogram = field(default_factory=lambda: Histogram(COMMIT_BOUNDS_S))
    committed_rows: int = 0
    loop_lag: Histogram = field(default_factory=lambda: Histogram(LAG_BOUNDS_S))
    sessions_moved: int = 0
    """Sessions that came here from other brokers."""
    rows_came: int = 0
    """Their waiting messages that travelled."""
    rows_built: int = 0
    """Those that were built from the recent log."""
    homes_sent: int = 0
    """Clients that were sent to brokers that suit them better."""
    homes_returned: int = 0
    """Those of them that came back."""
    journal_records: int = 0
    journal_dropped: int = 0
    journal_failures: int = 0
    store: StoreCounters | None = None
    """None: this broker has none."""

    def drop(self, reason: str, count: int = 1) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def refuse(self, reason: str, count: int = 1) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + count

    def link(self, peer: str) -> LinkCounters:
        """The counters of a neighbour, to be kept by who counts."""
        return self.links.setdefault(peer, LinkCounters())


def render(counters: Counters, gauges: Mapping[str, float]) -> bytes:
    """The text that Prometheus reads; the names of `gauges` are those of `GAUGES`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(counters, gauges))
    return generate_latest(registry)


class _Snapshot(Collector):
    """All families once, for the one registry that is made to render them."""

    def __init__(self, counters: Counters, gauges: Mapping[str, float]) -> None:
        self._counters = counters
        self._gauges = gauges

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry would otherwise collect everything once more, only to learn the names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from _plain(self._counters)
        yield from _labelled(self._counters)
        yield from _histograms(self._counters)
        if self._counters.store is not None:
            yield from _store(self._counters.store)
        for name, value in self._gauges.items():
            yield GaugeMetricFamily(f"latecomer_{name}", GAUGES[name], value=value)


def _plain(counters: Counters) -> Iterator[Metric]:
    for name, text, value in (
        ("connections_opened", "Connections of clients that were accepted.", counters.connections_opened),
        ("connections_closed", "Connections of clients that ended, for whatever reason.", counters.connections_closed),
        ("committed_rows", "Rows that commits made safe.", counters.committed_rows),
        ("sessions_moved", "Sessions that came here from other brokers.", counters.sessions_moved),
        ("hand_over_rows_came", "Waiting messages of these sessions that travelled.", counters.rows_came),
        ("hand_over_rows_built", "Waiting messages that were built from the recent log.", counters.rows_built),
        ("homes_sent", "Clients that were sent to other brokers beside similar ones.", counters.homes_sent),
        ("homes_returned", "Clients of these that came back.", counters.homes_returned),
        ("journal_records", "Records written to the event log.", counters.journal_records),
        ("journal_dropped", "Records that the event log had no room for.", counters.journal_dropped),
        ("journal_failures", "Attempts to write the event log that failed.", counters.journal_failures),
    ):
        yield CounterMetricFamily(f"latecomer_{name}", text, value=value)


def _labelled(counters: Counters) -> Iterator[Metric]:
    def family(name: str, text: str, label: str, values: Iterable[tuple[str, int]]) -> Metric:
        found = CounterMetricFamily(f"latecomer_{name}", text, labels=[label])
        for value, count in values:
            found.add_metric([_label(value)], count)
        return found

    def both(name: str, text: str, come: int, gone: int) -> Metric:
        return family(name, text, "direction", (("in", come), ("out", gone)))

    yield both("bytes", "Bytes of MQTT packets of clients.", counters.bytes_in, counters.bytes_out)
    received, delivered = counters.publish_received, counters.publish_delivered
    yield family("publish_received", "Publications taken from clients.", "qos", _by_qos(received))
    yield family("publish_delivered", "Publications handed to clients.", "qos", _by_qos(delivered))
    yield family("dropped", "Messages that were not kept, by the reason.", "reason", counters.dropped.items())
    yield family("refused", "Requests and connections that were refused.", "reason", counters.refused.items())
    errors = counters.internal_errors
    yield family("internal_errors", "Bugs of the broker that were contained; see its log.", "what", errors.items())
    frames = CounterMetricFamily("latecomer_link_frames", "Frames of neighbours.", labels=["peer", "direction"])
    octets = CounterMetricFamily("latecomer_link_bytes", "Bytes of neighbours' frames.", labels=["peer", "direction"])
    for peer, link in counters.links.items():
        frames.add_metric([_label(peer), "in"], link.frames_in)
        frames.add_metric([_label(peer), "out"], link.frames_out)
        octets.add_metric([_label(peer), "in"], link.bytes_in)
        octets.add_metric([_label(peer), "out"], link.bytes_out)
    yield frames
    yield octets


def _histograms(counters: Counters) -> Iterator[Metric]:
    for name, text, histogram in (
        ("commit_seconds", "How long commits to the disk took.", counters.commits),
        ("loop_lag_seconds", "How much later than wanted the event loop called.", counters.loop_lag),
    ):
        yield HistogramMetricFamily(f"latecomer_{name}", text, histogram.cumulative(), histogram.sum_s)


def _store(store: StoreCounters) -> Iterator[Metric]:
    for name, text, value in (
        ("appended", "Events that the store has kept.", store.appended),
        ("refused", "Events that the store had no room for.", store.refused),
        ("requests_served", "Requests for history that the store has answered.", store.requests),
        ("replayed", "Events that the store has sent in answers.", store.replayed),
    ):
        yield CounterMetricFamily(f"latecomer_store_{name}", text, value=value)
    text = "How far away those were whose requests the store has answered."
    yield SummaryMetricFamily("latecomer_store_request_hops", text, count_value=store.requests, sum_value=store.hops)


def _by_qos(counts: list[int]) -> list[tuple[str, int]]:
    return [(str(qos), count) for qos, count in enumerate(counts)]


def _label(text: str) -> str:
    """Half a surrogate pair is no UTF-8: rather an escape than no metrics."""
    return text.encode("utf-8", "backslashreplace").decode()
