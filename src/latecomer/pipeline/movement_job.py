"""Visits → a movement predictor, and how good it is on weeks that it has not seen: `latecomer movement`.

1. *transitions* from the visits of each client: what was known when it left, and where it turned up next.
2. Time is cut into a part to *learn* from, one to *tune* on, and one to *test* on, the last weeks.
3. *Weights* are learned on the tuning part from contexts counted in the part before it.
4. Contexts are counted anew in all that lies before the test. Every method answers every question of the test.
5. The better order on the tuning part is exported, with the contexts that gain something, and is asked once more: as
   the file that a broker would load.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.movement import FIRST_ORDER, PARTS, SECOND_ORDER, write_movement
from latecomer.pipeline.log import find_log
from latecomer.pipeline.measure import check_bad, common
from latecomer.pipeline.movement_accuracy import Accuracy, accuracies
from latecomer.pipeline.movement_export import Kind, asked_of_models, models
from latecomer.pipeline.movement_files import Columns, good, read_files, read_log, refused
from latecomer.pipeline.movement_learn import Sample, learn
from latecomer.pipeline.output import Run, opened, replace
from latecomer.pipeline.stages.movement import (
    BETWEEN,
    KNOWN,
    LEARNED,
    TEST,
    TUNE,
    answered,
    asked,
    contexts,
    parted,
    transitions,
)
from latecomer.pipeline.stages.movement_prune import gains
from latecomer.pipeline.stages.movement_score import Weights, hits, ranked, strict

Told = Callable[[str], None]
MICRO = 1_000_000
WEEK_US = 7 * 86_400 * MICRO
TUNE_MOST = 4
"""The tuning part is as long as the test, but at most one part in so many of what lies before it."""
KEEP_ABOVE = (0.0, 0.5, 2.0, 8.0)
"""Nats that a context must gain to be kept: what is tried beside what is wanted."""
MAX_BAD = 0.1
"""As `latecomer checkins` has it, which reads the same files."""
STAY = "stay"
BACK = "back to where it came from"
OWN = "most frequent of the client"
QUARANTINE = "quarantine"
FIRST, SECOND = "first order with hours", "second order with hours"
STRICT: dict[str, tuple[int, ...]] = {
    "most frequent of all": (7,),
    OWN: (3, 7),
    "first order of the client": (2, 3, 7),
    "second order of the client": (0, 2, 3, 7),
}
LEARNED_METHODS: dict[str, tuple[int, ...]] = {
    "first order": (2, 3, 6, 7),
    FIRST: FIRST_ORDER,
    SECOND: SECOND_ORDER,
}
Predicted = Literal["move", "next"]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted."""

    files: tuple[str, ...] = ()
    log: str = ""
    """Instead of files: the folder of an event log."""
    columns: Columns = Columns()
    test_weeks: float = 4.0
    each: bool = False
    """Every client's own last weeks are the test, for clocks that do not agree."""
    band_h: int = 4
    order: Literal[0, 1, 2] = 0
    """0: the better one on the tuning part."""
    predicted: Predicted = "move"
    """What the exported model predicts."""
    keep_above: float = 2.0
    """Nats that a context must gain to be exported."""
    max_bad: float = MAX_BAD


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """One way to export the model."""

    keep_above: float | None
    """Nats that a context had to gain; None: all contexts are in it."""
    contexts: int
    bytes: int
    accuracy: Accuracy
    """Behind is meant against the one with all contexts."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """How well one kind of question was answered."""

    predicted: Predicted
    learned: int
    """Transitions before the test, those of the tuning part included."""
    tuned: int
    tested: int
    straddling: int
    """Transitions that began before the test and ended in it: neither learned nor asked."""
    clients: int
    """Who were asked for in the test."""
    order: int
    likelihoods: dict[str, float]
    """Of the tuning part, in nats per question."""
    methods: tuple[Accuracy, ...]
    sizes: tuple[Size, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    visits: int
    clients: int
    places: int
    first_us: int
    last_us: int
    rows: int
    refused: dict[str, int]
    test_weeks: float
    band_h: int
    tasks: tuple[Task, ...]


class Outcome(msgspec.Struct, frozen=True):
    report: Report
    model: bytes
    folder: Path | None = None


def predict_movement(
    spark: SparkSession, order: Order, out: Path | None, tell: Told, now_us: int | None = None
) -> Outcome:
    """Learn, test and export; tables go to `out`."""
    now = time.time_ns() // 1000 if now_us is None else now_us
    with ExitStack() as stack:
        run = stack.enter_context(stack.enter_context(opened(out)).run(order, _stamps(order))) if out else None
        tell("reading")
        visits, rows, bad = _visits(spark, order, out, run, now)
        visits.persist()
        stack.callback(visits.unpersist)
        seen = visits.agg(
            f.count("*").alias("visits"),
            f.count_distinct("client").alias("clients"),
            f.count_distinct("place").alias("places"),
            f.min("from_us").alias("first"),
            f.max("from_us").alias("last"),
        ).collect()[0]
        _check_span(order, seen["visits"], seen["first"] or 0, seen["last"] or 0)
        kinds: tuple[Predicted, ...] = ("move", "next") if order.predicted == "move" else ("next", "move")
        model, tasks = b"", []
        for number, kind in enumerate(kinds):
            work = _Work(visits, order, kind, seen["last"] - seen["first"], tell)
            with work.stack:
                task, made = work.task(run, export=number == 0)
            tasks.append(task)
            model = model or made
        report = Report(
            visits=seen["visits"],
            clients=seen["clients"],
            places=seen["places"],
            first_us=seen["first"],
            last_us=seen["last"],
            rows=rows,
            refused=bad,
            test_weeks=order.test_weeks,
            band_h=order.band_h,
            tasks=tuple(tasks),
        )
        if run is not None:
            run.place("model.movement").write_bytes(model)
            run.text("report.json", pretty(report))
    return Outcome(report, model, None if run is None else run.path)


def pretty(report: Report) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


# -- what there is


def _stamps(order: Order) -> list[tuple[str, int, int]]:
    """So that the same run id means the same input."""
    if order.log:
        return [(one.name, one.bytes, one.rows) for one in find_log(Path(order.log)).segments]
    stamps = ((file, Path(file).stat()) for file in order.files if Path(file).exists())
    return [(file, stat.st_size, stat.st_mtime_ns) for file, stat in stamps]


def _visits(
    spark: SparkSession, order: Order, out: Path | None, run: Run | None, now: int
) -> tuple[DataFrame, int, dict[str, int]]:
    if order.log:
        visits, rows, unusable = read_log(spark, Path(order.log), now)
        check_bad(unusable, rows, order.max_bad, "rows", "'latecomer analyze' says why")
        return visits, rows, {"see the quarantine of 'latecomer analyze'": unusable} if unusable else {}
    found = read_files(spark, order.files, order.columns, now)
    told = {row["reason"]: row["count"] for row in found.groupBy("reason").count().collect()}
    rows = sum(told.values())
    bad = {reason: count for reason, count in sorted(told.items(), key=lambda one: str(one[0])) if reason}
    if bad and run is not None:
        run.write(refused(found), QUARANTINE, sort=["file", "reason", "row"])
    try:
        where = "--out DIR keeps them" if out is None else f"see {out / QUARANTINE}"
        check_bad(sum(bad.values()), rows, order.max_bad, "rows", common(bad), where)
    except LatecomerError:
        if run is not None and out is not None:
            replace(run.place(QUARANTINE), out / QUARANTINE)  # the run is given up, what was bad stays to be looked at
        raise
    return good(found), rows, bad


def _check_span(order: Order, visits: int, first: int, last: int) -> None:
    if not visits:
        raise SettingsError("", "there are no visits in it; name other files")
    weeks = (last - first) / WEEK_US
    if order.test_weeks >= weeks / 2:
        told = f"all visits lie within {_length(weeks)}, so a test of {order.test_weeks:g} weeks leaves too little"
        raise SettingsError("--test-weeks", f"{told} to learn from; {_advice(weeks)}")


def _length(weeks: float) -> str:
    for unit, length in (("weeks", 1.0), ("days", 1 / 7), ("hours", 1 / 168)):
        if weeks >= 2 * length:
            return f"{weeks / length:.3g} {unit}"
    return f"{weeks * 7 * 24 * 60:.3g} minutes"


def _advice(weeks: float) -> str:
    """A test of a fifth of the time, where that can be written as a number of weeks."""
    return f"try {weeks / 5:.2g}" if weeks >= 0.05 else "name files or a log of a longer time"


# -- one kind of question


class _Work:
    """One kind of question, from visits to accuracies; what it holds in memory is let go when it is closed."""

    def __init__(self, visits: DataFrame, order: Order, kind: Predicted, span_us: int, tell: Told) -> None:
        self.order, self.kind, self.tell = order, kind, tell
        self.moves_only = kind == "move"
        self.stack = ExitStack()
        test_us = int(order.test_weeks * WEEK_US)
        tune_us = test_us if order.each else min(test_us, (span_us - test_us) // TUNE_MOST)
        moves = transitions(visits, moves_only=self.moves_only, band_h=order.band_h)
        self.moves = self.held(parted(moves, test_us=test_us, tune_us=tune_us, each=order.each))

    def held(self, table: DataFrame) -> DataFrame:
        table.persist()
        self.stack.callback(table.unpersist)
        return table

    def part(self, *names: str) -> DataFrame:
        return self.moves.where(f.col("part").isin(*names))

    def learned(self) -> tuple[dict[str, Weights], dict[str, float]]:
        """The weights of all methods, and how likely those that have learned find the tuning part."""
        self.tell(f"{self.kind}: learning")
        found = self.held(contexts(self.part(*LEARNED)))
        questions = self.held(asked(self.part(TUNE)))
        sample = Sample(answered(questions, found, moves_only=self.moves_only), questions.count())
        weights = {name: strict(chain) for name, chain in STRICT.items()}
        likelihoods = {}
        for name, chain in LEARNED_METHODS.items():
            weights[name], likelihoods[name] = learn(sample, chain)
        return weights, likelihoods

    def task(self, run: Run | None, *, export: bool) -> tuple[Task, bytes]:
        self.tell(f"{self.kind}: counting")
        parts = {row["part"]: int(row["count"]) for row in self.moves.groupBy("part").count().collect()}
        if not parts.get(TEST):
            told = f"nobody was seen twice in the last {self.order.test_weeks:g} weeks; name more of them"
            raise SettingsError("--test-weeks", told)
        weights, likelihoods = self.learned()
        best = self.order.order or (2 if likelihoods[SECOND] > likelihoods[FIRST] else 1)
        method = SECOND if best == 2 else FIRST
        self.tell(f"{self.kind}: asking")
        found = self.held(contexts(self.part(*KNOWN)))
        questions = self.held(asked(self.part(TEST)))
        rankings = self.held(ranked(answered(questions, found, moves_only=self.moves_only), weights))
        names = [*weights, BACK, *([] if self.moves_only else [STAY])]
        scored = hits(rankings, list(weights), back=OWN, stay=not self.moves_only)
        methods = accuracies(scored, names, reference=names.index(method))
        model, sizes = b"", tuple[Size, ...]()
        if export:
            kind = Kind(LEARNED_METHODS[method], weights[method], self.order.band_h, self.moves_only)
            model, sizes = self.exported(found, questions, kind)
        if run is not None:
            flat = rankings.select(*PARTS, "next", "times", f.col("named")[method]["candidate"].alias("named"))
            run.write(flat, f"{self.kind}_answers", sort=[*PARTS, "next"])
            counted = self.moves.groupBy("place", "next").agg(
                f.count("*").alias("times"), f.count_distinct("client").alias("clients")
            )
            run.write(counted, f"{self.kind}_transitions", sort=["place", "next"])
        task = Task(
            predicted=self.kind,
            learned=sum(parts.get(part, 0) for part in KNOWN),
            tuned=parts.get(TUNE, 0),
            tested=parts[TEST],
            straddling=parts.get(BETWEEN, 0),
            clients=methods[0].clients,
            order=best,
            likelihoods=likelihoods,
            methods=methods,
            sizes=sizes,
        )
        return task, model

    def exported(self, found: DataFrame, questions: DataFrame, kind: Kind) -> tuple[bytes, tuple[Size, ...]]:
        """The model as a file, and what it and others of other sizes are worth when a broker asks them."""
        self.tell(f"{self.kind}: exporting")
        rows = gains(self.part(*KNOWN), found, kind.weights, kind.chain, moves_only=self.moves_only)
        wanted = self.order.keep_above
        thresholds = [None, *sorted({*KEEP_ABOVE, wanted})]
        made = models(self.held(rows), kind, thresholds)
        files = [write_movement(model) for model in made]
        named = [str(threshold) for threshold in thresholds]
        told = accuracies(asked_of_models(questions, files, kind.band_h), named, reference=0)
        sizes = tuple(
            Size(keep_above=threshold, contexts=model.contexts(), bytes=len(file), accuracy=one)
            for threshold, model, file, one in zip(thresholds, made, files, told, strict=True)
        )
        return files[thresholds.index(wanted)], sizes
