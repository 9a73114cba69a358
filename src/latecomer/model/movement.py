"""Where a client will turn up next: what brokers load to have its state there before it comes.

Theory of operation. A *context* is what is known when a client leaves: who it is, where it was, where it was before
that, and in which band of hours it left; or only some of these. Each context that has been seen remembers how often
which place came next. A prediction asks the contexts from the most particular to the most general. Each takes a share
of what the ones before it left over, and deals it out as it has seen; how much it may take depends on how much it has
seen and how much that varied, and was learned from weeks that it had not been told of (Jelinek and Mercer's
interpolation). So a client that is new, or in a place that is new to it, is predicted by what others did there.

As a file it is a line that names the format, then deflated MessagePack. Contexts that do not improve on the more
general ones are not in it, and nothing else needs to know: they are simply never found.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter, le

import msgspec

from latecomer.model.errors import SettingsError

MAGIC = b"latecomer movement 1\n"
SIZE_MAX = 256 * 2**20
"""Bytes of a file when inflated: beyond that it is not one of ours."""
DAY_H = 24

PARTS = ("client", "before", "place", "band")
"""What a context can know."""
LEVELS: tuple[tuple[str, ...], ...] = (
    ("client", "before", "place"),
    ("client", "place", "band"),
    ("client", "place"),
    ("client",),
    ("before", "place"),
    ("place", "band"),
    ("place",),
    (),
)
"""Kinds of contexts, in the order in which they are asked."""
FIRST_ORDER = (1, 2, 3, 5, 6, 7)
SECOND_ORDER = (0, 1, 2, 3, 4, 5, 6, 7)

SIZES = 6
VARIETIES = 4
BUCKETS = SIZES * VARIETIES
WEIGHT_ONE = 10_000
"""Weights are whole numbers: this much of what is left over."""
SCORE_ONE = 1_000_000_000
"""Probabilities are added as whole numbers, so that Spark and a broker rank alike to the last bit."""

Followers = tuple[int, ...]
"""How often something came next, then place and times of each that is remembered, the most frequent first."""


def bucket(total: int, different: int) -> int:
    """The class of a context by how much it has seen, and how much that varied: all of one class have one weight."""
    size = min(total.bit_length(), SIZES) - 1
    if different == 1:
        variety = 0
    elif 3 * different < total:
        variety = 1
    elif 3 * different < 2 * total:
        variety = 2
    else:
        variety = 3
    return size * VARIETIES + variety


class Guess(msgspec.Struct, frozen=True):
    """A place where a client may turn up next."""

    place: str
    probability: float


class Movement(msgspec.Struct, frozen=True):
    """A predictor, ready to be asked."""

    places: tuple[str, ...]
    band_h: int
    """Hours of a band; a day has whole ones."""
    levels: tuple[int, ...]
    """Which of LEVELS it asks."""
    weights: tuple[tuple[int, ...], ...]
    """Of each of its levels: for each bucket, what a context takes of what is left, in units of 1/WEIGHT_ONE."""
    moves_only: bool
    """Whether the next *other* place is predicted; else the next place, which may be the same."""
    population: dict[int, Followers]
    """Contexts that know no client, by `key`."""
    clients: dict[str, dict[int, Followers]]
    """Contexts of each client."""
    numbers: dict[str, int] = {}
    """The index of each place; made by `indexed`, and not in the file."""

    def predict(self, client: str, place: str, hour: int, before: str = "", limit: int = 3) -> tuple[Guess, ...]:
        """The likeliest next places of a client that left `place` in that hour of the day (UTC), likeliest first.

        `before` is the place in which it was before, if that is known. Who or what has never been seen is no error.
        """
        here, past = self.numbers.get(place, -1), self.numbers.get(before, -1)
        own = self.clients.get(client, {})
        scores: dict[int, int] = {}
        left = 1.0
        for level, weights in zip(self.levels, self.weights, strict=True):
            parts = LEVELS[level]
            key = self._asked(parts, here, past, hour)
            found = None if key is None else (own if parts[:1] == ("client",) else self.population).get(key)
            if found is None:
                continue
            total, different = found[0], len(found) // 2
            if self.moves_only and "place" not in parts and here >= 0:
                total, different = _without(found, here)
                if total <= 0 or not different:
                    continue
            weight = weights[bucket(total, different)] / WEIGHT_ONE
            taken = left * weight
            for index in range(1, len(found), 2):
                if not (self.moves_only and found[index] == here):
                    score = int(taken * found[index + 1] / total * SCORE_ONE)
                    scores[found[index]] = scores.get(found[index], 0) + score
            left = left * (1.0 - weight)
        ranked = sorted((-score, self.places[number]) for number, score in scores.items() if score)
        return tuple(Guess(name, -score / SCORE_ONE) for score, name in ranked[:limit])

    def _asked(self, parts: Sequence[str], here: int, past: int, hour: int) -> int | None:
        if ("place" in parts and here < 0) or ("before" in parts and past < 0):
            return None
        return self.key(
            past if "before" in parts else -1,
            here if "place" in parts else -1,
            hour % DAY_H // self.band_h if "band" in parts else -1,
        )

    def key(self, before: int, place: int, band: int) -> int:
        """A context as one number; -1 where it does not know."""
        return ((before + 1) * (len(self.places) + 1) + place + 1) * (DAY_H // self.band_h + 1) + band + 1

    def contexts(self) -> int:
        return len(self.population) + sum(map(len, self.clients.values()))


def _without(found: Followers, here: int) -> tuple[int, int]:
    """How much a context has seen, and how many different places, but for the one that is left."""
    for index in range(1, len(found), 2):
        if found[index] == here:
            return found[0] - found[index + 1], len(found) // 2 - 1
    return found[0], len(found) // 2


def indexed(movement: Movement) -> Movement:
    """The same, with the index that predictions need."""
    return msgspec.structs.replace(movement, numbers={name: number for number, name in enumerate(movement.places)})


# --- files ---


class _File(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    band_h: int
    moves_only: bool
    levels: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    places: tuple[str, ...]
    population: dict[int, Followers]
    clients: dict[str, dict[int, Followers]]


def write_movement(movement: Movement) -> bytes:
    """The file; the same predictor gives the same bytes."""
    file = _File(
        movement.band_h,
        movement.moves_only,
        movement.levels,
        movement.weights,
        movement.places,
        dict(sorted(movement.population.items())),
        {client: dict(sorted(rows.items())) for client, rows in sorted(movement.clients.items())},
    )
    return MAGIC + zlib.compress(msgspec.msgpack.encode(file), 9)


def read_movement(data: bytes, source: str) -> Movement:
    """The predictor in a file, or a SettingsError that says what is wrong with it."""
    if not data.startswith(MAGIC):
        word = b"latecomer movement "
        problem = "is of another version of Latecomer" if data.startswith(word) else "is no movement model"
        raise SettingsError("", f"{problem}; make one with: latecomer movement FILE --model {source}", source=source)
    try:
        file = msgspec.msgpack.decode(_inflated(data[len(MAGIC) :]), type=_File)
        _check(file)
    except (zlib.error, msgspec.DecodeError, ValueError) as error:
        told = f"the movement model is damaged ({error}); make it anew with: latecomer movement FILE --model {source}"
        raise SettingsError("", told, source=source) from None
    return indexed(
        Movement(file.places, file.band_h, file.levels, file.weights, file.moves_only, file.population, file.clients)
    )


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    body = inflater.decompress(data, SIZE_MAX)
    if not inflater.eof:
        raise ValueError(f"more than {SIZE_MAX:,} bytes" if len(body) >= SIZE_MAX else "it ends too early")
    if inflater.unused_data:
        raise ValueError("something follows its end")
    return body


def _check(file: _File) -> None:
    """What the types do not say; a ValueError for the first thing wrong."""
    if file.band_h < 1 or DAY_H % file.band_h:
        raise ValueError(f"bands of {file.band_h} hours")
    if not all(0 <= level < len(LEVELS) for level in file.levels) or list(file.levels) != sorted(set(file.levels)):
        raise ValueError("unknown levels")
    if [len(row) for row in file.weights] != [BUCKETS] * len(file.levels):
        raise ValueError("not one weight for each bucket of each level")
    if not all(0 <= weight <= WEIGHT_ONE for row in file.weights for weight in row):
        raise ValueError("a weight out of range")
    if len(frozenset(file.places)) != len(file.places):
        raise ValueError("a place is named twice")
    contexts = chain(file.population.values(), chain.from_iterable(map(dict.values, file.clients.values())))
    _check_followers(list(contexts), len(file.places))


def _check_followers(contexts: Sequence[Followers], places: int) -> None:
    """Without a loop in Python: a model can have a hundred thousand contexts, and a broker waits for it."""
    if not contexts:
        return
    if any(length < 3 or length % 2 == 0 for length in frozenset(map(len, contexts))):
        raise ValueError("a context that is cut off")
    named = list(chain.from_iterable(map(_places, contexts)))
    if min(named) < 0 or max(named) >= places:
        raise ValueError("a context that names an unknown place")
    times = list(map(_times, contexts))
    if min(chain.from_iterable(times)) < 1 or not all(map(le, map(sum, times), map(_total, contexts))):
        raise ValueError("a context whose sums are wrong")


_total = itemgetter(0)
_places = itemgetter(slice(1, None, 2))
_times = itemgetter(slice(2, None, 2))
