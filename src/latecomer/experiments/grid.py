"""Settings × seeds, in this process or spread over Spark, each measured once.

What was measured is appended to a file, one line each, as soon as it is known. A run that was killed goes on where it
stopped, and a figure that was drawn is drawn again without measuring anew. A line counts only for the code that wrote
it: it carries a digest of the sources that decide what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

import latecomer
from latecomer.experiments.statistics import Estimate, estimate, ratio

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Measures = dict[str, float]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a figure. The fields are the parameters; the seed brings the chance."""

    SOURCES: ClassVar[tuple[str, ...]] = ()
    """Files and packages of ours that decide what is measured."""

    def measure(self, seed: int) -> Measures:
        raise NotImplementedError

    def runs(self, asked: int) -> int:
        """How many seeds it is measured with when so many are asked for; fewer where a run is dear."""
        return asked


class Line(msgspec.Struct, frozen=True):
    """One line of a file of measurements."""

    code: str
    kind: str
    setting: msgspec.Raw
    seed: int
    measures: Measures


class Job(msgspec.Struct, frozen=True):
    """What somebody is told to measure, perhaps on another machine."""

    kind: str
    """Module and class of the setting."""
    setting: bytes
    seed: int

    def run(self) -> Measures:
        return msgspec.json.decode(self.setting, type=_class(self.kind)).measure(self.seed)

    def code(self) -> str:
        """A digest of the sources that decide what is measured."""
        return fingerprint(_class(self.kind).SOURCES)


class Table:
    """What was measured, by setting, in the order of the seeds."""

    def __init__(self, rows: Mapping[Setting, Sequence[Measures]]) -> None:
        self.rows = rows

    def values(self, setting: Setting, name: str) -> list[float]:
        return [measures[name] for measures in self.rows[setting]]

    def mean(self, setting: Setting, name: str) -> Estimate:
        return estimate(self.values(setting, name))

    def ratio(self, setting: Setting, name: str, other: str) -> Estimate:
        """How many times `other` is in `name`: of the means, as one reads it off a figure."""
        return ratio(self.values(setting, name), self.values(setting, other))

    def worse(self, setting: Setting, name: str, other: str) -> Estimate:
        """By how many per cent `name` is above `other`."""
        found = self.ratio(setting, name, other)
        return Estimate(100 * found.mean - 100, 100 * found.half, found.runs)

    def better(self, setting: Setting, name: str, other: str) -> Estimate:
        """By how many per cent `name` is below `other`."""
        found = self.ratio(setting, name, other)
        return Estimate(100 - 100 * found.mean, 100 * found.half, found.runs)


Told = Callable[[int, int], None]
"""Told how many are measured, and of how many."""


Spread = Callable[[Sequence[Job]], Iterator[tuple[Job, Measures]]]
"""Does jobs, in any order."""


def alone(jobs: Sequence[Job]) -> Iterator[tuple[Job, Measures]]:
    """One after the other, here."""
    yield from ((job, job.run()) for job in jobs)


def on_spark(spark: SparkSession) -> Spread:
    """On all cores that Spark has; a measurement is the same wherever it is made."""
    from latecomer.pipeline.grid import spread  # with Spark, which who measures alone need not have

    def spread_out(jobs: Sequence[Job]) -> Iterator[tuple[Job, Measures]]:
        for number, result in spread(spark, _run, [msgspec.msgpack.encode(job) for job in jobs]):
            yield jobs[number], msgspec.msgpack.decode(result, type=Measures)

    return spread_out


def measure(
    settings: Sequence[Setting],
    seeds: int,
    file: Path | None = None,
    *,
    spread: Spread = alone,
    told: Told | None = None,
) -> Table:
    """Measure every setting with the seeds 0, 1, … as often as it runs; what the file has is not measured again."""
    known = dict(_read(file)) if file is not None else {}
    jobs = {setting: [_job(setting, seed) for seed in range(setting.runs(seeds))] for setting in settings}
    wanted = list(dict.fromkeys(job for found in jobs.values() for job in found))
    missing = [job for job in wanted if job not in known]
    told = told or (lambda done, total: None)
    before = len(wanted) - len(missing)
    told(before, len(wanted))
    for new, (job, measures) in enumerate(_record(spread(missing), file if missing else None), start=1):
        known[job] = measures
        told(before + new, len(wanted))
    return Table({setting: [known[job] for job in found] for setting, found in jobs.items()})


@cache
def fingerprint(sources: tuple[str, ...]) -> str:
    """A digest of files and packages of ours."""
    digest = blake2b(digest_size=8)
    root = Path(latecomer.__file__).parent
    for source in sources:
        place = root / source
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _class(kind: str) -> type[Setting]:
    module, _, name = kind.rpartition(".")
    found: type[Setting] = getattr(import_module(module), name)
    return found


def _job(setting: Setting, seed: int) -> Job:
    kind = type(setting)
    return Job(f"{kind.__module__}.{kind.__qualname__}", msgspec.json.encode(setting), seed)


def _run(job: bytes) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.decode(job, type=Job).run())


# -- the file


def _read(file: Path) -> Iterator[tuple[Job, Measures]]:
    if not file.exists():
        return
    for text in file.read_bytes().splitlines():
        try:
            line = msgspec.json.decode(text, type=Line)
        except msgspec.DecodeError:
            continue  # whoever wrote it was killed in the middle
        job = Job(line.kind, bytes(line.setting), line.seed)
        if line.code == job.code():
            yield job, line.measures


def _record(measured: Iterator[tuple[Job, Measures]], file: Path | None) -> Iterator[tuple[Job, Measures]]:
    if file is None:
        yield from measured
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as out:
        if out.tell() and not file.read_bytes().endswith(b"\n"):
            out.write(b"\n")  # the half line of a run that was killed is not to spoil ours
        for job, measures in measured:
            line = Line(job.code(), job.kind, msgspec.Raw(job.setting), job.seed, measures)
            out.write(msgspec.json.encode(line) + b"\n")
            out.flush()
            yield job, measures
