"""What is measured, in one place: the scenarios, the features that cost something, and the targets beside both.

A scenario is run with every broker and compared with Mosquitto. A feature is run with and without on the same broker
and compared with itself. A line is a scenario with several brokers in a line, each kept as safe as it can be and as
unsafe as a bridge of Mosquitto is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

Metric = Literal["deliveries/s", "p50 µs", "p99 µs", "CPU µs", "KiB/connection"]
FASTER: tuple[Metric, ...] = ("deliveries/s",)
"""Metrics of which more is better."""


@dataclass(frozen=True, slots=True)
class Target:
    """A ratio that must be reached and one to aim for; a floor for speed, a ceiling for time and memory."""

    must: float
    aim: float


@dataclass(frozen=True, slots=True)
class Load:
    """How `load` is called. A saturating load runs for a count of messages, every other one for a time."""

    options: tuple[str, ...]
    qos: int = 0
    window: int = 20
    v5: bool = False
    rate: float | None = None
    half: bool = False
    """At half of the speed at which this broker is saturated, instead of a rate that is the same for all."""

    def arguments(self) -> list[str]:
        version = ["--v5"] if self.v5 else []
        rate = [] if self.rate is None else ["--rate", str(self.rate)]
        return [*self.options, "--qos", str(self.qos), "--window", str(self.window), *version, *rate]

    @property
    def saturating(self) -> bool:
        return self.window == 0 and self.rate is None and not self.half


@dataclass(frozen=True, slots=True)
class Variant:
    """How a broker is set up, apart from the ordinary."""

    tls: bool = False
    durable: bool = False
    event_log: bool = True
    brokers: int = 1
    """In a chain; publishers at one end, subscribers at the other."""
    unlimited_queue: bool = False
    """Nothing is dropped, whatever the broker's own limit is."""
    prompt: bool = False
    """Send small packets at once, for a broker that otherwise lets Nagle's algorithm hold them back."""


PLAIN = Variant()
PROMPT = Variant(prompt=True)


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    title: str
    load: Load
    targets: dict[Metric, Target | None] = field(default_factory=lambda: {"deliveries/s": None})
    quick: bool = False
    variant: Variant = PLAIN
    rounds_max: int = 99
    hold: int = 0
    """Connections to hold open; nothing else is done then."""
    without: dict[str, str] = field(default_factory=dict)
    """Brokers that are left out, and why."""


@dataclass(frozen=True, slots=True)
class Feature:
    """The same load with and without something, on one broker; the ratio is with / without."""

    name: str
    title: str
    base: Load
    load: Load
    base_variant: Variant = PLAIN
    variant: Variant = PLAIN
    target: Target | None = None
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """Publishers at one end of a line of brokers, subscribers at the other."""

    name: str
    title: str
    load: Load
    brokers: int
    metrics: tuple[Metric, ...] = ("deliveries/s",)
    durable: tuple[bool, ...] = (True, False)
    """Whether what is owed is safe from power cuts; one contender for each, of brokers that can."""
    targets: dict[bool, Target] = field(default_factory=dict)
    """By that: the ratio to Mosquitto's bridge."""
    gain: Target | None = None
    """The ratio to the revision before, if one is measured."""
    quick: bool = False

    def variant(self, durable: bool) -> Variant:
        single = self.load.window == 1 or self.load.rate is not None
        return Variant(durable=durable, brokers=self.brokers, prompt=single)


ONE = Target(0.9, 1.3)
WINDOW = {0: Target(3, 6), 1: Target(8, 15)}
SATURATED = Target(8, 20)
TOPICS = {0: Target(5, 8), 1: Target(6, 10)}
NEW_TOPICS = {0: Target(1.5, 4), 1: Target(3, 8)}
LATENCY: dict[Metric, Target | None] = {"p50 µs": Target(1.4, 1.0), "p99 µs": Target(1.6, 1.0)}
NO_LATER = Target(1.0, 0.8)
KEPT_LINE = {1: Target(0.35, 0.7), 20: Target(2.5, 4), 500: Target(8, 12)}
LINE = {1: Target(0.7, 1), 20: Target(4, 6), 500: Target(12, 15)}
"""By window: what is kept safe from power cuts, and what is kept nowhere, beside a bridge, which keeps nothing."""

SIZE = ("--size", "64")
VARYING = ("--size", "32-96")
ONE_TO_ONE = SIZE
FAN_OUT = (*SIZE, "--subs", "100")
FAN_IN = (*SIZE, "--pubs", "50")
PAIRS = (*SIZE, "--pubs", "50", "--subs", "50", "--pairs")
IDLE = (*SIZE, "--idle", "1000", "--idle-conns", "1000")
MANY = (*SIZE, "--idle", "100000", "--idle-conns", "200")
SLOW_SCAN = {"amqtt": "it compares every subscription with every message; 100,000 would take minutes a round"}


def _both(
    name: str, title: str, options: tuple[str, ...], window: int, targets: dict[int, Target], *, quick: str = ""
) -> list[Scenario]:
    """A scenario with QoS 0 and with QoS 1; `quick` names those that a quick run has."""
    return [
        Scenario(
            f"{name}.q{qos}",
            f"{title}, QoS {qos}",
            Load(options, qos, window),
            {"deliveries/s": targets[qos]},
            quick=str(qos) in quick,
            rounds_max=3 if options == IDLE else 99,  # connecting takes longer than measuring
            # 50 publishers with 20 messages each are more than the 1,000 that Mosquitto queues before it drops.
            variant=Variant(unlimited_queue=options == FAN_IN and qos == 1, prompt=window == 1),
        )
        for qos in (0, 1)
    ]


def _same(target: Target) -> dict[int, Target]:
    return {0: target, 1: target}


def scenarios() -> list[Scenario]:
    """In the order in which they are run."""
    return [
        *_both("1-1.one", "1→1, one in flight", ONE_TO_ONE, 1, _same(ONE), quick="01"),
        *_both("1-1.w20", "1→1, window 20", ONE_TO_ONE, 20, WINDOW, quick="01"),
        Scenario(
            "1-1.w20.asleep",
            "1→1, window 20, QoS 1, with clients that sleep while they wait",
            Load((*SIZE, "--sleep"), 1, 20),
            {"deliveries/s": WINDOW[1]},
        ),
        *_both("1-1.saturated", "1→1, saturated, varying sizes", VARYING, 0, _same(SATURATED), quick="01"),
        *_both("1-100.one", "1→100, one in flight", FAN_OUT, 1, _same(ONE)),
        *_both("1-100.w20", "1→100, window 20", FAN_OUT, 20, WINDOW, quick="0"),
        *_both("50-1.w20", "50→1 with wildcard, window 20", FAN_IN, 20, WINDOW, quick="0"),
        *_both("50-50.w20", "50→50 pairs, window 20", PAIRS, 20, WINDOW),
        *_both("idle-1000.w20", "1→1 among 1,000 idle wildcards, window 20", IDLE, 20, WINDOW),
        *_both("topics-1000.w20", "1,000 topics in turn, window 20", (*SIZE, "--topics", "1000"), 20, TOPICS),
        *_both("topics-new.w20", "every topic new, window 20", (*SIZE, "--topics", "0"), 20, NEW_TOPICS, quick="0"),
        *_both("1k.saturated", "1→1, saturated, 1 KiB", ("--size", "1024"), 0, _same(SATURATED)),
        Scenario(
            "subs-1000.w20",
            "among 1,000 exact subscriptions of 10 clients, window 20, QoS 0",
            Load((*SIZE, "--idle", "1000", "--idle-conns", "10", "--idle-exact")),
            {"deliveries/s": WINDOW[0]},
        ),
        Scenario(
            "subs-100000.w20",
            "among 100,000 wildcard subscriptions of 200 clients, window 20, QoS 0",
            Load(MANY),
            {"deliveries/s": WINDOW[0]},
            rounds_max=2,
            without=SLOW_SCAN,
        ),
        *[
            Scenario(
                f"rate-500.q{qos}",
                f"500 messages/s, QoS {qos}",
                Load(SIZE, qos, 0, rate=500),
                {"p50 µs": NO_LATER, "p99 µs": NO_LATER},
                quick=not qos,
                variant=PROMPT,
            )
            for qos in (0, 1)
        ],
        Scenario(
            "rate-50.fan-out", "50 messages/s to 100, QoS 0", Load(FAN_OUT, 0, 0, rate=50), LATENCY, variant=PROMPT
        ),
        Scenario(
            "rate-half",
            "at half of its own saturated speed, QoS 0",
            Load(SIZE, 0, 0, half=True),
            {"p50 µs": None, "p99 µs": None},
            variant=PROMPT,
        ),
        Scenario(
            "held-10000", "10,000 idle connections", Load(()), {"KiB/connection": None}, rounds_max=1, hold=10_000
        ),
    ]


def _loads(qos: tuple[int, ...] = (0, 1)) -> list[tuple[str, Load]]:
    window = [(f"w20.q{number}", Load(SIZE, number, 20)) for number in qos]
    return [*window, *[(f"saturated.q{number}", Load(VARYING, number, 0)) for number in qos]]


def features() -> list[Feature]:
    """What a version of the protocol or a setting costs."""
    rows: list[Feature] = []
    for name, load in _loads():
        newer = replace(load, v5=True)
        rows.append(
            Feature(f"v5.{name}", "MQTT 5 / 3.1.1", load, newer, target=Target(0.8, 0.95), quick=name == "w20.q0")
        )
    for name, load in _loads():
        rows.append(
            Feature(
                f"event-log.{name}",
                "event log on / off",
                load,
                load,
                base_variant=Variant(event_log=False),
                target=Target(0.9, 0.97),
                quick=name == "w20.q0",
            )
        )
    for name, load in _loads((1,)):
        # For a session that ends with its connection nothing has to be kept.
        kept = replace(load, options=(*load.options, "--keep-session"))
        title = "safe from power cuts / kept nowhere"
        rows.append(
            Feature(f"durable.{name}", title, kept, kept, variant=Variant(durable=True), quick=name == "w20.q1")
        )
    for name, load in _loads((0,)):
        rows.append(
            Feature(
                f"tls.{name}", "TLS / plain", load, load, base_variant=PROMPT, variant=Variant(tls=True, prompt=True)
            )
        )
    return rows


def lines() -> list[Line]:
    """Two and three brokers in a line."""
    rows: list[Line] = []
    for brokers in (2, 3):
        for qos in (0, 1):
            for window in (1, 20, 500):
                rows.append(
                    Line(
                        f"line-{brokers}.q{qos}.w{window}",
                        f"{brokers} in a line, QoS {qos}, window {window}",
                        Load(SIZE, qos, window),
                        brokers,
                        durable=(True, False) if qos else (False,),
                        targets={True: KEPT_LINE[window], False: LINE[window]} if qos else {},
                        quick=brokers == 2 and window == 20,
                    )
                )
    for window in (20, 500):
        rows.append(
            Line(
                f"line-2.durable.w{window}",
                f"2 in a line, sessions that outlive their connection, QoS 1, window {window}",
                Load((*SIZE, "--keep-session"), 1, window),
                2,
                durable=(True,),
                gain=Target(4, 6),
            )
        )
    for qos in (0, 1):
        rows.append(
            Line(
                f"line-2.rate-500.q{qos}",
                f"2 in a line, 500 messages/s, QoS {qos}",
                Load(SIZE, qos, 0, rate=500),
                2,
                metrics=("p50 µs", "p99 µs"),
                durable=(True, False) if qos else (False,),
                targets={True: NO_LATER, False: NO_LATER},
            )
        )
    return rows
