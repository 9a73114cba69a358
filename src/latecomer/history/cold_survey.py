"""What a cold tier adds up to, slice by slice, with as little reading as that takes.

Theory of operation. Whole hours come from the sums in the footers, and what a file has of some topics is remembered:
replicas ask for the same every minute. Two files that can have an event in common (two stores share the tier, or a slot
was cut differently) must not be added up: unless their sums of the hour are the same, which means that their events
are, the rows of that hour are walked. That is remembered as well, as are the sums of a file that has none in its
footer. Everything narrower than an hour is walked: row groups of that time, of which only keys and topics are read.

A file that is known to be damaged does not answer by its sums: what cannot be read any more must be missed by whoever
compares, so that another store fills the gap.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from threading import Lock

from latecomer.history.cold_catalogue import Catalogue
from latecomer.history.cold_names import Part, stem_of
from latecomer.history.cold_scan import Walk, Want, parts_for, runs_for
from latecomer.history.cold_sums import HOUR_US, unpacked
from latecomer.history.digest import MODULUS, digest_of
from latecomer.model.history import Slice
from latecomer.model.ids import EventId
from latecomer.model.topics import topic_matches

REMEMBERED_MAX = 100_000
"""Slices, about 30 MB."""

Name = tuple[str, int, tuple[tuple[Part, bool], ...]]
"""Topics, an hour or -1, and files, each with whether it is known to be damaged."""


class Surveyor:
    """Adds up the files of a catalogue. Safe to use from several threads."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._lock = Lock()
        self._known: OrderedDict[Name, tuple[Slice, ...]] = OrderedDict()
        self._size = 0

    def survey(self, topics: str, since_us: int, until_us: int, width_us: int) -> tuple[Slice, ...]:
        """What there is from `since_us` to before `until_us`; slices begin at whole multiples of their width."""
        parts = self._catalogue.parts()
        first, end = -(-since_us // HOUR_US) * HOUR_US, until_us // HOUR_US * HOUR_US
        if width_us % HOUR_US or first >= end:
            return self._walked(parts, Want(topics, since_us, until_us - 1), width_us)
        found = list(self._hours(parts, Want(topics, first, end - 1)))
        for low, high in ((since_us, first), (end, until_us)):
            if low < high:
                found += self._walked(parts, Want(topics, low, high - 1), width_us)
        return _added(found, width_us)

    def _hours(self, parts: Sequence[Part], want: Want) -> Iterator[Slice]:
        """Of a time that begins and ends with an hour; the same hour may come several times."""
        held: dict[int, list[tuple[Part, Slice]]] = {}
        for part in parts_for(parts, want):
            for slice in self._of_part(part, want.topics):
                if want.since_us <= slice.start_us <= want.until_us:
                    held.setdefault(slice.start_us, []).append((part, slice))
        for start_us, some in held.items():
            for twins in _twins(some):
                first = twins[0][1]
                if all(slice == first for _, slice in twins):
                    yield first
                else:
                    yield from self._of_hour(want.topics, start_us, [part for part, _ in twins])

    def _of_part(self, part: Part, topics: str) -> tuple[Slice, ...]:
        """The hours of a file, as if there were no other."""

        def add_up() -> tuple[Slice, ...]:
            stored = None if self._catalogue.is_damaged(part) else unpacked(*self._catalogue.sums(part))
            if stored is None:
                return self._walked([part], Want(topics), HOUR_US)
            return _added(
                (
                    Slice(hour * HOUR_US, count, digest)
                    for topic, hour, count, digest in stored
                    if topic_matches(topics, topic)
                ),
                HOUR_US,
            )

        return self._remembered(self._name(topics, -1, [part]), add_up)

    def _of_hour(self, topics: str, start_us: int, parts: Sequence[Part]) -> tuple[Slice, ...]:
        """An hour of files that may have something in common."""
        want = Want(topics, start_us, start_us + HOUR_US - 1)
        return self._remembered(self._name(topics, start_us, parts), lambda: self._walked(parts, want, HOUR_US))

    def _walked(self, parts: Sequence[Part], want: Want, width_us: int) -> tuple[Slice, ...]:
        keys = (seen.key for seen in Walk(runs_for(self._catalogue, parts, want), want))
        single = (Slice(at, 1, digest_of(EventId(origin, epoch, seq))) for at, origin, epoch, seq in keys)
        return _added(single, width_us)

    # --- memory ---

    def _name(self, topics: str, start_us: int, parts: Sequence[Part]) -> Name:
        return topics, start_us, tuple((part, self._catalogue.is_damaged(part)) for part in parts)

    def _remembered(self, name: Name, make: Callable[[], tuple[Slice, ...]]) -> tuple[Slice, ...]:
        with self._lock:
            known = self._known.get(name)
            if known is not None:
                self._known.move_to_end(name)
                return known
        made = make()
        with self._lock:
            if name not in self._known:
                self._known[name] = made
                self._size += 1 + len(made)
            while self._size > REMEMBERED_MAX and len(self._known) > 1:
                self._size -= 1 + len(self._known.popitem(last=False)[1])
        return made


def _added(slices: Iterable[Slice], width_us: int) -> tuple[Slice, ...]:
    counts: dict[int, int] = {}
    digests: dict[int, int] = {}
    for slice in slices:
        start_us = slice.start_us - slice.start_us % width_us
        counts[start_us] = counts.get(start_us, 0) + slice.count
        digests[start_us] = digests.get(start_us, 0) + slice.digest
    return tuple(Slice(start_us, count, digests[start_us] % MODULUS) for start_us, count in sorted(counts.items()))


def _twins(held: list[tuple[Part, Slice]]) -> Iterator[list[tuple[Part, Slice]]]:
    """Sorted so that only files of the same group can have an event in common: neither the topics of their classes nor
    their slots keep them apart."""
    if len(held) == 1:
        yield held
        return
    classes: dict[str, list[tuple[Part, Slice]]] = {}
    stem = None
    for at, one in sorted(((stem_of(one[0].path), one) for one in held), key=itemgetter(0)):
        # In this order, whatever begins like the first of a group stands right behind it.
        if stem is None or not at.startswith(stem):
            stem = at
        classes.setdefault(stem, []).append(one)
    for some in classes.values():
        some.sort(key=lambda one: one[0].start_us)
        group: list[tuple[Part, Slice]] = []
        end_us = -1
        for one in some:
            if one[0].start_us > end_us and group:
                yield group
                group = []
            group.append(one)
            end_us = max(end_us, one[0].end_us)
        yield group
