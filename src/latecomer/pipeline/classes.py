"""Topic classes: what demand is counted by, and what a store keeps. The papers' "topic" is a class.

A class is a topic filter. Either they are named, or all topics that share their first `depth` levels are one:

    depth 2     a/b, a/b/c, a/b/c/d  →  a/b/#          a  →  a

A request belongs to every class with which it has a topic in common: one for `a/#` asks for `a/b/#` and for `a/c/#`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from latecomer.model.errors import FilterError, SettingsError
from latecomer.model.topics import check_filter, topic_overlaps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NONE = ""
"""The class of what belongs to no class; no filter is empty."""
CLASSES_MAX = 1_000_000
DEPTH_MAX = 16
CACHE_MOST = 100_000


class Classes(msgspec.Struct, frozen=True):
    """Topic filters by which things are counted."""

    filters: tuple[str, ...] = ()
    """In the order in which a plan has them."""
    depth: int = 0
    """Levels by which topics were put together; 0: the filters were named."""

    def check(self, source: str | None = None) -> None:
        """Raise a SettingsError that names the filter."""
        if self.depth and not 1 <= self.depth <= DEPTH_MAX:
            raise SettingsError("--depth", f"{self.depth} levels; it must be from 1 to {DEPTH_MAX}")
        if not self.filters and not self.depth:
            raise SettingsError("classes", "there is none; name topic filters, or use --depth", source=source)
        if len(self.filters) > CLASSES_MAX:
            told = f"{len(self.filters):,} are more than the {CLASSES_MAX:,} of a plan; name wider ones"
            raise SettingsError("classes", told, source=source)
        for line, text in enumerate(self.filters, start=1):
            try:
                check_filter(text)
            except FilterError as error:
                raise error.at("classes", source=source, line=line if source else None) from None
        if len(set(self.filters)) < len(self.filters):
            seen: set[str] = set()
            twice = next(text for text in self.filters if text in seen or seen.add(text))  # type: ignore[func-returns-value]
            raise SettingsError("classes", f"{twice!r} is named twice; name it once", source=source)

    def overlapping(self) -> tuple[str, str] | None:
        """Two classes that share topics, if there are such: what is asked for there counts twice."""
        index = Index(self.filters)
        for text in self.filters:
            for other in index.find(text):
                if other != text:
                    return text, other
        return None


def named(filters: Iterable[str], source: str | None = None) -> Classes:
    """Classes by name, checked."""
    classes = Classes(tuple(filters))
    classes.check(source)
    return classes


def read_classes(text: str, source: str) -> Classes:
    """A file with one topic filter in a line; empty lines do not count, and those that begin with `# ` are remarks."""
    lines = [line.strip() for line in text.removeprefix("\ufeff").splitlines()]
    return named((line for line in lines if line and not line.startswith("# ")), source)


def class_of(topic: str, depth: int) -> str:
    """The class of a topic by its first levels; `classes_of_topics` says the same in SQL."""
    levels = topic.split("/")
    return topic if len(levels) < depth else "/".join(levels[:depth]) + "/#"


def own_class(text: str, depth: int) -> str:
    """The class that a request's topic filter names by itself; NONE if it may ask for several."""
    levels = text.split("/")
    fixed = levels[:-1] if levels[-1] == "#" else levels
    if "+" in fixed[:depth] or not fixed or (len(fixed) < depth and len(fixed) < len(levels)):
        return NONE
    return class_of("/".join(fixed), depth)


# -- which classes


class Index:
    """Finds the classes with which a topic or topic filter has a topic in common, in the order of the classes.

    Theory of operation. Two filters have a topic in common only if the levels before their first wildcards agree as far
    as both go. So classes are found by the beginnings of the text in a dictionary, and those that go further than the
    text, by a search in the sorted list of all; the rule of MQTT itself has the last word.
    """

    def __init__(self, filters: Iterable[str]) -> None:
        self.filters = tuple(filters)
        self._by_beginning: dict[tuple[str, ...], list[int]] = {}
        for place, text in enumerate(self.filters):
            self._by_beginning.setdefault(_beginning(text)[0], []).append(place)
        self._beginnings = sorted(self._by_beginning)
        self._known: dict[str, tuple[str, ...]] = {}

    def find(self, text: str) -> tuple[str, ...]:
        """Legal or not: what is no topic filter belongs to nothing."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= CACHE_MOST:
                self._known.clear()
            found = self._known[text] = self._search(text)
        return found

    def _search(self, text: str) -> tuple[str, ...]:
        try:
            check_filter(text)
        except FilterError:
            return ()
        places: list[int] = []
        levels, wild = _beginning(text)
        for count in range(len(levels) + 1):
            places += self._by_beginning.get(levels[:count], ())
        if wild:
            for at in range(bisect_left(self._beginnings, levels), len(self._beginnings)):
                further = self._beginnings[at]
                if further[: len(levels)] != levels:
                    break
                if further != levels:
                    places += self._by_beginning[further]
        return tuple(self.filters[place] for place in sorted(places) if topic_overlaps(self.filters[place], text))


def _beginning(text: str) -> tuple[tuple[str, ...], bool]:
    """The levels before the first wildcard, and whether there is one."""
    levels = text.split("/")
    for at, level in enumerate(levels):
        if level in ("+", "#"):
            return tuple(levels[:at]), True
    return tuple(levels), False


def with_classes(table: DataFrame, column: str, classes: Classes) -> DataFrame:
    """Each row once for every class of the topic or topic filter in `column`: with `class`, and `first` on one of them.

    What belongs to no class has the class NONE. Sums over `first` count each row once.
    Group before you call this: it passes every row through Python, and there are fewer topics than records.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import BooleanType, StringType, StructField, StructType

    schema = StructType([*table.schema.fields, StructField("class", StringType()), StructField("first", BooleanType())])
    return table.withColumn(column, f.coalesce(column, f.lit(""))).mapInArrow(_adder(column, classes.filters), schema)


def _adder(column: str, filters: tuple[str, ...]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def add(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        index = Index(filters)
        for batch in batches:
            rows: list[int] = []
            names: list[str] = []
            firsts: list[bool] = []
            for row, text in enumerate(batch.column(column).to_pylist()):
                found = index.find(text) or (NONE,)
                rows += [row] * len(found)
                names += found
                firsts += [True] + [False] * (len(found) - 1)
            taken = batch.take(pa.array(rows, pa.int64()))
            columns = [*taken.columns, pa.array(names, pa.string()), pa.array(firsts, pa.bool_())]
            yield pa.RecordBatch.from_arrays(columns, names=[*taken.schema.names, "class", "first"])

    return add
