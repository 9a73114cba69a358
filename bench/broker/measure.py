"""The measuring itself: the load generator is compiled, brokers are started, and each has its turn in every round."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from bench.book import BenchError
from bench.broker.brokers import Broker, Certificate, Running, start
from bench.broker.scenarios import Load, Metric, Variant

SOURCE = Path(__file__).with_name("load.c")
FIRST_COUNT = 2_000
COUNT_MAX = 4_000_000
CALIBRATIONS = 4
RATE_LONGER = 3
LINKS_SETTLE_SECONDS = 3.0
LOAD_BOUND = 0.95
"""Share of its core from which on the generator itself may be what is measured."""
HOLD_SETTLE_SECONDS = 1.0


Place = tuple[str, Variant]


@dataclass(frozen=True, slots=True)
class Contender:
    """A broker in one of its variants under one load. `role` tells apart those that share a broker."""

    broker: Broker
    load: Load
    variant: Variant
    role: str = ""

    @property
    def place(self) -> Place:
        """What tells running brokers apart."""
        return self.broker.name, self.broker.heeded(self.variant)

    @property
    def key(self) -> str:
        return f"{self.broker.name}{self.role and ' '}{self.role}"


@dataclass(frozen=True, slots=True)
class Result:
    """What one run said; an error takes the place of figures."""

    values: dict[Metric, float] = field(default_factory=dict)
    error: str | None = None
    load_bound: bool = False
    raw: dict[str, Any] = field(default_factory=dict)


def compile_load(folder: Path) -> tuple[Path, bool]:
    """The load generator, and whether it speaks TLS: only where OpenSSL's headers are."""
    program = folder / "load"
    plain = [os.environ.get("CC", "cc"), "-O2", "-o", str(program), str(SOURCE)]
    for command, tls in (([*plain, "-DWITH_TLS", "-lssl", "-lcrypto"], True), (plain, False)):
        try:
            made = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            raise BenchError(f"a C compiler is needed, and {plain[0]} is none") from None
        if made.returncode == 0:
            return program, tls
    raise BenchError(f"load.c does not compile: {made.stderr.strip().splitlines()[-1]}")


@dataclass(slots=True)
class Bench:
    """Where and how long is measured; starts brokers and runs loads."""

    load: Path
    folder: Path
    tls: Certificate | None
    broker_core: int | None
    load_core: int | None
    seconds: float
    warmup: float
    numbers: count[int] = field(default_factory=count)
    counts: dict[str, int] = field(default_factory=dict)
    maxima: dict[str, float] = field(default_factory=dict)

    def start(self, contender: Contender) -> Running:
        folder = self.folder / f"{contender.broker.name}-{next(self.numbers)}"
        running = start(contender.broker, folder, contender.variant, self.tls, self.broker_core)
        if contender.variant.brokers > 1:
            time.sleep(LINKS_SETTLE_SECONDS)
        return running

    def command(self, running: Running, contender: Contender) -> list[str]:
        far = contender.variant.brokers > 1
        return [
            str(self.load),
            *("--port", str(running.port), "--sub-port", str(running.sub_port), "--run", str(next(self.numbers))),
            *(["--tls"] if contender.variant.tls else []),
            *(["--settle", "0.5"] if far else []),
            *("--watch", ",".join(map(str, running.pids()))),
            *contender.broker.dialect(contender.load),
        ]

    def spawn(self, command: Sequence[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if self.load_core is not None:
            os.sched_setaffinity(process.pid, {self.load_core})
        return process

    def run_load(self, command: Sequence[str]) -> Result:
        process = self.spawn(command)
        try:
            output, complaint = process.communicate(timeout=300)
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.returncode != 0:
            return Result(error=complaint.strip() or f"load ended with {process.returncode}")
        return judge(json.loads(output))

    def run(self, running: Running, contender: Contender) -> Result:
        """One turn of one contender."""
        load = contender.load
        if load.half:
            load = replace(load, half=False, rate=self.maximum(running, contender) / 2)
        command = [*self.command(running, contender), *load.arguments()]
        if load.saturating:
            return self.run_load([*command, "--count", str(self.count(running, contender))])
        # Few messages make a poor percentile: a given rate is held for longer.
        seconds = self.seconds if load.rate is None else self.seconds * RATE_LONGER
        return self.run_load([*command, "--seconds", str(seconds), "--warmup", str(self.warmup)])

    def count(self, running: Running, contender: Contender) -> int:
        """How many messages saturate the broker for about the time of a run; found out at its first turn."""
        key = f"{contender.key} {contender.load} {contender.variant}"
        if key in self.counts:
            return self.counts[key]
        number = FIRST_COUNT
        for _ in range(CALIBRATIONS):
            command = [*self.command(running, contender), *contender.load.arguments(), "--count", str(number)]
            seconds = self.run_load(command).raw.get("seconds", 0.0)
            if not seconds or seconds > self.seconds / 2:
                break
            number = min(COUNT_MAX, int(number * min(self.seconds / seconds, 20)))
        self.counts[key] = number
        return number

    def maximum(self, running: Running, contender: Contender) -> float:
        """Deliveries per second when saturated."""
        if contender.key not in self.maxima:
            load = Load(contender.load.options, contender.load.qos, 0)
            result = self.run(running, replace(contender, load=load))
            self.maxima[contender.key] = result.values.get("deliveries/s", 2000.0)
        return self.maxima[contender.key]

    def hold(self, running: Running, contender: Contender, connections: int) -> Result:
        """Memory of the broker per idle connection."""
        before = running.rss_kib()
        process = self.spawn([*self.command(running, contender), "--hold", "--idle-conns", str(connections)])
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            if not line:
                return Result(error=process.stderr.read().strip())
            time.sleep(HOLD_SETTLE_SECONDS)
            after = running.rss_kib()
            process.stdin.close()
            lost = json.loads(process.stdout.readline())["lost"]
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
        raw = {**json.loads(line), "rss_before_kib": before, "rss_kib": after}
        if lost:
            return Result(error=f"{lost} connections did not hold", raw=raw)
        return Result({"KiB/connection": (after - before) / connections}, raw=raw)


def judge(raw: dict[str, Any]) -> Result:
    """A run counts only when every delivery was complete, once and in order."""
    wrong = [f"{number:,} {what}" for what, number in raw["errors"].items() if number]
    if raw["stalled"]:
        wrong.append("stalled")
    if wrong:
        return Result(error=", ".join(wrong), raw=raw)
    values: dict[Metric, float] = {
        "deliveries/s": raw["deliveries_per_s"],
        "p50 µs": raw["p50_us"],
        "p99 µs": raw["p99_us"],
        "CPU µs": raw["watched_seconds"] / max(1, raw["deliveries"]) * 1e6,
    }
    return Result(values, load_bound=raw["cpu_seconds"] > LOAD_BOUND * raw["seconds"], raw=raw)


@dataclass(slots=True)
class Fleet:
    """The brokers that run. One that the next group needs again stays; starting takes longer than measuring."""

    bench: Bench
    running: dict[Place, Running] = field(default_factory=dict)

    def get(self, contender: Contender) -> Running:
        if contender.place not in self.running:
            self.running[contender.place] = self.bench.start(contender)
        return self.running[contender.place]

    def stop(self, places: Sequence[Place]) -> None:
        for place in places:
            if place in self.running:
                self.running.pop(place).stop()

    def keep(self, contenders: Sequence[Contender]) -> None:
        """Stop all that these do not need."""
        needed = [contender.place for contender in contenders]
        self.stop([place for place in self.running if place not in needed])


def rounds(
    fleet: Fleet, contenders: Sequence[Contender], number: int, hold: int, tick: Callable[[str], None]
) -> dict[str, list[Result]]:
    """Each has its turn in every round, so that a noisy minute is everybody's.

    A broker that fails is out for the rest of the group, and started anew for the next.
    """
    found: dict[str, list[Result]] = {contender.key: [] for contender in contenders}
    failed: dict[Place, str] = {}
    fleet.keep([] if hold else contenders)  # memory is measured in a broker that has done nothing yet
    for _ in range(number):
        for contender in contenders:
            tick(contender.key)
            why = failed.get(contender.place)
            result = Result(error=why) if why else turn(fleet, contender, hold)
            if result.error:
                failed[contender.place] = result.error
                fleet.stop([contender.place])
            found[contender.key].append(result)
    return found


def turn(fleet: Fleet, contender: Contender, hold: int) -> Result:
    try:
        running = fleet.get(contender)
        result = fleet.bench.hold(running, contender, hold) if hold else fleet.bench.run(running, contender)
        if any(process.poll() is not None for process in running.processes):
            return replace(result, error=f"broker ended: {running.last_words()}")
    except BenchError as error:
        return Result(error=str(error))
    return result
